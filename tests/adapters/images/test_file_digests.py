"""Digests of files: read once for all who ask, right whatever happens to the file or to what keeps them."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capbench import paths
from capbench.adapters import ImageHandle, VideoHandle
from capbench.adapters.images import file_digests as module
from capbench.adapters.images.file_digests import FileDigests, file_digest, file_digests
from capbench.adapters.images.handles import digests


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The names of the files that have been hashed, in order."""
    names: list[bytes] = []
    real = hashlib.file_digest

    def counted(content: Any, kind: str) -> Any:
        names.append(os.path.basename(content.name))  # noqa: PTH119 - of bytes
        return real(content, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return names


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files that have just been written for old ones."""
    monkeypatch.setattr(module, "_SETTLED_NS", 0)


forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork")


def files(folder: Path, count: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number:04}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d" % number)
    return paths


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def anew() -> FileDigests:
    """Return what another process would begin with."""
    return FileDigests(manifest_file())


def manifest_file() -> Path:
    return Path(os.environ["BENCH_CACHE"]) / "digests.sqlite"


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("in_memory", [0, 10, 1_000_000])
@pytest.mark.parametrize("cache", ["", "a file/no folder"])
def test_images_of_three_metrics_are_hashed_once(tmp_path, monkeypatch, hashed, in_memory, cache):
    monkeypatch.setattr(module, "_IN_MEMORY", in_memory)
    if cache:
        # Where nothing can be written.
        (tmp_path / "a file").touch()
        monkeypatch.setenv("BENCH_CACHE", str(tmp_path / cache))
    paths = files(tmp_path / "images", 60)
    expected = [f"sha256:{sha256(b'%d' % number)}:" for number in range(60)]
    handles = [ImageHandle(path) for path in paths]

    assert digests(handles) == expected
    assert [one.digest() for one in handles] == expected
    assert digests([ImageHandle(path, (0, 0, 9, 9)) for path in paths]) == [f"{one}0,0,9,9" for one in expected]
    assert len(hashed) == 60
    if not cache:
        assert anew().of(paths) == list(map(sha256, (b"%d" % number for number in range(60))))
        assert len(hashed) == 60


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("many", [False, True])
def test_file_that_changes_has_another_digest(tmp_path: Path, hashed: list[bytes], many: bool):
    path = tmp_path / "image.jpg"

    def digest() -> str | OSError:
        return file_digests([path])[0] if many else file_digest(path)

    path.write_bytes(b"one")
    assert digest() == digest() == sha256(b"one")
    path.write_bytes(b"longer")
    assert digest() == sha256(b"longer")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert digest() == sha256(b"longer")
    assert len(hashed) == 3
    # Another file in its place, of the same size and with the times of the one before.
    before = path.stat()
    (tmp_path / "other.jpg").write_bytes(b"LONGER")
    os.utime(tmp_path / "other.jpg", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "other.jpg").replace(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert digest() == sha256(b"LONGER")
    assert len(hashed) == 4


def test_relative_path_is_of_the_folder_that_the_process_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a", "b"):
        files(tmp_path / name, 1)[0].write_bytes(name.encode())
    for name in ("a", "b", "a"):
        monkeypatch.chdir(tmp_path / name)
        assert file_digest(Path("0000.jpg")) == sha256(name.encode())


@pytest.mark.parametrize("many", [False, True])
def test_file_that_has_just_been_written_is_not_taken_for_settled(tmp_path: Path, many: bool):
    path = tmp_path / "image.jpg"
    for number in range(20):
        # So quickly that the system's clock may stand still between two of them.
        path.write_bytes(b"%02d" % number)
        found = file_digests([path])[0] if many else file_digest(path)
        assert found == sha256(b"%02d" % number)
    assert rows() == []


def rows() -> list[tuple[Any, ...]]:
    with sqlite3.connect(manifest_file()) as db:
        return db.execute("SELECT * FROM digests ORDER BY path").fetchall()


@pytest.mark.usefixtures("_settled")
def test_file_that_changes_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = files(tmp_path / "images", 1)[0]
    real = hashlib.file_digest

    def slow(content: Any, kind: str) -> Any:
        found = real(content, kind)
        path.write_bytes(b"changed")
        return found

    monkeypatch.setattr(hashlib, "file_digest", slow)
    assert file_digests([path]) == [sha256(b"0")]
    monkeypatch.setattr(hashlib, "file_digest", real)
    assert file_digests([path]) == [sha256(b"changed")]


@pytest.mark.usefixtures("_settled")
def test_what_cannot_be_read_is_named_and_costs_no_other(tmp_path: Path):
    good, gone = files(tmp_path / "images", 2)
    gone.unlink()
    handles = [ImageHandle(gone), ImageHandle(good), ImageHandle(Path("a\0b")), VideoHandle(good),
               ImageHandle(tmp_path), ImageHandle(b"0")]  # fmt: skip
    missing, image, null, video, folder, content = digests(handles)

    assert image == content == f"sha256:{sha256(b'0')}:"
    assert video == f"sha256:{sha256(b'0')}"
    assert isinstance(missing, FileNotFoundError)
    assert Path(missing.filename) == gone
    assert isinstance(null, FileNotFoundError)
    assert "is no path" in str(null)
    assert isinstance(folder, IsADirectoryError)
    assert digests([]) == []
    for handle, error in ((handles[0], FileNotFoundError), (handles[2], FileNotFoundError), (handles[4], OSError)):
        with pytest.raises(error):
            handle.digest()


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING):
        yield caplog


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("damage", ["not a database", "another table", "pages"])
def test_damaged_manifest_costs_time_alone_and_is_told_once(tmp_path, hashed, remarks, damage):
    paths = files(tmp_path / "images", 600)
    expected = file_digests(paths)
    module._of_this_process().close()
    module._opened.clear()
    file = manifest_file()
    if damage == "not a database":
        file.write_bytes(b"captions" * 1000)
    elif damage == "another table":
        file.unlink()
        with sqlite3.connect(file) as db:
            db.execute("CREATE TABLE digests (name TEXT)")
    else:
        content = file.read_bytes()
        file.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    hashed.clear()

    assert file_digests(paths) == expected
    assert len(hashed) == 600
    assert [file_digest(path) for path in paths] == expected
    assert file_digests(paths) == expected
    assert len(hashed) == 600
    (remark,) = remarks.messages
    assert remark.startswith(str(file))
    assert "Remove the file" in remark


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("column", ["size", "modified", "digest", "crc"])
def test_row_that_is_not_as_it_was_written_is_not_believed(tmp_path: Path, hashed: list[bytes], column: str):
    paths = files(tmp_path / "images", 2)
    expected = file_digests(paths)
    with sqlite3.connect(manifest_file()) as db:
        wrong = "zeroblob(32)" if column == "digest" else f"{column} + 1"
        db.execute(f"UPDATE digests SET {column} = {wrong} WHERE path = ?", [os.fsencode(paths[0])])  # noqa: S608
    hashed.clear()

    assert anew().of(paths) == expected
    assert hashed == [b"0000.jpg"]
    assert anew().of(paths) == expected
    assert hashed == [b"0000.jpg"]


@pytest.mark.usefixtures("_settled")
def test_manifest_on_a_file_system_of_the_network_is_left_alone(tmp_path, monkeypatch, remarks):
    table = tmp_path / "mountinfo"
    table.write_text(f"1 2 0:3 / {tmp_path} rw - nfs4 server:/home rw\n", encoding="utf-8")
    monkeypatch.setattr(paths, "_MOUNTS", table)

    assert file_digests(files(tmp_path / "images", 1)) == [sha256(b"0")]
    assert not manifest_file().exists()
    assert "network file system (nfs4)" in remarks.messages[0]


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write anywhere")
@pytest.mark.usefixtures("_settled")
def test_manifest_that_cannot_be_written_is_told_once(tmp_path: Path, remarks: pytest.LogCaptureFixture):
    manifest_file().parent.chmod(0o500)
    try:
        for _ in range(2):
            assert file_digests(files(tmp_path / "images", 1)) == [sha256(b"0")]
    finally:
        manifest_file().parent.chmod(0o700)
    assert len(remarks.messages) == 1


def one_by_one(paths: list[Path]) -> None:
    for path in paths:
        file_digest(path)


@pytest.mark.usefixtures("_settled")
@forks
def test_several_processes_at_once_keep_what_all_others_need_not_hash(tmp_path: Path, hashed: list[bytes]):
    paths = files(tmp_path / "images", 600)
    # A process that is forked off does not go on with the manifest that this one has opened.
    file_digest(paths[0])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=how, args=(paths,)) for how in (file_digests, one_by_one, file_digests)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    # What they had not written yet they hash again another time.
    hashed.clear()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert [row[0] for row in rows()] == [os.fsencode(path) for path in paths]
    assert file_digests(paths) == [sha256(b"%d" % number) for number in range(600)]
    assert hashed == []
    assert manifest_file().stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("_settled")
def test_digests_asked_for_one_by_one_are_written_many_at_a_time(tmp_path: Path):
    paths = files(tmp_path / "images", 600)
    for path in paths:
        file_digest(path)
    assert len(rows()) == 512
    file_digests(paths[:1])
    assert len(rows()) == 600


@pytest.mark.usefixtures("_settled")
def test_manifest_that_another_holds_for_too_long_costs_time_alone(tmp_path, monkeypatch, hashed, remarks):
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.05)
    paths = files(tmp_path / "images", 50)
    file_digests(paths[:1])
    holder = sqlite3.connect(manifest_file(), isolation_level=None)
    # Whoever writes keeps nobody from reading.
    assert holder.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    holder.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        assert file_digests(paths) == [sha256(b"%d" % number) for number in range(50)]
    holder.close()
    assert len(hashed) == 50
    assert len(remarks.messages) == 1
    assert "locked" in remarks.messages[0]
