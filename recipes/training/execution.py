"""Runs a training recipe: checks, training, result and evaluation."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...access import require_permitted
from ...adapters.aliases import ALIAS_FILE, resolve_model
from ...atomic_files import DRAFT, folder_lock, own_name, put_in_place, remove_abandoned, write_whole
from ...errors import TrainingError, UsageError
from ...paths import without_folders
from ...permissions import runs_code
from .checkpoints import CHECKPOINTS, TrainingState
from .contract import WEIGHTS, Trainer, TrainingCall, start_of, trainers
from .history import StepReport, draw_history, read_history
from .judging import Row, compared, judged, model_card, require_judges, sensitivities, trainable_count

SCORES, SENSITIVITY, CARD, RECIPE = "scores.json", "noticed.json", "README.md", "recipe.json"
_FLOAT = 4
"""Bytes of a float32."""
_PEAK = {"fp32": 67e12, "bf16": 989e12, "fp16": 989e12}
"""An H100's floating-point operations a second, dense, by its data sheet."""
_USED = 0.4
"""The share of them that trainings of large models reach."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training, besides the model in its folder.

    Attributes:
        scores: Before and after; see ``compared``.
        remarks: Optional steps that failed, and why.
    """

    scores: list[Row]
    remarks: list[str] = field(default_factory=list[str])


def opened(call: TrainingCall) -> Trainer:
    """Check a recipe, and return its trainer.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """
    require_permitted(call.loaded.requests)
    return trainers[call.loaded.recipe.trainer](call)


def dry_run(call: TrainingCall, *, judge: bool = True) -> list[tuple[str, str]]:
    """Check everything without a step, and return the plan as pairs of label and value.

    Args:
        call: The recipe.
        judge: Whether tasks evaluate the model.

    Raises:
        BenchError: See :func:`opened`.
    """
    recipe = call.loaded.recipe
    if why := _unopened(call):
        return [("recipe", recipe.recipe), ("model", recipe.model.name), ("rows", f"not read: {why}")]
    import torch

    trainer = opened(call)
    judges = recipe.judge if judge else []
    if judge:
        require_judges(judges, start_of(recipe), recipe.probe, trainer.rewarded, _shared(call, {}))
    numbers, model = trainable_count(trainer), sum(parameter.numel() for parameter in trainer.module.parameters())
    # Weights, their gradients, and the two moments of AdamW.
    held = {"weights": model * _FLOAT, "gradients": numbers * _FLOAT, "optimiser": 2 * numbers * _FLOAT}
    each = max(call.processes.count, torch.cuda.device_count())
    parts = each if trainer.is_split else 1
    held = {kind: size // parts for kind, size in held.items()} | trainer.memory()
    needed = sum(held.values())
    device = call.processes.device
    if device.startswith("cuda"):
        require_room(needed, torch.cuda.mem_get_info(device)[1])
    rows = [("recipe", recipe.recipe), ("model", trainer.name)]
    rows += [(kind, f"{count:,}") for kind, count in trainer.rows.counts().items()]
    rows += [(f"left out: {name}", why) for name, why in list(trainer.rows.left_out.items())[:3]]
    rows += [
        ("steps", f"{trainer.steps:,} at most; {trainer.batches.in_an_epoch:,} per epoch"),
        ("checkpoints", f"every {trainer.every:,} steps"),
        ("trained", f"{numbers:,} of {model:,} parameters ({numbers / model:.2%})"),
        ("memory", ", ".join(f"{kind} {size / 1e6:,.1f} MB" for kind, size in held.items())),
        ("each GPU needs", f"{needed / 1e9:,.1f} GB" + (f", split over {parts}" if trainer.is_split else "")),
        ("judged by", ", ".join(dict.fromkeys(judge.task for judge in judges)) or "no task"),
    ]
    if (work := trainer.work()) is not None:
        hours = trainer.steps * work / (_USED * _PEAK[recipe.precision]) / 3600
        label = f"at {_USED:.0%} of an H100's {_PEAK[recipe.precision] / 1e12:,.0f} TFLOP/s"
        rows.insert(-1, ("GPU-hours", f"{hours:,.2f} {label}"))
    return rows


def require_room(needed: int, room: int) -> None:
    """Raise unless a training fits a GPU, both in bytes.

    Raises:
        UsageError: Says how it may.
    """
    if needed > room:
        raise UsageError(
            f"the training needs {needed / 1e9:,.1f} GB on each GPU, which has {room / 1e9:,.1f} GB.",
            "Train low-rank factors (lora), or smaller pieces (objective.piece); trainer 'captioner_xe' splits a model "
            "over GPUs (objective.fsdp=true) and holds fewer activations (objective.checkpointing=true).",
        )


def _unopened(call: TrainingCall) -> str:
    """Return why a dry run opens nothing: allowed code runs only in a training; empty without such code."""
    require_permitted(call.loaded.requests)
    data = call.loaded.recipe.data
    readers = (source.reader for source in (data, data.validation) if source is not None)
    code = [str(reader) for reader in readers if reader is not None and not reader.may_run]
    if not runs_code() and start_of(call.loaded.recipe).runs_remote_code:
        code.append("code that comes with the model")
    return f"a dry run does not run {' and '.join(code)}" if code else ""


def run_recipe(
    call: TrainingCall,
    folder: Path,
    on_step: Callable[[StepReport], object],
    options: Mapping[str, Any],
    *,
    judge: bool = True,
) -> TrainingResult:
    """Train, write the result into a folder, and evaluate it; resumes an interrupted call.

    Args:
        call: The recipe.
        folder: The output folder; created if missing.
        on_step: Called after each step.
        options: Options of ``evaluate`` for the evaluation tasks: ``store``, …
        judge: Whether tasks evaluate the model before and after.

    Raises:
        BenchError: See :func:`opened`; or the training cannot continue.
    """
    trainer, recipe = opened(call), call.loaded.recipe
    shared = _shared(call, options) if judge else None
    if shared is not None:
        require_judges(recipe.judge, start_of(recipe), recipe.probe, trainer.rewarded, shared)
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    refusal = TrainingError(
        f"{folder}: another training writes there, or workers of one that was killed.",
        "Wait for it, end all its processes, or name another folder with --output.",
    )
    with folder_lock(folder / CHECKPOINTS, refusal) if call.processes.is_first else nullcontext():
        fingerprint = hashlib.sha256(f"{recipe.fingerprint()} {trainer.rows.digest()}".encode()).hexdigest()
        state = trainer.train(folder, on_step, fingerprint)
        return _write_and_judge(call, trainer, state, folder, shared) if call.processes.is_first else TrainingResult([])


def _write_and_judge(
    call: TrainingCall, trainer: Trainer, state: TrainingState, folder: Path, shared: dict[str, Any] | None
) -> TrainingResult:
    """Write a trained model with its card; ``shared`` are options of ``evaluate``, or None not to judge it."""
    recipe, start = call.loaded.recipe, start_of(call.loaded.recipe)
    values = recipe.model_dump(mode="json")
    values["model"]["arguments"] |= start.pinned()
    _write_json(folder / RECIPE, values)
    remarks = [f"{left}: {why}" for left, why in trainer.rows.left_out.items()]
    if why := draw_history(folder, recipe.recipe):
        remarks.append(f"no figure of the losses: {why}")
    _write_result(trainer, folder)
    scores, sensitivity = list[Row](), list[Row]()
    if shared is not None and recipe.judge:
        both = {"before": start, "after": resolve_model(str(folder))}
        runs = {when: judged(recipe.judge, model, folder / "runs" / when, shared) for when, model in both.items()}
        scores = compared(runs["before"], runs["after"], trainer.rewarded)
    if shared is not None and recipe.probe is not None and trainer.rewarded:
        sensitivity = sensitivities(recipe.probe, trainer.rewarded, folder / "runs" / "reward", shared)
        _write_json(folder / SENSITIVITY, sensitivity)
    seconds = sum(line.get("seconds", 0.0) for line in read_history(folder))
    card = model_card(call.loaded, folder, trainer, state, seconds, scores, sensitivity)
    _write_json(folder / SCORES, scores)
    write_whole(folder / CARD, without_folders(card))
    return TrainingResult(scores, remarks)


def _write_json(file: Path, values: object) -> None:
    write_whole(file, json.dumps(without_folders(values), indent=2) + "\n")


def _write_result(trainer: Trainer, folder: Path) -> None:
    """Write the weights and then the alias, each atomically."""
    remove_abandoned(folder.glob(f"{DRAFT}*"))
    draft = folder / (DRAFT + own_name())
    draft.mkdir()
    try:
        alias = trainer.write(draft)
        shutil.rmtree(folder / WEIGHTS, ignore_errors=True)
        put_in_place(draft / WEIGHTS, folder / WEIGHTS)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    write_whole(folder / ALIAS_FILE, yaml.safe_dump(dict(alias), sort_keys=False))


def _shared(call: TrainingCall, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common options of all calls of ``evaluate``."""
    of_call = {name: getattr(call, name) for name in ("data", "include_path", "allow_outside", "progress")}
    return of_call | dict(options)
