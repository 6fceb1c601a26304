"""Print what units of many models cost on a cluster of ray of this machine's cores, and how often each was loaded.

The models are no models: what is measured is the placing, the loading once a replica, the committing. Run by hand::

    python speed/many_models.py --models 200 --tasks 40
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"


def main() -> int:
    """Print the seconds; exit code 1 where a model was loaded more than once a replica."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=200, metavar="N")
    parser.add_argument("--tasks", type=int, default=40, metavar="N")
    options = parser.parse_args()
    sys.path.insert(0, str(_TESTS))
    # A cluster of this machine alone needs no token in the user's home.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    from counting_work import Sample

    from capbench.benchmarks.engines.contract import Pool
    from capbench.benchmarks.engines.ray import RayEngine
    from capbench.benchmarks.running.units import Unit

    def units() -> Iterator[Unit]:
        for model in (f"model-{number}" for number in range(options.models)):
            for task in range(options.tasks):
                name, rows = f"{model}-{task}", (task, task + 1)
                yield Unit(f"caption-{name}", "caption", model, task, rows, pool=f"captioner:{model}")
                yield Unit(f"score-{name}", "score", "length", task, rows, needs=(f"caption-{name}",))

    with tempfile.TemporaryDirectory() as place:
        sample = Sample(Path(place) / "run", documents=options.tasks)
        start = time.perf_counter()
        outcome = RayEngine("local", [Pool("captioner", 1), Pool("cpu")]).carry_out(sample.spec, units())
        seconds = time.perf_counter() - start
        loaded = Counter(line.split()[0] for line in sample.notes("loaded"))
    print(f"{outcome.computed} units, {len(loaded)} models loaded, one {max(loaded.values())} times at most")
    print(seconds)
    return int(max(loaded.values()) > 1 or len(loaded) < options.models)


if __name__ == "__main__":
    sys.exit(main())
