"""Finds what is damaged in a store that SQLite can open, and deletes it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from .faults import DamagedStoreError, store_errors
from .schema import VERSION, is_sound, is_sound_in_any_schema
from .transactions import transaction

LOST = json.dumps({"producer": "unknown"}, separators=(",", ":"))
"""The fingerprint in whose name sound entries are kept whose own producer is not known any more."""


@dataclass
class Damage:
    """What is not as it was written.

    Attributes:
        file: What SQLite says of the file.
        entries: Row to key of damaged entries.
        producers: Numbers of producers whose fingerprint is damaged.
        orphans: Number of entries whose producer is not there.
    """

    file: list[str] = field(default_factory=list)
    entries: dict[int, bytes] = field(default_factory=dict)
    producers: list[int] = field(default_factory=list)
    orphans: int = 0

    def lines(self) -> list[str]:
        """Return a line for each fault."""
        return [
            *self.file,
            *(f"entry {key.hex()[:16]} is not what was written" for key in self.entries.values()),
            *(f"the fingerprint of producer {number} is not what was written" for number in self.producers),
            *([f"the producer of {self.orphans:,} entries is not known"] if self.orphans else []),
        ]


def find_damage(db: sqlite3.Connection, version: int, path: Path) -> Damage:
    """Look at the whole of a store.

    Args:
        db: The store; its texts come as bytes.
        version: The schema of its file.
        path: For messages.

    Raises:
        StoreError: It could not be looked at, which says nothing of damage (another process holds it).
    """
    damage = Damage()
    for look in (_look_at_file, _look_at_entries, _look_at_producers):
        try:
            with store_errors(path):
                look(db, version, damage)
        except DamagedStoreError as error:
            said = str(error.__cause__)
            if said not in damage.file:
                damage.file.append(said)
    return damage


def delete_damaged(db: sqlite3.Connection, damage: Damage) -> None:
    """Delete damaged entries of a sound file; entries without a producer get that of ``LOST``."""
    with transaction(db):
        db.executemany("DELETE FROM entries WHERE rowid = ?", [(row,) for row in damage.entries])
        db.executemany("DELETE FROM producers WHERE id = ?", [(number,) for number in damage.producers])
        adopt_orphans(db)


def adopt_orphans(db: sqlite3.Connection) -> None:
    """Let entries whose producer is not there be of ``LOST``, in the caller's transaction."""
    if not _count_orphans(db):
        return
    db.execute(
        "INSERT OR IGNORE INTO producers (fingerprint, crc) VALUES (?, ?)", (LOST, zlib.crc32(LOST.encode()))
    )
    db.execute(
        "UPDATE entries SET producer = (SELECT id FROM producers WHERE fingerprint = ?) "
        "WHERE producer NOT IN (SELECT id FROM producers)",
        (LOST,),
    )


def _look_at_file(db: sqlite3.Connection, version: int, damage: Damage) -> None:
    said = [row[0].decode("utf-8", "replace") for row in db.execute("PRAGMA integrity_check")]
    damage.file += [line for line in said if line != "ok"]


def _look_at_entries(db: sqlite3.Connection, version: int, damage: Damage) -> None:
    first = version < VERSION
    sound = is_sound_in_any_schema if first else is_sound
    # Not by way of the index, which may name other rows than there are.
    query = f"SELECT {'created' if first else 'rowid'}, key, crc, value FROM entries NOT INDEXED"  # noqa: S608
    for row, key, crc, value in db.execute(query):
        if not sound(key, crc, value):
            damage.entries[row] = key if isinstance(key, bytes) else b""


def _look_at_producers(db: sqlite3.Connection, version: int, damage: Damage) -> None:
    if version == VERSION:
        damage.producers += [
            number
            for number, fingerprint, crc in db.execute(
                "SELECT id, fingerprint, crc FROM producers NOT INDEXED"
            )
            if not isinstance(fingerprint, bytes) or zlib.crc32(fingerprint) != crc
        ]
    damage.orphans = _count_orphans(db)


def _count_orphans(db: sqlite3.Connection) -> int:
    query = "SELECT COUNT(*) FROM entries WHERE producer NOT IN (SELECT id FROM producers)"
    return db.execute(query).fetchone()[0]
