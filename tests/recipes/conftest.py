"""The recipes, pipelines and loops of these tests are their own: what the files ask for is allowed."""

from collections.abc import Generator
from pathlib import Path

import pytest

from capbench.permissions import Permissions, permit


@pytest.fixture(autouse=True)
def own_files(session_folder: Path) -> Generator[None]:
    """Allow functions of files, and folders of the tests."""
    with permit(Permissions(folders=(session_folder,), functions=True)):
        yield
