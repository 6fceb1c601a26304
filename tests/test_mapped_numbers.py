"""Numbers of large data lie in files, and are in memory while they are looked at alone."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from capbench import mapped_numbers
from capbench.errors import StoreError
from capbench.mapped_numbers import GrowingNumbers, let_go, mapped

ROWS = 400_000


@pytest.mark.parametrize("few", [0, 50, 1 << 20])
def test_numbers_stay_in_their_order_however_many(monkeypatch: pytest.MonkeyPatch, few: int):
    monkeypatch.setattr(mapped_numbers, "_FEW_BYTES", few)
    growing = GrowingNumbers()
    assert not growing
    pieces = [np.arange(6).reshape(3, 2), np.zeros((0, 2), np.int64), np.full((2, 2), -7)]
    for number, piece in enumerate(pieces, 1):
        growing.append(piece)
        assert growing
        np.testing.assert_array_equal(growing.array(), np.concatenate(pieces[:number]))
    assert growing.array() is growing.array()
    assert growing.array().dtype == np.int64


def test_none_is_an_empty_array():
    assert GrowingNumbers().array().tolist() == []
    assert mapped(np.zeros((0, 3), np.uint16)).shape == (0, 3)


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_numbers_of_several_types_become_the_type_that_holds_all(monkeypatch: pytest.MonkeyPatch, few: int):
    monkeypatch.setattr(mapped_numbers, "_FEW_BYTES", few)
    growing = GrowingNumbers()
    for piece in (np.array([1, 2], np.int32), np.array([0.5]), np.array([3], np.int32)):
        growing.append(piece)
    assert (growing.array().tolist(), growing.array().dtype) == ([1, 2, 0.5, 3], np.float64)
    with pytest.raises(ValueError, match="after"):
        growing.append(np.zeros((1, 2)))


@pytest.mark.parametrize("rows", [3, ROWS])
def test_nobody_writes_to_them_and_what_was_given_can_be_written_to(rows: int):
    given = np.zeros(rows)
    kept = mapped(given)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1
    given[0] = 1


def test_full_disk_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(StoreError, match="missing: cannot be written") as error:
        mapped(np.zeros(ROWS))
    assert "TMPDIR" in error.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is in memory")
def test_many_are_in_memory_while_they_are_looked_at_alone():
    kept = mapped(np.arange(ROWS))
    total = kept.sum()
    looked_at = _mapped_bytes()
    let_go()
    assert _mapped_bytes() < looked_at - kept.nbytes / 2
    assert kept.sum() == total
    assert _mapped_bytes() > looked_at - kept.nbytes / 2


def _mapped_bytes() -> int:
    """Return the bytes of files, mapped, that are in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kinds = ("RssFile", "RssShmem")
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(kinds))
