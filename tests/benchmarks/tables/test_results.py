"""Tables of results in the formats that can be pasted."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_records import agreement_record
from rated_task import write_rated

import capbench
from capbench.benchmarks.protocols.contract import Result
from capbench.benchmarks.published.values import Published
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.running.plan import resolve_call
from capbench.benchmarks.running.runner import published_entry
from capbench.benchmarks.statistics.bootstrap import Interval
from capbench.benchmarks.tables.results import Run, legend, render, result_rows
from capbench.benchmarks.tables.text import csv_text, html_text
from capbench.errors import UsageError
from capbench.metrics import Context, Items, Metric, Scores, metrics


def result(metric: str = "cider", statistic: str = "kendall_c", value: float | None = 0.43912, **keys: Any) -> Result:
    label = (
        {"cider": "CIDEr", "cider[variant=plain]": "CIDEr", "length": "length"}[metric],
        {"kendall_c": "τ-c", "kendall_b": "τ-b"}.get(statistic, statistic),
    )
    options: dict[str, Any] = {"n": 16992, "higher_is_better": True, "scale": 100} | keys
    return Result(metric, statistic, label, value, **options)


def task_run(*results: Result, model: str | None = None, **published: Published) -> TaskRun:
    record = agreement_record({}, task="flickr8k_expert", model_name=model) | {
        "task_alias": "Flickr8k-Expert",
        "n-samples": {"flickr8k_expert": {"original": 5664, "effective": 5664}},
        "published": {key.replace("__", "."): published_entry(value) for key, value in published.items()},
    }
    return TaskRun(Record(record), list(results))


def printed(text: str, scale: float = 100) -> Published:
    return Published(
        "pacspp", "PAC-S++", "Sarto 2024", 1, "Flickr8k-Expert", "CIDEr", "kendall_c", None, float(text), text, scale
    )


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


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


def test_wide_table_has_headings_and_numbered_notes_and_continues_below(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "53")
    run = task_run(result(interval=Interval(0.42, 0.4567, 0.01, 1000)), result("length", p=0.012), model="m")
    table = render([run])
    assert max(map(len, table.splitlines())) == 53
    first, second = table.split("\n\n")[1:3]
    assert cells(first) == [
        ["Metric", "Statistic", "Value", "95% CI"],
        ["CIDEr", "τ-c ↑", "43.91", "[42.00, 45.67]"],
        ["length", "τ-c ↑", "43.91", ""],
    ]
    assert cells(second) == [
        ["Metric", "Statistic", "n", "Note"], ["CIDEr", "τ-c ↑", "16,992", ""], ["length", "τ-c ↑", "16,992", "[1]"],
    ]  # fmt: skip
    assert table.startswith("Flickr8k-Expert, m\n\n")
    assert table.endswith("\n\n[1] exact p = 0.012")


def test_column_of_intervals_has_their_level_where_all_runs_have_one():
    runs = []
    for level in (0.9, 0.99):
        run = task_run(result(interval=Interval(0.42, 0.4567, 0.01, 1000)))
        values = run.record.values
        runs.append(replace(run, record=Record({**values, "config": {**values["config"], "level": level}})))
    assert "90% CI" in cells(render(runs[:1]))[0]
    assert "CI" in cells(render(runs))[0]


def test_difference_has_the_scale_of_the_value_whatever_the_paper_prints():
    (_, row) = cells(render([task_run(result(value=0.43), cider__kendall_c=printed("0.439", scale=1))]))
    assert row[-3:-1] == ["0.439", "-0.900"]


def test_statistics_and_metrics_of_one_label_are_told_apart_by_their_names():
    run = task_run(result("cider"), result("cider[variant=plain]"), result("length"))
    names = [row[1] for row in cells(render([run]))[1:]]
    assert names == ["CIDEr (cider)", "CIDEr (cider[variant=plain])", "length"]
    first, second = (Result("cider", name, ("CIDEr", "τ-c"), 0.5, 9, True) for name in ("plain", "weighted"))
    assert [row[2] for row in cells(render([task_run(first, second)]))[1:]] == ["τ-c (plain) ↑", "τ-c (weighted) ↑"]


def test_value_that_does_not_exist_is_a_dash_without_a_difference():
    run = task_run(result(value=None, n=0, reason="all scores are equal"), cider__kendall_c=printed("43.9"))
    assert cells(render([run]))[1] == [*("Flickr8k-Expert", "CIDEr", "τ-c ↑", "-", "43.9", "0", "all scores are equal")]


def test_legend_explains_the_difference_only_where_a_row_has_one():
    without = task_run(result(value=None, n=0), result("length"), cider__kendall_c=printed("43.9"))
    with_one = task_run(result(), cider__kendall_c=printed("43.9"))
    for runs, said in (([without], ""), ([without, with_one], "; Diff: ours minus published")):
        assert ("Diff" in cells(render(runs))[0]) is ("Diff" in said)
        (line,) = (line for line in legend(runs) if line.startswith("Published"))
        assert line == f"Published: pacspp, Table 1{said}"


@pytest.mark.parametrize(("value", "scale", "shown"), [
    (0.5, 1, "0.5000"), (0.0, 100, "0.00"), (105.816, 1, "105.82"), (-0.00004, 1, "0.0000"),
    (12345.678, 1, "12,345.68"), (17123456.0, 1, "1.712e+07"),
])  # fmt: skip
def test_number_of_decimals_follows_the_size(value: float, scale: float, shown: str):
    assert cells(render([task_run(result(value=value, scale=scale))]))[1][3] == shown


def test_latex_is_a_booktabs_table():
    table = render([task_run(result(), cider__kendall_c=printed("43.9"))], "latex")
    assert table.isascii()
    assert table.startswith("\\begin{tabular}{lllrrrr}\n\\toprule")
    assert " Flickr8k-Expert & CIDEr    & $\\tau$-c         &   43.91 &        43.9 &  +0.01 & 16,992 \\\\" in table


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
        "task": "flickr8k_expert", "model": None, "metric": "cider", "statistic": "kendall_c", "category": "",
        "value": 0.43912, "low": 0.42, "high": 0.45, "stderr": 0.01, "p": None, "published": 0.439, "no_image": None,
        "n": 16992, "empty": 0, "note": "", "reason": "",
    }  # fmt: skip
    if fmt == "csv":
        expected = {key: "" if value is None else str(value) for key, value in expected.items()}
    assert rows[0] == expected
    assert rows[1]["value"] in (None, "")
    assert rows[1]["reason"] == 'all scores, "ours", are equal'


def test_no_run_is_an_empty_table_and_an_unknown_format_an_error_that_names_the_nearest():
    assert render([]) == render([], "github") == ""
    assert legend([]) == []
    for fmt in ("latex", "csv", "json"):
        assert render([], fmt) in ("", "[]", "\\begin{tabular}{}\n\\toprule\n\\bottomrule\n\\end{tabular}")
    with pytest.raises(UsageError, match=r"unknown format 'githb'\. Did you mean 'github'\?") as caught:
        render([], "githb")
    assert caught.value.hint == "Known: github, latex, csv, json."


def test_run_gives_the_same_rows_as_table_and_as_frame():
    run = Run([task_run(result(), result("length", value=None))])
    assert run.to_pandas()["metric"].tolist() == ["cider", "length"] == [r["metric"] for r in result_rows(run.tasks)]
    assert run.table() == render(run.tasks)
    assert str(run) == "\n".join([run.table(), "", *legend(run.tasks)])
    assert run["flickr8k_expert"] is run.tasks[0]
    with pytest.raises(KeyError):
        run["other"]


# -- A run that is read back is the run that was made


AGREEMENT = {"statistics": ["kendall_c", "pearson"], "scale": 100}
PREFERENCE = {
    **dict.fromkeys(("doc_to_candidate", "doc_to_human", "statistics")), "output_type": "preference",
    "doc_to_candidates": "candidates", "doc_to_preferred": "preferred", "doc_to_category": "kind",
}  # fmt: skip
METRICS = ["length", "rouge_l", "bleu_4", "cider", {"metric": "cider", "variant": "plain", "name": "plain"}]


def made(folder: Path, keys: dict[str, Any], **options: Any) -> capbench.Run:
    """Run a task of forty captions of twenty images, rated by their length; the last one has no caption."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(40):
        words = int(generator.integers(1, 9))
        candidate = (
            "" if number == 39 else " ".join(["a", "dog", "runs", "over", "the", "wet", "green", "grass"][:words])
        )
        rows.append(
            {
                "id": f"r{number}",
                "image": number // 2,
                "candidate": candidate,
                "candidates": ["", ""] if number == 39 else [candidate, "a dog"],
                "references": ["a dog runs over the grass", f"a dog number {number // 2}"],
                "ratings": words + float(generator.random()),
                "preferred": int(words < 4),
                "kind": "long" if words > 4 else "short",
            }
        )
    write_rated(folder, rows, metric_list=METRICS, **keys)
    options = {"resamples": 30, "output_path": folder / "runs", **options}
    return capbench.evaluate(tasks="rated", include_path=[folder], **options)


@pytest.mark.parametrize("keys", [AGREEMENT, PREFERENCE], ids=["agreement", "preference"])
@pytest.mark.parametrize("options", [
    {}, {"resamples": 0}, {"log_samples": "scores"}, {"metrics": ["length"], "limit": 1},
], ids=["intervals", "no intervals", "scores alone", "undefined"])  # fmt: skip
def test_run_that_is_read_back_prints_the_table_of_the_fresh_run(tmp_path, keys, options):
    fresh = made(tmp_path, keys, **options)
    again = capbench.load_run(fresh["rated"].folder)
    for fmt in ("github", "latex", "csv", "json"):
        assert again.table(fmt) == fresh.table(fmt)
    assert str(again) == str(fresh)


# -- What stands under a table: only what is in it, in the figures of the table


HC = "HC: both captions are true, one says more"


def test_captioner_has_arrows_at_metrics_and_ceilings_as_shown(tmp_path: Path):
    run = capbench.evaluate("iiw-p5b", "iiw_400", metrics=["cider", "length", "bleu_1"], limit=5, resamples=0)
    assert [line.split("|")[3].strip() for line in run.table().splitlines()[2:]] == ["CIDEr ↑", "length", "BLEU-1 ↑"]
    assert legend(run.tasks) == [
        "↑ higher is better", "values are × 100; unscaled in csv, json and records", "CIDEr: at most 1,000 as shown",
        "length: no upper limit, unscaled",
    ]  # fmt: skip
    # bench compare puts the longer captions first, and lm-eval knows no metric without a direction.
    assert run.tasks[0].record.higher_is_better("length") is True


def test_categories_measures_and_what_n_counts_are_told_where_they_occur():
    pairs = capbench.evaluate(tasks="shapes_pascal", metrics=["length"], resamples=0)
    lines = legend(pairs.tasks)
    assert HC in lines
    assert [line[:2] for line in lines[lines.index(HC) :][:4]] == ["HC", "HI", "HM", "MM"]
    assert lines[-1] == "n: choices between captions; Shapes-Pascal has 800 documents"
    assert not any(line.startswith(("95% CI", "Group", "Published")) for line in lines)
    matched = capbench.evaluate("shapes-clip", "shapes_dci_all_scm", model_args="dtype=bf16", limit=3, resamples=0)
    explained = legend(matched.tasks)
    assert "shapes-clip: dtype=bf16" in explained
    assert any(line.startswith("SCM: subcrop-caption matching") for line in explained)
    assert not any(line.startswith(("Neg: ", "HC: ")) for line in explained)
    (result,) = matched.tasks[0].results
    assert result.n != 3
    assert explained[-1].startswith("n: entries")
    assert explained[-1].endswith(" has 3 documents")


# -- Texts and numbers as CSV, lines of JSON and HTML


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", ["==1+1", "=cmd()", "+1+1", "-A1", "-", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "+1\n=2"])
def test_text_that_a_spreadsheet_would_compute_is_text(text: str):
    assert read(csv_text([{"model": text, text: 1}])) == [["model", f"'{text}"], [f"'{text}", "1"]]


@pytest.mark.parametrize("value", [-0.25, 1e-05, -3, "-0.25", "+1.5", "a=b", "", "'=1", " =1", "a\rb", "a\nb"])
def test_numbers_and_other_texts_stay_as_they_are(value: object):
    assert read(csv_text([{"a": 0, "value": value}]))[1] == ["0", str(value)]


def test_columns_stand_in_the_order_asked_for_and_what_is_missing_is_empty():
    rows = [{"a": 1, "b": None}, {"b": 2.5}]
    assert csv_text(rows, ["b", "c", "a"]) == "b,c,a\n,,1\n2.5,,"
    assert csv_text(rows) == "a,b\n1,\n,2.5"
    assert csv_text([]) == ""


@pytest.mark.parametrize(
    "control", ["\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"]
)
def test_control_that_turns_a_text_around_is_shown_by_its_number(control: str):
    assert html_text(f"a{control}gpj.exe") == f"a[U+{ord(control):04X}]gpj.exe"


def test_letters_that_run_from_right_to_left_stay_and_markup_is_escaped():
    assert html_text("שלום \u200f\u2029 <b title='x'>") == "שלום \u200f\u2029 &lt;b title=&#x27;x&#x27;&gt;"
    assert html_text(None) == "None"


# -- What notebooks show of runs, scores and plans: the numbers, with nothing in it that a browser would carry out


HOSTILE = "<script>alert('a')</script><img src=x onerror=alert(1)> $\\href{javascript:alert(1)}{x}$ \u202e"
TAGS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "small", "br"}


class Seen(HTMLParser):
    """Gathers tags, attributes and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def seen(html: str) -> Seen:
    page = Seen(html)
    assert page.tags <= TAGS
    assert page.attributes <= {"class", "style"}
    # MathJax makes links of what stands between dollars, unless it is told to look away.
    assert html.startswith('<div class="tex2jax_ignore mathjax_ignore">')
    return page


@pytest.fixture
def hostile_metric(monkeypatch: pytest.MonkeyPatch):
    class Hostile(Metric):
        label = HOSTILE
        source = "here"

        def score(self, items: Items, context: Context) -> Scores:
            return Scores(
                np.array([0.5] + [np.nan] * (len(items) - 1)), failures=dict.fromkeys(range(1, len(items)), HOSTILE)
            )

    monkeypatch.setitem(metrics._entries, "hostile", Hostile)


def test_scores_show_values_the_first_captions_and_what_became_of_the_others(hostile_metric):
    captions = [HOSTILE, *(f"a dog {number}" for number in range(7))]
    table = capbench.score(predictions=captions, references=[["a dog"]] * 8, metrics=["hostile", "length"])
    html = table._repr_html_()
    page = seen(html)
    assert page.cells[:6] == ["metric", "label", "value", "aggregation", "n", "empty"]
    assert page.cells[6] == "hostile"
    assert page.cells[7].startswith("<script>alert('a')</script><img")
    assert page.cells[8:12] == ["0.500000", "mean", "1", "0"]
    assert "\u202e" not in html
    assert html.count("a dog ") == 4
    assert "failed: 7 × metric hostile: " in html
    assert re.search(r">-</td>", html)


def test_run_shows_its_tables_and_legend_with_names_escaped(hostile_metric):
    run = capbench.evaluate(
        tasks=["shapes_expert"], metrics=["hostile", "length"], resamples=0, limit=40, output_path=None
    )
    html = run._repr_html_()
    page = seen(html)
    assert page.cells[:3] == ["Task", "Metric", "Statistic"]
    assert "Shapes-Expert" in page.cells
    assert "τ-b ↑" in page.cells
    assert "<br>values are × 100" in html
    assert capbench.Run()._repr_html_() == '<div class="tex2jax_ignore mathjax_ignore"></div>'


def test_rules_are_tables_of_their_own_with_titles():
    run = capbench.evaluate(tasks=["checklist_iiw"], metrics=["length"], resamples=0, limit=6)
    html = run._repr_html_()
    assert seen(html).tags >= {"caption"}
    assert html.count("<table>") == 2
    assert "share of captions, or of the mean</caption>" in html


def test_plan_shows_what_would_be_done():
    (planned,) = resolve_call("shapes_expert").plan
    page = seen(planned._repr_html_())
    shown = dict(zip(page.cells[::2], page.cells[1::2], strict=True))
    assert shown["task"] == "shapes_expert (version 1.0, agreement)"
    assert shown["model"] == "none needed"
    assert "cider" in shown["metrics"]
    assert shown["statistics"] == "kendall_b, kendall_c"
    assert "needs a model that encodes images and texts" in shown["not run"]
