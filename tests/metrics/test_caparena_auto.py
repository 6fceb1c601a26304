from typing import Any

import numpy as np
import pytest

from capbench.adapters import ImageHandle, VideoHandle
from capbench.metrics import Context, Items
from capbench.metrics.caparena_auto import CapArenaAuto, read_verdict


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("Reason: it says more.\nJudgment: Caption 1 is better.", 1),
        ("Reason: x\nJudgment: Caption 2 is better", -1),
        ("judgement: <tie>", 0),
        ("**Judgment:** Caption 2 is better.\n", -1),
        ("Judgment: Tie\nbut then\nJudgment: Caption 1 is better", 1),
        ("Judgment: Caption 1 is a tie", None),
        ("Caption 1 is better.", None),
        ("", None),
    ],
)
def test_verdict_stands_in_the_last_line_that_is_called_so(answer: str, verdict: int | None):
    assert read_verdict(answer) == verdict


def items(*candidates: str, references: Any = ("a rival", "a person"), **more: Any) -> Items:
    count = len(candidates)
    images = [ImageHandle(f"image {n}".encode()) for n in range(count)]
    names = [f"i{n}" for n in range(count)]
    return Items(names, candidates, [references] * count, np.ones(count), **{"images": images, **more})


@pytest.fixture
def judge(answers):
    return lambda said: answers({"prompt": prompt, "response": answer} for prompt, answer in said.items())


@pytest.fixture
def prompt(tmp_path) -> str:
    (tmp_path / "prompt.txt").write_text("{first}|{second}|{reference}")
    return str(tmp_path / "prompt.txt")


def test_value_is_for_the_caption_wherever_it_stands(judge, prompt):
    captions = [f"mine {n}" for n in range(12)]
    first = {f"{caption}|a rival|a person": "Judgment: Caption 1 is better." for caption in captions[:4]}
    second = {f"a rival|{caption}|a person": "Judgment: Caption 2 is better." for caption in captions[:4]}
    lost = {f"{caption}|a rival|a person": "Judgment: Caption 2 is better." for caption in captions[4:8]}
    lost |= {f"a rival|{caption}|a person": "Judgment: Caption 1 is better." for caption in captions[4:8]}
    tie = {
        text: "Judgment: Tie"
        for caption in captions[8:]
        for text in (f"{caption}|a rival|a person", f"a rival|{caption}|a person")
    }
    recorded = judge(first | second | lost | tie)
    for seed in range(3):
        scores = CapArenaAuto(prompt, seed=seed).score(items(*captions), Context(judge=recorded))
        assert scores.values.tolist() == [1] * 4 + [-1] * 4 + [0] * 4
    # Either stands first in some; which one, the seed decides.
    only_first = judge(first | lost | tie)
    halves = [
        CapArenaAuto(prompt, seed=seed, tries=1).score(items(*captions), Context(judge=only_first)) for seed in range(2)
    ]
    asked = [np.isfinite(score.values) for score in halves]
    # By the first byte of SHA-256 of the JSON of seed, caption and rival: even for the caption.
    assert [finite[:4].tolist() for finite in asked] == [[True, False, False, True], [True, False, True, False]]


def test_what_has_no_verdict_is_a_failure_or_counts_nothing_with_a_remark(judge, prompt):
    said = {f"{a}|{b}|a person": "I cannot say." for a, b in (("mine", "a rival"), ("a rival", "mine"))}
    recorded = judge(said)
    failed = CapArenaAuto(prompt, tries=2).score(items("mine"), Context(judge=recorded))
    assert np.isnan(failed.values[0])
    assert failed.failures == {0: "the judge gave no verdict (2 tries)"}
    counted = CapArenaAuto(prompt, tries=2, on_failure="zero").score(items("mine"), Context(judge=recorded))
    assert (counted.values.tolist(), counted.failures) == ([0.0], {})
    assert counted.remarks == {0: "the judge gave no verdict (2 tries), and counts 0"}


def test_own_caption_ties_unasked_and_what_cannot_be_asked_is_named(tmp_path, judge, prompt):
    recorded = judge({"x": "y"})
    assert CapArenaAuto(prompt).score(items("a rival"), Context(judge=recorded)).values.tolist() == [0]
    alone = CapArenaAuto(prompt).score(items("mine", references=("a rival",)), Context(judge=recorded))
    assert alone.failures == {0: "needs two references: the baseline's caption, then a person's"}
    film = items("mine", images=[VideoHandle(tmp_path / "a.mp4")])
    failures = CapArenaAuto(prompt).score(film, Context(judge=recorded)).failures
    assert failures == {0: f"CapArena-Auto takes images, and this is a video: {tmp_path / 'a.mp4'}"}
