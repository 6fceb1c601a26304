"""Shelves of files and of objects, for runs that do not fit into memory or into one process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....drafts import draft_beside, is_abandoned, own_name
from ....errors import StoreError, UsageError
from ....paths import cache_folder
from ...store.objects.object_store import ObjectStore
from .codec import Originals, decode, encode, unreadable
from .parts_file import packed, unpacked
from .shelf import Arrays, Shelf, Value

_KEPT_SECONDS = 7 * 24 * 3600
_OWNER = "~"


class FolderShelf(Shelf):
    """Keeps values as files of one machine, for the processes of one run.

    Args:
        folder: Where; it is there.
        originals: Where the images of the run are.
    """

    def __init__(self, folder: Path, originals: Originals) -> None:
        self.folder = folder
        self._originals = originals

    def put(self, key: str, value: Value) -> None:
        """Keep a value; its file is there whole or not at all."""
        if not self.has(key):
            self._write(key, [encode(value)])

    def put_parts(self, key: str, parts: Iterable[Arrays]) -> None:
        """Keep parts in one file: of small ones there are so many that to remove them takes longer than to write."""
        if not self.has(key):
            self._write(key, packed(map(encode, parts)))

    def has_parts(self, key: str, count: int) -> bool:
        """Tell whether the file of the parts is there, which has all of them."""
        return self.has(key)

    def part(self, key: str, number: int) -> Arrays:
        """Read one part of a file, and nothing else of it."""
        with self._reading(key) as path, path.open("rb") as file:
            try:
                content = unpacked(file, number)
            except ValueError as error:
                raise unreadable(error) from error
            return decode(content, self._originals)

    def add(self, value: Value) -> str:
        """Keep a value under the hash of its bytes."""
        content = encode(value)
        key = hashlib.sha256(content).hexdigest()
        if not self.has(key):
            self._write(key, [content])
        return key

    def has(self, key: str) -> bool:
        """Tell whether there is a value."""
        return (self.folder / key).exists()

    def drop(self, key: str) -> None:
        """Forget a value."""
        (self.folder / key).unlink(missing_ok=True)

    def get(self, key: str) -> Any:
        """Return a value."""
        with self._reading(key) as path:
            return decode(path.read_bytes(), self._originals)

    @contextmanager
    def _reading(self, key: str) -> Generator[Path]:
        path = self.folder / key
        try:
            yield path
        except OSError as error:
            raise StoreError(
                f"{path}: cannot be read: {error.strerror}", "Run again: what is there is used."
            ) from error

    def _write(self, key: str, content: Iterable[bytes]) -> None:
        draft = draft_beside(self.folder / key)
        try:
            with draft.open("wb") as file:
                file.writelines(content)
            draft.replace(self.folder / key)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StoreError(
                f"{self.folder}: cannot be written: {error.strerror}",
                "BENCH_CACHE names another folder for what runs put aside.",
            ) from error


class ObjectShelf(Shelf):
    """Keeps values as objects that machines share.

    Args:
        objects: Where.
        here: Where that is put which nobody else needs.
        originals: Where the images of the run are.
    """

    def __init__(self, objects: ObjectStore, here: FolderShelf, originals: Originals) -> None:
        self._objects = objects
        self._here = here
        self._originals = originals

    def put(self, key: str, value: Value) -> None:
        """Keep a value unless there is one."""
        self._objects.put(key, encode(value))

    def add(self, value: Value) -> str:
        """Keep a value under the hash of its bytes."""
        content = encode(value)
        key = hashlib.sha256(content).hexdigest()
        self._objects.put(key, content)
        return key

    def add_own(self, value: Value) -> str:
        """Keep a value on this machine."""
        return self._here.add(value)

    def has(self, key: str) -> bool:
        """Tell whether there is a value that can be used."""
        return self._objects.get(key) is not None

    def drop(self, key: str) -> None:
        """Forget a value."""
        self._objects.delete(key)

    def get(self, key: str) -> Any:
        """Return a value."""
        if self._here.has(key):
            return self._here.get(key)
        if (content := self._objects.get(key)) is None:
            raise StoreError(
                f"{self._objects.place.label}: has no result {key}",
                "Was it pruned while the run went on? Run again: what is there is used.",
            )
        return decode(content, self._originals)


def folder_in_run(run: Path) -> Path:
    """Return the folder for what units make in that of a run, which all of its workers see, at whatever time; it stays.

    Raises:
        UsageError: It cannot be made.
    """
    folder = run.absolute() / "shelf"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written: {error.strerror}",
            "Name a folder with --run_folder that this user may write, and that all workers see.",
        ) from error
    return folder


@contextmanager
def unfinished_folder(run: str) -> Generator[Path]:
    """Give a folder for what a run puts aside, which goes when the run is done.

    A run that is broken off leaves it: the next one that is the same takes it over with all that is in it. Those
    that nobody took over for a week are removed.

    Args:
        run: What tells runs apart: a hash.

    Raises:
        StoreError: It cannot be made.
    """
    place = cache_folder() / "unfinished"
    folder = place / f"{run}{_OWNER}{own_name()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not any(_take_over(left, folder) for left in place.glob(f"{run}{_OWNER}*")):
            folder.mkdir(mode=0o700)
    except OSError as error:
        raise StoreError(
            f"{place}: cannot be written: {error.strerror}",
            "BENCH_CACHE names another folder for what runs put aside.",
        ) from error
    for left in place.iterdir():
        with contextlib.suppress(OSError):
            if _is_left(left) and time.time() - left.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    try:
        yield folder
    except BaseException:
        # This process goes on, perhaps, and has the same run again.
        with contextlib.suppress(OSError):
            folder.rename(place / f"{run}{_OWNER}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _take_over(left: Path, folder: Path) -> bool:
    """Give a folder that a run of a process that is no more left another owner; one of several that try does."""
    try:
        if _is_left(left):
            left.rename(folder)
            os.utime(folder)
            return True
    except OSError:
        pass
    return False


def _is_left(folder: Path) -> bool:
    run, _, owner = folder.name.partition(_OWNER)
    return not owner or is_abandoned(folder, f"{run}{_OWNER}")
