"""Metrics of each text of a pipeline, and the report: counts, lengths, metrics, examples."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ...adapters.aliases import resolve_model
from ...adapters.encoders.clip_tokens import CONTEXT, clip_tokens
from ...atomic_files import write_whole
from ...benchmarks.api import score
from ...benchmarks.inputs.settings import read_metric
from ...benchmarks.statistics import Draws
from ...benchmarks.statistics.contract import UndefinedStatistic
from ...benchmarks.statistics.influence import Spread
from ...benchmarks.statistics.paired import difference, paired_means
from ...errors import BenchError, UsageError, counted
from ...metrics import metrics as known_metrics
from ...paths import without_folders
from ...progress import Progress, silent
from ..training.judging import markdown_table, with_interval
from .contract import PipelineRow, RowFile, StageFacts
from .schema import JudgingSettings, LoadedPipeline, SynthesisPipeline
from .sources import SourceRows
from .writing import image_below, value_at

_BESIDE = ("references", "boxes", "objects")
"""Values of rows that metrics use in addition to the text and the image."""
Row = dict[str, Any]
"""Keys: ``metric``, ``text``, ``n``, ``value``; ``difference``, ``low`` and ``high`` to the previous text."""


def judged(
    pipeline: SynthesisPipeline, rows: RowFile, store: Path | None, progress: Progress = silent
) -> tuple[list[Row], list[str]]:
    """Return the table of metrics, and remarks on metrics that could not be computed.

    Each metric uses the same rows for every text. ``difference`` is paired with the previous text and has a 95 %
    interval over rows.

    Args:
        pipeline: The pipeline.
        rows: The output rows.
        store: The cache file.
        progress: Returns a reporter for a step.
    """
    table: list[Row] = []
    remarks: list[str] = []
    judging = pipeline.judged
    if judging is None:
        return table, remarks
    for metric in judging.metrics:
        if lack := _lack(metric, rows):
            remarks.append(f"{metric}: {lack}")
            continue
        try:
            values = {
                name: _values(metric, key, rows, pipeline, store, progress) for name, key in judging.texts.items()
            }
            table += _steps(metric, values)
        except BenchError as error:
            remarks.append(f"{metric}: {error.in_one_line}")
        except UndefinedStatistic as error:
            remarks.append(f"{metric}: {error}")
    return table, remarks


def require_judges(pipeline: SynthesisPipeline) -> None:
    """Raise if a metric is unknown, or its model is not an encoder; nothing is loaded.

    Raises:
        BenchError: Names the metric or the model.
    """
    if pipeline.judged is None:
        return
    for metric in pipeline.judged.metrics:
        _needs(metric)
    if (named := pipeline.judged.encoder) and (role := resolve_model(named.name, named.arguments).role) != "encoder":
        raise UsageError(
            f"judged.encoder: '{named.name}' has the role {role}, not encoder", "'bench ls models' lists encoders."
        )


def _lack(metric: str, rows: RowFile) -> str:
    """Return which input of a metric the rows lack; empty if none."""
    needs = _needs(metric)
    for need in _BESIDE:
        if need in needs and need not in rows.keys:
            return f"the data have no {need}"
    return "the data have no images" if "image" in needs and not rows.have_images else ""


def _needs(metric: str) -> frozenset[str]:
    return getattr(known_metrics[str(read_metric(metric).metric)], "needs", frozenset[str]())


def _values(
    metric: str, key: str, rows: RowFile, pipeline: SynthesisPipeline, store: Path | None, progress: Progress
) -> np.ndarray:
    """Return ``[n]`` the metric per row: the mean over its texts, NaN if one has no value."""
    models = {role: model for role, model in pipeline.models.items() if role in _needs(metric)}
    if pipeline.judged and pipeline.judged.encoder and "encoder" in _needs(metric):
        models["encoder"] = pipeline.judged.encoder
    named: dict[str, Any] = {}
    for option, role in (("model", "encoder"), ("judge", "judge")):
        if role in models:
            named |= {option: models[role].name, f"{option}_args": models[role].arguments}
    scored = score(_texts_of(rows, key), [metric], store=store, progress=progress, **named)
    (name,) = scored.labels
    counts = np.array([len(_texts(value_at(row, key))) for row in rows])
    # What was left out has no row.
    values, sums = np.full(counts.sum(), math.nan), np.zeros(len(rows))
    for entry in scored:
        values[int(entry["id"])] = math.nan if entry[name] is None else entry[name]
    np.add.at(sums, np.repeat(np.arange(len(rows)), counts), values)
    with np.errstate(invalid="ignore"):
        return sums / counts


def _texts_of(rows: Iterable[PipelineRow], key: str) -> Iterator[dict[str, Any]]:
    """Yield the metrics' input for each text of each row; ids are consecutive numbers."""
    numbers = count()
    for row in rows:
        beside = {name: row.values[name] for name in _BESIDE if name in row.values}
        for text in _texts(value_at(row, key)):
            yield {"id": str(next(numbers)), "candidate": text, "image": row.image, **beside}


def _steps(metric: str, values: Mapping[str, np.ndarray]) -> list[Row]:
    usable = np.all([np.isfinite(array) for array in values.values()], axis=0)
    kept = {name: array[usable] for name, array in values.items()}
    count = int(usable.sum())
    if not count:
        return [{"metric": metric, "text": name, "n": 0, "value": None} for name in values]
    estimates = paired_means(kept, np.arange(count), Draws())
    table: list[Row] = []
    before: Spread | None = None
    for name, estimate in estimates.items():
        row: Row = {"metric": metric, "text": name, "n": count, "value": estimate.value}
        if before is not None:
            step = difference(estimate, before)
            row |= {"difference": step.value, "low": step.interval.low, "high": step.interval.high}
        table.append(row)
        before = estimate
    return table


def lengths(judging: JudgingSettings | None, rows: RowFile) -> list[Row]:
    """Return the number and the length of each text: words and CLIP tokens."""
    table: list[Row] = []
    for name, key in judging.texts.items() if judging else ():
        texts = (text for row in rows for text in _texts(value_at(row, key)))
        sizes = [(len(text.split()), clip_tokens(text)) for text in texts]
        tokens = [count for _, count in sizes]
        row: Row = {
            "text": name,
            "texts": len(sizes),
            "words": sum(count for count, _ in sizes) / len(sizes) if sizes else None,
            "tokens": sum(tokens) / len(sizes) if sizes else None,
            "most_tokens": max(tokens, default=0),
            "over_context": sum(size > CONTEXT for size in tokens),
        }
        table.append(row)
    return table


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


REPORT = "report"
_EXAMPLES = 3
_REASONS = 5


@dataclass(frozen=True)
class Report:
    """The report on a pipeline's output.

    Attributes:
        loaded: The pipeline.
        source: Its input.
        count: The number of input rows.
        stages: Statistics of each stage.
        rows: The output rows.
        lengths: See ``lengths``.
        table: See ``judged``.
        remarks: Metrics that could not be computed, and why.
        result: The file or folder with the output.
    """

    loaded: LoadedPipeline
    source: SourceRows
    count: int
    stages: Sequence[StageFacts]
    rows: RowFile
    lengths: Sequence[Row]
    table: Sequence[Row]
    remarks: Sequence[str]
    result: Path

    def to_values(self) -> dict[str, Any]:
        """Return the report as JSON values; they do not depend on the run."""
        pipeline = self.loaded.pipeline
        return {
            "pipeline": pipeline.model_dump(mode="json"),
            "fingerprint": pipeline.fingerprint(),
            "data": {"from": self.source.name, "rows": self.count, "left_out": self.source.left_out},
            "stages": [stage.to_values() for stage in self.stages],
            "rows": len(self.rows),
            "lengths": list(self.lengths),
            "metrics": list(self.table),
            "remarks": list(self.remarks),
        }

    def to_markdown(self, folder: Path) -> str:
        """Return the report as Markdown.

        Args:
            folder: Where it is written; paths are relative to it.
        """
        pipeline = self.loaded.pipeline
        limit = [] if self.source.limit is None else ["--limit", str(self.source.limit)]
        lines = [f"# {pipeline.pipeline}", "", *([pipeline.description, ""] if pipeline.description else [])]
        lines += [f"    {self.loaded.command('make', '--data', self.source.name, *limit)}", ""]
        if pipeline.paper:
            lines += [f"- **Method**: {pipeline.paper}"]
        models = ", ".join(f"{role} {model.label}" for role, model in pipeline.models.items()) or "none"
        lines += [f"- **Models**: {models}; seed {pipeline.seed}."]
        lines += [f"- **Rows**: {self.count:,} given, {len(self.rows):,} written: `{self.result.name}`.", ""]
        if self.source.left_out:
            lines += [f"Left out of the data: {_reasons(Counter(self.source.left_out.values()))}.", ""]
        lines += [*self._of_stages(), *_of_lengths(self.lengths), *_of_metrics(self.table)]
        lines += [f"- not computed: {_one_line(remark)}" for remark in self.remarks]
        lines += ["", *self.loaded.choices()]
        # Empty parts leave blank lines.
        return re.sub("\n{3,}", "\n\n", "\n".join([*lines, "", *self._examples(folder)]).rstrip() + "\n")

    def _of_stages(self) -> list[str]:
        cells: list[list[str]] = []
        for stage in self.stages:
            counts = ", ".join(f"{value:,} {name}" for name, value in stage.counts.items())
            numbers = f"{stage.given:,}", f"{stage.made:,}", str(stage.requests or "–")
            cells.append([stage.name, *numbers, counts or "–"])
        lines = ["## Stages", "", *markdown_table(["stage", "in", "out", "judge requests", "counts"], cells), ""]
        for stage in self.stages:
            if stage.unmade:
                fate = "went on unchanged" if stage.kept else "left out"
                more = ["…"] if len(stage.unmade) > _REASONS else []
                named = ", ".join([*list(stage.unmade)[:_REASONS], *more])
                reasons = _reasons(Counter(stage.unmade.values()))
                lines.append(f"- `{stage.name}`: {counted(len(stage.unmade), 'row')} {fate} ({named}): {reasons}")
            if stage.not_chosen:
                chosen = stage.not_chosen
                lines.append(f"- `{stage.name}`: {counted(chosen.total(), 'row')} not chosen: {_reasons(chosen)}")
            if stage.left_out:
                lines.append(f"- `{stage.name}`: parts of rows were left out: {_reasons(stage.left_out)}")
        return [*lines, ""]

    def _examples(self, folder: Path) -> list[str]:
        judging = self.loaded.pipeline.judged
        if judging is None:
            return []
        lines = ["## Examples", ""]
        for row in islice(self.rows, _EXAMPLES):
            lines += [f"### {row.id}", ""]
            if row.image is not None:
                lines += [f"![{row.id}]({quote(image_below(folder, row))})", ""]
            for name, key in judging.texts.items():
                lines += [f"- **{name}**: {_one_line(text)}" for text in _texts(value_at(row, key))[:_EXAMPLES]]
            for record in row.provenance:
                gone = record.get("removed", ())
                lines += [f"- `{record['stage']}` removed {_removed(entry)}" for entry in gone[:_REASONS]]
            lines.append("")
        return lines


def write_report(report: Report, folder: Path) -> None:
    """Write ``report.json`` and ``report.md``."""
    values = json.dumps(without_folders(report.to_values()), indent=1, ensure_ascii=False)
    write_whole(folder / f"{REPORT}.json", values + "\n")
    write_whole(folder / f"{REPORT}.md", without_folders(report.to_markdown(folder)))


def _of_lengths(table: Sequence[Row]) -> list[str]:
    cells = [
        [row["text"], f"{row['texts']:,}", *(_shown(row[key], 1) for key in ("words", "tokens")),
         *(str(row[key]) for key in ("most_tokens", "over_context"))]
        for row in table
    ]  # fmt: skip
    head = ["text", "texts", "words", "CLIP tokens", "longest", "over 77"]
    return ["## Lengths", "", *markdown_table(head, cells), ""] if table else []


def _of_metrics(table: Sequence[Row]) -> list[str]:
    head = ["metric", "text", "rows", "value", "vs. previous text"]
    cells: list[list[str]] = []
    for row in table:
        step = with_interval({**row, "value": row.get("difference")}, "+", 4)
        cells.append([row["metric"], row["text"], f"{row['n']:,}", _shown(row["value"], 4), step])
    note = "Differences are paired, with 95 % intervals over rows."
    return ["## Metrics", "", *markdown_table(head, cells), "", note, ""] if table else []


def _reasons(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = f"; {len(ranked) - _REASONS} more reasons" if len(ranked) > _REASONS else ""
    return "; ".join(f"{count:,} × {_one_line(why)}" for why, count in ranked[:_REASONS]) + rest


def _removed(entry: Mapping[str, Any]) -> str:
    """Describe what a stage removed from a row, and why."""
    text, why = entry.get("phrase", entry.get("text")), entry.get("reason", entry.get("why"))
    return _one_line(f'"{text}": {why}' if text and why else json.dumps(entry, ensure_ascii=False))


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
