"""Reads rows off the pages of a SQLite file, whatever has become of its trees.

Each page that holds rows says where they lie (https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1),
so a row can be read as long as its own pages are sound. What is read here is a guess: only a checksum in the
row makes it true.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

_ROWS_OF_TABLE = 0x0D
# A table without rowids keeps its rows in the pages of an index, inner ones too.
_ROWS_OF_INDEX, _INNER_ROWS_OF_INDEX = 0x0A, 0x02

Row = list[int | str | bytes | None]
"""The number of a row, None in a table without numbers; then its columns."""


def rows(content: mmap.mmap, page_bytes: int) -> Iterator[Row]:
    """Yield what looks like rows, page by page; text that is no UTF-8 is None, as numbers with a fraction are.

    Args:
        content: The file.
        page_bytes: The size of its pages.
    """
    # The first page holds the names of the tables.
    for start in range(page_bytes, len(content) - page_bytes + 1, page_bytes):
        kind = content[start]
        if kind not in (_ROWS_OF_TABLE, _ROWS_OF_INDEX, _INNER_ROWS_OF_INDEX):
            continue
        inner = 4 if kind == _INNER_ROWS_OF_INDEX else 0
        count = int.from_bytes(content[start + 3 : start + 5])
        pointers = start + 8 + inner
        for number in range(min(count, page_bytes // 4)):
            at = start + int.from_bytes(content[pointers + 2 * number : pointers + 2 * number + 2]) + inner
            try:
                size, at = _varint(content, at)
                row = None
                if kind == _ROWS_OF_TABLE:
                    row, at = _varint(content, at)
                yield [row, *_record(_payload(content, at, size, page_bytes, kind == _ROWS_OF_TABLE))]
            except (IndexError, ValueError):
                continue


def _payload(content: mmap.mmap, at: int, size: int, page_bytes: int, of_table: bool) -> bytes:
    """Return a row's bytes: those on the page, and the rest from the chain of pages that follows."""
    if size > len(content):
        raise ValueError(f"{size} bytes are more than the file holds")
    most = page_bytes - 35 if of_table else (page_bytes - 12) * 64 // 255 - 23
    if size <= most:
        return content[at : at + size]
    least = (page_bytes - 12) * 32 // 255 - 23
    here = least + (size - least) % (page_bytes - 4)
    here = here if here <= most else least
    parts, left = [content[at : at + here]], size - here
    following = int.from_bytes(content[at + here : at + here + 4])
    while left > 0:
        start = (following - 1) * page_bytes
        if not 0 <= start < len(content):
            raise ValueError(f"there is no page {following}")
        parts.append(content[start + 4 : start + min(4 + left, page_bytes)])
        left -= page_bytes - 4
        following = int.from_bytes(content[start : start + 4])
    return b"".join(parts)


def _record(payload: bytes) -> Row:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    row: Row = []
    for kind in kinds:
        size = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind] if kind < 10 else max(0, kind - 12) // 2
        value = payload[at : at + size]
        at += size
        row.append(_value(kind, value))
    return row


def _value(kind: int, value: bytes) -> int | str | bytes | None:
    if 1 <= kind <= 6:
        return int.from_bytes(value, signed=True)
    if kind in (8, 9):
        return kind - 8
    if kind < 12:
        return None
    if kind % 2 == 0:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where it ends."""
    number = 0
    for place in range(at, at + 8):
        byte = data[place]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + 1
    return number << 8 | data[at + 8], at + 9
