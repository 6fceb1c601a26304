"""Sentence encoders: the vectors of sentence-transformers, and checkpoints that pool in another way."""

from __future__ import annotations

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
    from sentence_transformers import SentenceTransformer

    for folder in (str(find_minilm()), pooled(tmp_path, {"pooling_mode_cls_token": True})):
        encoder = SentenceEncoder(folder, device="cpu")
        vectors = {at: vector for part in encoder.texts(TEXTS) for at, vector in part.vectors.items()}
        rows = np.stack([vectors[at] / np.linalg.norm(vectors[at]) for at in range(len(TEXTS))])
        expected = SentenceTransformer(folder, device="cpu").encode(TEXTS, normalize_embeddings=True)
        np.testing.assert_allclose(rows, expected, atol=1e-5)
        assert encoder.context_length == 256
        assert encoder.fingerprint()["pooling"] == ("cls" if folder == str(tmp_path) else "mean")
        with pytest.raises(AdapterError, match="encodes texts alone"):
            encoder.images([ImageHandle(b"")])


def test_other_pooling_is_refused(tmp_path: Path):
    folder = pooled(tmp_path, {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True})
    with pytest.raises(AdapterError, match="neither by the mean of tokens nor by the first one"):
        SentenceEncoder(folder, device="cpu")
