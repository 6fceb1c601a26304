"""A store of the first schema becomes one of the second when it is opened, and loses nothing on the way."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from first_store import FirstStore

from capbench.benchmarks.store.store import Store
from capbench.errors import StoreError

CAPTIONS, FEATURES = {"adapter": "captioner"}, {"of": "features"}
VALUES = {"a dog": {"tokens": ["a", "dog"]}, "ein Hündchen 🐕": "text", "lone \udc00": [1.5, None]}


def write_first(path: Path, arrays: int = 0) -> dict[str, np.ndarray]:
    """Make a store of the first schema, and return the arrays that it keeps."""
    first = FirstStore(path)
    first.put(CAPTIONS, VALUES, created=1_600_000_000)
    kept = {str(n): np.full(512, n, dtype=np.float32) for n in range(arrays)}
    first.put_arrays(FEATURES, kept)
    first.close()
    return kept


def schema_of(path: Path) -> tuple[int, int]:
    """Return the version and the size of the pages."""
    with sqlite3.connect(path) as db:
        found = tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "page_size"))
    db.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def test_all_that_an_old_store_keeps_is_found_in_the_same_file_which_is_smaller(path: Path):
    arrays = write_first(path, arrays=300)
    before = path.stat().st_size
    with Store(path) as store:
        assert store.get(CAPTIONS, [*VALUES, "never put"]) == VALUES
        found = store.get_arrays(FEATURES, list(arrays))
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())
        assert store.verify() == []
        by_name = {next(iter(one.fingerprint.values())): one for one in store.stats()}
        assert (by_name["features"].entries, by_name["captioner"].oldest) == (300, 1_600_000_000)
        store.put(CAPTIONS, {"new": 1})
    assert schema_of(path) == (2, 16_384)
    assert path.stat().st_size < before * 0.6
    with Store(path) as store:
        assert store.get(CAPTIONS, ["a dog", "new"]) == {"a dog": VALUES["a dog"], "new": 1}


def test_damaged_values_are_left_behind(path: Path):
    write_first(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET value = 'null' WHERE INSTR(value, 'dog')")
    db.close()
    with Store(path) as store:
        assert store.get(CAPTIONS, list(VALUES)) == {k: v for k, v in VALUES.items() if k != "a dog"}
        assert store.verify() == []


def test_number_of_the_schema_that_is_damaged_costs_no_value(path: Path):
    with Store(path) as store:
        store.put(CAPTIONS, VALUES)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()
    with Store(path) as store:
        assert store.get(CAPTIONS, list(VALUES)) == VALUES
        assert store.verify() == []


def test_store_that_an_old_process_has_open_is_carried_over_and_its_pages_later(path: Path):
    write_first(path)
    old = sqlite3.connect(path, isolation_level=None)
    assert old.execute("SELECT COUNT(*) FROM entries").fetchone() == (3,)
    with Store(path) as store:
        assert store.get(CAPTIONS, list(VALUES)) == VALUES
        # What the old process still writes has no checksum of today, and is unknown.
        old.execute("INSERT OR REPLACE INTO entries SELECT key, producer, created, 1, value FROM entries")
        assert store.get(CAPTIONS, list(VALUES)) == {}
        store.put(CAPTIONS, VALUES)
        assert store.prune(containing="nothing of this name") == 0
        assert schema_of(path) == (2, 4096)
        old.close()
        store.prune(containing="nothing of this name")
        assert schema_of(path) == (2, 16_384)
        assert store.get(CAPTIONS, list(VALUES)) == VALUES


_OPENS = """
import sys
from pathlib import Path
from capbench.benchmarks.store.store import Store

print("ready", flush=True)
Store(Path(sys.argv[1])).close()
"""


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _OPENS, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_process_killed_on_the_way_loses_nothing(path: Path):
    arrays = write_first(path, arrays=6_000)
    for milliseconds in (0, 15, 30, 60, 100, 150):
        child = start(path)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(milliseconds / 1000)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
    with Store(path) as store:
        assert store.verify() == []
        assert store.get(CAPTIONS, list(VALUES)) == VALUES
        assert store.get_arrays(FEATURES, list(arrays)).keys() == arrays.keys()


def test_two_processes_that_open_an_old_store_at_once_both_have_all_of_it(path: Path):
    arrays = write_first(path, arrays=3_000)
    children = [start(path) for _ in range(3)]
    assert [child.communicate(timeout=60) for child in children] == [("ready\n", "")] * 3
    with Store(path) as store:
        assert store.verify() == []
        assert store.get(CAPTIONS, list(VALUES)) == VALUES
        assert len(store.get_arrays(FEATURES, list(arrays))) == 3_000


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk")
@pytest.mark.parametrize("free", [100_000, 1_000_000])
def test_full_disk_keeps_the_old_store(tmp_path: Path, path: Path, free: int):
    arrays = write_first(path, arrays=900)  # 2 MB in the second schema
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={path.stat().st_size + free}", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a disk")
    try:
        path = Path(shutil.move(path, disk))
        with pytest.raises(StoreError, match="full") as caught:
            Store(path)
        assert "Free disk space" in caught.value.hint
        assert schema_of(path) == (1, 4096)
        first = FirstStore(path)
        assert len(first.get_arrays(FEATURES, list(arrays))) == 900
        first.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
