"""What executors are given in tests: functions that can be pickled."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from capbench.benchmarks.scale.folders import Folder
from capbench.errors import DataError
from capbench.permissions import Permissions, permit, permitted


@dataclass(frozen=True)
class Shard:
    """A call with a name."""

    number: int

    @property
    def name(self) -> str:
        return f"shard {self.number}"


@dataclass
class Recorded:
    """Squares the number of a shard, and writes each call into a folder.

    Attributes:
        folder: The folder.
        deadly: Shards that kill their worker while there is no file of the name.
        seconds: How long a call takes.
    """

    folder: Path
    deadly: tuple[int, ...] = ()
    lives_after: str = ""
    seconds: float = 0.0
    loads: int = 0

    def __call__(self, shard: Shard) -> int:
        self.loads += 1
        with (self.folder / f"{shard.number}.calls").open("a") as file:
            file.write(f"{os.getpid()} {self.loads}\n")
        time.sleep(self.seconds)
        if shard.number in self.deadly and not (self.lives_after and (self.folder / self.lives_after).exists()):
            if self.lives_after:
                (self.folder / self.lives_after).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return shard.number**2

    def calls(self, number: int) -> list[tuple[int, int]]:
        """Return process and count of each call of a shard."""
        file = self.folder / f"{number}.calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(process), int(count)) for process, count in map(str.split, lines)]


@dataclass
class Kept(Recorded):
    """The same, of which each result is kept, and not made again."""

    def __call__(self, shard: Shard) -> int:
        place = Folder(self.folder / "kept")
        if not place.exists(shard.name):
            place.put(shard.name, str(super().__call__(shard)).encode())
        return int(place.read(shard.name))


@dataclass(frozen=True)
class Permitted:
    """Returns what is permitted to a call, as a function that carries its caller's permissions."""

    permissions: Permissions

    def __call__(self, shard: Shard) -> Permissions:
        with permit(self.permissions):
            return permitted()


class OddError(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, first: str, second: Callable[[], int]) -> None:
        super().__init__(first)
        self.second = second


def failing(shard: Shard) -> int:
    """Fail as a user's own fault."""
    raise DataError(f"{shard.name} is no shard", "Name another.")


def failing_oddly(shard: Shard) -> int:
    """Fail with an error that cannot be pickled."""
    raise OddError("odd", lambda: 1)


def kind_of_process(shard: Shard) -> str:
    """Return the class of the process of a call: how it was started."""
    return type(multiprocessing.current_process()).__name__


def environment(shard: Shard) -> tuple[int, str | None]:
    """Return the process of a call and the GPUs that it sees."""
    time.sleep(0.2)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")
