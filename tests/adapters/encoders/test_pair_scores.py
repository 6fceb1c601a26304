import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.adapters import ImageHandle
from capbench.adapters.aliases import resolve_model
from capbench.adapters.encoders.pair_scores import RecordedPairs
from capbench.errors import AdapterError, DataError


def recorded(folder: Path, *rows: Any) -> RecordedPairs:
    (folder / "xvlm.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return RecordedPairs(folder / "xvlm.jsonl")


def row(image: str, text: str, score: Any, **more: Any) -> dict[str, Any]:
    return {"image": image, "text": text, "score": score, **more}


def test_score_is_that_of_the_image_the_part_and_the_text(tmp_path: Path):
    held = ImageHandle(b"pixels")
    encoder = recorded(
        tmp_path,
        row("1.jpg", "a dog", 3.5),
        row("1.jpg", "a  cat\n", "-2"),
        row("1.jpg", "a dog", 7, box=[0, 10, 5.5, 20]),
        row("b/1.jpg", "a dog", 4),
        row("b\\2.jpg", "a dog", 5),
        row(held.digest(), "a dog", 6),
    )
    images = [
        ImageHandle(Path("/data/a/1.jpg")),
        ImageHandle(Path("/data/b/1.jpg")),
        ImageHandle(Path("/data/b/2.jpg")),
        ImageHandle(Path("/data/b/1.jpg"), (-0.0, 10.0, 5.5, 20.0)),
        held,
    ]
    texts = [["a dog", "a cat"], ["a dog"], ["a dog"], ["a dog"], ["a dog", "a dog"]]
    (batch,) = encoder.pairs(images, texts)
    assert [scores.tolist() for scores in batch.scores.values()] == [[3.5, -2], [4], [5], [7], [6, 6]]
    assert list(batch.scores) == [0, 1, 2, 3, 4]
    assert batch.scores[0].dtype == np.float32


def test_pair_whose_row_has_another_box_is_another_pair(tmp_path: Path):
    boxed = recorded(tmp_path, row("1.jpg", "a dog", 1), row("b\\2.jpg", " a dog", 1, box=[0, 0, 1, 2]))
    for image, named in (
        (ImageHandle(Path("b/2.jpg")), r"b/2\.jpg"),
        (ImageHandle(Path("1.jpg"), (0, 0, 1, 2)), r"1\.jpg at 0,0,1,2"),
    ):
        with pytest.raises(AdapterError, match=rf"lacks 1 of 1 pairs, first {named}: a dog"):
            list(boxed.pairs([image], [["a dog"]]))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"image": "1.jpg", "score": 1}], "row 1 cannot be read: it has no 'text'; it has: 'image', 'score'"),
        ([row("1.jpg", "t", None)], "row 1 cannot be read: 'score' is not a number: None"),
        ([row("1.jpg", "t", 1), row("1.jpg", "u", "nan")], "row 2 cannot be read: 'score' is not"),
        ([row("1.jpg", "t", -1e39)], "row 1 cannot be read: 'score' is beyond 32 bits: -1e+39"),
        ([{"image": 1, "text": "t", "score": 1}], "'image' and 'text' must be texts"),
        ([{"image": "1", "text": 1, "score": 1}], "'image' and 'text' must be texts"),
        ([row("1.jpg", "t", 1, box=[1, 2, 3])], "row 1 cannot be read: 'box' is not four numbers: [1, 2, 3]"),
        ([row("1.jpg", "t", 1, box="1234")], "'box' is not four numbers: '1234'"),
        ([row("1.jpg", "t", 1, box=[1, 2, 3, "x"])], "'box' is not a number: 'x'"),
        ([row("1.jpg", "t", 1), row("2.jpg", "t", 1), row("1.jpg", " t", 2)],
         "rows 1 and 3 give two scores for one pair"),
    ],
)  # fmt: skip
def test_faulty_row_is_named(tmp_path: Path, rows: list[Any], said: str):
    with pytest.raises(AdapterError, match=r"xvlm\.jsonl: ") as raised:
        recorded(tmp_path, *rows)
    assert said in raised.value.message
    assert raised.value.hint


def test_file_is_named_where_models_are(tmp_path: Path):
    encoder = recorded(tmp_path, row("1.jpg", "t", 1), row("1.jpg", "t", 1.0))
    spec = resolve_model(f"pair_scores:{tmp_path / 'xvlm.jsonl'}")
    assert (spec.name, spec.role, spec.family) == ("xvlm", "encoder", "pairwise")
    named = resolve_model("pair_scores", {"path": str(tmp_path / "xvlm.jsonl"), "name": "X-VLM"}).load()
    assert isinstance(named, RecordedPairs)
    assert named.name == "X-VLM"
    assert named.fingerprint() == encoder.fingerprint()
    assert recorded(tmp_path, row("1.jpg", "t", 2)).fingerprint() != encoder.fingerprint()
    assert encoder.token_ids(["a", "b"]) == [[], []]
    with pytest.raises(DataError, match="no such file"):
        RecordedPairs(tmp_path / "gone.jsonl")
    (tmp_path / "broken.jsonl").write_text("{")
    with pytest.raises(AdapterError, match=r"broken\.jsonl:1"):
        RecordedPairs(tmp_path / "broken.jsonl")
