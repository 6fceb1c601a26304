"""The seal: any change of an object is found, and never read as another content."""

from __future__ import annotations

import hashlib

import pytest

from capbench.benchmarks.store.objects.seal import DamagedObjectError, Unsealed, sealed, unsealed

KEY = hashlib.sha256(b"key").hexdigest()
WRITER = bytes(range(16))
WHOLE = sealed(KEY, WRITER, b"content")


def test_what_was_sealed_is_unsealed():
    assert unsealed(KEY, WHOLE) == Unsealed(WRITER, b"content")


def test_every_flipped_bit_is_found():
    for place in range(len(WHOLE) * 8):
        changed = bytearray(WHOLE)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(DamagedObjectError):
            unsealed(KEY, bytes(changed))


def test_every_cut_is_found():
    for end in range(len(WHOLE)):
        with pytest.raises(DamagedObjectError):
            unsealed(KEY, WHOLE[:end])


def test_another_key_is_found():
    with pytest.raises(DamagedObjectError, match="checksum"):
        unsealed(hashlib.sha256(b"other").hexdigest(), WHOLE)
