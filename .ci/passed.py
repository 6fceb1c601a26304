"""For pytest (``-p passed``): a second run leaves out what has passed in the first, on a machine that has less.

``CAPBENCH_PASSED`` names the file of the tests that passed; the first run writes it. What ``--collect-only``
finds before, on the whole machine, stands beside it: a file of which all has passed need not even be imported again.
"""

import os
from pathlib import Path

import pytest

FILE = Path(os.environ["CAPBENCH_PASSED"])
COLLECTED = FILE.with_suffix(".collected")
passed: dict[str, bool] = {}
DONE: pytest.StashKey[set[Path]] = pytest.StashKey()
"""Files of which all has passed."""


def passed_before() -> set[str]:
    """Return the tests that passed in the first run; none while there was none."""
    return set(FILE.read_text().splitlines()) if FILE.is_file() else set()


def pytest_configure(config: pytest.Config) -> None:
    """Look which files have tests that are still to be run."""
    before = passed_before()
    collected = COLLECTED.read_text().splitlines() if before and COLLECTED.is_file() else []
    left = {name.partition("::")[0] for name in collected if name not in before}
    done = {name.partition("::")[0] for name in collected} - left
    config.stash[DONE] = {config.rootpath / name for name in done}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which all has passed."""
    return True if collection_path in config.stash[DONE] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed."""
    if config.option.collectonly:
        COLLECTED.write_text("".join(f"{item.nodeid}\n" for item in items))
    before = passed_before()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = [item for item in items if item.nodeid not in before]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passes; a test with one step, or subtest, that does not has not."""
    passed[report.nodeid] = passed.get(report.nodeid, True) and report.passed


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what has passed; processes of pytest-xdist leave that to the one that they report to."""
    is_one_of_several = hasattr(session.config, "workerinput")
    if not (is_one_of_several or session.config.option.collectonly or FILE.is_file()):
        FILE.write_text("".join(f"{name}\n" for name, is_so in passed.items() if is_so and "\n" not in name))
