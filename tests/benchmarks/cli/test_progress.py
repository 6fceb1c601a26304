"""Progress bars on a terminal."""

from __future__ import annotations

import io
import threading

import pytest
import tqdm

from capbench.benchmarks.cli.progress import bars


def test_bar_starts_no_thread(monkeypatch: pytest.MonkeyPatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 10)
    monkeypatch.setattr(tqdm.tqdm, "monitor", None)
    before = threading.active_count()
    report = bars()("step")
    assert threading.active_count() == before
    report(1, 2)
    report(2, 2)
