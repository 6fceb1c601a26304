"""SugarCrepe, Winoground, VL-CheckList and ARO, on small files in the released layouts."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_images import noise_image

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.aro import reader as aro
from capbench.tasks.aro.shuffles import Shuffler, as_shown, freeze
from capbench.tasks.vl_checklist import reader as vl_checklist

SUBSETS = ["add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"]


@pytest.fixture(scope="module")
def evaluate(tiny_encoder) -> Callable[..., TaskRun]:
    def run(task: str, folder: Path, **settings: Any) -> TaskRun:
        settings = {"skip_checks": True, "resamples": 0, **settings}
        return capbench.evaluate(tiny_encoder, task, data={task: folder}, **settings)[task]

    return run


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def paint(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise_image(number).save(path, "PNG")


@pytest.fixture
def crepe(tmp_path: Path) -> Path:
    for number, subset in enumerate(SUBSETS):
        choice = {"filename": f"{number}.jpg", "caption": f"dog {number}", "negative_caption": f"cat {number} too"}
        write(tmp_path / f"{subset}.json", {"0": choice, "2": choice | {"caption": f"a dog {number}"}})
        paint(tmp_path / "val2017" / f"{number}.jpg", number)
    return tmp_path


def test_sugarcrepe_of_another_release_is_told_by_the_count_of_its_subset(evaluate, crepe):
    with pytest.raises(DataError, match=r"rows of swap_obj: expected 245, found 2\b"):
        evaluate("sugarcrepe", crepe, skip_checks=False)


def test_sugarcrepe_choice_that_is_none_is_named(evaluate: Callable[..., TaskRun], crepe: Path):
    write(crepe / "add_obj.json", {"0": {"filename": "0.jpg", "caption": "a dog"}, "1": []})
    done = evaluate("sugarcrepe", crepe)
    assert [result.category for result in done.results] == [name for name in SUBSETS if name != "add_obj"] + [""]
    failures = done.record.values["failures"]
    assert [(failure["samples"], failure["reason"]) for failure in failures] == [
        (["add_obj.json['1']"], "not a JSON object"),
        (["document 2"], "has no column 'negative_caption'"),
    ]
    write(crepe / "add_obj.json", [])
    with pytest.raises(DataError, match=r"add_obj\.json: column 'number' needs the keys of a JSON object"):
        evaluate("sugarcrepe", crepe)


def test_winoground_has_three_scores_of_all_and_of_each_kind(evaluate: Callable[..., TaskRun], tmp_path: Path):
    rows = [
        {
            "id": n, "image_0": f"ex_{n}_img_0", "image_1": f"ex_{n}_img_1", "caption_0": f"{n} sees {n + 1}",
            "caption_1": f"{n + 1} sees {n}", "tag": "x", "collapsed_tag": "Object" if n else "Relation",
        }
        for n in range(3)
    ]  # fmt: skip
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for n in range(6):
        paint(tmp_path / "images" / f"ex_{n // 2}_img_{n % 2}.png", n)
    done = evaluate("winoground", tmp_path)
    assert [(result.metric, result.category, result.n) for result in done.results] == [
        (metric, category, n)
        for metric in ("text", "image", "group")
        for category, n in (("Relation", 1), ("Object", 2), ("", 3))
    ]
    rows = done.samples.to_pylist()
    assert done.results[2].value == pytest.approx(np.mean([row["text_hit"] for row in rows]))


@pytest.fixture
def checklist(tmp_path: Path) -> Path:
    for number, (name, path) in enumerate(vl_checklist.files()):
        source = {"vaw": "vg"}.get(name.split("/")[2], name.split("/")[2])
        rows = [[f"{n}.jpg", {"POS": [f"thing {number} {n}", "other"], "NEG": [f"{n} none"]}] for n in range(3)]
        write(tmp_path / "data" / path, rows)
        for n in (0, 2):
            paint(tmp_path / source / f"{n}.jpg", n)
    return tmp_path


def test_vl_checklist_takes_the_first_choices_with_an_image(checklist: Path, monkeypatch: pytest.MonkeyPatch):
    rows = list(vl_checklist.choices(checklist))
    bad = [row for row in rows if isinstance(row, BadRow)]
    assert len(bad) == 56
    assert bad[0] == BadRow(
        "Object/Size/vg_size/vg_obj_large.json: row 1", "vg/1.jpg is not there; a later row takes its place"
    )
    good = [row for row in rows if isinstance(row, dict)]
    assert [row["id"] for row in good[:2]] == [f"Object/Size/vg_size/vg_obj_large-{n}" for n in (0, 2)]
    assert (good[0]["caption"], good[0]["negative"]) == ("thing 0 0", "0 none")
    monkeypatch.setattr(vl_checklist, "MOST", 1)
    assert len(list(vl_checklist.choices(checklist))) == 56


def test_vl_checklist_needs_its_images_and_names_rows_of_another_shape(checklist: Path):
    write(checklist / "data" / "Relation" / "vg" / "spatial.json", [["0.jpg"], ["0.jpg", {"POS": [], "NEG": ["x"]}]])
    bad = [row.place for row in vl_checklist.choices(checklist) if isinstance(row, BadRow)]
    assert bad[-2:] == [f"Relation/vg/spatial.json: row {n}" for n in (0, 1)]
    (checklist / "hake").rename(checklist / "gone")
    with pytest.raises(DataError, match="no folder hake with images"):
        next(iter(vl_checklist.choices(checklist)))


def test_vl_checklist_means_are_of_files_then_sources_then_aspects(evaluate: Callable[..., TaskRun], checklist: Path):
    done = evaluate("vl_checklist", checklist)
    hits: dict[str, list[float]] = {}
    for row in done.samples.to_pylist():
        if row["failure"] is None:
            hits.setdefault(row["category"], []).append(row["hit"])
    sources: dict[str, list[float]] = {}
    for name, of_file in hits.items():
        sources.setdefault(name.rpartition("/")[0], []).append(round(float(np.mean(of_file)), 4))
    aspects: dict[str, list[float]] = {}
    for name, of_source in sources.items():
        aspects.setdefault(name.rpartition("/")[0], []).append(float(np.mean(of_source)))
    mean_of = {result.category: result.value for result in done.results}
    assert len(mean_of) == 3 + 13 + 1
    assert {name: mean_of[name] for name in aspects} == pytest.approx(
        {name: np.mean(of_aspect) for name, of_aspect in aspects.items()}
    )
    objects = [np.mean(of_aspect) for name, of_aspect in aspects.items() if name.startswith("Object/")]
    assert mean_of["Object"] == pytest.approx(np.mean(objects))


def case(number: int, **keys: Any) -> dict[str, Any]:
    return {
        "image_path": f"{number}.jpg", "image_id": number, "bbox_x": 1, "bbox_y": 2, "bbox_w": 20, "bbox_h": 25,
        "true_caption": f"the dog is on {number}", "false_caption": f"{number} is on the dog", **keys,
    }  # fmt: skip


def test_aro_relations_that_are_symmetric_are_in_no_result(evaluate: Callable[..., TaskRun], tmp_path: Path):
    names = ["on", "on", "next to", "riding", "around"]
    write(tmp_path / "visual_genome_relation.json", [case(n, relation_name=name) for n, name in enumerate(names)])
    for n in range(5):
        paint(tmp_path / "images" / f"{n}.jpg", n)
    done = evaluate("aro_vg_relation", tmp_path)
    rows = done.samples.to_pylist()
    (result,) = done.results
    assert result.n == 3
    assert result.value == pytest.approx((np.mean([rows[0]["hit"], rows[1]["hit"]]) + rows[3]["hit"]) / 2)
    (first, *_) = aro.relations(tmp_path)
    assert first["box"] == [1, 2, 21, 27]


def test_aro_pairs_of_attributes_with_few_cases_are_in_no_result(evaluate: Callable[..., TaskRun], tmp_path: Path):
    pairs = [["red", "big"]] * 25 + [["old", "wet"]] * 24
    cases = [case(n, image_path="0.jpg", attributes=pair) for n, pair in enumerate(pairs)]
    write(tmp_path / "visual_genome_attribution.json", [*cases, {"image_path": "x"}])
    paint(tmp_path / "images" / "0.jpg", 0)
    done = evaluate("aro_vg_attribution", tmp_path)
    (result,) = done.results
    assert result.n == 25
    assert [failure["samples"] for failure in done.record.failures] == [["visual_genome_attribution.json: case 49"]]


def tag(text: str) -> list[tuple[str, str]]:
    """Nouns end with a figure, adjectives with an exclamation mark."""
    return [(word, "NN" if word[-1].isdigit() else "JJ" if word[-1] == "!" else "DT") for word in text.split()]


CAPTIONS = ["the big! dog1 and a red! cat2 see three old! birds3", "men4 sit.", "A very (long) man5 on ice6"]


def test_shuffles_are_those_of_released_code_for_the_same_tags():
    shuffler = Shuffler(tag, str.split)
    np.random.seed(1)
    random.seed(1)
    for caption in CAPTIONS:
        # dataset_zoo/perturbations.py, in the order of aro_datasets.py.
        words = np.array(caption.split())
        kinds = np.array([kind for _, kind in tag(caption)])
        first = words.copy()
        for kind in ("NN", "JJ"):
            first[kinds == kind] = np.random.permutation(first[kinds == kind])
        second = words.copy()
        second[kinds == "DT"] = np.random.permutation(second[kinds == "DT"])
        third = [list(words[at : at + 3]) for at in range(0, len(words), 3)]
        for trigram in third:
            random.shuffle(trigram)
        fourth = [list(words[at : at + 3]) for at in range(0, len(words), 3)]
        random.shuffle(fourth)
        expected = [" ".join(first), " ".join(second)]
        expected += [" ".join(" ".join(trigram) for trigram in trigrams) for trigrams in (third, fourth)]
        assert shuffler.shuffles(caption) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('A "dog" (big) runs.\n', "a dog big runs"),
        ("a:b;c*d#e~f!", "a b c d e f"),
        ("keeps, commas - and 'quotes'?", "keeps, commas - and 'quotes'?"),
        (" ".join(map(str, range(40))), " ".join(map(str, range(30)))),
    ],
)
def test_texts_are_shown_as_released_code_prepares_them(text: str, shown: str):
    assert as_shown(text) == shown


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    write(tmp_path / "karpathy.json", [{"image": f"val2014/{n}.jpg", "caption": CAPTIONS[n : n + 2]} for n in (0, 1)])
    freeze(tmp_path / "karpathy.json", tmp_path / "coco_order.jsonl", Shuffler(tag, str.split), {"tagger": "1"})
    for n in (0, 1):
        paint(tmp_path / "val2014" / f"{n}.jpg", n)
    return tmp_path


def test_frozen_shuffles_are_the_same_each_time_and_say_their_hash(frozen: Path):
    before = (frozen / "coco_order.jsonl").read_bytes()
    digest = freeze(frozen / "karpathy.json", frozen / "coco_order.jsonl", Shuffler(tag, str.split), {"tagger": "1"})
    assert (frozen / "coco_order.jsonl").read_bytes() == before
    head, _, rest = before.partition(b"\n")
    assert json.loads(head) == {
        "made_by": {"tagger": "1"}, "seed": 1, "captions": "karpathy.json", "sha256": digest,
    }  # fmt: skip
    assert digest == hashlib.sha256(rest).hexdigest()
    rows = list(aro.order(frozen, "coco_order.jsonl"))
    assert [row["id"] for row in rows if isinstance(row, dict)] == ["0-0", "0-1", "1-0", "1-1"]
    assert all(isinstance(row, dict) and len(row["shuffled"]) == 4 for row in rows)


def test_frozen_file_that_was_changed_is_refused(frozen: Path):
    path = frozen / "coco_order.jsonl"
    path.write_text(path.read_text().replace("big", "bad"))
    with pytest.raises(DataError, match="its rows have the hash"):
        list(aro.order(frozen, "coco_order.jsonl"))
    with pytest.raises(DataError, match="there is no such file"):
        list(aro.order(frozen, "gone.jsonl"))
    with pytest.raises(DataError, match="is not a list of images with captions"):
        write(frozen / "odd.json", [{"image": "0.jpg"}])
        freeze(frozen / "odd.json", path, Shuffler(tag, str.split), {})


def test_shuffle_like_the_caption_is_no_fault(evaluate: Callable[..., TaskRun], frozen: Path):
    done = evaluate("aro_coco_order", frozen)
    rows = [row for row in done.samples.to_pylist() if row["candidates"] == ["men4 sit"]]
    # Of two words that are a noun and another, only what shuffles trigrams by words can change anything.
    assert all("men4 sit" in row["negatives"] for row in rows)
    assert all(row["hit"] == (row["own"] == row["rival"]) for row in rows)
    assert done.results[0].alone["chance"] == pytest.approx(1 / 5)
