from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EVERY = Path(__file__).parents[2] / "speed" / "every.py"


def test_all_scripts_are_run_and_what_missed_is_named_at_the_end(tmp_path: Path):
    shutil.copy(EVERY, tmp_path)
    (tmp_path / "slow.py").write_text(
        "import sys\nprint('a  2 s, over the bar of 1 s')\nprint('b  1 s, within the bar of 1 s')\nsys.exit(1)\n"
    )
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "fast.py").write_text("print('c  9 times as fast')\n")

    def run(*names: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "every.py"), *names]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("slow", "broken", "fast")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "slow:",
        "a  2 s, over the bar of 1 s",
        "b  1 s, within the bar of 1 s",
        "",
        "broken:",
        "",
        "fast:",
        "c  9 times as fast",
        "",
        "missed: slow: a  2 s, over the bar of 1 s",
        "missed: broken: failed",
    ]
    assert run("fast").returncode == 0
