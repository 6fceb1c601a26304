"""Writes ratings as data rows and a task for ``bench run``."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ...atomic_files import write_whole
from ...errors import counted, writing
from ..protocols.agreement import RATED_ROWS
from ..protocols.battles import BATTLE_ROWS
from ..protocols.preference import RANKED_ROWS, VOTED_ROWS
from .forms import TIE, Answer, score_of
from .items import RatedItem
from .questions import Form
from .session import IMAGES, Key, Session


def write_task(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> tuple[Path, int, int] | None:
    """Write rows and task next to the answers.

    Args:
        session: The session.
        by_rater: The current answers by rater.

    Returns:
        The YAML file of the task, the number of rows, and of those in which no rater could judge; None without answers.

    Raises:
        UsageError: The folder cannot be written.
    """
    questions = session.design.questions
    rows = list(_ROWS[questions.form](session, by_rater))
    judged = [row for row in rows if _is_judged(row)]
    if not judged:
        return None
    name = re.sub(r"[^\w.-]+", "_", session.folder.resolve().name).lstrip("._-") + "_rated"
    has_references = any(item.references for item in session.items)
    # The column of each aspect, or of the only one.
    columns = {aspect: f"rating_{aspect}" for aspect in (["errors"] if questions.spans else questions.aspects)}
    human = columns if len(columns) > 1 else "".join(columns.values())
    keys = _KEYS.get(questions.form) or {**RATED_ROWS, "doc_to_human": human}
    task = {
        "task": name,
        "description": f"Judgements of captions of {session.design.task} by {counted(len(by_rater), 'rater')}.",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": f"{name}.jsonl"},
        "doc_to_id": "id",
        "doc_to_image": "image",
        **({} if any(item.of_video for item in session.items) else {"doc_to_pixels": "picture"}),
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


def _is_judged(row: Mapping[str, Any]) -> bool:
    """Return whether a rater could judge a row."""
    judgements = [row[name] for name in row if name.startswith("rating_")] or [row.get("votes") or row["ranks"]]
    return all(any(entry is not None for entry in of_row) for of_row in judgements)


def _about(item: RatedItem) -> dict[str, Any]:
    return {"image": item.image, "picture": f"{IMAGES}/{item.picture}", "references": list(item.references)}


def _remarks(session: Session, raters: Iterable[str], key: Key) -> dict[str, Any]:
    """Return the remarks of raters; nothing if there are none."""
    rows = {rater: session.answers(rater).rows.get(key, {}) for rater in raters}
    remarks = {rater: row["remark"] for rater, row in rows.items() if row.get("remark")}
    return {"remarks": remarks} if remarks else {}


def _ratings(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[dict[str, Any]]:
    questions = session.design.questions
    for item in session.items:
        for number, system in enumerate(session.design.systems):
            key = item.id, number
            of_raters = {rater: answers[key] for rater, answers in by_rater.items() if key in answers}
            if not of_raters:
                continue
            answers = list(of_raters.values())
            if questions.spans:
                scores = [None if marks is None else score_of(questions.spans, marks) for marks in answers]
                columns = {"rating_errors": scores, "errors": answers}
            else:
                columns = {f"rating_{aspect}": [answer[aspect] for answer in answers] for aspect in questions.aspects}
            judged_columns = {
                name: [entry for entry in of_row if entry is not None] for name, of_row in columns.items()
            }
            yield {
                "id": f"{item.id}|{system}",
                **_about(item),
                "system": system,
                "caption": item.captions[system],
                **judged_columns,
                "raters": list(of_raters),
                **_remarks(session, of_raters, key),
            }


def _rankings(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each rater and item; of the best and the worst, the others have the rank between."""
    for item in session.items:
        shown = sorted(set(item.first_equal))
        for rater, answers in by_rater.items():
            if (key := (item.id, None)) not in answers:
                continue
            ranks = answer = answers[key]
            if isinstance(answer, Mapping):
                ranks = [1 if n == answer["best"] else 3 if n == answer["worst"] else 2 for n in range(len(item.texts))]
            yield {
                "id": f"{item.id}|{rater}",
                **_about(item),
                "systems": [session.design.systems[caption] for caption in shown],
                "captions": [item.texts[caption] for caption in shown],
                "ranks": [ranks[caption] for caption in shown] if ranks else [None],
                "rater": rater,
                **_remarks(session, [rater], key),
            }


def _battles(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[dict[str, Any]]:
    systems = session.design.systems
    for item in session.items:
        key = item.id, None
        by_pair: dict[tuple[int, ...], dict[str, Any]] = {}
        for rater, answers in by_rater.items():
            if key in answers:
                by_pair.setdefault(tuple(sorted(answers[key]["pair"])), {})[rater] = answers[key]["better"]
        for pair, votes in by_pair.items():
            yield {
                "id": f"{item.id}|{'|'.join(systems[system] for system in pair)}",
                **_about(item),
                "systems": [systems[system] for system in pair],
                "captions": [item.texts[system] for system in pair],
                "votes": [vote if vote in (None, TIE) else pair.index(vote) for vote in votes.values()],
                "raters": list(votes),
                **_remarks(session, votes, key),
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
                **_about(item),
                "systems": [
                    ", ".join(name for name, first in zip(systems, same, strict=True) if first == caption)
                    for caption in shown
                ],
                "captions": [item.texts[caption] for caption in shown],
                "votes": [shown.index(same[vote]) if isinstance(vote, int) else vote for vote in votes],
                "raters": list(of_raters),
                **_remarks(session, of_raters, (item.id, None)),
            }


_Rows = Callable[[Session, Mapping[str, Mapping[Key, Answer]]], Iterator[dict[str, Any]]]
_ROWS: Mapping[Form, _Rows] = {
    "aspects": _ratings,
    "spans": _ratings,
    "better": _choices,
    "best_worst": _rankings,
    "ranking": _rankings,
    "battle": _battles,
}
_KEYS: Mapping[Form, Mapping[str, Any]] = {
    "better": VOTED_ROWS,
    "best_worst": RANKED_ROWS,
    "ranking": RANKED_ROWS,
    "battle": BATTLE_ROWS,
}
