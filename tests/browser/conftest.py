"""A browser for tests: the system's Chromium, without a network; and what looks whether pages are accessible."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium (the environment's CHROMIUM, else from the PATH), or skip where there is none."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
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
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, of the npm registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, which fetches axe-core")
    folder = tmp_path_factory.mktemp("axe")
    try:
        command = [npm, "pack", "axe-core@4", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=120, capture_output=True)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("needs axe-core of the npm registry, which is not reached")
    shutil.unpack_archive(next(folder.glob("*.tgz")), folder, "gztar", filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")
