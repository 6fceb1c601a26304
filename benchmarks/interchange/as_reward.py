"""Metrics as rewards of reinforcement learning: the functions that TRL and verl call."""

import atexit
import json
import math
import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...adapters import Adapter
from ...adapters.images.handles import as_png, is_decoded
from ...errors import DataError, UsageError, counted
from ...metrics import Cache, Items, NoCache, Scores
from ...permissions import Permissions, permit
from ...rows import BadRow, is_number
from ...tasks.schema import MetricEntry
from ..inputs.failures import FailureLog
from ..inputs.items import gather, image_key, references_fault, references_of, text_fault
from ..inputs.models import LoadedWhenAsked, NamedModels, named_or_given
from ..inputs.settings import read_metric, split_metrics
from ..running.execution import execution_of
from ..running.planned_metrics import finds_by_id
from ..running.rows import caption_rows, plan_rows
from ..running.scoring import Scorer, score_metric
from ..store.store import Store

OnError = Literal["raise"] | float | None
"""What a completion without a reward gets: an error, this value, or None, which TRL leaves out."""
COLUMNS = {"references": ("references",), "objects": ("objects",), "image": ("image", "images"), "boxes": ("boxes",)}
"""Need of a metric to the columns that give it, of which the first that is there counts."""
_NAMED_COMPLETIONS = 3


@dataclass(frozen=True)
class WeightedMetric:
    """A metric in a reward.

    Attributes:
        metric: Its name and settings.
        weight: Its factor in the sum.
        models: The models that it needs.
    """

    metric: MetricEntry
    weight: float
    models: NamedModels


class WeightedMetrics:
    """A weighted sum of metrics, whose values do not depend on the other captions of a step.

    Args:
        parts: The metrics. Models that are the same object are loaded once, at the first call.
        cache: The cache of expensive results.
        remedy: How a metric is made independent of other captions.

    Attributes:
        planned: The metrics.

    Raises:
        UsageError: A metric is unknown, lacks a model, or depends on the other captions of a step.
        MetricError: A metric cannot run on this machine.
    """

    def __init__(self, parts: Sequence[WeightedMetric], cache: Cache, remedy: str) -> None:
        self._parts, self._cache = parts, cache
        self.planned = [plan_rows([part.metric], part.models)[0] for part in parts]
        names = [metric.name for metric in self.planned]
        for metric, name in zip(self.planned, names, strict=True):
            if metric.metric.corpus_dependent:
                raise UsageError(f"the values of metric '{name}' depend on the other captions of a step.", remedy)
            if names.count(name) > 1:
                raise UsageError(f"two metrics are called '{name}'", "Give one of them another: METRIC[name=NAME].")
        loaded = {id(part.models): LoadedWhenAsked(part.models) for part in parts}
        self._models = [loaded[id(part.models)] for part in parts]

    def scores(self, items: Items) -> dict[str, Scores]:
        """Return the scores of each metric by name."""
        scores: dict[str, Scores] = {}
        for planned, models in zip(self.planned, self._models, strict=True):
            # Completions hardly recur: looking a step up and keeping it takes longer than Python and NumPy alone.
            cache = NoCache() if planned.metric.is_plain else self._cache
            context = Scorer([planned], models, cache).context(planned.metric, planned.name)
            scores[planned.name] = score_metric(planned.metric, items, context)
        return scores

    def total(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the weighted sum of the values of each metric (``[n]``); NaN where one is undefined."""
        weighted = (part.weight * values[planned.name] for part, planned in zip(self._parts, self.planned, strict=True))
        return sum(weighted, start=np.zeros(1))


@dataclass(frozen=True)
class RewardScores:
    """The scores of rows.

    Attributes:
        total: ``[n]`` rewards; NaN where undefined.
        values: Metric to its ``[n]`` values.
        reasons: Index of a row without a value to the reason.
    """

    total: np.ndarray
    values: Mapping[str, np.ndarray]
    reasons: Mapping[int, str]


class RewardFunction(ABC):
    """A weighted sum of metrics as a function of completions; created by :func:`reward`.

    Args:
        name: Its metrics.
        needs: What they need of a row.
        on_error: What a completion without a reward gets.

    Attributes:
        __name__: Its metrics, as trainers log it.
        needs: What they need of a row.
    """

    def __init__(self, name: str, needs: frozenset[str], on_error: OnError) -> None:
        self.__name__, self.needs, self._on_error = name, needs, on_error

    @abstractmethod
    def scores(self, rows: Sequence[Mapping[str, Any]]) -> RewardScores:
        """Return the scores of rows.

        Args:
            rows: ``candidate`` and what the metrics need; see :func:`capbench.score`.

        Raises:
            BenchError: They cannot be scored.
        """

    def rows(self, completions: Sequence[Any], columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return completions and their columns as rows; see :meth:`__call__`.

        Raises:
            UsageError: A column is missing, or of another length.
        """
        values_of: dict[str, Sequence[Any]] = {"candidate": list(map(_text, completions))}
        for need in self.needs & COLUMNS.keys():
            name = next((name for name in COLUMNS[need] if columns.get(name) is not None), None)
            if name is None:
                raise UsageError(
                    f"reward {self.__name__}: the step has no column {' or '.join(map(repr, COLUMNS[need]))}.",
                    f"Its columns are {', '.join(columns) or 'none'}: rename that of the data set.",
                )
            values_of[need] = [_only(value) for value in columns[name]] if name == "images" else columns[name]
            if len(values_of[need]) != len(completions):
                number = counted(len(completions), "completion")
                raise UsageError(f"reward {self.__name__}: '{name}' has {len(values_of[need]):,} values for {number}")
        if "image" in values_of:
            # Completions of a prompt share an image, which is encoded once.
            encoded = {id(image): as_png(image) for image in values_of["image"] if is_decoded(image)}
            values_of["image"] = [encoded.get(id(image), image) for image in values_of["image"]]
        return [dict(zip(values_of, values, strict=False)) for values in zip(*values_of.values(), strict=True)]

    def __call__(
        self, prompts: object = None, completions: Sequence[Any] = (), *, log_metric: Any = None, **columns: Any
    ) -> list[float | None]:
        """Return the reward of each completion; the signature is that of TRL.

        Args:
            prompts: Not used.
            completions: ``[n]`` texts, or chats, of which the last message counts.
            log_metric: Receives the mean of each metric of a sum.
            **columns: ``[n]`` values each, those of the data set: ``references`` (a list of texts, or one), ``image``
                or ``images``, ``objects``, ``boxes``, as far as the metrics need them; others are not used.

        Returns:
            ``[n]`` rewards.

        Raises:
            UsageError: A column is missing, or of another length.
            DataError: A completion has no reward, and ``on_error`` is ``raise``.
        """
        scores = self.scores(self.rows(completions, columns))
        if log_metric is not None and len(scores.values) > 1:
            for name, of_metric in scores.values.items():
                known = of_metric[np.isfinite(of_metric)]
                log_metric(name, float(known.mean()) if len(known) else math.nan)
        otherwise = self._told(scores.reasons) if scores.reasons else None
        return [otherwise if n in scores.reasons else value for n, value in enumerate(scores.total.tolist())]

    def compute_score(
        self,
        data_source: object = None,
        solution_str: str = "",
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        **batch: Any,
    ) -> Any:
        """Return the reward of a completion, or of those of a batch; the signatures are those of verl.

        Args:
            data_source: Not used.
            solution_str: The completion.
            ground_truth: Its references: a list of texts, or one.
            extra_info: Its other columns (``image``, ``objects``, ``boxes``).
            **batch: ``solution_strs``, ``ground_truths`` and ``extra_infos``, ``[n]`` each.

        Returns:
            The reward, or ``[n]`` rewards.

        Raises:
            UsageError: As of a call.
            DataError: As of a call.
        """
        if "solution_strs" not in batch:
            batch = {"solution_strs": [solution_str], "ground_truths": [ground_truth], "extra_infos": [extra_info]}
            return self.compute_score(**batch)[0]
        # Columns of its batches are arrays of objects, as are lists in them.
        truths = [each.tolist() if isinstance(each, np.ndarray) else each for each in batch["ground_truths"]]
        extras = [extra or {} for extra in batch.get("extra_infos", ())]
        columns = {name: [extra.get(name) for extra in extras] for extra in extras for name in extra}
        return self(None, batch["solution_strs"], **{**columns, "references": truths})

    def _told(self, reasons: Mapping[int, str]) -> float | None:
        """Return what completions without a reward get, with a warning, or raise."""
        some = "; ".join(f"completion {row}: {reasons[row]}" for row in sorted(reasons)[:_NAMED_COMPLETIONS])
        more = f"; and {len(reasons) - _NAMED_COMPLETIONS:,} more" if len(reasons) > _NAMED_COMPLETIONS else ""
        message = f"reward {self.__name__}: {counted(len(reasons), 'completion')} without a value: {some}{more}"
        if self._on_error == "raise":
            raise DataError(message, "on_error=VALUE gives such completions a value, on_error=None leaves them out.")
        warnings.warn(message, stacklevel=3)
        return None if self._on_error is None else float(self._on_error)


class Reward(RewardFunction):
    """A reward that is computed here.

    It can be sent to other processes. Each loads the models at its first call; they share the store.

    Args:
        parts: The metrics.
        on_error: What a completion without a reward gets.
        store: The store's file.
        permissions: What a data set may decide.

    Raises:
        UsageError: A metric is unknown, lacks a model, or depends on the other completions of a step.
        MetricError: A metric cannot run on this machine.
    """

    def __init__(
        self, parts: Sequence[WeightedMetric], on_error: OnError, store: Path, permissions: Permissions
    ) -> None:
        remedy = "Name captions to count n-grams in: cider[document_frequencies=FILE]; in Python, corpus=ROWS."
        self._metrics = WeightedMetrics(parts, Store(store, late=True), remedy)
        self._planned, self._permissions = self._metrics.planned, permissions
        self._arguments = (parts, on_error, store, permissions)
        needs = frozenset[str]().union(*(metric.metric.needs for metric in self._planned))
        super().__init__("+".join(metric.name for metric in self._planned), needs, on_error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process builds it anew."""
        return type(self), self._arguments

    def scores(self, rows: Sequence[Mapping[str, Any]]) -> RewardScores:
        """Return the scores of rows; see :meth:`RewardFunction.scores`."""
        failures = FailureLog(strict=False)
        values = {metric.name: np.full(len(rows), np.nan) for metric in self._planned}
        with permit(self._permissions):
            # An empty text has the metrics' value of one; what is no text has none.
            said = [row.get("candidate", row.get("caption", "")) for row in rows]
            faults = {n: f"its completion {text_fault(it)}" for n, it in enumerate(said) if not isinstance(it, str)}
            checked = [BadRow(str(n), faults[n]) if n in faults else row for n, row in enumerate(rows)]
            usable = list(caption_rows(checked, self.needs, "zero", failures))
            reasons = {int(failure.sample): f"{failure.subject}: {failure.reason}" for failure in failures.entries}
            items, item_of_row, _ = gather(usable, finds_by_id(self._planned))
            at = [int(row.id) for row in usable]
            for name, scores in self._metrics.scores(items).items() if usable else ():
                values[name][at] = scores.values[item_of_row]
                for row, item in zip(at, item_of_row.tolist(), strict=True) if scores.failures else ():
                    if item in scores.failures:
                        reasons.setdefault(row, f"{name}: {scores.failures[item]}")
        return RewardScores(self._metrics.total(values), values, reasons)


def reward(
    metrics: str | Sequence[str] | Mapping[str, float],
    *,
    model: str | Adapter | None = None,
    model_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    corpus: str | Path | Mapping[Any, Any] | Iterable[Mapping[str, Any]] | None = None,
    group: str = "image",
    on_error: OnError = "raise",
    store: str | Path | None = None,
    allow_outside: Sequence[str | Path] = (),
    allow_server: Sequence[str] = (),
    trust_remote_code: bool = False,
) -> RewardFunction:
    """Return metrics as a reward function, for TRL (``reward_funcs=``) and verl (``.compute_score``).

    Args:
        metrics: A metric, several that are added, or metric to its factor in a sum (negative where less is better);
            or the address of ``bench serve``, ``http://HOST:PORT``, whose token ``$CAPBENCH_TOKEN`` holds.
        model: The encoder of images and texts, for metrics that need one.
        model_args: ``key=value,...`` for its adapter, or a mapping.
        judge: The judge of captions, for metrics that need one.
        judge_args: As ``model_args``, for the judge.
        corpus: The captions that give CIDEr its document frequencies: a file, as ``document_frequencies`` takes it, or
            rows with ``references``, such as the training set, or ``{id: references}``.
        group: Column of those rows whose equal values are one document; without it each row is one.
        on_error: What a completion without a value gets, with a warning: this number, or None, which TRL leaves out
            of the group's mean; ``raise`` makes it an error.
        store: As of :func:`capbench.score`.
        allow_outside: As of :func:`capbench.score`.
        allow_server: As of :func:`capbench.evaluate`.
        trust_remote_code: As of :func:`capbench.evaluate`.

    Raises:
        UsageError: A metric is unknown, lacks a model, or depends on the other completions of a step.
        MetricError: A metric cannot run on this machine.

    Example:
        >>> cider = capbench.reward("cider", corpus=train_set)
        >>> GRPOTrainer(model, reward_funcs=[cider, capbench.reward({"length": -0.01})], train_dataset=train_set)
    """
    if not (on_error in ("raise", None) or is_number(on_error)):
        raise UsageError(f"on_error={on_error!r}: it is 'raise', a number or None.")
    if isinstance(metrics, str) and metrics.startswith(("http://", "https://")):
        if model is not None or judge is not None or corpus is not None:
            raise UsageError(f"reward {metrics}: its metrics have their models and corpus there.", "Leave them out.")
        from .remote_reward import RemoteReward

        return RemoteReward(metrics, on_error)
    weights = metrics if isinstance(metrics, Mapping) else dict.fromkeys(split_metrics(metrics), 1.0)
    permissions = Permissions.of(allow_outside, allow_server, trust_remote_code=trust_remote_code)
    entries = [read_metric(name) for name in weights]
    if corpus is not None:
        ciders = [number for number, entry in enumerate(entries) if entry.metric == "cider"]
        if not ciders:
            named = ", ".join(weights)
            raise UsageError(f"reward: corpus= is for the metric 'cider', which is none of: {named}", "Leave it out.")
        counted_in = {"document_frequencies": _corpus_file(corpus, group)}
        for number in ciders:
            entries[number] = entries[number].model_copy(update=counted_in)
    with permit(permissions):
        models = NamedModels(encoder=named_or_given(model, model_args), judge=named_or_given(judge, judge_args))
        file = execution_of(None, store)[1]
        factors = map(float, weights.values())
        parts = [WeightedMetric(entry, factor, models) for entry, factor in zip(entries, factors, strict=True)]
        return Reward(parts, on_error, file, permissions)


def _corpus_file(corpus: str | Path | Mapping[Any, Any] | Iterable[Mapping[str, Any]], group: str) -> str:
    """Return the file of captions to count."""
    if isinstance(corpus, str | Path):
        return str(corpus)
    if isinstance(corpus, Mapping):
        corpus = [{"references": texts, group: identity} for identity, texts in corpus.items()]
    return written_corpus(corpus, group)


def written_corpus(rows: Iterable[Mapping[str, Any]], group: str) -> str:
    """Write captions for CIDEr to count, and return the file, which is deleted with the process.

    Args:
        rows: Rows with ``references``.
        group: Column of rows whose equal values are one document; without it each row is one.

    Raises:
        DataError: A row has no references, or all are of one document.
    """
    images = set[str]()
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8", delete=False) as file:
        atexit.register(os.unlink, file.name)
        for number, row in enumerate(rows):
            references, document = references_of(row.get("references")), row.get(group, number)
            if fault := references_fault(references):
                raise DataError(f"corpus: row {number}: its 'references': {fault}")
            image = image_key(as_png(document) if is_decoded(document) else document)
            images.add(image)
            file.writelines(json.dumps({"image": image, "caption": text}) + "\n" for text in references)
    if len(images) < 2:
        raise DataError(
            f"corpus: its captions are of {counted(len(images), 'document')}, where every n-gram weighs 0",
            f"Give rows of several images; rows with the same '{group}' are one document.",
        )
    return file.name


def _text(completion: Any) -> Any:
    """Return the text of a completion: itself, or the content of the last message of a chat."""
    if not isinstance(completion, list | tuple) or not completion:
        return completion
    content = completion[-1].get("content")
    if not isinstance(content, list):
        return content
    return "".join(part.get("text", "") for part in content)


def _only(images: Any) -> Any:
    """Return the only image of a list."""
    if not isinstance(images, list | tuple):
        return images
    return images[0] if len(images) == 1 else None
