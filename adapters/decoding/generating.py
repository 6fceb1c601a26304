"""Greedy, beam and nucleus search, by the library's own ``generate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .contract import CaptionSample, Decoder, Host, Written
from .processors import FiniteLogits, SeededChoice, generator_of

if TYPE_CHECKING:
    import torch

NOT_FINITE = "the model's logits are not finite"


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: Logits are divided by it.
        top_p: Only the most probable tokens that together have this probability are drawn.
        top_k: Only so many of the most probable tokens are drawn; 0 for all.
        seed: Other seeds give other captions.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Generating(Decoder):
    """Greedy search; beam search with ``num_beams``; drawing tokens with ``sampling``.

    Attributes:
        max_new_tokens: Tokens that a caption may have.
        num_beams: Width of the beam.
        sampling: How tokens are drawn; None takes the most probable.
        more: Further settings of ``generate``.
    """

    max_new_tokens: int
    num_beams: int = 1
    sampling: Sampling | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Sequences that are computed at once for one sample."""
        return self.num_beams

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``."""
        given = inputs if inputs is not None else host.inputs(self.samples(samples))
        return self._generate(host, samples, given, [])

    def _generate(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor], first: list[Any]
    ) -> list[Written]:
        """Run ``generate``; the logits pass the processors ``first`` before tokens are chosen."""
        import torch
        from transformers import LogitsProcessorList

        guard = FiniteLogits(host.end_ids, self.num_beams)
        config = host.generation_config(
            max_new_tokens=host.room(inputs, self.max_new_tokens), num_beams=self.num_beams, **self.more
        )
        processors = LogitsProcessorList([guard, *first, *self._warpers(samples)])
        with torch.inference_mode():
            found = host.generate(inputs, generation_config=config, logits_processor=processors)
        ends, faulty = set(host.end_ids), guard.faulty()
        return [
            # Of a sample that is there more than once, every row counts.
            Written([], False, NOT_FINITE) if any(faulty[n :: len(samples)]) else _written(ids, ends)
            for n, ids in enumerate(found[: len(samples), guard.start :].tolist())
        ]

    def _warpers(self, samples: Sequence[CaptionSample]) -> list[Any]:
        from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

        if (sampling := self.sampling) is None:
            return []
        warpers: list[Any] = []
        if sampling.temperature != 1:
            warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k:
            warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p < 1:
            warpers.append(TopPLogitsWarper(float(sampling.top_p)))
        uniforms = [
            generator_of(sampling.seed, one.id, one.prompt).random(self.max_new_tokens) for one in self.samples(samples)
        ]
        return [*warpers, SeededChoice(np.asarray(uniforms))]


def _written(ids: list[int], ends: set[int]) -> Written:
    """Return what stands before the first end token; what follows it is padding."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    return Written(ids[:end], cut=end is None)
