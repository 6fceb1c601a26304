import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tiny_dci import ENTRIES, make_tiny_dci

from capbench.adapters.encoders.clip_tokens import clip_tokenizer

Bench = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_suite_of_which_nothing_can_be_measured_fails_and_says_what_to_fetch(bench: Bench, tmp_path: Path):
    ran = bench("run", "--suite", "dci_table2", "--output_path", "runs").failed(1, "dci_table2: 0 of ")
    block, _, _ = ran.err.partition("\n\n")
    planned = bench("run", "--suite", "dci_table2", "--dry_run", "--output_path", "planned").succeeded()
    assert not (tmp_path / "planned").exists()
    for said in (block, planned.err):
        assert said.startswith("missing here, and left out of the table:\n- the data set DCI")
    assert block.count("the data set DCI") == 1
    assert block.count("'hf download openai/clip-vit-base-patch32'") == 1
    assert "[1] the data set DCI" in ran.out and "openai/clip-vit-base-patch32: its revision" in ran.out


def test_dry_run_of_a_suite_names_the_file_of_recorded_scores(bench: Bench, tmp_path: Path):
    file = tmp_path / "mine/flickr8k_expert/CIDEr.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"image": "1.jpg", "caption": "a dog", "score": 1}\n')
    ran = bench("run", "--suite", "pacspp_table1", "--dry_run", "--recorded", "mine")
    said = [line for line in ran.out.splitlines() if line.startswith("CIDEr: ")]
    # Another task of the row is computed.
    assert said == [f"CIDEr: recorded scores, {Path('mine/flickr8k_expert/CIDEr.jsonl')}", "CIDEr: no model needed"]


# -- ``bench run --suite`` with what a user has for its rows: a cell of each table is filled, from the command line


TEXTS = ["a red kite in the sky", "two bowls of hot soup", "an old wooden door", "a white cat sleeps"]
SCORES = [{"id": str(n), "score": n / 10} for n in range(4)]


def save(path: Path, *rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def cc3m(folder: Path) -> None:
    save(folder / "cc3m/cc3m_val.jsonl", *({"image": str(n), "caption": text} for n, text in enumerate(TEXTS)))


def coco(folder: Path) -> None:
    photos = [
        {
            "filepath": "val2014",
            "filename": f"COCO_val2014_{n:012}.jpg",
            "split": "test",
            "sentences": [{"raw": text}, {"raw": f"{text} today"}],
            "cocoid": n,
        }
        for n, text in enumerate(TEXTS)
    ]
    save(folder / "coco/dataset_coco.json", {"images": photos})


def nocaps(folder: Path) -> None:
    images = [{"id": n, "file_name": f"{n}.jpg", "domain": "in-domain"} for n in range(4)]
    references = [{"image_id": n, "caption": text} for n, text in enumerate(TEXTS)]
    save(folder / "nocaps/nocaps_val_4500_captions.json", {"images": images, "annotations": references})


def detailcaps(folder: Path) -> None:
    columns = ("GT_Caption_GPT4O", "GT_Caption_GPT4V", "GT_Caption_Gemini15Pro", "ShareCaptioner", "CogVLM")
    rows = [
        {"source": "COCO", "image": f"{n}.jpg", "binary": b"", "LLaVA_v15": text, "GPT4_Eval": None}
        | {column: f"{text} {column}" for column in columns}
        for n, text in enumerate(TEXTS)
    ]
    (folder / "detailcaps").mkdir(parents=True)
    pa.parquet.write_table(pa.Table.from_pylist(rows), folder / "detailcaps/DetailCaps-4870.parquet")


def flickr8k(folder: Path) -> None:
    tokens = [f"{n}.jpg#{k}\t{text} {k}" for n, text in enumerate(TEXTS) for k in range(5)]
    # A caption of the image itself would be one of its references.
    votes = [f"{n}.jpg\t{(n + 1) % 4}.jpg#{k}\t{k / 4}\t{k}\t{4 - k}" for n in range(4) for k in range(5)]
    (folder / "flickr8k").mkdir(parents=True)
    (folder / "flickr8k/Flickr8k.token.txt").write_text("\n".join(tokens) + "\n")
    (folder / "flickr8k/CrowdFlowerAnnotations.txt").write_text("\n".join(votes) + "\n")


def filled(bench: Bench, suite: str, *options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    asked = ("run", "--suite", suite, "--bootstrap", 0, "--skip_checks", "--format", "json")
    done = bench(*asked, "--recorded", "mine", "--output_path", "runs", *options).succeeded()
    rows = json.loads(done.out)
    recorded = sum(row["recorded"] for row in rows)
    measured = sum(row["value"] is not None for row in rows) - recorded
    # A folder with models and captions alone holds no scores.
    assert bool(recorded) == any("score" in file.read_text() for file in Path("mine").rglob("*.jsonl"))
    said = f", {recorded} recorded" if recorded else ""
    assert f"{suite}: {measured} of {len(rows)} cells were measured{said}\n" in done.err
    return {(row["row"], row["column"]): row for row in rows}


XE = "Transformer CLIP ViT-B/32 features, XE only (no reward)"


def test_scores_fill_a_row_of_metrics_with_a_setting(bench: Bench, tmp_path: Path):
    flickr8k(tmp_path / "cache/data")
    row = "PAC-S++ (r=2, lambda_v=0.1, lambda_t=0.001, visual=SDv1.5, textual=BLIP)"
    scores = [
        {"image": f"{n}.jpg", "caption": f"{TEXTS[(n + 1) % 4]} {k}", "score": k} for n in range(4) for k in range(5)
    ]
    save(tmp_path / f"mine/flickr8k_cf/{row}.jsonl", *scores)
    cell = filled(bench, "pacspp_table7")[row, "Flickr8k-CF τ-b"]
    assert cell["value"] == pytest.approx(1)
    assert cell["published"] == pytest.approx(0.369)


def test_model_fills_a_row_of_encoders(bench: Bench, tmp_path: Path, tiny_clip):
    make_tiny_dci(tmp_path / "cache/data/dci")
    row = "best sDCI fine-tuned (caption text)"
    model = {"model": "hf_clip", "model_args": {"pretrained": str(tiny_clip.hf_folder), "device": "cpu"}}
    save(tmp_path / "mine/models.yaml", {"dci_table2": {row: model}})
    cells = filled(bench, "dci_table2", "--allow_outside", tiny_clip.hf_folder)
    cell = cells[row, "All SCM, 112 test images"]
    assert 0 < cell["value"] < 1 and cell["published"] > 0.4
    seen = cells[row, "All SCM"]
    assert (seen["value"], seen["published"]) == (None, None)
    assert "trained on images that this column is measured on" in seen["reason"]


def test_copy_without_the_splits_file_says_what_to_do(bench, tmp_path: Path, tiny_clip):
    (tmp_path / "empty/photos").mkdir(parents=True)
    model_args = f"pretrained={tiny_clip.hf_folder},device=cpu"
    asked = ("run", "--model", "hf_clip", "--model_args", model_args, "--task", "dci_all_scm")
    done = bench(*asked, "--data", f"dci_all_scm={tmp_path / 'empty'}").failed(1, "holds no splits.json")
    assert "Traceback" not in done.err


def test_references_are_counted_without_a_model(bench: Bench, tmp_path: Path):
    for make in (coco, nocaps, detailcaps):
        make(tmp_path / "cache/data")
    (tmp_path / "mine").mkdir()
    cells = {column: cell for (_, column), cell in filled(bench, "detailcaps_table1").items()}
    for name, references in {"COCO test": 8, "nocaps val": 4, "DetailCaps-4870": 8}.items():
        values = [cells[f"{name} {kind}"]["value"] for kind in ("images", "references")]
        assert values == [4, references]
    words = sum(len(text.split()) for text in TEXTS)
    assert cells["nocaps val avg_reference_length_words"]["value"] == words / 4
    # Two words that stand side by side in several references are one pair.
    assert cells["nocaps val unique_2grams"]["value"] == words - 4
    assert cells["COCO test unique_2grams"]["value"] == words - 4 + 4
    assert cells["DetailCaps-100 images"]["reason"] == "DetailCaps-100 was not released"


def test_parts_of_images_count_as_images_with_their_captions(bench: Bench, tmp_path: Path, dci: Path):
    shutil.copytree(dci, tmp_path / "cache/data/dci")
    (tmp_path / "mine").mkdir()
    cells = {column: cell["value"] for (_, column), cell in filled(bench, "dci_table1").items()}
    # sDCI and DCI alone have base_only, which has negatives of the whole image and of no part.
    images = {image: json.loads((dci / f"complete/{image}.json").read_text()) for image in (*ENTRIES, "base_only")}
    for name, parts in {"sDCI": {image: ["base"] for image in images}, "sDCI_sub": ENTRIES}.items():
        listed = [images[image]["summaries"][part] for image in parts for part in parts[image]]
        texts = [text for of_part in listed for text in ([of_part] if isinstance(of_part, str) else of_part)]
        tokens = sum(len(clip_tokenizer().encode(text)) + 2 for text in texts)
        counts = [cells[f"{name} {kind}"] for kind in ("images", "references")]
        assert counts == [sum(map(len, parts.values())), len(texts)]
        assert cells[f"{name} clip_tokens_per_reference"] == pytest.approx(tokens / len(texts))
        assert cells[f"{name} clip_tokens_per_image"] == pytest.approx(tokens / counts[0])
    # One text each, which has all that was written.
    assert [cells[f"{name} references"] for name in ("DCI", "DCI_sub")] == [6, 25]
    assert cells["DCI clip_tokens_per_image"] > cells["DCI_sub clip_tokens_per_image"] > 2


def test_captions_of_a_column_of_the_data_are_scored_and_an_instruction_is_refused(bench: Bench, tmp_path: Path):
    detailcaps(tmp_path / "cache/data")
    asked = ("run", "--model", "data-captions", "--metrics", "rouge_l", "--skip_checks", "--output_path", "runs")
    done = bench(*asked, "--task", "detailcaps_cogvlm", "--bootstrap", 0, "--format", "json").succeeded()
    (row,) = json.loads(done.out)
    # Each caption and reference is a text of w words and one word of their own: w of w + 1 words are in common.
    words = [len(text.split()) for text in TEXTS]
    assert row["value"] == pytest.approx(sum(n / (n + 1) for n in words) / len(words))
    refused = bench(*asked, "--task", "detailcaps").failed(1, "which is no caption")
    assert "all documents have the text 'Describe this image in detail.'" in refused.err


def test_list_of_suites_counts_what_can_be_measured_here(bench: Bench, tmp_path: Path):
    def here(*options: Any) -> dict[str, str]:
        done = bench("ls", "suites", "--format", "json", *options).succeeded()
        return {row["suite"]: row["here"] for row in json.loads(done.out)}

    assert {counts.partition(" of ")[0] for counts in here().values()} == {"0"}
    cc3m(tmp_path / "elsewhere")
    called = XE.replace("/", "-")
    save(tmp_path / f"mine/cc3m/{called}.jsonl", *({"id": str(n), "caption": t} for n, t in enumerate(TEXTS)))
    save(tmp_path / f"mine/cc3m/{called}/Polos.jsonl", *SCORES)
    # Of six columns four want weights, and one scores that were computed elsewhere.
    measurable = here("--recorded", "mine", "--data", f"cc3m={tmp_path / 'elsewhere/cc3m'}")
    assert measurable["pacspp_table11"] == "2 of 72"
    assert {name for name, counts in measurable.items() if not counts.startswith("0")} == {"pacspp_table11"}
