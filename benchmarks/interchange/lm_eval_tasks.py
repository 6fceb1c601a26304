"""Writes tasks of capbench as task folders of lm-eval (``bench export lm-eval``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from ...atomic_files import write_whole
from ...errors import DataError, UsageError, writing
from ...metrics import NoCache
from ...permissions import permitted
from ...progress import silent
from ...tasks.documents import Documents
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..protocols.job import Collected, Job, Result, ScoredMetric, Summary
from ..running.plan import PlannedRun
from .lm_eval_bridge import lm_eval_name, open_job, plan_for_lm_eval

PREFIX = "capbench_"
"""Prefix of exported tasks, to avoid names of lm-eval's tasks."""


@dataclass(frozen=True)
class ExportedTask:
    """An exported task.

    Attributes:
        plan: The task, its metrics and statistics.
        arguments: Arguments of its :class:`LmEvalTask`, as far as they are not empty.
        results: Name of an aggregation function to its result, and whether higher is better; None where neither is.
    """

    plan: PlannedRun
    arguments: Mapping[str, Any]
    results: dict[str, tuple[str, bool | None]]

    @property
    def name(self) -> str:
        """Name of the task in lm-eval."""
        return PREFIX + self.plan.task.task

    @property
    def generates(self) -> bool:
        """Whether lm-eval's model writes the captions."""
        return self.plan.protocol.needs_captioner

    @property
    def images(self) -> bool:
        """Whether lm-eval's model sees the images."""
        return "images" in self.arguments


def plan_export(
    names: Sequence[str],
    index: TaskIndex,
    *,
    metrics: Sequence[str] = (),
    locations: DataLocations,
    text_only: bool = False,
    tell: Callable[[str], None] = lambda message: None,
) -> list[ExportedTask]:
    """Plan an export without writing files.

    Args:
        names: Names of tasks, groups or tags. lm-eval must be able to run each named task; other tasks of a group
            or tag are skipped and reported.
        index: Known tasks.
        metrics: Metrics that replace those of the tasks.
        locations: Locations of local copies of data; categories of a task are read from its data.
        text_only: Whether to show the model no images, for text-only models.
        tell: Called with a message on each excluded item.

    Raises:
        UsageError: A name is unknown, a named task cannot be exported, or none of a group can.
    """
    shipped = build_index().entries
    exported: list[ExportedTask] = []
    refused: list[UsageError] = []
    for entry in index.resolve(names):
        try:
            plan = plan_for_lm_eval(entry, metrics, locations)
            task = plan.task
            images = plan.protocol.needs_captioner and "doc_to_image" in task.templates and not text_only
            if images and task.video_folder:
                raise UsageError(
                    f"lm-eval cannot run task '{task.task}': its documents are videos, "
                    "but lm-eval only supports images.",
                    "Export without videos: --text_only.",
                )
        except UsageError as error:
            if entry.name in names:
                raise
            tell(error.message)
            refused.append(error)
            continue
        known = shipped.get(entry.name)
        by_name = known is not None and known.path.resolve() == entry.path.resolve()
        data = locations.named.get(task.task)
        results = _expected(plan, _categories(plan, locations, tell))
        arguments = {
            "file": "" if by_name else str(entry.path.absolute()),
            "data": str(data.absolute()) if data else "",
            "metrics": list(metrics),
            "images": images,
            "allow_outside": [str(folder.absolute()) for folder in locations.allowed],
            "run_functions": permitted().functions,
        }
        exported.append(ExportedTask(plan, {name: it for name, it in arguments.items() if it}, _functions(results)))
        for metric, reason in plan.left_out.items():
            tell(f"{entry.name}: metric {metric} is left out: it {reason}")
    if refused and not exported:
        raise refused[0]
    return exported


def write_tasks(exported: Sequence[ExportedTask], folder: Path) -> list[Path]:
    """Write planned tasks as task folders of lm-eval, ``NAME/NAME.yaml`` and ``NAME/utils.py``.

    Args:
        exported: The tasks.
        folder: The output folder; lm-eval's ``--include_path``.

    Returns:
        The YAML files.

    Raises:
        UsageError: A file cannot be written.
    """
    written = []
    for task in exported:
        place = folder / task.name
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
            write_whole(place / "utils.py", _module(task))
            write_whole(place / f"{task.name}.yaml", _task_file(task))
        written.append(place / f"{task.name}.yaml")
    return written


def _categories(plan: PlannedRun, locations: DataLocations, tell: Callable[[str], None]) -> list[str]:
    """Return the categories of a task; a single unnamed one if it has none or its data is missing."""
    if plan.protocol.category_key not in plan.task.templates:
        return [""]
    try:
        job = open_job(plan, locations, RunSettings(resamples=0, skip_checks=True))
        return list(plan.protocol.read(job, FailureLog(strict=False)).categories)
    except DataError as error:
        tell(
            f"{plan.task.task}: only the mean over categories is exported, as the data cannot be read: {error.message}"
        )
        return [""]


def _expected(plan: PlannedRun, categories: Sequence[str]) -> list[Result]:
    """Return the results of a run without values."""
    job = Job(plan.task, Documents([]), Models(), RunSettings(resamples=0), NoCache(), silent, plan.pixels)
    unscored = [ScoredMetric(entry.name, entry.metric, entry.aggregation, None, "not scored") for entry in plan.metrics]
    nothing = np.zeros(0, np.int64)
    numbers = {"category": nothing, "image": nothing}
    collected = Collected(nothing, nothing, numbers, Summary(0, categories=categories), 0)
    return plan.protocol.results(job, collected, unscored, plan.statistics)


def _functions(results: Sequence[Result]) -> dict[str, tuple[str, bool | None]]:
    """Name a function for each result."""
    functions: dict[str, tuple[str, bool | None]] = {}
    for result in results:
        key = result.key
        name = base = "value_of_" + re.sub(r"\W", "_", key, flags=re.ASCII)
        while name in functions:
            name = f"{base}_{len(functions)}"
        functions[name] = key, result.higher_is_better
    return functions


def _module(exported: ExportedTask) -> str:
    """Return the Python file that binds the task."""
    arguments = "".join(f", {name}={value!r}" for name, value in exported.arguments.items())
    results = "\n".join(f"    {name!r}: {key!r}," for name, (key, _) in exported.results.items())
    task = exported.plan.task.task
    return f'''"""Task {task} of capbench, for lm-eval. Generated by 'bench export lm-eval'; do not edit."""

from capbench.benchmarks.interchange.lm_eval_bridge import LmEvalTask

RESULTS = {{
{results}
}}
TASK = LmEvalTask({task!r}, results=RESULTS{arguments})

documents = TASK.documents
images = TASK.images
process_results = TASK.process_results


def __getattr__(name):
    """Give lm-eval the aggregation of a result."""
    return TASK.aggregation(name)
'''


def _task_file(exported: ExportedTask) -> str:
    """Return the YAML file: comments, keys of lm-eval, and settings of the protocol as metadata."""
    task = exported.plan.task
    asked = (
        "lm-eval's model writes the captions; scoring is the same as in 'bench run'."
        if exported.generates
        else "The data contains the captions; answers of the model are ignored, so any model works "
        "(lm_eval run --model dummy)."
    )
    comments = [
        f"{task.alias}, a task of capbench, for lm-eval. Generated by 'bench export lm-eval'; do not edit.",
        task.description,
        asked,
        "metadata.capbench has the settings of the protocol; 'bench show' explains them.",
        *(f"Left out: {metric}, which {reason}." for metric, reason in exported.plan.left_out.items()),
    ]
    lines = [
        fill(" ".join(text.split()), 108, initial_indent="# ", subsequent_indent="# ") for text in comments if text
    ]
    lines += [f"task: {_scalar(exported.name)}", f"task_alias: {_scalar(task.alias)}", 'tag: ["capbench"]']
    lines += ["custom_dataset: !function utils.documents", "test_split: test"]
    if exported.generates:
        lines += ["output_type: generate_until", "doc_to_text: prompt", "doc_to_target: references"]
        lines += ["doc_to_image: !function utils.images"] if exported.images else []
        lines += [f"generation_kwargs: {_scalar(_generation(task.generation_kwargs))}"]
    else:
        lines += ["output_type: loglikelihood", "doc_to_text: prompt", "doc_to_target: answer"]
    lines += ["num_fewshot: 0", "process_results: !function utils.process_results", "metric_list:"]
    for function, (key, higher) in exported.results.items():
        lines += [
            f"  - metric: {_scalar(lm_eval_name(key))}",
            f"    aggregation: !function utils.{function}",
            f"    higher_is_better: {_scalar(higher)}",
        ]
    lines += ["metadata:", f"  version: {_scalar(task.version)}", "  capbench:"]
    lines += [f"    {key}: {_scalar(value)}" for key, value in _choices(exported).items()]
    return "\n".join(lines) + "\n"


def _choices(exported: ExportedTask) -> dict[str, Any]:
    """Return all settings that affect results, including defaults."""
    task = exported.plan.task
    statistics = {entry.called: entry.arguments for entry in task.statistics}
    return {
        "task": task.task,
        "output_type": task.output_type,
        "protocol": exported.plan.protocol.fingerprint(),
        "metrics": {planned.name: planned.metric.fingerprint() for planned in exported.plan.metrics},
        **({"statistics": statistics} if statistics else {}),
        **({"generation_kwargs": task.generation_kwargs} if exported.generates else {}),
    }


def _generation(settings: dict[str, Any]) -> dict[str, Any]:
    """Return decoding settings for lm-eval's models."""
    known = dict(settings)
    # One beam is the default of all models in lm-eval, and some do not have the setting.
    if known.get("num_beams") == 1:
        del known["num_beams"]
    if "max_new_tokens" in known:
        known["max_gen_toks"] = known.pop("max_new_tokens")
    until = known.pop("until", None) or []
    # Without 'until', lm-eval truncates captions at the first empty line.
    return {**known, "until": [until] if isinstance(until, str) else list(until)}


def _scalar(value: Any) -> str:
    """Return a value as JSON, a subset of YAML."""
    return json.dumps(value, ensure_ascii=False, default=str)
