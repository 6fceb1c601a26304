"""Writes and reads ``run.json`` and ``samples.parquet``."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..adapters import Encoder
from ..errors import DataError
from ..metrics import Items
from .items import printable
from .protocols.contract import Collected, FailureLog, Result, ScoredMetric
from .task_run import result_key

if TYPE_CHECKING:
    import pyarrow

    from .published_values import Published

SCHEMA_VERSION = 1
# Lists of numbers as json.dumps indents them; no text of a record has such a line break, as JSON escapes it.
_NUMBERS = re.compile(r"\[\n\s+-?\d[^\]\[\"{]*\]")
SCHEMA_PATH = Path(__file__).parent / "run.schema.json"


def result_entries(results: Sequence[Result]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool]]:
    """Return results in lm-eval's layout, our intervals, and whether higher is better.

    lm-eval keys a value ``"metric,filter"`` and its error ``"metric_stderr,filter"``; an agreement of
    ``cider`` by ``kendall_c`` is the metric ``cider.kendall_c`` there.
    """
    values: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    higher: dict[str, bool] = {}
    for result in results:
        key = result_key(result)
        interval = result.interval
        values[f"{key},none"] = result.value
        has_error = interval is not None and interval.stderr is not None
        values[f"{key}_stderr,none"] = interval.stderr if interval and has_error else "N/A"
        higher[key] = result.higher_is_better
        intervals[key] = {
            "metric": result.metric,
            "statistic": result.statistic,
            "label": list(result.label),
            "n": result.n,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "resamples": interval.resamples if interval else 0,
            "reason": result.reason or (interval.reason if interval else ""),
        }
    return values, intervals, higher


def published_entries(published: Mapping[str, Published]) -> dict[str, Any]:
    """Return published values beside results, on the scale of the results."""
    return {
        key: {
            "value": one.value / one.scale,
            "printed": one.printed,
            "scale": one.scale,
            "paper": one.paper,
            "table": one.table,
        }
        for key, one in published.items()
    }


def sample_table(columns: Mapping[str, Sequence[Any]], failures: FailureLog) -> pyarrow.Table:
    """Return a row a scored sample and a row a failed one.

    Args:
        columns: What the protocol says of each sample; ``failure`` among them.
        failures: The samples that were lost before they could be scored.
    """
    import pyarrow

    texts, numbers = pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    types = {"ratings": numbers, "preferred": pyarrow.int64()}
    types |= dict.fromkeys(("references", "candidates", "negatives"), texts)
    types |= dict.fromkeys(("id", "image", "candidate", "category", "failure"), pyarrow.string())
    lost = [failure for failure in failures.entries if failure.stage != "metric"]
    table = {}
    for name, values in columns.items():
        more: Sequence[str | None] = [None] * len(lost)
        if name == "id":
            more = [failure.sample for failure in lost]
        elif name == "failure":
            more = [f"{failure.stage} {failure.reason}" for failure in lost]
        kept = values if name in types else map(_finite, values)
        table[name] = pyarrow.array([*kept, *more], types.get(name, pyarrow.float64()))
    return pyarrow.table(table)


def truncation(
    collected: Collected, scored: Sequence[ScoredMetric], encoder: Encoder | None
) -> dict[str, dict[str, Any]]:
    """Return, for each metric whose encoder takes so many tokens only, how many captions were cut.

    A metric says so by ``Scores.parts["truncated"]``: ``[n]`` 1 for an item whose caption was cut, else 0;
    a protocol that encodes by ``Collected.cut``.
    """
    if encoder is None:
        return {}
    counts = dict(collected.cut)
    for one in scored:
        cut = one.scores.parts.get("truncated") if one.scores is not None else None
        if cut is not None:
            counts[one.name] = len(collected.samples), int(np.count_nonzero(cut[collected.item_of_sample]))
    return {
        name: {
            "captions": captions,
            "cut": cut,
            "share": cut / captions,
            "context_length": encoder.context_length,
        }
        for name, (captions, cut) in counts.items()
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Return a value as JSON has it: what YAML or a metric's settings hold besides becomes text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return printable(str(value))


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return a hash of everything that decides the numbers of a run."""
    return hashlib.sha256(json.dumps(plain(parts), sort_keys=True).encode()).hexdigest()


def checksum(record: Mapping[str, Any]) -> str:
    """Return a hash of a whole record but for its ``checksum``, by which a hand-edited one is noticed.

    Args:
        record: JSON values, as ``json.loads`` gives them back.
    """
    values = plain({key: value for key, value in record.items() if key != "checksum"})
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def verify(record: Mapping[str, Any]) -> str | None:
    """Return why a record is not what capbench wrote, or None if nothing speaks against it.

    Records of versions that wrote no checksum are held against their fingerprint alone.
    """
    if fingerprint(record.get("fingerprint_parts", {})) != record.get("fingerprint"):
        return "its fingerprint is not that of its fingerprint_parts"
    if "checksum" in record and checksum(record) != record["checksum"]:
        return "its checksum is not that of its content"
    return None


def data_hash(collected: Collected) -> str:
    """Return a hash of the captions, references, objects and ratings that were scored, in order."""
    digest = hashlib.sha256()
    for known in collected.content():
        digest.update(json.dumps(known).encode())
    return digest.hexdigest()


def images_hash(items: Items) -> str:
    """Return a hash of the images that metrics looked at, in order; one that is missing counts as that."""
    digest = hashlib.sha256()
    for handle in dict.fromkeys(items.images):
        try:
            digest.update(handle.digest().encode())
        except OSError:
            digest.update(b"missing")
    return digest.hexdigest()


def require_folder(root: Path) -> None:
    """Make the folder below which runs are written, before any work is done for them.

    Raises:
        DataError: It cannot be written.
    """
    probe = root / f".probe-{os.getpid()}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise _unwritable(root, error) from error


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the run cannot be written to {folder}: {error.strerror or error}",
        "Name another folder with --output_path.",
    )


def _file_name(name: str) -> str:
    """Return a name that stays below its folder, whatever the task or the model is called."""
    return re.sub(r"[^A-Za-z0-9._-]+|^\.+", "_", name)


def _new_folder(folder: Path) -> Path:
    """Make a folder that no other run has: with everything of one, scores alone of the next would not be alone."""
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}.{n}") for n in itertools.count(2)))
    made = next(one for one in names if not one.exists())
    made.mkdir(parents=True, exist_ok=True)
    return made


def write_run(
    root: Path,
    record: Mapping[str, Any],
    samples: pyarrow.Table | None,
    pictures: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a run below ``root`` and return its folder; ``run.json`` comes last, so that it is never alone.

    Args:
        root: The folder of all runs.
        record: What ``run.json`` holds.
        samples: What ``samples.parquet`` holds; None writes none.
        pictures: Path below the run's folder to content.

    Raises:
        DataError: The folder cannot be written.
    """
    moment = datetime.fromtimestamp(record["date"], UTC).strftime("%Y%m%dT%H%M%S")
    task, model = (_file_name(name) for name in (record["task"], record["model_name"] or "no-model"))
    folder = root / task / model / f"{moment}-{record['fingerprint'][:8]}"
    try:
        folder = _new_folder(folder)
        if samples is not None:
            import pyarrow.parquet

            pyarrow.parquet.write_table(samples, folder / "samples.parquet", compression="zstd")
        for name, content in (pictures or {}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        text = json.dumps(plain(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        text = _NUMBERS.sub(lambda found: json.dumps(json.loads(found[0])), text)
        draft = folder / f".run-{os.getpid()}.json"
        draft.write_text(text, encoding="utf-8")
        draft.replace(folder / "run.json")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def read_run(folder: Path) -> dict[str, Any]:
    """Read ``run.json`` of a folder, or the file itself.

    Raises:
        DataError: Missing, not JSON, or of a newer schema.
    """
    path = folder / "run.json" if folder.is_dir() else folder
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a run: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("schema_version"), int):
        raise DataError(f"{path}: is not a run record of capbench (it has no schema_version)")
    if record["schema_version"] > SCHEMA_VERSION:
        raise DataError(
            f"{path}: has schema version {record['schema_version']}, this capbench knows {SCHEMA_VERSION}",
            "Update capbench.",
        )
    return record
