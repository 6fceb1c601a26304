"""``bench run --suite``: a published table made anew, as far as data and weights are here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...hub import asking_nobody
from .options import write_text

if TYPE_CHECKING:
    from ..records.task_run import TaskRun
    from ..running.missing import Missing
    from ..suites.places import Place

_NOT_WITH = ("tasks", "model", "encoder", "judge", "metrics")


def run_suite(
    options: argparse.Namespace,
    data: dict[str, Path],
    report: Callable[[TaskRun], None],
    **settings: Any,
) -> int:
    """Say what is missing, run what can be run, and print the table.

    The exit code is 1 if nothing was run, a metric failed, or the model did on a document.

    Args:
        options: The command's.
        data: Task name to the path of its local data.
        report: Told of each finished run.
        **settings: As :func:`capbench.evaluate` takes them.
    """
    from ...access import request_lines
    from ...permissions import without_code
    from ..suites.given import NOTHING, read_given
    from ..suites.places import places
    from ..suites.plan import plan_suite
    from ..suites.read import load_suite
    from ..suites.run import run_suite as run
    from ..suites.tables import render_suite

    for option in _NOT_WITH:
        if getattr(options, option):
            raise UsageError(
                f"--suite {options.suite} says which tasks, models and metrics are run",
                f"Leave --{'task' if option == 'tasks' else option} out.",
            )
    suite = load_suite(options.suite)
    given = read_given(suite, Path(options.recorded)) if options.recorded else NOTHING
    if options.dry_run:
        for kind, text in request_lines(given.requests) if options.recorded else ():
            print(f"{kind}: {text}")
        with without_code(), asking_nobody():
            for name, what in dict.fromkeys(
                (suite.name(one.row), _said(one)) for one in places(suite, given)
            ):
                print(f"{name}: {what}")
            where = {"include_path": options.include_path, "allow_outside": options.allow_outside}
            _say_what_is_missing(plan_suite(suite, given=given, data=data, **where).missing)
        return 0
    finished = run(
        suite, given=given, data=data, on_missing=_say_what_is_missing, on_finish=report, **settings
    )
    table = render_suite(finished, options.format)
    print(table)
    if options.table_path:
        write_text(options.table_path, table + "\n")
    filled = sum(cell.result is not None for cell in finished.cells)
    recorded = sum(cell.is_recorded for cell in finished.cells)
    counts = f"{filled - recorded} of {len(finished.cells)} cells were measured"
    print(f"{suite.suite}: {counts}{f', {recorded} recorded' if recorded else ''}", file=sys.stderr)
    failed = any(one.failed_metrics or not one.is_complete for one in finished.runs)
    return 1 if failed or not filled else 0


def _said(place: Place) -> str:
    """Return what fills a place, or what would."""
    from ..comparing.decoding import in_words

    if place.recorded:
        return f"recorded scores, {place.recorded}"
    model, decoding = place.models.model, in_words(json.loads(place.models.decoding))
    named = f"{model} [{decoding}]" if model and decoding else model
    return place.needs or named or place.models.judge or "no model needed"


def _say_what_is_missing(missing: list[Missing]) -> None:
    """Print on stderr what this machine lacks for the suite, and how to get it."""
    if not missing:
        return
    lines = ["missing here, and left out of the table:"]
    for one in missing:
        lines += [f"- {one.what}".replace("\n", "\n  "), *(f"    {line}" for line in one.how.splitlines())]
    print("\n".join(lines), end="\n\n", file=sys.stderr, flush=True)
