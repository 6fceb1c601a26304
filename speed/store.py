"""Time the store against its first schema in one run: features in and out, and the size of the file.

Run by hand::

    python speed/store.py
    python speed/store.py --arrays 100000 --batch 256
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from first_store import FirstStore

from capbench.benchmarks.store.store import Store

_PRODUCER = {"encoder": "none", "of": "features"}
_DIMENSIONS = 512
"""Of a vector of ViT-B/32, which is 2,176 bytes in NumPy's format."""


def main() -> None:
    """Print seconds, megabytes and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", type=int, default=20_000, metavar="N", help="feature vectors (20000)")
    parser.add_argument("--batch", type=int, default=20_000, metavar="N", help="vectors a transaction (20000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="the best of N counts (3)")
    options = parser.parse_args()
    vectors = np.random.default_rng(0).standard_normal((options.arrays, _DIMENSIONS), dtype=np.float32)
    arrays = {f"image {number}": vector for number, vector in enumerate(vectors)}
    rounds = [[_measure(kind, arrays, options.batch) for kind in (FirstStore, Store)] for _ in range(options.rounds)]
    print(f"{options.arrays:,} vectors of {_DIMENSIONS}, {options.batch:,} a transaction")
    for what, unit, column in (("write", "s", 0), ("read", "s", 1), ("file", "MB", 2)):
        first, ours = (min(one[kind][column] for one in rounds) for kind in (0, 1))
        print(f"{what:6} first schema {first:7.2f} {unit}, store {ours:7.2f} {unit}: {first / ours:.1f} times as good")


def _measure(kind: type[Store] | type[FirstStore], arrays: dict[str, np.ndarray], batch: int) -> list[float]:
    """Return seconds to write, seconds to read, and megabytes."""
    names = list(arrays)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        store = kind(path)
        start = time.perf_counter()
        for first in range(0, len(names), batch):
            store.put_arrays(_PRODUCER, {name: arrays[name] for name in names[first : first + batch]})
        store.close()
        written = time.perf_counter()
        store = kind(path)
        opened = time.perf_counter()
        assert len(store.get_arrays(_PRODUCER, names)) == len(names)  # noqa: S101
        read = time.perf_counter()
        store.close()
        return [written - start, read - opened, path.stat().st_size / 1e6]


if __name__ == "__main__":
    main()
