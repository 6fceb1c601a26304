"""Which rows a step has, and which of their texts: decided by seed and step alone.

Nothing is remembered from step to step, so that a training that was cut off goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np

from ...adapters import ImageHandle
from .rows import TrainingRow

_T = TypeVar("_T")
Sampler = Literal["random", "by_image"]
_ORDER, _TEXTS, _FIXED, _NEGATIVE = range(4)
"""What random numbers are for, so that one use does not move another."""


class Batches:
    """The batches of all epochs; a last one that is not whole is left out.

    ``random`` puts rows in a new order each epoch. ``by_image`` puts images in a new order, and the rows of each, and
    cuts the whole into batches: DCI's ImgGroup, in which the rows of an image are each other's negatives.

    Args:
        groups: What rows of one image have in common, by row.
        size: Rows of a batch.
        sampler: Which order.
        seed: Other seeds give other orders.
    """

    def __init__(self, groups: Sequence[str], size: int, sampler: Sampler, seed: int) -> None:
        self._groups = groups
        self._size = size
        self._sampler = sampler
        self._seed = seed
        self._order = lru_cache(maxsize=2)(self._new_order)

    @property
    def in_an_epoch(self) -> int:
        """How many batches an epoch has."""
        return len(self._groups) // self._size

    def rows(self, step: int) -> list[int]:
        """Return the numbers of the rows of a step."""
        epoch, batch = divmod(step, self.in_an_epoch)
        return self._order(epoch)[batch * self._size : (batch + 1) * self._size]

    def _new_order(self, epoch: int) -> list[int]:
        rng = np.random.default_rng((self._seed, _ORDER, epoch))
        order: list[int] = rng.permutation(len(self._groups)).tolist()
        if self._sampler == "random":
            return order
        places: dict[str, int] = {}
        for row in order:
            places.setdefault(self._groups[row], len(places))
        # Images in the order of their first rows would be the more in front the more rows they have.
        ranks = rng.permutation(len(places))
        return sorted(order, key=lambda row: ranks[places[self._groups[row]]])


@dataclass(frozen=True)
class BatchSample:
    """What a step looks at.

    Attributes:
        rows: The rows, ``b`` of them.
        images: Theirs, then further ones.
        texts: ``b * captions`` captions, the negatives, the further ones.
        captions: Of a row.
        with_negative: Numbers of the rows that have one.
        with_image: Numbers of the rows that have a further image.
        with_text: Numbers of the rows that have a further caption.
    """

    rows: Sequence[TrainingRow]
    images: Sequence[ImageHandle]
    texts: Sequence[str]
    captions: int
    with_negative: Sequence[int]
    with_image: Sequence[int]
    with_text: Sequence[int]


@dataclass(frozen=True)
class BatchSampler:
    """Draws what is looked at of rows.

    Attributes:
        captions: Of a row.
        pick: ``first``, or a ``random`` choice, new at each look.
        negatives: Whether the losses look at negatives. Which of several a row has does not change, as in DCI.
        further_images: Whether the losses look at further images.
        further_texts: Whether the losses look at further captions.
        prompt: What stands before each text.
        seed: Other seeds draw otherwise.
    """

    captions: int
    pick: Literal["first", "random"]
    negatives: bool
    further_images: bool
    further_texts: bool
    prompt: str
    seed: int

    def draw(self, rows: Sequence[TrainingRow], step: int | None) -> BatchSample:
        """Return what is looked at of rows at a step, or where that shall not change (None), as for validation."""
        rng = np.random.default_rng((self.seed, _FIXED) if step is None else (self.seed, _TEXTS, step))
        texts = [self.prompt + text for row in rows for text in self._captions(row, rng)]
        images = [row.image for row in rows]
        with_negative, with_image, with_text = (
            [number for number, row in enumerate(rows) if wanted and getattr(row, kind)]
            for kind, wanted in (
                ("negatives", self.negatives),
                ("further_images", self.further_images),
                ("further_captions", self.further_texts),
            )
        )
        texts += [self.prompt + self._negative(rows[number]) for number in with_negative]
        for number in with_image:
            images.append(_one_of(rows[number].further_images, rng))
        texts += [self.prompt + _one_of(rows[number].further_captions, rng) for number in with_text]
        return BatchSample(rows, images, texts, self.captions, with_negative, with_image, with_text)

    def _captions(self, row: TrainingRow, rng: np.random.Generator) -> list[str]:
        if self.pick == "first":
            return list(row.captions[: self.captions])
        return [row.captions[at] for at in rng.permutation(len(row.captions))[: self.captions]]

    def _negative(self, row: TrainingRow) -> str:
        return _one_of(row.negatives, np.random.default_rng((self.seed, _NEGATIVE, *row.id.encode())))


def _one_of(several: Sequence[_T], rng: np.random.Generator) -> _T:
    return several[int(rng.integers(len(several)))]
