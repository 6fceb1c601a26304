"""Steps say which of how many they are."""

from __future__ import annotations

import capbench
from capbench.progress import Reporter, numbered, unheard


def test_known_steps_are_numbered_and_others_are_named():
    told: list[str] = []

    def progress(step: str) -> Reporter:
        told.append(step)
        return unheard

    of_task = numbered(numbered(progress, (), "task 2 of 3, "), ["captions", "cider"])
    for step in ("captions", "cider", "units"):
        of_task(step)
    assert told == ["task 2 of 3, step 1 of 2: captions", "task 2 of 3, step 2 of 2: cider", "task 2 of 3, units"]


def test_run_of_tasks_tells_which_task_and_which_step():
    told: list[str] = []

    def progress(step: str) -> Reporter:
        told.append(step)
        return unheard

    settings = {"metrics": ["length", "bleu_1"], "limit": 20, "progress": progress}
    capbench.evaluate(tasks=["shapes_expert", "shapes_foil"], resamples=20, **settings)
    assert list(dict.fromkeys(told)) == [
        "task 1 of 2, step 1 of 3: length",
        "task 1 of 2, step 2 of 3: bleu_1",
        "task 1 of 2, step 3 of 3: intervals",
        "task 2 of 2, step 1 of 2: length",
        "task 2 of 2, step 2 of 2: bleu_1",
    ]
    told.clear()
    capbench.evaluate("iiw-p5b", ["iiw_400"], resamples=0, **settings)
    assert list(dict.fromkeys(told)) == ["step 1 of 3: captions", "step 2 of 3: length", "step 3 of 3: bleu_1"]
