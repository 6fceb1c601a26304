"""CAPEval, AMBER and SugarCrepe++ by the whole command: from small files in the released layout to numbers."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_capture import find_minilm, make_nltk_data, make_wordnet

import capbench
from capbench.adapters.shapes.painter import described_scene
from capbench.benchmarks.records.task_run import TaskRun
from capbench.cli.main import main
from capbench.metrics.chair import N_OBJECTS
from capbench.metrics.checklist import PROMPT, SYSTEM, listed, read_item
from capbench.metrics.golden import read_golden
from capbench.metrics.judging import fill
from capbench.metrics.words import spacy_pipelines
from capbench.tasks.capeval.reader import checklists
from capbench.tasks.shapes.pictures import DrawnPicture


def jsonl(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def run(task: str, data: Path, *more: str) -> TaskRun:
    """Run a task by the command, and return its record."""
    options = ["--data", f"{task}={data}", "--skip_checks", "--output_path", str(data / "runs")]
    assert main(["run", "--task", task, *options, *more]) == 0
    (folder,) = data.glob(f"runs/{task}/*/*")
    return capbench.load_run(folder)[task]


def captions(data: Path, texts: Mapping[str, str]) -> list[str]:
    """Record captions, or answers, by id, and return the options that name them."""
    rows = [{"id": name, "caption": text} for name, text in texts.items()]
    return ["--model", f"captions:{jsonl(data / 'captions.jsonl', rows)}"]


def test_capeval_is_coverage_and_precision_by_a_judge(tmp_path: Path):
    rows = [
        {"id": "1", "img_path": "SO001.jpg", "instance_checklist": [{"Tags": "object", "Question": "A dog?"}],
         "text_checklist": [{"Tags": "word", "Question": "Does it read 'stop'?"}, {"Tags": "", "Question": " "}]},
        {"id": "2", "img_path": "DK001.jpg", "attribute_checklist": [{"Tags": "color", "Question": "Red?"}] * 3},
    ]  # fmt: skip
    jsonl(tmp_path / "checklist.jsonl", rows)
    said = {"SO001.jpg": ["yes", "not_mentioned"], "DK001.jpg": ["no", "yes", "yes"]}
    answers: list[dict[str, str]] = []
    for row in checklists(tmp_path, "checklist.jsonl"):
        entries = [read_item(json.dumps(item)) for item in row["items"]]
        verdicts = [{"item_index": at, "verdict": verdict} for at, verdict in enumerate(said[row["img_path"]])]
        prompt = fill(PROMPT, caption=f"It is {row['img_path']}", items=listed(entries))
        answers.append({"prompt": f"{SYSTEM}\n\n{prompt}", "response": json.dumps({"gt_verdicts": verdicts})})
    judge = ["--judge", f"responses:{jsonl(tmp_path / 'answers.jsonl', answers)}", "--bootstrap", "20"]
    done = run("capeval", tmp_path, *captions(tmp_path, {name: f"It is {name}" for name in said}), *judge)
    values = {(result.metric, result.category): result.value for result in done.results if result.metric != "length"}
    assert values == {
        ("checklist_coverage", "Scene & Object"): 1 / 2, ("checklist_coverage", "Design & Knowledge"): 1,
        ("checklist_coverage", ""): 4 / 5, ("checklist_precision", "Scene & Object"): 1,
        ("checklist_precision", "Design & Knowledge"): 2 / 3, ("checklist_precision", ""): 3 / 4,
    }  # fmt: skip
    assert all(result.interval for result in done.results if not result.category)


OBJECTS = ["car", "sky", "dog", "grass", "road", *map(str, range(N_OBJECTS - 5))]
PHOTOS = {21: "A red car stands on the road .", 22: "A red dog stands on the road ."}
SAID = ["The light stands near a dog .", "Two dogs run over the grass .", "No", "No", "no", "No", "Yes"]


def hallucination_files() -> dict[str, Any]:
    """Return what the files of AMBER, COCO and POPE hold, and what a model said of all of them, by path."""
    kinds = ["attribute-state", "attribute-state", "attribute-number", "hallucination", "relation"]
    rows: list[dict[str, Any]] = [
        {"id": 1, "type": "generative", "truth": ["car", "sky"], "hallu": ["dog"]},
        {"id": 2, "type": "generative", "truth": ["car"], "hallu": ["grass", "dog"]},
    ]
    for number, (kind, truth) in enumerate(zip(kinds, ["yes", "no", "no", "no", "yes"], strict=True), 3):
        rows.append({"id": number, "type": f"discriminative-{kind}", "truth": truth})
    query = [{"id": row["id"], "image": f"AMBER_{row['id'] % 2}.jpg", "query": "Is it so?"} for row in rows]
    photo = {"split": "test", "sentences": [{"raw": PHOTOS[21]}]}
    asked = {"image": "a.jpg", "text": "Is there a dog in the image?"}
    pope = [asked | {"question_id": n, "label": label} for n, label in ((11, "yes"), (12, "no"))]
    return {
        "amber/annotations": rows,
        "amber/relation": {"car": ["light"], "sky": [], "dog": [], "grass": []},
        "amber/query_generative": query[:2], "amber/query_discriminative": query[2:],
        "amber/query_discriminative-attribute": query[2:5], "amber/query_discriminative-existence": query[5:6],
        "amber/query_discriminative-relation": query[6:],
        "coco/dataset_coco": {"images": [photo | {"cocoid": n, "filename": f"{n}.jpg"} for n in PHOTOS]},
        "coco/annotations/instances_val2014": {
            "images": [{"id": n} for n in PHOTOS], "annotations": [],
            "categories": [{"id": n, "name": name} for n, name in enumerate(OBJECTS)],
        },
        **{f"pope/coco_pope_{kind}": pope for kind in ("random", "popular", "adversarial")},
        "said": dict(enumerate(SAID, 1)) | PHOTOS | {11: "yes", 12: "Yes"},
    }  # fmt: skip


@pytest.mark.costly
def test_hallucination_is_one_command_for_recorded_captions_and_answers(tmp_path, tiny_spacy, monkeypatch, capsys):
    from nltk import data

    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    monkeypatch.setattr(spacy_pipelines, "_load", cache(spacy.load))
    monkeypatch.setattr(data, "path", [str(make_nltk_data(tmp_path / "nltk"))])
    for folder in ("amber", "coco/annotations", "pope", "chair", "sentence-transformers", "wordnet"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("WNSEARCHDIR", str(make_wordnet(tmp_path / "wordnet")))
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path))
    # The models that the tasks name are folders where the command runs.
    monkeypatch.chdir(tmp_path)
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("car", np.ones(2, np.float32))
    nlp.to_disk("en_core_web_lg")
    Path("en_core_web_sm").symlink_to(tiny_spacy)
    Path("sentence-transformers/all-mpnet-base-v2").symlink_to(find_minilm())
    Path("amber/safe_words.txt").write_text("grass")
    Path("chair/synonyms.txt").write_text("\n".join(OBJECTS))
    for name, content in hallucination_files().items():
        Path(f"{name}.json").write_text(json.dumps(content))
    options = ["--skip_checks", "--bootstrap", "0", "--output_path", "runs"]
    assert main(["run", "--task", "hallucination", "--model", "captions:said.json", *options]) == 0
    runs = [task for folder in tmp_path.glob("runs/*/*/*") for task in capbench.load_run(folder).tasks]
    values = {task.record.task: {result.key: result.value for result in task.results} for task in runs}
    lengths = {task: value for task, of in values.items() for key, value in of.items() if key.startswith("length")}
    assert lengths == {"coco_chair": 8, "coco_aloha": 8, "amber_generative": 7}
    # Mentions: car, road; dog, road.
    assert [values["coco_chair"][name] for name in ("chair_i", "chair_s")] == [1 / 4, 1 / 2]
    # The cosine of dog and car is 0.4756 by sentence-transformers.
    assert values["coco_aloha"]["aloha"] == pytest.approx((1 + 0.4756) / 2, abs=1e-4)
    # Nouns: light (a car's), dog; dog, grass (safe).
    amber = [values["amber_generative"][f"amber_{name}"] for name in ("chair", "cover", "hal", "cog")]
    assert amber == [2 / 4, 1 / 3, 1, 2 / 3]
    rates = values["amber_attribute"]
    assert [rates[f"exact.accuracy{of}"] for of in (".state", ".number", "")] == [1 / 2, 0, 1 / 3]
    assert [rates[f"exact.{name}"] for name in ("precision", "recall", "neither_share")] == [1 / 2, 1 / 2, 1 / 3]
    assert rates["exact.f1"] == 2 * 0.5 * 0.5 / (1 + 0.0001)
    assert rates["strict.f1"] == 2 * 0.667 / (1.667 + 0.0001)
    assert [values[f"pope_{kind}"]["released.accuracy"] for kind in ("random", "popular", "adversarial")] == [0.5] * 3
    # The mean of 1 - CHAIR and of F1, with precision and recall of 66.7 each.
    assert "AMBER score: 58.35 (× 100); mean of amber_generative amber_chair" in capsys.readouterr().err


RELEASED = {"": "image-to-text task", "_first": "Image-P1-Neg", "_second": "Image-P2-Neg", "_text": "text-only task"}


@pytest.mark.parametrize("encoder", ["shapes-clip", "shapes-clip-plain"])
def test_sugarcrepe_pp_has_the_accuracies_of_the_released_script_by_the_same_encoder(tmp_path: Path, encoder: str):
    golden = read_golden("sugarcrepe_pp")["shapes"]
    (tmp_path / "val2017").mkdir()
    for subset, rows in golden["rows"].items():
        (tmp_path / f"{subset}.json").write_text(json.dumps(rows))
        for row in rows:
            picture = DrawnPicture(described_scene(row["caption"], row["id"]))
            (tmp_path / "val2017" / row["filename"]).write_bytes(picture.read_bytes())
    for part, printed in RELEASED.items():
        done = run(f"sugarcrepe_pp{part}", tmp_path, "--model", encoder, "--bootstrap", "0")
        values = {result.category: result.value for result in done.results}
        assert {name: values[name] for name in golden["rows"]} == {
            name: accuracy[printed] for name, accuracy in golden["accuracy"][encoder].items()
        }


@pytest.mark.data
def test_sugarcrepe_pp_of_texts_has_the_hits_of_the_released_script_by_minilm(tmp_path: Path, data_folder):
    hits = read_golden("sugarcrepe_pp")["minilm"]["hits"]
    for subset in hits:
        rows = json.loads((data_folder("sugarcrepe_pp") / f"{subset}.json").read_text())[:10]
        (tmp_path / f"{subset}.json").write_text(json.dumps(rows))
    sentences = ["--model", "sentences", "--model_args", f"pretrained={find_minilm()},device=cpu"]
    values = {result.category: result.value for result in run("sugarcrepe_pp_text", tmp_path, *sentences).results}
    assert {name: values[name] for name in hits} == {name: hit / 10 for name, hit in hits.items()}


def dci(text: str, photo: str) -> dict[str, Any]:
    """Return an annotation in DCI's layout, whose text is the short caption and a line of its mask."""
    mask = {"idx": 0, "label": "part", "caption": "It is there", "parent": -1}
    return {"image": photo, "short_caption": text, "mask_data": {"0": mask}, "summaries": {}, "negatives": {}}


PHOTOGRAPHS = {
    "iiw": "images_aar", "dci_long": "photos", "coco": "val2014", "flickr30k": "flickr30k-images", "docci": "images",
    "urban1k": "image",
}  # fmt: skip


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_retrieval_finds_what_is_painted(tmp_path: Path, name: str):
    texts = ["There is a red star.", "There is a blue circle on grass.", "There is a black heart in the sky."]
    for place in (PHOTOGRAPHS[name], "complete", "caption"):
        (tmp_path / place).mkdir()
    coco, flickr30k, iiw, docci = ([], [], [], [])
    for at, text in enumerate(texts):
        file = f"{at}.jpg"
        (tmp_path / PHOTOGRAPHS[name] / file).write_bytes(DrawnPicture(described_scene(text, 0)).read_bytes())
        (tmp_path / f"complete/{at}.json").write_text(json.dumps(dci(text, file)))
        (tmp_path / f"caption/{at}.txt").write_text(text)
        coco.append({"cocoid": at, "filename": file, "split": "test", "sentences": [{"raw": text}]})
        flickr30k.append({"image": f"flickr30k-images/{file}", "caption": [text]})
        iiw.append({"image": str(at), "references": [text]})
        docci.append({"example_id": f"test_{at}", "split": "test", "image_file": file, "description": text})
    split = {"train": ["0.json"], "valid": ["1.json"], "test": ["2.json"]}
    for path, content in {"splits": split, "dataset_coco": {"images": coco}, "flickr30k_test": flickr30k}.items():
        (tmp_path / f"{path}.json").write_text(json.dumps(content))
    jsonl(tmp_path / "iiw_400.jsonl", iiw)
    jsonl(tmp_path / "docci_descriptions.jsonlines", docci)
    done = run(f"{name}_retrieval", tmp_path, "--model", "shapes-clip", "--bootstrap", "0")
    assert [(result.value, result.n) for result in done.results] == 12 * [(1, 3)]
    captions = [row["candidates"][0] for row in done.samples.to_pylist()[3:]]
    rest = " The following can also be seen in the image:\npart: It is there" if name == "dci_long" else ""
    assert captions == [f"{text}{rest}" for text in texts]


def test_humans_are_one_reference_of_an_image_scored_with_the_others(tmp_path: Path):
    words = {"7": ["dog", "cat", "bus", "car", "sky"], "9": ["red", "blue", "black", "grey", "pink"]}
    (tmp_path / "reference_captions.json").write_text(json.dumps(words))
    done = run("coco_humans", tmp_path, "--model", "data-captions", "--metrics", "rouge_l,length", "--bootstrap", "0")
    assert {result.metric: (result.value, result.n) for result in done.results} == {"rouge_l": (0, 2), "length": (1, 2)}
    for row in done.samples.to_pylist():
        assert sorted([row["candidate"], *row["references"]]) == sorted(words[row["id"]])


def test_model_that_says_a_word_makes_nothing_up(tmp_path: Path):
    asked = {"limit": 20, "resamples": 0, "output_path": tmp_path}
    done = capbench.evaluate("shapes-answers", "shapes_hallucination", **asked)
    assert {result.metric: result.value for result in done["shapes_made_up"].results} == {"made_up": 0, "length": 1}
    answers = [{result.key: result.value for result in task.results} for task in done.tasks[1:]]
    assert min(values["released.accuracy"] for values in answers) > 0.9
