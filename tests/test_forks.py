"""Forked processes end without a word of their own."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import pytest

from capbench.forks import Fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT])
def handled(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal at which this process raises, as the command does."""

    def raise_it(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(request.param, raise_it)
    yield request.param
    signal.signal(request.param, before)


def test_what_is_ended_says_nothing_although_its_parent_raises_at_the_signal(
    handled: signal.Signals, capfd: pytest.CaptureFixture[str]
):
    def be_ended() -> int:
        signal.raise_signal(handled)
        time.sleep(60)
        return 1

    fork = Fork(be_ended)
    assert fork.made() is None
    fork.end()
    assert capfd.readouterr().err == ""
