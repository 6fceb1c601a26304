"""The store: what it keeps, who may share it, and what it says when the disk or the file is at fault."""

import hashlib
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from capbench.benchmarks.store.store import Store, StoreNames, parse_store
from capbench.errors import StoreError, UsageError

PRODUCER = {"adapter": "test", "version": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path):
    with Store(path) as opened:
        yield opened


def raw(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the store's back."""
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_what_is_put_is_found_again_by_another_process_opening_the_file(path: Path):
    values = {"a dog": {"tokens": ["a", "dog"]}, "ein Hündchen 🐕": "text", "": [1.5, None]}
    with Store(path) as first:
        first.put(PRODUCER, values)
    with Store(path) as second:
        assert second.get(PRODUCER, [*values, "never put"]) == values
        assert second.hits == 3
        assert second.computed == 0


def test_fingerprint_is_the_same_whatever_the_order_of_its_keys_and_anything_else_in_it_is_another(store: Store):
    store.put({"a": 1, "b": {"c": 2, "d": 3}}, {"text": "value"})
    assert store.get({"b": {"d": 3, "c": 2}, "a": 1}, ["text"]) == {"text": "value"}
    store.put(PRODUCER, {"text": "value"})
    for other in ({**PRODUCER, "version": 2}, {**PRODUCER, "dtype": "fp16"}, {}):
        assert store.get(other, ["text"]) == {}
    # '{"a":1}' + '2}' and '{"a":1}2}' would be one text without the length in front.
    store.put({"a": 1}, {"2}": "first"})
    assert store.get({"a": 12}, ["}"]) == {}


def test_keys_and_values_are_those_of_earlier_releases(store: Store):
    producer, text, value = '{"adapter":"Hündchen","beams":3}', "ein Bild 🐕", '{"caption": "ein Hündchen"}'
    store.put({"beams": 3, "adapter": "Hündchen"}, {text: {"caption": "ein Hündchen"}})
    query = "SELECT key, value, entries.crc, fingerprint FROM entries, producers"
    (row,) = store._file.run(lambda db: db.execute(query).fetchall())
    key = hashlib.sha256(f"{len(producer)}:{producer}{text}".encode()).digest()
    assert row == (key, value.encode(), zlib.crc32(key + value.encode()), producer.encode())


def test_more_inputs_than_sqlite_takes_in_one_query_and_lone_surrogates_are_kept(store: Store):
    values = {str(number): number for number in range(1201)}
    store.put(PRODUCER, values)
    assert store.get(PRODUCER, list(values)) == values
    store.put(PRODUCER, {"prompt \ud83d": "caption \udc00"})
    assert store.get(PRODUCER, ["prompt \ud83d"]) == {"prompt \ud83d": "caption \udc00"}
    assert store.verify() == []


@pytest.mark.parametrize("damage", [b'{"tokens": ["other"]}', b"\xff\x00\xfe", b""], ids=["other", "binary", "empty"])
def test_entry_with_a_wrong_checksum_is_unknown_and_replaced_by_the_next_put(path: Path, damage: bytes):
    with Store(path) as store:
        store.put(PRODUCER, {"sound": 1, "damaged": {"tokens": ["a"]}})
    # The damaged one is the longer of the two.
    raw(path, "UPDATE entries SET value = CAST(? AS TEXT) WHERE LENGTH(value) > 1", damage)
    with Store(path) as store:
        assert store.get(PRODUCER, ["sound", "damaged"]) == {"sound": 1}
        assert store.verify() == ["entries with a wrong checksum: 1"]
        store.put(PRODUCER, {"damaged": 2})
        assert store.get(PRODUCER, ["sound", "damaged"]) == {"sound": 1, "damaged": 2}
        assert store.verify() == []
    assert not list(path.parent.glob("*.damaged*"))


def test_values_of_two_keys_that_are_exchanged_are_unknown(path: Path):
    with Store(path) as store:
        store.put(PRODUCER, {"a": 1, "b": 2, "c": 3})
    with sqlite3.connect(path) as db:
        (first, *_), (other, *_) = rows = db.execute("SELECT rowid, crc, value FROM entries LIMIT 2").fetchall()
        for row, (_, crc, value) in zip((other, first), rows, strict=True):
            db.execute("UPDATE entries SET crc = ?, value = ? WHERE rowid = ?", (crc, value, row))
    db.close()
    with Store(path) as store:
        assert store.get(PRODUCER, ["a", "b", "c"]) == {"c": 3}
        assert store.verify() == ["entries with a wrong checksum: 2"]


def test_entries_whose_producer_is_damaged_are_found_and_go_with_all_others(path: Path):
    with Store(path) as store:
        store.put({"adapter": "one"}, {"a": 1, "b": 2})
        store.put({"adapter": "two"}, {"c": 3})
    raw(path, "UPDATE producers SET fingerprint = REPLACE(fingerprint, 'one', 'own')")
    raw(path, "UPDATE entries SET producer = 9, created = ? WHERE producer = 2", 2**62)
    # The first second of 2100 is the last that a time may be.
    raw(path, "UPDATE entries SET created = 4102444801 WHERE producer = 1")
    with Store(path) as store:
        (producer,) = store.stats()
        assert (producer.fingerprint, producer.entries) == ({"producer": "damaged"}, 2)
        assert producer.newest == 0
        assert store.get({"adapter": "one"}, ["a", "b"]) == {"a": 1, "b": 2}
        assert store.get({"adapter": "two"}, ["c"]) == {"c": 3}
        assert store.prune() == 3


_WRITER = """
import sys, time
from pathlib import Path
from capbench.benchmarks.store.store import Store

path, name, start = sys.argv[1:]
while time.time() < float(start):
    pass
with Store(Path(path)) as store:
    for batch in range(25):
        store.put({"writer": name}, {f"{batch}-{n}": [name, batch, n] for n in range(20)})
        store.put({"writer": "shared"}, {f"{batch}": batch})
"""


def test_processes_that_make_and_fill_one_store_at_once_lose_nothing(path: Path):
    start = str(time.time() + 1)
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(path), name, start], stderr=subprocess.PIPE, text=True)
        for name in ("one", "two", "three")
    ]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert errors == ["", "", ""]
    with Store(path) as store:
        assert {stat.fingerprint["writer"]: stat.entries for stat in store.stats()} == {
            "one": 500,
            "two": 500,
            "three": 500,
            "shared": 25,
        }
        assert store.get({"writer": "two"}, ["24-19"]) == {"24-19": ["two", 24, 19]}
        assert store.verify() == []


def test_failed_put_keeps_nothing_of_its_batch(store: Store):
    with pytest.raises(TypeError):
        store.put(PRODUCER, {"good": 1, "bad": object()})
    assert store.get(PRODUCER, ["good"]) == {}
    store.put(PRODUCER, {"good": 1})
    assert store.get(PRODUCER, ["good"]) == {"good": 1}


def test_store_that_another_process_writes_to_can_be_opened_and_read_but_not_written(path, monkeypatch):
    monkeypatch.setattr("capbench.benchmarks.store.sqlite_file.LOCK_SECONDS", 0.1)
    with Store(path) as store:
        store.put(PRODUCER, {"text": 1})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with Store(path) as store:
        assert store.get(PRODUCER, ["text"]) == {"text": 1}
        with pytest.raises(StoreError, match="locked") as caught:
            store.put(PRODUCER, {"more": 2})
        assert str(path) in caught.value.message
        assert "Wait, or name another file with --store" in caught.value.hint
        other.execute("ROLLBACK")
        store.put(PRODUCER, {"more": 2})
        assert store.get(PRODUCER, ["more"]) == {"more": 2}
    other.close()


def assert_full_disk_leaves_a_sound_store(store: Store) -> None:
    with pytest.raises(StoreError, match=r"full.*\n.*bench store prune"):
        for number in range(1000):
            store.put(PRODUCER, {f"{number}": "x" * 20_000})
    assert store.get(PRODUCER, ["kept"]) == {"kept": "before"}
    assert store.verify() == []


def test_full_disk_leaves_a_sound_and_readable_store(store: Store):
    store.put(PRODUCER, {"kept": "before"})
    (pages,) = store._file.run(lambda db: db.execute("PRAGMA page_count").fetchone())
    store._file.run(lambda db: db.execute(f"PRAGMA max_page_count = {pages + 10}"))
    assert_full_disk_leaves_a_sound_store(store)
    store._file.run(lambda db: db.execute("PRAGMA max_page_count = 100000"))
    store.put(PRODUCER, {"after": 1})
    assert store.get(PRODUCER, ["after"]) == {"after": 1}


def test_really_full_disk_leaves_a_sound_and_readable_store(disk: Path):
    with Store(disk / "store.sqlite") as store:
        store.put(PRODUCER, {"kept": "before"})
        assert_full_disk_leaves_a_sound_store(store)


def test_store_of_a_newer_capbench_is_refused_and_stays(path: Path):
    Store(path).close()
    raw(path, "PRAGMA user_version = 3")
    with pytest.raises(StoreError, match=r"newer capbench \(schema 3\)") as caught:
        Store(path)
    assert caught.value.hint == "Update capbench, delete the file, or name another one with --store."
    assert list(path.parent.glob("store.sqlite*")) == [path]


def test_folder_in_place_of_a_file_is_an_error_with_a_remedy(tmp_path: Path):
    with pytest.raises(StoreError, match=r"unable to open.*\n.*--store"):
        Store(tmp_path)


def test_prune_of_everything_gives_the_space_back(path: Path, store: Store):
    store.put(PRODUCER, {str(n): "x" * 10_000 for n in range(100)})
    full = path.stat().st_size + path.with_name("store.sqlite-wal").stat().st_size
    assert store.stats()[0].newest == pytest.approx(time.time(), abs=60)
    assert store.prune() == 100
    assert store.stats() == []
    assert store._file.run(lambda db: db.execute("SELECT COUNT(*) FROM producers").fetchone()) == (0,)
    assert path.stat().st_size + path.with_name("store.sqlite-wal").stat().st_size < full / 10


def test_arrays_come_back_as_they_were_put(store: Store):
    arrays = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "single": np.array([1.5, -2.0], dtype=np.float32),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "empty": np.zeros((0, 4), dtype=np.float32),
        "scalar": np.array(3.0),
    }
    store.put_arrays({"of": "features"}, arrays)
    kept = store.get_arrays({"of": "features"}, [*arrays, "unknown"])
    assert (store.hits, store.computed) == (5, 5)
    assert kept.keys() == arrays.keys()
    for name, array in arrays.items():
        assert kept[name].dtype == array.dtype
        np.testing.assert_array_equal(kept[name], array)
        kept[name][...] = 0  # belongs to who asked for it


def test_objects_are_no_arrays(store: Store):
    with pytest.raises(ValueError, match="allow_pickle"):
        store.put_arrays({"of": "features"}, {"x": np.array([{}], dtype=object)})
    assert store.get_arrays({"of": "features"}, ["x"]) == {}


def test_file_is_the_store_of_this_machine_and_a_url_or_folder_with_a_slash_is_shared(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_store("a.sqlite") == StoreNames(Path("a.sqlite"), None)
    assert parse_store("none/b") == StoreNames(Path("none/b"), None)
    # The file stays the user's own.
    own = tmp_path / "cache" / "store.sqlite"
    assert parse_store(None) == StoreNames(own, None)
    assert parse_store("s3://bucket/prefix/") == StoreNames(own, "s3://bucket/prefix")
    assert parse_store("S3://Bucket") == StoreNames(own, "s3://Bucket")
    assert parse_store("file:///shared/results") == StoreNames(own, "file:///shared/results")
    # On another machine there is another folder to start from.
    assert parse_store("my results/") == StoreNames(own, f"{tmp_path.as_uri()}/my%20results")
    container = "abfs://container@account.dfs.core.windows.net/prefix"
    assert parse_store(container) == StoreNames(own, container)

    (tmp_path / "results").mkdir()
    with pytest.raises(UsageError, match=r"is a folder.*\n.*'--store results/'"):
        parse_store("results")
    with pytest.raises(UsageError, match="must not hold credentials"):
        parse_store("s3://user:secret@bucket")
