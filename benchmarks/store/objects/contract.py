"""What a place of objects can do: named bytes in folders, of which each is whole, and the first one stands."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """An object as its place lists it."""

    name: str
    """Without its folder."""
    size: int
    """Bytes."""
    written: float
    """When, in seconds since 1970, by the clock of the place."""


class Place(Protocol):
    """A folder or a bucket. Names have at most one slash; what fails is a ``StoreError`` that names place and remedy.

    Attributes:
        label: What it is called in messages; holds no credentials.
    """

    label: str

    def read(self, name: str) -> bytes | None:
        """Return an object, None where there is none."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless there is one; whole or not at all, durable on return.

        Returns:
            Whether this one was written. After an answer that was lost False may be said of one that was.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Write an object in the place of any that is there; whole or not at all, durable on return."""
        ...

    def remove(self, name: str) -> None:
        """Remove an object; it may be gone already."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is an object."""
        ...

    def folders(self) -> list[str]:
        """Return the folders."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, which need not be there."""
        ...

    def entries(self, folder: str) -> list[Entry]:
        """Return what is in a folder, which need not be there; ``""`` is the top, without its folders."""
        ...
