"""Differentiated beam decoding: facts of an image are searched side by side, chosen from, and summed up.

Section 4.2 and appendix A.2 of "Do More Details Always Introduce More Hallucinations in LVLM-based Image
Captioning?". What it leaves open is settled so:

- The words and the formula of the differential score differ: the mean cosine of all pairs of tokens, which is
  the formula, is not the cosine of mean vectors. The formula is taken.
- The hidden state of a token is that of the last layer, after its norm, where the token is the input.
- The first step starts from one empty candidate: n copies of it would have the same continuations n times.
- A fact that is complete has its end token: it counts in the log-likelihood, the differential score and the length.
- A complete fact is none of the next-step candidates, so later picks are not compared with it.
- The first fact that is selected has "the highest pure likelihood" by the words, the highest per token by the formula
  (which has 1/|y| for the first, too). The formula is taken; which of the two the numbers were made with is open.
- Of equal scores the first counts: by candidate, then by the token's rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import AdapterError, did_you_mean
from ...rows import load_yaml
from .contract import PLAIN_REMEDY, CaptionSample, Decoder, Host, Written, first_pass
from .generating import NOT_FINITE, Generating

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class UnitFact:
    """A sequence that was searched: a unit fact, complete or in progress.

    Attributes:
        ids: Its tokens.
        log_likelihood: Of all of them, given image and prompt.
        direction: ``[d]`` mean of the unit vectors of its tokens' hidden states; float64.
    """

    ids: tuple[int, ...]
    log_likelihood: float
    direction: np.ndarray = field(compare=False)

    def continued(self, token: int, gained: float, unit: np.ndarray) -> UnitFact:
        """Return the sequence with one token more."""
        length = len(self.ids)
        direction = (self.direction * length + unit) / (length + 1) if length else unit
        return UnitFact((*self.ids, token), self.log_likelihood + gained, direction)


@dataclass(frozen=True)
class FactPrompts:
    """The prompts of the model.

    Attributes:
        search: While facts are searched.
        summary: When they are summed up; they follow, one a line.
        settings: The paper's search settings for these prompts, where they differ from the defaults.
    """

    search: str
    summary: str
    settings: Mapping[str, float] = field(default_factory=dict, compare=False)

    @classmethod
    @cache
    def named(cls, name: str) -> FactPrompts:
        """Return the prompts of ``dbd_prompts.yaml`` by their name.

        Raises:
            AdapterError: There are none of that name.
        """
        known = load_yaml(Path(__file__).parent / "dbd_prompts.yaml")
        if name not in known:
            raise AdapterError(
                f"dbd_prompts={name} is not known.{did_you_mean(name, known)}", f"Known are {', '.join(known)}."
            )
        return cls(**known[name])


@dataclass(frozen=True)
class DifferentiatedBeams(Decoder):
    """Facts by differentiated parallel search and post-search selection, then a summary.

    The task's own prompt is not used: both prompts are the strategy's. Defaults are the paper's for LLaVA-1.5
    and mPLUG-Owl2 (section 5.1), but for ``max_fact_tokens``, which it does not state; those for MiniGPT-4 come with
    its prompts.

    Attributes:
        summary: How the caption is written from the facts.
        beams: Candidates that are searched side by side (n).
        top_k: Next tokens that each of them is continued by (K).
        alpha: Weight of the differential score in the first steps (alpha_t).
        alpha_steps: How many these are.
        later_alpha: Its weight in later ones.
        max_fact_tokens: Steps of the search.
        selection_alpha: Weight of the differential score in the selection.
        facts: Facts that are summed up.
        prompts: The prompts of the model.
    """

    summary: Generating
    beams: int = 5
    top_k: int = 6
    alpha: float = 10.0
    alpha_steps: int = 3
    later_alpha: float = 5.0
    max_fact_tokens: int = 64
    selection_alpha: float = 5.0
    facts: int = 10
    prompts: FactPrompts = field(default_factory=lambda: FactPrompts.named("default"))

    takes_inputs = False

    @property
    def rows(self) -> int:  # pyrefly: ignore[bad-override]
        """What a sample counts in a batch: facts are searched image by image, summaries written together."""
        return self.beams

    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write captions; see ``Decoder.write``.

        Raises:
            AdapterError: The model is not decoder-only.
        """
        written: dict[int, Written] = {}
        summaries: dict[int, CaptionSample] = {}
        for place, sample in enumerate(samples):
            facts = self.search(host, sample)
            if facts is None:
                written[place] = Written([], False, NOT_FINITE)
            elif not facts:
                written[place] = Written(
                    [], False, f"no fact was complete within dbd_max_fact_tokens={self.max_fact_tokens} tokens"
                )
            else:
                texts = [host.text(fact.ids).strip() for fact in self.select(facts)]
                summaries[place] = replace(sample, prompt="\n".join([self.prompts.summary, *texts]))
        if summaries:
            of_summaries = self.summary.write(host, list(summaries.values()))
            written |= dict(zip(summaries, of_summaries, strict=True))
        return [written[place] for place in range(len(samples))]

    def weight(self, step: int) -> float:
        """Return alpha_t, the weight of the differential score in a step, counted from 1."""
        return self.alpha if step <= self.alpha_steps else self.later_alpha

    def search(self, host: Host, sample: CaptionSample) -> list[UnitFact] | None:
        """Search unit facts: phase 1, differentiated parallel search.

        Returns:
            The complete facts, in the order in which they were completed; None if the logits are not finite.

        Raises:
            AdapterError: The model is not decoder-only.
        """
        import torch

        def loop(model: Any, input_ids: torch.Tensor, **settings: Any) -> list[UnitFact] | None:
            if model.config.is_encoder_decoder:
                raise AdapterError("decoding=dbd needs a decoder-only model.", PLAIN_REMEDY)
            return self._search(_Steps(model, input_ids, settings), set(host.end_ids))

        with torch.inference_mode():
            return host.generate(
                host.inputs([replace(sample, prompt=self.prompts.search)]),
                generation_config=host.generation_config(max_new_tokens=self.max_fact_tokens),
                custom_generate=loop,
            )

    def _search(self, steps: _Steps, ends: set[int]) -> list[UnitFact] | None:
        import torch

        complete: list[UnitFact] = []
        # At first one empty candidate, which has no direction yet.
        candidates = [UnitFact((), 0.0, np.zeros(0))]
        for step in range(1, self.max_fact_tokens + 1):
            log_probabilities = steps.log_probabilities()
            if not bool(torch.isfinite(log_probabilities.amax(-1)).all()):
                return None
            likely = log_probabilities.topk(min(self.top_k, log_probabilities.shape[-1]))
            parents = [number for number in range(len(candidates)) for _ in range(likely.indices.shape[1])]
            tokens = likely.indices.flatten()
            hidden = steps.advance(parents, tokens)
            sub_candidates = [
                candidates[parent].continued(token, gained, direction)
                for parent, token, gained, direction in zip(
                    parents, tokens.tolist(), likely.values.flatten().tolist(), hidden, strict=True
                )
            ]
            kept, ended = self.pick(sub_candidates, self.weight(step), ends)
            complete += [sub_candidates[number] for number in ended]
            candidates = [sub_candidates[number] for number in kept]
            if not candidates:
                break
            steps.keep(kept)
        return complete

    def pick(self, sub_candidates: Sequence[UnitFact], weight: float, ends: set[int]) -> tuple[list[int], list[int]]:
        """Pick the next-step candidates, one after another.

        The first has the highest log-likelihood; each later one the highest hybrid score,
        ``log p(y | v, x) + alpha_t sum_k d(y, y_k)`` over the candidates picked before. What ends is complete
        and makes room for the next.

        Args:
            sub_candidates: All continuations.
            weight: alpha_t.
            ends: Tokens that end a fact.

        Returns:
            The numbers of the candidates, and of the complete facts, in the order in which they were picked.
        """
        kept: list[int] = []
        ended: list[int] = []
        for number in _picks(sub_candidates, [candidate.log_likelihood for candidate in sub_candidates], weight, kept):
            (ended if sub_candidates[number].ids[-1] in ends else kept).append(number)
            if len(kept) == self.beams:
                break
        return kept, ended

    def select(self, facts: Sequence[UnitFact]) -> list[UnitFact]:
        """Select the facts that are summed up: phase 2, post-search selection.

        One after another, the fact with the highest ``log p(y | v, x) / |y| + alpha sum_k d(y, y_k)`` over the
        facts selected before.
        """
        selected: list[int] = []
        scores = [fact.log_likelihood / len(fact.ids) for fact in facts]
        for number in _picks(facts, scores, self.selection_alpha, selected):
            selected.append(number)
            if len(selected) == self.facts:
                break
        return [facts[number] for number in selected]


def _picks(facts: Sequence[UnitFact], scores: Sequence[float], weight: float, picked: list[int]) -> Iterator[int]:
    """Yield the number with the highest score, then the next; what is in ``picked`` by then lowers scores.

    The differential score of two facts, ``d = -1 / (L1 L2) sum_ij cos(h_i, h_j)``, is minus the product of their
    directions.
    """
    if not facts:
        return
    directions = np.stack([fact.direction for fact in facts])
    hybrid = np.array(scores, dtype=np.float64)
    counted = 0
    for _ in range(len(facts)):
        for number in picked[counted:]:
            hybrid -= weight * (directions @ directions[number])
        counted = len(picked)
        best = int(hybrid.argmax())
        yield best
        hybrid[best] = -float("inf")


class _Steps:
    """The model, one token at a time, over rows that branch and fall away.

    Args:
        model: The model of transformers.
        input_ids: ``[1, prompt]``.
        settings: The inputs that ``generate`` prepared for a custom loop.
    """

    def __init__(self, model: Any, input_ids: torch.Tensor, settings: Mapping[str, Any]) -> None:
        self._model = model
        self._device = input_ids.device
        outputs, self._positions = first_pass(model, input_ids, settings)
        self._take(outputs)
        # Row of the cache that each candidate continues.
        self._rows = [0]

    def log_probabilities(self) -> torch.Tensor:
        """Return ``[candidates, vocabulary]`` of the next token."""
        return self._logits.float().log_softmax(-1)

    def advance(self, parents: Sequence[int], tokens: torch.Tensor) -> np.ndarray:
        """Let candidates branch, and read one token more in each.

        Args:
            parents: The candidate that each branch continues.
            tokens: ``[branches]`` their next tokens.

        Returns:
            ``[branches, d]`` unit vectors of the tokens' hidden states, in float64.
        """
        import torch

        rows = torch.tensor([self._rows[parent] for parent in parents], device=self._device)
        self._cache.batch_select_indices(rows)
        inputs: dict[str, Any] = {"input_ids": tokens[:, None].to(self._device)}
        if self._positions is not None:
            self._positions = self._positions[..., -1:] + 1
            # [1, 1], or [dimensions, 1, 1] where images have separate positions.
            shape = self._positions.shape[:-2]
            inputs["position_ids"] = self._positions.expand(*shape, len(parents), 1)
        outputs = self._model(
            **inputs, past_key_values=self._cache, use_cache=True, output_hidden_states=True, return_dict=True
        )
        self._take(outputs)
        self._rows = list(range(len(parents)))
        hidden = outputs.hidden_states[-1][:, -1].double().cpu().numpy()
        return hidden / np.linalg.norm(hidden, axis=-1, keepdims=True)

    def keep(self, branches: Sequence[int]) -> None:
        """Let the branches that are not named fall away; those that are become the candidates, in that order."""
        self._rows = list(branches)
        self._logits = self._logits[list(branches)]

    def _take(self, outputs: Any) -> None:
        self._logits = outputs.logits[:, -1]
        self._cache = outputs.past_key_values
