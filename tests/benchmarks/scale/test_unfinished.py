"""The folder of a run that is broken off: the next one that is the same takes it over, and no other."""

import os
import signal
import time
from pathlib import Path

import forked
import pytest

from capbench.atomic_files import own_name
from capbench.benchmarks.scale.shards import unfinished_folder
from capbench.paths import cache_folder


def left_by_another(run: str) -> Path:
    """Return the folder that a process which is no more has left."""

    def leave() -> None:
        with unfinished_folder(run) as folder:
            (folder / "value").write_text(run)
            os._exit(9)

    assert forked.carried_out(leave) == 9
    (left,) = (cache_folder() / "unfinished").glob(f"{run}~*")
    return left


def values(folder: Path) -> list[str]:
    return [file.read_text() for file in folder.iterdir()]


def test_folder_of_a_run_that_was_broken_off_is_taken_over_by_the_same_run_alone_and_is_young_again():
    left = left_by_another("run")
    with unfinished_folder("run2") as other:
        assert values(other) == []
    os.utime(left, (0, 0))
    with unfinished_folder("run") as folder:
        assert values(folder) == ["run"]
        assert folder.stat().st_mtime > time.time() - 3600
        assert not left.exists()
        with unfinished_folder("run") as second:
            assert values(second) == []
            assert second.stat().st_mode & 0o777 == 0o700
    assert list((cache_folder() / "unfinished").iterdir()) == []


def test_folder_of_a_process_that_lives_is_left_alone():
    def hold() -> None:
        with unfinished_folder("run") as folder:
            (folder / "value").write_text("run")
            signal.pause()

    other = forked.start(hold)
    try:
        # The file is there a moment before its text is.
        while not any(file.read_text() for file in cache_folder().glob("unfinished/run~*/value")):
            time.sleep(0.01)
        with unfinished_folder("run") as folder:
            assert values(folder) == []
            (theirs,) = cache_folder().glob("unfinished/run~*/value")
            assert theirs.read_text() == "run"
    finally:
        os.kill(other, signal.SIGKILL)
        forked.end_of(other)


def test_run_that_failed_is_taken_over_by_the_next_of_the_same_process():
    with pytest.raises(ValueError, match="failed"), unfinished_folder("run") as folder:
        (folder / "value").write_text("run")
        raise ValueError("failed")
    with unfinished_folder("run") as folder:
        assert values(folder) == ["run"]


def test_what_nobody_took_over_for_a_week_is_removed():
    old, new = left_by_another("old"), left_by_another("new")
    week_ago = time.time() - 7 * 24 * 3600
    os.utime(old, (week_ago - 60, week_ago - 60))
    os.utime(new, (week_ago + 3600, week_ago + 3600))
    # Of a process that lives: this one.
    mine = old.with_name(f"mine~{own_name()}")
    mine.mkdir()
    os.utime(mine, (0, 0))
    with unfinished_folder("run"):
        assert not old.exists()
        assert new.exists()
        assert mine.exists()
