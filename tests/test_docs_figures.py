"""The page on what each figure means has every metric and statistic, with the label, ends and direction of its own."""

from __future__ import annotations

import math
import re
from pathlib import Path

from capbench.benchmarks.published.values import load
from capbench.benchmarks.statistics import statistics
from capbench.metrics import metrics

PAGE = (Path(__file__).parents[1] / "docs" / "figures.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| `.*", section, flags=re.MULTILINE)
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def ends(low: float, high: float) -> str:
    if math.isinf(low):
        return "no ends"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"


def better(higher: bool | None) -> str:
    return {True: "more", False: "less", None: "neither"}[higher]


def test_every_metric_is_told_of():
    own = {name: metrics[name] for name in metrics if metrics[name].__module__.startswith("capbench.")}
    assert [row[:5] for row in rows("Metrics")] == [
        [
            name,
            one.label,
            ends(*one.range),
            better(one.higher_is_better if one.has_direction else None),
            one.aggregation,
        ]
        for name, one in own.items()
    ]
    assert all(len(row) == 6 and row[5] for row in rows("Metrics"))


def test_every_statistic_is_told_of():
    told = {row[0]: row for row in rows("Statistics")}
    assert {name: row[1:4] for name, row in told.items()} == {
        name: [statistics[name].label, ends(*statistics[name].range), better(statistics[name].higher_is_better)]
        for name in statistics
    }


PAPERS = {"PAC-S++": "pacspp", "DetailCaps": "detailcaps", "DBD": "dbd"}


def test_figures_of_papers_are_those_that_they_print():
    checked = 0
    for row in [*rows("Metrics"), *rows("Statistics")]:
        for said, paper, table in re.findall(r"([^.]*(?:\d\.\d[^.]*)*) \(([\w+-]+), table (\d+)\)", row[-1]):
            records = [one for one in load(PAPERS[paper]).records if str(one.table) == table]
            printed = {one.value for one in records} | {one.value / 100 for one in records}
            for number in re.findall(r"(?<![\d.])\d+\.\d+", said.removeprefix("2.5 times the cosine")):
                digits = len(number.partition(".")[2])
                assert float(number) in {round(value, digits) for value in printed}, (row[0], number)
                checked += 1
    assert checked == 20
