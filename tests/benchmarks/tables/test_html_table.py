"""What notebooks show of runs, scores and plans: the numbers, with nothing in it that a browser would carry out."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import capbench
from capbench.benchmarks.running.plan import resolve_call
from capbench.benchmarks.tables.text import html_table
from capbench.metrics import Context, Items, Metric, Scores, metrics

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
    found = Seen(html)
    assert found.tags <= TAGS
    assert found.attributes <= {"class", "style"}
    # MathJax makes links of what stands between dollars, unless it is told to look away.
    assert html.startswith('<div class="tex2jax_ignore mathjax_ignore">')
    return found


@pytest.fixture
def hostile_metric():
    class Hostile(Metric):
        label = HOSTILE
        source = "here"

        def score(self, items: Items, context: Context) -> Scores:
            return Scores(
                np.array([0.5] + [np.nan] * (len(items) - 1)), failures=dict.fromkeys(range(1, len(items)), HOSTILE)
            )

    metrics.add("hostile", Hostile)
    yield
    metrics._entries.pop("hostile")


def test_scores_show_values_the_first_captions_and_what_became_of_the_others(hostile_metric):
    captions = [HOSTILE, *(f"a dog {number}" for number in range(7))]
    table = capbench.score(predictions=captions, references=[["a dog"]] * 8, metrics=["hostile", "length"])
    html = table._repr_html_()
    found = seen(html)
    assert found.cells[:6] == ["metric", "label", "value", "aggregation", "n", "empty"]
    assert found.cells[6] == "hostile"
    assert found.cells[7].startswith("<script>alert('a')</script><img")
    assert found.cells[8:12] == ["0.500000", "mean", "1", "0"]
    assert "\u202e" not in html
    assert html.count("a dog ") == 4
    assert "failed: 7 × metric hostile: " in html
    assert re.search(r">-</td>", html)


def test_run_shows_its_tables_and_legend_with_names_escaped(hostile_metric):
    run = capbench.evaluate(
        tasks=["shapes_expert"], metrics=["hostile", "length"], resamples=0, limit=40, output_path=None
    )
    html = run._repr_html_()
    found = seen(html)
    assert found.cells[:3] == ["Task", "Metric", "Statistic"]
    assert "Shapes-Expert" in found.cells
    assert "τ-b ↑" in found.cells
    assert "<br>values are shown × 100" in html
    assert capbench.Run()._repr_html_() == '<div class="tex2jax_ignore mathjax_ignore"></div>'


def test_rules_are_tables_of_their_own_with_titles():
    run = capbench.evaluate(tasks=["checklist_iiw"], metrics=["length"], resamples=0, limit=6)
    html = run._repr_html_()
    assert seen(html).tags >= {"caption"}
    assert html.count("<table>") == 2
    assert "share of captions, or of the mean</caption>" in html


def test_plan_shows_what_would_be_done():
    (planned,) = resolve_call("shapes_expert").plan
    found = seen(planned._repr_html_())
    shown = dict(zip(found.cells[::2], found.cells[1::2], strict=True))
    assert shown["task"] == "shapes_expert (version 1.0, agreement)"
    assert shown["model"] == "none needed"
    assert "cider" in shown["metrics"]
    assert shown["statistics"] == "kendall_b, kendall_c"
    assert "needs a model that encodes images and texts" in shown["not run"]


def test_columns_of_text_stand_left_and_numbers_right():
    html = html_table([{"a": "x", "b": 1}], left=["a"], title="<t>")
    assert html == (
        '<table><caption>&lt;t&gt;</caption><thead><tr><th style="text-align:left">a</th>'
        '<th style="text-align:right">b</th></tr></thead><tbody><tr><td style="text-align:left">x</td>'
        '<td style="text-align:right">1</td></tr></tbody></table>'
    )
    assert html_table([]) == "<table><thead><tr></tr></thead><tbody></tbody></table>"
