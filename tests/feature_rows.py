"""What an encoder makes of inputs, as one array."""

from collections.abc import Iterator

import numpy as np

from capbench.adapters import Encoded


def stacked(batches: Iterator[Encoded]) -> np.ndarray:
    """Return all features, where no input failed."""
    vectors: dict[int, np.ndarray] = {}
    for batch in batches:
        assert not batch.failures
        assert not vectors.keys() & batch.vectors.keys()
        vectors |= batch.vectors
    assert sorted(vectors) == list(range(len(vectors)))
    return np.stack([vectors[position] for position in range(len(vectors))])
