"""What ``--store`` names: a file of this machine, or results that machines share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ...errors import UsageError, did_you_mean
from .store import default_store_path

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
BUCKETS = {
    "s3": "'capbench[s3]'",
    "s3a": "'capbench[s3]'",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "memory": "",
}
"""What brings the library of each: it writes a file by one request that fails where there is one."""
CREDENTIALS = (
    "Credentials come from the environment: AWS_PROFILE or AWS_ACCESS_KEY_ID, GOOGLE_APPLICATIONCREDENTIALS, "
    "AZURE_STORAGE_..., or the machine's role. They must allow to list, read and write there."
)


class StoreNames(NamedTuple):
    """Where what is known lies."""

    file: Path
    """The SQLite file of this machine."""
    objects: str | None
    """Where machines share results of shards: an address that holds on every machine; None where they share none."""


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
    if is_address(text):
        return StoreNames(default_store_path(), checked_address(text))
    if text.endswith("/"):
        return StoreNames(default_store_path(), checked_address(Path(text).absolute().as_uri()))
    if Path(text).is_dir():
        raise UsageError(
            f"--store {text}: this is a folder",
            f"'--store {text}/' shares results there between machines; a file in it is the store of this one.",
        )
    return StoreNames(Path(text), None)


def is_address(text: str) -> bool:
    """Return whether a text has a scheme."""
    return _SCHEME.match(text) is not None


def checked_address(text: str) -> str:
    """Return an address in the form in which it is printed and recorded, without a slash at its end.

    Raises:
        UsageError: It is not understood, or holds credentials; the message does not show them.
    """
    found = _SCHEME.match(text)
    scheme, parts = found[1].lower() if found else "", urlsplit(text)
    user, _, host = parts.netloc.rpartition("@")
    shown = f"{scheme}://{host}{parts.path}"
    # abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX
    if parts.query or parts.fragment or ":" in user or (user and not scheme.startswith("abfs")):
        raise UsageError(
            f"{shown}: the address of a folder holds no credentials and no '?'; what was there is not shown",
            CREDENTIALS,
        )
    if scheme not in (*BUCKETS, "file"):
        raise UsageError(
            f"{shown}: no folder of results can be at '{scheme}://'.{did_you_mean(scheme, (*BUCKETS, 'file'))}",
            "Name a folder that the machines share, or a bucket: s3://, gs:// or abfs://.",
        )
    if not (parts.path.strip("/") if scheme == "file" else parts.netloc):
        raise UsageError(f"{text}: this names no folder", f"Write file:///FOLDER or {scheme}://BUCKET/PREFIX.")
    return f"{scheme}://{parts.netloc if scheme != 'file' else ''}{parts.path.rstrip('/')}"
