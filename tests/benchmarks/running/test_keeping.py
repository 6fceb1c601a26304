"""The file of a run's samples is the same whoever writes it, and is there although its writer was killed."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from capbench.benchmarks.records.samples import Samples
from capbench.benchmarks.running import keeping
from capbench.benchmarks.running.keeping import samples_file
from capbench.errors import DataError
from capbench.forks import shared_by

HERE = os.getpid()
posix = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


def samples_seen_by(look: Callable[[], object]) -> Samples:
    """Return samples whose columns call something in the process that reads them."""

    def parts() -> Iterator[dict[str, Any]]:
        look()
        yield {
            "id": ["a", "b"],
            "image": ["/home/me/1.jpg", "/home/me/2.jpg"],
            "candidate": ["a dog", "a cat"],
        }

    return Samples(parts, {"length": np.array([2.0, 3.0])}, {}, [])


def digest_of(samples: Samples, hold: Any, *, beside: bool) -> str:
    with samples_file(samples, hold, beside=beside) as written:
        assert written is not None
        digest = written.digest()
        assert ("candidate" in pq.read_schema(written.path).names) == (hold == "full")
        assert hashlib.sha256(written.path.read_bytes()).hexdigest() == digest
    assert not written.path.exists()
    return digest


@posix
@pytest.mark.parametrize("hold", ["full", "scores"])
def test_forked_process_writes_the_same_file(monkeypatch: pytest.MonkeyPatch, hold: str):
    monkeypatch.setattr(keeping, "cores_to_share", lambda: 2)
    here: list[int] = []
    samples = samples_seen_by(lambda: here.append(os.getpid()))
    forked = digest_of(samples, hold, beside=True)
    assert not here
    assert digest_of(samples, hold, beside=False) == forked
    assert here


@posix
def test_file_is_written_here_where_its_writer_was_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "cores_to_share", lambda: 2)

    def look() -> None:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)

    digest = digest_of(samples_seen_by(look), "full", beside=True)
    assert digest == digest_of(samples_seen_by(lambda: None), "full", beside=False)


@posix
def test_writer_ends_with_a_run_that_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "cores_to_share", lambda: 2)
    started = set(multiprocessing.active_children())
    with (
        pytest.raises(DataError),
        samples_file(samples_seen_by(lambda: time.sleep(60)), "full", beside=True),
    ):
        assert len(set(multiprocessing.active_children()) - started) == 1
        raise DataError("the statistics failed")
    assert set(multiprocessing.active_children()) <= started


def test_one_process_alone_writes_it_itself():
    here: list[int] = []
    with shared_by(1):
        digest_of(samples_seen_by(lambda: here.append(os.getpid())), "full", beside=True)
    assert set(here) == {HERE}


def test_nothing_is_written_of_samples_that_nobody_wants(tmp_path: Path):
    with samples_file(samples_seen_by(lambda: pytest.fail("was read")), "none", beside=True) as written:
        assert written is None
