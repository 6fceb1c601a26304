"""Reads local files row by row, so that a bad row is reported and the others are used."""

from __future__ import annotations

import csv
import difflib
import json
import math
import numbers
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import DataError

if TYPE_CHECKING:
    from pydantic import ValidationError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
# Builtin types first: checks against ``numbers.Real`` are slow.
_REAL = (float, int, numbers.Real, Decimal)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read.

    Attributes:
        place: ``file:line`` or the like.
        reason: What is wrong with it.
    """

    place: str
    reason: str


Row = dict[str, Any]


def first_fault(error: ValidationError) -> str:
    """Return the first of the faults that pydantic found, with its place."""
    fault = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))


def no_such_file(path: Path) -> str:
    """Return the message for a missing file, with the nearest name in its folder."""
    return f"{path}: there is no such file{nearest_beside(path)}"


def nearest_beside(path: Path) -> str:
    """Return ``". Did you mean 'x'?"`` for the nearest name in a missing file's folder, or an empty string."""
    # Without suffixes, which many files share.
    beside = {file.stem.lower(): file.name for file in path.parent.iterdir()} if path.parent.is_dir() else {}
    nearest = difflib.get_close_matches(path.stem.lower(), beside, n=1)
    return f". Did you mean '{beside[nearest[0]]}'?" if nearest else ""


def read_rows(path: Path, key: str | None = None) -> Iterator[Row | BadRow]:
    """Yield the rows of a jsonl, json, csv, tsv or parquet file.

    A json file holds a list of objects, or an object: of objects, a row each; of lists of objects, a row each of
    these; of anything else, a row of key and ``value`` each. The key of the object becomes a column. A file whose
    first line is a complete object, with more lines after it, is read as jsonl.

    Args:
        path: The file; its suffix tells the format.
        key: What the column is called that holds the keys of a json file's object; ``key`` unless given.

    Yields:
        A dict a row, or a ``BadRow`` for a line that is not UTF-8, not JSON, or of the wrong width.

    Raises:
        DataError: The file is missing or, as a whole, not of its format; or it has no keys, and their column is named.
    """
    if not path.is_file():
        raise DataError(no_such_file(path))
    if key is not None and path.suffix != ".json":
        raise DataError(_no_keys(path, key))
    match path.suffix:
        case ".jsonl" | ".ndjson":
            yield from (row for _, row in read_lines(path))
        case ".json":
            yield from _json(path, key)
        case ".csv" | ".tsv":
            yield from _csv(path)
        case ".parquet":
            yield from _parquet(path)
        case _:
            raise DataError(f"{path}: unknown format", f"Known suffixes: {', '.join(SUFFIXES)}")


def decode_line(line: bytes) -> str | None:
    """Return the line as text without its line end, or None if it is not UTF-8."""
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        return None


def is_utf8(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: whether it holds no lone surrogate."""
    return text.isascii() or _SURROGATE.search(text) is None


def parse_number(value: Any) -> float:
    """Return a number that data holds, as itself or as its text in ASCII digits.

    Truth values, digits of other scripts and ``1_000``, which Python takes for numbers, are none here.

    Raises:
        TypeError: It is neither a number nor a text.
        ValueError: It is the text of something else, or a whole number beyond float64.
        OverflowError: It is infinite, or NaN.
    """
    if isinstance(value, str):
        text = value.strip(" \t\r\n")
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"is not a number: {reprlib.repr(value)}")
        number = float(text)
    elif isinstance(value, _REAL) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueError(f"is not a number that float64 holds: {reprlib.repr(value)}") from error
    else:
        raise TypeError(f"is not a number: {reprlib.repr(value)}")
    if not math.isfinite(number):
        raise OverflowError(f"is not finite: {reprlib.repr(value)}")
    return number


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number itself, not the text of one."""
    try:
        return not isinstance(value, str) and math.isfinite(parse_number(value))
    except (TypeError, ValueError, OverflowError):
        return False


def parse_json(text: str, nan: bool = False) -> Any:
    """Parse JSON; a key given twice is refused.

    Args:
        text: The text.
        nan: Whether it may have NaN and Infinity, which JSON does not have.

    Raises:
        ValueError: The text is not JSON.
    """
    try:
        return (_NAN_DECODER if nan else _DECODER).decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def load_json(path: Path, hint: str = "") -> Any:
    """Read a JSON file as a whole.

    Args:
        path: The file.
        hint: What to do if it is missing.

    Raises:
        DataError: Missing, not UTF-8, or not JSON.
    """
    try:
        return parse_json(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint) from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}", "Is the file complete?") from error


def load_yaml(path: Path) -> Any:
    """Read a YAML file as plain values; ``tasks/yaml_files.py`` reads those with places and includes."""
    import yaml

    # Ten times as fast, where PyYAML is built with libyaml.
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity (``parse_constant`` of the json module)."""
    raise ValueError(f"{name} is not a JSON value")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, of which no key may be given twice (``object_pairs_hook`` of the json module)."""
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError(f"key {_twice(key for key, _ in pairs)!r} is given twice in {reprlib.repr(row)}")
    return row


# Creating a decoder takes as long as reading a row.
_DECODER = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=unique_keys)
_NAN_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


def _twice(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once, if one does."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def read_lines(path: Path, nan: bool = False) -> Iterator[tuple[str, Row | BadRow]]:
    """Yield place and row of each line of a jsonl file that is not empty.

    Args:
        path: The file.
        nan: Whether numbers may be NaN and infinite.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            text, place = decode_line(line), f"{path.name}:{number}"
            if text is None:
                yield place, BadRow(place, "not UTF-8")
            elif text and not text.isspace():
                try:
                    row = parse_json(text, nan)
                except ValueError as error:
                    row = BadRow(place, f"not JSON: {error}")
                yield place, row if isinstance(row, dict | BadRow) else BadRow(place, "not a JSON object")


def _json(path: Path, key: str | None) -> Iterator[Row | BadRow]:
    is_lines = _holds_lines(path)
    content: Any = [] if is_lines else load_json(path)
    if isinstance(content, dict):
        yield from _keyed(path.name, content, key or "key")
    elif not isinstance(content, list):
        raise DataError(
            f"{path}: expected a list of objects, or an object, found {type(content).__name__}",
            'Such as [{"id": ..., "caption": ...}, ...], as in COCO\'s result format, or '
            '{"1.jpg": {"caption": ...}, ...}.',
        )
    elif key is not None:
        raise DataError(_no_keys(path, key))
    elif is_lines:
        yield from (row for _, row in read_lines(path))
    else:
        yield from _objects(path.name, content)


def _holds_lines(path: Path) -> bool:
    """Return whether the first line of a file is a complete JSON object, and more follows."""
    with path.open("rb") as lines:
        first = next((line for line in lines if line.strip()), b"").removeprefix(b"\xef\xbb\xbf").strip()
        if not (first.startswith(b"{") and first.endswith(b"}") and any(line.strip() for line in lines)):
            return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _no_keys(path: Path, key: str) -> str:
    return f"{path}: column '{key}' needs the keys of a JSON object, which the file does not hold"


def _objects(place: str, elements: list[Any]) -> Iterator[Row | BadRow]:
    for number, row in enumerate(elements):
        yield row if isinstance(row, dict) else BadRow(f"{place}[{number}]", "not a JSON object")


def _keyed(file: str, content: dict[str, Any], column: str) -> Iterator[Row | BadRow]:
    """Yield the rows of an object, each with its key."""
    values = content.values()
    of_lists = any(isinstance(value, list) and any(isinstance(entry, dict) for entry in value) for value in values)
    of_objects = any(isinstance(value, dict) for value in values)
    for key, value in content.items():
        place = f"{file}[{key!r}]"
        if of_lists:
            rows = _objects(place, value) if isinstance(value, list) else [BadRow(place, "not a list of objects")]
        elif of_objects:
            rows = [value if isinstance(value, dict) else BadRow(place, "not a JSON object")]
        else:
            rows = [{"value": value}]
        for row in rows:
            if isinstance(row, BadRow):
                yield row
            elif row.get(column, key) != key:
                yield BadRow(place, f"has a column '{column}', which the key of its object would replace")
            else:
                yield {column: key, **row}


def _csv(path: Path) -> Iterator[Row | BadRow]:
    # Undecodable bytes become lone surrogates, so that a quoted field over several lines stays whole.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
        try:
            columns = reader.fieldnames
        except csv.Error as error:
            raise DataError(f"{path}:1: the header line is not CSV: {error}") from error
        if not columns:
            raise DataError(f"{path}: has no header line")
        if not is_utf8("".join(columns)):
            raise DataError(f"{path}: is not UTF-8", "Save it as UTF-8 and try again.")
        _require_unique(columns, f"{path}:1")
        while True:
            first_line = reader.reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                swallowed = "-".join(map(str, sorted({first_line, reader.reader.line_num})))
                yield BadRow(f"{path.name}:{swallowed}", f"not CSV: {error}")
                continue
            place = f"{path.name}:{reader.line_num}"
            if None in row or None in row.values():
                yield BadRow(place, f"expected {len(columns)} fields")
            elif not is_utf8("".join(row.values())):
                yield BadRow(place, "not UTF-8")
            elif path.suffix == ".tsv" and any("\t" in field and "\n" in field for field in row.values()):
                # Two captions that begin and end with a quote: what stands between is a field to CSV.
                place = f"{path.name}:{first_line}-{reader.line_num}"
                yield BadRow(place, "an opening quote swallows the lines that follow")
            else:
                yield row


def _require_unique(columns: Iterable[str], place: str) -> None:
    if (twice := _twice(columns)) is not None:
        raise DataError(f"{place}: column '{twice}' is given twice", "Rename or remove one of them.")


def _parquet(path: Path) -> Iterator[Row | BadRow]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _require_unique(file.schema_arrow.names, str(path))
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file: {error}", "Is the file complete?") from error
