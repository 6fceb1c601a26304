"""The samples of a run that a metric scores highest and lowest."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....arrow_arrays import integers, numbers
from ....errors import DataError
from ...records.files import read_file
from ...records.samples import open_samples
from ..board import BoardRun

SHOWN = 5
"""Samples at either end."""
MAX_PICTURE_BYTES = 100_000
CAPTION_COLUMNS = ("candidate", "candidates", "references")


class Sample(NamedTuple):
    """A scored sample.

    Attributes:
        id: Its name.
        score: What the metric gave it.
        captions: What may be shown of its captions, by column: text, or several.
        picture: A ``data:`` address of its picture; empty where there is none.
    """

    id: str
    score: float
    captions: Mapping[str, Sequence[str]]
    picture: str


class Ends(NamedTuple):
    """The samples that a metric scores highest, from the top, and lowest, from the bottom."""

    highest: tuple[Sample, ...]
    lowest: tuple[Sample, ...]


def ends_of_run(run: BoardRun) -> dict[str, Ends]:
    """Return the ends by metric; none where the run has no samples that can be read.

    Captions, references and pictures are given only where the record says that it holds all of the samples
    and that they may be passed on.
    """
    import pyarrow

    try:
        with open_samples(run.folder, run.record) as file:
            return _ends(run, file)
    except (DataError, OSError, ValueError, KeyError, pyarrow.ArrowException):
        return {}


def _ends(run: BoardRun, file: Any) -> dict[str, Ends]:
    import pyarrow

    schema = file.schema_arrow
    metrics = [
        metric
        for metric in run.record.metrics
        if metric in schema.names and pyarrow.types.is_floating(schema.field(metric).type)
    ]
    if not metrics or "id" not in schema.names:
        return {}
    # Threads cost more than they save on a file of one run, of which there are thousands; so does a second reading.
    table = file.read(["id", *metrics], use_threads=False)
    places: dict[str, tuple[list[int], list[int]]] = {}
    values: dict[str, np.ndarray] = {}
    for metric in metrics:
        values[metric] = numbers(table[metric])
        usable = np.flatnonzero(np.isfinite(values[metric]))
        if not usable.size:
            continue
        rising = usable[np.argsort(values[metric][usable], kind="stable")]
        # Equal scores in this order too: the pictures of a run are of the same samples.
        places[metric] = rising[::-1][:SHOWN].tolist(), rising[:SHOWN].tolist()
    wanted = sorted({place for ends in places.values() for end in ends for place in end})
    allowed = run.record.samples == run.record.redistribution == "full"
    columns = [name for name in CAPTION_COLUMNS if allowed and name in schema.names]
    rows = _rows(file, wanted, columns) if columns else [{} for _ in wanted]
    # A sample may be at an end of many metrics, and its picture takes longest.
    shown: dict[int, tuple[str, Mapping[str, Sequence[str]], str]] = {}
    for place, name, row in zip(wanted, table["id"].take(integers(wanted)).to_pylist(), rows, strict=True):
        captions = {column: _texts(one) for column, one in row.items()}
        shown[place] = str(name), captions, _picture(run, str(name)) if allowed else ""

    def samples(metric: str, end: Sequence[int]) -> tuple[Sample, ...]:
        scores = values[metric][end].tolist()
        return tuple(
            Sample(shown[place][0], score, *shown[place][1:])
            for place, score in zip(end, scores, strict=True)
        )

    return {metric: Ends(*(samples(metric, end) for end in both)) for metric, both in places.items()}


def _rows(file: Any, wanted: Sequence[int], columns: list[str]) -> list[dict[str, Any]]:
    """Return rows by their places, rising, reading only the row groups that hold them."""
    found: list[dict[str, Any]] = []
    start = 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        inside = [place - start for place in wanted if start <= place < end]
        if inside:
            found += file.read_row_group(group, columns, use_threads=False).take(integers(inside)).to_pylist()
        start = end
    return found


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _picture(run: BoardRun, sample: str) -> str:
    """Return a picture of a run as a ``data:`` address, if it is a small JPEG file inside the run's folder."""
    name = run.record.pictures.get(sample, "")
    if Path(name).suffix.lower() not in (".jpg", ".jpeg"):
        return ""
    try:
        path = (run.folder / name).resolve()
        if not path.is_relative_to(run.folder.resolve()) or not path.is_file():
            return ""
        if path.stat().st_size > MAX_PICTURE_BYTES:
            return ""
        content = read_file(run.folder, run.record, name)
    except (DataError, OSError, ValueError):
        return ""
    if not (content.startswith(b"\xff\xd8\xff") and content.rstrip(b"\0").endswith(b"\xff\xd9")):
        return ""
    return f"data:image/jpeg;base64,{b64encode(content).decode()}"
