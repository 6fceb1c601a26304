"""The keys that small task files have in common, by protocol; a test adds names, metrics and what it is about."""

from __future__ import annotations

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
CAPTIONING = LOCAL | {
    "output_type": "generate_until",
    "doc_to_text": "Describe it.",
    "doc_to_image": "image",
    "doc_to_target": "references",
    "metric_list": ["length"],
}
