"""What capbench's own metrics say of each text of a pipeline, and the report: counts, lengths, metrics, examples."""

from __future__ import annotations

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
from ...adapters.encoders.clip_tokens import CONTEXT
from ...atomic_files import write_whole
from ...benchmarks.api import score
from ...benchmarks.inputs.settings import read_metric
from ...benchmarks.statistics import Draws
from ...benchmarks.statistics.contract import UndefinedStatistic
from ...benchmarks.statistics.paired import SpreadEstimate, difference, paired_means
from ...errors import BenchError, UsageError, counted
from ...metrics import metrics as known_metrics
from ...progress import Progress, silent
from .asking import clip_tokens
from .contract import PipelineRow, RowFile, StageFacts
from .schema import JudgingSettings, LoadedPipeline, SynthesisPipeline
from .sources import SourceRows
from .writing import path_from, value_at

_BESIDE = ("references", "boxes", "objects")
"""Values of rows that metrics look at, beside the text and the image."""
Row = dict[str, Any]
"""Of a table: ``metric``, ``text``, ``n``, ``value``, and against the text before ``difference``, ``low``, ``high``."""


def judged(
    pipeline: SynthesisPipeline, rows: RowFile, store: Path | None, progress: Progress = silent
) -> tuple[list[Row], list[str]]:
    """Return the table of metrics, and remarks on metrics that could not be computed.

    Each metric sees the same rows for every text; what stands beside a text is the difference to the one before it,
    with a 95 % interval over rows.

    Args:
        pipeline: The pipeline.
        rows: Those that are written.
        store: The store's file.
        progress: Gives a reporter for a step.
    """
    table: list[Row] = []
    remarks: list[str] = []
    told = pipeline.judged
    if told is None:
        return table, remarks
    for metric in told.metrics:
        if lack := _lack(metric, rows):
            remarks.append(f"{metric}: {lack}")
            continue
        try:
            values = {name: _values(metric, key, rows, pipeline, store, progress) for name, key in told.texts.items()}
            table += _steps(metric, values)
        except BenchError as error:
            remarks.append(f"{metric}: {error.in_one_line}")
        except UndefinedStatistic as error:
            remarks.append(f"{metric}: {error}")
    return table, remarks


def require_judges(pipeline: SynthesisPipeline) -> None:
    """Raise if a metric that judges is not known, or what encodes for it is no encoder; nothing is loaded.

    Raises:
        BenchError: It names it.
    """
    if pipeline.judged is None:
        return
    for metric in pipeline.judged.metrics:
        _needs(metric)
    if (named := pipeline.judged.encoder) and (role := resolve_model(named.name, named.arguments).role) != "encoder":
        raise UsageError(f"the encoder of 'judged', '{named.name}', is a {role}")


def _lack(metric: str, rows: RowFile) -> str:
    """Return what the rows lack that a metric needs; empty for nothing."""
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
    """Return ``[n]`` the metric of each row's text; of several texts their mean, NaN where one has none."""
    encoder = pipeline.judged.encoder if pipeline.judged and pipeline.judged.encoder else pipeline.models.get("encoder")
    judge = pipeline.models.get("judge")
    needs = _needs(metric)
    found = score(
        _texts_of(rows, key),
        [metric],
        model=encoder.name if encoder and "encoder" in needs else None,
        model_args=encoder.arguments if encoder and "encoder" in needs else "",
        judge=judge.name if judge and "judge" in needs else None,
        judge_args=judge.arguments if judge and "judge" in needs else "",
        store=store,
        progress=progress,
    )
    (name,) = found.labels
    counts = np.array([len(_texts(value_at(row, key))) for row in rows])
    # What was left out has no row.
    values, sums = np.full(counts.sum(), math.nan), np.zeros(len(rows))
    for one in found:
        values[int(one["id"])] = math.nan if one[name] is None else one[name]
    np.add.at(sums, np.repeat(np.arange(len(rows)), counts), values)
    with np.errstate(invalid="ignore"):
        return sums / counts


def _texts_of(rows: Iterable[PipelineRow], key: str) -> Iterator[dict[str, Any]]:
    """Yield what metrics are given of each text of each row; the id is its number."""
    numbers = count()
    for row in rows:
        beside = {name: row.values[name] for name in _BESIDE if name in row.values}
        for text in _texts(value_at(row, key)):
            yield {"id": str(next(numbers)), "candidate": text, "image": row.image, **beside}


def _steps(metric: str, values: Mapping[str, np.ndarray]) -> list[Row]:
    usable = np.all([np.isfinite(one) for one in values.values()], axis=0)
    kept = {name: one[usable] for name, one in values.items()}
    count = int(usable.sum())
    if not count:
        return [{"metric": metric, "text": name, "n": 0, "value": None} for name in values]
    estimates = paired_means(kept, np.arange(count), Draws())
    table: list[Row] = []
    before: SpreadEstimate | None = None
    for name, estimate in estimates.items():
        row: Row = {"metric": metric, "text": name, "n": count, "value": estimate.value}
        if before is not None:
            step = difference(estimate, before)
            row |= {"difference": step.value, "low": _finite(step.interval.low), "high": _finite(step.interval.high)}
        table.append(row)
        before = estimate
    return table


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def lengths(told: JudgingSettings | None, rows: RowFile) -> list[Row]:
    """Return of each text how many there are, and how long they are: words, and tokens of CLIP."""
    table: list[Row] = []
    for name, key in told.texts.items() if told else ():
        texts = (text for row in rows for text in _texts(value_at(row, key)))
        found = [(len(text.split()), clip_tokens(text)) for text in texts]
        tokens = [count for _, count in found]
        row: Row = {
            "text": name,
            "texts": len(found),
            "words": sum(count for count, _ in found) / len(found) if found else None,
            "tokens": sum(tokens) / len(found) if found else None,
            "most_tokens": max(tokens, default=0),
            "over_context": sum(one > CONTEXT for one in tokens),
        }
        table.append(row)
    return table


def _texts(found: Any) -> list[str]:
    return [found] if isinstance(found, str) else list(found)


REPORT = "report"
_EXAMPLES = 3
_REASONS = 5


@dataclass(frozen=True)
class Report:
    """What is known of what a pipeline made.

    Attributes:
        loaded: The pipeline.
        given: What it began with.
        count: Rows of that.
        stages: Facts of each stage.
        rows: What is written.
        lengths: See ``lengths``.
        table: See ``judged``.
        remarks: What could not be computed.
        result: The file or folder that others read.
    """

    loaded: LoadedPipeline
    given: SourceRows
    count: int
    stages: Sequence[StageFacts]
    rows: RowFile
    lengths: Sequence[Row]
    table: Sequence[Row]
    remarks: Sequence[str]
    result: Path

    def to_values(self) -> dict[str, Any]:
        """Return the report as JSON values; nothing in them is of one run, so that they are the same again."""
        pipeline = self.loaded.pipeline
        return {
            "pipeline": pipeline.model_dump(mode="json"),
            "fingerprint": pipeline.fingerprint(),
            "data": {"from": self.given.name, "rows": self.count, "left_out": self.given.left_out},
            "stages": [one.to_values() for one in self.stages],
            "rows": len(self.rows),
            "lengths": list(self.lengths),
            "metrics": list(self.table),
            "remarks": list(self.remarks),
        }

    def to_markdown(self, folder: Path) -> str:
        """Return the report for people.

        Args:
            folder: Where it is written.
        """
        pipeline = self.loaded.pipeline
        limit = [] if self.given.limit is None else ["--limit", str(self.given.limit)]
        lines = [f"# {pipeline.pipeline}", "", *([pipeline.description, ""] if pipeline.description else [])]
        lines += [f"    {self.loaded.command('make', '--data', self.given.name, *limit)}", ""]
        if pipeline.paper:
            lines += [f"- **Method**: {pipeline.paper}"]
        models = ", ".join(f"{role} {one.told}" for role, one in pipeline.models.items()) or "none"
        lines += [f"- **Models**: {models}; seed {pipeline.seed}."]
        lines += [f"- **Rows**: {self.count:,} given, {len(self.rows):,} made: `{self.result.name}`.", ""]
        if self.given.left_out:
            lines += [f"Left out of the data: {_reasons(Counter(self.given.left_out.values()))}.", ""]
        lines += self._of_stages()
        lines += _of_lengths(self.lengths)
        lines += _of_metrics(self.table)
        lines += [f"- not computed: {_one_line(remark)}" for remark in self.remarks]
        lines += ["", *self.loaded.choices()]
        # Parts that are not there leave their blank lines.
        return re.sub("\n{3,}", "\n\n", "\n".join([*lines, "", *self._examples(folder)]).rstrip() + "\n")

    def _of_stages(self) -> list[str]:
        head = ["| stage | given | made | asked of a judge | counts |", "|---|---:|---:|---:|---|"]
        lines = ["## Stages", "", *head]
        for one in self.stages:
            counts = ", ".join(f"{value:,} {name}" for name, value in one.counts.items())
            lines.append(f"| {one.name} | {one.given:,} | {one.made:,} | {one.requests or '–'} | {counts or '–'} |")
        lines.append("")
        for one in self.stages:
            if one.unmade:
                fate = "went on unchanged" if one.kept else "left out"
                more = ["…"] if len(one.unmade) > _REASONS else []
                named = ", ".join([*list(one.unmade)[:_REASONS], *more])
                reasons = _reasons(Counter(one.unmade.values()))
                lines.append(f"- `{one.name}`: {counted(len(one.unmade), 'row')} {fate} ({named}): {reasons}")
            if one.not_chosen:
                chosen = one.not_chosen
                lines.append(f"- `{one.name}`: {counted(chosen.total(), 'row')} not chosen: {_reasons(chosen)}")
            if one.left_out:
                lines.append(f"- `{one.name}`: parts of rows were left out: {_reasons(one.left_out)}")
        return [*lines, ""]

    def _examples(self, folder: Path) -> list[str]:
        told = self.loaded.pipeline.judged
        if told is None:
            return []
        lines = ["## Examples", ""]
        for row in islice(self.rows, _EXAMPLES):
            lines += [f"### {row.id}", ""]
            if row.image is not None:
                lines += [f"![{row.id}]({quote(path_from(row.image, folder))})", ""]
            for name, key in told.texts.items():
                lines += [f"- **{name}**: {_one_line(text)}" for text in _texts(value_at(row, key))[:_EXAMPLES]]
            for one in row.provenance:
                gone = one.get("removed", ())
                lines += [f"- `{one['stage']}` took out {_removed(what)}" for what in gone[:_REASONS]]
            lines.append("")
        return lines


def write_report(report: Report, folder: Path) -> None:
    """Write ``report.json`` and ``report.md``."""
    values = json.dumps(report.to_values(), indent=1, ensure_ascii=False)
    write_whole(folder / f"{REPORT}.json", values + "\n")
    write_whole(folder / f"{REPORT}.md", report.to_markdown(folder))


def _of_lengths(table: Sequence[Row]) -> list[str]:
    head = ["| text | texts | words | CLIP tokens | longest | over 77 |", "|---|---:|---:|---:|---:|---:|"]
    rows = (
        [row["text"], f"{row['texts']:,}", _shown(row["words"], 1), _shown(row["tokens"], 1), row["most_tokens"],
         row["over_context"]]
        for row in table
    )  # fmt: skip
    return ["## Lengths", "", *head, *map(_line, rows), ""] if table else []


def _of_metrics(table: Sequence[Row]) -> list[str]:
    head = ["| metric | text | rows | value | to the text before |", "|---|---|---:|---:|---:|"]
    lines: list[str] = []
    for row in table:
        step = "–"
        if row.get("difference") is not None:
            interval = "" if row["low"] is None else f" [{row['low']:+.4f}, {row['high']:+.4f}]"
            step = f"{row['difference']:+.4f}{interval}"
        lines.append(_line([row["metric"], row["text"], f"{row['n']:,}", _shown(row["value"], 4), step]))
    told = "Differences are paired, with 95 % intervals over rows."
    return ["## Metrics", "", *head, *lines, "", told, ""] if table else []


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _reasons(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    rest = f"; {len(ranked) - _REASONS} more reasons" if len(ranked) > _REASONS else ""
    return "; ".join(f"{count:,} × {_one_line(why)}" for why, count in ranked[:_REASONS]) + rest


def _removed(what: Mapping[str, Any]) -> str:
    """Return what a stage took out of a row, and why, in words."""
    text, why = what.get("phrase", what.get("text")), what.get("reason", what.get("why"))
    return _one_line(f'"{text}": {why}' if text and why else json.dumps(what, ensure_ascii=False))


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
