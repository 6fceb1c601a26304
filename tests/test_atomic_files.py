"""What is written is there whole or not at all, and what killed processes leave goes with the next writing."""

import os
import re
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import forked
import pytest

from capbench import atomic_files
from capbench.atomic_files import folder_lock, temporary_folder, write_whole, written_whole


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def kill_on_the_way(place: Callable[[], AbstractContextManager[Path]], name: str = "") -> None:
    """Kill a process that writes to a draft, or a file in it."""

    def write() -> None:
        with place() as draft:
            (draft / name).write_bytes(b"half of the n")
            os.kill(os.getpid(), signal.SIGKILL)

    assert forked.carried_out(write) == -signal.SIGKILL


def kill_while_writing(path: Path) -> Path:
    """Kill a process that writes to a file; return the draft that it left."""
    kill_on_the_way(lambda: written_whole(path))
    (left,) = path.parent.glob(".draft-*")
    return left


def test_kill_leaves_the_file_as_it_was_and_the_next_writing_removes_the_draft(here: Path):
    path = here / "file"
    path.write_text("old")
    left = kill_while_writing(path)
    assert re.fullmatch(r"\.draft-[\w.]+-\d+-[0-9a-f]{8}", left.name)
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert list(here.iterdir()) == [path]
    assert path.read_text() == "new"


@pytest.mark.parametrize("owner", ["living", "another machine", "another container", "nobody", "too large"])
def test_draft_that_may_be_of_a_living_process_stays(here: Path, owner: str):
    path = here / "file"
    left = kill_while_writing(path)
    host, process, number = left.name.removeprefix(".draft-").split("-")
    named = {
        "living": f"{host}-{os.getppid()}-{number}",
        "another machine": f"else{host}-{process}-{number}",
        # Containers of one machine may share its name and a folder, and number their processes alike.
        "another container": f"{host}1-{process}-{number}",
        "nobody": f"{host}-x-{number}",
        "too large": f"{host}-{'9' * 30}-{number}",
    }
    left = left.rename(left.with_name(f".draft-{named[owner]}"))
    write_whole(path, "new")
    assert left.read_bytes() == b"half of the n"


def test_folder_of_a_killed_process_goes_too_and_a_link_so_named_is_not_followed(here: Path):
    (here / "mine").mkdir()
    (here / "mine" / "kept").write_text("")
    write_whole(here / "file", "")
    (here / "other").mkdir()
    dead = kill_while_writing(here / "other" / "file").name
    (here / dead).mkdir()
    (here / dead / "run.json").write_text("{")
    (here / f"{dead}-2").symlink_to(here / "mine")
    write_whole(here / "file", "new")
    assert {path.name for path in here.iterdir()} == {"mine", "file", "other"}
    assert (here / "mine" / "kept").exists()


def test_link_is_followed_and_the_mode_of_a_file_stays(here: Path):
    (here / "elsewhere").mkdir()
    file = here / "elsewhere" / "file"
    file.write_text("old")
    file.chmod(0o640)
    link = here / "link"
    link.symlink_to(file)
    write_whole(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to_as_it_is():
    write_whole(Path(os.devnull), "nothing")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_folder_that_is_not_there_or_in_place_of_the_file_is_an_error(here: Path):
    with pytest.raises(FileNotFoundError):
        write_whole(here / "none" / "file", "")
    with pytest.raises(IsADirectoryError):
        write_whole(here, "")


def test_all_of_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(here: Path, monkeypatch):
    said: list[str] = []
    flush, replace = os.fsync, Path.replace

    def flushed(number: int) -> None:
        said.append(f"flush {Path(f'/proc/self/fd/{number}').readlink().name}")
        flush(number)

    def named(self: Path, target: Path) -> Path:
        said.append("name")
        return replace(self, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not say what a file descriptor is of")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", named)
    draft = atomic_files.draft_beside(here / "run")
    (draft / "pictures").mkdir(parents=True)
    (draft / "pictures" / "one.png").write_bytes(b"1")
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    atomic_files.put_in_place(draft, here / "run")
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    before, after = said[: said.index("name")], said[said.index("name") + 1 :]
    assert sorted(before) == sorted([f"flush {draft.name}", "flush pictures", "flush one.png"])
    assert after == [f"flush {here.name}"]


def test_temporary_folder_is_this_users_alone_and_goes_also_that_of_a_killed_process(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    place = here / "tmp"
    place.mkdir()
    (place / "capbench-notes").write_text("another's")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    kill_on_the_way(temporary_folder, "question.json")
    assert len(list(place.iterdir())) == 2
    with temporary_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {path.name for path in place.iterdir()} == {"capbench-notes", folder.name}
        (folder / "file").write_text("")
    assert [path.name for path in place.iterdir()] == ["capbench-notes"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
def test_lock_of_a_folder_has_one_process_and_goes_with_it(here: Path):
    def hold() -> None:
        with folder_lock(here):
            (here / "held").touch()
            signal.pause()

    def take() -> str:
        with folder_lock(here):
            return "taken"

    other = forked.start(hold)
    while not (here / "held").exists():
        time.sleep(0.01)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(take)
        with pytest.raises(TimeoutError):
            taken.result(timeout=0.1)
        os.kill(other, signal.SIGKILL)
        assert taken.result(timeout=30) == "taken"
    forked.end_of(other)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_process_that_is_forked_under_the_lock_of_a_folder_does_not_keep_it(here: Path):
    with folder_lock(here):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        import fcntl

        number = os.open(here, os.O_RDONLY)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(number)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_file_stays_as_it_was_where_writing_fails(here: Path):
    path = here / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), written_whole(path) as draft:
        draft.write_text("half of the n")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(here.iterdir()) == [path]
