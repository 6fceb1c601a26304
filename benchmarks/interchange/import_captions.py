"""Turns captions that other harnesses recorded into a file that ``--model captions:FILE`` serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...drafts import written_whole
from ...errors import DataError, UsageError, did_you_mean
from ...rows import BadRow, read_rows
from . import sample_logs, vlmevalkit_tables
from .logged_captions import LoggedRow, name_of

KEYS = (
    "image_id", "id", "question_id", "image", "image_path", "filename", "file_name", "index", "doc_id",
    "input_media",
)  # fmt: skip
"""Fields that name a document, in the order in which they are tried."""
_IMAGE_KEYS = ("image", "image_path", "image_name", "filename", "file_name", "input_media")


class Format(NamedTuple):
    """How a harness's files are read, and how the values that it printed for them are found."""

    label: str
    read: Callable[[Path], Iterator[LoggedRow | BadRow]]
    results: Callable[[Path], dict[str, float]]


def _coco(path: Path) -> Iterator[LoggedRow | BadRow]:
    for number, row in enumerate(read_rows(path), 1):
        place = f"{path.name}: row {number}"
        if isinstance(row, BadRow):
            yield row
        elif not isinstance(row.get("caption"), str):
            yield BadRow(place, f"has no caption that is a text; its keys are {', '.join(row)}")
        else:
            yield LoggedRow(place, row["caption"], {key: row[key] for key in row if key != "caption"})


FORMATS = {
    "lmms-eval": Format("sample log of lmms-eval", sample_logs.read_samples, sample_logs.logged_results),
    "lm-eval": Format("sample log of lm-eval", sample_logs.read_samples, sample_logs.logged_results),
    "vlmevalkit": Format(
        "table of VLMEvalKit", vlmevalkit_tables.read_table, vlmevalkit_tables.logged_scores
    ),
    "coco": Format("COCO result file", _coco, lambda path: {}),
}


@dataclass
class Imported:
    """Captions that were read.

    Attributes:
        rows: ``id``, ``caption``, and where known ``image``, ``references`` and ``logged_METRIC``.
        key: The field that gave the ids.
        other_keys: Fields that could have given them, too.
        formats: File to the name of its format.
        bad_rows: Rows that could not be used.
        remarks: Captions that are used, but were chosen among several.
        duplicates: Rows whose id had a caption before; the first one is kept.
        logged: Metric to the value that the harness printed, or to the mean of its values here.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = ""
    other_keys: list[str] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)
    remarks: list[BadRow] = field(default_factory=list)
    duplicates: list[BadRow] = field(default_factory=list)
    logged: dict[str, float] = field(default_factory=dict)

    @property
    def empty(self) -> int:
        """How many captions have no text."""
        return sum(not row["caption"].strip() for row in self.rows)


def import_captions(files: Sequence[Path], fmt: str = "auto", key: str = "") -> Imported:
    """Read captions that other harnesses recorded.

    Args:
        files: Their files.
        fmt: ``auto`` or one of ``FORMATS``.
        key: The field that is the id of a document; the first of ``KEYS`` that tells documents apart
            unless given.

    Returns:
        The captions. One bad row is named and costs no other.

    Raises:
        DataError: A file is missing or of no known format, or nothing could be read.
        UsageError: No caption has the field ``key``.
    """
    imported = Imported()
    logged: list[LoggedRow] = []
    results: list[dict[str, float]] = []
    for path in files:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        name = detect(path) if fmt == "auto" else fmt
        imported.formats[str(path)] = name
        for row in FORMATS[name].read(path):
            if isinstance(row, BadRow):
                imported.bad_rows.append(row)
                continue
            logged.append(row)
            if row.remark:
                imported.remarks.append(BadRow(row.place, row.remark))
        results.append(FORMATS[name].results(path))
    if not logged:
        faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in imported.bad_rows[:5])
        raise DataError(f"no caption could be read from {', '.join(map(str, files))}{faults}")
    imported.key, imported.other_keys = _choose_key(logged, key)
    _collect(logged, imported)
    # Values of several files are of several tasks, or of shards: neither is one value.
    imported.logged = results[0] if len(files) == 1 and results[0] else _means(imported.rows)
    return imported


def detect(path: Path) -> str:
    """Return the name of a file's format.

    Raises:
        DataError: It has none that is known.
    """
    if path.suffix == ".xlsx":
        return "vlmevalkit"
    if path.suffix in (".pkl", ".pickle"):
        raise DataError(
            f"{path}: is a pickle, which is not read: to unpickle a file is to run it",
            "Let VLMEvalKit write .xlsx or .tsv (PRED_FORMAT).",
        )
    rows = _first_rows(path)
    for row in rows:
        if sample_logs.is_sample(row):
            return "lm-eval" if "prompt_hash" in row else "lmms-eval"
        if "prediction" in row:
            return "vlmevalkit"
        if "image_id" in row and "caption" in row:
            return "coco"
    columns = f"; its columns are {', '.join(map(str, rows[0]))}" if rows else ""
    raise DataError(
        f"{path}: is of no known format{columns}",
        f"Known: {', '.join(f'{name} ({one.label})' for name, one in FORMATS.items())}. "
        "What has the columns id and caption needs no import: --model captions:FILE.",
    )


def _first_rows(path: Path) -> list[dict[str, Any]]:
    """Return some readable rows of a file: the first line may be broken, a few more tell."""
    lines = path.suffix in (".jsonl", ".ndjson")
    rows = (row for _, row in sample_logs.objects_of(path)) if lines else read_rows(path)
    return [row for row in islice(rows, 20) if isinstance(row, dict)]


def write_captions(imported: Imported, path: Path) -> None:
    """Write the captions as JSON Lines.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        # Half of a surrogate pair cannot be encoded; as backslash escape it is JSON again.
        with (
            written_whole(path) as draft,
            draft.open("w", encoding="utf-8", errors="backslashreplace") as lines,
        ):
            for row in imported.rows:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"-o {path}: cannot be written: {error.strerror or error}") from error


def _choose_key(logged: Sequence[LoggedRow], wanted: str) -> tuple[str, list[str]]:
    """Return the field that names documents, and the others that could."""
    fields = dict.fromkeys(field for row in logged for field in row.fields)
    distinct = {
        field: len(names)
        for field in fields
        if (names := {name for row in logged if (name := name_of(row.fields.get(field))) is not None})
    }
    if wanted:
        if wanted not in distinct:
            raise UsageError(
                f"--key {wanted}: no caption has it.{did_you_mean(wanted, distinct)}",
                f"There are {', '.join(distinct) or 'none'}.",
            )
        return wanted, []
    known = [field for field in KEYS if field in distinct]
    if not known:
        raise UsageError(
            "no field is known to name the documents",
            f"Name one with --key: {', '.join(distinct) or 'the file has none'}.",
        )
    # Several questions on an image share its id, which then is no id of theirs.
    most = max(distinct[field] for field in known)
    best, *others = [field for field in known if distinct[field] == most]
    return best, others


def _collect(logged: Sequence[LoggedRow], imported: Imported) -> None:
    """Put rows of the chosen key's ids into ``imported``; the first caption of an id is kept."""
    seen: dict[str, str] = {}
    for row in logged:
        identity = name_of(row.fields.get(imported.key))
        if identity is None:
            imported.bad_rows.append(BadRow(row.place, f"has no '{imported.key}' that names its document"))
        elif str(identity) in seen:
            first = seen[str(identity)]
            imported.duplicates.append(
                BadRow(row.place, f"is a second caption for '{identity}'; that of {first} is kept")
            )
        else:
            seen[str(identity)] = row.place
            imported.rows.append(_row(identity, row))


def _row(identity: str | int, row: LoggedRow) -> dict[str, Any]:
    named = (name_of(row.fields.get(key)) for key in _IMAGE_KEYS)
    image = next((one for one in named if isinstance(one, str)), None)
    return {
        "id": identity,
        **({"image": image} if image is not None else {}),
        "caption": row.caption,
        **({"references": list(row.references)} if row.references else {}),
        **{f"logged_{name}": value for name, value in row.metrics.items()},
    }


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if name.startswith("logged_"):
                columns.setdefault(name.removeprefix("logged_"), []).append(value)
    return {name: sum(values) / len(values) for name, values in columns.items()}
