"""Which store is opened: what is not reachable, or another one than the run began with, is refused before work."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from capbench.benchmarks.store.objects.opening import (
    MARK,
    NoObjectStoreError,
    open_objects,
    require_reachable,
)
from capbench.errors import StoreError, UsageError

KEY = hashlib.sha256(b"key").hexdigest()


def test_probe_leaves_nothing_and_gives_the_identity_that_every_opener_finds(url: str):
    identity = require_reachable(url)
    assert require_reachable(url, identity) == identity
    objects = open_objects(url, identity)
    assert objects.identity == identity
    assert [one.name for one in objects.place.entries("")] == [MARK]
    assert objects.place.folders() == []


def test_paths_and_urls_name_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a #folder"
    identity = require_reachable(folder)
    for name in (str(folder), folder.as_uri(), f"{folder.as_uri()}/", "a #folder"):
        assert open_objects(name, identity).place.label == str(folder)


def test_folder_that_is_not_mounted_here_is_refused_and_not_made(tmp_path: Path):
    identity = require_reachable(tmp_path / "shared")
    elsewhere = tmp_path / "mount" / "shared"
    with pytest.raises(NoObjectStoreError, match="no store of results is found there") as caught:
        require_reachable(elsewhere, identity)
    assert "mounted at the same path" in caught.value.hint
    assert not elsewhere.parent.exists()


def test_folder_of_this_machine_alone_with_the_same_path_is_refused(tmp_path: Path):
    identity = require_reachable(tmp_path)
    shutil.rmtree(tmp_path)
    require_reachable(tmp_path)
    with pytest.raises(NoObjectStoreError, match="another store of results is found there"):
        open_objects(tmp_path, identity)


def test_reading_makes_no_store(url: str, tmp_path: Path):
    with pytest.raises(NoObjectStoreError, match="there is no store of results at"):
        open_objects(url, writable=False)
    assert not (tmp_path / "shared").exists()


def test_mark_that_says_nothing_is_an_error_and_made_anew_once_it_is_deleted(url: str):
    objects = open_objects(url)
    objects.put(KEY, b"content")
    objects.place.replace(MARK, b"")
    with pytest.raises(StoreError, match=f"'{MARK}' there does not hold what it should"):
        open_objects(url)
    objects.place.remove(MARK)
    assert open_objects(url).get(KEY) == b"content"


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="POSIX only")
def test_folder_that_may_not_be_written_is_refused_before_any_work():
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        open_objects(folder).put(KEY, b"content")
        folder.chmod(0o555)
        was_root = os.geteuid() == 0
        if was_root:
            os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match="Permission denied"):
                require_reachable(folder)
            assert open_objects(folder, writable=False).get(KEY) == b"content"
        finally:
            if was_root:
                os.seteuid(0)
            folder.chmod(0o755)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hidden@bucket/prefix", "s3://hidden@bucket", "s3://bucket/prefix?key=hidden", "gs://bucket#hidden",
        "abfs://user:hidden@account.dfs.core.windows.net/prefix", "https://hidden@server/prefix",
    ],
)  # fmt: skip
def test_url_with_credentials_is_refused_and_they_are_not_shown(url: str):
    with pytest.raises(UsageError, match="holds no credentials") as caught:
        open_objects(url)
    assert "hidden" not in str(caught.value)
    assert "Credentials come from the environment" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gss://bucket", "Did you mean 'gs'"),
        ("https://server/prefix", "no store of results can be at 'https://'"),
        # fsspec would look for an object first, and write then.
        ("sftp://server/prefix", "no store of results can be at 'sftp://'"),
        ("s3:///prefix", "this names no bucket"),
        ("file://", "this names no folder"),
        ("file://server/folder", "this names no folder"),
    ],
)
def test_url_that_can_be_no_store_is_refused(url: str, said: str):
    with pytest.raises(UsageError, match=said):
        open_objects(url)
