"""CLIP-Precision, CLIP-Recall and CLIP-F1: how far the parts of a caption and of its image represent each other.

Source: Feng et al. 2024, "Do More Details Always Introduce More Hallucinations in LVLM-based Image
Captioning?", sections 4.3 and 5.1. No code was released.

The parts of an image are the crops of its boxes and the whole image; those of a caption are what lies between
the marks ``.``, ``?`` and ``!``, and the whole caption. The cut is plain, as the paper states it: "3.5" and
"e.g." are cut too, the marks go, and a piece without a letter or digit is dropped. Boxes and sentences that
occur twice count twice. Not stated in the paper, and so chosen here: no prompt, cosine as similarity, crops
as they are (those of any size and shape go through the encoder's own transform), and 0 for an empty caption.

``parts="whole"`` is for data sets without boxes: the whole image is then the image's only part, so that recall is
how far the sentences nearest to it represent it, and precision the mean cosine of the text parts with it (in
absolute value). The paper has no such setting, and its numbers are no measure for it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..adapters import ImageHandle
from ..batches import grouped
from ..errors import require_counts
from ..progress import unheard
from .contract import Context, Metric, Need, images_of, kept, require_choice
from .items import Items, Scores
from .vectors.features import image_features, over_context, require_encoder, text_features

_REVISION = 1
"""Raised whenever values that are kept would come out otherwise."""

_PARTS_A_GROUP = 4096
"""Parts of images that are held at a time: 12 MB of features of ViT-L/14."""

_SENTENCE_END = re.compile(r"[.?!]+")


RepresentedPart = tuple[str, str, float, float]
"""A part, the most similar one of the other side, the cosine of the two, and how far that side represents it."""


class _ClipParts(Metric):
    """The computation that the three metrics share through the cache.

    How far parts represent a part: the length of its projection on the span of the ``k`` of them that are most similar
    to it, over its own length, 0 to 1.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, ``f1 [n]``; ``image_parts [n]`` and ``text_parts [n]``
    that they were made of; ``lost_boxes [n]`` that could not be cropped (outside the image, no area) and were
    left out; ``truncated [n]`` 1 where the whole caption is longer than the encoder's context, and cut there.

    Args:
        k: How many parts of the other side represent a part. The paper prints 3, 5 and 10, and 5 where it
            prints one.
        prompt: Put before each text part.
        parts: The parts of an image: the crops of its ``boxes`` and the whole image, as in the paper; or the
            ``whole`` image alone, which needs no boxes and is not the paper's setting.

    Raises:
        ValueError: ``k`` is below 1, or ``parts`` is neither.
    """

    needs: frozenset[Need] = frozenset({"image", "boxes", "encoder"})
    source = "Feng et al. 2024 (CLIP-Precision, CLIP-Recall, CLIP-F1), sections 4.3 and 5.1"
    of: str

    def __init__(self, k: int = 5, prompt: str = "", parts: Literal["boxes", "whole"] = "boxes") -> None:
        require_counts(ValueError, k=k)
        require_choice("parts", parts, ("boxes", "whole"))
        self.k = k
        self.prompt = prompt
        self.parts = parts
        if parts == "whole":
            self.needs = frozenset({"image", "encoder"})
            self.label = f"{self.label} (whole image)"

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings."""
        return {"metric": type(self).__name__, "k": self.k, "prompt": self.prompt, "parts": self.parts}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no encoder.
            AdapterError: The encoder failed as a whole.
        """
        if self.parts == "whole":
            items = replace(items, boxes=[()] * len(items))
        table, failures, remarks = self._table(items, context)
        precision, recall = table[:, 0], table[:, 1]
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)
        parts = {"precision": precision, "recall": recall, "f1": f1}
        values = parts[self.of]
        parts |= dict(zip(("image_parts", "text_parts", "lost_boxes", "truncated"), table[:, 2:].T, strict=True))
        # What could not be scored was not cut either.
        parts["truncated"] = np.nan_to_num(parts["truncated"])
        return Scores(values=values, parts=parts, failures=failures, remarks=remarks)

    def explain(self, items: Items, context: Context) -> tuple[list[RepresentedPart], list[RepresentedPart]]:
        """Return the parts of a caption, whose mean is the precision, and those of its image, whose mean is the recall.

        Args:
            items: The caption alone; it has a score.
            context: Cache and encoder.
        """
        cut, (image,) = [*(items.boxes[0] if self.parts == "boxes" else ()), None], items.images
        texts = text_parts(items.candidates[0])
        handles = [replace(image, box=box) for box in cut if isinstance(image, ImageHandle)]
        images = image_features(handles, context)
        captions = text_features([self.prompt + text for text in texts], context)
        regions = [
            f"box {box}" if box else "whole image" for box, row in zip(cut, images.rows, strict=True) if row >= 0
        ]
        vectors = images.vectors[images.rows[images.rows >= 0]], captions.vectors[captions.rows]
        ((of_images, of_texts),) = proportions([vectors], self.k)

        def parts(
            names: list[str], others: list[str], cosines: np.ndarray, shares: np.ndarray
        ) -> list[RepresentedPart]:
            nearest = [others[at] for at in cosines.argmax(axis=1).tolist()]
            return list(zip(names, nearest, cosines.max(axis=1).tolist(), shares.tolist(), strict=True))

        cosines = vectors[1] @ vectors[0].T
        return parts(texts, regions, cosines, of_texts), parts(regions, texts, cosines.T, of_images)

    def _table(self, items: Items, context: Context) -> tuple[np.ndarray, dict[int, str], dict[int, str]]:
        """Return ``[n, 6]``, failures by item, and remarks on how images were read.

        A row is precision, recall, image parts, text parts, lost boxes, truncated; NaN where an item has none.
        """
        cache = context.cache
        encoder = require_encoder(context).fingerprint()
        settings = {"k": self.k, "prompt": self.prompt, "encoder": encoder}
        producer = {"metric": "clip parts", "revision": _REVISION, **settings}
        keys, failures = self._keys(items)
        first: dict[str, int] = {}
        for item, key in keys.items():
            first.setdefault(key, item)
        remark_producer = {**producer, "remarks": True}
        remarks: dict[str, str] = dict(cache.get(remark_producer, list(first)))
        reasons: dict[str, str] = {}

        def compute(missing: list[str]) -> Iterator[dict[str, list[float]]]:
            # Those of one image side by side, as its parts are encoded once.
            of_image: dict[Any, int] = {}
            wanted = [first[key] for key in missing]
            order = {item: of_image.setdefault(items.images[item].source, item) for item in wanted}
            wanted.sort(key=order.__getitem__)
            for group in grouped(wanted, lambda item: len(items.boxes[item]) + 1, _PARTS_A_GROUP):
                rows, failed, remarked = self._score_group(items, group, context)
                new = {keys[item]: remark for item, remark in remarked.items()}
                cache.put(remark_producer, new)
                remarks.update(new)
                reasons.update({keys[item]: reason for item, reason in failed.items()})
                yield {keys[item]: row for item, row in rows.items()}

        known = kept(cache, producer, first, compute, context.progress, reasons)
        table = np.zeros((len(items), 6))
        table[list(failures)] = np.nan
        for item, key in keys.items():
            table[item] = known.get(key, np.nan)
        failures |= {item: reasons[key] for item, key in keys.items() if key in reasons}
        return table, failures, {item: remarks[key] for item, key in keys.items() if key in remarks}

    def _keys(self, items: Items) -> tuple[dict[int, str], dict[int, str]]:
        """Return the cache keys of items with a caption and an image, and why an item has no image."""
        images, failures = images_of(self, items)
        keys: dict[int, str] = {}
        for item, image in images.items():
            if items.candidates[item].strip():
                try:
                    key = [items.candidates[item], image.digest(), items.boxes[item]]
                    keys[item] = json.dumps(key, ensure_ascii=False)
                except OSError as error:
                    failures[item] = f"image {error.filename or ''}: {error.strerror or error}"
        return keys, failures

    def _score_group(
        self, items: Items, group: list[int], context: Context
    ) -> tuple[dict[int, list[float]], dict[int, str], dict[int, str]]:
        """Return the row of each item, why an item has none, and remarks on its image."""
        context = replace(context, progress=unheard)
        handles: list[ImageHandle] = []
        texts: list[str] = []
        ends = []
        for item in group:
            whole = items.images[item]
            if isinstance(whole, ImageHandle):  # as all are that have a key
                handles += [*(replace(whole, box=box) for box in items.boxes[item]), replace(whole, box=None)]
            texts += [self.prompt + text for text in text_parts(items.candidates[item])]
            ends.append((len(handles), len(texts)))
        images, captions = image_features(handles, context), text_features(texts, context)
        cut = over_context([texts[text - 1] for _, text in ends], context)
        kept, pairs, failures, remarks = [], [], {}, {}
        first_image, first_text = 0, 0
        for number, (item, (end_image, end_text)) in enumerate(zip(group, ends, strict=True)):
            image_rows, text_rows = images.rows[first_image:end_image], captions.rows[first_text:end_text]
            # The whole image and the whole caption come last.
            lost_text = next((at for at in range(first_text, end_text) if at in captions.failures), None)
            if end_image - 1 in images.failures:
                failures[item] = images.failures[end_image - 1]
            elif lost_text is not None:
                failures[item] = captions.failures[lost_text]
            else:
                if end_image - 1 in images.remarks:
                    remarks[item] = images.remarks[end_image - 1]
                read = image_rows[image_rows >= 0]
                pairs.append((images.vectors[read], captions.vectors[text_rows]))
                kept.append((item, [len(read), len(text_rows), len(image_rows) - len(read), int(cut[number])]))
            first_image, first_text = end_image, end_text
        rows = {}
        for (item, counts), (of_images, of_texts) in zip(kept, proportions(pairs, self.k), strict=True):
            rows[item] = [float(of_texts.mean()), float(of_images.mean()), *counts]
        return rows, failures, remarks


class ClipPrecision(_ClipParts):
    """Mean over text parts of how far the image parts most similar to each represent it (0-1)."""

    label = "CLIP-Precision"
    of = "precision"


class ClipRecall(_ClipParts):
    """Mean over image parts of how far the text parts most similar to each represent it (0-1)."""

    label = "CLIP-Recall"
    of = "recall"


class ClipF1(_ClipParts):
    """Harmonic mean of an image's CLIP-Precision and CLIP-Recall; the system value is the mean over images."""

    label = "CLIP-F1"
    of = "f1"


def text_parts(caption: str) -> list[str]:
    """Return the sentences of a caption, cut at ``.``, ``?`` and ``!``, then the caption itself."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(caption))
    return [*(piece for piece in pieces if any(map(str.isalnum, piece))), caption.strip()]


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
    # One for all chunks: to allocate such a piece of memory takes longer than to fill it.
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
        there: ``[k, r]`` whether a vector has that many members.

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
        member, other = np.divmod(alike - starts[of_pair], counts[of_pair])
        # Members that are equal have a cosine of 1; the converse need not hold.
        for pair, a, b in np.stack([of_pair, member, other], axis=1)[member < other].tolist():
            if np.array_equal(members[pair][a], members[pair][b]):
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
