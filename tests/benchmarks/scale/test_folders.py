"""The folder of a run: of many writers the first one's file stands, whole, in a folder and in a bucket."""

import os
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest

import capbench
from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale import folders
from capbench.benchmarks.scale.folders import Folder
from capbench.errors import StoreError, UsageError


@pytest.fixture(params=["path", "file", "memory", "bucket"])
def folder(request: pytest.FixtureRequest, tmp_path) -> Folder:
    """Each kind of folder."""
    if request.param == "bucket":
        return request.getfixturevalue("bucket").open()
    urls = {"path": tmp_path / "run", "file": (tmp_path / "run").as_uri(), "memory": f"memory://{secrets.token_hex(8)}"}
    return Folder(urls[request.param])


def names(folder: Folder) -> list[str]:
    files, root = fsspec.url_to_fs(folder.label, use_listings_cache=False)
    return files.find(root)


def test_first_file_of_a_name_stands(folder: Folder):
    assert not folder.exists("scores/a")
    assert folder.put("scores/a", b"first")
    assert not folder.put("scores/a", b"second")
    assert folder.read("scores/a") == b"first"
    assert folder.exists("scores/a")
    with pytest.raises(FileNotFoundError):
        folder.read("scores/b")


def test_probe_of_a_folder_leaves_nothing(folder: Folder):
    folder.require_usable()
    assert names(folder) == []


@pytest.mark.parametrize("folder", ["path", "bucket"], indirect=True)
def test_of_eight_writers_at_once_one_is_first_and_its_file_stands(folder: Folder):
    together = threading.Barrier(8)

    def write(writer: int) -> list[int]:
        own, content = Folder(folder.label), bytes([writer]) * 5000
        together.wait()
        return [number for number in range(10) if own.put(f"scores/{number}", content)]

    with ThreadPoolExecutor(8) as writers:
        owner = {number: writer for writer, own in enumerate(writers.map(write, range(8))) for number in own}
    assert sorted(owner) == list(range(10))
    for number, writer in owner.items():
        assert folder.read(f"scores/{number}") == bytes([writer]) * 5000
    assert len(names(folder)) == 10


def test_bucket_that_does_not_know_conditional_writes_is_refused(bucket):
    bucket.server.deaf_to = "HTTP_IF_NONE_MATCH"
    with pytest.raises(StoreError, match=r"does not support conditional writes.*\n.*conditional writes"):
        bucket.open().require_usable()
    with pytest.raises(StoreError, match="does not support conditional writes"):
        capbench.score([{"candidate": "a dog"}], "length", engine=Execution(folder=bucket.url))


def test_file_is_one_request_up_to_the_limit_of_a_bucket(bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folders, "_REQUEST_BYTES", 100)
    folder = bucket.open()
    assert folder.put("a", b"x" * 99)
    assert folder.read("a") == b"x" * 99
    assert [method for method, _ in bucket.server.requests] == ["PUT", "GET"]


def test_refusal_of_a_bucket_names_the_place_and_no_secret(bucket):
    folder = bucket.open()
    bucket.server.always = 403
    with pytest.raises(StoreError) as caught:
        folder.put("a", b"content")
    assert caught.value.message.startswith(f"{bucket.url}: ")
    assert "AWS_PROFILE" in caught.value.hint
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        Folder(tmp_path / "file").put("a", b"")
    assert len(folders._words_of(ValueError("x" * 400))) == 300


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://key:secret@bucket/run", "^s3://bucket/run: .* must not hold credentials"),
        ("s3://bucket/run?key=secret", "^s3://bucket/run: .* must not hold credentials"),
        ("http://host/run", "scheme 'http://' is not supported for results"),
        ("s33://bucket/run", "Did you mean 's3'"),
        ("s3:///run", "the address has no folder or bucket"),
        ("file:///", "the address has no folder or bucket"),
    ],
)
def test_address_that_is_none_is_refused(address: str, message: str):
    with pytest.raises(UsageError, match=message) as caught:
        Folder(address)
    assert "secret" not in str(caught.value)
