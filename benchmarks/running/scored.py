"""What was scored, and the scores: what statistics, the record and the samples of a run are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..inputs.failures import Failure
from ..inputs.models import ModelFacts
from ..protocols.results import ScoredMetric
from ..records.samples import Samples
from .shards.gathering import Gathering


@dataclass(frozen=True)
class Scored:
    """What was scored, and the scores.

    Attributes:
        gathering: What was scored.
        metrics: The scores of each metric.
        seconds: How long each took.
        remarks: What metrics remark.
        facts: What is known of the models that were used, by their role.
        rows: Metric to ``[n]`` values of samples.
        samples: What is written of these.
    """

    gathering: Gathering
    metrics: Sequence[ScoredMetric]
    seconds: Mapping[str, float]
    remarks: Sequence[Failure]
    facts: Mapping[str, ModelFacts]
    rows: Mapping[str, np.ndarray]
    samples: Samples
