"""Writes a run as one HTML file that loads nothing: its results, its samples as JSON, and thumbnails on request."""

import math
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import ImageHandle
from ...atomic_files import write_whole
from ...errors import UsageError, writing
from ...progress import Reporter, unheard
from ..inputs.task_images import Picture
from ..records.pictures import thumbnail
from ..tables.pages.rendering import embedded
from ..tables.pages.run_rows import about_run
from ..tables.text import readable, texts_of
from .finding import ShownRun
from .sample_list import TITLES, label
from .samples import RunSamples
from .site import EMPTY_CAPTION, Site, run_values

_MOST_SAMPLES = 100_000
_AT_ONCE = 1_000
"""Samples that are read at a time."""


def export(site: Site, run: ShownRun, file: Path, *, thumbnails: bool, progress: Reporter) -> int:
    """Write the file, and return its number of bytes.

    Args:
        site: Renders the page.
        run: The run.
        file: The file; it must not exist.
        thumbnails: Whether the file has a small copy of each image that is on this machine.
        progress: Called with (samples read, samples).

    Raises:
        UsageError: The file exists or cannot be written, or the run has too many samples.
    """
    if file.exists():
        raise UsageError(f"--export {file}: already exists", "Choose a new file, or remove this one.")
    page = exported(site, run, thumbnails=thumbnails, progress=progress).encode("utf-8", "replace")
    with writing(f"--export {file}"):
        write_whole(file, page)
    return len(page)


def exported(site: Site, run: ShownRun, *, thumbnails: bool = False, progress: Reporter = unheard) -> str:
    """Return the text of the file; see :func:`export`."""
    samples = site.runs.samples(run)
    if len(samples) > _MOST_SAMPLES:
        raise UsageError(
            f"the run has {len(samples):,} samples, and one file holds at most {_MOST_SAMPLES:,}",
            "Serve its pages with 'bench view'.",
        )
    return site.render(
        "export.html", **run_values(run), sections=about_run(run.record, run.key),
        **embedded(("style.css", "app.css"), ("theme.js", "columns.js", "export.js")),
        names=[(label(run, name), 0 if samples.counts(name) else 4) for name in samples.sortable],
        samples=_samples(site, run, samples, progress, thumbnails=thumbnails),
    )  # fmt: skip


def _samples(
    site: Site, run: ShownRun, samples: RunSamples, progress: Reporter, *, thumbnails: bool
) -> list[dict[str, Any]]:
    """Return the samples as JSON values: id, texts by title, a score a column (null without), failure and picture."""
    columns = [samples.numbers(name) for name in samples.sortable]
    listed: list[dict[str, Any]] = []
    for start in range(0, len(samples), _AT_ONCE):
        wanted = range(start, min(start + _AT_ONCE, len(samples)))
        for sample, row in zip(wanted, samples.rows(wanted), strict=True):
            texts = {name: [readable(text) or EMPTY_CAPTION for text in texts_of(row.get(name))] for name in TITLES}
            listed.append({
                "id": readable(row["id"]), "failure": readable(row.get("failure") or ""),
                "texts": [[TITLES[name], values] for name, values in texts.items() if values],
                "scores": [_json(values[sample]) for values in columns],
                "picture": _thumbnail(site, run, row) if thumbnails else "",
            })  # fmt: skip
            progress(len(listed), len(samples))
    return listed


def _json(value: np.floating[Any]) -> float | None:
    # Unrounded, so that nearly equal scores are sorted as on the served page.
    return float(value) if math.isfinite(value) else None


def _thumbnail(site: Site, run: ShownRun, row: dict[str, Any]) -> str:
    """Return a small JPEG of a sample's image as a ``data:`` URL; empty if there is no image here."""
    picture = site.pictures.read(run, str(row["id"]), row.get("image"))
    content = thumbnail(ImageHandle(picture.content)) if isinstance(picture, Picture) else None
    return f"data:image/jpeg;base64,{b64encode(content).decode()}" if content else ""
