"""``bench verify``: are finished runs intact, and does this machine reproduce released code?

RUN is the folder of a finished run, as 'bench run' prints it, or a folder with runs below it. Checked are the
layout of run.json, its fingerprint and checksum, and the SHA-256 of samples.parquet and of each picture. Checksums
reveal accidents and careless edits; a forger can recompute them, but --again finds changed values.

--again scores each run anew, by its task and from the data: captions that a model wrote are those that the run kept,
encoders and judges are loaded and asked again. Nothing is taken from the store. Values that differ by no more than
1e-05 are the same. 'not checkable' is what kept no captions, or lacks data, task, model or permission here.

--parity takes no RUN. It computes metrics on this machine (its torch, Pillow, transformers, tokenizers, Java) on inputs
that ship with capbench, and compares them with the values of released code. A component that lacks a package, Java or
WordNet is not run, and the table names what is missing. It takes a minute, and uses neither network nor store.

Exit code 1 if a run is not intact or differs, or a component differs from released code. 'not checkable' and 'not run'
are no failures.

examples:
  bench verify runs
  bench verify results/runs --again
  bench verify --parity
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError, counted
from .options import PERMISSIONS, TASK, add_options, print_table, task_settings

if TYPE_CHECKING:
    from ..benchmarks.running.rescoring import Rescored, Verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("runs", nargs="*", metavar="RUN", type=Path, help="folder of a run, or of runs")
    parser.add_argument("--again", action="store_true", help="score the runs anew, and compare the values")
    parser.add_argument(
        "--parity", action="store_true", help="compare this machine's metrics with values of released code"
    )
    add_options(parser, *TASK, *PERMISSIONS)


def run(options: argparse.Namespace) -> int:
    """Print a row a run, or a component; exit code 1 if one fails its check."""
    if options.parity:
        return _parity(options)
    if not options.runs:
        raise UsageError("bench verify: no run was named", "RUN is a folder of runs, such as runs.")
    from ..benchmarks.records.reading import find_records
    from ..benchmarks.running.rescoring import score_again, verify_run
    from ..progress import bars

    settings = task_settings(options)
    files, missing = find_records([folder.expanduser() for folder in options.runs])
    if missing:
        raise missing[0]
    results = [verify_run(file) for file in files]
    if options.again:
        for number, result in enumerate(results):
            if result.run is not None and not result.faults:
                results[number] = replace(result, again=score_again(result.run, **settings, progress=bars()))
    print_table(
        {"Run": str(case.folder), "Found": _found(case)} | ({"Again": _came_out(case.again)} if options.again else {})
        for case in results
    )
    rows = [
        {"Run": str(result.folder), "Metric": metric, "Largest difference": _of_metric(result.again, metric)}
        for result in results
        if result.again
        for metric in result.again.metrics
    ]
    if rows:
        print()
        print_table(rows)
    return 0 if all(result.is_sound for result in results) else 1


def _parity(options: argparse.Namespace) -> int:
    if any((options.runs, options.again, options.data, options.include_path, options.allow_outside)):
        raise UsageError(
            "bench verify --parity takes no RUN and no other option", "It checks this machine: bench verify --parity"
        )
    from ..benchmarks.running.parity import all_components, check_parity
    from ..progress import bars

    outcomes = check_parity(list(all_components()), bars())
    rows = [
        {
            "Component": outcome.component.name,
            "Golden values of": "; ".join(filter(None, (outcome.component.source, outcome.component.subset))),
            "Values": f"{outcome.compared:,}",
            "Largest difference": "" if outcome.largest is None else f"{outcome.largest:.2g}",
            "Tolerance": f"{outcome.component.tolerance:g}",
            "Found": ": ".join(filter(None, (outcome.verdict, " ".join(outcome.reason.split())))),
        }
        for outcome in outcomes
    ]
    print_table(rows)
    counts = Counter(outcome.verdict for outcome in outcomes)
    print(
        f"\n{counts['ok']} of {len(outcomes)} components reproduce released code; "
        f"{counts['differs']} differ, {counts['not run']} were not run."
    )
    return 1 if counts["differs"] else 0


def _found(result: Verified) -> str:
    if result.run is None or result.faults:
        return "; ".join(result.faults)
    record = result.run.record
    if record.checksum is None:
        return "fingerprint matches (older record, without checksums)"
    if record.files is None:
        return "intact (older record, without checksums of files)"
    return f"intact (run.json and {counted(len(record.files), 'file')})"


def _came_out(again: Rescored | None) -> str:
    if again is None:
        return "not scored"
    if again.reason:
        return f"not checkable: {' '.join(again.reason.split())}"
    parts = [f"differs: {', '.join(again.differing)}"] if again.differing else []
    if again.differences and not parts:
        parts = ["the same"]
    if again.not_checkable:
        parts.append(f"not checkable: {', '.join(again.not_checkable)}")
    return "; ".join(parts)


def _of_metric(again: Rescored, metric: str) -> str:
    said = [f"{again.differences[metric]:.2g}"] if metric in again.differences else []
    said += [again.faults[metric]] if metric in again.faults else []
    said += [f"not checkable: {again.not_checkable[metric]}"] if metric in again.not_checkable else []
    return " ".join("; ".join(said).split())
