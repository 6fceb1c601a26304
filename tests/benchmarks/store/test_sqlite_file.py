"""Where a store may lie, who may read it, and what happens where it cannot be written or is damaged."""

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from capbench.benchmarks.store import sqlite_file
from capbench.benchmarks.store.store import Store
from capbench.errors import StoreError

PRODUCER = {"adapter": "test"}
posix = pytest.mark.skipif(not hasattr(os, "seteuid"), reason="POSIX only")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter: not tmp_path, whose parents he may not."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def read_only(folder: Path, file: bool = True, place: bool = True, mode: int = 0o444) -> Iterator[None]:
    """Make a store's file, its folder or both read-only, for root too."""
    for path in folder.iterdir():
        path.chmod(mode if file else 0o666)
    folder.chmod(0o555 if place else 0o777)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_new_store_has_pages_for_feature_vectors_a_cache_of_the_index_and_a_long_log(tmp_path: Path):
    with Store(tmp_path / "store.sqlite") as store, ThreadPoolExecutor() as other:
        other.submit(store.put, PRODUCER, {"text": "value"}).result()
    with closing(sqlite_file._connect(tmp_path / "store.sqlite")) as db:
        names = "page_size", "journal_mode", "synchronous", "cache_size", "wal_autocheckpoint"
        values = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    # 16 KiB; NORMAL; 16 MiB in KiB; 256 MiB in pages.
    assert values == [16_384, b"wal", 1, -16_384, 16_384]


def test_new_store_has_all_tables_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(sqlite_file, "_TABLES", (sqlite_file._TABLES[0], "CREATE nothing"))
        Store(tmp_path / "store.sqlite", replace_damaged=False)
    Store(tmp_path / "store.sqlite", replace_damaged=False).close()


@posix
@pytest.mark.parametrize(("file", "place"), [(True, True), (True, False), (False, True)])
def test_store_that_cannot_be_written_is_read_and_says_once_that_nothing_is_kept(folder, caplog, file, place):
    path = folder / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCER, {"text": 1})
    before = path.read_bytes()
    with read_only(folder, file, place), Store(path) as store:
        assert store.get(PRODUCER, ["text", "other"]) == {"text": 1}
        assert caplog.records == []
        for value in range(3):
            store.put(PRODUCER, {"other": value})
        assert store.get(PRODUCER, ["other"]) == {}
        assert (store.hits, store.computed) == (1, 3)
        assert [stat.entries for stat in store.stats()] == [1]
        assert store.verify() == []
        with pytest.raises(StoreError, match=r"cannot be written.*\n.*--store"):
            store.prune()
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert str(path) in said.getMessage()
    assert "new ones are not cached" in said.getMessage()
    assert "BENCH_CACHE" in said.getMessage()
    assert path.read_bytes() == before


@posix
@pytest.mark.parametrize("damage", [b"no database " * 50, b""], ids=["damaged", "without tables"])
def test_damaged_store_that_cannot_be_written_is_an_error_and_stays(folder: Path, damage: bytes):
    path = folder / "store.sqlite"
    path.write_bytes(damage)
    with read_only(folder), pytest.raises(StoreError) as caught:
        Store(path)
    assert str(path) in caught.value.message
    assert "Delete the file" in caught.value.hint
    assert "BENCH_CACHE" in caught.value.hint
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("store.sqlite", damage)]


@posix
def test_page_that_turns_out_damaged_in_a_store_that_cannot_be_written_is_an_error(folder: Path):
    path = folder / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCER, {str(n): "x" * 500 for n in range(200)})
    content = path.read_bytes()
    path.write_bytes(content[: 16_384 * 3] + b"\xff" * (len(content) - 16_384 * 3))
    with read_only(folder), Store(path) as store:
        with pytest.raises(StoreError, match="malformed"):
            store.get(PRODUCER, [str(n) for n in range(200)])
        assert [path.name for path in folder.iterdir()] == ["store.sqlite"]


@posix
@pytest.mark.parametrize("is_there", [False, True])
def test_store_that_cannot_be_made_or_read_is_an_error_with_a_remedy(folder: Path, is_there: bool):
    path = folder / "store.sqlite"
    if is_there:
        Store(path).close()
    with read_only(folder, mode=0), pytest.raises(StoreError, match=str(path)) as caught:
        Store(path)
    assert caught.value.hint.startswith("Name another file with --store")
    assert "BENCH_CACHE" in caught.value.hint


@posix
def test_new_files_and_folders_are_of_this_user_alone_and_others_are_left_as_they_are(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    path = shared / "new" / "deep" / "store.sqlite"
    with Store(path) as store:
        store.put(PRODUCER, {"text": 1})
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (shared, path.parent, *path.parent.iterdir())}
    assert modes == {
        "shared": 0o755,
        "deep": 0o700,
        "store.sqlite": 0o600,
        "store.sqlite-wal": 0o600,
        "store.sqlite-shm": 0o600,
    }
    path.chmod(0o664)
    Store(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


@posix
def test_link_to_a_store_that_is_not_there_yet_makes_it_where_the_link_leads(tmp_path: Path):
    (tmp_path / "store.sqlite").symlink_to(tmp_path / "disk" / "real.sqlite")
    with Store(tmp_path / "store.sqlite") as store:
        store.put(PRODUCER, {"text": 1})
    assert stat.S_IMODE((tmp_path / "disk" / "real.sqlite").stat().st_mode) == 0o600


def test_store_on_the_network_is_refused_before_anything_is_made(mounts: Path, tmp_path: Path):
    mounts.write_text(f"22 1 0:40 / {tmp_path} rw - nfs4 server:/home rw\n")
    path = tmp_path / "new" / "store.sqlite"
    with pytest.raises(StoreError, match=r"network file system \(nfs4\)") as caught:
        Store(path)
    assert str(path) in caught.value.message
    assert caught.value.hint == "Name a file on a local disk with --store, or a local folder with BENCH_CACHE."
    assert not path.parent.exists()
