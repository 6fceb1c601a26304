"""MID: Mutual Information Divergence, how much more a caption and its image say of each other than by chance."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..errors import MetricError
from .contract import Context, Metric, Need
from .items import Items, Scores
from .vectors.features import Features, image_features, over_context, text_features


class Mid(Metric):
    """Pointwise mutual information of a caption's and its image's features, both taken to be Gaussian.

    With Mahalanobis distances D² from the means, and z both features joined: the mutual information of the two
    Gaussians, half of ``ln det Sx + ln det Sy - ln det Sz``, plus half of ``D²(x) + D²(y) - D²(z)``. Features
    have norm 1; sums are in double precision; covariances are over ``n - 1``.

    The released code scores images made from texts: real images and their texts give the Gaussians, the made
    images are scored. How captions are scored (which captions give the Gaussians on Flickr8k, Pascal-50S and
    FOIL) is not released; ``gaussian`` names the two ways there are.

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
    corpus_dependent = True
    aggregation = "corpus"
    source = "Kim et al., NeurIPS 2022; naver-ai/mid.metric metrics/mid.py"

    def __init__(
        self, gaussian: Literal["references", "candidates"] = "references", eps: float = 0.0
    ) -> None:
        if gaussian not in ("references", "candidates"):
            raise ValueError(f"unknown gaussian '{gaussian}'; it is 'references' or 'candidates'")
        if not eps >= 0:
            raise ValueError(f"eps is {eps!r}; it is a number of at least 0")
        self.gaussian = gaussian
        self.eps = float(eps)
        if gaussian == "candidates":
            self.needs = frozenset({"image", "encoder"})

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings."""
        return {"metric": type(self).__name__, "gaussian": self.gaussian, "eps": self.eps}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no encoder, or there are too few pairs for the size of its features.
            AdapterError: The encoder failed as a whole.
        """
        images = image_features(items.images, context)  # type: ignore[arg-type] - a video has no image features
        candidates = text_features(items.candidates, context)
        failures = candidates.failures | images.failures
        scored = np.flatnonzero((images.rows >= 0) & (candidates.rows >= 0))
        information, distance = np.full((2, len(items)), np.nan)
        if len(scored):
            x, y = _of_pairs(
                images, candidates, np.stack([images.rows[scored], candidates.rows[scored]], axis=1)
            )
            if self.gaussian == "references":
                real = _reference_pairs(items, images, context)
            else:
                real = _of_pairs(images, candidates, _unique(images.rows[scored], candidates.rows[scored]))
            information[scored], distance[scored] = pointwise_information(*real, x, y, self.eps)
        return Scores(
            values=information + distance,
            parts={
                "information": information,
                "distance": distance,
                "truncated": over_context(items.candidates, context).astype(np.float64),
            },
            failures=failures,
            remarks=images.remarks,
        )

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
    n, d = real_x.shape
    if n <= 2 * d:
        raise MetricError(
            f"MID needs more pairs of images and captions than there are numbers in the features of both: {n:,} "
            f"pairs, {2 * d:,} numbers.",
            "Score more captions together, or use an encoder with smaller features; with 'gaussian: references' "
            "each reference is a pair.",
        )
    information, distance = 0.0, np.zeros(len(x))
    for sign, what, real, scored in (
        (0.5, "images", real_x, x),
        (0.5, "captions", real_y, y),
        (-0.5, "both together", np.concatenate([real_x, real_y], axis=1), np.concatenate([x, y], axis=1)),
    ):
        mean = real.mean(axis=0)
        centred = real - mean
        covariance = centred.T @ centred / (n - 1)
        spread = np.linalg.svd(covariance, compute_uv=False)
        # As numpy.linalg.matrix_rank has it: what lies below is rounding, whose logarithm means nothing.
        rank = int(np.count_nonzero(spread > spread[0] * len(spread) * np.finfo(np.float64).eps))
        if rank < len(spread):
            raise MetricError(
                f"MID has no value: the covariance of the features of {what} has no inverse, as its rank is "
                f"{rank:,} of {len(spread):,}.",
                "Features of few different images or captions depend on one another: score more of them together.",
            )
        information += sign * float(np.log(spread).sum())
        outside = scored - mean
        solved = np.linalg.solve(covariance + eps * np.eye(len(covariance)), outside.T)
        distance += sign * np.einsum("ij,ji->i", outside, solved)
    return information, distance


def _reference_pairs(items: Items, images: Features, context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return the features ``[n, d]`` of images and of their references, each pair once."""
    sets, set_of_item = items.reference_sets
    flat = [text for references in sets for text in references]
    texts = text_features(flat, context)
    sizes = np.array([len(references) for references in sets])
    starts = np.cumsum(sizes) - sizes
    of_set = [texts.rows[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    # Items of one image share its references.
    rows = {
        (image, its_set) for image, its_set in zip(images.rows.tolist(), set_of_item.tolist(), strict=True)
    }
    image_rows = [np.full(sizes[its_set], image) for image, its_set in sorted(rows)]
    text_rows = [of_set[its_set] for _, its_set in sorted(rows)]
    return _of_pairs(images, texts, _unique(np.concatenate(image_rows), np.concatenate(text_rows)))


def _unique(image_rows: np.ndarray, text_rows: np.ndarray) -> np.ndarray:
    """Return the different pairs ``[n, 2]`` of rows of features, less those that lack either."""
    pairs = np.stack([image_rows, text_rows], axis=1)
    return np.unique(pairs[(pairs >= 0).all(axis=1)], axis=0)


def _of_pairs(images: Features, texts: Features, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images.vectors[pairs[:, 0]].astype(np.float64), texts.vectors[pairs[:, 1]].astype(np.float64)
