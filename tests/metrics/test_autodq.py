"""AutoDQ: against the released code, by hand, and with recorded answers."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capbench.metrics import Context, build_metric
from capbench.metrics.autodq import EXTRACT, RELATE, read_entailed, read_events
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.judging import fill

GOLDEN: dict[str, Any] = read_golden("autodq")
REFERENCE = ("A DOG runs. It barks.", "A dog runs.", "A dog barks.")


def extraction(caption: str, answer: str, **more: Any) -> dict[str, Any]:
    return {"prompt": fill(EXTRACT, caption=caption), "response": answer, **more}


def relation(description: str, events: Sequence[str], answer: str | None) -> list[dict[str, Any]]:
    prompt = fill(RELATE, description=description, events=str([*events]))
    return [] if answer is None else [{"prompt": prompt, "response": answer}]


def classes(*names: str) -> str:
    return json.dumps({"events": [{"event": str(n), "relationship": name} for n, name in enumerate(names)]})


def test_recorded_answers_score_as_the_released_code_scores_them(answers):
    cases = GOLDEN["cases"]
    rows = []
    for case in cases:
        caption, reference = case["caption"].lower(), case["reference"].lower()
        rows.append(extraction(caption.replace('"', "'"), case["extracted"]))
        rows += relation(caption, case["reference_events"], case["recall_answer"])
        rows += relation(reference, read_events(case["extracted"]), case["precision_answer"])
    items = golden_items(
        [case["caption"] for case in cases], [(case["reference"], *case["reference_events"]) for case in cases]
    )
    context, printed = Context(judge=answers(rows)), []
    for name in ("autodq", "autodq_recall", "autodq_precision"):
        metric = build_metric(name, {})
        scores = metric.score(items, context)
        assert scores.failures == {}
        for part in ("recall", "precision"):
            assert scores.parts[part].tolist() == [case[part] for case in cases]
        aggregate = metric if metric.aggregation == "corpus" else None
        printed.append(aggregate.corpus(scores, items.weights) if aggregate else scores.values.mean())
    assert [round(value, 3) for value in printed] == GOLDEN["printed"]


def test_caption_and_system_by_hand(answers):
    judge = answers([
        extraction("one", '{"events": ["a", "b"]}'),
        *relation("a dog runs. it barks.", ["a", "b"], classes("entailment", "neutral")),
        *relation("one", REFERENCE[1:], classes("contradiction", "entailment")),
        extraction("two", '{"events": []}'),
        *relation("two", REFERENCE[1:], classes("neutral", "neutral")),
    ])  # fmt: skip
    metric = build_metric("autodq", {})
    items = golden_items(["One", "two", " "], [REFERENCE] * 3)
    scores = metric.score(items, Context(judge=judge))
    # A caption without events, and one without a word, state nothing that the reference does not entail.
    assert scores.parts["precision"].tolist() == [0.5, 1, 1]
    assert scores.parts["recall"].tolist() == [0.5, 0, 0]
    assert scores.values.tolist() == [0.5, 0, 0]
    assert scores.parts["events"].tolist() == [2, 0, 0]
    precision, recall = (0.5 + 1 + 1) / 3, 0.5 / 3
    assert metric.corpus(scores, items.weights) == pytest.approx(2 * precision * recall / (precision + recall))


def test_events_of_the_reference_are_the_judge_s_where_it_is_asked(answers):
    judge = answers([
        extraction("one", '{"events": ["a"]}'),
        extraction("a dog runs. it barks.", '{"events": ["x", "y"]}'),
        *relation("a dog runs. it barks.", ["a"], classes("entailment")),
        *relation("one", ["x", "y"], classes("entailment", "neutral")),
    ])  # fmt: skip
    metric = build_metric("autodq_recall", {"events": "judge"})
    assert metric.score(golden_items(["one"], [REFERENCE]), Context(judge=judge)).values.tolist() == [0.5]
    assert metric.label == "AutoDQ recall (reference's events by the judge)"


def test_answer_that_cannot_be_used_is_asked_for_again_by_another_seed(answers):
    judge = answers([
        extraction("one", "I cannot.", seed=3),
        extraction("one", '{"events": ["a"]}', seed=4),
        *relation("a dog runs. it barks.", ["a"], classes("entailment")),
        *relation("one", REFERENCE[1:], classes("entailment")),
    ])  # fmt: skip
    metric = build_metric("autodq", {"seed": 3, "tries": 2})
    scores = metric.score(golden_items(["one", "one"], [REFERENCE, ()]), Context(judge=judge))
    assert np.isnan(scores.values).all()
    assert scores.failures[0].startswith(
        "relationships: the judge's answer does not give each event one of entailment, neutral, contradiction (2 tries)"
    )
    assert scores.failures[1] == "item has no reference"
    once = build_metric("autodq", {"seed": 3, "tries": 1})
    failures = once.score(golden_items(["one"], [REFERENCE]), Context(judge=judge)).failures
    assert failures == {0: "events: the judge's answer is not a JSON list (1 tries): 'I cannot.'"}


@pytest.mark.parametrize("answer", ["", '{"events": "a"}', '{"events": [1]}', '{"events": [{"a": "b"}]}'])
def test_answer_without_a_list_of_events_has_none(answer: str):
    with pytest.raises(ValueError, match="the judge's answer is not a"):
        read_events(answer)


@pytest.mark.parametrize("answer", ["[]", classes("maybe"), classes("neutral", "neutral"), '["entailment"]'])
def test_answer_that_leaves_out_an_event_is_unusable(answer: str):
    with pytest.raises(ValueError, match="each event"):
        read_entailed(answer, 1)
