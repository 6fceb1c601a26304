"""Columns of other files, which tasks join to their documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ..errors import DataError
from ..rows import BadRow, Row, no_such_file, parse_number, read_rows
from .schema import Join

_NAMED = 3
_Key = tuple[str, ...]


@dataclass
class JoinedFile:
    """The rows of a file by their key, in memory.

    Attributes:
        join: What is joined, on which columns.
        task: The task's name, for messages.
        rows: The columns of each row, but for its key.
        bad_rows: Rows that cannot be read.
        without: Documents that have no row and are used all the same.
    """

    join: Join
    task: str
    rows: dict[_Key, Row] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)
    without: list[BadRow] = field(default_factory=list)

    @classmethod
    def read(cls, join: Join, task: str, folder: Path) -> JoinedFile:
        """Read the file, or files, of a join.

        Args:
            join: What is joined.
            task: The task's name, for messages.
            folder: Where the files lie.

        Raises:
            DataError: One is missing, has not the columns, or two rows have one key and differ.
        """
        joined = cls(join, task)
        numbers: dict[_Key, list[tuple[str, Row]]] = {}
        for name in join.file:
            if not (folder / name).is_file():
                raise DataError(
                    f"task '{task}': join: {no_such_file(folder.absolute() / name)}",
                    "'file' names a file that lies where the data does.",
                )
            for number, row in enumerate(read_rows(folder / name), 1):
                if isinstance(row, BadRow):
                    joined.bad_rows.append(row)
                else:
                    key, columns = joined._keyed(row, place := f"{Path(name).name}: row {number}")
                    numbers.setdefault(key, []).append((place, columns))
        joined.rows = {key: joined._one(key, rows) for key, rows in numbers.items()}
        return joined

    def joined(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any] | BadRow]:
        """Yield each document with its row's columns.

        A document without a row is a ``BadRow``, or gets nulls if the join's ``required`` is false.

        Raises:
            DataError: No document has a row, or a document has another value in a column of its row.
        """
        unmatched: list[_Key] = []
        matched, self.without = False, []
        nulls = dict.fromkeys(name for row in self.rows.values() for name in row)
        for number, document in enumerate(documents):
            values = [document.get(column) for column in self.join.on]
            key = self._key(self.join.on, values)
            if None not in values and (row := self.rows.get(key)) is not None:
                matched = True
                self._require_agreement(number, document, row)
                yield {**document, **row}
                continue
            unmatched += [key] if len(unmatched) < _NAMED else []
            reason = f"has no row in {self.join.named}"
            if self.join.required:
                yield BadRow(f"document {number}", f"{reason}: {_said(self.join.on, key)}")
            else:
                self.without.append(BadRow(f"document {number}", reason))
                yield {**nulls, **document}
        if not matched:
            raise DataError(
                f"task '{self.task}': join: no document has a row in {self.join.named}: documents have "
                f"{_listed(self.join.on, unmatched)}, the file has {_listed(self.join.on.values(), self.rows)}",
                "'on' names the columns that documents and the file share; values are compared as texts.",
            )

    def _keyed(self, row: Row, place: str) -> tuple[_Key, Row]:
        """Return the key of a row of the file, and its other columns."""
        join = self.join
        lacking = [column for column in (*join.on.values(), *join.mean) if row.get(column) is None]
        if lacking := lacking or [column for column in join.columns if column not in row]:
            raise DataError(
                f"task '{self.task}': join: {place} has no '{lacking[0]}'; its columns are {', '.join(row)}",
                "'on' names the columns that documents and the file share: COLUMN, or {COLUMN OF DOCUMENTS: COLUMN OF "
                "THE FILE}; 'columns' and 'mean' name columns of the file.",
            )
        taken = {*join.columns, *join.mean} if join.columns else row.keys() - join.on.values()
        key = self._key(self.join.on, [row[column] for column in self.join.on.values()])
        return key, {name: value for name, value in row.items() if name in taken}

    def _key(self, columns: Iterable[str], values: Iterable[Any]) -> _Key:
        texts = (" ".join(str(value).split()) for value in values)
        return tuple(
            PurePath(text).stem if column in self.join.bare else text
            for column, text in zip(columns, texts, strict=True)
        )

    def _one(self, key: _Key, rows: list[tuple[str, Row]]) -> Row:
        """Return the columns of all rows of a key: what they share, and the means of what they do not."""
        first, shared = (rows[0][0], {name: rows[0][1][name] for name in rows[0][1] if name not in self.join.mean})
        for place, row in rows[1:]:
            if {name: value for name, value in row.items() if name not in self.join.mean} != shared:
                raise DataError(
                    f"task '{self.task}': join: {place} has the key of {first} "
                    f"({_said(self.join.on.values(), key)}), and differs from it",
                    "A document takes the columns of one row: remove one row, add a column that differs to 'on', or "
                    "list columns of numbers to average in 'mean'.",
                )
        return {**shared, **{name: self._mean(name, rows) for name in self.join.mean}}

    def _mean(self, column: str, rows: list[tuple[str, Row]]) -> float:
        total = 0.0
        for place, row in rows:
            try:
                total += parse_number(row[column])
            except (TypeError, ValueError, OverflowError) as error:
                raise DataError(
                    f"task '{self.task}': join: {place}: column '{column}' {error}", "'mean' names columns of numbers."
                ) from error
        return total / len(rows)

    def _require_agreement(self, number: int, document: Mapping[str, Any], row: Row) -> None:
        for column in row.keys() & document.keys():
            if row[column] != document[column]:
                raise DataError(
                    f"task '{self.task}': join: document {number} has {document[column]!r:.60} in column '{column}', "
                    f"and its row in {self.join.named} has {row[column]!r:.60}",
                    "Rename one of the two columns, or add it to 'on' where it is part of the key.",
                )


def _said(columns: Iterable[str], key: _Key) -> str:
    return ", ".join(f"{column} '{value:.60}'" for column, value in zip(columns, key, strict=True))


def _listed(columns: Iterable[str], keys: Iterable[_Key]) -> str:
    names = list(columns)
    listed = [_said(names, key) for key, _ in zip(keys, range(_NAMED), strict=False)]
    return "; ".join(listed) or "no row"
