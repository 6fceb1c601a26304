"""Scoring rows that are at hand, in Python."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_shards import LongestOf, Picky, RankOf
from own_entries import own_entries

import capbench
from capbench.benchmarks.running import rows as score_rows
from capbench.errors import DataError, MetricError, UsageError
from capbench.metrics import Context, Items, Metric, Scores, metrics
from capbench.rows import BadRow

ROWS = [
    {"id": "a", "image": "1.jpg", "candidate": "a dog runs", "references": ["a dog is running"]},
    {"id": "b", "image": "2.jpg", "candidate": "two cats", "references": ["two cats sleep", "cats"]},
]


class HalfFails(Metric):
    """Scores captions of one word, and no others."""

    label = "Half"
    source = "here"

    def score(self, items: Items, context: Context) -> Scores:
        counts = [len(candidate.split()) for candidate in items.candidates]
        failures = {number: "has several words" for number, count in enumerate(counts) if count > 1}
        values = np.array([math.nan if number in failures else 0.5 for number in range(len(items))])
        return Scores(values, failures=failures)


class NeedsParts(HalfFails):
    """The same, of captions whose objects and parts are known."""

    needs = frozenset({"objects", "boxes"})


user_metrics = own_entries(metrics, autouse=False, half_fails=HalfFails, needs_parts=NeedsParts)


def failures(table) -> dict[str, list[str]]:
    return {f"{f['stage']} {f['reason']}": f["samples"] for f in table.failures}


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.none() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.sampled_from(["a dog", "\0", "\ud800", "!!!", ["a dog"], '["a dog"]', "[[[[", "x" * 30_000]),
)
GIVEN_ROWS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "image", "candidate", "references", "objects", "boxes"), ANYTHING)
)


@settings(max_examples=30)
@given(st.lists(GIVEN_ROWS | st.just(BadRow("file:1", "not JSON")), max_size=6))
def test_every_row_that_is_given_is_scored_or_named(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]):
    sound = {"id": "sound", "candidate": "a dog", "references": ["a dog runs"]}
    store = tmp_path_factory.getbasetemp() / "rows.sqlite"
    table = capbench.score([sound, *rows], ["length", "bleu_1"], store=store)
    named = sum(failure["count"] for failure in table.failures if failure["stage"] != "metric")
    assert len(table.rows) + named == len(rows) + 1


def test_each_caption_gets_its_score_and_the_metric_its_system_value():
    table = capbench.score(ROWS, ["length"])
    assert [(row["id"], row["length"]) for row in table.rows] == [("a", 3), ("b", 2)]
    assert table.system == {"length": 2.5}
    assert table.failures == []
    assert list(table.to_pandas().columns) == ["id", "image", "candidate", "length"]


def test_rows_that_repeat_a_caption_weigh_as_often_as_they_occur():
    rows = [{"candidate": "one", "image": "x"}] * 3 + [{"id": None, "candidate": "one two three", "image": None}]
    table = capbench.score(rows, ["length"])
    assert [row["length"] for row in table.rows] == [1, 1, 1, 3]
    assert table.system["length"] == 1.5
    # Those without an id and an image are told apart by their number.
    assert [(row["id"], row["image"]) for row in table.rows[2:]] == [("2", "x"), ("3", "3")]


def test_references_are_asked_for_only_by_metrics_that_need_them():
    rows: list[dict[str, Any]] = [{"candidate": "a dog", "references": value} for value in (None, [], 5, [None])]
    assert capbench.score(rows, ["length"]).system == {"length": 2}
    with pytest.raises(DataError, match="no row can be scored; 0: reference is an empty list"):
        capbench.score(rows, ["length", "bleu_1"])


def test_captions_without_spaces_between_words_are_remarked_where_metrics_count_words(user_metrics):
    captions = [
        "一只狗在沙滩上奔跑",
        "สุนัขวิ่งบนชายหาด",
        "개가 해변에서 달린다",
        "собака бежит",
        "a sign says 北京",
        "一只 狗 奔跑",
    ]
    rows = [{"id": str(n), "candidate": caption, "references": [caption]} for n, caption in enumerate(captions)]
    for metric in ("length", "bleu_1", "rouge_l", "cider", "rep_1"):
        (remark,) = capbench.score(rows, [metric]).remarks
        assert remark["stage"] == "candidate"
        assert remark["samples"] == ["0", "1"]
        assert "without spaces between words" in remark["reason"]
    assert capbench.score(rows, ["half_fails"]).remarks == []
    assert capbench.score(rows, ["bleu_1[tokenizer=char]"]).remarks == []
    marked = {remark["reason"]: remark["samples"] for remark in capbench.score(rows, ["incorrect_ending"]).remarks}
    assert marked["is not in Latin letters, and %Incorrect reads English alone"] == ["2", "3", "5"]


def test_rows_that_cannot_be_scored_are_counted_by_reason():
    rows = [
        *ROWS,
        {"id": "no candidate"},
        {"id": "number", "candidate": 3},
        {"id": "a", "candidate": "a second a"},
        {"candidate": ""},
    ]
    table = capbench.score(rows, ["length"], empty_caption="leave_out")
    assert len(table.rows) == 2
    assert failures(table) == {
        "data has no column 'candidate' or 'caption'; its columns are id": ["no candidate"],
        "candidate is not text but int": ["number"],
        "data has an id that occurred before; the first one was kept": ["a"],
        "candidate is empty": ["5"],
    }


def test_row_without_its_image_is_told_from_one_with_a_strange_one():
    rows = [{"id": "none", "candidate": "a dog"}, {"id": "strange", "candidate": "a dog", "image": 3}]
    table = capbench.score(
        [*rows, {"id": "lost", "candidate": "a dog", "image": "x.jpg"}], ["clip_s"], model="shapes-clip"
    )
    reasons = failures(table)
    assert reasons["image is missing"] == ["none"]
    assert reasons["image is neither a path nor encoded bytes"] == ["strange"]


def test_row_without_the_objects_or_the_boxes_that_a_metric_needs_is_not_scored(user_metrics):
    sound = {"id": "sound", "candidate": "dog", "objects": ["dog"], "boxes": [[0, 0, 1, 1]]}
    rows = [sound, {**sound, "id": "no objects", "objects": None}, {**sound, "id": "no boxes", "boxes": 3}]
    table = capbench.score(rows, ["needs_parts"])
    assert [(row["id"], row["needs_parts"]) for row in table.rows] == [("sound", 0.5)]
    assert {f["stage"]: f["samples"] for f in table.failures} == {"objects": ["no objects"], "image": ["no boxes"]}


def test_captions_that_say_nothing_are_scored_as_empty_ones_and_counted():
    rows = [*ROWS, {"id": "number", "candidate": 3}, {"candidate": " "}, {"candidate": "?", "references": []}]
    table = capbench.score(rows, ["length"])
    assert [(row["id"], row["candidate"], row["length"]) for row in table.rows[2:]] == [
        ("number", "", 0),
        ("3", "", 0),
        ("4", "", 0),
    ]
    assert table.system["length"] == 1
    assert failures(table) == {}
    assert [(entry["stage"], entry["reason"], entry["samples"]) for entry in table.empty] == [
        ("candidate", "is not text but int", ["number"]),
        ("candidate", "is empty", ["3"]),
        ("candidate", "has no letter or digit", ["4"]),
    ]
    # A row that cannot be scored for another reason is no empty caption.
    table = capbench.score(rows, ["length", "bleu_1"])
    assert sum(entry["count"] for entry in table.empty) == 0
    assert len(table.failures) == 1


def test_caption_beyond_what_a_metric_takes_is_cut_for_that_metric_alone_and_counted():
    within = ("a dog runs " * 2_000)[:20_000]
    rows = [
        {"id": "within", "candidate": within, "references": ["a dog runs"]},
        {"id": "beyond", "candidate": within + " in the park", "references": ["a dog runs"]},
        {"id": "unspaced", "candidate": "犬" * 25_000, "references": ["a dog runs"]},
        {"id": "short", "candidate": "a dog runs", "references": ["a dog runs"]},
    ]
    table = capbench.score(rows, ["length", "bleu_1", "meteor"])
    assert table.failures == table.empty == []
    values = {row["id"]: row for row in table.rows}
    assert values["beyond"]["candidate"] == rows[1]["candidate"]
    assert values["beyond"]["length"] == values["within"]["length"] + 3
    assert values["beyond"]["bleu_1"] < values["within"]["bleu_1"]
    assert values["beyond"]["meteor"] == values["within"]["meteor"]
    cut = "is cut at 20,000 characters for METEOR"
    unspaced = "is written without spaces between words, and metrics that count words take it for one"
    assert [(remark["stage"], remark["reason"], remark["samples"]) for remark in table.remarks] == [
        ("candidate", f"{unspaced}; {cut}", ["unspaced"]),
        ("candidate", cut, ["beyond"]),
    ]
    # Where no metric has a limit nothing is cut, and nothing is said.
    assert capbench.score(rows[:2], ["length", "bleu_1"]).remarks == []


def test_rows_that_all_say_nothing_are_an_error_and_no_zero():
    with pytest.raises(DataError, match="no row can be scored; 0: candidate is empty"):
        capbench.score([{"candidate": ""}, {"candidate": "."}], ["length"])


def test_strict_raises_at_the_first_row_that_cannot_be_scored():
    with pytest.raises(DataError, match="empty: candidate is empty"):
        capbench.score([*ROWS, {"id": "empty", "candidate": ""}], ["length"], strict=True)


def test_caption_that_a_metric_cannot_score_is_left_out_of_its_mean(user_metrics):
    rows = [{"id": "one", "candidate": "dog"}, {"id": "two", "candidate": "a dog"}]
    table = capbench.score(rows, ["half_fails", "length"])
    assert table.system == {"half_fails": 0.5, "length": 1.5}
    assert [row["half_fails"] for row in table.rows] == [0.5, None]
    assert failures(table) == {"metric half_fails: has several words": ["two"]}
    # One that scores nothing has no system value, and one that is named twice is computed once.
    table = capbench.score(rows[1:], ["half_fails", "half_fails"])
    assert table.system == {"half_fails": None}


@pytest.mark.parametrize("result", [Scores(np.ones(1)), [1.0, 1.0]], ids=["too few", "no Scores"])
def test_metric_that_does_not_return_the_score_of_each_caption_fails(user_metrics, monkeypatch, result: Any):
    monkeypatch.setattr(HalfFails, "score", lambda *_: result)
    table = capbench.score(ROWS, ["half_fails", "length"])
    assert (table.system["half_fails"], table.system["length"]) == (None, 2.5)
    assert "score() did not return Scores with one value an item" in table.metric_errors["half_fails"]


@pytest.mark.parametrize("names", ["median", "median,rank", "rank,picky"])
def test_values_of_repeated_rows_are_the_same_whatever_the_shards(monkeypatch: pytest.MonkeyPatch, names: str):
    for name, metric in (("median", LongestOf), ("rank", RankOf), ("picky", Picky)):
        monkeypatch.setitem(metrics._entries, name, metric)
    rows = [
        {"image": f"{n}", "candidate": f"dog{'s' * n}", "references": [f"one {n}"]}
        for n in (0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0)
    ]
    whole = capbench.score(rows, names)
    monkeypatch.setattr(score_rows, "SHARD", 4)
    cut = capbench.score(rows, names)
    assert (cut.system, cut.counts, cut.rows) == (whole.system, whole.counts, whole.rows)


def test_unknown_rule_or_metric_and_no_metric_are_usage_errors():
    with pytest.raises(UsageError, match="empty_caption must be zero or leave_out, not 'zeros'"):
        capbench.score(ROWS, ["length"], empty_caption="zeros")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"unknown metric 'lenght'.* 'length'"):
        capbench.score(ROWS, ["lenght"])
    with pytest.raises(UsageError, match="no metric was named"):
        capbench.score(ROWS, [])
    with pytest.raises(UsageError, match="metric 'clip_s' needs a model that"):
        capbench.score(ROWS, ["clip_s"])


def test_without_java_metrics_that_need_none_are_computed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    table = capbench.score(ROWS, ["length", "bleu_1", "meteor", "spice"])
    assert table.system["length"] == 2.5
    assert table.system["bleu_1"] is not None
    assert table.system["meteor"] is not None
    assert table.system["spice"] is None
    assert "SPICE needs stanford-corenlp-3.6.0.jar" in table.metric_errors["spice"]
    with pytest.raises(MetricError, match="metric 'spice': SPICE needs"):
        capbench.score(ROWS, ["spice"])
