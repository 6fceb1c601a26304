"""A shared folder: kills leave an object whole or not there, one of two processes is first, and faults are named."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from two_processes import put_at_the_same_time

from capbench.benchmarks.store.objects.opening import MARK, open_objects
from capbench.errors import StoreError

KEY = hashlib.sha256(b"key").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()

_KILLED_AT_EVERY_LINE = """
import os, signal, sys
import capbench
from capbench.benchmarks.store.objects.opening import open_objects

root, key = sys.argv[1:]

def killer(left):
    def trace(frame, event, argument):
        nonlocal left
        if not frame.f_code.co_filename.startswith(os.path.dirname(capbench.__file__)):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    return trace

number = 0
while True:
    child = os.fork()
    if child == 0:
        objects = open_objects(f"{root}/{number}")
        sys.settrace(killer(number))
        objects.put(key, b"content")
        sys.settrace(None)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    number += 1
"""

_KILLED_WHILE_WRITING = """
import os, random, signal, sys, time
from capbench.benchmarks.store.objects.opening import open_objects

root, key = sys.argv[1:]
content = bytes(4_000_000)
for number in range(30):
    objects = open_objects(f"{root}/{number}")
    child = os.fork()
    if child == 0:
        objects.put(key, content)
        os._exit(0)
    time.sleep(random.random() * 0.015)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def drafts_in(folder: Path) -> list[Path]:
    return list(folder.rglob(".draft-*"))


def run(script: str, root: Path) -> list[Path]:
    """Run a script that makes a store for each kill; return their folders."""
    root.mkdir()
    subprocess.run([sys.executable, "-c", script, str(root), KEY], check=True)
    return sorted(root.iterdir(), key=lambda folder: int(folder.name))


def test_kill_at_any_line_of_a_put_leaves_the_object_whole_or_not_there(tmp_path: Path):
    stores = run(_KILLED_AT_EVERY_LINE, tmp_path / "stores")
    found, had_drafts = [], 0
    for store in stores:
        had_drafts += bool(drafts_in(store))
        objects = open_objects(store)
        assert drafts_in(store) == []
        found.append(objects.get(KEY))
        assert objects.put(KEY, b"again") == (found[-1] is None)
        assert objects.get(KEY) == (found[-1] or b"again")
    # Before the link nothing is there, and from then on all of it; the last put was not killed.
    linked = found.index(b"content")
    assert found == [None] * linked + [b"content"] * (len(stores) - linked)
    assert linked > 20
    assert len(stores) - linked > 10
    assert had_drafts > 10


def test_kill_while_bytes_are_written_leaves_the_object_whole_or_not_there(tmp_path: Path):
    for store in run(_KILLED_WHILE_WRITING, tmp_path / "stores"):
        objects = open_objects(store)
        assert drafts_in(store) == []
        assert list(objects.keys()) == [KEY] * objects.has(KEY)
        assert objects.get(KEY) in ([bytes(4_000_000)] if objects.has(KEY) else [None])


def test_of_two_processes_one_is_first_and_its_content_stands(tmp_path: Path):
    put_at_the_same_time(str(tmp_path / "shared"), rounds=150)
    assert drafts_in(tmp_path) == []


@pytest.mark.parametrize("owner", ["living", "another machine"])
def test_drafts_of_living_processes_of_any_machine_stay(tmp_path: Path, owner: str):
    objects = open_objects(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "import capbench.drafts as d, pathlib; print(d.draft_beside(pathlib.Path('x')))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    dead = done.stdout.strip()
    host, process, number = dead.removeprefix(".draft-").split("-")
    kept = {
        "living": f".draft-{host}-{os.getpid()}-{number}",
        "another machine": f".draft-else{host}-{process}-{number}",
    }[owner]
    for name in (dead, kept):
        (tmp_path / name).write_bytes(b"half")
    open_objects(tmp_path, writable=False)
    assert (tmp_path / dead).exists()
    open_objects(tmp_path)
    assert not (tmp_path / dead).exists()
    assert (tmp_path / kept).read_bytes() == b"half"
    assert list(objects.keys()) == []


def test_answer_to_a_link_that_was_lost_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    objects = open_objects(tmp_path)
    link = os.link

    def link_of_a_server_that_is_asked_twice(source, target, **options):
        link(source, target, **options)
        link(source, target, **options)

    monkeypatch.setattr(os, "link", link_of_a_server_that_is_asked_twice)
    assert objects.put(KEY, b"content")
    assert not objects.put(KEY, b"other")


def test_file_system_without_hard_links_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_link(source, target, **options):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(StoreError, match="without hard links") as caught:
        open_objects(tmp_path / "shared")
    assert "s3://" in caught.value.hint
    assert list((tmp_path / "shared").iterdir()) == []


def test_folder_that_cannot_be_used_is_named_with_the_remedy(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/shared: .*Not a directory") as caught:
        open_objects(tmp_path / "file" / "shared")
    assert "mounted" in caught.value.hint


def test_full_disk_keeps_what_was_there_and_leaves_no_part(tmp_path: Path):
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=262144", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a disk")
    try:
        objects = open_objects(tmp_path)
        objects.put(KEY, b"small")
        with pytest.raises(StoreError, match="No space left") as caught:
            objects.put(OTHER, bytes(1_000_000))
        assert "bench store prune --store" in caught.value.hint
        assert drafts_in(tmp_path) == []
        assert objects.get(OTHER) is None
        assert objects.get(KEY) == b"small"
        assert objects.put(OTHER, bytes(100_000))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_object_is_on_the_disk_before_its_name_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    objects = open_objects(tmp_path)
    done = []
    fsync, link = os.fsync, os.link

    def told_fsync(number: int) -> None:
        done.append(("flush", Path(f"/proc/self/fd/{number}").readlink().name.partition("-")[0]))
        fsync(number)

    monkeypatch.setattr(os, "fsync", told_fsync)
    monkeypatch.setattr(os, "link", lambda *given, **options: (done.append("link"), link(*given, **options)))
    objects.put(KEY, b"content")
    assert done == [
        ("flush", tmp_path.name),
        ("flush", ".draft"),
        "link",
        ("flush", KEY[:2]),
    ]
    assert (tmp_path / MARK).is_file()
