"""A fixture under which a registry has entries of a file of tests."""

from collections.abc import Iterator
from typing import Any

import pytest


def own_entries(registry: Any, *, autouse: bool = True, **entries: type) -> Any:
    """Return a fixture that registers classes by their names for as long as a test runs."""

    @pytest.fixture(autouse=autouse)
    def registered() -> Iterator[None]:
        for name, entry in entries.items():
            registry.add(name, entry)
        yield
        for name in entries:
            del registry._entries[name]

    return registered
