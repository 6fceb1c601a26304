"""CAPEval, AMBER and SugarCrepe++ by the whole command: from small files in the released layout to numbers."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_capture import find_minilm, make_nltk_data, make_wordnet

import capbench
from capbench.adapters.shapes.painter import described_scene
from capbench.benchmarks.records.task_run import TaskRun
from capbench.cli.main import main
from capbench.metrics.checklist import PROMPT, SYSTEM, listed, read_item
from capbench.metrics.golden import read_golden
from capbench.metrics.judging import fill
from capbench.tasks.capeval.reader import checklists
from capbench.tasks.index import build_index
from capbench.tasks.schema import load_task
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


@pytest.mark.costly
def test_amber_counts_nouns_of_descriptions_and_reads_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from nltk import data

    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    monkeypatch.setattr(data, "path", [str(make_nltk_data(tmp_path / "nltk"))])
    (tmp_path / "wordnet").mkdir()
    monkeypatch.setenv("WNSEARCHDIR", str(make_wordnet(tmp_path / "wordnet")))
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("car", np.ones(2, np.float32))
    nlp.to_disk(tmp_path / "vectors")
    rows: list[dict[str, Any]] = [
        {"id": 1, "type": "generative", "truth": ["car", "sky"], "hallu": ["dog"]},
        {"id": 2, "type": "generative", "truth": ["car"], "hallu": ["grass", "dog"]},
        {"id": 3, "type": "discriminative-attribute-state", "truth": "yes"},
        {"id": 4, "type": "discriminative-attribute-state", "truth": "no"},
        {"id": 5, "type": "discriminative-attribute-number", "truth": "no"},
    ]
    query = [{"id": row["id"], "image": f"AMBER_{row['id'] % 2}.jpg", "query": "Is it so?"} for row in rows]
    words = {"car": ["light"], "sky": [], "dog": [], "grass": []}
    contents = {"annotations": rows, "relation": words, "query_generative": query[:2]}
    for name, content in (contents | {"query_discriminative-attribute": query[2:]}).items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "safe_words.txt").write_text("grass")
    files = f"associations=relation.json,safe_words=safe_words.txt,vectors={tmp_path / 'vectors'}"
    metrics = ",".join(f"amber_{name}[{files}]" for name in ("chair", "cover", "hal", "cog"))
    answers = captions(tmp_path, {"1": "The light stands near a dog .", "2": "Two dogs run over the grass ."})
    done = run("amber_generative", tmp_path, *answers, "--metrics", metrics, "--bootstrap", "0")
    # Nouns: light (a car's), dog; dog, grass (safe).
    assert [result.value for result in done.results] == [2 / 4, 1 / 3, 1, 2 / 3]
    done = run("amber_attribute", tmp_path, *captions(tmp_path, {"3": "No", "4": "No", "5": "no"}), "--bootstrap", "0")
    rates = {(result.metric, result.statistic, result.category): result.value for result in done.results}
    assert [rates["exact", "accuracy", name] for name in ("state", "number", "")] == [1 / 2, 0, 1 / 3]
    assert [rates["exact", name, ""] for name in ("precision", "recall", "neither_share")] == [1 / 2, 1 / 2, 1 / 3]
    assert rates["exact", "f1", ""] == 2 * 0.5 * 0.5 / (1 + 0.0001)
    assert rates["strict", "f1", ""] == 2 * 0.667 / (1.667 + 0.0001)


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


@pytest.mark.parametrize(("task", "folder"), [("iiw_retrieval", "images_aar"), ("dci_long_retrieval", "photos")])
def test_retrieval_of_long_texts_finds_what_is_painted(tmp_path: Path, task: str, folder: str):
    texts = ["There is a red star.", "There is a blue circle on grass.", "There is a black heart in the sky."]
    for place in (folder, "complete"):
        (tmp_path / place).mkdir()
    for name, text in enumerate(texts):
        (tmp_path / folder / f"{name}.jpg").write_bytes(DrawnPicture(described_scene(text, 0)).read_bytes())
        (tmp_path / f"complete/{name}.json").write_text(json.dumps(dci(text, f"{name}.jpg")))
    (tmp_path / "splits.json").write_text(json.dumps({"train": ["0.json"], "valid": ["1.json"], "test": ["2.json"]}))
    jsonl(tmp_path / "iiw_400.jsonl", [{"image": str(name), "references": [text]} for name, text in enumerate(texts)])
    done = run(task, tmp_path, "--model", "shapes-clip", "--bootstrap", "0")
    assert [(result.value, result.n) for result in done.results] == 12 * [(1, 3)]
    captions = [row["candidates"][0] for row in done.samples.to_pylist()[3:]]
    rest = " The following can also be seen in the image:\npart: It is there" if "dci" in task else ""
    assert captions == [f"{text}{rest}" for text in texts]


def test_lengths_stand_beside_what_captions_make_up(tmp_path: Path):
    described = {}
    for entry in build_index(()).resolve(["hallucination"]):
        task, _ = load_task(entry.path)
        if task.output_type == "generate_until":
            described[entry.name] = [str(metric.metric) for metric in task.metric_list]
    assert [*described] == ["coco_chair", "coco_aloha", "amber_generative"]
    assert {metrics[-1] for metrics in described.values()} == {"length"}
    asked = {"limit": 20, "resamples": 0, "output_path": tmp_path}
    done = capbench.evaluate("shapes-answers", "shapes_hallucination", **asked)
    # A model of answers says a word, and makes nothing up.
    assert {result.metric: result.value for result in done["shapes_made_up"].results} == {"made_up": 0, "length": 1}
    answers = [{result.key: result.value for result in task.results} for task in done.tasks[1:]]
    assert min(values["released.accuracy"] for values in answers) > 0.9
