"""Print what calls of many models cost on a cluster of ray of this machine's cores, and how often each was loaded.

The models are no models: what is measured is the placing, and the loading once a worker. Run by hand::

    python speed/many_models.py --models 200 --tasks 40
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Model:
    """A function that counts how often it is loaded.

    Attributes:
        file: Gets a line each time.
        is_loaded: Whether it is, in this process.
    """

    file: Path
    is_loaded: bool = False

    def __call__(self, task: int) -> int:
        """Return a task, as the model that it needs is there."""
        if not self.is_loaded:
            with self.file.open("a") as lines:
                lines.write("loaded\n")
            self.is_loaded = True
        return task


def main() -> int:
    """Print the seconds; exit code 1 where a model was loaded more than once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=200, metavar="N")
    parser.add_argument("--tasks", type=int, default=40, metavar="N")
    options = parser.parse_args()
    # A cluster of this machine alone needs no token in the user's home; its workers import this module.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    import many_models

    from capbench.benchmarks.scale.executors import Resources
    from capbench.benchmarks.scale.ray import RayExecutor

    executor, one = RayExecutor("local"), Resources(role="captioner", workers=1)
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        for number in range(options.models):
            model = many_models.Model(Path(place) / str(number))
            for _ in executor.map(model, range(options.tasks), one):
                pass
        seconds = time.perf_counter() - start
        loads = [len(file.read_text().splitlines()) for file in Path(place).iterdir()]
    executor.close()
    print(f"{len(loads)} models loaded, one {max(loads)} times at most")
    print(seconds)
    return int(max(loads) > 1 or len(loads) < options.models)


if __name__ == "__main__":
    sys.exit(main())
