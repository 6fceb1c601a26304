"""ALOHa: against the released arithmetic, by hand, with recorded answers, and on scenes with planted inventions."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from tiny_capture import find_minilm

from capbench.adapters.judges.responses import RecordedResponses
from capbench.errors import MetricError
from capbench.metrics import Context, Metric, Scores, build_metric
from capbench.metrics.aloha import (
    CANDIDATE,
    REFERENCES,
    Aloha,
    Unmatched,
    last_word,
    read_objects,
    root_noun,
    with_roots,
)
from capbench.metrics.golden import golden_items, read_golden
from capbench.tasks.shapes.accounts import account_of
from capbench.tasks.shapes.describing import detailed, detailed_reference
from capbench.tasks.shapes.grading import add_thing
from capbench.tasks.shapes.sampling import sample_scene
from capbench.tasks.shapes.scene import Scene, Stream, generator

pytestmark = pytest.mark.usefixtures("minilm_in_memory")
GOLDEN: list[dict[str, Any]] = read_golden("aloha")["answers"]


@cache
def aloha(**settings: Any) -> Aloha:
    """Return the metric with MiniLM, the same one for the same settings."""
    metric = build_metric("aloha", {"encoder": str(find_minilm()), "root_nouns": "last_word", **settings})
    assert isinstance(metric, Aloha)
    return metric


@pytest.fixture
def judge(answers: Callable) -> Callable[..., RecordedResponses]:
    """Return a function that records a judge's answers: to candidates by their text, to references by a list."""

    def record(candidates: dict[str, str], references: Sequence[tuple[Sequence[str], str]]) -> RecordedResponses:
        rows = [(CANDIDATE.replace("{caption}", text), answer) for text, answer in candidates.items()]
        rows += [
            (REFERENCES.replace("{captions}", "\n".join(f"- {caption}" for caption in its)), answer)
            for its, answer in references
        ]
        return answers({"prompt": question, "response": answer} for question, answer in rows)

    return record


@pytest.mark.parametrize("aggregate", ["min", "mean"])
def test_answers_score_as_the_released_code_scores_them(judge, aggregate):
    of_number = [f"caption {number}" for number in range(len(GOLDEN))]
    answers = judge(
        {text: row["candidate"] for text, row in zip(of_number, GOLDEN, strict=True)},
        [([f"of {text}"], row["references"]) for text, row in zip(of_number, GOLDEN, strict=True)],
    )
    for marked in (False, True):
        numbers = [n for n, row in enumerate(GOLDEN) if (row["detections"] is not None) == marked]
        texts = [of_number[n] for n in numbers]
        objects = [frozenset(GOLDEN[n]["detections"] or ()) for n in numbers]
        items = golden_items(texts, [(f"of {text}",) for text in texts], objects=objects)
        scores = aloha(aggregate=aggregate, detections=marked).score(items, Context(judge=answers))
        # Where it gives -infinity an item has no value, and a reason.
        released = [GOLDEN[n][aggregate] for n in numbers]
        assert set(scores.failures) == {place for place, value in enumerate(released) if value is None}
        expected = [np.nan if value is None else value for value in released]
        assert scores.values == pytest.approx(expected, abs=1e-5, nan_ok=True)


def one(judge: RecordedResponses, **settings: Any) -> Scores:
    return aloha(**settings).score(golden_items(["c"], [["r"]]), Context(judge=judge))


def test_object_for_which_the_references_have_none_left_counts_0_where_that_is_asked_for(judge):
    answers = judge({"c": "- dog\n- boat\n- kite"}, [(["r"], "- dog")])
    released, mended = one(answers), one(answers, unmatched="zero")
    assert released.values == pytest.approx([1.0], abs=1e-6)
    assert mended.values.tolist() == [0.0]
    counts = {"objects": 3, "unmatched": 2, "unknown_words": 0}
    for scores in (released, mended):
        parts = {name: float(values[0]) for name, values in scores.parts.items()}
        assert parts == pytest.approx({**counts, "least": 0, "mean": 1 / 3}, abs=1e-6)
    assert one(answers, unmatched="zero", aggregate="mean").values == pytest.approx([1 / 3], abs=1e-6)


@pytest.mark.parametrize(
    ("candidate", "references", "value", "reason"),
    [
        ("-", "- dog", 1.0, "the candidate names no object"),
        ("- dog", "", 0.0, "the references name no object"),
        ("", "", 1.0, "the candidate names no object"),
    ],
)
def test_side_without_an_object_leaves_the_item_without_a_value_unless_it_is_scored(
    judge: Callable[..., RecordedResponses], candidate: str, references: str, value: float, reason: str
):
    answers = judge({"c": candidate}, [(["r"], references)])
    assert one(answers).failures == {0: reason}
    scored = one(answers, empty="scored")
    assert scored.failures == {}
    assert scored.values.tolist() == [value]


@pytest.mark.parametrize("empty", ["undefined", "scored"])
def test_answer_that_is_no_list_is_quoted_and_stands_for_no_empty_one(judge, empty):
    long = f"1. dog\n* cat {60 * 'x'}"
    for candidate, references, reason in (
        ("I see\nno dog.", "- dog", "candidate: the answer has no line that begins with '-': 'I see no dog.'"),
        ("- dog", long, f"references: the answer has no line that begins with '-': '1. dog * cat {47 * 'x'}…'"),
    ):
        scores = one(judge({"c": candidate}, [(["r"], references)]), empty=empty)
        assert scores.failures == {0: reason}
        assert np.isnan(scores.values).all()


def test_caption_that_says_nothing_and_equal_ones_cost_no_question(judge: Callable[..., RecordedResponses]):
    answers = judge({"a dog": "- dog"}, [(["a dog runs", "a puppy"], "- dog\n- puppy")])
    asked: list[str] = []
    stream = answers.stream
    answers.stream = lambda requests: (asked.extend(request.prompt for request in requests), stream(requests))[1]
    references = ["a dog runs", "a puppy"]
    items = golden_items([" ", "a dog", "a dog", "a cat", "a dog"], [references] * 4 + [[""]])
    scores = aloha().score(items, Context(judge=answers))
    assert len(asked) == 3
    assert scores.values == pytest.approx([np.nan, 1, 1, np.nan, np.nan], abs=1e-6, nan_ok=True)
    assert scores.failures == {
        0: "the candidate names no object",
        3: "candidate: judge: is not among the recorded responses",
        4: "the references name no object",
    }


def test_too_many_choices_are_named(judge, monkeypatch):
    monkeypatch.setattr("capbench.metrics.aloha.MOST_CHOICES", 4)
    for things, failures in ((2, {}), (3, {0: "its objects may be chosen in more than 4 ways"})):
        answers = judge({"c": "\n".join(f"- a{n} or b{n}" for n in range(things))}, [(["r"], "- dog")])
        assert one(answers, empty="scored", root_nouns="none").failures == failures


def test_lines_of_an_answer_are_read_as_released_but_for_empty_ones():
    answer = "Objects:\n- Red Bus or tram\n-cat (possibly)\n- possibly dog\n-x\n- (none)\n- cup, glass or mug (two)\n"
    assert read_objects(answer, certain=True) == [("red bus", "tram"), ("cup", "glass", "mug")]
    uncertain = read_objects(answer, certain=False)
    assert uncertain == [("red bus", "tram"), ("cat",), ("dog",), ("cup", "glass", "mug")]
    assert with_roots([("red bus", "tram"), ("?",)], lambda name: last_word(name) if name != "?" else None) == [
        ("red bus", "tram"), ("bus", "tram"), ("?",)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "root"),
    [("black tank top", "top"), ("man in a suit", "man"), ("box of fruit", "box"), ("on", "on"), ("", None)],
)
def test_last_word_before_a_preposition_stands_for_the_root_noun(name: str, root: str | None):
    assert last_word(name) == root


def test_root_noun_of_a_reference_is_another_object_that_may_be_matched(judge):
    answers = judge({"c": "- player"}, [(["r"], "- baseball player")])
    assert one(answers).values == pytest.approx([1.0], abs=1e-6)
    assert one(answers, root_nouns="none").values[0] < 0.95


def test_released_root_noun_is_the_word_that_hangs_on_no_other():
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    from spacy.tokens import Doc

    heads = {"Man in black": [0, 0, 1], "tank top": [1, 1], "": []}

    def pipeline(name: str) -> Doc:
        return Doc(spacy.blank("en").vocab, words=name.split(), heads=heads[name], deps=["dep"] * len(heads[name]))

    assert [root_noun(pipeline, name) for name in heads] == ["man", "top", None]
    with pytest.raises(MetricError, match="root_nouns"):
        aloha(root_nouns="en_core_web_none").check()


def test_words_that_the_parsers_list_lacks_are_counted_and_shown():
    metric = aloha(objects="grammar", root_nouns=None)
    star, other = ["A star, which is in the sky."], ["There is a star on a table with Dogs."]
    known = metric.score(golden_items(["A star is there.", "A star."], [star, star]), Context())
    assert known.parts["unknown_words"].tolist() == [0, 0]
    assert metric.review([(known, {})]) == []
    # A dog beside the star goes unseen, on either side, and so does a caption of dogs alone.
    scores = metric.score(golden_items(["A star.", "A star and a dog. A dog!", "dog"], [other, star, star]), Context())
    assert scores.values[:2] == pytest.approx(1.0, abs=1e-6)
    assert scores.parts["unknown_words"].tolist() == [2, 2, 1]
    assert scores.failures == {2: "the candidate names no object"}
    (said,) = metric.review([(scores, {}), (known, {})])
    assert said.startswith(
        "passes over 5 words that its parser's list lacks, objects maybe among them, in 3 of 5 items"
    )
    assert metric.explain("A star and a dog. A dog!", other).unknown == ("dog", "table", "dogs")


def test_caption_that_cannot_be_parsed_is_named(tmp_path):
    file = tmp_path / "graphs.jsonl"
    file.write_text(json.dumps({"caption": "a dog", "graph": "( Dog )"}))
    metric = aloha(objects="recorded", parser_model=str(file))
    items = golden_items(["a dog", "a cat", "a dog"], [["a dog"], ["a dog"], ["a dog", "a cat"]])
    scores = metric.score(items, Context())
    assert scores.values[0] == pytest.approx(1.0, abs=1e-6)
    assert scores.failures[1].startswith("candidate: the parser gave no graph")
    assert scores.failures[2].startswith("reference 2: the parser gave no graph")


def lowered(metric: Metric, true: Sequence[str], false: Sequence[str], scenes: Sequence[Scene]) -> float:
    """Return the share of the scenes of which the false caption scores lower."""
    references = [[detailed_reference(scene)] for scene in scenes]
    scores = metric.score(golden_items([*true, *false], [*references, *references]), Context())
    of_true, of_false = scores.values.reshape(2, -1)
    return float((of_false < of_true - 1e-6).mean())


@pytest.mark.parametrize(("unmatched", "expected"), [("zero", 1), ("ignored", 0)])
def test_thing_more_than_there_are_is_found_but_for_the_released_gap(unmatched: Unmatched, expected: int):
    scenes = [sample_scene(seed) for seed in range(12)]
    accounts = [account_of(scene) for scene in scenes]
    added = [
        add_thing(account, scene, generator(scene.seed, Stream.FOILS))
        for account, scene in zip(accounts, scenes, strict=True)
    ]
    metric = aloha(objects="grammar", root_nouns=None, unmatched=unmatched)
    assert lowered(metric, list(map(detailed, accounts)), list(map(detailed, added)), scenes) == expected


def test_explain_says_what_it_cannot(judge: Callable[..., RecordedResponses]):
    metric = aloha(objects="grammar", root_nouns=None)
    with pytest.raises(MetricError, match="the candidate names no object"):
        metric.explain("nothing", ["a star"])
    answers = judge({}, [(["r"], "- dog")])
    with pytest.raises(MetricError, match="candidate: judge: is not among"):
        aloha().explain("c", ["r"], Context(judge=answers))
    with pytest.raises(MetricError, match="annotated objects of the image"):
        aloha(objects="grammar", detections=True).explain("a star", ["a star"])


def test_label_needs_and_fingerprint_say_what_finds_objects(tmp_path):
    judged = build_metric("aloha", {})
    assert (judged.label, judged.needs) == ("ALOHa", {"references", "judge"})
    assert build_metric("aloha", {"objects": "factual"}).label == "ALOHa (FACTUAL)"
    assert aloha(objects="grammar", aggregate="mean", unmatched="zero").label == (
        "ALOHa (grammar, mean, unmatched 0, model)"
    )
    assert aloha(detections=True).needs == {"references", "judge", "objects"}
    own = tmp_path / "prompt.txt"
    own.write_text("Things in {caption}?")
    prints = [
        json.dumps(aloha(**settings).fingerprint(), sort_keys=True)
        for settings in (
            {}, {"candidate_prompt": str(own)}, {"max_tokens": 9}, {"root_nouns": "none"}, {"unmatched": "zero"},
            {"empty": "scored"}, {"aggregate": "mean"}, {"detections": True}, {"objects": "grammar"},
        )
    ]  # fmt: skip
    assert len(set(prints)) == len(prints)
    assert "label" not in aloha().fingerprint()
    # Someone's own variant is another metric to the store.
    own_kind = type("MyAloha", (Aloha,), {})(encoder=str(find_minilm()), root_nouns="last_word")
    assert own_kind.fingerprint() == {**aloha().fingerprint(), "metric": "MyAloha"}


def test_own_prompts_are_asked_and_need_their_field(tmp_path):
    own = tmp_path / "prompt.txt"
    own.write_text("Things in {captions}?")
    with pytest.raises(MetricError, match=r"does not contain \{caption\}"):
        aloha(candidate_prompt=str(own)).check()
    aloha(references_prompt=str(own)).check()
