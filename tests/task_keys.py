"""Small task files: the keys they have in common, by protocol; a test adds names, metrics and what it is about."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LOCAL: dict[str, Any] = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "metadata": {"version": 1.0},
}
AGREEMENT = LOCAL | {
    "output_type": "agreement",
    "doc_to_image": "image",
    "doc_to_candidate": "candidate",
    "doc_to_target": "references",
    "doc_to_human": "rating",
    "statistics": ["kendall_b"],
}
UNSEEN = {key: value for key, value in AGREEMENT.items() if key != "doc_to_image"}
"""An agreement task without images."""
CARD: dict[str, Any] = {
    "title": "Mine",
    "folder": "mine",
    "homepage": "https://example.org",
    "licence": "CC0",
    "terms": "None.",
    "citation": "Me.",
    "how": "Ask me.",
    "files": [{"path": "rows.jsonl", "what": "rows"}],
}
"""What a data card says."""
CAPTIONING = LOCAL | {
    "output_type": "generate_until",
    "doc_to_text": "Describe it.",
    "doc_to_image": "image",
    "doc_to_target": "references",
    "metric_list": ["length"],
}


def write_task(folder: Path, rows: Iterable[Mapping[str, Any]], task: Mapping[str, Any]) -> Path:
    """Write a task file (JSON is YAML), which is called as its task is, and its rows; return the folder."""
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / f"{task['task']}.yaml").write_text(json.dumps(LOCAL | task), encoding="utf-8")
    return folder


def line_of(path: Path, key: str) -> int:
    """Return the line of a task file that has a key."""
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:"))
