"""Compares the metrics, or the captioners, of finished runs of one task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, UsageError, did_you_mean
from ..tasks.schema import StatisticEntry
from .finished_runs import (
    FinishedRun,
    Scored,
    common_scores,
    read_runs,
    require_same_data,
    require_same_references,
    scored_metrics,
    scores_only,
)
from .plan import make_statistic
from .statistics import statistics
from .statistics.bootstrap import Interval
from .statistics.contract import RatedScores, Statistic, UndefinedStatistic
from .statistics.correlation import Pearson
from .statistics.mcnemar import mcnemar_test
from .statistics.paired import Estimate, paired_bootstrap, paired_means
from .statistics.rated_rows import rated_rows
from .statistics.significance import ALPHA, rank
from .statistics.williams import williams_test

Progress = Callable[[str], Callable[[int, int], None]]


@dataclass(frozen=True)
class CompareSettings:
    """What a user may set for a comparison.

    Attributes:
        statistic: The statistic to compare by; empty for the first of the task.
        metrics: The metrics to compare; empty for all (of captioners: for the first).
        alpha: Metrics differ where the p after Holm's correction is below it; intervals hold 1 - alpha.
        resamples: Number of bootstrap resamples.
        seed: Seed of the bootstrap.
    """

    statistic: str = ""
    metrics: Sequence[str] = ()
    alpha: float = ALPHA
    resamples: int = 1000
    seed: int = 1234


@dataclass(frozen=True)
class Compared:
    """One metric (or captioner) of a comparison.

    Attributes:
        name: Its name, told apart from others of the same name.
        label: The name as tables print it.
        value: Its statistic, over the rows that all have in common.
        interval: Interval of the value.
        letters: Its significance groups.
    """

    name: str
    label: str
    value: float
    interval: Interval
    letters: str


@dataclass(frozen=True)
class Pair:
    """Two metrics (or captioners) of a comparison, the better one first.

    Attributes:
        first: Name of the better one.
        second: Name of the other.
        value: Difference of the values, first minus second.
        interval: Interval of the difference.
        p: By the paired bootstrap; None where it is undefined.
        p_holm: The same after Holm's correction over all pairs.
        classical: Name of a classical test to its p, uncorrected; None where it is undefined.
    """

    first: str
    second: str
    value: float
    interval: Interval
    p: float | None
    p_holm: float | None
    classical: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """All metrics of a task, or all captioners on one metric.

    Attributes:
        task: Name of the task.
        alias: Its name in tables.
        subject: What is compared: ``metric`` or ``model``.
        metric: Of captioners: the metric; else empty.
        metric_label: The same as tables print it.
        statistic: What is compared by.
        statistic_label: The same as tables print it.
        n: Rows that all have in common.
        images: Images that these are of.
        scale: Tables show values times this.
        settings: How it was made.
        compared: Best first.
        pairs: All pairs.
        notes: What a reader must know.
    """

    task: str
    alias: str
    subject: str
    metric: str
    metric_label: str
    statistic: str
    statistic_label: str
    n: int
    images: int
    scale: float
    settings: CompareSettings
    compared: list[Compared]
    pairs: list[Pair]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values, unscaled."""
        return {**asdict(self), "settings": {**asdict(self.settings), "metrics": list(self.settings.metrics)}}


def compare_runs(
    folders: Sequence[Path],
    settings: CompareSettings | None = None,
    progress: Progress = lambda step: lambda done, total: None,
) -> list[Comparison]:
    """Compare what finished runs of one task scored.

    Args:
        folders: Folders of runs, each with ``run.json`` and ``samples.parquet``.
        settings: What to compare, and how.
        progress: Gives a reporter of (done, total) for a step.

    Returns:
        For tasks that judge metrics one comparison of all metrics; for tasks that score captions one
        comparison of the captioners a metric.

    Raises:
        UsageError: A name is unknown, or there are fewer than two things to compare.
        DataError: A run cannot be read, the runs are of different tasks or data, or a value is undefined.
    """
    settings = settings or CompareSettings()
    runs = read_runs(folders)
    known = {"agreement": _agreement, "generate_until": _captioners, "preference": _preference}
    if runs[0].output_type not in known:
        raise UsageError(
            f"{runs[0].path}: runs of protocol '{runs[0].output_type}' cannot be compared",
            f"Those of {', '.join(known)} can.",
        )
    return known[runs[0].output_type](runs, settings, progress)


def _agreement(
    runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress
) -> list[Comparison]:
    require_same_data(runs)
    # Of the same data, so that one run that has the ratings gives them for all.
    rated_by = next((run for run in runs if run.has_ratings), None)
    if rated_by is None:
        raise scores_only(runs[0], "ratings")
    name, statistic = _statistic(runs[0], settings.statistic)
    scored, notes = scored_metrics(runs, settings.metrics)
    scores, usable = common_scores(scored, notes)
    images, protocol = rated_by.images(), rated_by.protocol
    raters, decimals = protocol.get("raters", "flatten"), protocol.get("round_scores")
    ratings = rated_by.ratings()
    rated = {
        one.name: rated_rows(images, ratings, np.where(usable, values, np.nan), raters, decimals)
        for one, values in zip(scored, scores, strict=True)
    }
    rows = next(iter(rated.values()))
    n, groups = sum(map(len, rows)), len(np.unique(np.concatenate([one.groups for one in rows])))
    try:
        estimates = paired_bootstrap(
            statistic,
            rated,
            resamples=settings.resamples,
            seed=settings.seed,
            progress=progress("resamples"),
        )
    except UndefinedStatistic as error:
        raise _undefined(runs[0], statistic.label, error) from error

    def williams(first: str, second: str) -> dict[str, float | None]:
        return {"Williams": _williams(rated[first][0], rated[second][0], estimates, first, second)}

    applies = type(statistic) is Pearson and len(rows) == 1
    if applies and n > groups:
        notes.append(_not_independent("Williams' test", n, groups))
    compared, pairs = _compare(
        scored, estimates, settings, statistic.higher_is_better, williams if applies else None
    )
    return [
        Comparison(
            runs[0].task, runs[0].alias, "metric", "", "", name, statistic.label, n, groups,
            runs[0].scale, settings, compared, pairs, [*notes, *_too_few_resamples(pairs, settings)],
        )
    ]  # fmt: skip


def _preference(
    runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress
) -> list[Comparison]:
    require_same_data(runs)
    _require_statistic(runs[0], settings.statistic, "accuracy")
    scored, notes = scored_metrics(runs, settings.metrics)
    scores, usable = common_scores(scored, notes)
    if not usable.any():
        raise _undefined(runs[0], "accuracy", "no pair was judged by all of them")
    credit = {one.name: values[usable] for one, values in zip(scored, scores, strict=True)}
    _, groups = np.unique(np.asarray(runs[0].images())[usable], return_inverse=True)
    estimates = paired_means(
        credit, groups, resamples=settings.resamples, seed=settings.seed, progress=progress("resamples")
    )

    def mcnemar(first: str, second: str) -> dict[str, float | None]:
        try:
            test = mcnemar_test(credit[first], credit[second])
        except UndefinedStatistic:
            return {"McNemar": None, "McNemar mid-p": None}
        return {"McNemar": test.p, "McNemar mid-p": test.mid_p}

    n, images = len(groups), len(np.unique(groups))
    if n > images:
        notes.append(_not_independent("McNemar's test", n, images))
    compared, pairs = _compare(scored, estimates, settings, True, mcnemar)
    return [
        Comparison(
            runs[0].task, runs[0].alias, "metric", "", "", "accuracy", "accuracy", n, images,
            runs[0].scale, settings, compared, pairs, [*notes, *_too_few_resamples(pairs, settings)],
        )
    ]  # fmt: skip


def _captioners(
    runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress
) -> list[Comparison]:
    if len(runs) < 2:
        raise UsageError(
            f"task '{runs[0].task}' scores captioners: a comparison takes two runs or more",
            "Name the run folder of another model, too.",
        )
    _require_statistic(runs[0], settings.statistic, "mean")
    shared = [name for name in runs[0].metrics if all(name in run.metrics for run in runs[1:])]
    if not shared:
        raise UsageError("the runs have no metric in common")
    chosen = list(dict.fromkeys(settings.metrics)) or shared[:1]
    for name in chosen:
        if name not in shared:
            raise UsageError(
                f"not every run has metric '{name}'.{did_you_mean(name, shared)}",
                f"They have in common: {', '.join(shared)}.",
            )
    return [_captioners_by(name, runs, settings, progress) for name in chosen]


def _captioners_by(
    metric: str, runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress
) -> Comparison:
    made = [run.metrics[metric] for run in runs]
    if any(one != made[0] for one in made):
        raise DataError(
            f"metric '{metric}' was not computed alike in all runs: "
            + "; ".join(f"{run.path}: {one}" for run, one in zip(runs, made, strict=True)),
            "Run the task again for all models with one version of capbench.",
        )
    ids_of = [run.ids() for run in runs]
    others = [set(one) for one in ids_of[1:]]
    ids = [identity for identity in ids_of[0] if all(identity in one for one in others)]
    notes = require_same_references(runs, ids)
    scored = [
        Scored(name, name, run, metric, np.asarray([scores[one] for one in ids]))
        for run, name, scores in zip(
            runs, _model_names(runs), (run.scores_by_id(metric) for run in runs), strict=True
        )
    ]
    scores, usable = common_scores(scored, [])
    n = int(usable.sum())
    if n < 2:
        raise _undefined(runs[0], f"mean of {metric}", f"{n} documents were scored in all runs")
    sizes = [len(one) for one in ids_of]
    if any(size != n for size in sizes):
        notes.append(
            f"{n:,} documents were scored in all runs (they scored {', '.join(f'{s:,}' for s in sizes)})"
        )
    estimates = paired_means(
        {one.name: values[usable] for one, values in zip(scored, scores, strict=True)},
        np.arange(n),
        resamples=settings.resamples,
        seed=settings.seed,
        progress=progress("resamples"),
    )
    label = "mean"
    if made[0].get("aggregation") == "corpus":
        label = "mean of sample values"
        notes.append(
            f"{runs[0].metric_label(metric)} is a corpus value in 'bench run'; compared here is the mean "
            "of the values of single captions, which is another number"
        )
    compared, pairs = _compare(scored, estimates, settings, runs[0].higher_is_better(metric), None)
    return Comparison(
        runs[0].task, runs[0].alias, "model", metric, runs[0].metric_label(metric), "mean", label, n, n,
        runs[0].scale_of(metric), settings, compared, pairs, [*notes, *_too_few_resamples(pairs, settings)],
    )  # fmt: skip


def _compare(
    scored: Sequence[Scored],
    estimates: Mapping[str, Estimate],
    settings: CompareSettings,
    higher_is_better: bool,
    classical: Callable[[str, str], dict[str, float | None]] | None,
) -> tuple[list[Compared], list[Pair]]:
    """Return all of them, best first, and all pairs."""
    level = 1 - settings.alpha
    ranking = rank(estimates, higher_is_better=higher_is_better, alpha=settings.alpha)
    labels = {one.name: one.label for one in scored}
    compared = [
        Compared(
            name, labels[name], estimates[name].value, estimates[name].resampled.interval(level), letter
        )
        for name, letter in ranking.groups.items()
    ]  # fmt: skip
    pairs = [
        Pair(*pair, one.value, one.interval, one.p, p, classical(*pair) if classical else {})
        for pair, one, p in zip(ranking.pairs, ranking.differences, ranking.corrected, strict=True)
    ]
    return compared, pairs


def _statistic(run: FinishedRun, wanted: str) -> tuple[str, Statistic]:
    """Return the task's own statistic of that name, else the registered one with its defaults."""
    entries = [StatisticEntry(**one) for one in run.config["statistics"]]
    listed = {entry.name or entry.statistic: entry for entry in entries}
    name = wanted or next(iter(listed))
    if name not in listed and name not in statistics:
        known = list(dict.fromkeys([*listed, *statistics]))
        raise UsageError(
            f"unknown statistic '{name}'.{did_you_mean(name, known)}",
            f"Task '{run.task}' lists {', '.join(listed)}; 'bench ls statistics' lists all.",
        )
    return name, make_statistic(listed.get(name) or StatisticEntry(statistic=name))


def _require_statistic(run: FinishedRun, wanted: str, only: str) -> None:
    if wanted not in ("", only):
        raise UsageError(
            f"unknown statistic '{wanted}' for a task of protocol {run.output_type}."
            f"{did_you_mean(wanted, [only])}",
            f"Runs of task '{run.task}' are compared by {only}.",
        )


def _williams(
    first: RatedScores, second: RatedScores, estimates: Mapping[str, Estimate], one: str, other: str
) -> float | None:
    try:
        between = Pearson()(first.scores, second.scores, first.groups)
        return williams_test(estimates[one].value, estimates[other].value, between, len(first)).p
    except UndefinedStatistic:
        return None


def _model_names(runs: Sequence[FinishedRun]) -> list[str]:
    names = [run.model or "no model" for run in runs]
    return [
        f"{name} [{run.short_name(runs)}]" if names.count(name) > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]


def _undefined(run: FinishedRun, label: str, reason: object) -> DataError:
    return DataError(
        f"task '{run.task}': {label} is undefined: {reason}",
        "Choose the metrics to compare with --metrics, leaving out those that give every caption one value.",
    )


def _not_independent(test: str, n: int, images: int) -> str:
    return (
        f"{test} supposes independent rows; these {n:,} are of {images:,} images: "
        "letters follow the bootstrap, which draws whole images"
    )


def _too_few_resamples(pairs: Sequence[Pair], settings: CompareSettings) -> list[str]:
    least = len(pairs) / (1 + settings.resamples)
    if least < settings.alpha:
        return []
    needed = math.ceil(len(pairs) / settings.alpha) * 4
    return [
        f"with {settings.resamples:,} resamples and {len(pairs)} pairs no p can fall below {least:.3g} after "
        f"Holm's correction, so nothing can differ at alpha {settings.alpha:g}; try --bootstrap {needed}"
    ]
