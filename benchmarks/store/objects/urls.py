"""URLs of shared results: which are understood, and that none holds credentials."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ....errors import UsageError, did_you_mean

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
# Those whose library commits an object by one request that fails where there is one. fsspec's own way for the others
# looks first and writes then.
_BUCKETS = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory")
# abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX
_WITH_CONTAINER = ("abfs", "abfss", "az")


def is_url(text: str) -> bool:
    """Return whether a text has a scheme."""
    return _SCHEME.match(text) is not None


def checked_url(text: str) -> str:
    """Return a URL in the form in which it is printed and recorded, without a slash at its end.

    Args:
        text: ``file:///FOLDER``, ``s3://BUCKET/PREFIX``, ``gs://...``, ``abfs://...``, or ``memory://NAME``, which is
            of one process alone.

    Raises:
        UsageError: It is not understood, or holds credentials; the message does not show them.
    """
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    parts = urlsplit(text)
    shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    user, _, _ = parts.netloc.rpartition("@")
    if parts.query or parts.fragment or ":" in user or (user and scheme not in _WITH_CONTAINER):
        raise UsageError(
            f"{shown}: the URL of a store holds no credentials and no '?'; what was there is not shown",
            "Credentials come from the environment: AWS_PROFILE or AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, "
            "AZURE_STORAGE_..., or the machine's role.",
        )
    if scheme not in (*_BUCKETS, "file"):
        raise UsageError(
            f"{shown}: no store of results can be at '{scheme}://'.{did_you_mean(scheme, (*_BUCKETS, 'file'))}",
            "Name a folder that the machines share (file:///FOLDER), or a bucket: s3://, gs:// or abfs://.",
        )
    if scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.strip("/")):
        raise UsageError(f"{text}: this names no folder", "Three slashes begin a path: file:///FOLDER.")
    if scheme != "file" and not parts.netloc:
        raise UsageError(f"{text}: this names no bucket", f"Write {scheme}://BUCKET/PREFIX.")
    netloc = "" if scheme == "file" else parts.netloc
    return f"{scheme}://{netloc}{parts.path.rstrip('/')}"


def folder_of(url: str) -> Path | None:
    """Return the folder that a checked URL names, None for one of a bucket."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
