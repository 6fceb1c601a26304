"""Choices, gathered into shards and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...inputs.items import CaptionRow, SeenValues, gathered, item_key
from ..checks import DataCheck, run_checks
from ..job import Job, Shard, caption_content, numbers_of
from .choices import Choice


class FoundChoices:
    """Counts what shards hold.

    Attributes:
        pairs: How many pairs there are.
        parts: How many documents they are made of.
        categories: Number of each category, in the order in which they come.
        systems: Number of each system, likewise; empty where the data does not say what wrote the captions.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.pairs = self.parts = 0
        self.categories: dict[str, int] = {}
        self.systems: dict[str, int] = {}
        self._pairs_of: Counter[str] = Counter()
        self._items, self._images = SeenValues(), SeenValues()

    def add(self, pairs: Sequence[Choice], samples: Sequence[CaptionRow]) -> None:
        """Count the pairs of a shard."""
        self.pairs += len(pairs)
        self._pairs_of.update(pair.category for pair in pairs)
        self.parts += sum(len(pair.parts) for pair in pairs)
        for pair in pairs:
            self.categories.setdefault(pair.category, len(self.categories))
            for system in pair.systems:
                self.systems.setdefault(system, len(self.systems))
        if self._job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self._job.task.checks.images is not None:
            self._images.add(pair.image for pair in pairs)

    def checks(self) -> list[DataCheck]:
        """Hold the counts against what the task expects."""
        return run_checks(
            self._job,
            categories=self._pairs_of,
            documents=len(self._job.documents.rows),
            rows=self.pairs,
            items=len(self._items),
            images=len(self._images),
        )


def shard_of(pairs: Sequence[Choice], samples: Sequence[CaptionRow], found: FoundChoices) -> Shard:
    """Return a shard of choices.

    Args:
        pairs: The choices.
        samples: Their captions, in the order of choices, parts and draws.
        found: What was found so far, these included: it numbers categories and systems.
    """
    items, item_of_sample, numbers = gathered(samples)
    columns: dict[str, Sequence[Any]] = {
        "id": [pair.id for pair in pairs],
        "image": [pair.image for pair in pairs],
        "category": [pair.category for pair in pairs],
        "preferred": [pair.preferred for pair in pairs],
        "shares": [list(pair.shares) for pair in pairs],
        "candidates": [
            [" ".join(texts) for texts in zip(*(part.captions for part in pair.parts), strict=True)]
            for pair in pairs
        ],
    }
    numbered = {
        "image": numbers_of(pair.image for pair in pairs),
        "category": np.array([found.categories[pair.category] for pair in pairs]),
        "captions": np.array([len(pair.shares) for pair in pairs]),
        "shares": np.array([share for pair in pairs for share in pair.shares]),
        "parts": np.array([len(pair.parts) for pair in pairs]),
    }
    if found.systems:
        columns["systems"] = [list(pair.systems) for pair in pairs]
        numbered["systems"] = np.array([found.systems[name] for pair in pairs for name in pair.systems])
    for name in pairs[0].verdicts:
        numbered[f"verdict.{name}"] = np.array([share for pair in pairs for share in pair.verdicts[name]])
    content: list[Any] = [caption_content(sample, []) for sample in samples]
    # Of a plain preference only captions are told, in their order.
    content += [_judged(pair) for pair in pairs if set(pair.shares) != {0.0, 1.0} or pair.systems]
    return Shard(items, item_of_sample, columns, numbered, content, numbers)


def _judged(pair: Choice) -> list[Any]:
    """Return what is known of a choice besides its captions, as JSON values."""
    return [list(pair.shares), list(pair.systems), {name: list(one) for name, one in pair.verdicts.items()}]
