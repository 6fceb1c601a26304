"""Digests of files: read once for all who ask, right whatever happens to the file."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from capbench.adapters import ImageHandle, VideoHandle
from capbench.adapters.images import file_digests as module
from capbench.adapters.images.file_digests import digests_of, file_digest
from capbench.adapters.images.handles import digests


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that have been hashed, in order."""
    names: list[str] = []
    real = hashlib.file_digest

    def counted(content: Any, kind: str) -> Any:
        names.append(Path(content.name).name)
        return real(content, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return names


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take files that have just been written for old ones."""
    monkeypatch.setattr(module, "_SETTLED_NS", 0)


def files(folder: Path, count: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number:04}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%d" % number)
    return paths


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.usefixtures("_settled")
def test_images_of_three_metrics_are_hashed_once(tmp_path: Path, hashed: list[str]):
    paths = files(tmp_path / "images", 60)
    expected = [f"sha256:{sha256(b'%d' % number)}:" for number in range(60)]
    handles = [ImageHandle(path) for path in paths]

    assert digests(handles) == expected
    assert [handle.digest() for handle in handles] == expected
    assert digests([ImageHandle(path, (0, 0, 9, 9)) for path in paths]) == [f"{digest}0,0,9,9" for digest in expected]
    assert len(hashed) == 60


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("many", [False, True])
def test_file_that_changes_has_another_digest(tmp_path: Path, hashed: list[str], many: bool):
    path = tmp_path / "image.jpg"

    def digest() -> str | OSError:
        return digests_of([path], file_digest)[0] if many else file_digest(path)

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
        digest = digests_of([path], file_digest)[0] if many else file_digest(path)
        assert digest == sha256(b"%02d" % number)


@pytest.mark.usefixtures("_settled")
def test_file_that_changes_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = files(tmp_path / "images", 1)[0]
    real = hashlib.file_digest

    def slow(content: Any, kind: str) -> Any:
        digest = real(content, kind)
        path.write_bytes(b"changed")
        return digest

    monkeypatch.setattr(hashlib, "file_digest", slow)
    assert digests_of([path], file_digest) == [sha256(b"0")]
    monkeypatch.setattr(hashlib, "file_digest", real)
    assert digests_of([path], file_digest) == [sha256(b"changed")]


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
