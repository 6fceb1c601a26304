"""Rows read off the pages of a file are those that SQLite reads."""

from __future__ import annotations

import mmap
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from capbench.benchmarks.store.pages import rows


@pytest.fixture
def read(tmp_path: Path) -> Callable[[int, str, Iterator[tuple[Any, ...]]], list[list[Any]]]:
    """Return a function that writes rows with SQLite, and reads those of the table off its pages."""

    def write_and_read(page_bytes: int, table: str, written: Iterator[tuple[Any, ...]]) -> list[list[Any]]:
        path = tmp_path / "file.sqlite"
        with sqlite3.connect(path, isolation_level=None) as db:
            # Each row by itself, and no wait for the disk.
            db.execute("PRAGMA synchronous = OFF")
            db.execute(f"PRAGMA page_size = {page_bytes}")
            db.execute(table)
            for row in written:
                db.execute(f"INSERT INTO t VALUES ({','.join('?' * len(row))})", row)  # noqa: S608
        db.close()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return list(rows(content, page_bytes))

    return write_and_read


@pytest.mark.parametrize("page_bytes", [512, 4096, 16_384])
@pytest.mark.parametrize("rowid", [True, False], ids=["rowid", "without rowid"])
def test_values_of_every_length_are_read_also_those_that_go_on_on_other_pages(
    read, page_bytes: int, rowid: bool
):
    rng = random.Random(1)  # noqa: S311
    # Around where a row no longer fits on its page, and where a second page more is needed.
    near = [page_bytes * n // d + m for n, d in ((1, 4), (1, 1), (2, 1)) for m in range(-60, 20)]
    written = [(n, rng.randbytes(max(0, length))) for n, length in enumerate([0, 1, *near])]
    table = "CREATE TABLE t (number INTEGER NOT NULL, value, PRIMARY KEY (number, value)) WITHOUT ROWID"
    found = read(page_bytes, "CREATE TABLE t (number, value)" if rowid else table, written)
    assert sorted(row[1:] for row in found) == [list(row) for row in written]
    assert sorted(row[0] for row in found if row[0]) == (list(range(1, len(written) + 1)) if rowid else [])


def test_numbers_of_every_size_and_texts_and_nothing_are_read(read):
    numbers = [sign * 2**power + more for power in range(63) for sign in (-1, 1) for more in (-1, 0)]
    written = [(n, "ein Hündchen 🐕", None) for n in [*numbers, 2**63 - 1, -(2**63)]]
    found = read(4096, "CREATE TABLE t (number, words, lacking)", written)
    assert [tuple(row[1:]) for row in found] == written


def test_many_rows_share_a_page_and_rows_may_have_any_number(read):
    written = [(n * 2**51, None) for n in range(1, 1_500)]
    found = read(16_384, "CREATE TABLE t (id INTEGER PRIMARY KEY, lacking)", written)
    assert [row[0] for row in found] == [number for number, _ in written]


def test_what_is_no_text_is_none_and_so_is_a_fraction(read):
    # Text that is not UTF-8 comes as such only from damage.
    (row,) = read(512, "CREATE TABLE t AS SELECT CAST(x'ff' AS TEXT) AS damaged, 1.5 AS fraction, 7 AS n", [])
    assert row[1:] == [None, None, 7]
