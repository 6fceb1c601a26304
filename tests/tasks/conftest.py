"""Small task files that the tests of this folder share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import task_keys
import yaml

from capbench.tasks.schema import TaskConfig, load_task

CAPTIONING = {
    "task": "mine",
    "dataset_path": "json",
    "doc_to_text": "Describe this image.",
    "doc_to_target": "references",
    "metric_list": ["length"],
    "metadata": {"version": 1.0},
}
CARD = task_keys.CARD | {"files": [{"path": "captions.jsonl", "what": "captions"}]}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file below the test's folder and return its path."""

    def file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return file


@pytest.fixture
def write_task(write: Callable[..., Path]) -> Callable[..., Path]:
    """Write a task file that is whole but for the keys given; a key given as None is left out."""

    def task(name: str = "mine.yaml", tail: str = "", **keys: Any) -> Path:
        values = {key: value for key, value in {**CAPTIONING, **keys}.items() if value is not None}
        return write(name, yaml.safe_dump(values, sort_keys=False) + tail)

    return task


@pytest.fixture
def make_task(write_task: Callable[..., Path]) -> Callable[..., TaskConfig]:
    """Return the task of a file that is whole but for the keys given."""
    return lambda tail="", **keys: load_task(write_task(tail=tail, **keys))[0]


@pytest.fixture
def write_card(write: Callable[..., Path]) -> Callable[..., Path]:
    """Write ``mine_source.yaml``, whole but for the keys given; a key given as None is left out."""

    def card(tail: str = "", **keys: Any) -> Path:
        values = {key: value for key, value in {**CARD, **keys}.items() if value is not None}
        return write("mine_source.yaml", yaml.safe_dump(values, sort_keys=False) + tail)

    return card
