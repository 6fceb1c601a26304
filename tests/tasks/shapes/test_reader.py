"""Documents of the tasks on the shapes world, and numbers of metrics that need no model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.errors import TaskError
from capbench.tasks.shapes import reader
from capbench.tasks.shapes.grading import SHAPE_GRADES
from capbench.tasks.shapes.pictures import DrawnClip
from capbench.tasks.shapes.sampling import SPLITS
from capbench.tasks.shapes.scene import SHAPES

READERS: list[Callable[..., Iterator[dict[str, Any]]]] = [
    reader.described, reader.briefly_described, reader.short_captions, reader.pairs, reader.foils,
    reader.crops, reader.clips,
]  # fmt: skip


def seeds(rows: list[dict[str, Any]]) -> set[int]:
    shown = [row["pixels"] for row in rows]
    return {(drawing.clip.scene if isinstance(drawing, DrawnClip) else drawing.scene).seed for drawing in shown}


def test_readers_share_no_scene_and_keep_to_the_test_split():
    by_reader = [seeds(list(read(20))) for read in READERS]
    assert all(len(numbers) == 20 for numbers in by_reader)
    assert len(set().union(*by_reader)) == 20 * len(READERS)
    assert all(seed in SPLITS["test"] for numbers in by_reader for seed in numbers)
    assert seeds(list(reader.detailed_captions(20))) == by_reader[0]


@pytest.mark.parametrize("read", [*READERS, reader.detailed_captions], ids=lambda read: read.__name__)
def test_ids_are_unique_and_documents_come_out_the_same(read: Callable[..., Iterator[dict[str, Any]]]):
    rows = list(read(10))
    assert len({row["id"] for row in rows}) == len(rows)
    assert rows == list(read(10))


def test_crops_by_choice():
    (row,) = reader.crops(1, crops="base", negative="all")
    assert [entry["key"] for entry in row["entries"]] == ["base"]
    assert len(row["entries"][0]["negatives"]) == 3
    with pytest.raises(TaskError, match=r"negative 'swap' is unknown\. Did you mean 'swaps'"):
        list(reader.crops(1, negative="swap"))
    with pytest.raises(TaskError, match="crops 'some' is unknown"):
        list(reader.crops(1, crops="some"))


def test_text_metrics_agree_with_the_raters_and_length_hardly_does():
    done = capbench.evaluate(None, "shapes_expert", metrics=["cider", "length"], resamples=0, limit=300)
    tau = {result.metric: result.value for result in done.tasks[0].results if result.statistic == "kendall_b"}
    assert 0.35 < tau["cider"] < 0.7
    assert tau["length"] < 0.2


def test_clips_reach_a_video_metric(tiny_encoder):
    done = capbench.evaluate(tiny_encoder, "shapes_vatex_noref", metrics="emscore", resamples=0, limit=8)
    assert done.tasks[0].results[0].n == 24
    assert not done.tasks[0].record.failures


def test_scenes_to_choose_by_are_of_the_validation_split():
    readers = [reader.briefly_described, reader.short_captions, reader.foils, reader.crops]
    by_reader = [seeds(list(read(5, split="validation"))) for read in readers]
    assert [len(numbers) for numbers in by_reader] == [5] * len(readers)
    assert len(set().union(*by_reader)) == 5 * len(readers)
    assert all(seed in SPLITS["validation"] for numbers in by_reader for seed in numbers)
    with pytest.raises(TaskError, match="split 'valid' is unknown"):
        list(reader.foils(1, split="valid"))


def test_captions_with_wrong_shapes_alone_are_rated():
    rows = list(reader.short_captions(2, faults="shapes"))
    assert [row["id"].split("-")[1] for row in rows[:4]] == list(SHAPE_GRADES)
    assert len(rows) == 8
    assert rows[0]["references"] == next(reader.short_captions(1))["references"]
    with pytest.raises(TaskError, match="faults 'colours' is unknown"):
        list(reader.short_captions(1, faults="colours"))


def test_things_that_captions_make_up_are_counted(tmp_path: Path):
    (first, second, third) = reader.briefly_described(3)
    there = first["things"][0]
    not_there = next(f"red {shape}" for shape in SHAPES if f"red {shape}" not in first["things"])
    captions = {
        first["id"]: f"A small {there} and a {not_there}, a large striped {there.upper()} and a {not_there}.",
        second["id"]: "Nothing of the kind, but red and a star.",
        third["id"]: "; ".join(third["things"]),
    }
    file = tmp_path / "captions.jsonl"
    lines = [json.dumps({"id": key, "caption": text}) + "\n" for key, text in captions.items()]
    file.write_text("".join(lines), encoding="utf-8")
    run = capbench.evaluate(f"captions:{file}", "shapes_made_up", limit=3, resamples=0)
    made_up = next(result for result in run.tasks[0].results if result.metric == "made_up")
    assert made_up.value == pytest.approx(0.5 / 3)
    assert not made_up.higher_is_better
