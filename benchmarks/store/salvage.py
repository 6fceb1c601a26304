"""Makes a new store of what can be read of a file that SQLite cannot read."""

from __future__ import annotations

import json
import mmap
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ...drafts import DRAFT, draft_beside, remove_abandoned
from .damage import adopt_orphans
from .faults import is_busy, store_errors
from .opening import open_file
from .pages import rows
from .schema import PAGE_BYTES, checksum, is_sound_in_any_schema
from .transactions import transaction
from .values import as_bytes

_LOCK_SECONDS = 30.0
_PAGE_BYTES_OF_FIRST_SCHEMA = 4096
_LOGS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Salvaged:
    """What came of a damaged store.

    Attributes:
        entries: How many entries the new file has.
        damaged: Where the damaged file is now.
    """

    entries: int
    damaged: Path


def salvage(path: Path) -> Salvaged | None:
    """Put a new store in the place of a damaged one, with every entry whose own pages are sound.

    The damaged file stays beside it, under another name.

    Returns:
        What was saved; None where there was nothing, and the file is as it was.

    Raises:
        StoreError: Another process holds the file, or the new one could not be written.
    """
    path = path.resolve()
    remove_abandoned(path.parent.glob(f"{DRAFT}*"))
    fresh = draft_beside(path)
    with store_errors(path), ExitStack() as stack:
        stack.callback(_remove, fresh)
        # Open until the end: whoever closes a file gives up the lock that he has on it.
        file = stack.enter_context(path.open("rb"))
        _hold(path, stack)
        entries = _copy(file.fileno(), fresh) if path.stat().st_size else 0
        if not entries:
            return None
        shutil.copymode(path, fresh)
        damaged = next(name for name in _names_beside(path) if not name.exists())
        # First: SQLite would take what is in the old log for changes of the new file.
        for ending in _LOGS:
            log = path.with_name(path.name + ending)
            if log.exists():
                log.rename(damaged.with_name(damaged.name + ending))
        path.rename(damaged)
        fresh.rename(path)
    return Salvaged(entries, damaged)


def _hold(path: Path, stack: ExitStack) -> None:
    """Keep others from the file, and write its log back into it, as far as SQLite can still do that.

    Raises:
        sqlite3.Error: Another process has it open.
    """
    db = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        db.close()
        if is_busy(error):
            raise
        return
    stack.callback(db.close)


def _copy(file: int, fresh: Path) -> int:
    """Write the rows that can be read into a new store, and return how many entries it has."""
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content:
        for page_bytes in _sizes_of_pages(content):
            _remove(fresh)
            with closing(open_file(fresh, _LOCK_SECONDS).db) as db:
                with transaction(db):
                    for row in rows(content, page_bytes):
                        _keep(db, row)
                    adopt_orphans(db)
                (entries,) = db.execute("SELECT COUNT(*) FROM entries").fetchone()
            if entries:
                return entries
    return 0


def _keep(db: sqlite3.Connection, row: list[int | str | bytes | None]) -> None:
    match row:
        case [_, bytes() as key, int() as producer, int() as created, int() as crc, str() | bytes() as value]:
            if is_sound_in_any_schema(key, crc, as_bytes(value)):
                # A page that was given up may hold what was replaced since.
                db.execute(
                    "INSERT INTO entries (key, producer, created, crc, value) VALUES (?1, ?2, ?3, ?4, ?5) "
                    "ON CONFLICT (key) DO UPDATE SET producer = ?2, created = ?3, crc = ?4, value = ?5 "
                    "WHERE ?3 > created",
                    (key, producer, created, checksum(key, as_bytes(value)), value),
                )
        case [int() as number, None, str() as fingerprint, *crc] if len(crc) < 2:
            own = zlib.crc32(fingerprint.encode())
            if crc == [own] or (not crc and _is_json(fingerprint)):
                db.execute("INSERT OR IGNORE INTO producers VALUES (?, ?, ?)", (number, fingerprint, own))


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _sizes_of_pages(content: mmap.mmap) -> list[int]:
    """Return what the size of the pages may be, the likeliest first: the header that says it may be damaged."""
    said = int.from_bytes(content[16:18])
    said = 65_536 if said == 1 else said
    possible = said >= 512 and said & (said - 1) == 0
    return list(dict.fromkeys([*([said] if possible else []), PAGE_BYTES, _PAGE_BYTES_OF_FIRST_SCHEMA]))


def _names_beside(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.damaged")
    number = 2
    while True:
        yield path.with_name(f"{path.name}.damaged-{number}")
        number += 1


def _remove(path: Path) -> None:
    for ending in ("", *_LOGS):
        path.with_name(path.name + ending).unlink(missing_ok=True)
