"""Takes finished runs into a repository of results, and reviews a change that adds some."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError, counted
from ...tasks.index import build_index
from ..records.files import RECORD_FILE, run_folder, write_run
from ..records.reading import read_record, runs_below
from ..records.record import Record
from ..running.rescoring import score_again, verify_run
from .collect import installed_versions, least_scored
from .diff import comment, differences, git_output, read_leaderboard
from .formats import markdown


@dataclass(frozen=True)
class Checked:
    """The result of checking a run for submission.

    Attributes:
        folder: The folder of the run.
        record: Its record; None if it cannot be read.
        faults: Why it is refused.
        remark: What was not scored again, with the reason; empty if all was.
    """

    folder: Path
    record: Record | None
    faults: tuple[str, ...] = ()
    remark: str = ""


def check_run(folder: Path, **settings: Any) -> Checked:
    """Check whether a run is intact, covers all documents, may be passed on, and gives the same values again.

    Args:
        folder: The folder of the run.
        **settings: Options of :func:`.score_again`.
    """
    verified = verify_run(folder / RECORD_FILE)
    if verified.run is None or verified.faults:
        return Checked(folder, None, verified.faults)
    record = verified.run.record
    if faults := tuple(_faults(record, settings.get("include_path", ()))):
        return Checked(folder, record, faults)
    again = score_again(verified.run, **settings)
    differing = [
        f"{metric} comes out otherwise: {again.faults.get(metric) or f'by {again.differences[metric]:.2g}'}"
        for metric in again.differing
    ]
    unchecked = [f"{metric}: {reason}" for metric, reason in again.not_checkable.items()]
    return Checked(folder, record, tuple(differing), "; ".join(text for text in (again.reason, *unchecked) if text))


def _faults(record: Record, include_path: Sequence[str | Path]) -> Iterator[str]:
    """Yield why a run, though intact, is not one that others can be compared with, or that may be passed on."""
    index, counts = build_index(include_path), record.documents
    version = installed_versions(index, {record.task}).get(record.task)
    if version is None:
        yield f"task '{record.task}' is not installed"
    elif version != str(record.version):
        yield f"is of version {record.version} of its task, which is at {version}"
    if record.checksum is None:
        yield "has no checksum, as it is of an older capbench"
    if record.settings.limit is not None:
        yield f"covers {counts.effective:,} of {counts.original:,} documents (--limit)"
    elif record.subset or not record.is_whole:
        yield from record.notes or ["is not whole"]
    elif (least := least_scored(record)) is not None:
        yield f"scores only {least:,} of {counts.original:,} documents"
    if record.redistribution == "scores" and record.samples == "full":
        yield "has texts that the terms of the data do not allow to pass on; run with --log_samples scores"


def add_run(folder: Path, runs: Path, **settings: Any) -> tuple[Path, str]:
    """Check a run, and copy it into a folder of runs.

    Args:
        folder: The folder of the run.
        runs: The folder of all runs.
        **settings: Options of :func:`.score_again`.

    Returns:
        The new folder, and what was not scored again.

    Raises:
        DataError: The run is refused; or the same run is there.
    """
    checked = check_run(folder, **settings)
    record = checked.record
    if record is None or checked.faults:
        raise DataError(
            f"{folder}: is refused: {'; '.join(checked.faults)}", "docs/leaderboard.md tells what runs count."
        )
    for place in runs_below(runs):
        if read_record(place).identity == record.identity:
            raise DataError(f"{folder}: the same run is in {place}")
    return write_run(runs, record, {name: folder / name for name in record.files or {}}), checked.remark


def review(base: str, runs: Path, output: Path, readme: Path | None, **settings: Any) -> tuple[str, bool]:
    """Review the change of a results repository since a git revision.

    Runs may only be added, each as :func:`add_run` would, and the leaderboard must be made of them.

    Args:
        base: The revision.
        runs: The folder of the runs.
        output: The folder of the leaderboard.
        readme: A Markdown file with the top rows.
        **settings: Options of :func:`.score_again`.

    Returns:
        The review in Markdown, and whether the change is accepted.

    Raises:
        UsageError: ``base`` is no revision.
    """
    # Git gives paths relative to this folder.
    runs, output = (Path(os.path.relpath(folder)) for folder in (runs, output))
    earlier, note = read_leaderboard(base, output)
    # The leaderboard's schema is read above, and the revision is known to be one.
    listed = git_output(Path(), "diff", "--no-renames", "--name-status", "-z", "--relative", base, "--")
    if listed is None:
        raise DataError(f"git cannot compare the working tree with {base}", "Fetch the history: git fetch --unshallow")
    words = listed.decode("utf-8", "replace").split("\0")
    changes = dict(zip(words[1::2], words[::2], strict=False))
    added = {Path(path).parent for path, how in changes.items() if how == "A" and Path(path).name == RECORD_FILE}
    checked = {folder: check_run(folder, **settings) for folder in sorted(added) if folder.is_relative_to(runs)}
    refused = [
        *_changed(changes, runs, checked),
        *(f"{c.folder}: {fault}" for c in checked.values() for fault in c.faults),
    ]
    refused += [
        f"the leaderboard is not made of the runs: {line}" for line in differences(runs, output, readme) if line
    ][:1]
    of_board = [runs, output, *([readme] if readme else [])]
    others = [path for path in changes if not any(Path(path).is_relative_to(place) for place in of_board)]
    lines = [f"### {counted(len(checked), 'run')} added", ""]
    lines += [f"- refused: {markdown(fault)}" for fault in refused]
    lines += [f"- {markdown(str(c.folder))}: {_accepted(c)}" for c in checked.values() if not c.faults]
    lines += [f"- changes {markdown(path)}, which is neither a run nor the leaderboard" for path in others]
    head, _ = read_leaderboard(str(output), output)
    return "\n".join([*lines, "", comment(earlier, head, note)]), not refused


def _accepted(checked: Checked) -> str:
    return (
        f"intact, but not scored again: {markdown(checked.remark)}" if checked.remark else "the same when scored again"
    )


def _changed(changes: Mapping[str, str], runs: Path, checked: Mapping[Path, Checked]) -> Iterator[str]:
    """Yield what a change does to the folder of runs besides adding runs in their places."""
    for folder, of_run in checked.items():
        record = of_run.record
        if record and not str(folder).startswith(str(run_folder(runs, record))):
            yield f"{folder}: belongs in {run_folder(runs, record)}"
    known = {
        folder / name for folder, c in checked.items() for name in (RECORD_FILE, *((c.record and c.record.files) or {}))
    }
    for path, how in changes.items():
        if Path(path).is_relative_to(runs) and not (how == "A" and Path(path) in known):
            yield f"{path}: {'is no file of an added run' if how == 'A' else 'is of a kept run, and is changed'}"
