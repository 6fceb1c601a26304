"""The trainer that hands a captioner to TRL's GRPO, with any metrics as reward."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ...adapters.images.reading import read_image
from ...errors import UsageError, extra
from .captioning import CaptionerSettings, CaptionerTrainer, even_piece
from .checkpoints import Checkpoints, TrainingState
from .contract import TrainingCall
from .history import StepReport
from .optimisation import optimiser_of, rates_of
from .rewards import RewardParts, Rewards
from .rows import TrainingRow
from .schema import Positive, Share

_TERMS = {"reward": "reward", "completions/mean_length": "tokens", "kl": "kl"}
"""Numbers of TRL's log, and their names in the history."""
_UNSCORED = "unscored"


class GrpoSettings(CaptionerSettings):
    """The objective of group relative policy optimisation, which TRL computes."""

    reward: RewardParts
    """A metric, or several for a weighted sum."""
    captions: Annotated[int, Field(ge=2)] = 8
    """Sampled captions per image, which are compared with each other."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Of sampling."""
    kl: Share = 0.0
    """Weight of the divergence from the start model (``beta``); above 0 a copy of the model is held."""
    clip_ratio: Annotated[float, Field(gt=0)] = 0.2
    """Clipping of the probability ratio (``epsilon``)."""
    dropout: bool = True
    """Whether the passes with gradients use the model's dropout."""
    updates: Positive = 1
    """Steps on the same captions (``num_iterations``)."""


class GrpoTrainer(CaptionerTrainer):
    """Trains a captioner on its own captions by TRL's ``GRPOTrainer``; see ``Trainer`` and ``GrpoSettings``.

    It takes captioners that continue an instruction, such as LLaVA and Qwen-VL. TRL's checkpoints resume a training.

    Sources: Shao et al. 2024 (DeepSeekMath), section 4; TRL, *GRPO Trainer*.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data, its model or a metric of the reward are invalid, or TRL is missing.
    """

    Settings = GrpoSettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings = settings = call.loaded.settings(self.Settings)
        with extra("rl", "trainer 'grpo' needs TRL"):
            import trl  # noqa: F401
        super().__init__(call, settings)
        module: Any = self.module
        if module.config.is_encoder_decoder:
            raise UsageError(
                f"model: {self.name} has an encoder and a decoder; trainer 'grpo' takes captioners that continue an "
                "instruction.",
                "Name such as LLaVA or Qwen-VL, or use trainer 'scst'.",
            )
        if self.recipe.data.validation is not None:
            raise UsageError("trainer 'grpo' has no validation.", "Remove data.validation.")
        call.processes.require_first_gpu(call.loaded.recipe.trainer)
        self._piece = even_piece(settings, self.processes.count)
        self.rewarded = settings.reward
        self._rewards = Rewards(settings.reward, self.rows.rows, call.processes.device)

    def memory(self) -> dict[str, int]:
        """Return no memory of a piece, which TRL decides; see ``Trainer.memory``."""
        return {}

    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train by TRL; see ``Trainer.train``."""
        from datasets import Dataset
        from torch.optim.lr_scheduler import LambdaLR
        from transformers.trainer_callback import PrinterCallback
        from trl.trainer.grpo_trainer import GRPOTrainer

        from .reporter import Reporter

        checkpoints = Checkpoints(folder, fingerprint, self.processes)
        last = checkpoints.last
        terms = _TERMS | {name: name for name in (*self._rewards.names, _UNSCORED)}
        rows = Dataset.from_dict({"row": range(len(self.rows.rows))})
        optimiser = optimiser_of(self.parameters, self.recipe.optimiser)
        rate = rates_of(self.steps, self.recipe.optimiser, self.recipe.schedule)
        with self.history(folder, checkpoints.state.step) as history:
            trainer = GRPOTrainer(
                self.model,
                self._reward,
                self._arguments(checkpoints.folder),
                rows.with_transform(_Documents(self.rows.rows, self._settings.prompt)),
                processing_class=self.trainable.processor,
                optimizers=(optimiser, LambdaLR(optimiser, lambda step: rate(step) / self.recipe.optimiser.rate)),
                callbacks=[Reporter(self, history, checkpoints, on_step, terms)],
            )
            trainer.remove_callback(PrinterCallback)
            if last and self._peft is None:
                # Checkpoints name parameters as released models do, which the library's trainer does not read again.
                known = type(self.model).from_pretrained(last, dtype=self.model.dtype)
                self.model.load_state_dict(known.state_dict())
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        return checkpoints.state

    def _reward(
        self, completions: Sequence[Any], row: Sequence[int], log_metric: Callable[[str, float], object], **_: object
    ) -> list[float | None]:
        """Return the reward of each completion, as TRL calls for it."""
        captions = [completion[-1]["content"] for completion in completions]
        rewards = self._rewards.of([self.rows.rows[number] for number in row], captions)
        for name, values in rewards.values.items():
            known = values[np.isfinite(values)]
            if len(known):
                log_metric(name, float(known.mean()))
        log_metric(_UNSCORED, float(np.count_nonzero(~np.isfinite(rewards.total))))
        # TRL leaves completions without a value out of their group.
        return [value if np.isfinite(value) else None for value in rewards.total.tolist()]

    def _arguments(self, folder: Path) -> Any:
        from trl.trainer.grpo_config import GRPOConfig

        recipe, settings = self.recipe, self._settings
        return GRPOConfig(
            str(folder),
            max_steps=self.steps,
            per_device_train_batch_size=self._piece * settings.captions,
            gradient_accumulation_steps=settings.batch // (self._piece * self.processes.count),
            num_generations=settings.captions,
            max_completion_length=settings.tokens,
            temperature=settings.temperature,
            top_k=0,
            beta=settings.kl,
            epsilon=settings.clip_ratio,
            num_iterations=settings.updates,
            disable_dropout=not settings.dropout,
            max_grad_norm=recipe.optimiser.clip or 0.0,
            save_steps=self.every,
            # The one before the last is there until the last is whole.
            save_total_limit=2,
            seed=recipe.seed,
            bf16=recipe.precision == "bf16",
            use_cpu=self.processes.device == "cpu",
            gradient_checkpointing=False,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
        )


@dataclass(frozen=True)
class _Documents:
    """Reads images as TRL asks for rows; a class, as the library hashes what it is given.

    Attributes:
        rows: The training rows.
        prompt: The prompt.
    """

    rows: Sequence[TrainingRow]
    prompt: str

    def __call__(self, batch: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        prompt = [{"role": "user", "content": self.prompt}]
        images = [read_image(self.rows[row].image).image.convert("RGB") for row in batch["row"]]
        return {"row": list(batch["row"]), "prompt": [prompt] * len(images), "image": images}
