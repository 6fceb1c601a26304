"""What a program gives to be scored, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from ...adapters.pixels.decoded import encoded, is_decoded
from ...errors import UsageError
from ...rows import BadRow

Rows = Iterable[Mapping[str, Any] | BadRow]
"""Rows of captions; one that could not be read stands there as that."""

_HOW = "score(predictions=CAPTIONS, references=LISTS, images=IMAGES, metrics=...), or score(ROWS, metrics)."


def given_rows(
    rows: Rows | None,
    predictions: Sequence[str] | None,
    references: Sequence[str | Sequence[str]] | None,
    images: Sequence[Any] | None,
) -> Rows:
    """Return what was given as rows, whose images are not decoded; see :func:`capbench.score`.

    Raises:
        UsageError: Both rows and predictions are given, or neither; or the lists are not of one length.
    """
    if (rows is None) == (predictions is None):
        which = "neither rows nor predictions" if rows is None else "both rows and predictions"
        raise UsageError(f"{which} were given", _HOW)
    if rows is not None:
        if references is not None or images is not None:
            raise UsageError("rows have their own references and images", _HOW)
        return _encoded(rows)
    columns = {"candidate": predictions, "references": references, "image": images}
    given = {name: _listed(name, column) for name, column in columns.items() if column is not None}
    if len({len(column) for column in given.values()}) > 1:
        counts = ", ".join(f"{len(column):,} of '{name}'" for name, column in given.items())
        raise UsageError(f"each prediction has its own references and image, and there are {counts}", _HOW)
    named = (zip(repeat(name), column, strict=False) for name, column in given.items())
    return _encoded(map(dict, zip(*named, strict=True)))


def _listed(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """Return a column; a reference that is one text becomes the list of it."""
    if isinstance(column, str | bytes):
        raise UsageError(f"'{name}' is one text, where a list is expected", _HOW)
    if name != "references":
        return list(column)
    return [[one] if isinstance(one, str) else one for one in column]


def _encoded(rows: Rows) -> Iterator[Mapping[str, Any] | BadRow]:
    for row in rows:
        if isinstance(row, Mapping) and is_decoded(image := row.get("image")):
            row = {**row, "image": encoded(image)}
        yield row
