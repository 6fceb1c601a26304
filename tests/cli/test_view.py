"""``bench view``: what it says, and that it answers."""

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[2] / "results" / "runs"


def test_it_answers_at_the_printed_address_and_ends_without_a_fault(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "capbench.cli.main", "view", str(KEPT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
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


def test_the_missing_packages_are_named(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    bench("view", KEPT).failed(2, "pip install 'capbench[view]'")


def test_a_folder_that_is_not_there_and_a_port_that_is_none_or_taken_are_refused(bench, tmp_path: Path) -> None:
    bench("view", tmp_path / "nowhere").failed(1, "there is no such folder")
    bench("view", KEPT, "--port", "65536").failed(2, "expected a port, 0 to 65535")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bench("view", KEPT, "--port", taken.getsockname()[1]).failed(2, "cannot listen at")


def test_worst_samples_of_one_run_are_printed(bench, tmp_path: Path) -> None:
    run = KEPT / "iiw_400"
    said = bench("view", run, "--worst", "2", "--metric", "meteor").succeeded("2 worst of 100 samples by METEOR").out
    scores = [float(line.split()[0]) for line in said.splitlines() if line[:2] == "0."]
    assert scores == sorted(scores)
    assert [said.count(f"\n  {kind}: ") for kind in ("caption", "reference")] == [2, 2]
    bench("view", KEPT, "--worst", "2").failed(2, "--worst takes one run", "has 14")
    bench("view", KEPT, "--export", tmp_path / "all.html").failed(2, "--export takes one run")
    bench("view", run, "--worst", "2", "--metric", "metoer").failed(2, "no such scores. Did you mean 'meteor'?")
    bench("view", run, "--thumbnails").failed(2, "--thumbnails goes with --export")
