from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "speed"))

from watching import watched

HOLDING = "held = bytearray(300 << 20); import time; time.sleep(1)"


def test_process_and_its_children_are_told_apart():
    starts_one = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDING!r}]); print('done')"
    taken = watched([sys.executable, "-c", starts_one])

    assert taken.output == "done\n"
    assert taken.peak_bytes < 200 << 20
    assert taken.worker_bytes > 300 << 20
    assert taken.wall_seconds >= 1


def test_core_seconds_are_those_of_children_too():
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    starts_one = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    assert 0.3 <= watched([sys.executable, "-c", starts_one]).core_seconds < 3


def test_flow_of_files_is_counted(tmp_path: Path):
    write = f"open({str(tmp_path / 'f')!r}, 'wb').write(bytes(5_000_000)); import time; time.sleep(0.7)"
    taken = watched([sys.executable, "-c", write])
    assert taken.written_bytes >= 5_000_000


def test_failure_is_raised():
    with pytest.raises(subprocess.CalledProcessError):
        watched([sys.executable, "-c", "raise SystemExit(3)"])
