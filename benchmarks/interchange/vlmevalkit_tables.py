"""Reads the tables of predictions that VLMEvalKit writes, and the scores beside them.

A row is a question: ``index``, ``question``, ``answer`` (a Python list printed as text), ``prediction``, and
what else the data set has (``image_path``, ``question_id``). Source: ``vlmeval.smp.file.dump`` and
``vlmeval.dataset.image_caption`` of VLMEvalKit 0.2rc1. Its pickles are not read: to unpickle a file is to run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, load_json, parse_number, read_rows
from .logged_captions import LoggedRow, is_number, texts_of

_FAILED = "Failed to obtain answer"
_METRICS = ("hit", "score")
_NOT_A_NAME = frozenset({"prediction", "question", "answer", "thinking", *_METRICS})


def read_table(path: Path) -> Iterator[LoggedRow | BadRow]:
    """Yield the captions of a table of predictions: ``.xlsx``, ``.tsv``, ``.csv`` or ``.json``.

    Raises:
        DataError: The file cannot be read as a whole, or openpyxl is missing for ``.xlsx``.
    """
    rows = _xlsx(path) if path.suffix == ".xlsx" else read_rows(path)
    for number, row in enumerate(rows, 1):
        yield row if isinstance(row, BadRow) else _logged(f"{path.name}: row {number}", row)


def logged_scores(path: Path) -> dict[str, float]:
    """Return the values of ``NAME_score.json``, which VLMEvalKit's caption scorer writes beside ``NAME.xlsx``.

    They are the metrics times 100. ``Bleu`` is a list there, and becomes ``Bleu_1`` to ``Bleu_4``.
    """
    beside = path.with_name(f"{path.stem}_score.json")
    if not beside.is_file():
        return {}
    try:
        scores = load_json(beside)
    except DataError:
        return {}
    found: dict[str, float] = {}
    for name, value in scores.items() if isinstance(scores, dict) else ():
        listed = (
            {f"{name}_{n}": one for n, one in enumerate(value, 1)}
            if isinstance(value, list)
            else {name: value}
        )
        found |= {key: float(one) for key, one in listed.items() if is_number(one)}
    return found


def _logged(place: str, row: Mapping[str, Any]) -> LoggedRow | BadRow:
    if "prediction" not in row:
        return BadRow(place, f"has no prediction; its columns are {', '.join(map(str, row))}")
    caption = row["prediction"]
    # An empty cell is an empty text: a table has no other way to say so.
    caption = "" if caption is None else str(caption)
    if caption.startswith(_FAILED):
        return BadRow(place, f"the model gave no answer ('{caption:.60}')")
    metrics = {name: value for name in _METRICS if (value := _number(row.get(name))) is not None}
    fields = {key: value for key, value in row.items() if key not in _NOT_A_NAME}
    return LoggedRow(place, caption, fields, texts_of(row.get("answer")), metrics)


def _number(value: Any) -> float | None:
    try:
        return parse_number(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _xlsx(path: Path) -> Iterator[dict[str, Any] | BadRow]:
    import zipfile

    try:
        import openpyxl
        from openpyxl.utils.escape import unescape
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise DataError(
            f"{path}: reading .xlsx takes openpyxl, which is not installed",
            'Install it with: pip install "capbench[xlsx]", or let VLMEvalKit write PRED_FORMAT=tsv.',
        ) from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            rows = book.worksheets[0].iter_rows(values_only=True)
            head = [None if name is None else str(name) for name in next(rows, ())]
            if not any(head):
                raise DataError(f"{path}: its first sheet has no header row")
            for row in rows:
                cells = (unescape(cell) if isinstance(cell, str) else cell for cell in row)
                named = {name: cell for name, cell in zip(head, cells, strict=False) if name is not None}
                if any(cell is not None for cell in named.values()):
                    yield named
        finally:
            book.close()
    except (zipfile.BadZipFile, InvalidFileException, KeyError, OSError, ValueError, SyntaxError) as error:
        raise DataError(
            f"{path}: cannot be read as an .xlsx workbook: {error}", "Is the file complete?"
        ) from error
