"""A task of small images, captions of two systems whose texts would break pages as markup, and sessions of these."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from synthetic_board import HOSTILE
from task_keys import CAPTIONING

from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.task_images import TaskImages
from capbench.benchmarks.rate.collecting import collect, recorded
from capbench.benchmarks.rate.items import Design
from capbench.benchmarks.rate.questions import questions_of
from capbench.benchmarks.rate.session import RatingQueue, Session, begin
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task

SYSTEMS = ("secret-model-a", "secret-model-b")
TASK: dict[str, Any] = {**CAPTIONING, "task": "photos", "doc_to_id": "id", "image_folder": "images"}


def caption(system: int, row: int) -> str:
    """Return a caption of a row."""
    return f"caption {row} {'of few' if system else 'of many more'} words {HOSTILE[row % 4] if system else ''}".strip()


def make_task(folder: Path, rows: int, captions: Mapping[str, Sequence[str]] | None = None) -> Path:
    """Make a task with images in ``folder/task``, and captions in ``folder/SYSTEM.jsonl``; return the task's file.

    ``captions`` are those of each system, a row each; else both of ``SYSTEMS`` have some.
    """
    task = folder / "task"
    (task / "images").mkdir(parents=True)
    for row in range(rows):
        Image.new("RGB", (16, 12), (row % 256, row // 256, 90)).save(task / "images" / f"{row}.png")
    documents = [
        {"id": f"row {row}", "image": f"{row}.png", "references": [f"words of {row}", HOSTILE[row % 4]]}
        for row in range(rows)
    ]
    _write(task / "rows.jsonl", documents)
    (task / "photos.yaml").write_text(json.dumps(TASK), encoding="utf-8")
    written = captions or {system: [caption(n, row) for row in range(rows)] for n, system in enumerate(SYSTEMS)}
    for system, texts in written.items():
        _write(folder / f"{system}.jsonl", [{"id": f"row {row}", "caption": text} for row, text in enumerate(texts)])
    return task / "photos.yaml"


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def begin_session(
    folder: Path,
    name: str = "session",
    *,
    systems: Sequence[str] = SYSTEMS,
    aspects: Sequence[str] = (),
    better: str = "",
    form: Mapping[str, Any] | None = None,
    **design: Any,
) -> tuple[Session, FailureLog]:
    """Begin a session of the task that :func:`make_task` made in a folder; return what was left out, too."""
    path = folder / "task" / "photos.yaml"
    task = load_task(path)[0]
    captioners = recorded([str(folder / f"{system}.jsonl") for system in systems])
    items, failures = collect(task, path, DataLocations(), captioners, subset=False)
    images = TaskImages(task, path, DataLocations())
    fields = {
        "task": "photos", "version": "1.0",
        "questions": questions_of(**{"aspects": aspects, "better": better, **(form or {})}), "systems": tuple(systems),
        "captions": tuple(captioner.fingerprint()["sha256"] for captioner in captioners), "seed": 1, "sample": None,
        "subset": False, "references": False,
    }  # fmt: skip
    session = begin(
        folder / name, Design(**{**fields, **design}), items, lambda item: images.read(item.id, item.image), failures
    )
    return session, failures


def make_session(
    folder: Path, *, rows: int = 6, captions: Mapping[str, Sequence[str]] | None = None, **asked: Any
) -> Session:
    """Make a task, and begin a session in ``folder/session``."""
    make_task(folder, rows, captions)
    return begin_session(folder, systems=tuple(captions or SYSTEMS), **asked)[0]


def rate_all(session: Session, rater: str, said: Sequence[Any]) -> RatingQueue:
    """Let a rater answer as ``said`` has it, in turn from its start, until all is answered."""
    desk = RatingQueue(session)
    while (place := desk.place(rater)).step is not None:
        assert desk.answer(rater, place.number, said[place.number % len(said)])
    return desk
