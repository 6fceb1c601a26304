"""Writes finished runs in the result format of lm-eval.

Layout: ``MODEL/results_DATE.json`` and ``MODEL/samples_TASK_DATE.jsonl``, as in ``EvaluationTracker`` of lm-eval
0.4.13 (``lm_eval/loggers/evaluation_tracker.py``).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...atomic_files import write_whole
from ...errors import DataError, writing
from ...rows import BadRow
from ..records.hashes import plain
from ..records.task_run import TaskRun

_OF_A_MODEL = ("candidate", "candidates")


def write_results(runs: Sequence[TaskRun], folder: Path) -> tuple[list[Path], list[BadRow]]:
    """Write runs in lm-eval's layout.

    Runs of a model with the same settings are in one results file. If a task was run more than once, its latest run
    is in the file of the latest date, and earlier runs are in separate files.

    Args:
        runs: The runs.
        folder: The output folder, like ``--output_path`` of lm-eval.

    Returns:
        The files, and the runs whose samples could not be written, with the reason.

    Raises:
        UsageError: The folder cannot be written.
    """
    written: list[Path] = []
    without: list[BadRow] = []
    taken: set[Path] = set()
    for group in _gathered(runs):
        latest = max(group, key=lambda run: run.record.date)
        place = folder / file_name(model_of(latest))
        moment = latest.record.started
        while (results := place / f"results_{_stamp(moment)}.json") in taken:
            moment += timedelta(microseconds=1)
        taken.add(results)
        hashes = {}
        with writing(f"-o {folder}"):
            place.mkdir(parents=True, exist_ok=True)
            for run in group:
                try:
                    samples = list(lm_eval_samples(run))
                except DataError as error:
                    without.append(BadRow(str(run.folder), error.message.removeprefix(f"{run.folder}: ")))
                    continue
                name = re.sub(r"[\\/\x00]+|^\.+", "_", run.record.task)
                path = place / f"samples_{name}_{_stamp(moment)}.jsonl"
                lines = "".join(json.dumps(plain(sample), ensure_ascii=False) + "\n" for sample in samples)
                write_whole(path, lines.encode("utf-8", "backslashreplace"))
                hashed = (s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in samples)
                hashes[run.record.task] = _hash("".join(hashed))
                written.append(path)
            text = json.dumps(plain(_merged(group, latest, hashes)), indent=2, ensure_ascii=False)
            write_whole(results, text.encode("utf-8", "backslashreplace"))
        written.append(results)
    return written, without


def file_name(model: str) -> str:
    """Return a model's folder by lm-eval's rule; a name of dots cannot leave the output folder."""
    name = re.sub(r"[\"<>:/|\\?*\[\]]+", "__", model)
    return name if name.strip(".") else f"_{name}"


def lm_eval_samples(run: TaskRun) -> Iterator[dict[str, Any]]:
    """Yield the scored samples of a run in the format of lm-eval.

    ``doc`` has the recorded fields of the document, ``target`` its references as text, and ``arguments`` the
    task's prompt and generation settings if a model wrote the caption.

    Raises:
        DataError: The run has no samples, or none with texts.
    """
    samples, record = run.samples, run.record
    rows = samples.to_pylist()
    columns = set(samples.column_names)
    if not columns & set(_OF_A_MODEL):
        raise DataError("its samples.parquet has scores without captions")
    metrics = [name for name in record.made_by if name in columns]
    metrics = metrics or [name for name in ("hit",) if name in columns]
    asked, prompt, settings = record.protocol.needs_captioner, record.prompt, dict(record.decoding)
    for number, row in enumerate(rows):
        answers = next((row[key] for key in _OF_A_MODEL if row.get(key) is not None), None)
        if answers is None:
            continue
        answers = [answers] if isinstance(answers, str) else answers
        hidden = {*metrics, "failure", *(["candidate"] if asked else [])}
        doc = {key: value for key, value in row.items() if key not in hidden and value is not None}
        target = str(row.get("references") or "")
        yield {
            "doc_id": number,
            "doc": doc,
            "target": target,
            "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": settings}} if asked else {},
            "resps": [answers],
            "filtered_resps": answers,
            "filter": "none",
            "metrics": metrics,
            "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": _hash(prompt),
            "target_hash": _hash(target),
            **{name: row[name] for name in metrics},
        }


def model_of(run: TaskRun) -> str:
    """Return the name of a run's model."""
    return run.record.model_name or "no-model"


def _gathered(runs: Sequence[TaskRun]) -> list[list[TaskRun]]:
    """Group runs by model and settings, with each task once, like calls of lm-eval."""
    groups: dict[tuple[str, str, int], dict[str, TaskRun]] = {}
    for run in sorted(runs, key=lambda run: -run.record.date):
        settings = json.dumps(plain(run.record.written_settings), sort_keys=True)
        number = 0
        while run.record.task in groups.setdefault((model_of(run), settings, number), {}):
            number += 1
        groups[model_of(run), settings, number][run.record.task] = run
    return [list(group.values()) for group in groups.values()]


_BY_TASK = ("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")
"""Fields of lm-eval's results that are keyed by task."""


_OF_PROMPTS = (
    "system_instruction", "system_instruction_sha", "fewshot_as_multiturn", "chat_template", "chat_template_sha"
)  # fmt: skip
"""Fields on prompts that lm-eval builds."""


def _merged(group: Sequence[TaskRun], latest: TaskRun, task_hashes: Mapping[str, str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    ours = {}
    for record in sorted((run.record for run in group), key=lambda record: record.task):
        for key in _BY_TASK:
            merged[key] = merged.get(key, {}) | record.values[key]
        counted = {**merged["results"][record.task], "sample_len": record.documents.effective}
        merged["results"][record.task] = counted
        ours[record.task] = {key: record.values[key] for key in ("fingerprint", "intervals", "published", "date")}
    record, model = latest.record, model_of(latest)
    return merged | {
        "config": record.written_settings,
        "git_hash": record.git_hash,
        "date": record.date,
        "transformers_version": record.environment.libraries.get("transformers"),
        "task_hashes": dict(task_hashes),
        "model_source": record.settings.adapter or "none",
        "model_name": model,
        "model_name_sanitized": file_name(model),
        **dict.fromkeys(_OF_PROMPTS),
        "total_evaluation_time_seconds": str(sum(run.record.seconds for run in group)),
        "capbench": {"version": record.environment.capbench, "tasks": ours},
    }


def _stamp(moment: datetime) -> str:
    """Return a date in the format of lm-eval's file names, but in UTC instead of local time."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
