"""The steps of a run, one by one: what each needs is handed to it."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import task_keys
import yaml
from chat_server import chat_server, completion
from PIL import Image
from task_keys import CAPTIONING
from tiny_images import noise_image, noise_png

import capbench
from capbench.adapters import Captioner, Judge
from capbench.benchmarks.inputs.models import Models, load_models
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.protocols.job import SHARD, SHARD_OF_IMAGES
from capbench.benchmarks.running.plan import resolve_call
from capbench.benchmarks.running.runner import prepare
from capbench.cli.main import main
from capbench.errors import MetricError, UsageError
from capbench.metrics import NoCache
from capbench.rows import BadRow

FAULTY_IDS = yaml.safe_load(Path(__file__).with_name("faulty_ids.yaml").read_text())
SMALL = """
import sys, capbench
rows = [{"candidate": "a dog runs", "references": ["a dog is running", "the dog runs fast"]}] * 2
capbench.score(rows, metrics=["cider", "bleu_4"])
capbench.evaluate("iiw-p5b", ["iiw_400"], metrics=["cider"], resamples=0)
print([name for name in sys.modules if name.startswith("capbench.benchmarks.scale")])
"""


def test_small_run_imports_nothing_of_scale():
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- what is planned


class Own(Captioner):
    """A captioner of the user's own, which has no name."""

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "own"}


class OwnJudge(Judge):
    name = "fair"

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "own judge"}


def test_each_model_that_was_given_goes_where_it_was_given():
    captioner, judge = Own(), OwnJudge()
    resolved = resolve_call(["iiw_400"], model=captioner, judge=judge, metric_names=["clair"])
    assert resolved.models.judge is not None
    assert resolved.models.judge.name == "fair"
    assert resolved.plan[0].captioner is not None
    assert (resolved.plan[0].captioner.name, resolved.plan[0].captioner.adapter) == ("Own", "Own")
    models = load_models(resolved.models)
    assert models.captioner is captioner
    assert models.judge is judge
    # A judge in the place of the model under test is still the judge.
    with pytest.raises(UsageError, match="two judges were named"):
        resolve_call(["iiw_400"], model=judge, judge=judge, metric_names=["clair"])


def test_model_that_no_metric_uses_is_refused():
    with pytest.raises(UsageError, match=" judges, and nothing in iiw_400 uses it"):
        resolve_call("iiw_400", model=Own(), judge=OwnJudge(), metric_names=["length"])


def test_shards_are_small_where_images_are_captioned():
    def rows(model: Captioner | str) -> int:
        call = resolve_call("iiw_400", model=model, metric_names=["length"])
        return prepare(call.plan[0], RunSettings(), Models(), locations=call.locations, cache=NoCache()).shard

    assert (rows("iiw-p5b"), rows(Own())) == (SHARD, SHARD_OF_IMAGES)


def test_what_is_neither_a_name_nor_an_adapter_is_refused():
    with pytest.raises(UsageError, match="a name or an adapter, not int"):
        resolve_call("iiw_400", model=3)


# -- What was done to read an image that is not as usual is remarked, whoever reads it


TURNED = "EXIF orientation 6 not applied"
MANY = "first of 2 frames"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A photograph to be turned, one that is upright, and an animation."""
    exif = Image.Exif()
    exif[0x0112] = 6
    noise_image(0).save(tmp_path / "0.jpg", exif=exif)
    noise_image(1).save(tmp_path / "1.jpg")
    noise_image(2).save(tmp_path / "2.gif", save_all=True, append_images=[noise_image(3)])
    return tmp_path


def write_task(folder: Path, *metrics: str) -> None:
    rows = [{"id": name, "references": ["a dog"]} for name in ("0.jpg", "1.jpg", "2.gif")]
    task = {"task": "mine", "doc_to_id": "id", "doc_to_image": "id", "metric_list": [*metrics]}
    task_keys.write_task(folder, rows, CAPTIONING | task | {"generation_kwargs": {"max_new_tokens": 8}})


def remarks(entries: list[Any]) -> dict[str, list[str]]:
    return {entry["reason"]: entry["samples"] for entry in entries}


def test_captioner_that_turns_no_photograph_says_so_in_record_and_terminal(images, tiny_llava, capsys):
    write_task(images, "length")
    arguments = ["run", "--model", "hf", "--model_args", f"pretrained={tiny_llava},device=cpu", "--task", "mine"]
    arguments += ["--include_path", str(images), "--output_path", str(images / "runs"), "--bootstrap", "0"]
    # The second run takes its captions from the store.
    for _ in range(2):
        assert main(arguments) == 0
        assert f"mine: 1 × image {TURNED} (first: 0.jpg)" in capsys.readouterr().err
    records = [json.loads(file.read_text()) for file in images.glob("runs/*/*/*/run.json")]
    assert [remarks(record["remarks"]) for record in records] == [{TURNED: ["0.jpg"], MANY: ["2.gif"]}] * 2
    assert sorted(record["store"]["found"] > 0 for record in records) == [False, True]


def test_server_is_sent_one_frame_which_is_remarked_once_beside_that_of_the_metric(images: Path, tiny_clip):
    write_task(images, "clip_s")
    with chat_server(lambda body, before: completion("a dog")) as server:
        run = capbench.evaluate(
            "openai",
            "mine",
            model_args={"model": "m", "base_url": server.url},
            encoder="open_clip",
            encoder_args={"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"},
            include_path=[images],
            resamples=0,
        )["mine"]
    # A JPEG goes to the server as it is; CLIP-S turns it no more than any other.
    assert remarks(run.record.remarks) == {MANY: ["2.gif"], TURNED: ["0.jpg"]}
    assert "captions and metrics" in run.record.timings
    assert run.record.values["timings"]["each_metric"]["clip_s"] > 0


def test_parts_of_a_photograph_are_remarked_by_clip_f1_from_the_store_too(images: Path, tiny_clip):
    rows = [{"id": name, "candidate": "A dog. A cat.", "image": str(images / name)} for name in ("0.jpg", "1.jpg")]
    model = {"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    for _ in range(2):
        table = capbench.score(
            rows, "clip_f1[parts=whole]", model="open_clip", model_args=model, allow_outside=[images],
            store=images / "store.sqlite",
        )  # fmt: skip
        assert remarks(table.remarks) == {TURNED: ["0.jpg"]}


def test_photograph_whose_crops_are_matched_is_remarked_once(images: Path, tiny_clip):
    entry = {"captions": ["A boat."], "negatives": ["A car."]}
    entries = [entry, {**entry, "box": [0, 0, 20, 20]}]
    rows = [{"id": name, "entries": entries} for name in ("0.jpg", "1.jpg")]
    task = {"task": "mine", "output_type": "matching", "protocol": {"measure": "neg"}, "doc_to_entries": "entries"}
    task_keys.write_task(images, rows, task | {"doc_to_id": "id", "doc_to_image": "id"})
    model = {"pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    run = capbench.evaluate("open_clip", "mine", model_args=model, include_path=[images], resamples=0)["mine"]
    assert remarks(run.record.remarks) == {TURNED: ["0.jpg"]}
    assert list(run.record.timings)[:-1] == ["data", "matches", "statistics", "significance"]


def test_judge_that_is_shown_one_frame_says_so_from_the_store_too(images: Path):
    tokens = [{"token": token, "top_logprobs": [{"token": token, "logprob": 0.0}]} for token in "0.8"]
    rows = [{"id": name, "candidate": "a dog", "image": str(images / name)} for name in ("1.jpg", "2.gif")]
    with chat_server(lambda body, before: completion("0.8", logprobs={"content": tokens})) as server:
        for _ in range(2):
            table = capbench.score(
                rows, "fleur", judge="openai_judge", judge_args={"model": "m", "base_url": server.url},
                allow_outside=[images], store=images / "store.sqlite",
            )  # fmt: skip
            assert remarks(table.remarks) == {MANY: ["2.gif"]}
            assert [row["fleur"] for row in table.rows] == pytest.approx([0.8, 0.8])
        assert len(server.bodies) == 2


# -- Captions, references and images as lists, and images that are decoded


PREDICTIONS = ["a dog runs", "two cats", "a red bus"]
REFERENCES = [["a dog is running", "the dog runs fast"], "two cats sleep", ("a bus on a street",)]
METRICS = ["cider", "bleu_1"]


def values(table: capbench.ScoreTable, metric: str) -> list[float]:
    return [row[metric] for row in table]


def by_id(values: list[Any]) -> dict[str, Any]:
    return {f"image {number}": value for number, value in enumerate(values)}


def test_mappings_of_ids_are_joined_and_scored_as_lists_are():
    listed = capbench.score(predictions=PREDICTIONS, references=REFERENCES, metrics=METRICS)
    # As pycocoevalcap has them: a list of one caption; in whatever order.
    references = dict(reversed(by_id(REFERENCES).items()))
    of_lists = [[prediction] for prediction in PREDICTIONS]
    assert capbench.score(predictions=of_lists, references=REFERENCES, metrics=METRICS).system == listed.system
    for predictions in (by_id(of_lists), by_id(PREDICTIONS)):
        joined = capbench.score(predictions=predictions, references=references, metrics=METRICS)
        assert joined.system == listed.system
        assert [row["id"] for row in joined] == list(predictions)
        assert [row["candidate"] for row in joined] == PREDICTIONS
        assert values(joined, "cider") == values(listed, "cider")
    images = [noise_png(number) for number in range(3)]
    settings: dict[str, Any] = {"metrics": "clip_s", "model": "shapes-clip"}
    of_lists = capbench.score(predictions=PREDICTIONS, images=images, **settings)
    of_ids = capbench.score(predictions=by_id(PREDICTIONS), images=by_id(images), **settings)
    assert values(of_ids, "clip_s") == values(of_lists, "clip_s")


GTS = {
    7: ["a dog is running", "the dog runs fast"],
    8: ["two cats sleep", "two cats on a bed"],
    "nine": ["a bus on a street", "a red bus"],
}
RES = {"nine": ["a red bus on a road"], 7: ["a dog runs"], 8: ["two cats asleep on a bed"]}


@pytest.mark.parametrize(
    ("released", "metric"),
    [("cider.cider:Cider", "cider"), ("rouge.rouge:Rouge", "rouge_l"), ("bleu.bleu:Bleu", "bleu_4")],
)
def test_scorer_of_pycocoevalcap_gives_the_same_numbers_on_the_same_mappings(released: str, metric: str):
    module, _, name = released.partition(":")
    value, values = getattr(import_module(f"pycocoevalcap.{module}"), name)().compute_score(GTS, RES)
    if metric == "bleu_4":
        value, values = value[3], values[3]
    annotated = [
        {name: [{"image_id": name, "caption": text} for text in texts] for name, texts in texts_of.items()}
        for texts_of in (GTS, RES)
    ]
    for gts, res in ((GTS, RES), annotated, (list(GTS.values()), [RES[name] for name in GTS])):
        ours, of_captions = capbench.compute_score(gts, res, metric)
        assert ours == pytest.approx(value, abs=1e-9)
        assert of_captions.tolist() == pytest.approx(list(values), abs=1e-9)
        assert capbench.score(predictions=res, references=gts, metrics=metric).system[metric] == pytest.approx(value)


def test_scorer_says_why_there_is_no_number():
    with pytest.raises(UsageError, match=r"id 8 must have exactly one caption, not \(\)"):
        capbench.compute_score(GTS, {7: ["a dog"], "nine": ["a bus"]}, "cider")
    with pytest.raises(MetricError, match="cider has no value: 1 × reference is an empty list"):
        capbench.compute_score({**GTS, 7: []}, RES, "cider")
    with pytest.raises(UsageError, match="takes one metric, not cider, length"):
        capbench.compute_score(GTS, RES, "cider,length")
    with pytest.raises(UsageError, match="a metric is named by a text, not by 7"):
        capbench.score(list(GTS.values()), RES)


@pytest.mark.parametrize(("keys", "message"), FAULTY_IDS)
def test_ids_that_cannot_be_joined_are_named(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        capbench.score(metrics="length", **keys)
    assert "{ID: [CAPTION]}" in (caught.value.hint or "")


def test_decoded_images_are_scored_as_encoded_ones_to_the_bit():
    images = [noise_image(number) for number in range(3)]
    settings: dict[str, Any] = {"predictions": PREDICTIONS, "metrics": "clip_s", "model": "shapes-clip"}
    of_files = capbench.score(images=[noise_png(number) for number in range(3)], **settings)
    of_pillow = capbench.score(images=images, **settings)
    of_arrays = capbench.score(images=[np.asarray(image) for image in images], **settings)
    assert len(set(values(of_files, "clip_s"))) == 3
    assert values(of_pillow, "clip_s") == values(of_arrays, "clip_s") == values(of_files, "clip_s")
    rows = [BadRow("a:1", "is broken"), {"caption": "a dog", "image": images[0]}]
    mixed = capbench.score(rows, "clip_s", model="shapes-clip")
    assert (len(mixed.rows), len(mixed.failures)) == (1, 1)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "score needs rows or predictions"),
        ({"rows": [], "predictions": []}, "score needs rows or predictions, not both"),
        ({"rows": [], "references": []}, "rows contain their references and images"),
        ({"rows": [], "images": []}, "rows contain their references and images"),
        ({"predictions": "a dog"}, "'candidate' must be a list, not one text"),
        ({"predictions": PREDICTIONS, "references": "a dog"}, "'references' must be a list, not one text"),
        (
            {"predictions": PREDICTIONS, "references": [["a"], ["b"]], "images": [b""]},
            "differ in number: 3 of 'candidate', 2 of 'references', 1 of 'image'",
        ),
    ],
)
def test_lists_that_do_not_fit_each_other_are_named(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        capbench.score(metrics="length", **keys)
    assert "score(ROWS, metrics)" in (caught.value.hint or "")


def test_images_that_no_row_could_have_are_refused():
    settings: dict[str, Any] = {"predictions": ["a dog"], "metrics": "clip_s", "model": "shapes-clip"}
    for image in (np.zeros((4, 4, 3)), np.zeros((2, 4, 5), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(UsageError, match=r"unsupported image array: dtype.*\n.*\[h, w, 3\]"):
            capbench.score(images=[image], **settings)
    with pytest.raises(UsageError, match="value range of a Pillow image of mode F is unknown"):
        capbench.score(images=[Image.new("F", (4, 4))], **settings)
