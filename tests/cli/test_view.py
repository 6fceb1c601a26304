"""``bench view``: what it says, and that it answers."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from capbench.cli.main import main

KEPT = Path(__file__).parents[2] / "results" / "runs"


def test_it_answers_at_the_printed_address_and_ends_without_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra view")
    command = [sys.executable, "-m", "capbench.cli.main", "view", str(KEPT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        address = said.split()[1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - the address is our own
            assert "Flickr8k-Expert" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0])  # noqa: S310
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


def test_the_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["view", str(KEPT)]) == 2
    assert "pip install 'capbench[view]'" in capsys.readouterr().err


def test_a_folder_that_is_not_there_and_a_port_that_is_none_are_refused(tmp_path, capsys) -> None:
    assert main(["view", str(tmp_path / "nowhere")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["view", str(KEPT), "--port", "65536"])


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["view", str(KEPT), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen at" in capsys.readouterr().err
