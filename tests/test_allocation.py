"""What is free goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import pytest

from capbench.allocation import seldom_collected

_SCRIPT = """
import ctypes, sys
import numpy as np
from capbench.allocation import give_back_large_blocks

class Info(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]

info = ctypes.CDLL(None).mallinfo2
info.restype = Info
if sys.argv[1] == "given back":
    give_back_large_blocks()
# glibc takes it for a sign that blocks of this size come and go.
large = np.empty(30 << 20, np.uint8)
del large
before = info().hblks
kept = np.empty(1 << 20, np.uint8)
print(info().hblks - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc 2.33 tells where its blocks are")
@pytest.mark.parametrize(("how", "blocks"), [("as it is", 0), ("given back", 1)])
def test_large_blocks_are_the_systems_own(how: str, blocks: int):
    done = subprocess.run([sys.executable, "-c", _SCRIPT, how], capture_output=True, text=True, check=True)
    assert int(done.stdout) == blocks


@pytest.mark.parametrize(("before", "meanwhile"), [(700, 10_000), (50_000, 50_000), (0, 0)])
def test_circles_are_seldom_looked_for_meanwhile_and_never_more_often_than_before(
    before: int, meanwhile: int, request: pytest.FixtureRequest
):
    known = gc.get_threshold()
    request.addfinalizer(lambda: gc.set_threshold(*known))
    gc.set_threshold(before, 7, 5)
    with pytest.raises(KeyError), seldom_collected():
        assert gc.get_threshold() == (meanwhile, 7, 5)
        raise KeyError
    assert gc.get_threshold() == (before, 7, 5)
