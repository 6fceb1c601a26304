"""COCO's captioning tasks, end to end: files in the released layouts and recorded captions."""

import json
from pathlib import Path
from typing import Any

import pytest

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.metrics.chair import N_OBJECTS
from capbench.tasks.coco.reader import val2014
from capbench.tasks.index import BUILTIN_FOLDER

SENTENCES = {
    9: ["A dog lies on a couch.", "a brown dog on a sofa"],
    42: ["Two zebras stand in a field.", "zebras in tall grass"],
    77: ["A man reads a book.", "an old man with a book"],
}
MARKED = {9: ["dog", "cup"], 42: ["zebra"], 77: ["person"]}
CAPTIONS = {
    9: "A dog and a cat on a couch.",  # the cat is neither marked nor in a reference
    42: "Two zebras stand in a field of the",
    77: "The sky.",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three photographs of the test split and one of another, in the released layouts."""
    folder = tmp_path / "coco"
    names = ["person", "dog", "cat", "zebra", "couch", "book", "cup"]
    photos = [
        {
            "filepath": "val2014",
            "filename": f"COCO_val2014_{n:012}.jpg",
            "split": "test",
            "sentences": [{"raw": text, "tokens": []} for text in texts],
            "cocoid": n,
        }
        for n, texts in SENTENCES.items()
    ]
    instances = {
        "images": [{"id": n} for n in (*SENTENCES, 100)],
        "annotations": [
            {"image_id": n, "category_id": names.index(name), "segmentation": [[1.0]]}
            for n, marked in MARKED.items()
            for name in marked
        ],
        "categories": [{"id": n, "name": name} for n, name in enumerate(names)],
    }
    save(folder / "dataset_coco.json", {"images": [*photos, {**photos[0], "split": "val", "cocoid": 100}]})
    save(folder / "annotations/instances_val2014.json", instances)
    save(tmp_path / "captions.json", [{"image_id": n, "caption": text} for n, text in CAPTIONS.items()])
    others = [f"object {n}" for n in range(N_OBJECTS - len(names))]
    (tmp_path / "synonyms.txt").write_text("\n".join(["person, man", "couch, sofa", *names[1:4], *names[5:], *others]))
    for task in ("coco_caption", "coco_chair"):
        chair = f"metric_list: [{', '.join(CHAIR)}]\n" if task == "coco_chair" else ""
        (tmp_path / f"{task}_few.yaml").write_text(
            f"include: {BUILTIN_FOLDER}/coco/{task}.yaml\ntask: {task}_few\n"
            f"checks: {{documents: 3, images: 3}}\nmetadata: {{version: 1.0}}\n"
            + chair.replace("FILE", str(tmp_path / "synonyms.txt"))
        )
    return folder


CHAIR = ("{metric: chair_i, synonyms: FILE}", "{metric: chair_s, synonyms: FILE}")


def save(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def run(data: Path, task: str, **settings: Any) -> TaskRun:
    return capbench.evaluate(
        f"captions:{data.parent / 'captions.json'}",
        [task],
        include_path=[data.parent],
        data={task: data},
        **{"resamples": 0} | settings,
    )[task]


def values(done: TaskRun) -> dict[str, float]:
    return {result.metric: result.value for result in done.results if result.value is not None}


def test_captions_in_cocos_result_format_are_scored_against_all_sentences(data: Path):
    done = run(data, "coco_caption_few")
    value_of = values(done)
    scores = capbench.score(
        [{"candidate": text, "references": SENTENCES[n]} for n, text in CAPTIONS.items()],
        metrics=["bleu_4", "meteor", "rouge_l", "cider"],
    )
    for name, value in scores.system.items():
        assert value_of[name] == pytest.approx(value)
    assert value_of["incorrect_ending"] == pytest.approx(1 / 3)
    assert value_of["rep_1"] == pytest.approx(2 / 3)  # "a" stands three times in the first caption
    assert {result.n for result in done.results} == {3}
    assert not done.record.failures
    assert done.record.settings.model_args == {"path": "captions.json"}
    # No encoder was named, so the metrics that need one are left out.
    assert not {"clip_s", "refclip_s", "pac_s", "refpac_s"} & value_of.keys()


def test_objects_that_captions_make_up_are_counted(data: Path):
    # Mentions: dog, cat, couch; zebra; none. The couch is not marked, but a reference has it.
    assert values(run(data, "coco_chair_few")) == {"chair_i": pytest.approx(1 / 4), "chair_s": pytest.approx(1 / 3)}


def test_real_annotations_give_the_objects_that_chair_looks_for(data_folder, tmp_path: Path):
    mini = json.loads((data_folder("coco_mini") / "annotations.json").read_text())
    synonyms = data_folder("chair") / "synonyms.txt"
    (tmp_path / "coco/annotations").mkdir(parents=True)
    for name in ("captions", "instances"):
        save(
            tmp_path / f"coco/annotations/{name}_val2014.json",
            {"images": mini["images"], "annotations": mini[name], "categories": mini["categories"]},
        )
    metrics = ", ".join(CHAIR).replace("FILE", str(synonyms))
    (tmp_path / "mini.yaml").write_text(
        f"include: {BUILTIN_FOLDER}/coco/coco_chair_val2014.yaml\ntask: mini\nmetric_list: [{metrics}]\n"
        f"checks: {{documents: {len(mini['images'])}}}\nmetadata: {{version: 1.0}}\n"
    )
    category = {category["id"]: category["name"] for category in mini["categories"]}
    for row in val2014(tmp_path / "coco"):
        marks = (instance for instance in mini["instances"] if str(instance["image_id"]) == row["id"])
        assert set(row["objects"]) == {category[mark["category_id"]] for mark in marks}
    # A caption of an image's own mentions nothing else; that of the next one does.
    own = {caption["image_id"]: caption["caption"] for caption in mini["captions"]}
    order = [image["id"] for image in mini["images"]]
    expected = {}
    for shift in (0, 1):
        save(
            tmp_path / "captions.json",
            [{"image_id": n, "caption": own[order[(at + shift) % 60]]} for at, n in enumerate(order)],
        )
        expected[shift] = values(run(tmp_path / "coco", "mini", allow_outside=[synonyms.parent]))
    assert expected[0] == {"chair_i": 0, "chair_s": 0}
    assert expected[1]["chair_i"] > 0.5
    assert expected[1]["chair_s"] > 0.5


# -- nocaps and VizWiz-Captions, end to end: files in the released layouts and recorded captions


TEXTS = ["a red kite in the sky", "two bowls of hot soup", "an old wooden door", "a white cat sleeps"]
DOMAINS = ["in-domain", "near-domain", "out-domain", "near-domain"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A caption for each of four images, in COCO's result format; the data sets beside it."""
    images = [
        {"id": n, "file_name": f"{n}.jpg", "domain": domain, "text_detected": False} for n, domain in enumerate(DOMAINS)
    ]
    references = [
        {"image_id": n, "caption": text, "is_rejected": False, "is_precanned": n == 3} for n, text in enumerate(TEXTS)
    ]
    content = {"info": {}, "images": images, "annotations": references}
    save(tmp_path / "nocaps/nocaps_val_4500_captions.json", content)
    save(tmp_path / "vizwiz/annotations/val.json", content)
    save(tmp_path / "captions.json", [{"image_id": n, "caption": text} for n, text in enumerate(TEXTS)])
    return tmp_path


def run_few(folder: Path, task: str, documents: int) -> TaskRun:
    source = task.partition("_")[0]
    (folder / "few.yaml").write_text(
        f"include: {BUILTIN_FOLDER}/{source}/{task}.yaml\ntask: few\n"
        f"checks: {{documents: {documents}}}\nmetadata: {{version: 1.0}}\n"
    )
    return capbench.evaluate(
        f"captions:{folder / 'captions.json'}",
        ["few"],
        metrics=["bleu_1", "rouge_l"],
        include_path=[folder],
        data={"few": folder / source},
        resamples=0,
    )["few"]


@pytest.mark.parametrize(("task", "images"), [("nocaps", 4), ("nocaps_in", 1), ("nocaps_near", 2)])
def test_nocaps_scores_all_images_or_those_of_a_domain(folder: Path, task: str, images: int):
    done = run_few(folder, task, images)
    assert [(result.n, result.value) for result in done.results] == [(images, pytest.approx(1))] * 2
    # Captions of the other domains are named, and cost nothing.
    assert sum(failure["count"] for failure in done.record.failures) == 4 - images


def test_vizwiz_counts_an_image_that_nobody_could_describe_and_leaves_it_out(folder: Path):
    done = run_few(folder, "vizwiz", 4)
    assert [(result.n, result.value) for result in done.results] == [(3, pytest.approx(1))] * 2
    reference, caption = done.record.failures
    assert (reference["samples"], reference["reason"]) == (["3"], "is an empty list")
    assert (caption["samples"], caption["reason"]) == (["3"], "matches no usable document of the task")
