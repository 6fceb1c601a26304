"""Sentence encoders: the vectors of sentence-transformers, and checkpoints that pool in another way."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_capture import find_minilm

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.sentences import SentenceEncoder
from capbench.errors import AdapterError

TEXTS = ["a dog", "Two dogs run over the grass.", "", "word " * 400, "a cat on a mat", "a dog"]


def pooled(folder: Path, pooling: dict[str, object]) -> str:
    """Lay out the encoder with another configuration of its pooling."""
    (folder / "1_Pooling").mkdir(parents=True)
    for file in find_minilm().iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 384, **pooling}))
    return str(folder)


@pytest.mark.costly
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path):
    # Cosines of the first text with each, as sentence-transformers 6.2.0 has them.
    cosines = {
        "mean": [1, 0.274172, 0.123675, 0.071502, 0.38503, 1],
        "cls": [1, 0.701894, 0.831674, 0.576477, 0.688722, 1],
    }
    folders = {"mean": str(find_minilm()), "cls": pooled(tmp_path, {"pooling_mode_cls_token": True})}
    for pooling, folder in folders.items():
        encoder = SentenceEncoder(folder, device="cpu")
        vectors = {at: vector for part in encoder.texts(TEXTS) for at, vector in part.vectors.items()}
        rows = np.stack([vectors[at] / np.linalg.norm(vectors[at]) for at in range(len(TEXTS))])
        np.testing.assert_allclose(rows @ rows[0], cosines[pooling], atol=1e-5)
        assert (encoder.context_length, encoder.fingerprint()["pooling"]) == (256, pooling)
        with pytest.raises(AdapterError, match="encodes texts alone"):
            encoder.images([ImageHandle(b"")])


def test_other_pooling_is_refused(tmp_path: Path):
    folder = pooled(tmp_path, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True})
    with pytest.raises(AdapterError, match="neither by the mean of tokens nor by the first one"):
        SentenceEncoder(folder, device="cpu")
