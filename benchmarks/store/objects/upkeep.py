"""Looks after shared results: how much there is, what is damaged, what may go."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ....drafts import DRAFT
from .contract import Entry
from .object_store import ObjectStore, in_threads, is_key
from .seal import DamagedObjectError

_DAY = 86_400.0


@dataclass(frozen=True)
class ObjectsThere:
    """How many objects there are, of how many bytes in all; of some, the oldest and the newest (seconds since 1970)."""

    objects: int = 0
    size: int = 0
    oldest: float = 0.0
    newest: float = 0.0


def count_objects(objects: ObjectStore) -> ObjectsThere:
    """Return what a store holds.

    Raises:
        StoreError: The place cannot be read.
    """
    count = size = 0
    oldest, newest = float("inf"), 0.0
    for folder in in_threads(lambda folder: _objects_in(objects, folder), sorted(objects.folders())):
        for one in folder:
            count, size = count + 1, size + one.size
            oldest, newest = min(oldest, one.written), max(newest, one.written)
    return ObjectsThere(count, size, oldest, newest) if count else ObjectsThere()


def find_damaged_objects(objects: ObjectStore, repair: bool = False) -> list[str]:
    """Read every object, and return a line for each that is not what was written.

    Args:
        objects: The store.
        repair: Delete what is damaged; it is computed anew when it is next needed.

    Raises:
        StoreError: The place cannot be read, or cannot be written and should be.
    """

    def look(key: str) -> str | None:
        try:
            objects.read(key)
        except DamagedObjectError as error:
            if repair:
                objects.delete(key)
            return f"object {key} is not what was written: {error}"
        return None

    return [line for line in in_threads(look, objects.keys()) if line]


def prune_objects(objects: ObjectStore, before: float) -> ObjectsThere:
    """Delete the objects that were written before a time, and drafts that nobody wrote to for a day.

    Args:
        objects: The store.
        before: Seconds since 1970.

    Returns:
        What was deleted.

    Raises:
        StoreError: The place cannot be read or written.
    """
    objects.require_writable()
    yesterday = time.time() - _DAY
    for draft in objects.place.entries(""):
        if draft.name.startswith(DRAFT) and draft.written < yesterday:
            objects.place.remove(draft.name)
    count = size = 0
    for folder in sorted(objects.folders()):
        old = [one for one in _objects_in(objects, folder) if one.written < before]
        for _ in in_threads(objects.delete, [one.name for one in old]):
            pass
        count, size = count + len(old), size + sum(one.size for one in old)
    return ObjectsThere(count, size)


def _objects_in(objects: ObjectStore, folder: str) -> list[Entry]:
    return [one for one in objects.place.entries(folder) if is_key(folder, one.name)]
