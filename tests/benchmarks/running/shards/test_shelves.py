"""Shelves: one value a key for ever, there whole or not at all, shared or taken over by who does the same work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from capbench.benchmarks.running.shards.codec import Originals
from capbench.benchmarks.running.shards.folder_shelf import FolderShelf, ObjectShelf, unfinished_folder
from capbench.benchmarks.running.shards.opening import Place
from capbench.benchmarks.running.shards.shelf import MemoryShelf, Shelf, derived
from capbench.drafts import own_name
from capbench.errors import StoreError
from capbench.paths import cache_folder

KEY, OTHER = derived("one"), derived("two")
FIRST, SECOND = {"a": np.arange(3)}, {"a": np.arange(4)}


def in_folder(folder: Path) -> Shelf:
    folder.mkdir(exist_ok=True)
    return Place(str(folder), "store").shelf(Originals())


def among_objects(folder: Path) -> Shelf:
    here = folder / "here"
    here.mkdir(exist_ok=True, parents=True)
    return Place(str(here), "store", (folder / "objects").as_uri()).shelf(Originals())


def in_memory(folder: Path) -> Shelf:
    return MemoryShelf()


EACH = pytest.mark.parametrize("open_shelf", [in_memory, in_folder, among_objects])


@EACH
def test_first_value_of_a_key_stands_until_it_is_dropped(tmp_path: Path, open_shelf: Callable[[Path], Shelf]):
    shelf = open_shelf(tmp_path / "shelf")
    assert not shelf.has(KEY)
    shelf.put(KEY, FIRST)
    shelf.put(KEY, SECOND)
    assert shelf.has(KEY)
    assert len(shelf.arrays(KEY)["a"]) == 3
    shelf.drop(KEY)
    shelf.drop(OTHER)
    assert not shelf.has(KEY)
    shelf.put(KEY, SECOND)
    assert len(shelf.arrays(KEY)["a"]) == 4


@EACH
def test_what_is_added_is_found_under_its_key(tmp_path: Path, open_shelf: Callable[[Path], Shelf]):
    shelf = open_shelf(tmp_path / "shelf")
    keys = [shelf.add(FIRST), shelf.add_own(SECOND)]
    assert [len(shelf.arrays(key)["a"]) for key in keys] == [3, 4]


@pytest.mark.parametrize("open_shelf", [in_folder, among_objects])
def test_equal_values_have_one_key_and_lie_there_once(tmp_path: Path, open_shelf: Callable[[Path], Shelf]):
    key = open_shelf(tmp_path / "shelf").add(FIRST)
    files = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()}
    assert open_shelf(tmp_path / "shelf").add(FIRST) == key
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*") if file.is_file()} == files


@EACH
def test_value_that_is_not_there_is_an_error(tmp_path: Path, open_shelf: Callable[[Path], Shelf]):
    with pytest.raises(StoreError, match="Run again"):
        open_shelf(tmp_path / "shelf").get(KEY)


def test_what_nobody_else_needs_stays_on_this_machine(tmp_path: Path):
    shelf = among_objects(tmp_path)
    own, shared = shelf.add_own(FIRST), shelf.add(SECOND)
    assert [file.name for file in (tmp_path / "here").iterdir()] == [own]
    assert [file.name for file in (tmp_path / "objects").glob("??/*")] == [shared]


@EACH
def test_parts_are_kept_together_and_read_one_by_one(tmp_path: Path, open_shelf: Callable[[Path], Shelf]):
    shelf = open_shelf(tmp_path / "shelf")
    assert not shelf.has_parts(KEY, 3)
    shelf.put_parts(KEY, [FIRST, {}, SECOND])
    shelf.put_parts(KEY, [SECOND, SECOND, SECOND])
    assert shelf.has_parts(KEY, 3)
    assert [[len(one) for one in shelf.part(KEY, number).values()] for number in range(3)] == [[3], [], [4]]
    for missing in (3, -1):
        with pytest.raises(StoreError, match="Run again"):
            shelf.part(KEY, missing)
    with pytest.raises(StoreError, match="Run again"):
        shelf.part(OTHER, 0)


def test_parts_of_a_folder_are_one_file_of_which_no_part_is_in_memory_with_another(tmp_path: Path):
    shelf = in_folder(tmp_path / "shelf")
    alive: list[weakref.ref[np.ndarray]] = []

    def parts() -> Iterator[dict[str, np.ndarray]]:
        for number in range(20):
            assert not any(one() is not None for one in alive[:-1])
            made = np.arange(number)
            alive.append(weakref.ref(made))
            yield {"a": made}

    shelf.put_parts(KEY, parts())
    assert [file.name for file in (tmp_path / "shelf").iterdir()] == [KEY]
    assert shelf.part(KEY, 19)["a"].tolist() == list(range(19))


@pytest.mark.parametrize("left", [0, 7, 8, 15, 40, 100, -1, -8, -9])
def test_damaged_file_of_parts_is_told(tmp_path: Path, left: int):
    shelf = in_folder(tmp_path / "shelf")
    shelf.put_parts(KEY, [FIRST, SECOND])
    file = tmp_path / "shelf" / KEY
    file.write_bytes(file.read_bytes()[:left])
    for number in (0, 1):
        with pytest.raises(StoreError, match=r"(?s)cannot be read.*Run again"):
            shelf.part(KEY, number)


def test_damaged_object_is_computed_again(tmp_path: Path):
    shelf = among_objects(tmp_path)
    shelf.put(KEY, FIRST)
    (file,) = (tmp_path / "objects").glob(f"??/{KEY}")
    content = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(content[:-3])
    assert not shelf.has(KEY)
    shelf.put(KEY, FIRST)
    assert shelf.has(KEY)
    assert file.read_bytes()[72:] == content[72:]


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path):
    shelf = FolderShelf(tmp_path / "nowhere", Originals())
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        shelf.put(KEY, FIRST)


WRITER = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from capbench.benchmarks.running.shards.codec import Originals
from capbench.benchmarks.running.shards.folder_shelf import FolderShelf
shelf = FolderShelf(Path(sys.argv[1]), Originals())
shelf.put("small", {"a": np.arange(3)})
if sys.argv[2] == "kill":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
shelf.put("large", {"a": np.arange(10_000)})
"""


@pytest.mark.parametrize("how", ["kill", "full"])
def test_value_that_is_half_written_is_not_there(tmp_path: Path, how: str):
    folder = tmp_path / "shelf"
    folder.mkdir()
    done = subprocess.run([sys.executable, "-c", WRITER, str(folder), how], capture_output=True, text=True)
    shelf = FolderShelf(folder, Originals())
    assert (shelf.has("small"), shelf.has("large")) == (True, False)
    if how == "kill":
        assert done.returncode == -signal.SIGXFSZ
        # What was begun is there, under no key.
        assert len(list(folder.iterdir())) == 2
    else:
        assert "cannot be written: File too large" in done.stderr
        assert [file.name for file in folder.iterdir()] == ["small"]
    shelf.put("large", SECOND)
    assert len(shelf.arrays("large")["a"]) == 4


LEAVER = """
import os, sys
from capbench.benchmarks.running.shards.folder_shelf import unfinished_folder
with unfinished_folder(sys.argv[1]) as folder:
    (folder / "value").write_text(sys.argv[1])
    print(folder, flush=True)
    if len(sys.argv) > 2:
        sys.stdin.read()
    os._exit(9)
"""


def left_by_another(run: str) -> Path:
    """Return the folder that a process which is no more has left."""
    done = subprocess.run([sys.executable, "-c", LEAVER, run], capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    return Path(done.stdout.strip())


def values(folder: Path) -> list[str]:
    return [file.read_text() for file in folder.iterdir()]


def test_run_that_ends_leaves_nothing():
    with unfinished_folder("run") as folder:
        assert values(folder) == []
        (folder / "value").write_text("run")
    assert list((cache_folder() / "unfinished").iterdir()) == []


def test_folder_of_a_run_that_was_broken_off_is_taken_over_by_the_same_run_alone():
    left = left_by_another("run")
    with unfinished_folder("run2") as other:
        assert values(other) == []
    with unfinished_folder("run") as folder:
        assert values(folder) == ["run"]
        assert not left.exists()
        with unfinished_folder("run") as second:
            assert values(second) == []
    assert list((cache_folder() / "unfinished").iterdir()) == []


def test_folder_of_a_process_that_lives_is_left_alone():
    with subprocess.Popen(
        [sys.executable, "-c", LEAVER, "run", "wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        with unfinished_folder("run") as folder:
            assert values(folder) == []
            assert values(theirs) == ["run"]
        other.communicate()


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


def test_folder_that_is_taken_over_is_young_again():
    left = left_by_another("run")
    os.utime(left, (0, 0))
    with unfinished_folder("run") as folder:
        assert values(folder) == ["run"]
        assert folder.stat().st_mtime > time.time() - 3600


def test_objects_are_shared_by_shelves_of_two_machines(tmp_path: Path):
    one = among_objects(tmp_path)
    (tmp_path / "there").mkdir()
    other = Place(str(tmp_path / "there"), "store", str(tmp_path / "objects")).shelf(Originals())
    assert isinstance(other, ObjectShelf)
    one.put(KEY, FIRST)
    other.put(KEY, SECOND)
    assert len(other.arrays(KEY)["a"]) == 3
