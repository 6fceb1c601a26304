"""A browser for tests: the system's Chromium, without a network; and what looks whether pages are accessible."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from viewed_runs import Viewed, viewed_once

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# Of a module: playwright keeps an event loop running in this thread until it is stopped, beside which no server of
# another test can run. (A folder that is no package has no scope of its own.)
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium (the environment's CHROMIUM, else from the PATH), or skip where there is none.

    Without its window, as ``chromium-headless-shell``, it takes half the time.
    """
    path = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        reason = "needs Chromium: install it, or let CHROMIUM name its program"
        if os.environ.get("CAPBENCH_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium has no sandbox of its own inside most containers; the pages are made by the tests.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def viewed(tmp_path_factory: pytest.TempPathFactory, _meteor_tables: Path) -> Viewed:
    """Runs over the rows of ``viewed_runs``."""
    return viewed_once(tmp_path_factory.getbasetemp() / "viewed", _meteor_tables)


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which the package of its Python binding holds."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
