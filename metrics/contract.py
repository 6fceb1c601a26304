"""The contract of a metric, and what it is given to work with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from ..adapters import Encoder, Judge
from ..progress import Reporter, unheard
from .items import Items, Scores

Need = Literal["references", "image", "boxes", "objects", "encoder", "judge"]
"""What an item (references, image, boxes, objects) or the context (encoder, judge) must offer."""


class Cache(Protocol):
    """Keeps what is costly to compute: JSON values, or arrays, by producer and input.

    ``producer`` says what made the value, with everything that can change it; ``inputs`` are the
    texts that it was made from, or the digests of what is no text.
    """

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return the values that are known, by input."""
        ...

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep values by input; durable when the call returns."""
        ...

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays that are known, by input."""
        ...

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays by input; durable when the call returns."""
        ...


class NoCache:
    """A cache that knows nothing and keeps nothing."""

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return no values."""
        return {}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep nothing."""

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return no arrays."""
        return {}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep nothing."""


@dataclass(frozen=True)
class Context:
    """What a metric may use while it scores.

    Attributes:
        cache: Where costly results are kept.
        progress: Called with (done, total) as items are finished.
        encoder: The dual encoder under test, for metrics that need one.
        judge: The text model that judges, for metrics that need one.
    """

    cache: Cache = field(default_factory=NoCache)
    progress: Reporter = unheard
    encoder: Encoder | None = None
    judge: Judge | None = None


class Metric(ABC):
    """Scores captions one by one.

    A subclass takes its settings as keyword arguments, each with a default, and names itself by the
    class attributes below.
    """

    label: str
    """The name in the field's spelling, as papers print it (``"BLEU-4"``)."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value."""
    higher_is_better: bool = True
    needs: frozenset[Need] = frozenset()
    """What must be there for it."""
    encoder_family: str | None = None
    """The family of encoders that it is defined with (``Encoder.family``); None for any."""
    source: str
    """Paper and released code that define the metric."""
    corpus_dependent: bool = False
    """Whether an item's value depends on the other items."""
    splits_words: bool = False
    """Whether it counts or compares words, which it finds by the spaces between them."""
    aggregation: Literal["mean", "corpus"] = "mean"
    """How system-level numbers are made in the field: the mean, or the metric's own corpus value."""
    data_files: frozenset[str] = frozenset()
    """Arguments that name a file; a relative path is one in the data set's folder."""
    set_by_data: frozenset[str] = frozenset()
    """Arguments that the field sets for each data set: whatever they are, the metric is as papers print it."""

    def check(self) -> None:  # noqa: B027 - most metrics need nothing from the machine
        """Raise if the machine lacks what the metric needs.

        Raises:
            MetricError: Something is missing; the hint says how to get it.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a value: settings and the version of what computes it."""
        return {"metric": type(self).__name__, **{k: v for k, v in vars(self).items() if k[0] != "_"}}

    @abstractmethod
    def score(self, items: Items, context: Context) -> Scores:
        """Score each item.

        Args:
            items: ``n`` items; texts are raw.
            context: Cache, progress, models.

        Returns:
            Scores with ``values [n]``.

        Raises:
            MetricError: Nothing could be scored.
        """

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        """Return the system-level value of scored items.

        Args:
            scores: What ``score`` returned; an item without a value has weight 0.
            weights: ``[n]`` how often each item counts.

        Returns:
            The weighted mean, unless the metric defines a corpus value of its own.
        """
        counted = weights > 0
        return float(np.average(scores.values[counted], weights=weights[counted]))
