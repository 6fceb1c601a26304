"""Writes ratings as data rows and a task for ``bench run``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ...atomic_files import write_whole
from ...errors import counted, writing
from ..protocols.agreement import RATED_ROWS
from ..protocols.preference import VOTED_ROWS
from .session import IMAGES, Answer, Key, Session


def write_task(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> tuple[Path, int, int] | None:
    """Write rows and task next to the answers.

    Args:
        session: The session.
        by_rater: The current answers by rater.

    Returns:
        The YAML file of the task, the number of rows, and of items that no rater could judge; None without answers.

    Raises:
        UsageError: The folder cannot be written.
    """
    questions = session.design.questions
    rows = list(_choices(session, by_rater) if questions.better else _ratings(session, by_rater))
    judged = [row for row in rows if not questions.better or any(vote is not None for vote in row["votes"])]
    if not judged:
        return None
    name = re.sub(r"[^\w.-]+", "_", session.folder.resolve().name).lstrip("._-") + "_rated"
    has_references = any(item.references for item in session.items)
    # The column of each aspect, or of the only one.
    columns = {aspect: f"rating_{aspect}" for aspect in questions.aspects}
    human = columns if len(columns) > 1 else "".join(columns.values())
    keys = VOTED_ROWS if questions.better else {**RATED_ROWS, "doc_to_human": human}
    task = {
        "task": name,
        "description": f"Judgements of captions of {session.design.task} by {counted(len(by_rater), 'rater')}.",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": f"{name}.jsonl"},
        "doc_to_id": "id",
        "doc_to_image": "image",
        "doc_to_pixels": "picture",
        **({"doc_to_target": "references"} if has_references else {}),
        **keys,
        "metric_list": ["bleu_4", "rouge_l", "cider", "length"] if has_references else ["length"],
        "metadata": {"version": 1.0},
    }
    head = (
        f"# Made by 'bench rate' from the task {session.design.task}, with its images and references:\n"
        f"# 'bench data {session.design.task}' shows the conditions for redistribution.\n"
    )
    path = session.folder / f"{name}.yaml"
    with writing(session.folder):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in judged)
        write_whole(session.folder / f"{name}.jsonl", text)
        write_whole(path, head + yaml.safe_dump(task, sort_keys=False, allow_unicode=True))
    return path, len(judged), len(rows) - len(judged)


def _ratings(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[dict[str, Any]]:
    for item in session.items:
        for number, system in enumerate(session.design.systems):
            key = item.id, number
            of_raters = {rater: answers[key] for rater, answers in by_rater.items() if key in answers}
            if not of_raters:
                continue
            ratings = {
                f"rating_{aspect}": [answer[aspect] for answer in of_raters.values() if isinstance(answer, Mapping)]
                for aspect in session.design.questions.aspects
            }
            yield {
                "id": f"{item.id}|{system}",
                "image": item.image,
                "picture": f"{IMAGES}/{item.picture}",
                "system": system,
                "caption": item.captions[system],
                "references": list(item.references),
                **ratings,
                "raters": list(of_raters),
            }


def _choices(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[dict[str, Any]]:
    systems = session.design.systems
    decided = {rater: session.decided(rater, answers) for rater, answers in by_rater.items()}
    for item in session.items:
        of_raters = {rater: answers[item.id, None] for rater, answers in decided.items() if (item.id, None) in answers}
        if of_raters:
            # Equal captions count as one choice, unless all captions are equal.
            same = item.first_equal if item.has_choice else tuple(range(len(systems)))
            shown = sorted(set(same))
            votes = of_raters.values()
            yield {
                "id": item.id,
                "image": item.image,
                "picture": f"{IMAGES}/{item.picture}",
                "systems": [
                    ", ".join(name for name, first in zip(systems, same, strict=True) if first == caption)
                    for caption in shown
                ],
                "captions": [item.texts[caption] for caption in shown],
                "references": list(item.references),
                "votes": [shown.index(same[vote]) if isinstance(vote, int) else vote for vote in votes],
                "raters": list(of_raters),
            }
