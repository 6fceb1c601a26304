"""The recipes, pipelines and loops of these tests are their own: what the files ask for is allowed."""

import sys
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from capbench.permissions import Permissions, permit


@pytest.fixture(autouse=True)
def own_files(session_folder: Path) -> Generator[None]:
    """Allow functions of files, and folders of the tests."""
    with permit(Permissions(folders=(session_folder,), functions=True)):
        yield


@pytest.fixture(autouse=True)
def _memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let accelerate not look for garbage after each training, in all that tests have imported: a second each time."""
    if memory := sys.modules.get("accelerate.utils.memory"):
        monkeypatch.setattr(memory, "gc", SimpleNamespace(collect=int))
