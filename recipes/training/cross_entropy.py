"""The trainer of captioners on given captions: transformers' Trainer on our rows, in our order."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from torch.utils.flop_counter import FlopCounterMode

from ...adapters.contracts import TrainableCaptioner
from ...atomic_files import write_whole
from ...errors import DataError, TrainingError, UsageError
from .captioning import CaptionerSettings, CaptionerTrainer
from .contract import VALIDATION_SEED, TrainingCall
from .loop import FILE, StepReport, TrainingState, every, optimiser_of, rates_of, read_history, steps_of
from .rows import BatchSampler, Rows, TrainingRow
from .towers import saved_bytes

CHECKPOINTS, WHOLE = "checkpoints", "capbench.json"
"""The folder of checkpoints, and the file in each that is written last."""
_IGNORED = -100
_LOSS = "eval_of_tokens"
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

    def __getitem__(self, number: int) -> _Example:
        step, place = divmod(number, self._batch)
        rows, texts = self._draw(step)
        return _Example(number, rows[place], texts[place])


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
        count = call.processes.count
        self._piece = min(settings.piece or settings.batch, max(settings.batch // count, 1))
        if settings.batch % (self._piece * count):
            raise UsageError(
                f"objective.batch: {settings.batch} is no multiple of {self._piece} images at once times {count} "
                f"{'process' if count == 1 else 'processes'}.",
                "Set an objective.piece, or a number of processes, that divides it.",
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
        examples, model = self._examples(1), self._model.train()
        inputs = self._collated([examples[number] for number in range(self._piece)])
        labels = inputs.pop("labels")
        if self._settings.checkpointing:
            self.module.gradient_checkpointing_enable(_RECOMPUTED)  # pyright: ignore[reportCallIssue]

        def summed() -> torch.Tensor:
            with self.lower():
                return self._summed(model(**inputs).logits, labels)

        return summed

    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train by ``transformers.Trainer``; see ``Trainer.train``."""
        checkpoint, state = _last_whole(folder / CHECKPOINTS)
        if checkpoint is not None and state.fingerprint != fingerprint:
            raise TrainingError(
                f"{folder}: holds a training with another recipe or other data.",
                "Name another folder with --output, or remove this one.",
            )
        if self.processes.is_first:
            # What a killed process did not write to its end, the library would count among its checkpoints.
            for unfinished in (folder / CHECKPOINTS).glob("checkpoint-*"):
                if not (unfinished / WHOLE).is_file():
                    shutil.rmtree(unfinished)
            # Lines of later steps are from a killed process.
            kept = [line for line in read_history(folder) if line["step"] <= state.step]
            write_whole(folder / FILE, "".join(json.dumps(line) + "\n" for line in kept))
        self.processes.wait()
        steps = state.step if state.ended else steps_of(self.recipe, self)
        reporter = _Told(self, folder, fingerprint, steps_of(self.recipe, self), on_step)
        stop, validation = self.recipe.stop, self._fixed.draw(self.validation, None)
        callbacks: list[transformers.TrainerCallback] = [reporter]
        if stop.patience is not None:
            evaluations = math.ceil(stop.patience / every(self.recipe, self))
            callbacks.insert(0, transformers.EarlyStoppingCallback(evaluations))
        trainer = _LibraryTrainer(
            self,
            model=self._model,
            args=self._arguments(folder / CHECKPOINTS, steps),
            train_dataset=self._examples(steps),
            eval_dataset=_Examples(
                len(validation.rows), max(len(validation.rows), 1), lambda _: (validation.rows, validation.texts)
            ),
            data_collator=self._collated,
            compute_loss_func=self._mean,
            compute_metrics=lambda result: {"of_tokens": -result.predictions[result.label_ids != _IGNORED].mean()},
            preprocess_logits_for_metrics=self._of_tokens,
            callbacks=callbacks,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        if self._settings.checkpointing and not trainer.is_fsdp_enabled:
            self.module.gradient_checkpointing_enable(_RECOMPUTED)  # pyright: ignore[reportCallIssue]
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if trainer.is_fsdp_enabled:
            weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
            if self.processes.is_first:
                self.load_trainable(TrainableCaptioner, "", "")
                self._model.load_state_dict(weights)
        return reporter.state if reporter.state.step else state

    @property
    def _model(self) -> Any:
        """What is trained, with peft's factors around it."""
        return self._peft if self._peft is not None else self.module

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

    def _summed(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return -self._of_tokens(logits, labels).sum()

    def _mean(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | None = None) -> torch.Tensor:
        count = (labels != _IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return self._summed(outputs.logits, labels) / count

    def _arguments(self, folder: Path, steps: int) -> transformers.TrainingArguments:
        recipe, settings, count = self.recipe, self._settings, self.processes.count
        is_watched, keeps_best = recipe.data.validation is not None, recipe.stop.keep == "best"
        is_split = settings.fsdp and count > 1
        layers = getattr(self.module, "_no_split_modules", None) or []
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
            fsdp=is_split,  # pyright: ignore[reportArgumentType] - which it takes, too
            fsdp_config={
                "activation_checkpointing": settings.checkpointing,
                "transformer_layer_cls_to_wrap": [layer for layer in layers if layer in present],
            }
            if is_split
            else None,
            ddp_find_unused_parameters=False,
            eval_strategy="steps" if is_watched else "no",
            eval_steps=every(recipe, self),
            save_steps=every(recipe, self),
            # The one before the last is there until the last is whole.
            save_total_limit=2,
            load_best_model_at_end=keeps_best,
            metric_for_best_model=_LOSS if is_watched else None,
            greater_is_better=False,
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
        recipe, steps = self._own.recipe, steps_of(self._own.recipe, self._own)

        rate = rates_of(steps, recipe.optimiser, recipe.schedule)
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rate(step) / recipe.optimiser.rate)
        return self.lr_scheduler


class _Told(transformers.TrainerCallback):
    """Writes the history, tells of steps, and marks checkpoints that are whole."""

    def __init__(
        self,
        own: CrossEntropyTrainer,
        folder: Path,
        fingerprint: str,
        steps: int,
        on_step: Callable[[StepReport], object],
    ) -> None:
        self._own, self._folder, self._steps, self._on_step = own, folder, steps, on_step
        self._began = self._first = 0.0
        self.state = TrainingState(fingerprint)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the clock."""
        self._began = self._last = time.monotonic()
        self._first = state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float] = {}, **kwargs: Any) -> None:
        """Add a line to the history.

        Raises:
            TrainingError: The loss or the gradients are not finite.
        """
        step = state.global_step
        if _LOSS in logs:
            self._note({"step": step, "validation_loss": logs[_LOSS]}, logs[_LOSS], "validation loss")
        elif "loss" in logs:
            now = time.monotonic()
            line = {"step": step, "loss": logs["loss"], "rate": logs["learning_rate"]}
            line |= {"gradient_norm": logs["grad_norm"], "seconds": round(now - self._last, 4)}
            self._last = now
            self._note(line, logs["loss"] + logs["grad_norm"], "loss or the norm of the gradients")
            done = step - self._first
            left = (now - self._began) / done * (self._steps - step) if done > 1 else None
            self._on_step(StepReport(step, self._steps, line["loss"], line["rate"], left))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark a checkpoint as whole."""
        step, best = state.global_step, state.best_global_step or 0
        ended = "all steps were taken" if step >= self._steps else ""
        if not ended and control.should_training_stop:
            ended = f"the validation loss was not lower for {step - best} steps"
        self.state = TrainingState(self.state.fingerprint, step, state.best_metric, best, ended)
        if self._own.processes.is_first:
            write_whole(self._folder / CHECKPOINTS / f"checkpoint-{step}" / WHOLE, json.dumps(asdict(self.state)))

    def _note(self, line: Mapping[str, float], value: float, name: str) -> None:
        step = int(line["step"])
        if not math.isfinite(value):
            ids = self._own.ids(step - 1)
            raise TrainingError(
                f"step {step}: the {name} is {value}; its rows: {', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}.",
                "Use a new folder and a lower rate, a warm-up or 'optimiser.clip'.",
            )
        if self._own.processes.is_first:
            with (self._folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def _last_whole(folder: Path) -> tuple[Path | None, TrainingState]:
    """Return the last checkpoint that was written to its end, and its state.

    Raises:
        TrainingError: It is damaged.
    """
    marks = sorted(folder.glob(f"checkpoint-*/{WHOLE}"), key=lambda mark: int(mark.parent.name.rpartition("-")[2]))
    if not marks:
        return None, TrainingState("")
    try:
        return marks[-1].parent, TrainingState(**json.loads(marks[-1].read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"{marks[-1]}: not a valid checkpoint: {error}", f"Remove {marks[-1].parent}.") from error
