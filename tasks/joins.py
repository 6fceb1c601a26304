"""Gives documents the columns of other files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError, did_you_mean
from ..rows import BadRow, Row, read_rows
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
    """

    join: Join
    task: str
    rows: dict[_Key, Row] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)

    @classmethod
    def read(cls, join: Join, task: str, file: Path) -> JoinedFile:
        """Read a file.

        Raises:
            DataError: It is missing, has not the columns, or two of its rows have one key and differ.
        """
        found = cls(join, task)
        numbers: dict[_Key, int] = {}
        for number, row in enumerate(read_rows(file), 1):
            if isinstance(row, BadRow):
                found.bad_rows.append(row)
                continue
            place = f"task '{task}': join: {file.name}: row {number}"
            for column in join.on.values():
                if row.get(column) is None:
                    raise DataError(
                        f"{place} has no '{column}'; its columns are {', '.join(row)}",
                        "'on' names the columns that documents and the file share: COLUMN, or {COLUMN OF DOCUMENTS: "
                        "COLUMN OF THE FILE}.",
                    )
            key = tuple(str(row[column]) for column in join.on.values())
            columns = {name: value for name, value in row.items() if name not in join.on.values()}
            if found.rows.setdefault(key, columns) != columns:
                raise DataError(
                    f"{place} has the key of row {numbers[key]} ({_said(join.on.values(), key)}), and differs from it",
                    "A document takes the columns of one row: keep one of the two, or name the columns in 'on' that "
                    "tell them apart.",
                )
            numbers.setdefault(key, number)
        return found

    def joined(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any] | BadRow]:
        """Yield each document with its row's columns, or a ``BadRow`` where the file has no row of it.

        Raises:
            DataError: No document has a row, or a document has another value in a column of its row.
        """
        unmatched: list[_Key] = []
        matched = False
        for number, document in enumerate(documents):
            values = [self._value(document, column) for column in self.join.on]
            key = tuple(map(str, values))
            if None in values or (row := self.rows.get(key)) is None:
                unmatched += [key] if len(unmatched) < _NAMED else []
                yield BadRow(
                    f"document {number}", f"has no row in {self.join.file}: {_said(self.join.on, key)}"
                )
                continue
            matched = True
            self._require_agreement(number, document, row)
            yield {**document, **row}
        if not matched:
            raise DataError(
                f"task '{self.task}': join: no document has a row in {self.join.file}: documents have "
                f"{_listed(self.join.on, unmatched)}, the file has {_listed(self.join.on.values(), self.rows)}",
                "'on' names the columns that documents and the file share; values are compared as texts.",
            )

    def _value(self, document: Mapping[str, Any], column: str) -> Any:
        try:
            return document[column]
        except KeyError:
            raise DataError(
                f"task '{self.task}': join: documents have no column '{column}'.{did_you_mean(column, document)}",
                f"Columns: {', '.join(document)}. 'on' takes {{COLUMN OF DOCUMENTS: COLUMN OF THE FILE}}, too.",
            ) from None

    def _require_agreement(self, number: int, document: Mapping[str, Any], row: Row) -> None:
        for column in row.keys() & document.keys():
            if row[column] != document[column]:
                raise DataError(
                    f"task '{self.task}': join: document {number} has {document[column]!r:.60} in column '{column}', "
                    f"and its row in {self.join.file} has {row[column]!r:.60}",
                    "Rename one of the two columns, or add it to 'on' where it is part of the key.",
                )


def _said(columns: Iterable[str], key: _Key) -> str:
    return ", ".join(f"{column} '{value:.60}'" for column, value in zip(columns, key, strict=True))


def _listed(columns: Iterable[str], keys: Iterable[_Key]) -> str:
    names = list(columns)
    found = [_said(names, key) for key, _ in zip(keys, range(_NAMED), strict=False)]
    return "; ".join(found) or "no row"
