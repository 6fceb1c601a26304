"""What is recorded of a process stays what it was when the process began to record."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest

from capbench.benchmarks.records import environment
from capbench.benchmarks.records.environment import git_hash, version


def test_version_is_found_once_and_what_is_missing_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert version("numpy") == numpy.__version__
    assert version("never-heard-of") is None
    for name in ("never-heard-of", "numpy"):
        folder = tmp_path / f"{name.replace('-', '_')}-7.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 7.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version("never-heard-of") == "7.0"
    assert version("numpy") == numpy.__version__


def test_commit_is_that_of_the_checkout_at_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment, "PACKAGE_ROOT", tmp_path)
    git_hash.cache_clear()
    try:
        git = ("git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
        first = git_hash()
        assert first
        (tmp_path / "later").touch()
        subprocess.run([*git, "add", "later"], check=True)
        assert git_hash() == first
        git_hash.cache_clear()
        assert git_hash() == f"{first}-dirty"
        monkeypatch.setattr(environment, "PACKAGE_ROOT", tmp_path / "installed")
        git_hash.cache_clear()
        assert git_hash() is None
    finally:
        git_hash.cache_clear()
