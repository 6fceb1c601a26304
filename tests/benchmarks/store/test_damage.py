"""A damaged file: no wrong value ever comes out of it, and repair keeps what is sound."""

from __future__ import annotations

import random
import re
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest
from first_store import FirstStore

from capbench.benchmarks.store.salvage import salvage
from capbench.benchmarks.store.store import Store
from capbench.errors import StoreError

PRODUCERS = [{"adapter": "captioner"}, {"tokenizer": "PTB"}, {"of": "features"}]
VALUES = {f"text {n}": {"tokens": [n] * (n % 40)} for n in range(150)}
LONG = {f"long {n}": f"{n} " * (3_000 + 40 * n) for n in range(20)}
ARRAYS = {f"image {n}": np.full(300, n, dtype=np.float32) for n in range(60)}
CASES = 400


def fill(path: Path, kind: type[Store] | type[FirstStore] = Store) -> bytes:
    """Make a store of all values, and return its file."""
    store = kind(path)
    store.put(PRODUCERS[0], LONG)
    store.put(PRODUCERS[1], VALUES)
    store.put_arrays(PRODUCERS[2], ARRAYS)
    store.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return fill(tmp_path_factory.mktemp("sound") / "store.sqlite")


def write(path: Path, content: bytes) -> None:
    """Put a file in the place of a store, without the logs of the one before."""
    for ending in ("-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    path.write_bytes(content)


def damaged(content: bytes, rng: random.Random, page: int = 16_384) -> bytes:
    """Return a file with some bits flipped, pages swapped, or a page blank, cut off or old."""
    result = bytearray(content)
    pages = range(0, len(result), page)
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 1, 10, 100])):
                result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
        case 1:  # where pages say what they hold
            start = rng.choice(pages) + rng.randrange(120)
            result[start] = rng.randrange(256)
        case 2:
            one, other = rng.sample(pages, 2)
            result[one : one + page], result[other : other + page] = (
                result[other : other + page],
                result[one : one + page],
            )
        case 3:
            one, other = rng.sample(pages, 2)
            result[one : one + page] = result[other : other + page]
        case 4:
            start = rng.randrange(len(result))
            length = rng.choice([16, 512, page])
            result[start : start + length] = bytes(len(result[start : start + length]))
        case 5:
            del result[rng.randrange(1, len(result)) :]
    return bytes(result)


def assert_no_value_is_wrong(store: Store) -> int:
    """Return how many values are known, of which each must be what was put."""
    long = store.get(PRODUCERS[0], list(LONG))
    values = store.get(PRODUCERS[1], list(VALUES))
    arrays = store.get_arrays(PRODUCERS[2], list(ARRAYS))
    assert long.items() <= LONG.items()
    assert all(VALUES[name] == value for name, value in values.items())
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    return len(long) + len(values) + len(arrays)


def assert_remedy(error: StoreError, path: Path) -> None:
    assert str(path) in error.message
    assert "--store" in error.hint


@pytest.mark.parametrize("seed", range(4))
def test_damage_at_random_places_gives_right_values_unknown_ones_or_an_error_with_a_remedy(
    tmp_path: Path, sound: bytes, seed: int
):
    path = tmp_path / "store.sqlite"
    rng = random.Random(seed)  # noqa: S311
    for _ in range(CASES // 4):
        write(path, damaged(sound, rng))
        try:
            store = Store(path)
        except StoreError as error:
            assert_remedy(error, path)
            continue
        # None of the four may be kept from working by what another has met.
        for use in (
            lambda: assert_no_value_is_wrong(store),  # noqa: B023
            lambda: store.stats(),  # noqa: B023
            lambda: store.put({"adapter": "another"}, {"new": 1}),  # noqa: B023
            lambda: store.prune(containing="another"),  # noqa: B023
        ):
            try:
                use()
            except StoreError as error:
                assert_remedy(error, path)
        assert all(isinstance(line, str) for line in store.verify())
        store.close()


def test_log_that_a_loss_of_power_cut_or_garbled_gives_right_values_or_unknown_ones(tmp_path: Path):
    path, rng = tmp_path / "store.sqlite", random.Random(3)  # noqa: S311
    with Store(path) as store:
        for start in range(0, len(VALUES), 5):
            store.put(PRODUCERS[1], dict(list(VALUES.items())[start : start + 5]))
        content, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    known = set()
    for _ in range(200):
        # What was not flushed may be missing, blank or old, from any point on.
        cut = rng.randrange(len(log))
        rest = rng.choice([b"", bytes(len(log) - cut), rng.randbytes(len(log) - cut), log[: len(log) - cut]])
        write(path, content)
        Path(f"{path}-wal").write_bytes(log[:cut] + rest)
        with Store(path) as store:
            found = store.get(PRODUCERS[1], list(VALUES))
            assert found.items() <= VALUES.items()
            # Batches are there whole, and in order.
            assert found.keys() == set(list(VALUES)[: len(found)])
            assert len(found) % 5 == 0
            assert store.verify() == []
        known.add(len(found))
    assert len(known) > 20


@pytest.mark.parametrize("seed", range(2))
def test_damage_of_an_old_store_is_not_carried_over(tmp_path: Path, seed: int):
    path = tmp_path / "store.sqlite"
    content = fill(path, FirstStore)
    rng = random.Random(seed)  # noqa: S311
    for _ in range(25):
        flipped = bytearray(content)
        for _ in range(20):
            # Behind the keys of the first schema: its checksum is of the value alone.
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        write(path, bytes(flipped))
        try:
            with Store(path) as store:
                assert_no_value_is_wrong(store)
        except StoreError as error:
            assert_remedy(error, path)


def test_repair_keeps_every_value_that_damage_did_not_reach(tmp_path: Path, sound: bytes):
    path = tmp_path / "store.sqlite"
    rng = random.Random(7)  # noqa: S311
    pages = len(sound) // 16_384
    for number in range(1, pages):
        content = bytearray(sound)
        start = number * 16_384
        content[start : start + 16_384] = rng.randbytes(16_384)
        write(path, bytes(content))
        saved = salvage(path)
        assert saved is not None
        with Store(path) as store:
            assert store.verify() == []
            known = assert_no_value_is_wrong(store)
            assert known == saved.entries == sum(one.entries for one in store.stats())
            # Seven arrays of 1.3 KB, or up to all short values, are on a page.
            assert known >= len(LONG) + len(ARRAYS)
        saved.damaged.unlink()


@pytest.mark.parametrize("reach", [20, 100, 16_384], ids=["header", "header and schema", "first page"])
def test_store_whose_beginning_is_lost_is_saved_as_a_whole(tmp_path: Path, sound: bytes, reach: int):
    path = tmp_path / "store.sqlite"
    write(path, b"\xff" * reach + sound[reach:])
    saved = salvage(path)
    assert saved is not None
    with Store(path) as store:
        assert assert_no_value_is_wrong(store) == len(LONG) + len(VALUES) + len(ARRAYS)
        assert {tuple(one.fingerprint.items()) for one in store.stats()} == {
            tuple(one.items()) for one in PRODUCERS
        }


def test_old_store_that_is_damaged_is_saved_into_a_new_one(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    content = bytearray(fill(path, FirstStore))
    content[8 * 4096 : 9 * 4096] = b"\xff" * 4096
    write(path, bytes(content))
    with pytest.raises(StoreError, match="malformed") as caught:
        Store(path)
    assert "'bench store verify --repair" in caught.value.hint
    saved = salvage(path)
    assert saved is not None
    with Store(path) as store:
        assert store.verify() == []
        known = assert_no_value_is_wrong(store)
        assert known == saved.entries
        assert known > (len(LONG) + len(VALUES) + len(ARRAYS)) * 0.8
        assert {tuple(one.fingerprint.items()) for one in store.stats()} == {
            tuple(one.items()) for one in PRODUCERS
        }


def test_index_that_names_no_row_is_found_though_every_value_is_sound(tmp_path: Path, sound: bytes):
    path = tmp_path / "store.sqlite"
    write(path, sound)
    with sqlite3.connect(path) as db:
        (key,) = db.execute("SELECT key FROM entries LIMIT 1").fetchone()
    db.close()
    in_index = next(
        place
        for place in (found.start() for found in re.finditer(re.escape(key), sound))
        if sound[place // 16_384 * 16_384] == 0x0A
    )
    write(path, sound[:in_index] + b"?" + sound[in_index + 1 :])
    path.chmod(0o640)
    with Store(path) as store:
        assert any("index" in line for line in store.verify(repair=True))
        assert len(store.verify()) > 0
        assert assert_no_value_is_wrong(store) == len(LONG) + len(VALUES) + len(ARRAYS) - 1
    assert salvage(path) is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with Store(path) as store:
        assert store.verify() == []
        assert assert_no_value_is_wrong(store) == len(LONG) + len(VALUES) + len(ARRAYS)


def test_values_of_two_keys_that_are_exchanged_are_unknown_and_deleted_by_repair(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCERS[0], {"a": 1, "b": 2, "c": 3})
    with sqlite3.connect(path) as db:
        (one, *_), (other, *_) = rows = db.execute("SELECT rowid, crc, value FROM entries LIMIT 2").fetchall()
        for row, (_, crc, value) in zip((other, one), rows, strict=True):
            db.execute("UPDATE entries SET crc = ?, value = ? WHERE rowid = ?", (crc, value, row))
    db.close()
    with Store(path) as store:
        assert store.get(PRODUCERS[0], ["a", "b", "c"]) == {"c": 3}
        assert len(store.verify(repair=True)) == 2
        assert store.verify() == []
        assert store.get(PRODUCERS[0], ["a", "b", "c"]) == {"c": 3}


def test_entries_whose_producer_is_damaged_are_kept_under_a_name_of_their_own(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCERS[0], {"a": 1, "b": 2})
        store.put(PRODUCERS[1], {"c": 3})
    with sqlite3.connect(path) as db:
        db.execute("UPDATE producers SET fingerprint = CAST(x'ff00' AS TEXT) WHERE id = 1")
        db.execute("UPDATE entries SET producer = 9 WHERE producer = 2")
    db.close()
    with Store(path) as store:
        assert [one.fingerprint for one in store.stats()] == [{"producer": "damaged"}]
        assert store.verify(repair=True) == [
            "the fingerprint of producer 1 is not what was written",
            "the producer of 1 entries is not known",
        ]
        assert store.verify() == []
        assert [(one.fingerprint, one.entries) for one in store.stats()] == [({"producer": "unknown"}, 3)]
        assert store.get(PRODUCERS[0], ["a", "b"]) == {"a": 1, "b": 2}
        assert store.get(PRODUCERS[1], ["c"]) == {"c": 3}
        assert store.prune(containing="unknown") == 3


def test_store_that_another_process_has_open_is_not_replaced(tmp_path: Path, sound: bytes):
    path = tmp_path / "store.sqlite"
    write(path, sound)
    with Store(path) as other:
        assert assert_no_value_is_wrong(other) > 0
        with pytest.raises(StoreError, match="locked") as caught:
            salvage(path)
        assert "Another process holds it" in caught.value.hint
    assert sorted(one.name for one in tmp_path.iterdir() if one.is_file()) == ["store.sqlite"]


def test_what_the_log_holds_is_saved_too_and_no_earlier_rescue_is_overwritten(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    for number in range(2):
        with Store(path) as store:
            store.put(PRODUCERS[0], {"old": 1})
        with Store(path) as store:
            store.put(PRODUCERS[0], {f"new {number}": 2})
            content, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        write(path, content)
        Path(f"{path}-wal").write_bytes(log)
        assert salvage(path) is not None
        with Store(path) as store:
            assert store.get(PRODUCERS[0], ["old", f"new {number}"]) == {"old": 1, f"new {number}": 2}
    names = {one.name for one in tmp_path.iterdir() if one.is_file()}
    assert names == {"store.sqlite", "store.sqlite.damaged", "store.sqlite.damaged-2"}
