"""MID: Mutual Information Divergence, the pointwise mutual information of a caption and its image."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..errors import MetricError
from .contract import Context, CorpusMetric, Need, State, check_state, require_choice
from .items import Items, Scores
from .vectors.features import Features, image_features, over_context, text_features
from .words.ngrams import text_hash

_MOMENTS = frozenset({"count", "sums", "products"})
_JOINED = frozenset({"mean", "images", "captions", "both", "information"})


class Mid(CorpusMetric):
    """Pointwise mutual information of a caption's and its image's features, both taken to be Gaussian.

    With Mahalanobis distances D² from the means, and z both features joined: the mutual information of the two
    Gaussians, half of ``ln det Sx + ln det Sy - ln det Sz``, plus half of ``D²(x) + D²(y) - D²(z)``. Features
    have norm 1; sums are in double precision; covariances are over ``n - 1``.

    The released code scores images made from texts: real images and their texts give the Gaussians, the made
    images are scored. How captions are scored (which captions give the Gaussians on Flickr8k, Pascal-50S and
    FOIL) is not released; ``gaussian`` names the two ways there are.

    The state of shards is the features of their pairs, by a hash of 64 bits of image and text, so that a pair that two
    of them have counts once; parts that are merged over all shards become moments, which are exact. Features are
    rounded to multiples of 2**-30 there.

    ``Scores.parts``: ``information [n]`` the mutual information of the Gaussians, the same for all items;
    ``distance [n]`` the other half; ``truncated [n]`` 1 where the caption is longer than the encoder's context.

    Args:
        gaussian: Whose features give the Gaussians: ``"references"``, the references with their images (as
            released, with the roles of image and text turned), or ``"candidates"``, the scored captions
            themselves with theirs, which needs no references. A pair that occurs twice counts once.
        eps: Added to the diagonal of a covariance before it is inverted, though not in the determinants, as
            released; the authors propose 5e-4 where there are fewer than 30,000 pairs.

    Raises:
        ValueError: ``gaussian`` is not known, or ``eps`` is negative.
    """

    label = "MID"
    range = (-np.inf, np.inf)
    needs: frozenset[Need] = frozenset({"image", "encoder", "references"})
    aggregation = "corpus"
    source = "Kim et al., NeurIPS 2022; naver-ai/mid.metric metrics/mid.py"

    def __init__(self, gaussian: Literal["references", "candidates"] = "references", eps: float = 0.0) -> None:
        require_choice("gaussian", gaussian, ("references", "candidates"))
        if not eps >= 0:
            raise ValueError(f"'eps' must be a number of at least 0, not {eps!r}")
        self.gaussian = gaussian
        self.eps = float(eps)
        if gaussian == "candidates":
            self.needs = frozenset({"image", "encoder"})

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings."""
        return {"metric": type(self).__name__, "gaussian": self.gaussian, "eps": self.eps}

    @property
    def _pairs(self) -> frozenset[str]:
        return frozenset({f"pairs of {self.gaussian}", "images", "texts"})

    def state_map(self, items: Items, context: Context) -> State:
        """Return the features of a shard's different pairs of image and text."""
        images, candidates = self._features(items, context)
        return self._state(items, images, candidates, context)

    def partition(self, state: State, parts: int) -> list[State]:
        """Cut a state by the hashes of the pairs."""
        check_state(self, state, self._pairs)
        hashes = state[f"pairs of {self.gaussian}"]
        part = (hashes >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
        return [{name: array[part == number] for name, array in state.items()} for number in range(parts)]

    def merge(self, states: Sequence[State]) -> State:
        """Return the features of the different pairs of several shards."""
        for state in states:
            check_state(self, state, self._pairs)
        name = f"pairs of {self.gaussian}"
        filled = [state for state in states if len(state[name])] or states[:1]
        _, first = np.unique(np.concatenate([state[name] for state in filled]), return_index=True)
        return {key: np.concatenate([state[key] for state in filled])[first] for key in self._pairs}

    def condense(self, state: State) -> State:
        """Return the moments of pairs, that of both features joined."""
        check_state(self, state, self._pairs)
        return moments(np.concatenate([state["images"], state["texts"]], axis=1))

    def join(self, states: Sequence[State]) -> State:
        """Return the Gaussians: their mean, whitening matrices and mutual information.

        Raises:
            MetricError: There are too few pairs for the size of the features, or they depend on one another.
        """
        for state in states:
            check_state(self, state, _MOMENTS)
        whole = add_moments(states)
        return _gaussians(int(whole["count"][0]), *mean_and_covariance(whole), self.eps)

    def score(self, items: Items, context: Context, state: State | None = None) -> Scores:
        """Score each item; see ``CorpusMetric.score``.

        Raises:
            MetricError: There is no encoder, or there are too few pairs for the size of its features.
            AdapterError: The encoder failed as a whole.
        """
        images, candidates = self._features(items, context)
        scored = np.flatnonzero((images.rows >= 0) & (candidates.rows >= 0))
        information, distance = np.full((2, len(items)), np.nan)
        if len(scored):
            if state is None:
                state = self.joined([self._state(items, images, candidates, context)])
            check_state(self, state, _JOINED)
            x, y = _of_pairs(images, candidates, np.stack([images.rows[scored], candidates.rows[scored]], axis=1))
            information[scored], distance[scored] = state["information"][0], _distance(state, x, y)
        return Scores(
            values=information + distance,
            parts={
                "information": information,
                "distance": distance,
                "truncated": over_context(items.candidates, context).astype(np.float64),
            },
            failures=candidates.failures | images.failures,
            remarks=images.remarks,
        )

    def _features(self, items: Items, context: Context) -> tuple[Features, Features]:
        images = image_features(items.images, context)  # type: ignore[arg-type] - a video has no image features
        return images, text_features(items.candidates, context)

    def _state(self, items: Items, images: Features, candidates: Features, context: Context) -> State:
        texts, of_texts = items.candidates, candidates
        pairs = np.stack([images.rows, candidates.rows], axis=1)
        if self.gaussian == "references":
            texts = [text for references in items.reference_sets[0] for text in references]
            of_texts = text_features(texts, context)
            pairs = _reference_pairs(items, images, of_texts)
        pairs = np.unique(pairs[(pairs >= 0).all(axis=1)], axis=0)
        image_of_row = {row: items.images[at].digest() for at, row in _first(images.rows)}
        text_of_row = {row: texts[at] for at, row in _first(of_texts.rows)}
        hashes = np.array(
            [text_hash(f"{image_of_row[image]}\0{text_of_row[text]}") for image, text in pairs.tolist()],
            dtype=np.uint64,
        )
        sequence = np.argsort(hashes)
        x, y = _of_pairs(images, of_texts, pairs[sequence])
        return {f"pairs of {self.gaussian}": hashes[sequence], "images": fixed(x), "texts": fixed(y)}

    def terms(self, scores: Scores) -> np.ndarray:
        """Return of each item the information, its distance, and 1."""
        usable = np.isfinite(scores.values)
        of_item = [scores.parts["information"], scores.parts["distance"], np.ones(len(usable))]
        return np.where(usable[:, None], np.stack(of_item, axis=1), 0.0)

    def pool(self, totals: np.ndarray) -> float:
        """Return the expectation as released: the distances are those of covariances, over ``n - 1``.

        NaN for a single caption.
        """
        information, distance, n = totals.tolist()
        return information / n + distance / (n - 1) if n > 1 else float("nan")


def pointwise_information(
    real_x: np.ndarray, real_y: np.ndarray, x: np.ndarray, y: np.ndarray, eps: float = 0.0
) -> tuple[float, np.ndarray]:
    """Return the mutual information of two Gaussians, and what each pair's own adds to it.

    Args:
        real_x: ``[n, d]`` float64 features that give the Gaussian of x.
        real_y: ``[n, d]`` those that belong to them.
        x: ``[m, d]`` features to score.
        y: ``[m, d]`` those that belong to them.
        eps: Added to the diagonal of each covariance before it is inverted.

    Returns:
        The mutual information, and ``[m]`` half of D²(x) + D²(y) - D²(z). Their sum is the score.

    Raises:
        MetricError: There are fewer than ``2d + 1`` real pairs, or they depend on one another, so that a covariance has
            no inverse.
    """
    real = np.concatenate([real_x, real_y], axis=1)
    mean = real.mean(axis=0)
    covariance = (real - mean).T @ (real - mean) / max(len(real) - 1, 1)
    state = _gaussians(len(real), mean, covariance, eps)
    return float(state["information"][0]), _distance(state, x, y)


def _gaussians(n: int, mean: np.ndarray, covariance: np.ndarray, eps: float) -> dict[str, np.ndarray]:
    """Return what distances are measured with, of ``n`` pairs of both features joined; see ``Mid.join``."""
    d = len(mean) // 2
    if n <= 2 * d:
        raise MetricError(
            f"MID needs more image-caption pairs than feature dimensions: it has {n:,} pairs for {2 * d:,} dimensions.",
            "Score more captions together, use an encoder with smaller features, or set 'gaussian: references'.",
        )
    state, information = {"mean": mean}, 0.0
    for sign, name, subject, part in (
        (0.5, "images", "images", slice(0, d)),
        (0.5, "captions", "captions", slice(d, None)),
        (-0.5, "both", "both together", slice(0, None)),
    ):
        state[name], log_determinant, rank = whitening(covariance[part, part], eps)
        if rank < len(mean[part]):
            raise MetricError(
                f"MID has no value: the feature covariance of {subject} is singular (rank {rank:,} of "
                f"{len(mean[part]):,}).",
                "Score more different images or captions together.",
            )
        information += sign * log_determinant
    return {**state, "information": np.array([information])}


def _distance(state: State, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return ``[m]`` half of D²(x) + D²(y) - D²(z)."""
    mean, d = state["mean"], x.shape[1]
    both = distances(np.concatenate([x, y], axis=1), mean, state["both"])
    return 0.5 * (distances(x, mean[:d], state["images"]) + distances(y, mean[d:], state["captions"]) - both)


def _reference_pairs(items: Items, images: Features, texts: Features) -> np.ndarray:
    """Return the pairs ``[n, 2]`` of rows of features of images and of their references."""
    sets, set_of_item = items.reference_sets
    sizes = np.array([len(references) for references in sets], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    # Items of one image share its references.
    of_images = np.unique(np.stack([images.rows, set_of_item], axis=1), axis=0)
    of_texts = [texts.rows[starts[its_set] : starts[its_set] + sizes[its_set]] for its_set in of_images[:, 1]]
    rows = np.repeat(of_images[:, 0], sizes[of_images[:, 1]])
    return np.stack([rows, np.concatenate([np.zeros(0, dtype=np.int64), *of_texts])], axis=1)


def _of_pairs(images: Features, texts: Features, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images.vectors[pairs[:, 0]].astype(np.float64), texts.vectors[pairs[:, 1]].astype(np.float64)


def _first(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return the first position of each row of features, with the row."""
    unique, at = np.unique(rows, return_index=True)
    return [(position, row) for position, row in zip(at.tolist(), unique.tolist(), strict=True) if row >= 0]


STEP = 2.0**-30
"""Features are rounded to multiples of it: finer than float32 from 2**-6 up, that is, in all that has weight."""

# The sum of products of two 15-bit numbers over ``_ROWS`` rows is an integer that float64 holds exactly.
_HALF = 15
_ROWS = 8192


def fixed(features: np.ndarray) -> np.ndarray:
    """Return features of norm 1 as int32 multiples of ``STEP``."""
    return np.rint(features.astype(np.float64) / STEP).astype(np.int32)


def moments(features: np.ndarray) -> dict[str, np.ndarray]:
    """Return the exact sums for a mean and a covariance; those of different rows add up.

    Args:
        features: ``[n, d]`` int32 multiples of ``STEP``, of norm 1; n is less than 2**32.

    Returns:
        ``count [1]``, ``sums [d]`` and ``products [3, d, d]``, int64: with each feature cut into a high and a low half
        of 15 bits, high times high, high times low, low times low.
    """
    d = features.shape[1]
    products = np.zeros((3, d, d), dtype=np.int64)
    for start in range(0, len(features), _ROWS):
        rows = features[start : start + _ROWS]
        high, low = (half.astype(np.float64) for half in _halves(rows))
        for product, left, right in zip(products, (high, high, low), (high, low, low), strict=True):
            product += (left.T @ right).astype(np.int64)
    return {
        "count": np.array([len(features)], dtype=np.int64),
        "sums": features.sum(axis=0, dtype=np.int64),
        "products": products,
    }


def add_moments(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the moments of all parts, of which those of nothing are left out."""
    filled = [part for part in parts if part["count"][0]] or parts[:1]
    return {name: np.sum([part[name] for part in filled], axis=0) for name in ("count", "sums", "products")}


def mean_and_covariance(of: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean ``[d]`` and the covariance ``[d, d]`` over ``n - 1`` of moments; zeros of fewer than two rows."""
    n = int(of["count"][0])
    if n < 2:
        return np.zeros(len(of["sums"])), np.zeros(of["products"].shape[1:])
    # About the multiple of STEP that is nearest to the mean, still in whole numbers, so that nothing cancels after
    # rounding.
    centre = (2 * of["sums"] + n) // (2 * n)
    rest = of["sums"] - n * centre
    high, low = _halves(centre)
    hundreds, tens, ones = of["products"]
    hundreds = hundreds - n * np.outer(high, high)
    tens = tens + tens.T - n * (np.outer(high, low) + np.outer(low, high))
    ones = ones - n * np.outer(low, low) - np.outer(centre, rest) - np.outer(rest, centre)
    tens += ones >> _HALF
    hundreds += tens >> _HALF
    small = (_halves(tens)[1] << _HALF) + _halves(ones)[1]
    scatter = hundreds * 2.0 ** (2 * _HALF) + small - np.outer(rest, rest / n)
    return (centre + rest / n) * STEP, scatter * (STEP**2 / (n - 1))


def whitening(covariance: np.ndarray, eps: float) -> tuple[np.ndarray, float, int]:
    """Return what Mahalanobis distances are measured with.

    Args:
        covariance: ``[d, d]``.
        eps: Added to its diagonal for distances alone.

    Returns:
        ``[d, d]``: the squared norm of a difference from the mean, times it, is the distance²; the logarithm of the
        determinant; and the rank. Below ``d`` the covariance has no inverse, and the other numbers mean nothing.
    """
    spread, directions = np.linalg.eigh(covariance)
    # As numpy.linalg.matrix_rank has it: smaller values are rounding errors.
    real = spread > np.abs(spread).max() * len(spread) * np.finfo(np.float64).eps
    if not real.all():
        return np.zeros_like(directions), np.nan, int(np.count_nonzero(real))
    return directions / np.sqrt(spread + eps), float(np.log(spread).sum()), len(spread)


def distances(features: np.ndarray, mean: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """Return the squared Mahalanobis distance ``[m]`` of features from a mean.

    A matrix product rounds as its shape and the machine's threads have it. Here it is of whole numbers, two a factor,
    of as many bits as their sums of products leave exact (21 each for 2,048 features): the value of a row does not
    depend on other rows.

    Args:
        features: ``[m, d]`` float64.
        mean: ``[d]``, of the Gaussian.
        whitening: ``[d, d]``, of the Gaussian.
    """
    bits = (53 - (len(mean) - 1).bit_length()) // 2
    column = _scale(whitening, axis=0)
    high, low = _slices(whitening / column, bits)
    squares = np.zeros(len(features))
    for start in range(0, len(features), _ROWS):
        outside = features[start : start + _ROWS] - mean
        row = _scale(outside, axis=1)
        high_row, low_row = _slices(outside / row, bits)
        white = (high_row @ high) * 2.0 ** (-2 * bits)
        white += (high_row @ low + low_row @ high) * 2.0 ** (-3 * bits)
        white *= column * row
        squares[start : start + _ROWS] = (white**2).sum(axis=1)
    return squares


def _halves(whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the high part of whole numbers, in units of 2**15, and the low one, from 0 to below that."""
    return whole >> _HALF, whole & ((1 << _HALF) - 1)


def _scale(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Return for each row or column the power of two above its largest number."""
    return np.ldexp(1.0, np.frexp(np.abs(matrix).max(axis=axis, keepdims=True))[1])


def _slices(matrix: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of less than 1 as whole multiples of ``2**-bits``, and of its square what is left."""
    scaled = matrix * 2.0**bits
    high = np.rint(scaled)
    return high, np.rint((scaled - high) * 2.0**bits)
