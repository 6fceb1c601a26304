"""How much of a vector lies in the span of the few vectors that are most similar to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

# Of a member's square, what must lie outside the span of those taken before it for the normal
# equations to be exact; what is nearer to dependent is solved from the vectors themselves.
_INDEPENDENT = 1e-4

_EQUAL = 1 - 1e-12

# Multiplications that a BLAS does in one thread. A product as small as these gains nothing from a second one,
# and on a busy machine waits for it many times as long as it takes.
_IN_ONE_THREAD = 1 << 18

# Pairs of sets that go through numpy together: enough to hide the cost of a call, few enough for the cache.
_PAIRS_A_CHUNK = 16

Pair = tuple[np.ndarray, np.ndarray]


def proportions(pairs: Sequence[Pair], k: int) -> list[Pair]:
    """Return how far two sets of vectors represent each other linearly (PLR_k), for many pairs of sets.

    The proportion of a vector is the norm of its projection onto the span of the ``min(k, size)`` members of
    the other set with the highest cosine, as a share of its own norm: coefficients are free, and there is no
    intercept (Feng et al. 2024, section 4.3). With ``k = 1`` it is the absolute cosine.

    It is what ``numpy.linalg.lstsq`` fits to members of norm 1, in double precision. A singular value below
    the precision of the vectors' own type (``eps * max(d, k)`` of the largest) counts as 0: repeats add nothing,
    and nor does what an encoder in single precision gives for one input in two batches.

    Args:
        pairs: Two sets each: ``[n, d]`` and ``[m, d]``, float32 or float64, neither empty, no vector of norm 0.
        k: Members that represent a vector; at least 1.

    Returns:
        For each pair ``[n]`` proportions of the first set by the second, and ``[m]`` of the second by the
        first; float64 in 0-1.
    """
    chunks = [pairs[start : start + _PAIRS_A_CHUNK] for start in range(0, len(pairs), _PAIRS_A_CHUNK)]
    rows = [sum(len(first) + len(second) for first, second in chunk) for chunk in chunks]
    # One for all chunks: to be given such a piece of memory anew takes longer than to fill it.
    space = np.empty((max(rows, default=0), pairs[0][0].shape[1] if pairs else 0))
    return [proportion for chunk in chunks for proportion in _of_chunk(chunk, k, space)]


def _of_chunk(pairs: Sequence[Pair], k: int, space: np.ndarray) -> Iterator[Pair]:
    sizes = np.array([[len(first), len(second)] for first, second in pairs])
    ends = np.cumsum(sizes).reshape(-1, 2).tolist()
    cosines = np.full((len(pairs), *sizes.max(axis=0)), -np.inf)
    units: list[Pair] = []
    for across, pair, (n, m), (middle, end) in zip(cosines, pairs, sizes.tolist(), ends, strict=True):
        first, second = space[middle - n : middle], space[middle:end]
        for unit, vectors in zip((first, second), pair, strict=True):
            unit[:] = vectors
            unit *= 1 / np.sqrt(np.vecdot(unit, unit))[:, None]
        across[:n, :m] = _products(second, first).T
        units.append((first, second))
    turned = [(second, first) for first, second in units]
    precision = max(float(np.finfo(np.result_type(*pair)).eps) for pair in pairs)
    by_second = _represented(units, sizes, cosines, k, precision)
    by_first = _represented(turned, sizes[:, ::-1], cosines.transpose(0, 2, 1), k, precision)
    splits = np.cumsum(sizes[:-1], axis=0).T
    return zip(np.split(by_second, splits[0]), np.split(by_first, splits[1]), strict=True)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a @ b.T``."""
    width = max(_IN_ONE_THREAD // (len(a) * len(b)), 32)
    whole = a[:, :width] @ b[:, :width].T
    for start in range(width, a.shape[1], width):
        whole += a[:, start : start + width] @ b[:, start : start + width].T
    return whole


def _represented(pairs: Sequence[Pair], sizes: np.ndarray, cosines: np.ndarray, k: int, precision: float) -> np.ndarray:
    """Return the proportions of the vectors of each pair's first set by its second, one pair after the other.

    Args:
        pairs: ``p`` pairs of unit vectors and unit members.
        sizes: ``[p, 2]`` how many there are of each.
        cosines: ``[p, n, m]`` of each vector with each member; minus infinity where a pair has fewer members.
        k: As in :func:`proportions`.
        precision: Of the numbers that the vectors were made of.
    """
    pair, vector = np.nonzero(np.arange(cosines.shape[1]) < sizes[:, 0, None])
    cosines = cosines[pair, vector]
    width = cosines.shape[1]
    k = min(k, width)
    nearest = np.argpartition(cosines, width - k, axis=1)[:, width - k :] if k < width else np.arange(width)
    # A row a member from here on, so that numpy goes through all vectors at once.
    nearest = np.ascontiguousarray(np.broadcast_to(nearest, (len(pair), k)).T)
    near = cosines[np.arange(len(pair)), nearest]
    if k == 1:
        return np.minimum(np.abs(near[0]), 1.0)
    there = near > -np.inf
    near[~there] = 0.0
    squares, exact = _by_elimination(near, _Grams([members for _, members in pairs], pair, nearest, there))
    for row in np.flatnonzero(~exact).tolist():
        vectors, members = pairs[pair[row]]
        members = members[nearest[there[:, row], row]]
        left, values, _ = np.linalg.svd(members.T, full_matrices=False)
        inside = vectors[vector[row]] @ left[:, values > precision * max(members.shape) * values[0]]
        squares[row] = inside @ inside
    return np.sqrt(np.clip(squares, 0.0, 1.0))


class _Grams:
    """Of the members that represent each of ``r`` vectors, the cosines with each other.

    Args:
        members: Unit members of each of ``p`` pairs.
        pair: ``[r]`` the pair of each vector.
        nearest: ``[k, r]`` the members that represent each vector.
        there: ``[k, r]`` whether a vector has so many members.

    Attributes:
        there: As given.
        first: ``[k, r]`` a number for each member, the same for those of a vector that are equal; -1 for
            one that is not there.
    """

    def __init__(self, members: Sequence[np.ndarray], pair: np.ndarray, nearest: np.ndarray, there: np.ndarray) -> None:
        self.there = there
        used = np.zeros((len(members), max(map(len, members))), dtype=bool)
        used[np.broadcast_to(pair, nearest.shape)[there], nearest[there]] = True
        # Where there are many members, most represent no vector, and products are most of the work.
        kept = [of_pair[which[: len(of_pair)]] for of_pair, which in zip(members, used, strict=True)]
        self._products = np.concatenate([_products(of_pair, of_pair).ravel() for of_pair in kept])
        counts = used.sum(axis=1)
        starts = np.cumsum(counts**2) - counts**2
        position = np.where(there, (np.cumsum(used, axis=1) - 1)[pair, nearest], 0)
        self._row, self._position = starts[pair] + position * counts[pair], position
        self.first = np.where(there, self._first_equals(kept, starts, counts)[pair, position], -1)

    def column(self, number: int) -> np.ndarray:
        """Return ``[k - number, r]`` cosines of each vector's member of that number with it and later ones."""
        return self._products[self._row[number] + self._position[number:]]

    def _first_equals(self, members: Sequence[np.ndarray], starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return ``[p, m]`` the first member of its pair that each is equal to."""
        first = np.tile(np.arange(counts.max()), (len(members), 1))
        alike = np.flatnonzero(self._products > _EQUAL)
        of_pair = np.searchsorted(starts, alike, side="right") - 1
        one, other = np.divmod(alike - starts[of_pair], counts[of_pair])
        # Members that are equal have a cosine of 1; the converse need not hold.
        for pair, a, b in np.stack([of_pair, one, other], axis=1)[one < other].tolist():
            if first[pair, b] == b and np.array_equal(members[pair][a], members[pair][b]):
                first[pair, b] = first[pair, a]
        return first


def _by_elimination(cosines: np.ndarray, grams: _Grams) -> tuple[np.ndarray, np.ndarray]:
    """Solve the normal equations of many vectors at once, member by member (Cholesky).

    Args:
        cosines: ``[k, r]`` of each vector with each of its members.
        grams: Of the members with each other.

    Returns:
        ``[r]`` the squared norm of each projection; ``[r]`` whether the members, less repeats, are far enough
        from dependent for it to be exact.
    """
    k, rows = cosines.shape
    squares, exact = np.zeros(rows), np.ones(rows, dtype=bool)
    outside = cosines.copy()
    taken: list[tuple[np.ndarray, np.ndarray]] = []
    for number in range(k):
        column = grams.column(number)
        for before, inverse in taken:
            column -= (before[number - k] * inverse) * before[number - k :]
        adds = grams.there[number] & (grams.first[:number] != grams.first[number]).all(axis=0)
        independent = column[0] > _INDEPENDENT
        exact &= independent | ~adds
        # What adds nothing, or is solved otherwise, is divided by 1 rather than by next to nothing.
        usable = independent & adds
        inverse = usable / np.where(usable, column[0], 1.0)
        share = outside[number] * inverse
        squares += share * outside[number]
        outside[number:] -= share * column
        taken.append((column, inverse))
    return squares, exact
