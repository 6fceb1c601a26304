"""The trainer of captioners on given captions: transformers' Trainer on our rows, in our order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from torch.utils.flop_counter import FlopCounterMode

from ...adapters.contracts import TrainableCaptioner
from ...errors import DataError, UsageError
from .captioning import CaptionerSettings, CaptionerTrainer, even_piece
from .checkpoints import Checkpoints, TrainingState
from .contract import VALIDATION_SEED, TrainingCall
from .history import StepReport
from .optimisation import optimiser_of, rates_of
from .reporter import MEASURED, Reporter
from .rows import BatchSampler, Rows, TrainingRow
from .towers import saved_bytes

_IGNORED = -100
_RECOMPUTED = {"use_reentrant": False}


class CrossEntropySettings(CaptionerSettings):
    """The objective of cross-entropy: the mean over all tokens of a batch, the end token counted."""

    pick: Literal["first", "random"] = "random"
    """Which of an image's captions a step uses."""
    fsdp: bool = False
    """Whether processes share weights, gradients and optimiser (FSDP's full sharding) instead of holding copies."""
    checkpointing: bool = False
    """Whether activations are computed again for the gradients instead of being held."""


@dataclass(frozen=True)
class _Example:
    """A row with its caption, and its place in the order of the training."""

    number: int
    row: TrainingRow
    text: str


class _Examples(Dataset[_Example]):
    """Examples by number; ``draw`` returns those of a batch."""

    def __init__(self, count: int, batch: int, draw: Callable[[int], tuple[Sequence[TrainingRow], Sequence[str]]]):
        self._count, self._batch = count, batch
        self._draw = lru_cache(maxsize=2)(draw)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> _Example:
        step, place = divmod(index, self._batch)
        rows, texts = self._draw(step)
        return _Example(index, rows[place], texts[place])


class CrossEntropyTrainer(CaptionerTrainer):
    """Trains a captioner on given captions; see ``Trainer`` and ``CrossEntropySettings``.

    ``transformers.Trainer`` takes the steps: several processes, FSDP, accumulation, precision and checkpoints are its.

    Source: Sarto et al. 2024 (PAC-S++), section 5.1, first stage.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    Settings = CrossEntropySettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings = settings = call.loaded.settings(self.Settings)
        call.processes.require_first_gpu(call.loaded.recipe.trainer)
        self._piece = even_piece(settings, call.processes.count)
        if settings.fsdp and call.loaded.recipe.measure.metrics:
            raise UsageError(
                "measure: a model that processes share (objective.fsdp) writes no captions while it is trained.",
                "Remove measure.metrics, or objective.fsdp; low-rank factors (lora) need less memory, too.",
            )
        self.is_split = settings.fsdp
        super().__init__(call, settings)
        self._drawing, self._fixed = (
            BatchSampler(1, settings.pick, False, False, False, "", seed)
            for seed in (self.recipe.seed, VALIDATION_SEED)
        )

    def usable(self, rows: Rows) -> Rows:
        """Return the rows with captions; see ``Trainer.usable``."""
        without = {row.id: "has no captions" for row in rows.rows if not row.captions}
        kept = [row for row in rows.rows if row.captions]
        if not kept:
            raise DataError("no row of the data has captions.", "Add captions: this trainer learns from them.")
        return Rows(kept, {**rows.left_out, **without})

    def memory(self) -> dict[str, int]:
        """Return the memory of the pass over one piece; see ``Trainer.memory``."""
        return {"activations": saved_bytes(self.module, self._pass())}

    def work(self) -> float:
        """Return the operations of a step, of which the gradients take two passes; see ``Trainer.work``."""
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self._pass()()
        passes = 4 if self._settings.checkpointing else 3
        return passes * counter.get_total_flops() * self._settings.batch / self._piece

    def _pass(self) -> Callable[[], torch.Tensor]:
        """Return the computation of the loss of one piece."""
        examples, model = self._examples(1), self.model.train()
        inputs = self._collated([examples[number] for number in range(self._piece)])
        labels = inputs.pop("labels")
        if self._settings.checkpointing:
            self.module.gradient_checkpointing_enable(_RECOMPUTED)  # pyrefly: ignore[not-callable]

        def summed() -> torch.Tensor:
            with self.lower():
                return self._summed(model(**inputs).logits, labels)

        return summed

    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train by ``transformers.Trainer``; see ``Trainer.train``."""
        checkpoints = Checkpoints(folder, fingerprint, self.processes)
        last, state = checkpoints.last, checkpoints.state
        with self.history(folder, state.step) as history:
            trainer = self._library_trainer(checkpoints, Reporter(self, history, checkpoints, on_step, {}))
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        if trainer.is_fsdp_enabled:
            weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
            if self.processes.is_first:
                self.load_trainable(TrainableCaptioner, "", "")
                self.model.load_state_dict(weights)
        return checkpoints.state

    def _library_trainer(self, checkpoints: Checkpoints, reporter: Reporter) -> _LibraryTrainer:
        state, stop = checkpoints.state, self.recipe.stop
        steps = state.step if state.ended else self.steps
        validation = self._fixed.draw(self.validation, None)
        callbacks: list[transformers.TrainerCallback] = [reporter]
        if stop.patience is not None:
            callbacks.insert(0, transformers.EarlyStoppingCallback(math.ceil(stop.patience / self.every)))
        trainer = _LibraryTrainer(
            self,
            model=self.model,
            args=self._arguments(checkpoints.folder, steps),
            train_dataset=self._examples(steps),
            eval_dataset=_Examples(
                len(validation.rows), max(len(validation.rows), 1), lambda _: (validation.rows, validation.texts)
            ),
            data_collator=self._collated,
            compute_loss_func=self._mean,
            compute_metrics=self._validated,
            preprocess_logits_for_metrics=self._of_tokens,
            callbacks=callbacks,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        if self._settings.checkpointing and not trainer.is_fsdp_enabled:
            self.module.gradient_checkpointing_enable(_RECOMPUTED)  # pyrefly: ignore[not-callable]
        return trainer

    def _examples(self, steps: int) -> _Examples:
        def draw(step: int) -> tuple[Sequence[TrainingRow], Sequence[str]]:
            rows = self.rows_of(step)
            return rows, self._drawing.draw(rows, step).texts

        return _Examples(steps * self._settings.batch, self._settings.batch, draw)

    def _collated(self, examples: Sequence[_Example]) -> dict[str, Any]:
        """Return the arguments of the model for examples, and ``labels [n, 1 + t]`` whose first is ignored."""
        rows = [example.row for example in examples]
        tokens = self.trainable.tokens([example.text for example in examples], self._settings.prompt)
        tokens = [ids[: self._settings.tokens] for ids in tokens]
        length = max(map(len, tokens))
        # Losses of language models do not count the first label.
        labels = torch.tensor([[_IGNORED, *ids, *[_IGNORED] * (length - len(ids))] for ids in tokens])
        return {**self.trainable.given(self.inputs(rows), tokens), "labels": labels.to(self.trainable.device)}

    def _of_tokens(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        """Return ``[n, 1 + t]`` the logarithms of the probabilities of labels; 0 for those that are ignored."""
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        chosen = self.trainable.chosen(logits, labels[:, 1:].clamp(min=0))
        return torch.nn.functional.pad(chosen, (1, 0)).masked_fill(labels == _IGNORED, 0.0)

    def _validated(self, result: transformers.EvalPrediction) -> dict[str, float]:
        log_probs: Any = result.predictions
        return {"validation_loss": -log_probs[result.label_ids != _IGNORED].mean(), **self.measured()}

    def _summed(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return -self._of_tokens(logits, labels).sum()

    def _mean(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | None = None) -> torch.Tensor:
        count = (labels != _IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return self._summed(outputs.logits, labels) / count

    def _arguments(self, folder: Path, steps: int) -> transformers.TrainingArguments:
        recipe, settings, count = self.recipe, self._settings, self.processes.count
        is_watched, keeps_best = recipe.data.validation is not None, recipe.stop.keep == "best"
        is_split = settings.fsdp and count > 1
        layers: Any = getattr(self.module, "_no_split_modules", None) or []
        present = {type(module).__name__ for module in self.module.modules()}
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=self._piece,
            per_device_eval_batch_size=self._piece,
            gradient_accumulation_steps=settings.batch // (self._piece * count),
            train_sampling_strategy="sequential",
            remove_unused_columns=False,
            label_names=["labels"],
            max_grad_norm=recipe.optimiser.clip or math.inf,
            bf16=recipe.precision == "bf16",
            use_cpu=self.processes.device == "cpu",
            seed=recipe.seed,
            fsdp=is_split,  # pyrefly: ignore[bad-argument-type] - which it takes, too
            fsdp_config={
                "activation_checkpointing": settings.checkpointing,
                "transformer_layer_cls_to_wrap": [layer for layer in layers if layer in present],
            }
            if is_split
            else None,
            # Such as the last layer of a tower whose features are those of the one before it.
            ddp_find_unused_parameters=True,
            eval_strategy="steps" if is_watched else "no",
            eval_steps=self.every,
            save_steps=self.every,
            # The one before the last is there until the last is whole.
            save_total_limit=2,
            load_best_model_at_end=keeps_best,
            metric_for_best_model=MEASURED + recipe.stop.watched if is_watched else None,
            greater_is_better=self.watches_higher,
            logging_steps=1,
            logging_nan_inf_filter=False,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            report_to="none",
        )
        # A process has one GPU, however many there are.
        _ = arguments.device
        arguments._n_gpu = min(arguments._n_gpu, 1)
        return arguments


class _LibraryTrainer(transformers.Trainer):
    """The library's trainer with the recipe's optimiser and schedule."""

    def __init__(self, own: CrossEntropyTrainer, **settings: Any) -> None:
        self._own = own
        super().__init__(**settings)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Return the recipe's optimiser; see ``transformers.Trainer.create_optimizer``."""
        if self.optimizer is None:
            whole: Any = self.model if model is None else model
            named = whole.named_parameters()
            trained = {name: parameter for name, parameter in named if parameter.requires_grad}
            self.optimizer = optimiser_of(trained, self._own.recipe.optimiser)
        return self.optimizer

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        # Released names of weights, which models are written with otherwise, are not those that resuming reads.
        names = {} if self._own.recipe.lora else {"save_original_format": False}
        model: Any = self.model
        model.save_pretrained(output_dir, state_dict=state_dict, **names)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        """Return the recipe's schedule; see ``transformers.Trainer.create_scheduler``."""
        recipe = self._own.recipe
        rate = rates_of(self._own.steps, recipe.optimiser, recipe.schedule)
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rate(step) / recipe.optimiser.rate)  # pyrefly: ignore[bad-argument-type]
        return self.lr_scheduler
