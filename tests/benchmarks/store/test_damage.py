"""A damaged store: no wrong value comes out of it, and one that SQLite cannot read is moved aside and made anew."""

import logging
import random
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from two_processes import in_two_processes

from capbench.benchmarks.store.store import Store
from capbench.errors import StoreError

PAGE = 16_384
PRODUCERS = [{"adapter": "captioner"}, {"tokenizer": "PTB"}, {"of": "features"}]
VALUES = {f"text {n}": {"tokens": [n] * (n % 40)} for n in range(150)}
LONG = {f"long {n}": f"{n} " * (3_000 + 40 * n) for n in range(20)}
ARRAYS = {f"image {n}": np.full(300, n, dtype=np.float32) for n in range(60)}
ALL = len(VALUES) + len(LONG) + len(ARRAYS)
NEW = {"adapter": "another"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a store with all values."""
    path = tmp_path_factory.mktemp("sound") / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCERS[0], LONG)
        store.put(PRODUCERS[1], VALUES)
        store.put_arrays(PRODUCERS[2], ARRAYS)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def with_damaged_pages(content: bytes) -> bytes:
    """Return a file that can be opened, and of which most entries cannot be read."""
    return content[: 3 * PAGE] + b"\xff" * (len(content) - 3 * PAGE)


def write(path: Path, content: bytes) -> None:
    """Put a file in the place of a store, and delete all others of its folder."""
    for other in path.parent.glob("store.sqlite*"):
        other.unlink()
    path.write_bytes(content)


def moved_aside(path: Path) -> list[Path]:
    """Return the damaged files beside a store, without their logs."""
    return sorted(file for file in path.parent.glob(f"{path.name}.damaged-*") if file.name[-4:] not in ("-wal", "-shm"))


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a file with some bits flipped, pages swapped, or a page blank, cut off or old."""
    result = bytearray(content)
    pages = range(0, len(result), PAGE)
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 1, 10, 100])):
                result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
        case 1:  # where pages say what they hold
            start = rng.choice(pages) + rng.randrange(120)
            result[start] = rng.randrange(256)
        case 2:
            first, other = rng.sample(pages, 2)
            result[first : first + PAGE], result[other : other + PAGE] = (
                result[other : other + PAGE],
                result[first : first + PAGE],
            )
        case 3:
            first, other = rng.sample(pages, 2)
            result[first : first + PAGE] = result[other : other + PAGE]
        case 4:
            start = rng.randrange(len(result))
            length = rng.choice([16, 512, PAGE])
            result[start : start + length] = bytes(len(result[start : start + length]))
        case 5:
            del result[rng.randrange(1, len(result)) :]
    return bytes(result)


def known_values(store: Store) -> int:
    """Return how many values are known, of which each must be what was put."""
    long = store.get(PRODUCERS[0], list(LONG))
    values = store.get(PRODUCERS[1], list(VALUES))
    arrays = store.get_arrays(PRODUCERS[2], list(ARRAYS))
    assert long.items() <= LONG.items()
    assert all(VALUES[name] == value for name, value in values.items())
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    return len(long) + len(values) + len(arrays)


def test_damage_at_random_places_gives_right_values_or_unknown_ones_and_no_error(path: Path, sound: bytes):
    rng = random.Random(0)  # noqa: S311
    moved = 0
    for _ in range(30):
        write(path, damaged(sound, rng))
        with Store(path) as store:
            known_values(store)
            store.stats()
            store.put(NEW, {"new": 1})
            assert store.get(NEW, ["new"]) == {"new": 1}
        assert len(moved_aside(path)) <= 1
        moved += len(moved_aside(path))
    assert 6 < moved < 27


def test_table_whose_name_is_no_text_is_damage(path: Path, sound: bytes):
    content = sound.replace(b"tableproducers", b"tableprod\xffcers").replace(b"CREATE TABLE p", b"CREATE TABLX p")
    write(path, content)
    with Store(path) as store:
        assert known_values(store) == 0
    assert len(moved_aside(path)) == 1


def test_table_whose_producers_have_no_number_is_damage(path: Path, sound: bytes):
    content = sound.replace(b"producers (id INTEGER PRIMARY KEY", b"producers (id INTEGER CRIMARY KEY")
    write(path, content)
    with Store(path) as store:
        assert known_values(store) == ALL
        store.put(PRODUCERS[0], {"new": 1})
        assert store.get(PRODUCERS[0], ["new"]) == {"new": 1}
    assert len(moved_aside(path)) == 1


def test_log_that_a_loss_of_power_cut_or_garbled_gives_right_values_or_unknown_ones(path: Path):
    rng = random.Random(3)  # noqa: S311
    with Store(path) as store:
        for start in range(0, len(VALUES), 5):
            store.put(PRODUCERS[1], dict(list(VALUES.items())[start : start + 5]))
        content, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    known = set()
    for _ in range(20):
        # What was not flushed may be missing, blank or old, from any point on.
        cut = rng.randrange(len(log))
        rest = rng.choice([b"", bytes(len(log) - cut), rng.randbytes(len(log) - cut), log[: len(log) - cut]])
        write(path, content)
        Path(f"{path}-wal").write_bytes(log[:cut] + rest)
        with Store(path) as store:
            kept = store.get(PRODUCERS[1], list(VALUES))
            assert kept.items() <= VALUES.items()
            # Batches are there whole, and in order.
            assert kept.keys() == set(list(VALUES)[: len(kept)])
            assert len(kept) % 5 == 0
            assert store.verify() == []
        known.add(len(kept))
    assert len(known) > 5
    assert moved_aside(path) == []


def other_tables(path: Path, version: int) -> bytes:
    """Make a database of other tables in the place of a store."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value)")
        db.execute("INSERT INTO entries VALUES (x'00', 1)")
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("version", "reason"),
    [(1, "has schema 1, and this capbench reads schema 2"), (0, "has schema 0"), (2, "no such table: producers")],
)
def test_file_of_an_older_schema_or_of_other_tables_is_moved_aside(path, caplog, version: int, reason: str):
    content = other_tables(path, version)
    with Store(path) as store:
        store.put(NEW, {"new": 1})
    with Store(path) as store:
        assert store.get(NEW, ["new"]) == {"new": 1}
    (aside,) = moved_aside(path)
    # But for the mode of its log, which its header tells.
    assert aside.read_bytes()[100:] == content[100:]
    (record,) = caplog.records
    assert reason in record.getMessage()


def test_damaged_file_is_moved_aside_under_the_day_and_the_message_says_once_why_and_where(path, caplog):
    path.write_bytes(b"no database " * 50)
    path.chmod(0o640)
    with Store(path) as store:
        assert store.get(NEW, ["new"]) == {}
        store.put(NEW, {"new": 1})
    with Store(path) as store:
        assert store.get(NEW, ["new"]) == {"new": 1}
    aside = path.with_name(f"store.sqlite.damaged-{time.strftime('%Y-%m-%d')}")
    assert moved_aside(path) == [aside]
    assert aside.read_bytes() == b"no database " * 50
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        f"store {path}: file is not a database. It was moved to {aside}; its content is computed anew."
    )
    # Who could use the old one can use the new one.
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_earlier_damaged_files_are_never_overwritten(path: Path):
    for number in range(3):
        path.write_bytes(b"no database %d" % number * 50)
        Store(path).close()
    assert [file.read_bytes()[:13] for file in moved_aside(path)] == [b"no database %d" % n for n in range(3)]
    assert [file.name[-2:] for file in moved_aside(path)[1:]] == ["-2", "-3"]


def test_damage_that_is_met_in_use_is_moved_with_its_log_and_the_work_goes_on(path: Path, sound: bytes):
    write(path, with_damaged_pages(sound))
    with Store(path) as store:
        assert known_values(store) == 0
        store.put(PRODUCERS[1], VALUES)
        assert known_values(store) == len(VALUES)
        assert store.verify() == []
    assert len(moved_aside(path)) == 1
    write(path, with_damaged_pages(sound))
    with Store(path) as store:
        store.put(PRODUCERS[1], VALUES)
        store.put_arrays(PRODUCERS[2], ARRAYS)
        assert known_values(store) >= len(ARRAYS)
    assert len(moved_aside(path)) == 1


def test_damaged_file_stays_and_is_an_error_where_that_is_asked(path: Path, sound: bytes):
    path.write_bytes(b"no database " * 50)
    with pytest.raises(StoreError, match="not a database") as caught:
        Store(path, replace_damaged=False)
    assert caught.value.hint.startswith("Delete the file, or name another one with --store")
    write(path, with_damaged_pages(sound))
    with Store(path, replace_damaged=False) as store:
        with pytest.raises(StoreError, match="malformed"):
            known_values(store)
        with pytest.raises(StoreError, match="malformed"):
            store.verify()
    assert moved_aside(path) == []
    assert path.stat().st_size == len(sound)


def test_file_that_is_deleted_in_use_is_made_again_and_takes_what_follows(path: Path):
    with Store(path) as store, Store(path) as other:
        store.put(NEW, {"lost": 1})
        path.unlink()
        store.put(NEW, {"kept": 2})
        assert other.get(NEW, ["lost", "kept"]) == {"kept": 2}
    with Store(path) as store:
        assert store.get(NEW, ["lost", "kept"]) == {"kept": 2}
        assert store.verify() == []


def test_store_that_cannot_be_replaced_says_so_and_can_be_used_again_when_it_can(path: Path, sound: bytes):
    with Store(path) as store:
        store.put(NEW, {"new": 1})
        path.unlink()
        path.mkdir()
        with pytest.raises(StoreError, match="unable to open"):
            store.get(NEW, ["new"])
        path.rmdir()
        store.put(NEW, {"new": 2})
        assert store.get(NEW, ["new"]) == {"new": 2}


_BOTH_FIND_THE_DAMAGE = """
from pathlib import Path
from capbench.benchmarks.store.store import Store

for folder in sorted(Path(arguments[0]).iterdir()):
    wait()
    with Store(folder / "store.sqlite") as store:
        old = store.get({"tokenizer": "PTB"}, [f"text {n}" for n in range(150)])
        store.put({"adapter": "another"}, {f"{who}": who})
        wait()
        results.append([old, store.get({"adapter": "another"}, ["0", "1"])])
"""


@pytest.mark.parametrize("damage", ["of the file", "of pages"])
def test_of_two_processes_that_find_damage_at_once_one_moves_the_file_and_both_use_the_new_one(tmp_path, sound, damage):
    paths = [tmp_path / "stores" / f"{number:02}" / "store.sqlite" for number in range(4)]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"no database " * 50 if damage == "of the file" else with_damaged_pages(sound))
    for results in in_two_processes(_BOTH_FIND_THE_DAMAGE, str(tmp_path / "stores")):
        assert results == [[{}, {"0": 0, "1": 1}]] * 4
    for path in paths:
        assert len(moved_aside(path)) == 1
        with Store(path) as store:
            assert store.verify() == []
            assert store.get(NEW, ["0", "1"]) == {"0": 0, "1": 1}


_KILLED_AT_EVERY_LINE = """
import os, signal, sys
from pathlib import Path
from capbench.benchmarks.store import sqlite_file
from capbench.benchmarks.store.store import Store

root = Path(sys.argv[1])
functions = ("_open", "_move_aside", "_make", "_connect", "_prepare")

def killer(left):
    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != sqlite_file.__file__ or frame.f_code.co_name not in functions:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    return trace

number = 0
while True:
    path = root / str(number) / "store.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database " * 50)
    child = os.fork()
    if child == 0:
        sys.settrace(killer(number))
        Store(path)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    number += 1
"""


def test_kill_at_any_line_of_moving_the_file_leaves_one_damaged_file_and_a_store_that_works(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-c", _KILLED_AT_EVERY_LINE, str(tmp_path / "stores")], check=True, stderr=subprocess.PIPE
    )
    folders = list((tmp_path / "stores").iterdir())
    for folder in folders:
        with Store(folder / "store.sqlite") as store:
            store.put(NEW, {"after": 2})
            assert store.get(NEW, ["after"]) == {"after": 2}
            assert store.verify() == []
        (aside,) = moved_aside(folder / "store.sqlite")
        assert aside.read_bytes() == b"no database " * 50
    assert len(folders) > 40
