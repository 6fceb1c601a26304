"""Objects in a bucket, by fsspec: one conditional request commits an object, and the first one stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ....errors import StoreError
from .answers import Meaning, meaning_of, words_of
from .contract import Entry
from .patience import Patience

_LIMIT_OF_A_REQUEST = 5 * 2**30
_OF_S3: dict[str, Any] = {
    # An object comes in one request, and how often it is asked for again is decided here, once for all back ends.
    "max_concurrency": 1,
    "config_kwargs": {"retries": {"total_max_attempts": 1}},
}
_EXTRAS = {"s3": "'capbench[s3]'", "s3a": "'capbench[s3]'", "gs": "gcsfs", "gcs": "gcsfs"}


class Bucket:
    """A bucket, or a prefix in one; the ``Place`` contract.

    Args:
        url: Such as ``s3://bucket/prefix``; checked by ``checked_url``. Credentials, region and endpoint come from
            where the back end's library looks for them: its environment variables, its files, the machine's role.
        patience: With answers that may pass.

    Raises:
        StoreError: The library of the back end is not installed, or cannot be set up.
    """

    def __init__(self, url: str, patience: Patience) -> None:
        self.label = url
        self._patience = patience
        scheme = url.partition(":")[0]
        is_s3 = scheme in ("s3", "s3a")
        try:
            import fsspec

            # What was listed is old as soon as another machine has written.
            self._files, self._root = fsspec.url_to_fs(
                url, use_listings_cache=False, **(_OF_S3 if is_s3 else {})
            )
        except ImportError as error:
            package = _EXTRAS.get(scheme, "adlfs")
            raise StoreError(f"{url}: {error}", f"Install it: pip install {package}.") from error
        except Exception as error:
            raise self._refusal(error) from error
        if is_s3:
            self._files.retries = 1
        # s3fs sends up to two chunks as one request, of which a killed process leaves nothing. What is longer comes in
        # parts, and the condition is put when they are made one.
        self._writing = {"chunksize": _LIMIT_OF_A_REQUEST // 2} if is_s3 else {}

    def read(self, name: str) -> bytes | None:
        """See the contract."""
        try:
            return self._call(self._files.cat_file, self._path(name))
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        """See the contract."""
        try:
            self._call(self._files.pipe_file, self._path(name), content, mode="create", **self._writing)
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise self._no_place() from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        """See the contract."""
        self._call(self._files.pipe_file, self._path(name), content, **self._writing)

    def remove(self, name: str) -> None:
        """See the contract."""
        try:
            self._call(self._files.rm_file, self._path(name))
        except FileNotFoundError:
            return

    def exists(self, name: str) -> bool:
        """See the contract."""
        try:
            self._call(self._files.info, self._path(name))
        except FileNotFoundError:
            return False
        return True

    def folders(self) -> list[str]:
        """See the contract."""
        return [_last(one["name"]) for one in self._listed("") if one["type"] == "directory"]

    def names(self, folder: str) -> list[str]:
        """See the contract."""
        return [_last(one["name"]) for one in self._listed(folder) if one["type"] == "file"]

    def entries(self, folder: str) -> list[Entry]:
        """See the contract."""
        return [
            Entry(_last(one["name"]), int(one["size"]), _time(one))
            for one in self._listed(folder)
            if one["type"] == "file"
        ]

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        try:
            return self._call(self._files.ls, self._path(folder), detail=True)
        except FileNotFoundError:
            return []

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _call(self, do: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """Send a request, and again where its failure may pass.

        Raises:
            FileExistsError: There is an object, and should be none.
            FileNotFoundError: There is none.
            StoreError: Anything else, at once or in the end.
        """
        began, pauses, attempts = time.monotonic(), self._patience.pauses(), 0
        while True:
            attempts += 1
            try:
                return do(*given, **options)
            except Exception as error:
                meaning = meaning_of(error)
                if meaning is Meaning.THERE:
                    raise FileExistsError(words_of(error)) from error
                if meaning is Meaning.MISSING:
                    raise FileNotFoundError(words_of(error)) from error
                if meaning is not Meaning.PASSING:
                    raise self._refusal(error) from error
                pause = next(pauses, None)
                if pause is None:
                    raise StoreError(
                        f"{self.label} did not answer as it should: {attempts} attempts in "
                        f"{time.monotonic() - began:.0f} s; the last: {words_of(error)}",
                        "What was committed stays. Give the same command again when the bucket answers.",
                    ) from error
            time.sleep(pause)

    def _refusal(self, error: Exception) -> StoreError:
        meaning = meaning_of(error)
        if meaning is Meaning.NO_PLACE:
            return self._no_place()
        if meaning is Meaning.DENIED:
            return StoreError(
                f"{self.label}: access was denied: {words_of(error)}",
                "Credentials come from the environment (AWS_PROFILE, a role, ...) and must allow to list, read, write "
                "and delete there.",
            )
        return StoreError(
            f"{self.label}: {words_of(error)}", "Look at the URL and at the settings of its back end."
        )

    def _no_place(self) -> StoreError:
        return StoreError(
            f"{self.label}: there is no such bucket",
            "Make it, or name another with --store; its region and endpoint come from the environment.",
        )


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _time(about: dict[str, Any]) -> float:
    """Return when an object was written, as the back ends spell it."""
    spellings = ("LastModified", "last_modified", "mtime", "updated", "created")
    found = next(about[key] for key in spellings if about.get(key) is not None)
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    return found.timestamp() if isinstance(found, datetime) else float(found)
