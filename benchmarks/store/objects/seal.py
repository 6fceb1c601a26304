"""The seal before an object's content: it tells what was cut, changed, or lies under another's key."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_MAGIC = b"capbench object\n"
WRITER_BYTES = 16
_LENGTH_BYTES = 8
# Magic, SHA-256 of the key and of all that follows, writer, length of the content.
_DIGEST_AT = len(_MAGIC)
_WRITER_AT = _DIGEST_AT + hashlib.sha256().digest_size
_LENGTH_AT = _WRITER_AT + WRITER_BYTES
SEAL_BYTES = _LENGTH_AT + _LENGTH_BYTES


class DamagedObjectError(ValueError):
    """Bytes are not what was written under a key; says how."""


class Unsealed(NamedTuple):
    """A sound object."""

    writer: bytes
    content: bytes


def sealed(key: str, writer: bytes, content: bytes) -> bytes:
    """Return a content with its seal before it.

    Args:
        key: Under which it will lie.
        writer: Number of this writing (``WRITER_BYTES``), which no other has.
        content: Any bytes.
    """
    told = writer + len(content).to_bytes(_LENGTH_BYTES, "little")
    return b"".join((_MAGIC, _digest(key, told, content), told, content))


def unsealed(key: str, found: bytes) -> Unsealed:
    """Return what was sealed under a key.

    Raises:
        DamagedObjectError: It is not what was written.
    """
    if len(found) < SEAL_BYTES:
        raise DamagedObjectError("it is cut off")
    if not found.startswith(_MAGIC):
        raise DamagedObjectError("it does not begin as an object does")
    told, content = found[_WRITER_AT:SEAL_BYTES], memoryview(found)[SEAL_BYTES:]
    length = int.from_bytes(found[_LENGTH_AT:SEAL_BYTES], "little")
    if len(content) != length:
        raise DamagedObjectError(f"it has {len(content):,} bytes of {length:,}")
    if _digest(key, told, content) != found[_DIGEST_AT:_WRITER_AT]:
        raise DamagedObjectError("its checksum is another")
    return Unsealed(told[:WRITER_BYTES], bytes(content))


def _digest(key: str, told: bytes, content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(bytes.fromhex(key) + told)
    digest.update(content)
    return digest.digest()
