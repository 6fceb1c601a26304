"""Objects in a folder that machines share: drafts that get their name by a hard link, which the first one gets."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....drafts import DRAFT, draft_beside, flush, put_if_absent, put_in_place, remove_abandoned
from ....errors import StoreError
from .contract import Entry

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Folder:
    """A folder, be it on a network file system; the ``Place`` contract. Drafts lie at its top.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.label = str(path)
        self._path = path

    def prepare(self) -> None:
        """Make the folder if it is not there, and remove the drafts of this machine's processes that are no more.

        Raises:
            StoreError: It cannot be made.
        """
        with self._errors():
            self._path.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self._path.glob(f"{DRAFT}*"))

    def read(self, name: str) -> bytes | None:
        """See the contract."""
        with self._errors():
            try:
                return (self._path / name).read_bytes()
            except FileNotFoundError:
                return None

    def create(self, name: str, content: bytes) -> bool:
        """See the contract."""
        if self.exists(name):
            return False
        with self._drafted(name, content) as (draft, path):
            try:
                return put_if_absent(draft, path)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                raise StoreError(
                    f"{self.label} is on a file system without hard links ({error.strerror}), "
                    "where it cannot be told who was first",
                    "Name a folder on another file system, or a bucket (s3://...), with --store.",
                ) from error

    def replace(self, name: str, content: bytes) -> None:
        """See the contract."""
        with self._drafted(name, content) as (draft, path):
            put_in_place(draft, path)

    def remove(self, name: str) -> None:
        """See the contract."""
        with self._errors():
            (self._path / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        """See the contract."""
        with self._errors():
            return (self._path / name).exists()

    def folders(self) -> list[str]:
        """See the contract."""
        with self._errors(), os.scandir(self._path) as listed:
            return [one.name for one in listed if one.is_dir()]

    def names(self, folder: str) -> list[str]:
        """See the contract."""
        with self._errors():
            try:
                return [path.name for path in (self._path / folder).iterdir()]
            except FileNotFoundError:
                return []

    def entries(self, folder: str) -> list[Entry]:
        """See the contract."""
        entries = []
        with self._errors():
            for name in self.names(folder):
                path = self._path / folder / name
                try:
                    about = path.stat()
                except FileNotFoundError:
                    # It has been removed since.
                    continue
                if path.is_file():
                    entries.append(Entry(name, about.st_size, about.st_mtime))
        return entries

    @contextmanager
    def _drafted(self, name: str, content: bytes) -> Iterator[tuple[Path, Path]]:
        """Give a draft with a content, and the path that it is for."""
        path = self._path / name
        draft = draft_beside(self._path / "draft")
        with self._errors():
            if not path.parent.is_dir():
                path.parent.mkdir(exist_ok=True)
                flush(self._path)
            try:
                draft.write_bytes(content)
                yield draft, path
            finally:
                draft.unlink(missing_ok=True)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what the system says into a ``StoreError``."""
        try:
            yield
        except OSError as error:
            hint = "Is it mounted, and may you write there? Name another folder or a bucket with --store."
            if error.errno in _NO_SPACE:
                hint = f"Free disk space, or 'bench store prune --store {self.label}/'."
            raise StoreError(f"{self.label}: {error}", hint) from error
