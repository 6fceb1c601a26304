"""Disks that are really full: what was there stays, what does not fit leaves nothing behind."""

import os
import subprocess
from pathlib import Path

import pytest
from finished_runs import make_record, write_record

from capbench.benchmarks.leaderboard.build import build
from capbench.benchmarks.records.files import write_run
from capbench.benchmarks.records.record import Record
from capbench.errors import DataError, UsageError

KIB = 1024


def leave(disk: Path, free: int) -> None:
    """Fill a disk up to so many bytes."""
    (disk / "filler").unlink(missing_ok=True)
    (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize - free))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "filler"
    }


def test_run_is_written_whole_or_not_at_all_whatever_room_there_is(disk: Path):
    record, content = (Record(make_record()), {"samples.parquet": os.urandom(100 * KIB), "pictures/1": b"1" * 9000})
    whole = 0
    for free in range(0, 160 * KIB, 4 * KIB):
        leave(disk, free)
        try:
            folder = write_run(disk / "runs", record, content)
        except DataError as error:
            assert "No space left on device" in error.message
            assert "--output_path" in error.hint
            assert files(disk) == {}
        else:
            assert files(folder).keys() == {"run.json", "samples.parquet", "pictures/1"}
            whole += 1
            subprocess.run(["rm", "-r", str(disk / "runs")], check=True)
        assert not list(disk.rglob(".draft-*"))
    assert 0 < whole < 40


def test_leaderboard_that_does_not_fit_leaves_the_earlier_one(disk: Path, tmp_path: Path):
    write_record(tmp_path / "runs", "one", make_record())
    build(tmp_path / "runs", disk / "board")
    earlier = files(disk)
    write_record(tmp_path / "runs", "two", make_record("other"))
    for free in range(0, 96 * KIB, 16 * KIB):
        leave(disk, free)
        with pytest.raises(UsageError, match="No space left on device"):
            build(tmp_path / "runs", disk / "board")
        assert files(disk) == earlier
    assert not list(disk.rglob(".draft-*"))
