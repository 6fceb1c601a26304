"""The folder of a run that machines share: write-once files in a folder or a bucket."""

import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...atomic_files import draft_beside, remove_abandoned
from ...errors import StoreError
from ..store.store import BUCKETS, CREDENTIALS, checked_address, is_address

_REQUEST_BYTES = 5 << 30


class Folder:
    """Named files that processes on any machines write and read concurrently; it can be pickled.

    Args:
        place: A path, ``file:///FOLDER``, or a bucket: ``s3://BUCKET/PREFIX``, ``gs://``, ``abfs://``;
            ``memory://NAME`` is private to a process.

    Attributes:
        label: Its name in messages, without credentials.
        path: The path; None where it is a bucket.

    Raises:
        UsageError: The address is not understood, or holds credentials.
        StoreError: Its library is not installed, or it cannot be opened.
    """

    def __init__(self, place: str | Path) -> None:
        self.label = checked_address(place) if isinstance(place, str) and is_address(place) else str(place)
        self.path: Path | None = None
        self._files: Any = None
        scheme = self.label.partition("://")[0]
        if not is_address(self.label):
            self.path = Path(self.label).absolute()
        elif scheme == "file":
            self.path = Path(unquote(urlsplit(self.label).path))
        else:
            self._files, self._root = self._open(scheme)

    def exists(self, name: str) -> bool:
        """Return whether a file exists; names may have slashes."""
        with self._errors():
            return (self.path / name).exists() if self.path else self._files.exists(f"{self._root}/{name}")

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: It does not exist.
            StoreError: It cannot be read.
        """
        with self._errors():
            return (self.path / name).read_bytes() if self.path else self._files.cat_file(f"{self._root}/{name}")

    def put(self, name: str, content: bytes) -> bool:
        """Write a file atomically unless it exists.

        Returns:
            Whether it was written. After a lost response it may be False for a written file.

        Raises:
            StoreError: It cannot be written.
        """
        with self._errors():
            if not self.path:
                options = {"chunksize": _REQUEST_BYTES // 2} if self.label.startswith("s3") else {}
                with suppress(FileExistsError):
                    self._files.pipe_file(f"{self._root}/{name}", content, mode="create", **options)
                    return True
                return False
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(path.parent.glob(".draft-*"))
            draft = draft_beside(path)
            try:
                draft.write_bytes(content)
                # No fsync: a file that a power failure truncates is computed anew.
                path.hardlink_to(draft)
            except FileExistsError:
                return path.samefile(draft)
            finally:
                draft.unlink(missing_ok=True)
            return True

    def require_usable(self) -> None:
        """Check that files can be written and read here, and that writing does not overwrite.

        Raises:
            StoreError: One of these is not possible.
        """
        name, content = f"probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
        self.put(name, content)
        try:
            if self.read(name) != content or self.put(name, content):
                raise StoreError(
                    f"{self.label} overwrites files: it does not support conditional writes",
                    "Use a bucket with conditional writes (If-None-Match), or a folder.",
                )
        finally:
            with self._errors():
                (self.path / name).unlink() if self.path else self._files.rm_file(f"{self._root}/{name}")

    def _open(self, scheme: str) -> tuple[Any, str]:
        try:
            import fsspec

            # No caches: listings age as other machines write, and a file is read in one request.
            own = {"max_concurrency": 1} if scheme.startswith("s3") else {}
            return fsspec.url_to_fs(self.label, use_listings_cache=False, **own)
        except ImportError as error:
            raise StoreError(f"{self.label}: {error}", f"Install it: pip install {BUCKETS[scheme]}.") from error
        except Exception as error:
            raise StoreError(f"{self.label}: {_words_of(error)}", CREDENTIALS) from error

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Turn errors of the system or a library into a ``StoreError``, except for a missing file."""
        try:
            yield
        except (FileNotFoundError, StoreError):
            raise
        except OSError as error:
            hint = "Check that it is mounted, has space and is writable." if self.path else CREDENTIALS
            raise StoreError(f"{self.label}: {_words_of(error)}", hint) from error
        except Exception as error:
            # Each back end has its own errors.
            raise StoreError(f"{self.label}: {_words_of(error)}", CREDENTIALS) from error


def _words_of(error: Exception) -> str:
    """Return the message of an error in one line, without signed parts of an address."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return re.sub(r"\?[^\s'\"]*", "?...", " ".join(said.split()) or type(error).__name__)[:300]
