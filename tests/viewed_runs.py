"""Runs to look at: real ones over a few rows with images, whose texts and names would break pages as markup."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from synthetic_board import HOSTILE
from task_keys import CAPTIONING

import capbench
from capbench.benchmarks.view.finding import Pictures, Runs, ShownRun
from capbench.benchmarks.view.site import Site
from capbench.tasks.locate import DataLocations

ROWS = 26
METRIC = HOSTILE[0]
"""What the tasks call ROUGE-L."""
_WORDS = ("red", "blue", "small", "large", "striped", "dotted")
_CAPTIONED: dict[str, Any] = {
    **CAPTIONING,
    "task": "captioned",
    "task_alias": "Captioned " + HOSTILE[1],
    "description": "Captions of squares. " + HOSTILE[3],
    "doc_to_id": "id",
    "image_folder": "images",
    "metric_list": [
        {"metric": "capture", "parser": "grammar", "synonyms": False, "soft": False}, "meteor",
        {"metric": "rouge_l", "name": METRIC}, "length", "cider",
    ],
}  # fmt: skip
_RATED = {
    **{key: value for key, value in _CAPTIONED.items() if key != "doc_to_text"}, "task": "rated", "task_alias": "Rated",
    "output_type": "agreement", "doc_to_candidate": "candidate", "doc_to_human": "ratings", "statistics": ["kendall_b"],
    "metric_list": ["length", {"metric": "rouge_l", "name": METRIC}],
}  # fmt: skip


@dataclass(frozen=True)
class Viewed:
    """A folder of runs, and what they were made from.

    Attributes:
        folder: Where tasks, images and runs lie.
        first: A captioner's run.
        second: Another captioner's run of the same task.
        rated: A run that judges metrics.
    """

    folder: Path
    first: ShownRun
    second: ShownRun
    rated: ShownRun

    def site(self) -> Site:
        """Return the pages of the runs."""
        return Site(Runs([self.folder / "runs"]), Pictures(DataLocations(), [self.folder / "tasks"]))


def caption(row: int) -> str:
    """Return a caption of a row."""
    return f"A {_WORDS[row % 6]} circle is to the left of a {_WORDS[row // 6 % 6]} square."


@cache
def viewed_once(folder: Path, tables: Path) -> Viewed:
    """Make tasks, images and runs in a folder, once in a process.

    Args:
        folder: The folder.
        tables: METEOR's.
    """
    (folder / "cache").mkdir(parents=True)
    (folder / "cache" / "meteor").symlink_to(tables)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(folder / "cache"))
        return _made(folder)


def _made(folder: Path) -> Viewed:
    tasks = folder / "tasks"
    (tasks / "images").mkdir(parents=True)
    for row in range(6):
        Image.new("RGB", (64, 48), (40 * row, 90, 150)).save(tasks / "images" / f"{row}.jpg")
    Image.new("RGB", (8, 8)).save(folder / "secret.jpg")
    (tasks / "images" / "link.jpg").symlink_to(folder / "secret.jpg")
    (tasks / "images" / "text.jpg").write_text("no image", encoding="utf-8")
    (tasks / "captioned.yaml").write_text(json.dumps(_CAPTIONED), encoding="utf-8")
    (tasks / "rated.yaml").write_text(json.dumps(_RATED), encoding="utf-8")
    _write(tasks / "rows.jsonl", _row)
    _write(folder / "plain.jsonl", lambda row: {"id": _id(row), "caption": caption(row)})
    hostile = folder / f"{HOSTILE[0]}.jsonl"
    _write(hostile, lambda row: {"id": _id(row), "caption": caption(row + row % 3) + HOSTILE[row % 4]})
    options = {"include_path": [tasks], "output_path": folder / "runs", "resamples": 100}
    for file in (folder / "plain.jsonl", hostile):
        capbench.evaluate(model="captions", model_args={"path": str(file)}, tasks=["captioned"], **options)
    capbench.evaluate(tasks=["rated"], **options)
    runs = Runs([folder / "runs"]).all()[0]
    first, second = sorted((run for run in runs if run.record.task == "captioned"), key=lambda run: run.record.date)
    return Viewed(folder, first, second, next(run for run in runs if run.record.task == "rated"))


def _id(row: int) -> str:
    return HOSTILE[2] if row == 7 else f"row {row}"


def _row(row: int) -> dict[str, Any]:
    named = {1: "../../secret.jpg", 2: "link.jpg", 3: "text.jpg", 4: "missing.jpg"}
    return {
        "id": _id(row), "image": named.get(row, f"{row % 6}.jpg"),
        "references": [caption(row + 1), HOSTILE[row % 4] + " a circle"], "candidate": caption(row),
        "ratings": [row % 4 + 1, (row + 1) % 4 + 1],
    }  # fmt: skip


def _write(path: Path, row_of: Callable[[int], dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row_of(row)) + "\n" for row in range(ROWS)), encoding="utf-8")
