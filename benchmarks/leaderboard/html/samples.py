"""The samples of a run that a metric scores highest and lowest."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Sample:
    """A scored sample.

    Attributes:
        id: Its name.
        score: What the metric gave it.
        captions: What may be shown of its captions, by column: text, or several.
        picture: A ``data:`` address of its picture; empty where there is none.
    """

    id: str
    score: float
    captions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    picture: str = ""


@dataclass(frozen=True)
class Ends:
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
    # Threads cost more than they save on a file of one run, of which there are thousands.
    scores = file.read(metrics, use_threads=False)
    places: dict[str, tuple[list[int], list[int]]] = {}
    values: dict[str, np.ndarray] = {}
    for metric in metrics:
        values[metric] = numbers(scores[metric])
        usable = np.flatnonzero(np.isfinite(values[metric]))
        if not usable.size:
            continue
        rising = usable[np.argsort(values[metric][usable], kind="stable")]
        # Equal scores in this order too: the pictures of a run are of the same samples.
        places[metric] = rising[::-1][:SHOWN].tolist(), rising[:SHOWN].tolist()
    wanted = sorted({place for ends in places.values() for end in ends for place in end})
    allowed = run.record.samples == run.record.redistribution == "full"
    columns = ["id", *(name for name in CAPTION_COLUMNS if allowed and name in schema.names)]
    rows = dict(zip(wanted, _rows(file, wanted, columns), strict=True))

    def sample(metric: str, place: int) -> Sample:
        row = rows[place]
        captions = {name: _texts(row[name]) for name in columns[1:]}
        picture = _picture(run, str(row["id"])) if allowed else ""
        return Sample(str(row["id"]), float(values[metric][place]), captions, picture)

    return {
        metric: Ends(
            tuple(sample(metric, place) for place in highest),
            tuple(sample(metric, place) for place in lowest),
        )
        for metric, (highest, lowest) in places.items()
    }


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
