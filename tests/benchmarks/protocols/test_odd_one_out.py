"""A protocol by the base of choices, as docs/extending.md has it: two hooks, and commands know its runs."""

from pathlib import Path
from typing import Any

import pytest
from task_keys import write_task
from test_readme import block

import capbench
from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.records.task_run import TaskRun

SOURCE = block("python", "OddOneOut", of="docs/extending.md")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {name: entry for name, entry in protocols._entries.items() if name != "odd_one_out"}
    monkeypatch.setattr(protocols, "_entries", others)
    exec(SOURCE.partition("\nrun = ")[0], {})  # noqa: S102 - our own page


def row(identity: str, lengths: list[int], odd: Any = 0, **more: Any) -> dict[str, Any]:
    """Captions of so many words."""
    captions = [" ".join(["word"] * length) for length in lengths]
    return {"id": identity, "image": f"{identity}.jpg", "captions": captions, "odd": odd, **more}


def run(tmp_path: Path, rows: list[dict[str, Any]], settings: dict[str, Any] | None = None, **keys: Any) -> TaskRun:
    task = {"task": "odd", "output_type": "odd_one_out", "doc_to_id": "id", "doc_to_image": "image"}
    task |= {"doc_to_odd": "odd", "doc_to_candidates": "captions", "metric_list": ["length"]}
    write_task(tmp_path, rows, task | keys)
    options = {"resamples": 0} | (settings or {})
    return capbench.evaluate(tasks="odd", include_path=[tmp_path], **options)["odd"]


def test_lowest_score_is_chosen_and_equal_ones_share(tmp_path):
    rows = [row("a", [1, 3, 2], 0), row("b", [3, 1, 2], 0), row("c", [1, 1, 2], 0), row("d", [5, 4, 4, 3], 3)]
    done = run(tmp_path, rows)
    assert done.samples["length"].to_pylist() == [1.0, 0.0, 0.5, 1.0]
    assert done.samples["scores.length"].to_pylist()[3] == [5.0, 4.0, 4.0, 3.0]
    assert done.samples["preferred"].to_pylist() == [0, 0, 0, 3]
    assert [(result.label[0], result.statistic, result.value, result.n) for result in done.results] == [
        ("length", "accuracy", 0.625, 4)
    ]


def test_categories_and_an_interval_over_images_come_with_it(tmp_path):
    rows = [row(f"a{n}", [1, 2, 3], 0, kind="easy") for n in range(20)]
    rows += [row(f"b{n}", [1, 2, 3], n % 2, kind="hard") for n in range(20)]
    *parts, whole = run(tmp_path, rows, {"resamples": 200}, doc_to_category="kind").results
    assert [(part.category, part.value) for part in parts] == [("easy", 1.0), ("hard", 0.5)]
    assert (whole.category, whole.value, whole.n) == ("", 0.75, 40)
    assert 0.5 < whole.interval.low < 0.75 < whole.interval.high < 1
    # Ten choices of each of two images: whole images are drawn.
    rows = [{**row(f"{image}{n}", [1, 2], image), "image": image} for image in (0, 1) for n in range(10)]
    (result,) = run(tmp_path, rows, {"resamples": 200}).results
    assert result.interval.low < 0.01 and result.interval.high > 0.99 and result.remark == "interval over only 2 images"


def test_bad_document_is_a_failure_in_the_words_of_the_protocol(tmp_path):
    done = run(tmp_path, [row("good", [1, 2]), row("bad", [1, 2], 2), row("one", [1])])
    assert [(failure["stage"], failure["reason"], failure["samples"]) for failure in done.record.failures] == [
        ("odd one", "is none of 2 candidates: 2", ["bad"]),
        ("candidate", "is not a list of two captions or more", ["one"]),
    ]
    assert done.results[0].n == 1


def test_data_has_another_hash_where_another_one_is_odd(tmp_path):
    first, second = (run(tmp_path, [row("a", [1, 2], odd)]).record.data_hash for odd in (0, 1))
    assert first != second
