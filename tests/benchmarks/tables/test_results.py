"""Tables of results in the formats that can be pasted."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from made_records import agreement_record

from capbench.benchmarks.protocols.contract import Result
from capbench.benchmarks.published.values import Published
from capbench.benchmarks.records.making import published_entry
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.bootstrap import Interval
from capbench.benchmarks.tables.results import legend, render, result_rows
from capbench.benchmarks.tables.run import Run
from capbench.errors import UsageError


def result(metric: str = "cider", statistic: str = "kendall_c", value: float | None = 0.43912, **keys: Any) -> Result:
    label = (
        {"cider": "CIDEr", "cider[variant=plain]": "CIDEr", "length": "length"}[metric],
        {"kendall_c": "τ-c", "kendall_b": "τ-b"}.get(statistic, statistic),
    )
    given: dict[str, Any] = {"n": 16992, "higher_is_better": True, "scale": 100} | keys
    return Result(metric, statistic, label, value, **given)


def task_run(*results: Result, model: str | None = None, **published: Published) -> TaskRun:
    record = agreement_record({}, task="flickr8k_expert", model_name=model) | {
        "task_alias": "Flickr8k-Expert",
        "n-samples": {"flickr8k_expert": {"original": 5664, "effective": 5664}},
        "published": {key.replace("__", "."): published_entry(one) for key, one in published.items()},
    }
    return TaskRun(Record(record), list(results))


def printed(text: str, scale: float = 100) -> Published:
    return Published(
        "pacspp", "PAC-S++", "Sarto 2024", 1, "Flickr8k-Expert", "CIDEr", "kendall_c", None, float(text), text, scale
    )


def cells(table: str) -> list[list[str]]:
    """Return the cells of a github table, its rule left out."""
    lines = table.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def test_values_intervals_and_published_numbers_are_shown_as_papers_print_them():
    run = task_run(result(interval=Interval(0.42, 0.4567, 0.01, 1000)), model="m", cider__kendall_c=printed("43.9"))
    assert cells(render([run])) == [
        ["Task", "Model", "Metric", "Statistic", "Value", "95% CI", "Published", "Diff", "n"],
        ["Flickr8k-Expert", "m", "CIDEr", "τ-c ↑", "43.91", "[42.00, 45.67]", "43.9", "+0.01", "16,992"],
    ]


def test_difference_has_the_scale_of_the_value_whatever_the_paper_prints():
    (_, row) = cells(render([task_run(result(value=0.43), cider__kendall_c=printed("0.439", scale=1))]))
    assert row[-3:-1] == ["0.439", "-0.900"]


def test_columns_that_nothing_fills_are_dropped():
    (header, _) = cells(render([task_run(result())]))
    assert header == ["Task", "Metric", "Statistic", "Value", "n"]


def test_task_and_metric_are_named_once():
    run = task_run(result(statistic="kendall_b"), result(), result("length"))
    assert [row[:3] for row in cells(render([run, run]))[1:]] == [
        ["Flickr8k-Expert", "CIDEr", "τ-b ↑"],
        ["", "", "τ-c ↑"],
        ["", "length", "τ-c ↑"],
    ] * 2


def test_statistic_that_is_listed_twice_is_told_apart_by_its_name():
    first, second = (Result("cider", name, ("CIDEr", "τ-c"), 0.5, 9, True) for name in ("plain", "weighted"))
    assert [row[2] for row in cells(render([task_run(first, second)]))[1:]] == ["τ-c (plain) ↑", "τ-c (weighted) ↑"]


def test_metrics_of_one_label_are_told_apart_by_their_names():
    run = task_run(result("cider"), result("cider[variant=plain]"), result("length"))
    names = [line.split("|")[2].strip() for line in render([run]).splitlines()[2:]]
    assert names == ["CIDEr (cider)", "CIDEr (cider[variant=plain])", "length"]


def test_value_that_does_not_exist_is_a_dash_without_a_difference():
    run = task_run(result(value=None, n=0, reason="all scores are equal"), cider__kendall_c=printed("43.9"))
    assert cells(render([run]))[1] == [*("Flickr8k-Expert", "CIDEr", "τ-c ↑", "-", "43.9", "0", "all scores are equal")]


def test_legend_explains_the_difference_only_where_a_row_has_one():
    without = task_run(result(value=None, n=0), result("length"), cider__kendall_c=printed("43.9"))
    with_one = task_run(result(), cider__kendall_c=printed("43.9"))
    for runs, said in (([without], "prints"), ([without, with_one], "prints; Diff: ours less that")):
        assert ("Diff" in cells(render(runs))[0]) is ("Diff" in said)
        (line,) = (one for one in legend(runs) if one.startswith("Published"))
        assert line == f"Published: what pacspp, Table 1 {said}"


def test_why_there_is_no_value_is_said_once_a_metric():
    gone = {"value": None, "n": 0, "reason": "39 of 40 rows have a score\nScores are found by id"}
    run = task_run(
        result("cider", **gone),
        result("cider", "kendall_b", **gone),
        result("cider", "spearman", value=None, n=0, reason="all ratings are equal"),
        result("length", **{**gone, "reason": "word " * 21}),
        result("length", "kendall_b", remark="5 systems", p=0.0167),
    )
    assert [row[-1] for row in cells(render([run]))[1:]] == [
        "39 of 40 rows have a score",
        "",
        "all ratings are equal",
        "word " * 19 + "…",
        "5 systems; exact p = 0.0167",
    ]


@pytest.mark.parametrize(
    ("value", "scale", "shown"),
    [
        (0.5, 1, "0.5000"),
        (0.0, 100, "0.00"),
        (105.816, 1, "105.82"),
        (-0.00004, 1, "0.0000"),
        (12345.678, 1, "12,345.68"),
        (17123456.0, 1, "1.712e+07"),
    ],
)
def test_number_of_decimals_follows_the_size(value: float, scale: float, shown: str):
    assert cells(render([task_run(result(value=value, scale=scale))]))[1][3] == shown


def test_latex_is_a_booktabs_table():
    table = render([task_run(result(), cider__kendall_c=printed("43.9"))], "latex")
    assert table.startswith("\\begin{tabular}{lllrrrr}\n\\toprule")
    assert " Flickr8k-Expert & CIDEr    & τ-c         &   43.91 &        43.9 &  +0.01 & 16,992 \\\\" in table


@pytest.mark.parametrize("fmt", ["csv", "json"])
def test_csv_and_json_hold_plain_values(fmt: str):
    run = task_run(
        result(interval=Interval(0.42, 0.45, 0.01, 1000)),
        result("length", value=None, n=0, reason='all scores, "ours", are equal'),
        cider__kendall_c=printed("43.9"),
    )
    text = render([run], fmt)
    rows = json.loads(text) if fmt == "json" else list(csv.DictReader(io.StringIO(text)))
    expected = {
        "task": "flickr8k_expert",
        "model": None,
        "metric": "cider",
        "statistic": "kendall_c",
        "category": "",
        "value": 0.43912,
        "low": 0.42,
        "high": 0.45,
        "stderr": 0.01,
        "p": None,
        "published": 0.439,
        "no_image": None,
        "n": 16992,
        "empty": 0,
        "note": "",
        "reason": "",
    }
    if fmt == "csv":
        expected = {key: "" if value is None else str(value) for key, value in expected.items()}
    assert rows[0] == expected
    assert rows[1]["value"] in (None, "")
    assert rows[1]["reason"] == 'all scores, "ours", are equal'


@pytest.mark.parametrize("fmt", ["github", "latex", "csv", "json"])
def test_no_run_is_an_empty_table(fmt: str):
    assert render([], fmt) in ("", "[]", "\\begin{tabular}{}\n\\toprule\n\\bottomrule\n\\end{tabular}")


def test_unknown_format_is_an_error_that_names_the_nearest():
    with pytest.raises(UsageError, match=r"unknown format 'githb'\. Did you mean 'github'\?") as caught:
        render([], "githb")
    assert caught.value.hint == "Known: github, latex, csv, json."


def test_run_gives_the_same_rows_as_table_and_as_frame():
    run = Run([task_run(result(), result("length", value=None))])
    assert run.to_pandas()["metric"].tolist() == ["cider", "length"] == [r["metric"] for r in result_rows(run.tasks)]
    assert str(run) == run.table() == render(run.tasks)
    assert run["flickr8k_expert"] is run.tasks[0]
    with pytest.raises(KeyError):
        run["other"]
