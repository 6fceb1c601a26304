"""What an encoder makes of inputs, as one array."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from capbench.adapters import Encoded


def stacked(batches: Iterator[Encoded]) -> np.ndarray:
    """Return all features, where no input failed."""
    found: dict[int, np.ndarray] = {}
    for batch in batches:
        assert not batch.failures
        assert not found.keys() & batch.vectors.keys()
        found |= batch.vectors
    assert sorted(found) == list(range(len(found)))
    return np.stack([found[position] for position in range(len(found))])
