"""Common parts of all pages, and the pages of all runs, of a run and of suites."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import BenchError, DataError
from ..comparing.finished_runs import own_decoding
from ..leaderboard.board import SuiteTable
from ..leaderboard.collect import marks_of
from ..leaderboard.suites_of_board import suite_tables
from ..records.record import Record
from ..suites.read import list_suites
from ..tables.pages.rendering import templates
from ..tables.pages.run_rows import about_run, failure_rows, result_row, results_of
from .finding import Pictures, Runs, ShownRun, comparable

EMPTY_CAPTION = "(empty caption)"
MOST_VALUES = 4
"""Maximum number of values per run in the list of runs."""


@dataclass
class Site:
    """Renders pages.

    Attributes:
        runs: The runs to show.
        pictures: Finds images.
    """

    runs: Runs
    pictures: Pictures

    @cached_property
    def _templates(self) -> Any:
        folder = Path(__file__).parent / "templates"
        return templates(folder, own="view", address=address, policy="", empty_caption=EMPTY_CAPTION)

    def render(self, template: str, **values: Any) -> str:
        """Render a template."""
        return self._templates.get_template(template).render(**values)

    def page_of(self, query: Mapping[str, str], total: int, size: int) -> Page:
        """Return a page of a list.

        Args:
            query: Query parameters of the URL; ``page`` is the page number, from 1.
            total: Number of entries in the list.
            size: Number of entries per page.

        Raises:
            NoSuchPageError: The list has no such page.
        """
        text = query.get("page", "1")
        pages = max(1, -(-total // size))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= pages):
            raise NoSuchPageError(f"page '{text}' does not exist: the list has {pages:,}")
        return Page(int(text), (int(text) - 1) * size, min(int(text) * size, total), pages)

    def run(self, key: str) -> ShownRun:
        """Return a run by its name in URLs.

        Raises:
            NoSuchPageError: There is no such run.
        """
        run = self.runs.get(key)
        if run is None:
            raise NoSuchPageError(
                f"there is no run '{key}'; it may have been moved or deleted since", "The first page lists all runs."
            )
        return run


def index_page(site: Site, query: Mapping[str, str]) -> str:
    """Return the page of all runs, grouped by task."""
    runs, faults = site.runs.all()
    words = query.get("q", "").lower().split()
    tasks: dict[str, list[ShownRun]] = {}
    for run in runs:
        record = run.record
        words_of_run = " ".join([run.words, run.began, *record.metrics]).lower()
        if all(word in words_of_run for word in words):
            tasks.setdefault(record.task, []).append(run)
    return site.render(
        "index.html", total=sum(map(len, tasks.values())), query=query.get("q", ""), faults=faults,
        tasks=[_task(site, runs) for runs in tasks.values()], progress=site.runs.in_progress(),
    )  # fmt: skip


def _task(site: Site, runs: Sequence[ShownRun]) -> dict[str, Any]:
    newest = runs[0].record
    # Headers omit the statistic if all results are means or corpus-level values.
    plain = all(result.statistic in ("mean", "corpus") for result in newest.results.values())
    heads = {key: " ".join(filter(None, result.label[: 1 if plain else 2])) for key, result in newest.results.items()}
    shown = dict(list(heads.items())[:MOST_VALUES])
    by_model: dict[str | None, list[Record]] = {}
    for run in runs:
        by_model.setdefault(run.record.model_name, []).append(run.record)
    rows = [
        {
            "run": run,
            "decoding": own_decoding(run.record, by_model[run.record.model_name]),
            "cells": [result_row(run.record, key)["value"] if key in run.record.results else "–" for key in shown],
            "notes": marks_of(run.record, {}),
        }
        for run in runs
    ]
    others = comparable(runs[0], runs)
    return {
        "record": newest, "heads": list(shown.values()), "numbers": len(heads), "runs": rows,
        "compare": address("compare", a=runs[0].key, b=others[0].key) if others else "",
    }  # fmt: skip


def run_page(site: Site, key: str) -> str:
    """Return the page of a run: results, failures, and runs that it can be compared with."""
    run = site.run(key)
    record = run.record
    # Samples without texts do not tell which captions were empty.
    filters = {"failure": record.failures, "counted as empty": record.empty_count and record.samples == "full"}
    pages = {kind: address("runs", key, "samples", q=kind.split()[-1]) for kind, there in filters.items() if there}
    linked: list[str] = []
    with suppress(DataError):
        linked = site.runs.samples(run).metrics
    return site.render(
        "run.html", **run_values(run, linked), sections=about_run(record, key), folder=shlex.quote(str(run.folder)),
        kinds={} if record.samples == "none" else pages,
        to=None if record.samples == "none" else lambda sample: address("runs", key, "samples", q=_with_id(sample)),
        others=[(other.name, address("compare", a=key, b=other.key)) for other in comparable(run, site.runs.all()[0])],
    )  # fmt: skip


def _with_id(sample: str) -> str:
    """Return the filter of the sample with an id."""
    quote = "'" if '"' in sample else '"'
    return f"id = {quote}{sample}{quote}"


def run_values(run: ShownRun, linked: Collection[str] = ()) -> dict[str, Any]:
    """Return template values for the results and failures of a run.

    Args:
        run: The run.
        linked: Columns of samples that metrics link to.
    """
    record = run.record
    columns = {result.metric: record.protocol.score_column(result.metric) for result in record.results.values()}
    orders = {metric: name if record.higher_is_better(name) else f"-{name}" for metric, name in columns.items()}
    pages = {
        metric: address("runs", run.key, "samples", sort=orders[metric])
        for metric in columns
        if columns[metric] in linked
    }
    values = {"results": results_of(record, pages), "failures": failure_rows(record)}
    return {"run": run, "notes": marks_of(record, {}), **values}


def about_page(site: Site, key: str) -> str:
    """Return the page of what decides a run's numbers, and of what they cost."""
    run = site.run(key)
    return site.render("about.html", run=run, sections=about_run(run.record, run.key))


def _tables(site: Site) -> tuple[SuiteTable, ...]:
    return suite_tables(site.runs.all()[0], site.pictures.index)


def suites_page(site: Site) -> str:
    """Return the page of all published tables."""
    tables = _tables(site)
    known = {table.suite for table in tables}
    others = [suite for suite in list_suites() if suite.suite not in known]
    return site.render("suites.html", measured=tables, others=others)


def suite_page(site: Site, name: str) -> str:
    """Return the page of a published table with measured values.

    Raises:
        NoSuchPageError: No run fills a cell of such a table.
    """
    table = next((table for table in _tables(site) if table.suite == name), None)
    if table is None:
        raise NoSuchPageError(f"no run has a value for suite '{name}'", "The list of suites shows those with values.")
    return site.render("suite.html", suite=table, to=lambda key: address("runs", key) if key else "")


class NoSuchPageError(BenchError):
    """The page of a URL does not exist."""


def address(*parts: object, **query: object) -> str:
    """Return the URL path of a page, with its non-empty query parameters."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    params = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(params, errors='replace')}" if params else path


@dataclass(frozen=True)
class Page:
    """A page of a list.

    Attributes:
        number: Page number, from 1.
        first: Index of its first entry in the list, from 0.
        last: Index after its last entry.
        pages: Number of pages.
    """

    number: int
    first: int
    last: int
    pages: int

    def links(self, to: Callable[[int], str]) -> dict[str, Any]:
        """Return template values for links to the previous and next page.

        Args:
            to: Returns the URL of a page by its number.
        """
        before, after = (to(at) if 0 < at <= self.pages else "" for at in (self.number - 1, self.number + 1))
        here = f"{self.number:,} of {self.pages:,}"
        return {"first": self.first + 1, "previous": before, "next": after, "here": here}
