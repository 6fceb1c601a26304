"""Addresses of pages, and what of a list they say: order, search, page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import BenchError, did_you_mean


class NoSuchPageError(BenchError):
    """An address that leads nowhere."""


def address(*parts: object, **query: object) -> str:
    """Return the address of a page below the root, with what of a query says something."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    said = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(said, errors='replace')}" if said else path


@dataclass(frozen=True)
class ListState:
    """Which samples a list holds, and in which order.

    Attributes:
        sort: A metric or a column of ratings; empty for the order of the run.
        descending: Whether the highest come first.
        query: What samples must contain; empty for all.
        failed: Only those that could not be used whole.
        page: Which page of the list, from 1.
    """

    sort: str = ""
    descending: bool = False
    query: str = ""
    failed: bool = False
    page: int = 1

    @classmethod
    def read(cls, query: Mapping[str, str], known: Sequence[str]) -> ListState:
        """Return what the query of an address says.

        Args:
            query: Its values.
            known: What samples can be sorted by.

        Raises:
            NoSuchPageError: It says something that is not known.
        """
        sort = query.get("sort", "")
        descending = sort not in known and sort.startswith("-")
        sort = sort.removeprefix("-") if descending else sort
        if sort and sort not in known:
            raise NoSuchPageError(
                f"samples of this run cannot be sorted by '{sort}'.{did_you_mean(sort, known)}",
                f"They can by {', '.join(known)}.",
            )
        page = query.get("page", "1")
        return cls(sort, descending, query.get("q", ""), query.get("failed") == "1", page_number(page))

    @property
    def sort_value(self) -> str:
        """How addresses say the order."""
        return f"-{self.sort}" if self.descending else self.sort

    def values(self, **changes: Any) -> dict[str, object]:
        """Return the state, with changes, as the values of an address."""
        new = replace(self, **changes)
        return {
            "sort": new.sort_value,
            "q": new.query,
            "failed": "1" if new.failed else "",
            "page": new.page if new.page > 1 else "",
        }


def page_number(text: str) -> int:
    """Return the number of a page, from 1.

    Raises:
        NoSuchPageError: It is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise NoSuchPageError(f"'{text}' is no number of a page")
    return int(text)


@dataclass(frozen=True)
class Page:
    """A part of a list.

    Attributes:
        number: Which one, from 1.
        first: The place of its first entry in the list, from 0.
        last: The place after its last entry.
        pages: How many there are.
    """

    number: int
    first: int
    last: int
    pages: int


def page_of(number: int, total: int, size: int, most: int | None = None) -> Page:
    """Return a page of a list.

    Args:
        number: Which one, from 1.
        total: Entries of the list.
        size: Entries of a page.
        most: Pages of which the rest is not shown; None for all.

    Raises:
        NoSuchPageError: The list has fewer.
    """
    pages = max(1, -(-total // size))
    pages = pages if most is None else min(pages, most)
    if number > pages:
        raise NoSuchPageError(f"there is no page {number:,}: the list has {pages:,}")
    return Page(number, (number - 1) * size, min(number * size, total), pages)
