"""What all pages are made with, and the pages of all runs, of one run and of suites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import BenchError, did_you_mean
from ..comparing.finished_runs import own_decoding
from ..leaderboard.board import BoardRun, SuiteTable
from ..leaderboard.collect import installed_versions
from ..leaderboard.html.tables import shown_suite
from ..leaderboard.suites_of_board import suite_tables
from ..protocols.job import Result
from ..records.record import Record
from ..suites.read import list_suites
from ..tables.pages.rendering import number, templates
from ..tables.pages.run_rows import failure_rows, result_row
from ..tables.text import decimals_for
from .finding import Pictures, Runs, ShownRun, comparable
from .matches import Explainer

MOST_VALUES = 4
"""Numbers of a run in the list of all runs."""
STATIC_PAGES = 10
"""Pages of a list that are exported."""


@dataclass
class Site:
    """The pages.

    Attributes:
        runs: What is shown.
        pictures: Finds images.
        policy: What pages that are read as files forbid; empty where a server says it.
    """

    runs: Runs
    pictures: Pictures
    policy: str = ""
    explainer: Explainer = field(default_factory=Explainer)

    @property
    def static(self) -> bool:
        """Whether the pages are read as files: nothing is searched or chosen then."""
        return bool(self.policy)

    @cached_property
    def _templates(self) -> Any:
        made = templates(Path(__file__).parent / "templates")
        made.globals |= {"own": "view", "address": address, "static": self.static, "policy": self.policy}
        return made

    def render(self, template: str, **values: Any) -> str:
        """Return a page."""
        return self._templates.get_template(template).render(**values)

    def run(self, key: str) -> ShownRun:
        """Return the run that addresses call so.

        Raises:
            NoSuchPageError: There is none.
        """
        found = self.runs.get(key)
        if found is None:
            raise NoSuchPageError(f"there is no run '{key}'", "The first page lists all runs.")
        return found


def index_page(site: Site, query: Mapping[str, str]) -> str:
    """Return the page of all runs, task by task."""
    runs, faults = site.runs.all()
    words = query.get("q", "").lower().split()
    tasks: dict[str, list[ShownRun]] = {}
    for run in runs:
        record = run.record
        labels = [record.metric_label(metric) for metric in record.metrics]
        said = " ".join([record.task, record.alias, run.name, *record.metrics, *labels]).lower()
        if all(word in said for word in words):
            tasks.setdefault(record.task, []).append(run)
    return site.render(
        "index.html",
        total=sum(map(len, tasks.values())),
        query=query.get("q", ""),
        tasks=[_task(its) for its in tasks.values()],
        faults=faults,
    )


def _task(runs: Sequence[ShownRun]) -> dict[str, Any]:
    newest = runs[0].record
    # The statistic is named only where the results are of several, or none of a mean.
    plain = all(one.statistic in ("mean", "corpus") for one in newest.results.values())
    heads = {key: " ".join(filter(None, one.label[: 1 if plain else 2])) for key, one in newest.results.items()}
    shown = dict(list(heads.items())[:MOST_VALUES])
    by_model: dict[str | None, list[Record]] = {}
    for run in runs:
        by_model.setdefault(run.record.model_name, []).append(run.record)
    rows = [
        {
            "key": run.key,
            "model": run.record.model_name or "no model",
            "decoding": own_decoding(run.record, by_model[run.record.model_name]),
            "began": f"{run.record.started:%Y-%m-%d %H:%M} UTC",
            "cells": [_value(run.record.results.get(key)) for key in shown],
            "n": f"{run.record.documents.effective:,}",
            "notes": notes_of(run),
        }
        for run in runs
    ]
    others = comparable(runs[0], runs)
    return {
        "name": newest.task,
        "alias": newest.alias,
        "about": newest.description,
        "scale": newest.scale,
        "heads": list(shown.values()),
        "numbers": len(heads),
        "runs": rows,
        "notes": any(row["notes"] for row in rows),
        "compare": address("compare", a=runs[0].key, b=others[0].key) if others else "",
    }


def _value(result: Result | None) -> str:
    if result is None or result.value is None:
        return "–"
    return number(result.value * result.scale, decimals_for(result.scale, [result.value]))


def notes_of(run: ShownRun) -> list[str]:
    """Return what a reader must know of a run before comparing it."""
    record = run.record
    limit = record.settings.limit
    counts = record.documents
    limited = [f"{counts.effective:,} of {counts.original:,} documents (--limit)"] if limit is not None else []
    errors = [f"{metric} failed: {reason.partition(chr(10))[0]}" for metric, reason in record.metric_errors.items()]
    return [*limited, *record.notes, *errors]


def run_page(site: Site, key: str) -> str:
    """Return the page of a run: its numbers, what could not be used, what it can be held against."""
    run = site.run(key)
    record = run.record
    results = [_result(run, key) for key in record.results]
    protocol = record.protocol
    return site.render(
        "run.html",
        run=run,
        folder=str(run.folder),
        notes=notes_of(run),
        results=results,
        scaled=record.scale != 1,
        published=any(row["printed"] for row in results),
        remarks=any(row["remark"] for row in results),
        failures=failure_rows(record),
        others=comparable(run, site.runs.all()[0]),
        alone=protocol.comparable and protocol.subject == "metric" and len(record.metrics) > 1,
    )


def _result(run: ShownRun, key: str) -> dict[str, Any]:
    row, metric = result_row(run.record, key), run.record.results[key].metric
    sort = metric if run.record.higher_is_better(metric) else f"-{metric}"
    return row | {
        "remark": "; ".join(filter(None, [row["reason"], row["remark"]])),
        "sorted": address("runs", run.key, "samples", sort=sort) if metric in run.record.made_by else "",
    }


def _tables(site: Site) -> tuple[SuiteTable, ...]:
    runs = site.runs.all()[0]
    index = site.pictures.index
    versions = installed_versions(index, {run.record.task for run in runs})
    outdated = {run.key for run in runs if versions.get(run.record.task) not in (None, str(run.record.version))}
    return suite_tables([BoardRun(run.key, run.folder, run.record) for run in runs], index, outdated)


def suites_page(site: Site) -> str:
    """Return the page of all published tables."""
    tables = _tables(site)
    known = {one.suite for one in tables}
    others = [suite for suite in list_suites() if suite.suite not in known]
    return site.render("suites.html", measured=tables, others=others)


def suite_page(site: Site, name: str) -> str:
    """Return the page of a published table, with what runs measured.

    Raises:
        NoSuchPageError: No run fills a cell of such a table.
    """
    table = next((one for one in _tables(site) if one.suite == name), None)
    if table is None:
        raise NoSuchPageError(
            f"no run here fills a cell of suite '{name}'", "The page of suites lists those that have some."
        )
    return site.render("suite.html", suite=shown_suite(table, lambda key: address("runs", key) if key else ""))


class NoSuchPageError(BenchError):
    """An address that leads nowhere."""


def address(*parts: object, **query: object) -> str:
    """Return the address of a page below the root, with what of a query says something."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    said = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(said, errors='replace')}" if said else path


@dataclass(frozen=True)
class ListState:
    """Which samples a list holds, and in which order.

    Attributes:
        sort: A metric or a column of ratings; empty for the order of the run.
        descending: Whether the highest come first.
        query: What samples must contain; empty for all.
        failed: Only those that could not be used whole.
        page: Which page of the list, from 1.
    """

    sort: str = ""
    descending: bool = False
    query: str = ""
    failed: bool = False
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str], known: Sequence[str]) -> ListState:
        """Return what the query of an address says.

        Args:
            query: Its values.
            known: What samples can be sorted by.

        Raises:
            NoSuchPageError: It says something that is not known.
        """
        sort = query.get("sort", "")
        descending = sort not in known and sort.startswith("-")
        sort = sort.removeprefix("-") if descending else sort
        if sort and sort not in known:
            raise NoSuchPageError(
                f"samples of this run cannot be sorted by '{sort}'.{did_you_mean(sort, known)}",
                f"They can by {', '.join(known)}.",
            )
        page = query.get("page", "1")
        return cls(sort, descending, query.get("q", ""), query.get("failed") == "1", page_number(page))

    @property
    def sort_value(self) -> str:
        """How addresses say the order."""
        return f"-{self.sort}" if self.descending else self.sort

    def values(self, **changes: Any) -> dict[str, object]:
        """Return the state, with changes, as the values of an address."""
        new = replace(self, **changes)
        return {
            "sort": new.sort_value,
            "q": new.query,
            "failed": "1" if new.failed else "",
            "page": new.page if new.page > 1 else "",
        }


def page_number(text: str) -> int:
    """Return the number of a page, from 1.

    Raises:
        NoSuchPageError: It is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise NoSuchPageError(f"'{text}' is no number of a page")
    return int(text)


@dataclass(frozen=True)
class Page:
    """A part of a list.

    Attributes:
        number: Which one, from 1.
        first: The place of its first entry in the list, from 0.
        last: The place after its last entry.
        pages: How many there are.
    """

    number: int
    first: int
    last: int
    pages: int

    def links(self, to: Callable[[int], str]) -> dict[str, Any]:
        """Return what a page shows of its place in the list.

        Args:
            to: Gives the address of a page by its number.
        """
        before, after = (to(at) if 0 < at <= self.pages else "" for at in (self.number - 1, self.number + 1))
        here = f"{self.number:,} of {self.pages:,}"
        return {"first": self.first + 1, "previous": before, "next": after, "here": here}


def page_of(number: int, total: int, size: int, most: int | None = None) -> Page:
    """Return a page of a list.

    Args:
        number: Which one, from 1.
        total: Entries of the list.
        size: Entries of a page.
        most: Pages of which the rest is not shown; None for all.

    Raises:
        NoSuchPageError: The list has fewer.
    """
    pages = max(1, -(-total // size))
    pages = pages if most is None else min(pages, most)
    if number > pages:
        raise NoSuchPageError(f"there is no page {number:,}: the list has {pages:,}")
    return Page(number, (number - 1) * size, min(number * size, total), pages)
