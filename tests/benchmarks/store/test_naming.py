"""What ``--store`` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from capbench.benchmarks.store.naming import StoreNames, parse_store
from capbench.errors import UsageError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_file_is_the_store_of_this_machine(tmp_path: Path):
    assert parse_store("a.sqlite") == StoreNames(Path("a.sqlite"), None)
    assert parse_store("none/b") == StoreNames(Path("none/b"), None)
    assert parse_store(None) == StoreNames(tmp_path / "cache" / "store.sqlite", None)


def test_url_or_folder_with_a_slash_is_shared_and_the_file_stays_the_users_own(tmp_path: Path):
    own = tmp_path / "cache" / "store.sqlite"
    assert parse_store("s3://bucket/prefix/") == StoreNames(own, "s3://bucket/prefix")
    assert parse_store("S3://Bucket") == StoreNames(own, "s3://Bucket")
    assert parse_store("file:///shared/results") == StoreNames(own, "file:///shared/results")
    # On another machine there is another folder to start from.
    assert parse_store("my results/") == StoreNames(own, f"{tmp_path.as_uri()}/my%20results")
    container = "abfs://container@account.dfs.core.windows.net/prefix"
    assert parse_store(container) == StoreNames(own, container)


def test_folder_without_a_slash_is_refused_with_both_ways_to_say_what_is_meant(tmp_path: Path):
    (tmp_path / "results").mkdir()
    with pytest.raises(UsageError, match="this is a folder") as caught:
        parse_store("results")
    assert "'--store results/'" in caught.value.hint


def test_url_with_credentials_is_refused():
    with pytest.raises(UsageError, match="holds no credentials"):
        parse_store("s3://user:secret@bucket")
