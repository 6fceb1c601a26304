"""A bucket: what may pass is asked for again, what will not is said at once, and the first object stands."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Iterator

import pytest
from two_processes import put_at_the_same_time

from capbench.benchmarks.store.objects import bucket
from capbench.benchmarks.store.objects.answers import Meaning, meaning_of, words_of
from capbench.benchmarks.store.objects.opening import MARK, open_objects
from capbench.benchmarks.store.objects.seal import SEAL_BYTES
from capbench.errors import StoreError

KEY = hashlib.sha256(b"key").hexdigest()


def methods(s3) -> list[str]:
    return [method for method, _ in s3.server.requests]


def test_of_two_processes_one_is_first_and_its_content_stands(s3):
    put_at_the_same_time(s3.url, rounds=15)


def test_bucket_that_is_busy_for_a_while_is_asked_again(s3):
    objects = s3.open()
    s3.server.answers = {"PUT": [503, 409, 503], "GET": [503, 503]}
    assert objects.put(KEY, b"content")
    assert objects.get(KEY) == b"content"
    assert methods(s3) == ["PUT"] * 4 + ["GET"] * 3


def test_bucket_that_is_busy_for_ever_ends_in_an_error_that_says_what_was_tried(s3):
    objects = s3.open()
    assert objects.put(KEY, b"content")
    s3.server.requests.clear()
    s3.server.always = 503
    with pytest.raises(StoreError) as caught:
        objects.get(KEY)
    assert caught.value.message.startswith(f"{s3.url} did not answer as it should: 4 attempts in ")
    assert caught.value.message.endswith(" s; the last: As told. (503)")
    assert "What was committed stays" in caught.value.hint
    assert methods(s3) == ["GET"] * 4
    s3.server.always = 0
    assert objects.get(KEY) == b"content"


@pytest.fixture
def _new_connections(s3) -> Iterator[None]:
    """Let the environment be read anew: s3fs keeps its connections, by what it was asked for."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


@pytest.mark.usefixtures("_new_connections")
def test_server_that_does_not_listen_ends_in_an_error(s3, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"4 attempts .*Could not connect"):
        s3.open()


def test_put_that_loses_says_so_and_the_others_object_stands(s3):
    ours, others = s3.open(), s3.open()
    assert others.put(KEY, b"theirs")
    s3.server.requests.clear()
    assert not ours.put(KEY, b"ours")
    assert methods(s3) == ["PUT", "GET"]
    assert ours.get(KEY) == b"theirs"


def test_put_whose_answer_is_lost_is_still_the_first(s3):
    objects = s3.open()
    # The bucket writes, its answer does not come, and the next request finds the object there.
    s3.server.answers_after = {"PUT": [503]}
    assert objects.put(KEY, b"content")
    assert methods(s3) == ["PUT", "PUT", "GET"]
    assert not objects.put(KEY, b"content")


def test_bucket_that_does_not_know_conditional_writes_is_refused_and_only_read(s3):
    s3.open().put(KEY, b"content")
    s3.server.deaf_to = "HTTP_IF_NONE_MATCH"
    with pytest.raises(StoreError, match="cannot tell who was first") as caught:
        s3.open()
    assert "conditional writes" in caught.value.hint
    assert open_objects(s3.url, writable=False).get(KEY) == b"content"
    s3.server.deaf_to = ""
    assert s3.open().get(KEY) == b"content"


def test_object_above_the_limit_of_a_request_comes_in_parts_and_the_first_stands(
    s3, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bucket, "_LIMIT_OF_A_REQUEST", 12 * 2**20)
    objects = s3.open()
    ours, others = bytes(12 * 2**20 - SEAL_BYTES - 1), bytes(12 * 2**20 - SEAL_BYTES)
    assert objects.put(KEY, ours)
    assert methods(s3) == ["PUT"]
    # Begun, two parts, made one, which is refused: then given up.
    assert not objects.put(KEY, others)
    assert methods(s3) == ["PUT", "POST", "PUT", "PUT", "POST", "DELETE", "GET"]
    assert objects.get(KEY) == ours
    objects.delete(KEY)
    assert objects.put(KEY, others)
    assert objects.get(KEY) == others


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (403, "access was denied", "AWS_PROFILE"),
        (404, "there is no such bucket", "region and endpoint"),
    ],
)
def test_what_will_not_pass_is_said_at_once_with_place_and_remedy(s3, status: int, message: str, hint: str):
    objects = s3.open()
    s3.server.always = status
    for use in (
        lambda: objects.put(KEY, b""), lambda: objects.get(KEY), lambda: objects.delete(KEY),
        lambda: objects.known([KEY]), lambda: list(objects.keys()),
    ):  # fmt: skip
        s3.server.requests.clear()
        with pytest.raises(StoreError, match=f"{s3.url}: {message}") as caught:
            use()
        assert hint in caught.value.hint
        assert len(s3.server.requests) == 1


def test_no_secret_is_in_a_message_or_a_log(s3, caplog: pytest.LogCaptureFixture):
    objects = s3.open()
    said = []
    with caplog.at_level(logging.INFO):
        for status in (403, 404, 503):
            s3.server.always = status
            with pytest.raises(StoreError) as caught:
                objects.get(KEY)
            said.append(str(caught.value))
    everything = "\n".join([*said, *caplog.messages, repr(vars(objects)), objects.place.label])
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in everything
    assert os.environ["AWS_ACCESS_KEY_ID"] not in everything


@pytest.mark.usefixtures("_new_connections")
def test_credentials_that_cannot_be_found_are_said_to_be_missing(s3, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(StoreError, match=r"access was denied: Unable to locate credentials") as caught:
        s3.open()
    assert "AWS_PROFILE" in caught.value.hint


def test_name_that_no_bucket_has_is_refused_without_asking_again(s3):
    with pytest.raises(StoreError, match=r's3://a b: .*Invalid bucket name "a b"'):
        open_objects("s3://a b")
    assert s3.server.requests == []


@pytest.mark.parametrize(
    ("url", "library", "remedy"),
    [
        ("s3://results", "s3fs", "'capbench[s3]'"),
        ("gs://results", "gcsfs", "gcsfs"),
        ("az://results", "adlfs", "adlfs"),
    ],
)
def test_back_end_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, library: str, remedy: str
):
    import fsspec  # noqa: F401 - it keeps what it has imported

    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
    with pytest.raises(StoreError, match=library) as caught:
        open_objects(url)
    assert caught.value.hint == f"Install it: pip install {remedy}."


class AnswerError(Exception):
    """An error as libraries of other back ends raise it."""

    def __init__(self, said: str = "said", **about: object) -> None:
        super().__init__(said)
        vars(self).update(about)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        *((AnswerError(code=status), Meaning.PASSING) for status in (408, 425, 429, 500, 502, 503, 504)),
        (AnswerError(code=412), Meaning.THERE),
        (AnswerError(status_code=409), Meaning.PASSING),
        (AnswerError(status=404), Meaning.MISSING),
        (AnswerError(status_code=401), Meaning.DENIED),
        (AnswerError(code=400), Meaning.LASTING),
        # Not every 'code' is a status.
        (AnswerError(code="BlobNotFound", status_code=404), Meaning.MISSING),
        (type("ServiceRequestError", (Exception,), {})(), Meaning.PASSING),
        (type("DefaultCredentialsError", (Exception,), {})(), Meaning.DENIED),
        (ConnectionResetError(), Meaning.PASSING),
        (TimeoutError(), Meaning.PASSING),
        (FileExistsError(), Meaning.THERE),
        (FileNotFoundError(), Meaning.MISSING),
        (PermissionError(), Meaning.DENIED),
        # fsspec's, in a process that was forked.
        (RuntimeError("This class is not fork-safe"), Meaning.LASTING),
        (ValueError(), Meaning.LASTING),
    ],
)
def test_errors_of_other_back_ends_are_understood(error: Exception, meaning: Meaning):
    assert meaning_of(error) is meaning


def test_signed_address_in_an_error_is_not_shown():
    said = words_of(
        AnswerError(
            "PUT https://a.blob.core.windows.net/c/k?sv=2024&sig=SECRET failed\nas it was", status=500
        )
    )
    assert said == "PUT https://a.blob.core.windows.net/c/k?... failed as it was (500)"


def test_mark_of_a_bucket_is_asked_for_once_and_its_condition_tried_once(s3):
    s3.open()
    open_objects(s3.url)
    assert [(method, path.rpartition("/")[2]) for method, path in s3.server.requests] == [
        ("GET", MARK),
        ("PUT", MARK),
    ]
