"""Compares the metrics, or the captioners, of finished runs of one task."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError, UsageError, did_you_mean
from ...progress import Progress, silent
from ...tasks.schema import StatisticEntry
from ..protocols import names_where
from ..protocols.contract import ComparedRows, PairedEstimates, Subject
from ..protocols.job import Result, shown_times
from ..records.task_run import TaskRun
from ..running.plan import make_statistic
from ..statistics import Draws, Intervals, statistics
from ..statistics.bootstrap import least_p, resamples_for
from ..statistics.contract import Interval, Statistic, UndefinedStatistic
from ..statistics.influence import Influence, Spread
from ..statistics.paired import Difference, difference
from ..statistics.rated_rows import Ratings
from ..statistics.significance import ALPHA, rank
from ..tables.text import decimals_for
from .finished_runs import FinishedRun, own_decoding, read_runs, require_same_task, scored_metrics

_DEFAULT_DECODING = "default decoding"
"""Name of a run without a distinct decoding setting, next to runs of the same model that have one."""


@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison.

    Attributes:
        statistic: The statistic to compare by; empty for the first of the task.
        metrics: The metrics to compare; empty for all (of captioners: for the first that is a mean).
        alpha: Metrics differ where the p after Holm's correction is below it; intervals hold 1 - alpha.
        resamples: Number of bootstrap resamples.
        intervals: As of :class:`~..inputs.settings.RunSettings`.
        seed: Seed of the bootstrap.
    """

    statistic: str = ""
    metrics: Sequence[str] = ()
    alpha: float = ALPHA
    resamples: int = 1000
    seed: int = 1234
    intervals: Intervals = "auto"

    def draws(self, progress: Progress = silent) -> Draws:
        """Return the resamples to draw."""
        return Draws(self.resamples, self.seed, progress("resamples"), self.intervals)


@dataclass(frozen=True)
class RankedValue:
    """One metric (or captioner) of a comparison.

    Attributes:
        name: Its unique name.
        label: The name in tables.
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
        subject: ``metric`` or ``model``, which are compared.
        metric: Of captioners: the metric; else empty.
        metric_label: Its name in tables.
        statistic: Name of the statistic.
        statistic_label: Its name in tables.
        n: Rows that all have in common.
        images: Number of resampled units, such as images, of these rows.
        resampled: The resampled units, in the plural.
        scale: Tables show values times this.
        settings: Settings of the comparison.
        compared: Best first.
        pairs: All pairs.
        notes: Notes for readers.
    """

    task: str
    alias: str
    subject: Subject
    metric: str
    metric_label: str
    statistic: str
    statistic_label: str
    n: int
    images: int
    resampled: str
    scale: float
    settings: CompareSettings
    compared: list[RankedValue]
    pairs: list[Pair]
    notes: list[str]

    @property
    def decimals(self) -> int:
        """Digits behind the point that tables show."""
        return decimals_for(self.scale, [entry.value for entry in self.compared])


def compare_runs(
    folders: Sequence[Path], settings: CompareSettings | None = None, progress: Progress = silent
) -> list[Comparison]:
    """Compare finished runs of one task.

    Args:
        folders: Folders of runs, each with ``run.json`` and ``samples.parquet``.
        settings: What to compare, and how.
        progress: Gives a reporter of (done, total) for a step.

    Returns:
        For tasks that judge metrics one comparison of all metrics; for tasks that score captions one
        comparison of the captioners a metric.

    Raises:
        UsageError: A name is unknown, or there are fewer than two metrics or captioners.
        DataError: A run cannot be read, the runs are of different tasks or data, or a value is undefined.
    """
    settings = settings or CompareSettings()
    runs = read_runs(folders)
    protocol = runs[0].record.protocol
    if not protocol.comparable:
        known = names_where(lambda protocol: protocol.comparable)
        raise UsageError(
            f"{runs[0].path}: runs of protocol '{runs[0].record.output_type}' cannot be compared",
            f"Comparable protocols: {', '.join(known)}.",
        )
    if protocol.subject == "metric":
        return [_metrics(runs, settings, progress)]
    chosen = _chosen_metrics(runs, settings)
    runs, repeated = _without_copies(runs, chosen)
    comparisons = [_models(metric, runs, settings, progress) for metric in chosen]
    comparisons[0].notes[:0] = repeated
    return comparisons


def _without_copies(runs: Sequence[FinishedRun], metrics: Sequence[str]) -> tuple[list[FinishedRun], list[str]]:
    """Return the runs without those that repeat the scores of an earlier one of the same model, and notes of them.

    Raises:
        UsageError: All are one run.
    """
    kept: dict[Any, FinishedRun] = {}
    notes: list[str] = []
    for run in runs:
        model = run.record.model_name, str(run.record.settings.model_args), str(run.record.decoding)
        scores = tuple(run.scores(metric).tobytes() for metric in metrics)
        if (first := kept.setdefault((*model, *scores), run)) is not run:
            notes.append(f"left out {run.path}: the same model and scores as {first.path}")
    if len(kept) < 2 <= len(runs):
        raise UsageError("; ".join(notes), "Name runs of two captioners, or with different settings.")
    return list(kept.values()), notes


def _metrics(runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress) -> Comparison:
    _require_same_data(runs)
    first = runs[0]
    name, statistic = _statistic(first, settings.statistic)
    label = " ".join(filter(None, (statistic.label, first.aspect_of(name)))) if statistic else name
    scored, notes = scored_metrics(runs, settings.metrics)
    rows = _rows_of_metrics(runs, name, statistic, {entry.name: (entry.run, entry.metric) for entry in scored})
    paired = _paired(first, rows, statistic, label, settings.draws(progress))
    left_out, samples = paired.left_out
    if left_out:
        notes.append(f"excluded {left_out:,} of {samples:,} samples: some metric has no score")
    resampled = first.record.protocol.resampled
    if test := paired.supposes_independence:
        notes.append(
            f"{test} assumes independent rows; these {paired.n:,} are of {paired.groups:,} {resampled}: "
            f"letters are from the bootstrap over {resampled}"
        )
    labels = {entry.name: entry.label for entry in scored}
    scale = shown_times(first.record.scale, statistic.range) if statistic else first.record.scale
    return _comparison(first, paired, labels, settings, notes, statistic=name, statistic_label=label, scale=scale)


def _rows_of_metrics(
    runs: Sequence[FinishedRun], name: str, statistic: Statistic | None, scored: Mapping[str, tuple[FinishedRun, str]]
) -> ComparedRows:
    """Return the samples of runs on the same data: metrics of runs by name, and the ratings that a statistic is of."""
    first, ratings = runs[0], Ratings.of(())
    if first.record.protocol.rated:
        # All runs have the same data, so the ratings of one are those of all.
        rated_by = [run for run in runs if any(column.partition(".")[0] == "ratings" for column in run.columns)]
        if not rated_by:
            raise _scores_only(first, "ratings")
        ratings = rated_by[0].ratings(first.aspect_of(name))
    images, systems, categories = map(first.values, ("image", "system", "category"))
    scores = {called: run.scores(metric) for called, (run, metric) in scored.items()}
    lower = {called for called, (run, metric) in scored.items() if not run.record.higher_is_better(metric)}
    return ComparedRows(images, scores, ratings, systems, categories, "" if statistic else name, lower)


def _chosen_metrics(runs: Sequence[FinishedRun], settings: CompareSettings) -> list[str]:
    """Return the metrics by which models are compared, each of which all runs have."""
    if len(runs) < 2:
        raise UsageError(
            f"task '{runs[0].record.task}' scores captioners: a comparison needs two runs or more",
            "Add the run folder of another model.",
        )
    shared = [name for name in runs[0].metrics if all(name in run.metrics for run in runs[1:])]
    if not shared:
        raise UsageError("the runs have no metric in common", "Run the task with the same metrics for all models.")
    means = [name for name in shared if runs[0].metrics[name].get("aggregation") != "corpus"]
    by_label: dict[str, list[str]] = {}
    for name in shared:
        by_label.setdefault(runs[0].record.metric_label(name), []).append(name)
    chosen: list[str] = []
    for name in settings.metrics:
        meant = [name] if name in shared else by_label.get(name, [name])
        if len(meant) > 1:
            raise UsageError(f"'{name}' is the label of {' and '.join(meant)} alike", "Name one of them.")
        chosen += meant
    chosen = list(dict.fromkeys(chosen)) or (means or shared)[:1]
    for name in chosen:
        if name not in shared:
            raise UsageError(
                f"metric '{name}' is not in all of the runs.{did_you_mean(name, shared)}",
                f"Metrics of all runs: {', '.join(shared)}.",
            )
    return chosen


def _models(metric: str, runs: Sequence[FinishedRun], settings: CompareSettings, progress: Progress) -> Comparison:
    first, origins = runs[0], [run.metrics[metric] for run in runs]
    name, statistic = _statistic(first, settings.statistic)
    if any(origin != origins[0] for origin in origins):
        raise DataError(
            f"metric '{metric}' has different settings or versions in the runs: "
            + "; ".join(f"{run.path}: {origin}" for run, origin in zip(runs, origins, strict=True)),
            "Run the task again for all models with one version of capbench.",
        )
    names = _model_names(runs)
    rows, notes = on_shared_documents(metric, runs, names)
    paired, label, why = None, name, "--statistic asks for it"
    if (is_corpus := origins[0].get("aggregation") == "corpus") and not settings.statistic:
        try:
            paired = PairedEstimates(_corpus_values(metric, runs, names), len(rows.images), len(rows.images))
            name = label = "corpus"
        except UndefinedStatistic as error:
            why = str(error)
    if paired is None:
        paired = _paired(first, rows, statistic, f"{name} of {metric}", settings.draws(progress))
        if is_corpus:
            label = f"{name} of sample values"
            notes.append(
                f"{first.record.metric_label(metric)} is a corpus value in 'bench run'; "
                f"compared here is the {name} of caption values: {why}"
            )
    sizes = [int(np.isfinite(run.scores(metric)).sum()) for run in runs]
    if any(size != paired.n for size in sizes):
        notes.append(
            f"{paired.n:,} {first.record.protocol.resampled} were scored in all runs "
            f"(they scored {', '.join(f'{s:,}' for s in sizes)})"
        )
    paired = replace(paired, higher_is_better=first.record.higher_is_better(metric))
    named = {"metric": metric, "statistic": name, "statistic_label": label}
    labels, scale = dict(zip(names, names, strict=True)), first.record.scale_of(metric, name)
    return _comparison(first, paired, labels, settings, notes, scale=scale, **named)


def _statistic(run: FinishedRun, wanted: str) -> tuple[str, Statistic | None]:
    """Return the name and the statistic to compare by: the protocol's (None), the task's, or the registered one."""
    if own := run.record.protocol.compared_by:
        if wanted and wanted not in own:
            raise UsageError(
                f"unknown statistic '{wanted}' for a task of protocol {run.record.output_type}."
                f"{did_you_mean(wanted, own)}",
                f"Runs of task '{run.record.task}' are compared by {', '.join(own)}.",
            )
        return wanted or own[0], None
    aspects = run.aspects
    listed = {name: entry for entry in run.record.statistics for name in entry.names(aspects)}
    registered = [StatisticEntry(statistic=name) for name in statistics]
    every = {name: entry for entry in registered for name in entry.names(aspects)} | listed
    name = wanted or next(iter(listed), "")
    if not name:
        raise DataError(
            f"{run.path}: the task lists no statistic", "Choose one with --statistic; 'bench ls statistics' lists all."
        )
    if name not in every:
        raise UsageError(
            f"unknown statistic '{name}'.{did_you_mean(name, list(every))}",
            f"Task '{run.record.task}' lists {', '.join(listed)}; 'bench ls statistics' lists all.",
        )
    return name, make_statistic(every[name])


def _paired(
    run: FinishedRun, rows: ComparedRows, statistic: Statistic | None, label: str, draws: Draws
) -> PairedEstimates:
    """Return the estimates of the protocol's statistic, on the same resamples for all."""
    try:
        return run.record.protocol.compare(rows, statistic, draws)
    except UndefinedStatistic as error:
        raise DataError(
            f"task '{run.record.task}': {label} is undefined: {error}",
            "Choose metrics with --metrics, without those whose scores are all equal.",
        ) from error


def _comparison(
    first: FinishedRun,
    paired: PairedEstimates,
    labels: Mapping[str, str],
    settings: CompareSettings,
    notes: Sequence[str],
    metric: str = "",
    **named: Any,
) -> Comparison:
    """Return the comparison of estimates, given their labels and further fields of ``Comparison``."""
    record, estimates, shares = first.record, paired.estimates, paired.is_share
    ranking = rank(estimates, higher_is_better=paired.higher_is_better, alpha=settings.alpha)
    intervals = {name: estimate.interval(1 - settings.alpha, is_share=shares) for name, estimate in estimates.items()}
    compared = [
        RankedValue(name, labels[name], estimates[name].value, intervals[name], letter)
        for name, letter in ranking.groups.items()
    ]
    pairs = [
        Pair(*pair, gap.value, gap.interval, gap.p, p, paired.classical(*pair) if paired.classical else {})
        for pair, gap, p in zip(ranking.pairs, ranking.differences, ranking.corrected, strict=True)
    ]
    return Comparison(
        task=record.task, alias=record.alias, subject=record.protocol.subject,
        metric=metric, metric_label=metric and record.metric_label(metric),
        n=paired.n, images=paired.groups, resampled=record.protocol.resampled, settings=settings,
        compared=compared, pairs=pairs, notes=[*notes, *_too_few_resamples(pairs, paired.groups, settings)], **named,
    )  # fmt: skip


def _model_names(runs: Sequence[FinishedRun]) -> list[str]:
    """Return unique names of runs: the model, with its decoding or the folder where models are equal."""
    models = [run.record.model_name or "no model" for run in runs]
    names = []
    for model, run in zip(models, runs, strict=True):
        twins = [other for other, name in zip(runs, models, strict=True) if name == model]
        records = [twin.record for twin in twins]
        own = own_decoding(run.record, records)
        is_alone = [own_decoding(record, records) for record in records].count(own) == 1
        mark = (own or _DEFAULT_DECODING) if is_alone else run.short_name(runs)
        names.append(f"{model} [{mark}]" if len(twins) > 1 else model)
    return names


def _too_few_resamples(pairs: Sequence[Pair], images: int, settings: CompareSettings) -> list[str]:
    if images < 2 or not pairs:
        return []
    least = len(pairs) * least_p(settings.resamples, images)
    if least < settings.alpha or any(pair.interval.method == "influence" for pair in pairs):
        return []
    needed = resamples_for(settings.alpha / len(pairs), images)
    remedy = f"try --bootstrap {4 * needed}" if needed else "more images are needed"
    return [
        f"with {settings.resamples:,} resamples and {len(pairs)} pairs no p can fall below {least:.3g} after "
        f"Holm's correction: nothing can be significant at alpha {settings.alpha:g}; {remedy}"
    ]


def on_shared_documents(
    metric: str, runs: Sequence[FinishedRun], names: Sequence[str]
) -> tuple[ComparedRows, list[str]]:
    """Return the scores of the documents that all runs have, and notes on them.

    Args:
        metric: The metric.
        runs: Runs of captioners.
        names: Name of each run.

    Raises:
        DataError: A document has different references in two runs.
    """
    ids_of = [run.values("id") for run in runs]
    others = [set(ids) for ids in ids_of[1:]]
    ids = [identity for identity in ids_of[0] if all(identity in other for other in others)]
    first, notes = runs[0], []
    if first.record.protocol.takes_metrics:
        notes = _require_same_references(runs, ids)
    else:
        _require_same_data(runs)
    images = dict(zip(ids_of[0], first.values("image"), strict=True))
    scores: dict[str, np.ndarray] = {}
    for name, run, its_ids in zip(names, runs, ids_of, strict=True):
        by_id = dict(zip(its_ids, run.scores(metric).tolist(), strict=True))
        scores[name] = np.asarray([by_id[identity] for identity in ids])
    categories = dict(zip(ids_of[0], first.values("category"), strict=False))
    of_ids = [categories[identity] for identity in ids] if categories else []
    return ComparedRows([images[identity] for identity in ids], scores, categories=of_ids), notes


def changes(before: TaskRun, after: TaskRun) -> dict[tuple[str, str], Difference]:
    """Return the paired difference of each overall value of two runs, by metric and statistic.

    Resamples draw the same images for both; differences of corpus values are by the infinitesimal jackknife over
    documents. Values of metrics with different settings, or that are undefined, have no difference.

    Args:
        before: The first run, as ``evaluate`` returned it.
        after: The second run, of the same task.

    Raises:
        DataError: They are of different tasks or data.
    """
    first, second = runs = [_with_samples(run) for run in (before, after)]
    require_same_task(runs)
    if not first.record.protocol.comparable:
        return {}
    differences: dict[tuple[str, str], Difference] = {}
    for result in before.results:
        origin = first.metrics.get(result.metric)
        if result.category or origin is None or second.metrics.get(result.metric) != origin:
            continue
        with suppress(UndefinedStatistic):
            estimates = _before_and_after(result, runs)
            differences[result.metric, result.statistic] = difference(estimates["after"], estimates["before"])
    return differences


def _with_samples(run: TaskRun) -> FinishedRun:
    table = run.samples
    return FinishedRun(run.folder or Path(run.record.task), run.record, table.column_names, table.select)


def _before_and_after(result: Result, runs: Sequence[FinishedRun]) -> Mapping[str, Spread]:
    """Return a value of both runs, as they scatter together.

    Raises:
        DataError: The runs are of different data.
        UndefinedStatistic: A value is undefined.
    """
    (first, second), metric = runs, result.metric
    protocol, draws, names = first.record.protocol, CompareSettings().draws(), ("before", "after")
    if protocol.subject == "metric":
        _require_same_data(runs)
        name, statistic = _statistic(first, result.statistic)
        rows = _rows_of_metrics(runs, name, statistic, {"before": (first, metric), "after": (second, metric)})
        return protocol.compare(rows, statistic, draws).estimates
    if result.statistic != "corpus":
        return protocol.compare(on_shared_documents(metric, runs, names)[0], None, draws).estimates
    spreads = _corpus_values(metric, runs, names)
    _require_same_references(runs, first.values("id"))
    return spreads


def _corpus_values(metric: str, runs: Sequence[FinishedRun], names: Sequence[str]) -> dict[str, Spread]:
    """Return the corpus value of a metric of each run, with the influence of each document.

    Raises:
        UndefinedStatistic: The runs score other documents, do not hold influences, or a value is undefined.
    """
    column, ids = f"influence.{metric}", runs[0].values("id")
    if any(set(ids) != set(run.values("id")) or not np.isfinite(run.scores(metric)).all() for run in runs):
        raise UndefinedStatistic("not all documents are scored in all runs")
    if any(column not in run.columns for run in runs):
        raise UndefinedStatistic(f"a run has no column {column}")
    spreads: dict[str, Spread] = {}
    for name, run in zip(names, runs, strict=True):
        of_id = dict(zip(run.values("id"), run.values(column), strict=True))
        value = run.record.results[metric].value
        if value is None:
            raise UndefinedStatistic("its value is undefined")
        spreads[name] = Influence(value, np.array([of_id[identity] for identity in ids]))
    return spreads


def _scores_only(run: FinishedRun, needed: str) -> DataError:
    """Return the error for a run whose samples lack texts or ratings that a comparison needs."""
    return DataError(
        f"{run.path}: samples.parquet has only scores; this comparison needs {needed}",
        f"Run the task again with --log_samples full: bench run --task {run.record.task} --log_samples full",
    )


def _require_same_data(runs: Sequence[FinishedRun]) -> None:
    """Raise unless all runs scored the same samples under the same protocol.

    Raises:
        DataError: They did not; the message names the first difference.
    """
    first = runs[0]
    for run in runs[1:]:
        if difference := _what_differs(first, run):
            raise DataError(
                f"{first.path} and {run.path} scored different data: {difference}",
                "Metrics can be compared only on the same samples, references and ratings.",
            )


def _require_same_references(runs: Sequence[FinishedRun], ids: Sequence[str]) -> list[str]:
    """Raise unless documents have the same references in all runs; return notes on the check.

    Args:
        runs: Runs of captioners.
        ids: Documents that all of them scored.

    Raises:
        DataError: They have not, or runs with scores alone leave it open.
    """
    bare = [run for run in runs if "references" not in run.columns]
    if bare:
        hashes = {run.record.documents_hash for run in runs}
        if len(hashes) > 1 or None in hashes:
            raise _scores_only(bare[0], "references, as the documents' hashes differ or are missing")
        paths = ", ".join(str(run.path) for run in bare)
        return [f"references were not compared one by one: {paths} holds scores alone; the documents' hashes are equal"]
    references = [dict(zip(run.values("id"), run.values("references"), strict=True)) for run in runs]
    for run, texts in zip(runs[1:], references[1:], strict=True):
        for identity in ids:
            if texts[identity] != references[0][identity]:
                raise DataError(
                    f"document '{identity}' has different references in {run.path} and {runs[0].path}",
                    "Runs over different data cannot be compared.",
                )
    return []


def _what_differs(first: FinishedRun, second: FinishedRun) -> str:
    """Return the first difference between the data of two runs; empty if there is none."""
    settings = second.record.protocol.fingerprint()
    for key, value in first.record.protocol.fingerprint().items():
        if (other := settings[key]) != value:
            return f"protocol.{key} is {value} in one and {other} in the other"
    if len(first.samples) != len(second.samples):
        limits = [run.record.settings.limit for run in (first, second)]
        notes = [f" (--limit {limit})" if limit is not None else "" for limit in limits]
        return f"{len(first.samples):,} samples{notes[0]} and {len(second.samples):,} samples{notes[1]}"
    if first.record.data_hash == second.record.data_hash:
        return ""
    shared = [name for name in first.columns if name in second.columns]
    compared = ("id", "image", "candidate", "references", "ratings", "system", "category")
    for column in (name for name in shared if name.partition(".")[0] in compared):
        columns = (run.values(column) for run in (first, second))
        for identity, mine, other in zip(first.values("id"), *columns, strict=True):
            if mine != other:
                return f"sample '{identity}' has {column} {mine!r} in one and {other!r} in the other"
    return "their fingerprints differ"
