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
Column = Sequence[Any] | Mapping[Any, Any]
"""A value for each caption: in order, or by id."""

_HOW = "score(predictions=CAPTIONS, references=LISTS, images=IMAGES, metrics=...), or score(ROWS, metrics)."
_HOW_BY_ID = "score(predictions={ID: [CAPTION]}, references={ID: [TEXT, ...]}, ...), or lists in order."
_NAMED_IDS = 3


def given_rows(
    rows: Rows | None,
    predictions: Column | None,
    references: Column | None,
    images: Column | None,
) -> Rows:
    """Return what was given as rows, whose images are not decoded; see :func:`capbench.score`.

    Raises:
        UsageError: Both rows and predictions are given, or neither; the lists are not of one length; or mappings have
            other ids than each other, or an id has more than one caption.
    """
    if (rows is None) == (predictions is None):
        which = "neither rows nor predictions" if rows is None else "both rows and predictions"
        raise UsageError(f"{which} were given", _HOW)
    if rows is not None:
        if references is not None or images is not None:
            raise UsageError("rows have their own references and images", _HOW)
        return _encoded(rows)
    named = {"candidate": predictions, "references": references, "image": images}
    columns: dict[str, Any] = {name: column for name, column in named.items() if column is not None}
    if any(isinstance(column, Mapping) for column in columns.values()):
        columns = _joined(columns)
    given = {name: _listed(name, column) for name, column in columns.items()}
    if len({len(column) for column in given.values()}) > 1:
        counts = ", ".join(f"{len(column):,} of '{name}'" for name, column in given.items())
        raise UsageError(f"each prediction has its own references and image, and there are {counts}", _HOW)
    pairs = (zip(repeat(name), column, strict=False) for name, column in given.items())
    return _encoded(map(dict, zip(*pairs, strict=True)))


def require_list(what: str, column: Any) -> None:
    """Raise where a mapping by id was given, of which iteration gives the ids alone.

    Args:
        what: What the column holds.
        column: What was given.

    Raises:
        UsageError: It is a mapping.
    """
    if isinstance(column, Mapping):
        raise UsageError(
            f"{what} are a mapping by id, where a list is expected",
            "capbench.score takes {ID: [CAPTION]} with {ID: [TEXT, ...]}, and joins them.",
        )


def _joined(columns: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return columns that are given by id as lists in the order of the captions, with the ids as a column."""
    by_id = {name: column for name, column in columns.items() if isinstance(column, Mapping)}
    if others := columns.keys() - by_id.keys():
        raise UsageError(f"'{next(iter(by_id))}' is by id, and '{min(others)}' is not", _HOW_BY_ID)
    ids = dict.fromkeys(one for column in by_id.values() for one in column)
    for name, column in by_id.items():
        if missing := [one for one in ids if one not in column]:
            more = f", and {len(missing) - _NAMED_IDS} more" if len(missing) > _NAMED_IDS else ""
            named = ", ".join(map(repr, missing[:_NAMED_IDS]))
            raise UsageError(f"'{name}' has nothing of {named}{more}", _HOW_BY_ID)
    lists = {name: [column[one] for one in ids] for name, column in by_id.items()}
    return {**lists, "id": list(ids), "candidate": list(map(_only, ids, lists["candidate"]))}


def _only(identity: Any, given: Any) -> str:
    """Return the caption of an id."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or len(texts) != 1 or not isinstance(texts[0], str):
        raise UsageError(f"of {identity!r} there is not one caption: {given!r:.80}", _HOW_BY_ID)
    return texts[0]


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
