"""VDCscore: against the released code, and with recorded answers."""

from typing import Any

import numpy as np
import pytest

from capbench.metrics import Context, build_metric
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.judging import fill
from capbench.metrics.vdcscore import ANSWER, ANSWER_SYSTEM, COMPARE, COMPARE_SYSTEM, read_verdict

GOLDEN: dict[str, Any] = read_golden("vdcscore")


def rows_of(caption: str, question: str, answer: str, said: str, verdict: str, **more: Any) -> list[dict[str, Any]]:
    """Return what a judge is asked about a question, and says."""
    compared = fill(COMPARE, question=question, answer=answer, predicted=said)
    return [
        {"prompt": f"{ANSWER_SYSTEM}\n\n{fill(ANSWER, caption=caption, question=question)}", "response": f" {said}\n"},
        {"prompt": f"{COMPARE_SYSTEM}\n\n{compared}", "response": verdict, **more},
    ]


def test_recorded_answers_score_as_the_released_code_scores_them(answers):
    cases = GOLDEN["cases"]
    rows = [row for case in cases for pair in case["pairs"] for row in rows_of(case["caption"], **pair)]
    references = [[f"{pair['question']}\n{pair['answer']}" for pair in case["pairs"]] for case in cases]
    items, context = golden_items([case["caption"] for case in cases], references), Context(judge=answers(rows))
    released = [
        build_metric(name, {"zeros": "leave_out"}).score(items, context) for name in ("vdcscore", "vdc_accuracy")
    ]
    kept = np.isfinite(released[0].values)
    assert np.stack([scores.values[kept] for scores in released], axis=1).tolist() == GOLDEN["captions"]
    assert [scores.values[kept].mean() for scores in released] == pytest.approx(GOLDEN["overall"], abs=1e-12)
    assert [*released[0].failures] == np.flatnonzero(~kept).tolist()
    # By default captions of 0 count.
    counted = build_metric("vdcscore", {}).score(items, context)
    assert counted.failures == {}
    assert counted.values[kept].tolist() == released[0].values[kept].tolist()
    assert counted.parts["questions"].tolist() == [len(case["pairs"]) for case in cases]
    assert counted.values.mean() < released[0].values[kept].mean()


def test_caption_whose_verdict_cannot_be_used_has_no_value(answers):
    good = rows_of("c", "Q?", "a", "an a", "{'pred': 'yes', 'score': 4}")
    bad = rows_of("c", "R?", "b", "no b", "{'pred': 'maybe', 'score': 4}", seed=0)
    again = rows_of("c", "R?", "b", "no b", "Well: {'pred': 'No', 'score': 1.5}.", seed=1)
    items = golden_items(["c", "c", "c"], [("Q?\na", "R?\nb"), ("Q?\na",), ("Q?",)])
    context = Context(judge=answers([*good, *bad, *again[1:]]))
    scores = build_metric("vdcscore", {"tries": 2}).score(items, context)
    assert scores.values == pytest.approx([(4 + 1.5) / 2, 4, np.nan], nan_ok=True)
    assert build_metric("vdc_accuracy", {}).score(items, context).values == pytest.approx([0.5, 1, np.nan], nan_ok=True)
    once = build_metric("vdcscore", {"tries": 1}).score(items, context)
    assert once.failures[0].startswith("verdicts: the judge's verdict has no 'pred' of yes or no (1 tries)")
    assert once.failures[2] == "its references are not questions, each with its answer on the next line"
    assert once.values[1] == 4
    unanswered = build_metric("vdcscore", {}).score(golden_items(["d"], [("Q?\na",)]), context)
    assert unanswered.failures == {0: "answers: judge: is not among the recorded responses"}


@pytest.mark.parametrize(
    "verdict",
    ["", "yes", "['yes', 4]", "{'score': 4}", "{'pred': 'yes'}", "{'pred': 'yes', 'score': '4'}",
     "{'pred': 'yes', 'score': 6}", "{'pred': 'yes', 'score': true}"],
)  # fmt: skip
def test_verdict_needs_yes_or_no_and_a_score(verdict: str):
    with pytest.raises(ValueError, match="the judge's"):
        read_verdict(verdict)
