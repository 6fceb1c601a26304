"""For pytest (``-p passed``): a second run leaves out what has passed in the first, on a machine that has less.

``CAPBENCH_PASSED`` names the file of the tests that passed; the first run writes it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FILE = Path(os.environ["CAPBENCH_PASSED"])
passed: dict[str, bool] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed."""
    if not FILE.is_file():
        return
    before = set(FILE.read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = [item for item in items if item.nodeid not in before]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passes; a test with one step, or subtest, that does not has not."""
    passed[report.nodeid] = passed.get(report.nodeid, True) and report.passed


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what has passed; processes of pytest-xdist leave that to the one that they report to."""
    if not hasattr(session.config, "workerinput") and not FILE.is_file():
        FILE.write_text("".join(f"{one}\n" for one, is_so in passed.items() if is_so and "\n" not in one))
