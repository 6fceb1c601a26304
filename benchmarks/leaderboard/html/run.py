"""The page of a run: its whole record, and the samples with the highest and lowest scores."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow

from ....arrow import integers, numbers
from ....errors import DataError
from ...records.files import read_file
from ...records.record import Record
from ...records.samples import open_samples, row_groups
from ...tables.pages.charts import Chart, bubbles, score_histogram
from ...tables.pages.rendering import number
from ...tables.pages.run_rows import about_run, failure_rows, plain_text, results_of
from ...tables.text import texts_of
from ..board import Board, BoardRun
from .rendering import address, rendered

_WORDS = "length"
"""The metric that is the number of words, which a plot by number of words would only repeat."""


def run_page(run: BoardRun, board: Board) -> bytes:
    """Return the page of a run.

    Args:
        run: The run.
        board: The leaderboard, for the link to the table of the task.
    """
    record = run.record
    tables = {(table.task, table.version): f"#{table.id}" for table in board.tables}
    return rendered(
        "run.html",
        up="../",
        back=address("../index.html" + tables.get((record.task, str(record.version)), "")),
        run=run,
        results=results_of(record),
        charts=_charts(record),
        samples=ends_of_run(run),
        failures=failure_rows(record),
        checks=[(check.check, check.expected, plain_text(check.found), check.passed) for check in record.data_checks],
        sections=about_run(record, run.key),
    )


def _charts(record: Record) -> list[tuple[str, list[Chart]]]:
    """Return the charts of each metric's scores."""
    drawn = []
    for place, (metric, histogram) in enumerate(record.histograms.items()):
        label = record.metric_label(metric)
        charts = [score_histogram(label, histogram, f"score-{place}")]
        if histogram.by_rating:
            charts.append(bubbles(f"{label} by rating", histogram, f"rating-{place}"))
        if histogram.by_words and record.registered_name(metric) != _WORDS:
            charts.append(bubbles(f"{label} by length", histogram, f"words-{place}", by="by_words"))
        drawn.append((label, charts))
    return drawn


SHOWN = 5
"""Number of highest and of lowest samples."""
MAX_PICTURE_BYTES = 100_000
CAPTION_COLUMNS = ("candidate", "candidates", "references")


class ScoredSample(NamedTuple):
    """A scored sample.

    Attributes:
        id: Its id.
        captions: Its captions that may be shown, by column: one or several texts.
        picture: A ``data:`` URL of its image; empty if there is none.
        scores: Label of each metric for which it is among the highest or lowest, and its score.
    """

    id: str
    captions: Mapping[str, Sequence[str]]
    picture: str
    scores: Sequence[tuple[str, str]]


def ends_of_run(run: BoardRun) -> dict[str, list[ScoredSample]]:
    """Return the ``Lowest`` and the ``Highest`` samples, those of most metrics first.

    The result is empty if the run has no readable samples. Captions, references and images are included only if the
    record has all samples and they may be redistributed.
    """
    try:
        with open_samples(run.folder, run.record) as file:
            return _read_ends(run, file)
    except (DataError, OSError, ValueError, KeyError, pyarrow.ArrowException):
        return {}


def _read_ends(run: BoardRun, file: Any) -> dict[str, list[ScoredSample]]:
    schema = file.schema_arrow
    metrics = [
        metric
        for metric in run.record.metrics
        if metric in schema.names and pyarrow.types.is_floating(schema.field(metric).type)
    ]
    # Threads are slower for the small file of a run, of which there are thousands; so is a second reading.
    table = file.read(["id", *metrics], use_threads=False)
    ends: dict[str, dict[int, list[tuple[str, str]]]] = {"Lowest": {}, "Highest": {}}
    for metric in metrics:
        values = numbers(table[metric])
        usable = np.flatnonzero(np.isfinite(values))
        rising = usable[np.argsort(values[usable], kind="stable")]
        # Order ties in the same way as the run does, which stored the images of these samples.
        for end, rows in (("Lowest", rising[:SHOWN]), ("Highest", rising[::-1][:SHOWN])):
            for row in rows.tolist():
                ends[end].setdefault(row, []).append((run.record.metric_label(metric), number(float(values[row]), 4)))
    wanted = sorted({row for rows in ends.values() for row in rows})
    if not wanted:
        return {}
    allowed = run.record.samples == run.record.redistribution == "full"
    columns = [name for name in CAPTION_COLUMNS if allowed and name in schema.names]
    texts = _rows(file, wanted, columns) if columns else [{} for _ in wanted]
    # A sample may be highest or lowest for many metrics, and reading its image is slowest.
    shown: dict[int, tuple[str, Mapping[str, Sequence[str]], str]] = {}
    for row, name, cells in zip(wanted, table["id"].take(integers(wanted)).to_pylist(), texts, strict=True):
        captions = {column: texts_of(cell) for column, cell in cells.items()}
        shown[row] = str(name), captions, _picture(run, str(name)) if allowed else ""
    by_metrics = {end: sorted(rows.items(), key=lambda entry: -len(entry[1])) for end, rows in ends.items()}
    return {end: [ScoredSample(*shown[row], scores) for row, scores in rows] for end, rows in by_metrics.items()}


def _rows(file: Any, wanted: Sequence[int], columns: list[str]) -> list[dict[str, Any]]:
    """Return rows by ascending index, reading only their row groups."""
    rows: list[dict[str, Any]] = []
    for start, end, group in row_groups(file):
        if inside := [place - start for place in wanted if start <= place < end]:
            rows += file.read_row_group(group, columns, use_threads=False).take(integers(inside)).to_pylist()
    return rows


def _picture(run: BoardRun, sample: str) -> str:
    """Return an image of a run as a ``data:`` URL, if it is a small JPEG file in the run's folder."""
    if Path(run.record.pictures.get(sample, "")).suffix.lower() not in (".jpg", ".jpeg"):
        return ""
    content = stored_picture(run, sample) or b""
    is_jpeg = content.startswith(b"\xff\xd8\xff") and content.rstrip(b"\0").endswith(b"\xff\xd9")
    if not is_jpeg or len(content) > MAX_PICTURE_BYTES:
        return ""
    return f"data:image/jpeg;base64,{b64encode(content).decode()}"


def stored_picture(run: BoardRun, sample: str) -> bytes | None:
    """Return the thumbnail of a sample that the run stored in its folder; None if there is none."""
    name = run.record.pictures.get(sample)
    try:
        if name is None or not (run.folder / name).resolve().is_relative_to(run.folder.resolve()):
            return None
        return read_file(run.folder, run.record, name)
    except (DataError, OSError, ValueError, RuntimeError):
        return None
