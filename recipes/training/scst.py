"""The SCST trainer, which raises the probability of a captioner's captions with higher rewards."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from ...adapters.contracts import Writing
from ...errors import UsageError
from .captioning import CaptionerSettings, CaptionerTrainer
from .contract import TrainingCall
from .loop import SteppedTrainer
from .rewards import RewardParts, Rewards, RewardValues
from .rows import TrainingRow
from .schema import Positive
from .towers import saved_bytes, seed_of

Baseline = Literal["mean", "leave_one_out", "greedy"]
LengthNorm = Literal["none", "tokens", "longest", "batch"]


def advantages(rewards: np.ndarray, baseline: Baseline, greedy: np.ndarray | None = None) -> np.ndarray:
    """Return the advantage of each caption over the baseline of its image; 0 if it has no value.

    ``mean``: the mean reward of the image's captions, the caption's own included. ``leave_one_out``: that of the
    others; of ``l`` captions with a value it is ``l / (l - 1)`` times the former. ``greedy``: the reward of the caption
    that greedy search writes.

    Args:
        rewards: ``[b, l]``; NaN where a caption has no value.
        baseline: The kind of baseline.
        greedy: ``[b]`` the rewards of greedy captions, for the baseline of that name.

    Raises:
        ValueError: The baseline is ``greedy``, and ``greedy`` is missing.
    """
    has_value = np.isfinite(rewards)
    known = np.where(has_value, rewards, 0.0)
    if baseline == "greedy":
        if greedy is None:
            raise ValueError("baseline 'greedy' needs the rewards of greedy captions")
        gains = known - greedy[:, None]
    else:
        count = has_value.sum(1, keepdims=True)
        gains = known - known.sum(1, keepdims=True) / np.maximum(count, 1)
        if baseline == "leave_one_out":
            gains = gains * count / np.maximum(count - 1, 1)
    return np.where(has_value & np.isfinite(gains), gains, 0.0)


def scst_loss(
    log_probs: torch.Tensor,
    lengths: torch.Tensor,
    advantage: torch.Tensor,
    captions: int,
    norm: LengthNorm,
    longest: int,
    tokens: int,
) -> torch.Tensor:
    """Return the contribution of some captions to the loss of a batch; its gradient is that of equation 19.

    ``-(1/n) Σ_i A_i s_i``, with ``s_i`` the sum of the caption's log-probabilities (``none``), their mean
    (``tokens``), or the sum divided by the maximum length (``longest``); ``batch`` is one mean over all tokens of the
    batch.

    Args:
        log_probs: ``[m, t]``; 0 after the end of a caption.
        lengths: ``[m]`` the number of tokens of each.
        advantage: ``[m]``.
        captions: ``n``, of the whole batch.
        norm: The kind of normalisation.
        longest: Maximum length of a caption in tokens.
        tokens: Number of tokens in the whole batch.
    """
    sums = log_probs.sum(1)
    if norm == "batch":
        return -(advantage * sums).sum() / tokens
    if norm == "tokens":
        sums = sums / lengths
    elif norm == "longest":
        sums = sums / longest
    return -(advantage * sums).sum() / captions


class ScstSettings(CaptionerSettings):
    """The objective of self-critical sequence training."""

    reward: RewardParts
    """A metric, or several for a weighted sum."""
    captions: Positive = 5
    """``l``, the number of captions per image."""
    candidates: Literal["beams", "samples"] = "beams"
    """The best captions of a beam search, or sampled captions."""
    baseline: Baseline = "mean"
    """What a caption's reward is compared with; see ``advantages``."""
    length_norm: LengthNorm = "none"
    """Normalisation of a caption's log-probability; see ``scst_loss``."""
    dropout: bool = False
    """Whether the pass with gradients uses the model's dropout."""


class ScstTrainer(CaptionerTrainer, SteppedTrainer):
    """Trains a captioner on its own captions; see ``Trainer`` and ``ScstSettings``.

    Each step generates ``l`` captions per image without gradients, scores them, and runs one pass with gradients.
    Captions without a value have advantage 0; ``unscored`` reports their number per step.

    Sources: Rennie et al. 2017; Sarto et al. 2024 (PAC-S++), equations 17 to 19.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data, its model or a metric of the reward are invalid.
    """

    Settings = ScstSettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings = settings = call.loaded.settings(self.Settings)
        if settings.captions < 2 and settings.baseline != "greedy":
            raise UsageError(
                f"objective.captions: baseline '{settings.baseline}' compares captions of an image; 1 is too few.",
                "Set 2 or more, or 'baseline: greedy'.",
            )
        super().__init__(call, settings)
        self.rewarded = settings.reward
        self._rewards = Rewards(settings.reward, self.rows.rows, call.processes.device)
        self._writing = Writing(settings.captions, settings.candidates == "samples", settings.tokens)

    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step; see ``Trainer.backward``."""
        settings, rows = self._settings, self.processes.share(self.rows_of(step))
        inputs = [self.inputs(piece) for piece, _ in self.pieces(rows)]
        self.read_ahead(self.processes.share(self.rows_of(step + 1)))
        written = self._written(inputs, self._writing, step)
        rewards = self._scored(rows, written, settings.captions)
        greedy = None
        if settings.baseline == "greedy":
            greedy = self._scored(rows, self._written(inputs, Writing(1, False, settings.tokens), step), 1).total
        better = advantages(rewards.total.reshape(len(rows), settings.captions), settings.baseline, greedy)
        tokens, unscored = sum(map(len, written)), int((~np.isfinite(rewards.total)).sum())
        (all_tokens,) = self.processes.total([tokens])
        gains = torch.tensor(better.ravel(), dtype=torch.float32, device=self.trainable.device)
        captions, loss = self.pieces(rows, written), 0.0
        parts = zip(inputs, captions, gains.split([len(these) for _, these in captions]), strict=True)
        for number, (of_images, (_, these), advantage) in enumerate(parts):
            self.learning(step, 1, number)
            part = self._loss(of_images, these, advantage, round(all_tokens))
            part.backward()
            loss += part.item()
        self.processes.add_up(self.parameters.values())
        return self._report(loss, tokens, unscored, rewards)

    def _loss(
        self, inputs: dict[str, torch.Tensor], written: Sequence[list[int]], advantage: torch.Tensor, tokens: int
    ) -> torch.Tensor:
        settings = self._settings
        lengths = torch.tensor([len(ids) for ids in written], device=self.trainable.device)
        with self.lower():
            log_probs = self.trainable.log_probs(inputs, written)
        captions = settings.batch * settings.captions
        return scst_loss(log_probs, lengths, advantage, captions, settings.length_norm, settings.tokens, tokens)

    def _report(self, loss: float, tokens: int, unscored: int, rewards: RewardValues) -> dict[str, float]:
        """Return the report of a step: means over all captions with a value, of all processes."""
        names = ["reward", *rewards.values]
        sums: list[float] = [loss, tokens, unscored, len(rewards.total)]
        for values in (rewards.total, *rewards.values.values()):
            known = values[np.isfinite(values)]
            sums += [float(known.sum()), len(known)]
        loss, tokens_of_all, unscored_of_all, captions, *rest = self.processes.total(sums)
        report = {"loss": loss, "tokens": tokens_of_all / captions, "unscored": unscored_of_all}
        means = zip(names, rest[::2], rest[1::2], strict=True)
        return report | {name: total / count for name, total, count in means if count}

    def validate(self) -> dict[str, float]:
        """Validate; the loss is the negative mean reward of greedy captions; see ``SteppedTrainer.validate``."""
        texts = self.greedy_captions()
        rewards = self._rewards.of(self.processes.share(self.validation), texts).total
        total, count = self.processes.total([float(np.nansum(rewards)), float(np.isfinite(rewards).sum())])
        return {"validation_loss": -total / count if count else float("nan"), **self.measured(texts)}

    def memory(self) -> dict[str, int]:
        """Return the memory of the pass over one piece; see ``Trainer.memory``."""
        ((piece, _), *_) = self.pieces(self.processes.share(self.rows_of(0)))
        inputs = self.inputs(piece)
        written = self._written([inputs], self._writing, 0)
        ones = torch.ones(len(written), device=self.trainable.device)
        self.learning(0, 1, 0)
        return {"activations": saved_bytes(self.module, lambda: self._loss(inputs, written, ones, 1))}

    def learning(self, *seed: int) -> None:
        """Set the model's training mode, and seed torch for the pass."""
        self.module.train(self._settings.dropout)
        torch.manual_seed(seed_of(self.recipe.seed, *seed, self.processes.number))

    def _written(self, inputs: Sequence[dict[str, torch.Tensor]], writing: Writing, step: int) -> list[list[int]]:
        """Return the captions of all pieces."""
        self.module.eval()
        torch.manual_seed(seed_of(self.recipe.seed, step, 0, self.processes.number))
        with self.lower():
            return [ids for piece in inputs for ids in self.trainable.write_captions(piece, writing)]

    def _scored(self, rows: Sequence[TrainingRow], written: Sequence[list[int]], each: int) -> RewardValues:
        return self._rewards.of([row for row in rows for _ in range(each)], self.trainable.texts(written))
