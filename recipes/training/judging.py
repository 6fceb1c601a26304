"""What tasks say of a model before and after a training, and of the metrics that it was paid by."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...adapters.aliases import ModelSpec
from ...benchmarks.api import evaluate
from ...benchmarks.comparing.comparison import changes
from ...benchmarks.inputs.metric_names import read_metric, split_metrics
from ...benchmarks.records.task_run import TaskRun
from ...benchmarks.running.resolve import resolve_call
from ...benchmarks.tables.results import result_rows
from ...metrics import metrics
from .checkpoints import TrainingState
from .schema import JudgeTask, LoadedRecipe

if TYPE_CHECKING:
    from .rewards import RewardPart


Row = dict[str, Any]
"""A result, as ``result_rows`` gives it."""


class JudgedRun(NamedTuple):
    """A run of a model, and what asked for it."""

    judge: JudgeTask
    run: TaskRun


def require_judges(
    judges: Sequence[JudgeTask],
    model: ModelSpec,
    probe: str | None,
    rewarded: Sequence[RewardPart],
    options: Mapping[str, Any],
) -> None:
    """Raise unless tasks can judge a model, as far as that can be said before it is trained.

    Args:
        judges: As of :func:`judged`.
        model: As there.
        probe: As of :func:`noticed`; None for none.
        rewarded: As there.
        options: As there.

    Raises:
        BenchError: A task is not known, or lacks its data or what one of its metrics needs.
    """
    places = {name: options[name] for name in ("data", "include_path", "allow_outside") if name in options}
    for judge in judges:
        resolve_call(
            [judge.task], model=model.adapter, model_args=_arguments(model), encoder=judge.encoder,
            metric_names=_metrics(judge, model), **places,
        )  # fmt: skip
    for part in rewarded if probe else ():
        resolve_call(str(probe), model=part.encoder, judge=part.judge, metric_names=[part.metric], **places)


def judged(judges: Sequence[JudgeTask], model: ModelSpec, folder: Path, options: Mapping[str, Any]) -> list[JudgedRun]:
    """Return the runs of a model, those of each task after the other's.

    Args:
        judges: The tasks.
        model: The model.
        folder: Where the runs are written.
        options: More of ``evaluate``: ``store``, ``data``, …

    Raises:
        BenchError: A task cannot be run.
    """
    found: list[JudgedRun] = []
    for judge in judges:
        settings: dict[str, Any] = {} if judge.limit is None else {"limit": judge.limit}
        if judge.encoder is not None:
            settings["encoder"] = judge.encoder
        if judge.generation_kwargs:
            settings["generation_kwargs"] = judge.generation_kwargs
        runs = evaluate(
            model.adapter, [judge.task], model_args=_arguments(model), metrics=_metrics(judge, model),
            output_path=folder, log_samples="scores", **settings, **options,
        )  # fmt: skip
        found += [JudgedRun(judge, run) for run in runs.tasks]
    return found


def _arguments(model: ModelSpec) -> dict[str, Any]:
    return {**model.arguments, "name": model.name}


def _metrics(judge: JudgeTask, model: ModelSpec) -> list[str]:
    names = split_metrics(judge.metrics)
    return [one for one in names if _fits(one, model.family)] if model.role == "encoder" else names


def _fits(name: str, family: str) -> bool:
    return metrics[_name(name)].encoder_family in (None, family)


def _name(metric: str) -> str:
    """Return a metric's name without its settings."""
    return str(read_metric(metric).metric)


def compared(before: Sequence[JudgedRun], after: Sequence[JudgedRun], rewarded: Sequence[RewardPart]) -> list[Row]:
    """Return a row a result: both values, by how much it rose, and whether the training was paid for it.

    ``difference`` is that of the same documents, with its interval: of captioners, where the value is a mean.

    Args:
        before: What judged the start model.
        after: The same of the trained one.
        rewarded: The metrics that the training was paid for.
    """
    found: list[Row] = []
    for (judge, first), (_, second) in zip(before, after, strict=True):
        rose = changes(first.folder, second.folder) if first.folder and second.folder else {}
        paid = {_name(one.metric) for one in rewarded if one.encoder in (None, judge.encoder)}
        is_better = {one.metric: one.higher_is_better for one in first.results}
        for row in side_by_side(result_rows([first]), result_rows([second])):
            metric = row["metric"]
            change = rose.get(metric)
            row["difference"] = change and {
                "value": change.value, "low": change.interval.low, "high": change.interval.high
            }  # fmt: skip
            row["rewarded"] = bool(change) and _name(metric) in paid
            row["higher_is_better"] = is_better.get(metric, True)
            found.append(row)
    return found


def noticed(probe: str, rewarded: Sequence[RewardPart], folder: Path, options: Mapping[str, Any]) -> list[Row]:
    """Return what the metrics of a reward notice of captions that a task changes: a row a rule and metric.

    Args:
        probe: The task.
        rewarded: The metrics.
        folder: Where the runs are written.
        options: As of :func:`judged`.

    Raises:
        BenchError: The task cannot be run.
    """
    found: dict[tuple[str, str], Row] = {}
    for part in rewarded:
        runs = evaluate(
            part.encoder, [probe], judge=part.judge, metrics=[part.metric], output_path=folder,
            log_samples="none", **options,
        )  # fmt: skip
        for result in runs.tasks[0].results:
            # The first value of a rule is the one that is expected of it.
            row = {"metric": part.metric, "rule": result.label[1], "value": result.value, "n": result.n}
            interval = result.interval
            row |= {"low": interval and interval.low, "high": interval and interval.high}
            found.setdefault((part.metric, result.category), row)
    return list(found.values())


def side_by_side(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return a row a result with both values and their intervals.

    Where the weights are of another family afterwards, the metrics of both stand beside each other by their order.
    """
    ranked: list[dict[tuple[str, ...], Row]] = []
    for rows in (before, after):
        seen: dict[tuple[str, ...], Row] = {}
        for row in rows:
            key = (row["task"], row["statistic"], row["category"])
            seen[(*key, str(sum(other[:3] == key for other in seen)))] = row
        ranked.append(seen)
    first, second = ranked
    return [
        {
            "task": key[0],
            "metric": " → ".join(dict.fromkeys([first[key]["metric"], second[key]["metric"]])),
            "statistic": " ".join(filter(None, key[1:3])),
            "before": _with_interval(first[key]),
            "after": _with_interval(second[key]),
            "n": second[key]["n"],
        }
        for key in first
        if key in second
    ]


def _with_interval(row: Row) -> dict[str, float | None]:
    return {name: row[name] for name in ("value", "low", "high")}


@dataclass(frozen=True)
class TrainingFacts:
    """What is known of a training.

    Attributes:
        model: What was trained.
        parameters: How many numbers of it.
        data: Hash of the rows.
        counts: Of the rows.
        state: Where it ended.
        seconds: Of all steps.
        scores: Before and after; see ``compared``.
        noticed: What the metrics of the reward notice; see ``noticed``.
        versions: Of the libraries.
    """

    model: str
    parameters: int
    data: str
    counts: Mapping[str, int]
    state: TrainingState
    seconds: float
    scores: Sequence[Row]
    noticed: Sequence[Row]
    versions: Mapping[str, str]


def model_card(loaded: LoadedRecipe, facts: TrainingFacts, name: str) -> str:
    """Return the card as Markdown.

    Args:
        loaded: The recipe.
        facts: What is known.
        name: Of the result.
    """
    recipe = loaded.recipe
    kept = f"those of step {facts.state.best_step}, validation loss {facts.state.best:.4f}" if (
        recipe.stop.keep == "best" and facts.state.best is not None
    ) else "the last"  # fmt: skip
    changed = "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in loaded.changed.items())
    lines = [
        f"# {name}",
        "",
        *([recipe.description, ""] if recipe.description else []),
        f"    bench train {shlex.quote(loaded.named)}{changed}",
        f"    bench run --model {name} --task TASK",
        "",
        f"- **Method**: {recipe.paper or recipe.recipe}",
        f"- **Start**: {facts.model}; {facts.parameters:,} numbers were trained.",
        f"- **Data**: {', '.join(f'{count:,} {what}' for what, count in facts.counts.items() if count)}; "
        f"hash {facts.data[:16]} (names and texts, not pixels).",
        f"- **Steps**: {facts.state.step:,} in {facts.seconds:,.0f} s ({facts.state.ended}); kept are {kept}. "
        f"Seed {recipe.seed}.",
        f"- **Made with**: {', '.join(f'{one} {version}' for one, version in facts.versions.items())}.",
        "",
        *_table(facts.scores),
        *_noticed(facts.noticed),
    ]
    if recipe.choices:
        lines += ["What the paper leaves open, and was chosen:", ""]
        lines += [f"- `{key}`: {why}" for key, why in recipe.choices.items()]
        lines.append("")
    return "\n".join(lines)


def _table(scores: Sequence[Row]) -> list[str]:
    if not scores:
        return ["No task judged it.", ""]
    has_changes = any(row["difference"] for row in scores)
    heads = ["task", "metric", "statistic", "before", "after", *(["change", ""] if has_changes else [])]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in scores:
        cells = [row["task"], row["metric"], row["statistic"], *map(_shown, (row["before"], row["after"]))]
        if has_changes:
            cells += [_shown(row["difference"], "+") if row["difference"] else "", _direction(row)]
        lines.append(f"| {' | '.join(cells)} |")
    told = "Values with 95 % intervals of each by itself."
    if has_changes:
        told += (
            " The change is that of the same documents, with the interval of the paired bootstrap: what it leaves "
            "open is neither higher nor lower."
        )
    return [*lines, "", told, ""]


def _direction(row: Row) -> str:
    """Return where a metric went, and whether the training was paid for it."""
    said = ["**the reward**"] if row["rewarded"] else []
    change = row["difference"]
    if change and change["low"] is not None and not change["low"] <= 0 <= change["high"]:
        said.append("higher" if change["low"] > 0 else "lower")
        if row["higher_is_better"] is False:
            said[-1] += " (worse)" if change["low"] > 0 else " (better)"
    return ", ".join(said)


def _noticed(found: Sequence[Row]) -> list[str]:
    """Return what the metrics of the reward notice: a row a rule, a column a metric."""
    if not found:
        return []
    names = list(dict.fromkeys(row["metric"] for row in found))
    by_rule: dict[str, dict[str, Row]] = {}
    for row in found:
        by_rule.setdefault(row["rule"], {})[row["metric"]] = row
    lines = ["What the metrics of the reward notice of captions that rules changed (docs/checklist.md):", ""]
    lines += [f"| rule | {' | '.join(names)} | n |", f"|---|{'---|' * len(names)}---|"]
    for rule, rows in by_rule.items():
        cells = [_shown(rows[name]) if name in rows else "–" for name in names]
        lines.append(f"| {rule} | {' | '.join(cells)} | {max(row['n'] for row in rows.values())} |")
    return [*lines, ""]


def _shown(found: Mapping[str, Any], sign: str = "") -> str:
    if found["value"] is None:
        return "–"
    interval = "" if found["low"] is None else f" [{found['low']:{sign}.3f}, {found['high']:{sign}.3f}]"
    return f"{found['value']:{sign}.3f}{interval}"
