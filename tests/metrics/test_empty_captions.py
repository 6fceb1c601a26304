"""What metrics make of empty captions, beside what released code prints for them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from named_features import NamedFeatures
from tiny_images import noise_png

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.metrics import Context, Items, Metric
from capbench.metrics.capture.metric import Capture
from capbench.metrics.chair import ChairI, ChairS
from capbench.metrics.clip_f1 import ClipF1
from capbench.metrics.clip_s import ClipS, RefClipS
from capbench.metrics.gpt4_eval import Gpt4Eval
from capbench.metrics.incorrect_ending import IncorrectEnding
from capbench.metrics.rep import Rep1

ROOT = Path(capbench.__file__).parent
GOLDEN = json.loads((Path(__file__).parent / "data" / "empty_captions.json").read_text(encoding="utf-8"))
NAMES = list(GOLDEN["system"])


def read(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / file).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The 60 rows that the golden values are of, as their note says."""
    references = {row["image"]: row["references"][0] for row in read("tasks/iiw/iiw_400.jsonl")}
    return [
        {
            "id": row["id"],
            "candidate": GOLDEN["empty"].get(str(number), row["caption"].split(". ")[0]),
            "references": references[row["id"]].split(". ")[:3],
        }
        for number, row in enumerate(read("adapters/models/iiw-p5b.jsonl")[:60])
    ]


def test_empty_captions_count_as_released_code_counts_them(rows: list[dict[str, Any]]):
    table = capbench.score(rows, NAMES)
    assert table.system == pytest.approx(GOLDEN["system"], abs=1e-9)
    for name in NAMES:
        values = [row[name] for row in table.rows]
        np.testing.assert_allclose(values, GOLDEN["rows"][name], rtol=0, atol=1e-9, err_msg=name)
    assert len(table.rows) == 60
    assert [(row["reason"], row["count"]) for row in table.empty] == [("has no letter or digit", 1), ("is empty", 2)]
    assert table.failures == []


def test_left_out_they_take_their_references_with_them(rows: list[dict[str, Any]]):
    table = capbench.score(rows, NAMES, empty_caption="leave_out")
    assert table.system == pytest.approx(GOLDEN["left_out"], abs=1e-9)
    assert len(table.rows) == 57
    assert [(failure["stage"], failure["count"]) for failure in table.failures] == [("candidate", 1), ("candidate", 2)]
    assert table.empty == []
    # Which is what being silent gains.
    assert all(GOLDEN["left_out"][name] > GOLDEN["system"][name] for name in NAMES)


# --- metrics of which pycocoevalcap has none


def items(candidates: list[str], **more: Any) -> Items:
    count = len(candidates)
    references = more.pop("references", [("a dog runs",)] * count)
    return Items([str(n) for n in range(count)], candidates, references, np.ones(count), **more)


def test_clip_s_of_an_empty_caption_is_that_of_the_prompt_alone(tiny_clip, tmp_path: Path):
    encoder = OpenClipEncoder(pretrained=str(tiny_clip.open_clip_folder), device="cpu", dtype="fp32")
    handle = ImageHandle(noise_png(0))
    empty = items(["", "a dog"], images=[handle, handle])
    scores = ClipS().score(empty, Context(encoder=encoder))
    alone = ClipS(prompt="").score(items(["A photo depicts "], images=[handle]), Context(encoder=encoder))
    assert scores.failures == {}
    assert scores.values[0] == pytest.approx(alone.values[0])
    assert scores.values[0] != scores.values[1]
    assert np.isfinite(RefClipS().score(empty, Context(encoder=encoder)).values).all()


def test_chair_finds_no_object_in_an_empty_caption_as_released(table_file: Path):
    marked = items(["", "a dog"], references=[("x",), ("x",)], objects=[frozenset(), frozenset()])
    share, caption = ChairI(synonyms=str(table_file)), ChairS(synonyms=str(table_file))
    assert share.score(marked, Context()).values.tolist() == [0, 1]
    # It adds no mention to CHAIRi, and a caption to CHAIRs.
    assert share.corpus(share.score(marked, Context()), np.ones(2)) == 1
    assert caption.corpus(caption.score(marked, Context()), np.ones(2)) == 0.5


def test_capture_of_an_empty_caption_is_0_whatever_parses():
    empty = items(["", "  ", "a red circle"], references=[("a red circle",)] * 3)
    scores = Capture(parser="grammar", soft=False, synonyms=False).score(empty, Context())
    assert scores.failures == {}
    assert scores.values.tolist() == pytest.approx([0, 0, 1 / 1.2], abs=1e-5)


def test_clip_f1_of_an_empty_caption_is_0_and_nothing_is_encoded_for_it():
    images, encoder = [ImageHandle(b"an image")], NamedFeatures({})
    scores = ClipF1(parts="whole").score(items([""], images=images), Context(encoder=encoder))
    assert scores.failures == {}
    assert scores.values.tolist() == scores.parts["text_parts"].tolist() == [0]
    assert encoder.encoded == []


def test_gpt4_eval_of_an_empty_caption_is_0_and_the_judge_is_asked_about_the_others(tmp_path, answers):
    (tmp_path / "prompt.txt").write_text("{references}|{candidates}")
    judge = answers([{"prompt": "a dog runs|Caption 1: a dog", "response": '{"scores": [5]}'}])
    scores = Gpt4Eval(prompt=str(tmp_path / "prompt.txt")).score(items(["", "a dog"]), Context(judge=judge))
    assert scores.failures == {}
    assert scores.values.tolist() == [0, 1]


@pytest.mark.parametrize("metric", [Rep1(), IncorrectEnding()])
def test_metric_of_which_less_is_better_has_no_value_for_an_empty_caption(metric: Metric):
    scores = metric.score(items(["", "a dog runs"]), Context())
    assert scores.failures == {0: "candidate has no token after tokenisation"}
    assert scores.values.tolist() == pytest.approx([np.nan, 0], nan_ok=True)
