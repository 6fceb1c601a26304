"""Results by key, shared by many machines: each is committed once, found whole or not at all, and checked when read."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from ....errors import StoreError
from .contract import Place
from .seal import WRITER_BYTES, DamagedObjectError, Unsealed, sealed, unsealed

_KEY = re.compile(r"[0-9a-f]{64}")
_FOLDER = re.compile(r"[0-9a-f]{2}")
# Requests that are under way at once: an answer of a bucket takes tens of milliseconds, whatever it says.
_THREADS = 8

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class ObjectStore:
    """Objects by key in a shared folder or bucket; see ``open_objects``.

    Any number of processes on any machines may put and get at one time, and from several threads. An object lies at
    ``ab/KEY``, where ``ab`` are the first two digits of its key, with a seal of 72 bytes before its content.

    Attributes:
        place: Where the objects lie.
        identity: Number that the place was given when it was made: who finds another has come to another place.
    """

    def __init__(self, place: Place, identity: str, writable: bool) -> None:
        self.place = place
        self.identity = identity
        self._writable = writable

    def get(self, key: str) -> bytes | None:
        """Return what was put under a key; None where nothing was, or where it is damaged, which is said.

        Args:
            key: SHA-256 in lower-case hexadecimal digits.

        Raises:
            StoreError: The place cannot be read.
        """
        try:
            found = self.read(key)
        except DamagedObjectError as error:
            logging.getLogger(__name__).warning(
                "%s: object %s is damaged (%s). It counts as unknown, and is replaced when it is put again.",
                self.place.label,
                key,
                error,
            )
            return None
        return None if found is None else found.content

    def put(self, key: str, content: bytes) -> bool:
        """Commit a content under a key unless one is there; all of it is durable on return.

        A damaged object is replaced. Where two replace one at the same time, both are told True, and the last one's
        stands.

        Args:
            key: SHA-256 in lower-case hexadecimal digits.
            content: Any bytes; they are in memory twice while they are written.

        Returns:
            True if this one is what is there now, False if another was there before.

        Raises:
            StoreError: The place cannot be written.
        """
        self.require_writable()
        name, writer = _name(key), secrets.token_bytes(WRITER_BYTES)
        whole = sealed(key, writer, content)
        while not self.place.create(name, whole):
            try:
                standing = self.read(key)
            except DamagedObjectError:
                self.place.replace(name, whole)
                break
            # None: it has been deleted since.
            if standing is not None:
                # It is this one where the answer to the first request was lost.
                return standing.writer == writer
        return True

    def has(self, key: str) -> bool:
        """Return whether there is an object under a key; whether it is sound is seen when it is read.

        Raises:
            StoreError: The place cannot be read.
        """
        return self.place.exists(_name(key))

    def known(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys that have an object, by listing: 256 folders at most, whatever the number of keys.

        Raises:
            StoreError: The place cannot be read.
        """
        wanted: dict[str, set[str]] = {}
        for key in keys:
            folder = _name(key).partition("/")[0]
            wanted.setdefault(folder, set()).add(key)
        folders = wanted.keys() & self.folders()
        listed = in_threads(lambda folder: wanted[folder].intersection(self.place.names(folder)), folders)
        return set().union(*listed)

    def keys(self) -> Iterator[str]:
        """Yield every key that has an object.

        Raises:
            StoreError: The place cannot be read.
        """
        folders = sorted(self.folders())
        for folder, names in zip(folders, in_threads(self.place.names, folders), strict=True):
            yield from (name for name in sorted(names) if is_key(folder, name))

    def delete(self, key: str) -> None:
        """Delete the object under a key, if there is one.

        Raises:
            StoreError: The place cannot be written.
        """
        self.require_writable()
        self.place.remove(_name(key))

    def read(self, key: str) -> Unsealed | None:
        """Return the object under a key with its seal's number; None where there is none.

        Raises:
            DamagedObjectError: It is not what was written.
            StoreError: The place cannot be read.
        """
        found = self.place.read(_name(key))
        return None if found is None else unsealed(key, found)

    def folders(self) -> set[str]:
        """Return the folders that hold objects.

        Raises:
            StoreError: The place cannot be read.
        """
        return {folder for folder in self.place.folders() if _FOLDER.fullmatch(folder)}

    def require_writable(self) -> None:
        """Raise where the store was opened to be read.

        Raises:
            StoreError: It was.
        """
        if not self._writable:
            raise StoreError(f"{self.place.label} was opened for reading", "Open it for writing.")


def is_key(folder: str, name: str) -> bool:
    """Return whether what lies so is an object: not what somebody else laid there."""
    return _KEY.fullmatch(name) is not None and name.startswith(folder)


def in_threads(do: Callable[[_Given], _Made], things: Iterable[_Given]) -> Iterator[_Made]:
    """Do something with each thing, a few at a time, and yield what comes of it in their order."""
    rest = iter(things)
    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(rest, _THREADS)):
            yield from pool.map(do, batch)


def _name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"'{key}' is no key: SHA-256 in lower-case hexadecimal digits")
    return f"{key[:2]}/{key}"
