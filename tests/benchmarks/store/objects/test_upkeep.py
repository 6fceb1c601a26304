"""How much there is, what is damaged, and what goes by age."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from capbench.benchmarks.store.objects.opening import open_objects
from capbench.benchmarks.store.objects.seal import SEAL_BYTES
from capbench.benchmarks.store.objects.upkeep import (
    ObjectsThere,
    count_objects,
    find_damaged_objects,
    prune_objects,
)
from capbench.errors import StoreError

KEYS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(12)]
DAY = 86_400


def test_objects_and_bytes_are_counted(url: str):
    objects = open_objects(url)
    assert count_objects(objects) == ObjectsThere()
    # A bucket tells whole seconds.
    began = time.time() - 2
    for key in KEYS:
        objects.put(key, bytes(100))
    objects.place.create(f"{KEYS[0][:2]}/notes.txt", b"of others")
    there = count_objects(objects)
    assert (there.objects, there.size) == (12, 12 * (SEAL_BYTES + 100))
    assert began <= there.oldest <= there.newest <= time.time() + 2


def test_damaged_objects_are_named_and_deleted_where_that_is_asked(url: str):
    objects = open_objects(url)
    for key in KEYS:
        objects.put(key, b"content")
    assert find_damaged_objects(objects) == []
    objects.place.replace(f"{KEYS[3][:2]}/{KEYS[3]}", b"")
    line = f"object {KEYS[3]} is not what was written: it is cut off"
    assert find_damaged_objects(objects) == [line]
    with pytest.raises(StoreError, match="opened for reading"):
        find_damaged_objects(open_objects(url, writable=False), repair=True)
    assert find_damaged_objects(objects, repair=True) == [line]
    assert find_damaged_objects(objects) == []
    assert list(objects.keys()) == sorted(set(KEYS) - {KEYS[3]})


def test_everything_or_nothing_goes_by_time(url: str):
    objects = open_objects(url)
    for key in KEYS:
        objects.put(key, b"content")
    assert prune_objects(objects, time.time() - DAY) == ObjectsThere()
    assert len(list(objects.keys())) == 12
    with pytest.raises(StoreError, match="opened for reading"):
        prune_objects(open_objects(url, writable=False), 0)
    assert prune_objects(objects, float("inf")) == ObjectsThere(12, 12 * (SEAL_BYTES + 7))
    assert list(objects.keys()) == []
    assert open_objects(url, objects.identity).put(KEYS[0], b"")


def test_what_is_older_goes_and_drafts_that_nobody_wrote_to_for_a_day(tmp_path: Path):
    objects = open_objects(tmp_path)
    for number, key in enumerate(KEYS):
        objects.put(key, b"content")
        written = time.time() - number * DAY
        os.utime(tmp_path / key[:2] / key, (written, written))
    for days in (0.5, 1.5):
        draft = tmp_path / f".draft-another.1-1-{days}"
        draft.write_bytes(b"half")
        os.utime(draft, (time.time() - days * DAY,) * 2)
    assert prune_objects(objects, time.time() - 8.5 * DAY) == ObjectsThere(3, 3 * (SEAL_BYTES + 7))
    assert objects.known(KEYS) == set(KEYS[:9])
    assert [one.name for one in tmp_path.glob(".draft-*")] == [".draft-another.1-1-0.5"]
