"""What ``--store`` names: a file of this machine, or results that machines share."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...errors import UsageError
from .objects.urls import checked_url, is_url
from .store import default_store_path


class StoreNames(NamedTuple):
    """Where what is known lies."""

    file: Path
    """The SQLite file of this machine."""
    objects: str | None
    """URL of shared results, which holds on every machine; None where there are none."""


def parse_store(text: str | None) -> StoreNames:
    """Read what ``--store`` says.

    Args:
        text: A file; or a folder with ``/`` at its end, or a URL, which name shared results: the file is the user's own
            then, as without the option.

    Raises:
        UsageError: It is a folder without ``/`` at its end, or a URL that is not understood or holds credentials.
    """
    if text is None:
        return StoreNames(default_store_path(), None)
    if is_url(text):
        return StoreNames(default_store_path(), checked_url(text))
    if text.endswith("/"):
        return StoreNames(default_store_path(), checked_url(Path(text).absolute().as_uri()))
    if Path(text).is_dir():
        raise UsageError(
            f"--store {text}: this is a folder",
            f"'--store {text}/' shares results there between machines; a file in it is the store of this one.",
        )
    return StoreNames(Path(text), None)
