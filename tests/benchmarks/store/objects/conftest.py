"""Stores of shared results in a folder, in memory and in a bucket on the loopback."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
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
def _s3_servers() -> Iterator[Callable[[], S3Server]]:
    for name in ("moto", "flask", "flask_cors", "s3fs"):
        pytest.importorskip(name, reason=f"needs {name}, of the extra dev")
    import s3fs

    with contextlib.ExitStack() as stack:
        running: list[S3Server] = []

        def answering() -> S3Server:
            """Return a server that answers as a bucket does, made anew where the last one does not."""
            said = []
            for _ in range(3):
                if not running:
                    s3fs.S3FileSystem.clear_instance_cache()
                    running.append(stack.enter_context(s3_server()))
                    _make_bucket(running[0])
                running[0].reset()
                fault = _fault(running[0])
                if fault is None:
                    return running[0]
                # What was asked tells whether another server answered.
                said.append(f"{fault}; asked here: {running.pop().requests}")
            pytest.fail("\n".join(["no server of these tests answers as a bucket does", *said]))

        yield answering


def _make_bucket(server: S3Server) -> None:
    import s3fs

    s3fs.S3FileSystem(
        key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        secret=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        endpoint_url=server.url,
        skip_instance_cache=True,
    ).mkdir(BUCKET)


def _fault(server: S3Server) -> StoreError | None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
            patch.setenv(name, value)
        try:
            open_objects(f"s3://{BUCKET}/{secrets.token_hex(8)}", patience=SHORT)
        except StoreError as error:
            return error
        return None


@pytest.fixture
def s3(_s3_servers: Callable[[], S3Server], monkeypatch: pytest.MonkeyPatch) -> S3:
    """An empty prefix in a bucket, with credentials in the environment."""
    server = _s3_servers()
    server.reset()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    return S3(server, f"s3://{BUCKET}/{secrets.token_hex(8)}")


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of store."""
    if request.param == "s3":
        return request.getfixturevalue("s3").url
    return (tmp_path / "shared").as_uri() if request.param == "folder" else f"memory://{secrets.token_hex(8)}"
