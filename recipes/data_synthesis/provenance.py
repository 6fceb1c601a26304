"""What made a pipeline's rows: once beside them, in ``provenance.json``; rows hold what is their own."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from ...atomic_files import write_whole
from ...paths import without_folders
from ...rows import load_json
from .contract import PipelineRow
from .schema import SynthesisPipeline

FILE = "provenance.json"
_OF_ROWS = ("stage", "unmade", "counts", "requests", "removed", "left_out")
"""Keys of a row's record that stay with it, whatever the others have."""
_LIBRARIES = (
    "capbench", "diffusers", "numpy", "open_clip_torch", "peft", "pillow", "spacy", "tokenizers", "torch",
    "transformers", "vllm",
)  # fmt: skip
Shared = Mapping[str, Mapping[str, Any]]
"""Stage of the pipeline, in order, to what the records of all its rows have in common."""


def shared_records(rows: Iterable[PipelineRow], names: Sequence[str]) -> Shared:
    """Return what the records of each stage have in common.

    Args:
        rows: The output rows.
        names: The stages; rows end with a record of each.
    """
    shared: dict[str, dict[str, Any]] = {}
    for row in rows:
        for record in row.provenance[-len(names) :]:
            if "unmade" not in record:
                own = {key: value for key, value in record.items() if key not in _OF_ROWS}
                known = shared.get(record["stage"], own)
                shared[record["stage"]] = {
                    key: value for key, value in known.items() if key in own and own[key] == value
                }
    return {name: shared.get(name, {}) for name in names}


def own_records(row: PipelineRow, shared: Shared) -> list[dict[str, Any]]:
    """Return the records of a row without what they share with others; those that it came with are as they came."""
    first = len(row.provenance) - len(shared)
    return [
        without_folders(
            {
                key: value
                for key, value in record.items()
                if number < first or key not in shared.get(record["stage"], ())
            }
        )
        for number, record in enumerate(row.provenance)
    ]


def write_provenance(
    folder: Path, pipeline: SynthesisPipeline, producers: Mapping[str, Mapping[str, Any]], shared: Shared, data: Path
) -> None:
    """Write ``provenance.json``: pipeline, date, libraries, models, and each stage with its settings and prompts.

    Args:
        folder: The output folder.
        pipeline: The pipeline.
        producers: Stage to its settings (``making``) and to the fingerprints of its models (``models``), by role.
        shared: See ``shared_records``.
        data: The input; a table that a pipeline wrote has a ``provenance.json`` beside it, which is kept in this one.
    """
    fingerprints = {role: own for producer in producers.values() for role, own in producer["models"].items()}
    values = {
        "pipeline": pipeline.pipeline,
        "fingerprint": pipeline.fingerprint(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "libraries": {name: package.version for name in _LIBRARIES for package in distributions(name=name)},
        "models": {
            role: {**fingerprints.get(role, {}), **model.model_dump(mode="json")}
            for role, model in pipeline.models.items()
        },
        "stages": {
            name: {**producer["making"], "models": [*producer["models"]], **shared[name]}
            for name, producer in producers.items()
        },
        "earlier": load_json(data.parent / FILE) if data.is_file() and (data.parent / FILE).is_file() else None,
    }
    write_whole(folder / FILE, json.dumps(without_folders(values), indent=1, ensure_ascii=False) + "\n")
