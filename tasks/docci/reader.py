"""Selects a part of DOCCI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...rows import Row


def of_test(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of the test split; the others are train, qual_dev and qual_test."""
    return (row for row in rows if row.get("split") == "test")
