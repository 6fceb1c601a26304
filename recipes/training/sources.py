"""Reads the rows that a recipe names: of a file, a reader, or a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...adapters import ImageHandle
from ...benchmarks.inputs.pixels import PixelFinder, pixels_value
from ...errors import UsageError
from ...rows import BadRow, read_rows
from ...tasks.documents import load_documents
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import TaskConfig, load_task
from ...tasks.sources import load_source
from ...tasks.templates import DocumentError, compile_template
from .rows import Rows, collect
from .schema import LoadedRecipe, Source, named_file


def read_source(
    loaded: LoadedRecipe,
    source: Source,
    keys: Sequence[str],
    *,
    data: Mapping[str, str | Path],
    include_path: Sequence[str | Path],
    allow_outside: Sequence[str | Path],
) -> Rows:
    """Read all rows of a source; images stay undecoded.

    Args:
        loaded: The recipe.
        source: One of its sources.
        keys: Where it stands in the recipe.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.

    Raises:
        BenchError: There is no such source, or no row of it can be used.
    """
    if source.file is not None:
        path = named_file(loaded, source.file, *keys, "file")
        return collect(read_rows(path), path.name, path.parent)
    if source.reader is not None:
        return collect(source.reader.resolve()(**source.arguments), str(source.reader), Path.cwd())
    index = build_index(include_path)
    named = {name: Path(path) for name, path in data.items()}
    locations = DataLocations.from_environment(index.expand_names(named), allow_outside)
    name = str(source.task)
    entries = index.resolve([name])
    if len(entries) != 1:
        raise UsageError(
            f"{loaded.parsed.where(*keys, 'task')}: '{name}' is {len(entries)} tasks", "Name one of them."
        )
    file = entries[0].path
    task, _ = load_task(file)
    if source.arguments:
        task = task.model_copy(update={"dataset_kwargs": {**task.dataset_kwargs, **source.arguments}})
    return collect(_of_task(task, file, locations), f"task '{name}'", Path.cwd())


def _of_task(task: TaskConfig, path: Path, locations: DataLocations) -> Iterator[Any]:
    """Yield the rows of a task's documents: one an entry, or one a document."""
    keys = ["doc_to_image", "doc_to_entries" if "doc_to_entries" in task.templates else "doc_to_target"]
    if missing := [key for key in keys if key not in task.templates]:
        raise UsageError(
            f"task '{task.task}' has no {' and no '.join(missing)}.",
            "Training takes tasks with doc_to_entries, or with doc_to_image and doc_to_target.",
        )
    documents = load_documents(task, path, locations)
    source = load_source(task, path)
    finder = PixelFinder(task, locations.find(task, path, source), locations.boundary(task, path, source))
    others = [key for key in ("doc_to_id", "doc_to_pixels") if key in task.templates]
    getters = {key: compile_template(task, key, documents.columns) for key in [*others, *keys]}
    yield from documents.bad_rows
    for number, document in enumerate(documents.rows):
        try:
            values = {key: get(document) for key, get in getters.items()}
        except DocumentError as error:
            yield BadRow(f"document {number}", str(error))
            continue
        identity = str(values.get("doc_to_id", number))
        image = finder(pixels_value(values))
        if not isinstance(image, ImageHandle):
            yield BadRow(identity, f"is no image of this machine: {values['doc_to_image']!r:.60}")
            continue
        if keys[1] == "doc_to_target":
            target = values["doc_to_target"]
            captions = target if isinstance(target, list | tuple) else [target]
            yield {"id": identity, "image": image, "group": identity, "captions": captions}
            continue
        for at, entry in enumerate(values["doc_to_entries"]):
            told = {key: entry.get(key) for key in ("box", "captions", "negatives")}
            yield {"id": f"{identity}|{entry.get('key', at)}", "image": image, "group": identity, **told}
