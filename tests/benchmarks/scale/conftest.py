"""A bucket on the loopback."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from s3_server import BUCKET, ENVIRONMENT, S3Server, s3_server

from capbench.benchmarks.scale.folders import Folder


@dataclass(frozen=True)
class Bucket:
    """A prefix of its own in a bucket."""

    server: S3Server
    url: str

    def open(self) -> Folder:
        """Open it, and forget the requests that this took."""
        folder = Folder(self.url)
        self.server.requests.clear()
        return folder


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    import s3fs

    with s3_server() as server:
        s3fs.S3FileSystem(
            key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=server.url,
            skip_instance_cache=True,
        ).mkdir(BUCKET)
        yield server


@pytest.fixture
def bucket(_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty prefix in a bucket, with credentials in the environment."""
    import s3fs

    _s3_server.reset()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": _s3_server.url}.items():
        monkeypatch.setenv(name, value)
    # s3fs keeps its connections, by what it was asked for.
    s3fs.S3FileSystem.clear_instance_cache()
    yield Bucket(_s3_server, f"s3://{BUCKET}/{secrets.token_hex(8)}")
    s3fs.S3FileSystem.clear_instance_cache()
