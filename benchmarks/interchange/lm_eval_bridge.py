"""Runs a task of capbench inside lm-eval.

``bench export lm-eval`` writes task folders whose ``utils.py`` binds an ``LmEvalTask`` to a task. lm-eval reads
documents from it, passes it the answers of its model, and calls its aggregations. These use the code of ``bench run``,
so results are the same.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters import Caption, Captioned, Captioner, CaptionRequest, ImageHandle
from ...adapters.aliases import ModelSpec
from ...adapters.images.reading import UnreadableImage, read_image
from ...atomic_files import write_whole
from ...errors import BenchError, DataError, TaskError, UsageError, writing
from ...metrics import NoCache
from ...permissions import Permissions, permit, permitted
from ...progress import silent
from ...tasks.documents import Documents, load_documents
from ...tasks.index import IndexEntry, TaskIndex, build_index
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog, describe
from ..inputs.images import pixels_value
from ..inputs.items import printable
from ..inputs.models import Models, NamedModels
from ..inputs.settings import RunSettings
from ..protocols import names_where
from ..protocols.binding import load_bound
from ..protocols.document_reader import read_values
from ..protocols.job import Collected, Job, Result, ScoredMetric, Summary
from ..running.plan import PlannedRun, plan_task
from ..running.planned_metrics import require_one
from ..running.runner import run
from ..store.store import Store, default_store_path
from ..tables.pages.rendering import text_templates

if TYPE_CHECKING:
    import datasets
    from PIL import Image

    from ...adapters import VideoHandle

IMAGE_MARK = "<image>"
"""Placeholder for the image in prompts of lm-eval's multimodal models."""
_QUESTION, _ANSWER = "Answer:", " yes"
"""Dummy question and answer for tasks with given captions; the model's output is ignored."""
_UNUSABLE = "This row of the data cannot be used; its answer is not scored."

# lm-eval shows only messages of its own loggers.
_log = logging.getLogger("lm_eval.capbench")


class LmEvalTask:
    """A task as the functions that an lm-eval task file refers to.

    Args:
        task: The task's name in capbench.
        results: Name of an aggregation function to its result (``"cider.kendall_c"``).
        file: The task's file; None for tasks of capbench or an installed package.
        data: The local copy of its data; None for the search path of ``bench run``.
        metrics: Metrics that replace those of the task.
        images: Whether the model sees the images.
        allow_outside: Additional folders whose files the task may read.
        run_functions: Whether functions of the task may run, as allowed at export.
    """

    def __init__(
        self,
        task: str,
        *,
        results: Mapping[str, str],
        file: str | None = None,
        data: str | None = None,
        metrics: Sequence[str] = (),
        images: bool = False,
        allow_outside: Sequence[str] = (),
        run_functions: bool = False,
    ) -> None:
        self._permissions = Permissions.of(allow_outside, run_functions=run_functions)
        self._name = task
        self._results = results
        self._file = file
        self._locations = DataLocations.from_environment({task: Path(data)} if data else None, allow_outside)
        self._metrics = metrics
        self._images = images
        self._skip_checks = False
        self._count = 0
        self._handles: list[ImageHandle | VideoHandle | None] = []
        self._unreadable: set[int] = set()
        self._answers = _Answers()
        self._aggregated: tuple[list[_Answers], dict[str, float]] = ([], {})

    def __deepcopy__(self, memo: dict[int, Any]) -> LmEvalTask:
        # lm-eval deep-copies a task's configuration with its bound functions; all copies use the same task.
        return self

    @cached_property
    def _plan(self) -> PlannedRun:
        if self._file is not None:
            entry = IndexEntry(self._name, "task", Path(self._file))
        else:
            (entry,) = build_index().resolve([self._name])
        with permit(self._permissions):
            return plan_for_lm_eval(entry, self._metrics, self._locations)

    def documents(self, **metadata: Any) -> dict[str, datasets.Dataset]:
        """Return the documents for lm-eval, one row each, after the checks of ``bench run``.

        Args:
            **metadata: Metadata from the task file and lm-eval's ``--metadata``: ``version`` of the exported task,
                ``skip_checks`` to continue with data that fails its checks.

        Raises:
            UsageError: The file was exported from another version of the task.
            DataError: The data is missing or fails its checks, or none of its images is on this machine.
            MetricError: The requirements of all metrics are missing on this machine.
        """
        task = self._plan.task
        if "version" in metadata and str(metadata["version"]) != str(task.version):
            raise UsageError(
                f"task '{task.task}': this file was exported from version {metadata['version']}, but capbench has "
                f"version {task.version}.",
                "Export it again: bench export lm-eval.",
            )
        self._skip_checks = bool(metadata.get("skip_checks", False))
        require_one(self._plan.metrics)
        with permit(self._permissions):
            return self._documents()

    def _documents(self) -> dict[str, datasets.Dataset]:
        import datasets

        job = open_job(self._plan, self._locations, self._settings(None))
        # Check the data before the model starts.
        if self._images:
            job.pixels.require()
        self._plan.protocol.read(job, FailureLog(strict=False))
        self._count = len(job.documents.rows)
        asks = self._plan.protocol.needs_captioner
        # One row per document, usable or not, so that --limit selects the same documents.
        rows: list[dict[str, Any]] = [
            {"document": number, "prompt": self._prompt(_UNUSABLE) if asks else _QUESTION, "answer": _ANSWER}
            for number in range(self._count)
        ]
        self._handles = [None] * self._count
        for number, identity, values in read_values(job, self._plan.protocol.document_keys, FailureLog(strict=False)):
            rows[number] |= {
                "id": identity,
                "candidates": _texts(values.get("doc_to_candidate") or values.get("doc_to_candidates")),
                "references": _texts(values.get("doc_to_target")),
            }
            if asks:
                rows[number]["prompt"] = self._prompt(printable(str(values["doc_to_text"])))
            if self._images:
                self._handles[number] = job.pixels(pixels_value(values))
        if self._images and not any(self._handles):
            raise DataError(
                f"task '{self._name}': none of its images was found",
                "Check the paths of 'doc_to_image', or export with 'bench export lm-eval --text_only', "
                "which shows the model no images.",
            )
        text = datasets.Value("string")
        columns = dict.fromkeys(("id", "prompt", "answer"), text)
        columns |= dict.fromkeys(("candidates", "references"), datasets.List(text))
        features = datasets.Features({"document": datasets.Value("int64"), **columns})
        return {"test": datasets.Dataset.from_list(rows, features=features)}

    def images(self, document: Mapping[str, Any]) -> list[Image.Image]:
        """Return the image of a document; a blank one if it cannot be read, whose caption is not scored."""
        from PIL import Image

        number = document["document"]
        handle = self._handles[number]
        try:
            if not isinstance(handle, ImageHandle):
                fault = "is not on this machine" if handle is None else "is a video"
                raise UnreadableImage(f"document {document['id'] or number}: its image {fault}")
            return [read_image(handle).image.convert("RGB")]
        except UnreadableImage as error:
            _log.warning("%s: left out: %s", self._name, error)
            self._unreadable.add(number)
            return [Image.new("RGB", (64, 64))]

    def process_results(self, document: Mapping[str, Any], results: Sequence[Any]) -> dict[str, _Answers]:
        """Keep the answer to a document; return the value of all metrics at the first, nothing at the others.

        Args:
            document: A row of ``documents``.
            results: The answers of the model; used only if the model writes the captions.
        """
        number = document["document"]
        is_first = number in self._answers.captions or not self._answers.captions
        if is_first:
            self._answers = _Answers()
        self._answers.captions[number] = document["id"], None if number in self._unreadable else results[0]
        return dict.fromkeys(map(lm_eval_name, self._results.values()), self._answers) if is_first else {}

    def aggregation(self, name: str) -> Callable[[Sequence[_Answers]], float]:
        """Return an aggregation function by name.

        Raises:
            AttributeError: There is no such function.
        """
        if name not in self._results:
            raise AttributeError(f"task '{self._name}' has no aggregation '{name}'")
        result = self._results[name]

        def value(answers: Sequence[_Answers]) -> float:
            return self._values(list(answers)).get(result, math.nan)

        return value

    def _values(self, answers: list[_Answers]) -> dict[str, float]:
        """Return all results; cached, as lm-eval asks for one after the other."""
        if self._aggregated[0] != answers:
            try:
                values = self._run(answers)
            except BenchError as error:
                # An exception would lose other tasks of the call and the captions in lm-eval's log.
                _log.error("%s: no result: %s", self._name, error)
                values = {}
            self._aggregated = answers, values
        return self._aggregated[1]

    def _run(self, answers: list[_Answers]) -> dict[str, float]:
        captions = {number: caption for part in answers for number, caption in part.captions.items()}
        if sorted(captions) != list(range(len(captions))):
            raise UsageError(
                "lm-eval's --samples selected documents, but results need the first documents or all.",
                "Use --limit N, as in bench run.",
            )
        captioner = None
        if self._plan.protocol.needs_captioner:
            captioner = _Captions({key: text for key, text in captions.values() if key is not None})
        with permit(self._permissions), Store(default_store_path()) as store:
            finished = run(
                self._plan,
                self._settings(None if len(captions) == self._count else len(captions)),
                Models(captioner=captioner),
                locations=self._locations,
                store=store,
            )
        record = finished.record
        said = [f"left out: {describe(failure)}" for failure in record.failures]
        said += [f"counted as empty: {describe(empty)}" for empty in record.empty_captions]
        undefined = {result.key: result.reason for result in finished.results if result.value is None}
        for text in (*said, *(f"{key}: no value: {reason}" for key, reason in undefined.items())):
            _log.warning("%s: %s", self._name, text)
        return {result.key: result.value for result in finished.results if result.value is not None}

    def _settings(self, limit: int | None) -> RunSettings:
        # lm-eval cannot store intervals.
        return RunSettings(limit=limit, resamples=0, skip_checks=self._skip_checks)

    def _prompt(self, text: str) -> str:
        return IMAGE_MARK + text if self._images else text


class _Answers:
    """The answers of lm-eval's model to all documents, as the only value of each metric.

    If there are several, lm-eval 0.5 calls the aggregation on 100,000 bootstrap samples of them.

    Attributes:
        captions: Number of a document to its id and caption; the caption is None if the image could not be read.
    """

    def __init__(self) -> None:
        self.captions: dict[int, tuple[str | None, str | None]] = {}

    def __repr__(self) -> str:
        # lm-eval logs it with the sample.
        return f"answers to {len(self.captions)} documents"


class _Captions(Captioner):
    """Returns the captions of lm-eval's model by document."""

    keep = False

    def __init__(self, captions: Mapping[str, str | None]) -> None:
        self._captions = captions

    def fingerprint(self) -> dict[str, Any]:
        """Return a constant; lm-eval's own record has the model."""
        return {"adapter": "lm_eval"}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Return the caption of each request, except for those whose image could not be read."""
        captions = {at: self._captions.get(request.id) for at, request in enumerate(requests)}
        yield Captioned(
            {at: Caption(text) for at, text in captions.items() if text is not None},
            unseen={at: "cannot be read" for at, text in captions.items() if text is None},
        )


def plan_for_lm_eval(entry: IndexEntry, metrics: Sequence[str], locations: DataLocations) -> PlannedRun:
    """Plan a task for lm-eval, whose model writes captions or is ignored; no other model is available.

    Args:
        entry: The task.
        metrics: Metrics that replace those of the task.
        locations: Locations of local copies of data.

    Returns:
        The plan; ``left_out`` are the task's metrics that need another model or images.

    Raises:
        UsageError: lm-eval cannot run the task or a named metric.
    """
    task, _, protocol = load_bound(entry.path)
    if not protocol.lm_eval:
        exportable = ", ".join(names_where(lambda protocol: protocol.lm_eval))
        raise UsageError(
            f"lm-eval cannot run task '{entry.name}': its output_type is '{task.output_type}'; "
            f"tasks of {exportable} can be exported.",
            _HINT,
        )
    models = NamedModels(captioner=ModelSpec("lm_eval", "lm_eval", instance=_Captions({})))
    try:
        plan = plan_task(entry, models, metrics, locations)
    except TaskError:
        raise
    except UsageError as error:
        raise UsageError(f"lm-eval cannot run task '{entry.name}': {error.message}", _HINT) from error
    look = {entry.name: "looks at images" for entry in plan.metrics if "image" in entry.metric.needs}
    kept = [metric for metric in plan.metrics if metric.name not in look]
    if (look and metrics) or not kept:
        raise UsageError(f"lm-eval cannot run task '{entry.name}': metric {', '.join(look)} looks at images.", _HINT)
    return replace(plan, metrics=kept, left_out={**plan.left_out, **look})


_HINT = "lm-eval can run captioning, agreement and preference tasks, with metrics that need no model."


def open_job(plan: PlannedRun, locations: DataLocations, settings: RunSettings) -> Job:
    """Load a task's documents for a protocol that needs no model.

    Raises:
        DataError: The data is missing or cannot be read.
    """
    documents = load_documents(plan.task, plan.path, locations)
    return Job(plan.task, documents, Models(), settings, NoCache(), silent, plan.pixels)


def lm_eval_name(result: str) -> str:
    """Return lm-eval's name of a result; lm-eval reads text after a comma as the name of a filter."""
    return result.replace(",", ";")


def _texts(value: Any) -> list[str]:
    """Return texts for lm-eval's sample log; scoring reads the data instead."""
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [printable(str(value)) for value in values]


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

    @property
    def generation_kwargs(self) -> dict[str, Any]:
        """Decoding settings for lm-eval's models."""
        known = dict(self.plan.task.generation_kwargs)
        # One beam is the default of all models in lm-eval, and some do not have the setting.
        if known.get("num_beams") == 1:
            del known["num_beams"]
        if "max_new_tokens" in known:
            known["max_gen_toks"] = known.pop("max_new_tokens")
        until = known.pop("until", None) or []
        # Without 'until', lm-eval truncates captions at the first empty line.
        return {**known, "until": [until] if isinstance(until, str) else list(until)}


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
    filters = {"comment": _comment, "json": _scalar, "lm_eval_name": lm_eval_name, "repr": repr}
    templates = text_templates(Path(__file__).parent / "templates", **filters)
    written = []
    for task in exported:
        place = folder / task.name
        values = {"exported": task, "task": task.plan.task, "choices": _choices(task)}
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
            for file in ("utils.py", "task.yaml"):
                text = templates.get_template(f"{file}.jinja").render(values)
                write_whole(place / file.replace("task", task.name), text)
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


def _comment(text: str) -> str:
    return fill(" ".join(text.split()), 108, initial_indent="# ", subsequent_indent="# ")


def _scalar(value: Any) -> str:
    """Return a value as JSON, a subset of YAML."""
    return json.dumps(value, ensure_ascii=False, default=str)
