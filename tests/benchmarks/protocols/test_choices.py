"""Choices between captions, squares and entries of a user's own task, written in YAML alone."""

import json
from typing import Any

import numpy as np
import pytest
from task_keys import LOCAL, write_task
from tiny_images import noise_image

import capbench
from capbench.adapters import ImageHandle
from capbench.benchmarks.protocols.binding import bind
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import render
from capbench.errors import DataError, TaskError
from capbench.tasks.schema import load_task

MINE = LOCAL | {"task": "mine", "output_type": "matching"}
CHOICE = MINE | {
    "doc_to_image": "file",
    "doc_to_captions": "caption",
    "doc_to_negatives": ["negative", "other"],
    "image_folder": "photos",
    "protocol": {"measure": "neg"},
}
SQUARE = MINE | {
    "doc_to_images": ["first", "second"],
    "doc_to_captions": ["one", "two"],
    "image_folder": "photos",
    "protocol": {"measure": "square"},
}
ENTRIES = MINE | {"doc_to_image": "photo", "doc_to_entries": "entries"}
TEXTS = ["a red bus", "two dogs run", "the old man sits", "a bowl of soup", "rain on a roof", "an open book"]


@pytest.fixture
def run(tmp_path, tiny_encoder):
    (tmp_path / "photos").mkdir()
    for number in range(6):
        noise_image(number).save(tmp_path / "photos" / f"{number}.png")

    def with_rows(task: dict[str, Any], rows: list[dict[str, Any]], **settings: Any) -> TaskRun:
        write_task(tmp_path, rows, task)
        settings = {"resamples": 0, "include_path": [tmp_path], **settings}
        return capbench.evaluate(tiny_encoder, "mine", **settings)["mine"]

    return with_rows


def choices(**columns: list[Any]) -> list[dict[str, Any]]:
    rows = [
        {"file": f"{n}.png", "caption": TEXTS[n], "negative": TEXTS[(n + 1) % 6], "other": TEXTS[(n + 2) % 6]}
        for n in range(6)
    ]
    return [row | {name: values[n] for name, values in columns.items()} for n, row in enumerate(rows)]


@pytest.fixture
def cosine(tiny_encoder, tmp_path):
    def of(file: str, text: str, box: tuple[float, float, float, float] | None = None) -> float:
        (image,) = [image.vectors[0] for image in tiny_encoder.images([ImageHandle(tmp_path / "photos" / file, box)])]
        (words,) = [text.vectors[0] for text in tiny_encoder.texts([text])]
        return float(image @ words / np.linalg.norm(image) / np.linalg.norm(words))

    return of


def samples(run: TaskRun) -> list[dict[str, Any]]:
    return run.samples.to_pylist()


def test_true_caption_is_held_against_all_false_ones(run, cosine):
    done = run(CHOICE, choices())
    expected = []
    for row in choices():
        rivals = [cosine(row["file"], row[name]) for name in ("negative", "other")]
        expected.append(cosine(row["file"], row["caption"]) > max(rivals))
    assert [bool(row["hit"]) for row in samples(done)] == expected
    assert done.results[0].value == pytest.approx(np.mean(expected))
    assert samples(done)[0]["negatives"] == [TEXTS[1], TEXTS[2]]


def test_box_is_the_part_of_the_image_that_is_shown(run, cosine):
    boxes = [None, [0, 0, 20, 20], None, [3, 3, 30, 30], None, None]
    done = run(CHOICE | {"doc_to_box": "box"}, choices(box=boxes))
    for row, box, sample in zip(choices(), boxes, samples(done), strict=True):
        assert sample["own"] == pytest.approx(cosine(row["file"], row["caption"], box and tuple(box)), abs=1e-5)


@pytest.mark.parametrize(("ties", "value"), [("wrong", 0), ("right", 1), ("half", 0.5)])
def test_false_caption_like_the_true_one_counts_as_the_task_says(run, ties: str, value: float):
    task = CHOICE | {"doc_to_negatives": "caption", "protocol": {"measure": "neg", "ties": ties}}
    assert run(task, choices()).results[0].value == value


def test_value_without_the_image_stands_beside_each_result_and_is_kept(run, tmp_path):
    longer = [f"{text} and more" for text in TEXTS]
    done = run(CHOICE | {"doc_to_negatives": "longer"}, choices(longer=longer), output_path=tmp_path / "runs")
    (result,) = done.results
    assert capbench.load_run(done.folder)["mine"].results[0].alone == result.alone
    assert set(result.alone) == {"chance", "shorter", "longer", "words"}
    assert result.alone["chance"] == 0.5
    assert (result.alone["shorter"], result.alone["longer"]) == (1, 0)
    assert result.best_alone == ("shorter", 1)
    assert "1.0000 (shorter)" in render([done])
    assert json.loads(render([done], "json"))[0]["no_image"] == 1


def test_categories_and_their_levels_have_results(run):
    kinds, parts = ["thing", "thing", "deed", "deed", "deed", "deed"], ["x", "y", "x", "x", "x", "y"]
    task = CHOICE | {"doc_to_category": ["kind", "part"], "protocol": {"measure": "neg", "category_levels": 2}}
    done = run(task, choices(kind=kinds, part=parts))
    hits = np.array([row["hit"] for row in samples(done)])
    value_of = {result.category: result.value for result in done.results}
    leaves = {
        f"{kind}/{part}": hits[[(k, p) == (kind, part) for k, p in zip(kinds, parts, strict=True)]].mean()
        for kind in ("thing", "deed")
        for part in "xy"
    }
    assert {name: value_of[name] for name in leaves} == pytest.approx(leaves)
    of_kind = {kind: (leaves[f"{kind}/x"] + leaves[f"{kind}/y"]) / 2 for kind in ("thing", "deed")}
    assert {name: value_of[name] for name in of_kind} == pytest.approx(of_kind)
    assert value_of[""] == pytest.approx(np.mean(list(of_kind.values())))
    assert list(value_of) == ["thing", "thing/x", "thing/y", "deed", "deed/x", "deed/y", ""]
    assert {result.category: result.n for result in done.results}["deed/x"] == 3
    # What texts alone reach is of the same part.
    assert [result.alone["chance"] for result in done.results] == pytest.approx([1 / 3] * 7)


def test_document_without_a_category_is_named(run):
    task = CHOICE | {"doc_to_category": "kind"}
    done = run(task, choices(kind=["a", "b", "a", "b", None, " "]))
    assert done.results[-1].n == 4
    assert [failure["reason"] for failure in done.record.failures] == [
        "has no category: None", "has no category: ' '",
    ]  # fmt: skip


def test_rows_of_one_image_are_resampled_together(run):
    (result,) = run(CHOICE, choices(file=["0.png"] * 6), resamples=20).results
    assert result.interval.low is None
    assert "fewer than 2 images" in result.interval.reason


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"caption": None}, "is null"),
        ({"caption": []}, "has no caption"),
        ({"caption": ["fine", 3]}, "one of its captions is not text but int"),
        ({"negative": None}, "one of its negatives is null"),
        ({"file": "gone.png"}, "file: No such file or directory (in "),
        ({"file": ""}, "is no image of this machine"),
    ],
)
def test_choice_that_cannot_be_used_is_named(run, columns: dict[str, Any], reason: str):
    rows = choices()
    rows[2] |= columns
    done = run(CHOICE, rows)
    assert done.results[0].n == 5
    (failure,) = done.record.failures
    assert failure["samples"] == ["2"]
    assert reason in failure["reason"]


def squares() -> list[dict[str, Any]]:
    return [{"first": f"{n}.png", "second": f"{n + 1}.png", "one": TEXTS[n], "two": TEXTS[n + 1]} for n in (0, 2, 4)]


def test_square_has_scores_of_texts_images_and_groups(run, cosine):
    done = run(SQUARE, squares())
    expected = np.zeros((3, 3))
    for number, row in enumerate(squares()):
        s = np.array([[cosine(row[i], row[c]) for c in ("one", "two")] for i in ("first", "second")])
        text = s[0, 0] > s[0, 1] and s[1, 1] > s[1, 0]
        image = s[0, 0] > s[1, 0] and s[1, 1] > s[0, 1]
        expected[number] = text, image, text and image
        assert samples(done)[number]["cosines"] == pytest.approx(s.ravel(), abs=1e-5)
    hits = [[row[f"{name}_hit"] for name in ("text", "image", "group")] for row in samples(done)]
    assert hits == expected.tolist()
    assert [result.metric for result in done.results] == ["text", "image", "group"]
    assert [result.value for result in done.results] == pytest.approx(expected.mean(axis=0))
    assert [result.n for result in done.results] == [3, 3, 3]


def test_chance_of_a_square_is_that_of_random_cosines(run):
    table = np.random.default_rng(0).random((40_000, 2, 2))
    text = (table[:, 0, 0] > table[:, 0, 1]) & (table[:, 1, 1] > table[:, 1, 0])
    image = (table[:, 0, 0] > table[:, 1, 0]) & (table[:, 1, 1] > table[:, 0, 1])
    drawn = [text.mean(), image.mean(), (text & image).mean()]
    results = run(SQUARE, squares()).results
    assert [result.alone["chance"] for result in results] == pytest.approx(drawn, abs=0.01)
    assert [result.best_alone for result in results] == [("texts", 0)] * 3


def test_square_of_which_an_image_is_missing_is_left_out_as_a_whole(run):
    rows = squares()
    rows[1]["second"] = "gone.png"
    done = run(SQUARE, rows)
    assert [row["id"] for row in samples(done) if row["failure"] is None] == ["0", "2"]
    assert {result.n for result in done.results} == {2}


@pytest.mark.parametrize(
    ("task", "columns", "reason"),
    [
        (SQUARE, {"two": None}, "one of its captions is null"),
        (SQUARE | {"doc_to_images": "all"}, {"all": ["0.png"]}, "is not two images"),
        (SQUARE | {"doc_to_captions": "all"}, {"all": ["a", "b", "c"]}, "is not two captions"),
    ],
)
def test_square_that_is_none_is_named(run, task: dict[str, Any], columns: dict[str, Any], reason: str):
    with pytest.raises(DataError) as caught:
        run(task, [row | columns for row in squares()])
    assert reason in caught.value.hint


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (CHOICE | {"doc_to_images": ["a", "b"]}, "doc_to_images: has no effect with"),
        (CHOICE | {"doc_to_entries": "entries"}, "doc_to_captions: has no effect with"),
        (CHOICE | {"protocol": {"measure": "scm"}}, "doc_to_negatives: has no effect with"),
        (SQUARE | {"doc_to_image": "a"}, "doc_to_image: has no effect with"),
        (CHOICE | {"doc_to_negatives": None}, "needs doc_to_negatives"),
        (CHOICE | {"doc_to_image": None}, "needs doc_to_image"),
        (SQUARE | {"doc_to_images": None}, "needs doc_to_images"),
        (SQUARE | {"protocol": {"measure": "square", "ties": "half"}}, "takes ties 'wrong' or 'right'"),
        (SQUARE | {"protocol": {"measure": "square", "captions": 2}}, "takes one caption of each image"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(tmp_path, task: dict[str, Any], message: str):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(task))
    with pytest.raises(TaskError) as caught:
        bind(*load_task(path))
    assert message in caught.value.message
    assert str(path) in caught.value.message


# --- entries


GOOD = {"captions": ["A boat."], "negatives": ["A car."]}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (None, "row has no list of entries"),
        (["a boat"], "row has no list of entries"),
        ([GOOD, {"captions": [], "negatives": ["A car."]}], "row entry 1 has no list of captions"),
        ([{"key": "x", "captions": ["A boat."]}], "row entry x has no list of negatives"),
        ([GOOD | {"captions": [None]}], "row entry 0: one of its captions is null"),
        ([GOOD | {"captions": ["\ud800"]}], "row entry 0: one of its captions is not valid UTF-8"),
        ([GOOD | {"negatives": ["\ud800"]}], "row entry 0: one of its negatives is not valid UTF-8"),
        ([GOOD | {"box": [0, 0, "1", 1]}], "row entry 0 has a box 1 that is not four numbers"),
    ],
)
def test_entry_that_cannot_be_matched_is_named(run, entries: Any, reason: str):
    rows = [{"photo": "0.png", "entries": value} for value in ([GOOD], entries)]
    done = run(ENTRIES | {"image_folder": "photos", "protocol": {"measure": "neg"}}, rows)
    assert done.results[0].n == 1
    (failure,) = done.record.failures
    assert failure["samples"] == ["1"]
    assert f"row {failure['reason']}".startswith(reason)


def test_box_outside_its_image_costs_the_image(run):
    outside = GOOD | {"box": [900, 0, 1200, 300]}
    rows = [{"photo": "0.png", "entries": [GOOD, outside]}, {"photo": "1.png", "entries": [GOOD]}]
    done = run(ENTRIES | {"image_folder": "photos"}, rows)
    assert done.results[0].n == 1
    (failure,) = done.record.failures
    assert (failure["stage"], failure["samples"]) == ("image", ["0"])
    assert "outside" in failure["reason"]
