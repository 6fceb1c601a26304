"""The exceptions of capbench: one type a kind, each carrying what to do next."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager


class BenchError(Exception):
    """A failure that the user can act on.

    Args:
        message: What is wrong, naming the thing and the place.
        hint: What to do next; printed on a separate line.
        parts: The failures that it combines.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", parts: Sequence[BenchError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.parts = tuple(parts) or (self,)

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    @property
    def in_one_line(self) -> str:
        """What is wrong and what to do next, for lists and cells of tables."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


class UsageError(BenchError):
    """The command, a name or an option is wrong; nothing was started."""

    exit_code = 2


class TaskError(UsageError):
    """A task file does not follow the schema."""


class CodeError(TaskError):
    """A file names code that is not allowed to run."""


def placed(error: UsageError, place: str) -> TaskError:
    """Return an error as a ``TaskError`` whose message begins with the place."""
    kind = CodeError if isinstance(error, CodeError) else TaskError
    return kind(f"{place}: {error.message}", error.hint)


class DataError(BenchError):
    """A data set is missing, or is not the one that the task expects."""


class MetricError(BenchError):
    """A metric could not be computed; the other metrics of the run are kept."""


class AdapterError(BenchError):
    """A model could not be loaded or did not answer."""


class StoreError(BenchError):
    """The store could not be read or written."""


class ExecutorError(BenchError):
    """Workers ended before they finished a call, or none can be started."""


class TrainingError(BenchError):
    """A training cannot go on: its loss is not finite, or its checkpoint is another training's."""


def require_all(*checks: Callable[[], object]) -> None:
    """Run every check, and raise one error for all that fail.

    Raises:
        BenchError: Of the kind of the first that failed; ``parts`` are all of them.
    """
    failed: list[BenchError] = []
    for check in checks:
        try:
            check()
        except BenchError as error:
            failed += error.parts
    if failed:
        raise as_one(failed)


def as_one(failed: Sequence[BenchError]) -> BenchError:
    """Return one error for several, of the kind of the first; ``parts`` are all of them."""
    if len(failed) == 1:
        return failed[0]
    messages = " ".join(error.message.removesuffix(".") + "." for error in failed)
    return type(failed[0])(messages, "\n".join(error.hint for error in failed if error.hint), failed)


def require_counts(fault: type[Exception], **numbers: int | None) -> None:
    """Raise if a setting that was given is not a whole number above 0.

    Args:
        fault: What to raise; it names the setting.
        **numbers: The settings.
    """
    for name, number in numbers.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise fault(f"'{name}' must be a whole number above 0, not {number!r}")


@contextmanager
def extra(name: str, needed: str, fault: type[BenchError] = UsageError) -> Generator[None]:
    """Raise an ``ImportError`` in the block as an error that says which extra of capbench to install.

    Args:
        name: The extra.
        needed: What needs which package, as the beginning of a sentence.
        fault: Kind of the error.
    """
    try:
        yield
    except ImportError as error:
        raise fault(f"{needed}, which is not installed", f"pip install 'capbench[{name}]'") from error


@contextmanager
def writing(place: object, hint: str = "", fault: type[BenchError] = UsageError) -> Generator[None]:
    """Raise an ``OSError`` in the block as an error that the place cannot be written.

    Args:
        place: The file or folder.
        hint: What to do.
        fault: Kind of the error.
    """
    try:
        yield
    except OSError as error:
        raise fault(f"{place}: cannot be written: {error.strerror or error}", hint) from error


def counted(number: float, noun: str) -> str:
    """Return a number with what it counts: ``1 unit``, ``1,200 units``, ``0.5 CPUs``."""
    figure = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{figure} {noun}" if number == 1 else f"{figure} {noun}s"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for a known name of the same letters, those that begin so, or the nearest.

    Capitals and hyphens do not count, and ``clipscore`` is ``clip_s``.
    """
    spelled = {option.lower(): option for option in known}
    same = [option for option in spelled if _letters(option) == _letters(name)]
    longer = [option for option in sorted(spelled) if len(name) > 2 and option.startswith(name.lower())]
    near = same[:1] or longer[:4] or difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    quoted = " or ".join(f"'{spelled[option]}'" for option in near)
    return f" Did you mean {quoted}?" if near else ""


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()).replace("score", "s")
