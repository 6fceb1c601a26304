"""Writes records of runs that never were: valid ones, of all protocols, for tests of what reads records."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from capbench.benchmarks.records.hashes import fingerprint

LABELS = {
    "bleu_1": "BLEU-1", "bleu_4": "BLEU-4", "cider": "CIDEr", "clip_s": "CLIP-S", "length": "length",
    "meteor": "METEOR", "rouge_l": "ROUGE-L", "scm": "SCM", "kendall_b": "τ-b", "kendall_c": "τ-c",
}  # fmt: skip
PLAIN = Path(__file__).with_name("plain_run.json").read_text(encoding="utf-8")
"""What a record holds whatever it is of."""
REMEDY = "Restore the original record, or run the task again."
STATISTICS = {"agreement": ("kendall_b", "kendall_c"), "preference": ("accuracy",), "matching": ("accuracy",)}


def make_record(
    task: str = "tasty", kind: str = "agreement", values: Mapping[str, float | None] | None = None, **changes: Any
) -> dict[str, Any]:
    """Return a record.

    Args:
        task: Name of the task.
        kind: Its protocol.
        values: Result key (``cider.kendall_b``; ``cider`` of captions) to value.
        **changes: ``model``, ``model_args``, ``encoder``, ``limit``, ``generation_kwargs``, ``version``, ``date``,
            ``effective``, ``data``, ``protocol`` (its settings), ``published`` (that of the task), ``beside``
            (published values of results), ``description``, ``alias``, ``metrics`` (what they were made by), and any
            other key of a record.
    """
    values = {"cider.kendall_b": 0.4, "bleu_1.kendall_b": 0.3} if values is None else values
    take = changes.pop
    version, effective, published = take("version", 1.0), take("effective", 100), take("published", None)
    alias, model, encoder = take("alias", task), take("model", None), take("encoder", None)
    keys = {key: key.split(".") for key in values}
    metrics = dict.fromkeys(parts[0] for parts in keys.values())
    config = {
        "model": "hf" if model else None, "model_args": take("model_args", {}), "encoder": encoder, "encoder_args": {},
        "judge": None, "judge_args": {}, "limit": take("limit", None),
        "generation_kwargs": take("generation_kwargs", {}), "level": 0.95,
    }  # fmt: skip
    parts = {
        "task": {
            "name": task,
            "protocol": take("protocol", {"raters": "flatten"} if kind == "agreement" else {}),
            "metadata": {"version": version},
        },
        "data": take("data", "same"),
        "model": {"name": model} if model else None,
        "encoder": {"name": encoder} if encoder else None,
        "metrics": take("metrics", {name: {"metric": name, "aggregation": "mean"} for name in metrics}),
        "settings": {key: config[key] for key in ("limit", "generation_kwargs", "model_args")},
    }
    description = take("description", f"What {task} measures.")
    listed = {"published": published} if published else {}
    record = {
        **json.loads(PLAIN),
        "task": task,
        "group_subtasks": {task: []},
        "n-shot": {task: 0},
        "fingerprint": fingerprint(parts),
        "fingerprint_parts": parts,
        "task_alias": alias,
        "model_name": model,
        "results": {
            task: {"name": task, "alias": task}
            | {f"{key},none": value for key, value in values.items()}
            | {f"{key}_stderr,none": 0.01 for key in values}
        },
        "configs": {
            task: {
                "task": task,
                "description": description,
                "output_type": kind,
                "scale": 100,
                "metric_list": [{"metric": name} for name in metrics],
                **listed,
            }
        },
        "versions": {task: version},
        "higher_is_better": {task: dict.fromkeys(values, True)},
        "n-samples": {task: {"original": 100, "effective": effective}},
        "config": config,
        "date": take("date", 1.7e9),
        "intervals": {
            key: {
                "metric": parts_of[0],
                "statistic": parts_of[1] if len(parts_of) > 1 else "mean",
                "label": [
                    LABELS.get(parts_of[0], parts_of[0]),
                    " ".join(LABELS.get(part, part) for part in parts_of[1:]) or "mean",
                ],
                "n": effective,
                "low": _plus(values[key], -0.02),
                "high": _plus(values[key], 0.02),
                "resamples": 1000,
                "reason": "it has no value" if values[key] is None else "",
            }
            for key, parts_of in keys.items()
        },
        "published": take("beside", {}),
    }
    return record | changes


def _plus(value: float | None, more: float) -> float | None:
    return None if value is None else value + more


def checksum(record: Mapping[str, Any]) -> str:
    """Return what the key ``checksum`` of a record holds."""
    plain = {key: value for key, value in record.items() if key != "checksum"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_record(
    root: Path, key: str, record: Mapping[str, Any], samples: Mapping[str, Sequence[Any]] | None = None
) -> Path:
    """Write a record, and columns of samples beside it, and return its folder."""
    folder = root / key
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    if samples is not None:
        pyarrow.parquet.write_table(pyarrow.table(dict(samples)), folder / "samples.parquet")
    return folder


def seal(folder: Path, record: dict[str, Any] | None = None) -> Path:
    """Write a record anew, and with the sums that fit it and what lies beside it; return its folder."""
    if record is None:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    beside = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.json"]
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in beside}
    record = {**record, "files": sums}
    if "fingerprint_parts" in record:
        record["fingerprint"] = fingerprint(record["fingerprint_parts"])
    record["checksum"] = checksum(record)
    (folder / "run.json").write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    return folder


def write_many(root: Path, count: int, documents: int = 500, tasks_in_all: int = 20) -> None:
    """Write runs of all protocols, each of another model or time.

    Args:
        root: Folder to write to.
        count: Number of runs.
        documents: Documents of a run whose samples are written.
        tasks_in_all: Number of tasks, twenty or more; those past twenty are of captioners.
    """
    generator = np.random.default_rng(0)
    table_1 = {"paper": "pacspp", "table": 1}
    tasks: list[tuple[str, str, dict[str, Any]]] = [
        ("flickr8k_expert", "agreement", {"published": {**table_1, "task": "Flickr8k-Expert"}}),
        ("flickr8k_cf", "agreement", {"published": {**table_1, "task": "Flickr8k-CF"}}),
        ("composite", "agreement", {"published": {**table_1, "task": "Composite"}}),
        ("foil_1ref", "preference", {"published": {"paper": "pacspp", "table": 4, "task": "FOIL 1 ref"}}),
        (
            "dci_full_all_scm",
            "matching",
            {"published": {"paper": "dci", "table": 10, "task": "sDCI", "metrics": {"SCM": "All SCM"}}},
        ),
        *((f"task_{n}", kind, {}) for n, kind in enumerate(("agreement", "preference", "matching") * 2)),
        *((f"captions_{n}", "generate_until", {}) for n in range(tasks_in_all - 11)),
    ]
    ids = [f"document {n}" for n in range(documents)]
    for number in range(count):
        task, kind, changes = tasks[number % len(tasks)]
        model = f"model-{number // len(tasks):03}"
        metrics = ["scm"] if kind == "matching" else ["bleu_1", "bleu_4", "cider", "meteor", "rouge_l", "clip_s"]
        values = {
            f"{metric}.{statistic}".rstrip("."): round(float(generator.random()), 6)
            for metric in metrics
            for statistic in STATISTICS.get(kind, ("",))
        }
        encoder = "openai-clip-vit-b-32" if kind == "generate_until" else model
        record = make_record(
            task, kind, values, model=model, encoder=encoder, date=1.7e9 + 60 * number, data="same", **changes
        )
        samples = None
        if kind == "generate_until":
            scores = {metric: values[metric] + generator.normal(0, 0.2, documents) for metric in metrics}
            samples = {"id": ids, **scores}
        record["checksum"] = checksum(record)
        write_record(root, f"{task}/{model}/{number:05}", record, samples)
