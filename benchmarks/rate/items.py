"""What is rated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RatedItem:
    """A document of a task, and the captions of its image.

    Attributes:
        id: The document's.
        image: What the document calls its image; its id where that is no name.
        references: The references of the image.
        captions: What each system wrote.
        picture: Name of the file of the image among those of the session; empty before there is one.
    """

    id: str
    image: str
    references: tuple[str, ...]
    captions: tuple[str, ...]
    picture: str = ""
