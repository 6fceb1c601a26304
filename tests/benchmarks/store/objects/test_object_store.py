"""Objects by key: the first one stands, what is damaged counts as unknown, whatever the place."""

from __future__ import annotations

import hashlib

import pytest

from capbench.benchmarks.store.objects.object_store import in_threads
from capbench.benchmarks.store.objects.opening import open_objects
from capbench.benchmarks.store.objects.seal import SEAL_BYTES
from capbench.errors import StoreError


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


KEY, OTHER = key_of(1), key_of(2)


def test_the_first_content_of_a_key_stands(url: str):
    objects = open_objects(url)
    assert objects.get(KEY) is None
    assert not objects.has(KEY)
    assert objects.put(KEY, b"first")
    assert not objects.put(KEY, b"second")
    assert objects.get(KEY) == b"first"
    assert objects.has(KEY)


def test_content_of_any_bytes_comes_back_to_whoever_opens_the_place(url: str):
    objects, others = open_objects(url), open_objects(url)
    for number, content in enumerate((b"", b"\x00", bytes(range(256)) * 1000)):
        objects.put(key_of(number), content)
        assert others.get(key_of(number)) == content


def test_keys_are_listed_and_what_others_lay_there_is_not(url: str):
    objects = open_objects(url)
    keys = {key_of(number) for number in range(12)}
    assert list(objects.keys()) == []
    for key in keys:
        objects.put(key, b"")
    # Not a key, a key in another's folder, a folder that is not ours, and a file at the top.
    for name in (f"{KEY[:2]}/notes.txt", f"{KEY[:2]}/{OTHER}", f"images/{OTHER}", "README", "abc/x"):
        objects.place.create(name, b"of others")
    assert list(objects.keys()) == sorted(keys)


def test_known_keys_are_told_from_others_by_listing(url: str):
    objects = open_objects(url)
    there = {key_of(number) for number in range(0, 16, 2)}
    for key in there:
        objects.put(key, b"")
    assert objects.known(key_of(number) for number in range(16)) == there
    assert objects.known([]) == set()


def test_thousands_of_keys_cost_a_request_a_folder_at_most(s3):
    objects = s3.open()
    for number in range(20):
        objects.put(key_of(number), b"")
    s3.server.requests.clear()
    assert len(objects.known(key_of(number) for number in range(5000))) == 20
    assert {method for method, _ in s3.server.requests} == {"GET"}
    assert len(s3.server.requests) <= 21


def test_deleted_object_can_be_put_again(url: str):
    objects = open_objects(url)
    objects.put(KEY, b"first")
    objects.delete(KEY)
    objects.delete(OTHER)
    assert objects.get(KEY) is None
    assert objects.put(KEY, b"second")
    assert objects.get(KEY) == b"second"


def flipped(whole: bytes, place: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


DAMAGES = {
    "it is cut off": lambda whole: b"",
    "it has 6 bytes of 7": lambda whole: whole[:-1],
    "it has 8 bytes of 7": lambda whole: whole + b"\x00",
    "its checksum is another": lambda whole: flipped(whole, SEAL_BYTES),
    "it does not begin as an object does": lambda whole: flipped(whole, 0),
}


def test_damaged_object_is_reported_counts_as_unknown_and_is_replaced(
    url: str, caplog: pytest.LogCaptureFixture
):
    objects = open_objects(url)
    name = f"{KEY[:2]}/{KEY}"
    for said, damage in DAMAGES.items():
        objects.put(KEY, b"content")
        caplog.clear()
        objects.place.replace(name, damage(objects.place.read(name)))
        assert objects.get(KEY) is None
        (told,) = caplog.messages
        assert told.startswith(f"{objects.place.label}: object {KEY} is damaged ({said}).")
        assert objects.put(KEY, b"again")
        assert objects.get(KEY) == b"again"
        assert not objects.put(KEY, b"more")
        objects.delete(KEY)


def test_object_under_the_key_of_another_is_damaged(url: str):
    objects = open_objects(url)
    objects.put(KEY, b"content")
    objects.place.create(f"{OTHER[:2]}/{OTHER}", objects.place.read(f"{KEY[:2]}/{KEY}") or b"")
    assert objects.get(OTHER) is None


def test_store_that_is_opened_for_reading_is_not_written(url: str):
    open_objects(url).put(KEY, b"content")
    objects = open_objects(url, writable=False)
    assert objects.get(KEY) == b"content"
    for change in (lambda: objects.put(OTHER, b""), lambda: objects.delete(KEY)):
        with pytest.raises(StoreError, match="opened for reading"):
            change()
    assert list(objects.keys()) == [KEY]


@pytest.mark.parametrize("key", ["", "abc", KEY.upper(), KEY + "0", "../" + KEY[3:], KEY + "\n"])
def test_what_is_no_hash_is_no_key(tmp_path, key: str):
    objects = open_objects(tmp_path)
    for use in (objects.get, objects.has, objects.delete, lambda key: objects.put(key, b"")):
        with pytest.raises(ValueError, match="is no key"):
            use(key)
    with pytest.raises(ValueError, match="is no key"):
        objects.known([key])


def test_threads_take_what_they_are_given_as_they_can():
    given = iter(range(1000))
    made = in_threads(lambda number: -number, given)
    assert next(made) == 0
    # The rest waits to be asked for: what is made of it need not be held in memory.
    assert next(given) < 100
    assert sum(made) < 0
