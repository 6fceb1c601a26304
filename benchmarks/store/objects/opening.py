"""Opens shared results, and makes sure before any work that they can be shared from here."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from ....drafts import draft_beside
from ....errors import StoreError
from .bucket import Bucket
from .contract import Place
from .folder import Folder
from .object_store import ObjectStore
from .patience import Patience
from .urls import checked_url, folder_of, is_url

MARK = "capbench-objects"
"""Name of what tells a store of objects from any other folder; it holds the store's identity."""
_IDENTITY = re.compile(rb"[0-9a-f]{32}")


class NoObjectStoreError(StoreError):
    """There is no store of objects there."""


def open_objects(
    url: str | Path, identity: str | None = None, writable: bool = True, patience: Patience | None = None
) -> ObjectStore:
    """Open shared results.

    Args:
        url: A folder as a path or ``file:///FOLDER``, or a bucket (``s3://BUCKET/PREFIX``, ``gs://``, ``abfs://``).
        identity: The store's, as another process found it: a store of another identity is refused, and none is made.
            Without it a store is made where there is none.
        writable: If not, nothing at all is written.
        patience: With answers of a bucket that may pass; a minute by default.

    Raises:
        UsageError: The URL is not understood, or holds credentials.
        NoObjectStoreError: There is no store, and none is to be made.
        StoreError: It cannot be reached or written, is another one, or its back end cannot tell who was first.
    """
    place = _place(url, patience or Patience())
    found = _identity(place)
    if identity is not None and found != identity:
        what = "no store of results" if found is None else "another store of results"
        raise NoObjectStoreError(
            f"{place.label}: from here {what} is found there than the one that the run began with",
            "Name a folder that every machine has mounted at the same path, or a bucket, with --store.",
        )
    if writable:
        if isinstance(place, Folder):
            place.prepare()
        found = _settled(place, found)
    if found is None:
        raise NoObjectStoreError(f"there is no store of results at {place.label}", "The first run makes it.")
    return ObjectStore(place, found, writable)


def require_reachable(url: str | Path, identity: str | None = None, patience: Patience | None = None) -> str:
    """Open shared results, and write, read and delete a probe there: to be done before work starts.

    Args:
        url: See ``open_objects``.
        identity: What this gave elsewhere; see ``open_objects``.
        patience: See ``open_objects``.

    Returns:
        The identity of the store, by which other machines know it.

    Raises:
        UsageError: The URL is not understood, or holds credentials.
        StoreError: Something of that is not possible from here.
    """
    objects = open_objects(url, identity, patience=patience)
    # A draft by its name: if this process is killed, it goes as any other does.
    probe, content = draft_beside(Path("probe")).name, secrets.token_bytes(16)
    objects.place.create(probe, content)
    try:
        if objects.place.read(probe) != content:
            raise StoreError(
                f"{objects.place.label} does not give back what was written there",
                "Results cannot be shared there: name another folder or bucket with --store.",
            )
    finally:
        objects.place.remove(probe)
    return objects.identity


def _place(url: str | Path, patience: Patience) -> Place:
    if isinstance(url, Path) or not is_url(url):
        return Folder(Path(url).absolute())
    checked = checked_url(url)
    folder = folder_of(checked)
    return Bucket(checked, patience) if folder is None else Folder(folder)


def _identity(place: Place) -> str | None:
    found = place.read(MARK)
    if found is not None and not _IDENTITY.fullmatch(found):
        raise StoreError(
            f"{place.label}: '{MARK}' there does not hold what it should",
            "Delete that one object: it is made anew, and the results stay.",
        )
    return None if found is None else found.decode()


def _settled(place: Place, identity: str | None) -> str:
    """Return the identity of a store that can be written, after giving it one where it has none.

    That is written again in the same words: where this is not refused, the back end does not know put-if-absent, and
    nothing is lost.
    """
    if identity is None:
        place.create(MARK, secrets.token_hex(16).encode())
        identity = _identity(place)
    if identity is None or place.create(MARK, identity.encode()):
        raise StoreError(
            f"{place.label} writes over an object where it was asked not to: it cannot tell who was first",
            "Use a bucket with conditional writes (If-None-Match), or a shared folder.",
        )
    return identity
