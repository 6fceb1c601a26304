"""The papers' pipelines from beginning to end, on tiny checkpoints in the real file formats."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pipeline_stages import rows_of
from tiny_capture import make_nltk_data, make_t5
from tiny_clip import TinyClip
from tiny_dci import make_tiny_dci
from tiny_llm import make_tiny_llama, make_tiny_llava
from tiny_regions import make_tiny_owlv2, make_tiny_painter, make_tiny_sam

from capbench.cli.main import main
from capbench.metrics.capture import nltk_text
from capbench.recipes.training.rows import collect
from capbench.rows import load_json

pytestmark = pytest.mark.costly

WORDS = ["the", "dog", "cat", "of", "grass", "a", "brown", "is", "on", "sky", "with", "tree"]
PHOTOS = 3
CHAT = (
    "{% for message in messages %}<s>[{{ message['role'] }}] {{ message['content'] }} [/{{ message['role'] }}]"
    "{% endfor %}{% if add_generation_prompt %} {% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_clip: TinyClip) -> Path:
    """A folder with a checkpoint for each role; the painter is made by who needs it."""
    folder = tmp_path_factory.mktemp("models")
    make_tiny_sam(folder / "sam")
    make_tiny_owlv2(folder / "owlv2", tiny_clip.hf_folder)
    make_tiny_llava(folder / "llava", WORDS)
    make_tiny_llama(folder / "base", WORDS)
    make_tiny_llama(folder / "chat", WORDS, CHAT)
    make_t5(folder / "t5")
    make_nltk_data(folder / "nltk")
    (folder / "photos").mkdir()
    for number in range(PHOTOS):
        # Noise and darkness: a segmenter with random weights tells them apart.
        pixels = np.random.default_rng(number).integers(0, 256, (128, 128, 3), np.uint8)
        pixels[64:, 64:] = 0
        Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")
    return folder


@pytest.fixture
def _nltk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small models of NLTK where it looks for them."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(folder / "nltk")])
    nltk_text._models.cache_clear()
    yield
    nltk_text._models.cache_clear()


def made(pipeline: str, data: Path | str, out: Path, *changes: str) -> dict[str, Any]:
    """Carry out a pipeline on a processor, and return its report."""
    assert main(command(pipeline, data, out, *changes)) == 0
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def command(pipeline: str, data: Path | str, out: Path, *changes: str) -> list[str]:
    sets = [part for change in changes for part in ("--set", change)]
    return ["make", pipeline, "--data", str(data), "--output", str(out), *sets]


def of(role: str, folder: Path, **arguments: Any) -> list[str]:
    """Return the changes that put another checkpoint into a pipeline's model."""
    values = {"pretrained": str(folder), "device": "cpu", **arguments}
    return [f"models.{role}.arguments.{key}={value}" for key, value in values.items()]


def stage_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(stage for stage in report["stages"] if stage["name"] == name)


@pytest.mark.usefixtures("_nltk")
def test_detailcaps_synthesis(folder: Path, tmp_path: Path):
    shutil.copytree(folder / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "damaged.png").write_bytes(b"\x89PNG no picture")
    parser = f"parser.parser_model={folder / 't5'}"
    report = made(
        "detailcaps_synthesis", tmp_path / "photos", tmp_path / "out",
        *of("captioner", folder / "llava"), *of("judge", folder / "chat"), *of("detector", folder / "owlv2"),
        *of("segmenter", folder / "sam", points_per_side=4, pred_iou=-100, stability=0, box_nms=0.99, crop_nms=0.99),
        *(f"stages.{stage}.{parser}" for stage in ("overall_filter", "local_filter", "select")),
        "output.columns.local=local",
    )  # fmt: skip

    unmade = stage_of(report, "select")["unmade"]
    assert report["rows"] + len(unmade) == PHOTOS
    assert set(unmade.values()) <= {"the parser gave no graph"}
    (lost,) = stage_of(report, "overall")["unmade"].items()
    assert lost[0] == "damaged" and "is not an image in a known format" in lost[1]
    assert stage_of(report, "boxes")["counts"]["boxes"] == stage_of(report, "local")["counts"]["captions"] > 0
    for row in rows_of(tmp_path / "out"):
        entries = {entry["stage"]: entry for entry in row["provenance"]}
        assert list(entries) == [stage["name"] for stage in report["stages"]]
        assert entries["merge"]["requests"] == bool(row["local"])
        assert set(row["captions"][0].split()) <= set(WORDS)
    made_by = load_json(tmp_path / "out" / "provenance.json")
    assert [made_by["stages"][name]["model"] for name in ("overall", "boxes", "overall_filter")] == [
        "llava-1.5 (llava)", "sam-vit-large (sam)", "owlv2-large-patch14-ensemble (owlv2)"
    ]  # fmt: skip
    assert made_by["models"]["captioner"]["checkpoint"].startswith("sha256:")
    assert unmade or any(row["local"] for row in rows_of(tmp_path / "out"))
    filters = [stage_of(report, f"{name}_filter")["counts"] for name in ("overall", "local")]
    assert sum(counts["phrases kept"] + counts["phrases removed"] for counts in filters) > 0
    assert {row["metric"] for row in report["metrics"]} == {"length", "rep_4"}
    assert "capture: the data have no references" in report["remarks"]


def test_sdci(folder: Path, tmp_path: Path, tiny_clip: TinyClip):
    report = made("sdci", folder / "photos", tmp_path / "out", *sdci_models(folder, tiny_clip))

    entries = stage_of(report, "describe_masks")["counts"]["masks"] + PHOTOS
    assert report["rows"] == PHOTOS < entries
    assert stage_of(report, "first_summary")["counts"] == {"entries": entries, "left out": 0}
    # Random numbers number no lines: what is there stays, and the reason is told.
    assert stage_of(report, "more_summaries")["left_out"] == {"the answer has no 5 numbered lines": entries}
    scored = stage_of(report, "clip_scores")["counts"]["entries"]
    assert PHOTOS <= scored <= entries
    named = json.loads((tmp_path / "out" / "splits.json").read_text(encoding="utf-8"))["test"]
    assert len(named) == PHOTOS
    count = 0
    for name in named:
        made_of = json.loads((tmp_path / "out" / "complete" / name).read_text(encoding="utf-8"))
        assert (tmp_path / "out" / "photos" / made_of["image"]).is_file()
        assert made_of["negatives"].keys() == made_of["clip_scores"].keys() == made_of["summaries"].keys()
        count += len(made_of["summaries"])
    assert count == scored


def sdci_models(folder: Path, tiny_clip: TinyClip) -> list[str]:
    return [
        *of("captioner", folder / "llava"), *of("judge", folder / "chat"),
        *of("segmenter", folder / "sam", pred_iou=-100, stability=0, min_region=0, box_nms=0.9),
        "models.encoder.name=hf_clip", *of("encoder", tiny_clip.hf_folder),
        "stages.masks.grid=2", "stages.masks.least_area=40", "stages.first_summary.least_area=40",
    ]  # fmt: skip


def test_sdci_texts(folder: Path, tmp_path: Path, tiny_clip: TinyClip):
    data = make_tiny_dci(tmp_path / "dci")
    report = made(
        "sdci_texts", data, tmp_path / "out", *of("judge", folder / "base"),
        "stages.more_summaries.tries=1", "stages.negatives.of_image=1",
        "models.encoder.name=hf_clip", *of("encoder", tiny_clip.hf_folder),
    )  # fmt: skip

    assert list(report["data"]["left_out"]) == ["no_photo.json"]
    counts = stage_of(report, "negatives")["counts"]
    assert counts["entries"] == stage_of(report, "clip_scores")["counts"]["entries"] > report["rows"]
    assert sum(stage_of(report, "negatives")["left_out"].values()) == counts["left out"]
    unmade = [reason for stage in report["stages"] for reason in stage["unmade"].values()]
    assert len(unmade) == report["data"]["rows"] - report["rows"]
    assert all(reason.startswith("the whole image ") for reason in unmade)
    assert {row["metric"] for row in report["metrics"]} == {"clip_s", "length"}
    assert not any(row["over_context"] for row in report["lengths"])


def test_pacspp_positives(folder: Path, tmp_path: Path, tiny_clip: TinyClip):
    painter = make_tiny_painter(tmp_path / "painter", tiny_clip.hf_folder)
    captions = ["a dog on grass", "the sky"]
    lines = [{"id": str(n), "image": str(folder / "photos" / f"{n}.png"), "captions": captions} for n in range(2)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    report = made(
        "pacspp_positives", tmp_path / "data.jsonl", tmp_path / "out",
        *of("captioner", folder / "llava"), *of("painter", painter, steps=2, side=16),
        "judged.encoder.name=hf_clip", f"judged.encoder.arguments.pretrained={tiny_clip.hf_folder}",
        "judged.encoder.arguments.device=cpu",
    )  # fmt: skip

    assert report["rows"] == 2
    images: set[bytes] = set()
    for row in rows_of(tmp_path / "out"):
        assert 1 < len(row["further_captions"]) <= 5
        assert all(set(caption.split()) <= set(WORDS) for caption in row["further_captions"])
        assert len(row["further_images"]) == len(captions)
        for name in row["further_images"]:
            with Image.open(tmp_path / "out" / name) as image:
                assert image.size == (16, 16)
            images.add((tmp_path / "out" / name).read_bytes())
        assert "model" not in row["provenance"][-1] and "seed" in row["provenance"][-1]
    assert len(images) == 2 * len(captions)
    assert {row["metric"] for row in report["metrics"]} == {"clip_s", "length"}
    assert not report["remarks"]


def test_spacy_negatives(tmp_path: Path, tiny_spacy: Path):
    captions = [["A red car stands on the road.", "a car"], "the road", ["red " * 80]]
    lines = [{"id": str(number), "captions": texts} for number, texts in enumerate(captions)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    settings = f"stages.spacy_negatives.pipeline={tiny_spacy}"
    report = made("spacy_negatives", tmp_path / "data.jsonl", tmp_path / "out", settings)

    rows = rows_of(tmp_path / "out")
    assert [(row["captions"], row["negatives"]) for row in rows] == [
        (captions[0], ["the road stands on A red car."]), (["the road"], ["the road"]),
    ]  # fmt: skip
    assert stage_of(report, "spacy_negatives")["counts"] == {"unchanged": 1}
    assert list(stage_of(report, "spacy_negatives")["unmade"]) == ["2"]


def test_spacy_negatives_of_entries_of_images(tmp_path: Path, tiny_spacy: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path))
    make_tiny_dci(tmp_path / "dci")
    columns = "output.columns={captions: captions, negatives: negatives, box: box, group: group}"
    stage = f"stages.spacy_negatives.pipeline={tiny_spacy}"
    made("spacy_negatives", "dci_full_all_neg", tmp_path / "out", stage, columns)
    trained_on = collect(rows_of(tmp_path / "out"), "rows", tmp_path / "out").rows
    assert len({row.group for row in trained_on}) > 1 and any(row.image.box for row in trained_on)
    assert all(len(row.negatives) == 1 for row in trained_on)
