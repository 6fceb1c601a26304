"""Greedy, beam and nucleus search, by the library's own ``generate``; what happens between logits and a choice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .contract import CaptionSample, Decoder, Host, Written

if TYPE_CHECKING:
    import torch


NOT_FINITE = "the model's logits are not finite"


class FiniteLogits:
    """Finds samples whose logits are not finite, and ends them.

    A sample that has ended is ignored: the model's output for its padding has no meaning.

    Args:
        end_ids: Tokens that end a caption.
        rows: Rows of the batch that belong to one sample; they lie side by side.

    Attributes:
        start: Tokens that stood in each row before the first was written.
    """

    def __init__(self, end_ids: Sequence[int], rows: int = 1) -> None:
        self.start = 0
        self._end_ids = list(end_ids)
        self._rows = rows
        self._state: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        """End tokens, which rows were faulty, and which have ended; on the device, where nothing waits for them."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores ``[rows, vocabulary]``; of a faulty row, the end is all that is left."""
        import torch

        # NaN and infinity alone make the maximum of a row not finite; so does a row of -inf.
        broken = ~torch.isfinite(scores.amax(-1))
        if self._state is None:
            self.start = input_ids.shape[1]
            ends = torch.tensor(self._end_ids, device=scores.device)
            self._state = ends, torch.zeros_like(broken), torch.zeros_like(broken)
        ends, faulty, ended = self._state
        if self._rows == 1 and input_ids.shape[1] > self.start:
            # Rows of a beam search change places; there it is the search that ends.
            ended |= torch.isin(input_ids[:, -1].to(ends.device), ends)
        faulty |= broken & ~ended
        end_only = torch.full_like(scores[:1], -float("inf"))
        end_only[:, ends[:1]] = 0.0
        return torch.where(broken[:, None], end_only, scores)

    def faulty(self) -> list[bool]:
        """Return which samples had logits that are not finite."""
        return [] if self._state is None else self._state[1].view(-1, self._rows).any(-1).tolist()


class SeededChoice:
    """Samples tokens by each sample's own random numbers, so that other samples change nothing.

    Each token is drawn by inverting the distribution function of its row at one uniform number.

    Args:
        uniforms: ``[rows, steps]`` numbers in [0, 1).
    """

    def __init__(self, uniforms: np.ndarray) -> None:
        import torch

        self._uniforms = torch.from_numpy(uniforms)
        self._step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores ``[rows, vocabulary]`` in which the drawn token alone is possible."""
        import torch

        cumulative = scores.double().softmax(-1).cumsum(-1)
        self._uniforms = self._uniforms.to(scores.device)
        drawn = self._uniforms[:, self._step, None]
        self._step += 1
        chosen = torch.searchsorted(cumulative, drawn * cumulative[:, -1:], right=True)
        # Rounding may put the last number on the end of the distribution.
        chosen = chosen.clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -float("inf")).scatter(1, chosen, 0.0)


def generator_of(seed: int, *names: str) -> np.random.Generator:
    """Return a generator of random numbers that depends on a seed and on names, on nothing else."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode("utf-8", "backslashreplace")).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: Logits are divided by it.
        top_p: Only the most probable tokens that together have this probability are drawn.
        top_k: Only the ``top_k`` most probable tokens are drawn; 0 for all.
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
        more: Additional settings of ``generate``.
    """

    max_new_tokens: int
    num_beams: int = 1
    sampling: Sampling | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:  # pyrefly: ignore[bad-override]
        """Sequences that are computed at once for one sample."""
        return self.num_beams

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``."""
        model_inputs = inputs if inputs is not None else host.inputs(self.samples(samples))
        return self._generate(host, samples, model_inputs, [])

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
            sequences = host.generate(inputs, generation_config=config, logits_processor=processors)
        ends, faulty = set(host.end_ids), guard.faulty()
        return [
            # Of a sample that is there more than once, every row counts.
            Written([], False, NOT_FINITE) if any(faulty[n :: len(samples)]) else _written(ids, ends)
            for n, ids in enumerate(sequences[: len(samples), guard.start :].tolist())
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
            generator_of(sampling.seed, sample.id, sample.prompt).random(self.max_new_tokens)
            for sample in self.samples(samples)
        ]
        return [*warpers, SeededChoice(np.asarray(uniforms))]


def _written(ids: list[int], ends: set[int]) -> Written:
    """Return the tokens before the first end token; those behind it are padding."""
    end = next((place for place, token in enumerate(ids) if token in ends), None)
    return Written(ids[:end], cut=end is None)
