"""The recipes, makers and loops of these tests are their own: what the files ask for is allowed."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from capbench.permissions import Permissions, permit


@pytest.fixture(autouse=True)
def own_files(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Allow functions of files, and folders of the tests."""
    with permit(Permissions(folders=(tmp_path_factory.getbasetemp(),), functions=True)):
        yield
