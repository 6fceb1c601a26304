"""Evaluates a model before and after a training, and the metrics of its reward; writes the model card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...adapters.aliases import ModelSpec
from ...adapters.checkpoint_identity import checkpoint_identity
from ...benchmarks.api import evaluate
from ...benchmarks.comparing.comparison import changes
from ...benchmarks.inputs.settings import read_metric, split_metrics
from ...benchmarks.records.task_run import TaskRun
from ...benchmarks.running.plan import resolve_call
from ...benchmarks.tables.results import result_rows
from ...metrics import metrics
from ...rows import load_json
from .checkpoints import TrainingState
from .contract import WEIGHTS, Trainer, start_of
from .schema import JudgeTask, LoadedRecipe

if TYPE_CHECKING:
    from .rewards import RewardPart


Row = dict[str, Any]
"""A result, as ``result_rows`` gives it."""
ENDS = ("value", "low", "high")
_LIBRARIES = ("torch", "transformers", "open_clip_torch", "peft")


class JudgedRun(NamedTuple):
    """A run of a model, and its evaluation settings."""

    judge: JudgeTask
    run: TaskRun


def require_judges(
    judges: Sequence[JudgeTask],
    model: ModelSpec,
    probe: str | None,
    rewarded: Sequence[RewardPart],
    options: Mapping[str, Any],
) -> None:
    """Raise unless tasks can evaluate a model, as far as can be checked before the training.

    Args:
        judges: See :func:`judged`.
        model: See :func:`judged`.
        probe: See :func:`sensitivities`; None for none.
        rewarded: See :func:`sensitivities`.
        options: See :func:`judged`.

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
    """Return the runs of a model, task by task.

    Args:
        judges: The tasks.
        model: The model.
        folder: Where the runs are written.
        options: Options of ``evaluate``: ``store``, ``data``, …

    Raises:
        BenchError: A task cannot be run.
    """
    judged_runs: list[JudgedRun] = []
    for judge in judges:
        asked = {name: getattr(judge, name) for name in ("limit", "encoder", "generation_kwargs")}
        settings: dict[str, Any] = {name: value for name, value in asked.items() if value}
        runs = evaluate(
            model.adapter, [judge.task], model_args=_arguments(model), metrics=_metrics(judge, model),
            output_path=folder, log_samples="scores", **settings, **options,
        )  # fmt: skip
        judged_runs += [JudgedRun(judge, run) for run in runs.tasks]
    return judged_runs


def _arguments(model: ModelSpec) -> dict[str, Any]:
    return {**model.arguments, "name": model.name}


def _metrics(judge: JudgeTask, model: ModelSpec) -> list[str]:
    names = split_metrics(judge.metrics)
    if model.role != "encoder":
        return names
    return [metric for metric in names if metrics[_name(metric)].encoder_family in (None, model.family)]


def _name(metric: str) -> str:
    """Return a metric's name without its settings."""
    return str(read_metric(metric).metric)


def compared(before: Sequence[JudgedRun], after: Sequence[JudgedRun], rewarded: Sequence[RewardPart]) -> list[Row]:
    """Return a row per result: both values, their difference, and the parts of the reward that are its metric.

    ``difference`` is paired, with its interval: of overall values; None where it is undefined. A metric is the reward
    whichever settings it has, if it is scored by the same model.

    Args:
        before: The runs of the start model.
        after: The runs of the trained model.
        rewarded: The metrics of the reward.
    """
    table: list[Row] = []
    for (judge, first), (_, second) in zip(before, after, strict=True):
        rose = differences(first, second)
        is_better = {result.metric: result.higher_is_better for result in first.results}
        for row in side_by_side(result_rows([first]), result_rows([second])):
            metric, category = row["metric"], row.pop("category")
            row["difference"] = None if category else rose.get((metric, row["statistic"]))
            row["rewarded"] = [part.metric for part in rewarded if _is_rewarded(part, metric, judge)]
            row["higher_is_better"] = is_better.get(metric, True)
            table.append(row)
    return table


def _is_rewarded(part: RewardPart, metric: str, judge: JudgeTask) -> bool:
    """Return whether a part of the reward is a metric of an evaluation, scored by the same model."""
    name = _name(part.metric)
    return name == metric.partition("[")[0] and (
        "encoder" not in metrics[name].needs or part.encoder in (None, judge.encoder)
    )


def differences(first: TaskRun, second: TaskRun) -> dict[tuple[str, str], Row]:
    """Return the paired difference of each metric and statistic, with its interval."""
    return {
        key: {"value": float(change.value), "low": change.interval.low, "high": change.interval.high}
        for key, change in changes(first, second).items()
    }


def sensitivities(probe: str, rewarded: Sequence[RewardPart], folder: Path, options: Mapping[str, Any]) -> list[Row]:
    """Return the sensitivity of a reward's metrics to the caption changes of a task: a row per rule and metric.

    Args:
        probe: The task.
        rewarded: The metrics.
        folder: Where the runs are written.
        options: See :func:`judged`.

    Raises:
        BenchError: The task cannot be run.
    """
    table: dict[tuple[str, str], Row] = {}
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
            table.setdefault((part.metric, result.category), row)
    return list(table.values())


def side_by_side(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return a row per result with both values and their intervals.

    If the training changes the family of weights, metrics before and after are matched by their order.
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
            "category": key[2],
            "before": {name: first[key][name] for name in ENDS},
            "after": {name: second[key][name] for name in ENDS},
            "n": second[key]["n"],
        }
        for key in first
        if key in second
    ]


def model_card(
    loaded: LoadedRecipe,
    folder: Path,
    trainer: Trainer,
    state: TrainingState,
    seconds: float,
    scores: Sequence[Row],
    sensitivity: Sequence[Row],
) -> str:
    """Return the model card as Markdown.

    Args:
        loaded: The recipe.
        folder: The result's.
        trainer: Its trainer.
        state: The final state.
        seconds: Duration of all steps.
        scores: Before and after; see ``compared``.
        sensitivity: Of the reward's metrics; see ``sensitivities``.
    """
    recipe, counts, name = loaded.recipe, trainer.rows.counts(), folder.name
    library, loading = _library(folder / WEIGHTS)
    versions = {name: package.version for name in _LIBRARIES for package in distributions(name=name)}
    kept = f"step {state.best_step}, {recipe.stop.in_words} {state.best:.4f}" if (
        recipe.stop.keep == "best" and state.best is not None
    ) else "the last"  # fmt: skip
    lines = [
        *_front_matter(loaded, name, library, scores),
        f"# {name}",
        "",
        *([recipe.description, ""] if recipe.description else []),
        f"    {loaded.command('train')}",
        f"    bench run --model {name} --task TASK",
        "",
        f"- **Method**: {recipe.paper or recipe.recipe}",
        f"- **Start**: {_start(start_of(recipe))}; {trainable_count(trainer):,} trainable parameters.",
        f"- **Data**: {', '.join(f'{count:,} {kind}' for kind, count in counts.items() if count)}; "
        f"hash {trainer.rows.digest()[:16]} (names and texts, not pixels).",
        f"- **Steps**: {state.step:,} in {seconds:,.0f} s ({state.ended}); weights kept: {kept}. Seed {recipe.seed}.",
        *_reward(trainer.rewarded, scores),
        *loading,
        f"- **Made with**: {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        "",
        *_table(scores),
        *_rules(sensitivity),
        *loaded.choices(),
    ]
    return "\n".join(lines)


def _start(spec: ModelSpec) -> str:
    """Return a model by name, with its commit or the hash of its files."""
    pretrained = str(spec.arguments.get("pretrained", ""))
    if pinned := spec.pinned():
        return f"{spec.name}, commit {pinned['revision']} of {pretrained}"
    if Path(pretrained).expanduser().is_dir():
        return f"{Path(spec.name).name}, {checkpoint_identity(pretrained, None)['checkpoint']}"
    return spec.name


def _library(weights: Path) -> tuple[str | None, list[str]]:
    """Return the library that loads weights, as the hub calls it, and the card's line on it; None if it is capbench."""
    config = weights / "config.json"
    if (weights / "adapter_config.json").is_file():
        return "peft", ["- **Loads with**: peft's `PeftModel.from_pretrained`, over the start model."]
    if (weights / "open_clip_config.json").is_file():
        return "open_clip", ["- **Loads with**: open_clip: `local-dir:FOLDER/weights`, or `hf-hub:OWNER/NAME`."]
    if not config.is_file():
        return None, []
    values = load_json(config)
    kind, more = values["architectures"][0], ""
    is_pair = values["model_type"] == "vision-encoder-decoder"
    processor = "`AutoImageProcessor` and `AutoTokenizer`" if is_pair else "`AutoProcessor`"
    if values.get("auto_map"):
        kind = "AutoModelForImageTextToText"
        more = ", with `trust_remote_code=True`: `grid_encoder.py` beside the weights is the code of its encoder"
    return "transformers", [f"- **Loads with**: transformers' `{kind}`, {processor}{more}."]


def _front_matter(loaded: LoadedRecipe, name: str, library: str | None, scores: Sequence[Row]) -> list[str]:
    """Return the lines that the hub reads: licence and name of the base model, library, data, and values afterwards."""
    from huggingface_hub import EvalResult, ModelCardData

    start = start_of(loaded.recipe)
    is_on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", start.source) and not Path(start.source).exists()
    results = [
        EvalResult(
            task_type="zero-shot-image-classification" if start.role == "encoder" else "image-to-text",
            dataset_type=row["task"],
            dataset_name=row["task"],
            metric_type=row["metric"],
            metric_name=" ".join(filter(None, (row["metric"], row["statistic"]))),
            metric_value=row["after"]["value"],
        )
        for row in scores
        if row["after"]["value"] is not None
    ]
    # The hub refuses names of licences that it does not know.
    licence = re.sub(r"[^a-z0-9.]+", "-", start.licence.lower()).strip("-")
    named = licence if licence in ("", "apache-2.0", "mit") else "other"
    card = ModelCardData(
        license=named or None,
        license_name=licence if named == "other" else None,
        datasets=[data] if (data := loaded.recipe.data.task) else None,
        base_model=start.source if is_on_hub else None,
        library_name=library,
        model_name=name,
        tags=["capbench", loaded.recipe.recipe],
        eval_results=results or None,
    )
    return ["---", card.to_yaml(), "---", ""]


def _reward(rewarded: Sequence[RewardPart], scores: Sequence[Row]) -> list[str]:
    """Return a line on the metrics of the reward and those that no task judged; empty without a reward."""
    if not rewarded:
        return []
    parts = " + ".join(f"{part.weight:g} × {_with_model(part)}" for part in rewarded)
    judged_parts = {metric for row in scores for metric in row["rewarded"]}
    unjudged = [_with_model(part) for part in rewarded if part.metric not in judged_parts]
    note = f"; judged by no task: {', '.join(unjudged)}" if unjudged and scores else ""
    return [f"- **Reward**: {parts}{note}."]


def _with_model(part: RewardPart) -> str:
    model = part.encoder or part.judge
    return f"{part.metric} ({model})" if model else part.metric


def trainable_count(trainer: Trainer) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in trainer.parameters.values())


def _table(scores: Sequence[Row]) -> list[str]:
    if not scores:
        return ["No evaluation.", ""]
    has_changes = any(row["difference"] or row["rewarded"] for row in scores)
    heads = ["task", "metric", "statistic", "before", "after", *(["change", ""] if has_changes else [])]
    rows: list[list[str]] = []
    for row in scores:
        cells = [row["task"], row["metric"], row["statistic"], *map(with_interval, (row["before"], row["after"]))]
        if has_changes:
            cells += [with_interval(row["difference"], "+") if row["difference"] else "", _direction(row)]
        rows.append(cells)
    note = "Values have unpaired 95 % intervals."
    if has_changes:
        note += (
            " The change is paired: by the bootstrap over documents or images, of corpus values by the jackknife. It "
            "is 'higher' or 'lower' only if its interval excludes 0."
        )
    return [*markdown_table(heads, rows), "", note, ""]


def _direction(row: Row) -> str:
    """Return the direction of a metric, and whether it was the reward."""
    words = ["**the reward**"] if row["rewarded"] else []
    change = row["difference"]
    if not change or change["low"] is None:
        words += ["change undefined"] if row["rewarded"] else []
    elif not change["low"] <= 0 <= change["high"]:
        words.append("higher" if change["low"] > 0 else "lower")
        if row["higher_is_better"] is False:
            words[-1] += " (worse)" if change["low"] > 0 else " (better)"
    elif row["rewarded"]:
        words.append("neither higher nor lower")
    return ", ".join(words)


def _rules(sensitivity: Sequence[Row]) -> list[str]:
    """Return the table of the reward's metrics: a row per rule, a column per metric."""
    if not sensitivity:
        return []
    names = list(dict.fromkeys(row["metric"] for row in sensitivity))
    by_rule: dict[str, dict[str, Row]] = {}
    for row in sensitivity:
        by_rule.setdefault(row["rule"], {})[row["metric"]] = row
    lines = (
        [
            rule,
            *(with_interval(rows[name]) if name in rows else "–" for name in names),
            str(max(row["n"] for row in rows.values())),
        ]
        for rule, rows in by_rule.items()
    )
    title = "Sensitivity of the reward's metrics to rule-based changes of captions (docs/checklist.md):"
    return [title, "", *markdown_table(["rule", *names, "n"], lines), ""]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]


def with_interval(estimate: Mapping[str, Any], sign: str = "", digits: int = 3) -> str:
    """Format a value with its interval; ``sign`` is ``+`` for a difference."""
    if estimate["value"] is None:
        return "–"
    value, low, high = (estimate[key] if estimate[key] is None else f"{estimate[key]:{sign}.{digits}f}" for key in ENDS)
    return value if low is None else f"{value} [{low}, {high}]"
