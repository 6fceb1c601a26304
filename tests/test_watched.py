"""What watches tests sees each kind of event, and nothing where it is not asked to."""

import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from watched import ASKING, Event, Forbidden, watched


def test_each_kind_of_event_is_seen_with_what_it_is_of(tmp_path: Path):
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    pickled = pickle.dumps(Path("x"))
    module = tmp_path / "watched_module.py"
    module.write_text("x = 1")
    with socket.create_server(("127.0.0.1", 0)) as server, watched() as events:
        address = server.getsockname()
        link.write_text("text")
        link.read_text()
        list(tmp_path.iterdir())
        socket.getaddrinfo("localhost", 9)
        socket.create_connection(address).close()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
        subprocess.run([sys.executable, "-c", ""], check=True)
        pickle.loads(pickled)  # noqa: S301 - our own
        sys.path.insert(0, str(tmp_path))
        try:
            __import__("watched_module")
        finally:
            sys.path.remove(str(tmp_path))
            del sys.modules["watched_module"]
    seen = {
        Event("write", str(file)), Event("read", str(file)), Event("read", str(tmp_path)),
        Event("look up", "localhost"), Event("connect", str(address)), Event("listen", "('127.0.0.1', 0)"),
        Event("start", f"{sys.executable} -c "), Event("unpickle", "pathlib.PosixPath"),
        Event("import", "watched_module"), Event("compile", str(module)), Event("exec", str(module)),
    }  # fmt: skip
    assert seen - set(events) == set()


def test_what_is_forbidden_is_refused_and_seen_and_nothing_is_seen_afterwards():
    with watched(forbid=ASKING) as events, pytest.raises(Forbidden, match=r"look up localhost: forbidden"):
        socket.create_connection(("localhost", 9))
    assert [event for event in events if event.kind in ASKING] == [Event("look up", "localhost")]
    before = len(events)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert len(events) == before
