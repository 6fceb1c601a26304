"""Runs to look at, made once for all tests, and a browser that has opened the printed address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from viewed_runs import Viewed, viewed_once

starlette = pytest.importorskip("starlette", reason="needs the extra view")

TOKEN = "0123456789abcdef"
COOKIE = "capbench-view-test"


@pytest.fixture(scope="session")
def viewed(tmp_path_factory: pytest.TempPathFactory, _meteor_tables: Path) -> Viewed:
    """Runs over the rows of ``viewed_runs``."""
    return viewed_once(tmp_path_factory.getbasetemp() / "viewed", _meteor_tables)


@pytest.fixture
def outside(viewed: Viewed) -> Iterator[starlette.testclient.TestClient]:
    """A client that knows no token."""
    from starlette.testclient import TestClient

    from capbench.benchmarks.tables.pages.serving import Guard
    from capbench.benchmarks.view.app import application

    with TestClient(
        Guard(application(viewed.site()), TOKEN, COOKIE, "bench view"),
        base_url="http://127.0.0.1:8000",
        follow_redirects=False,
    ) as client:
        yield client


@pytest.fixture
def client(outside: starlette.testclient.TestClient) -> starlette.testclient.TestClient:
    """A client that has opened the address with the token."""
    assert outside.get("/", params={"token": TOKEN}).status_code == 200
    return outside
