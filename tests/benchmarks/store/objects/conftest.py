"""Stores of shared results in a folder, in memory and in a bucket on the loopback."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from s3_server import BUCKET, ENVIRONMENT, S3Server, s3_server

from capbench.benchmarks.store.objects.opening import open_objects
from capbench.benchmarks.store.objects.patience import Patience
from capbench.errors import StoreError

SHORT = Patience(attempts=4, first_pause=0.01, longest_pause=0.02)
"""Patience that ends in a test."""


@dataclass(frozen=True)
class S3:
    """A prefix of its own in a bucket."""

    server: S3Server
    url: str

    def open(self):
        """Open the store, and forget the requests that this took."""
        objects = open_objects(self.url, patience=SHORT)
        self.server.requests.clear()
        return objects


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    for name in ("moto", "flask", "flask_cors", "s3fs"):
        pytest.importorskip(name, reason=f"needs {name}, of the extra dev")
    import s3fs

    with s3_server() as server:
        s3fs.S3FileSystem(
            key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=server.url,
            skip_instance_cache=True,
        ).mkdir(BUCKET)
        _warm_up(server)
        yield server


def _warm_up(server: S3Server) -> None:
    """Ask moto until it answers as a bucket does: its first answers in a busy process are now and then others."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
            patch.setenv(name, value)
        for _ in range(5):
            with contextlib.suppress(StoreError):
                open_objects(f"s3://{BUCKET}/{secrets.token_hex(8)}", patience=SHORT)
                return


@pytest.fixture
def s3(_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3:
    """An empty prefix in a bucket, with credentials in the environment."""
    _s3_server.reset()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": _s3_server.url}.items():
        monkeypatch.setenv(name, value)
    return S3(_s3_server, f"s3://{BUCKET}/{secrets.token_hex(8)}")


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of store."""
    if request.param == "s3":
        return request.getfixturevalue("s3").url
    return (tmp_path / "shared").as_uri() if request.param == "folder" else f"memory://{secrets.token_hex(8)}"
