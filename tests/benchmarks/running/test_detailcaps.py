"""The DetailCaps tasks over a small Parquet file in the published layout."""

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image
from scipy import stats

import capbench
from capbench.adapters import CaptionRequest, ImageHandle
from capbench.adapters.captioners.hf import HfCaptioner

CAPTIONERS = ("ShareCaptioner", "CogVLM", "LLaVA_v15")
# Expert scores of the three captioners, image by image; None as in the published file.
SCORES: list[tuple[float, float, float] | None] = [
    (4.0, 3.0, 2.0),
    (4.5, 3.5, 3.5),
    None,
    (3.0, 3.0, 3.0),
    (2.0, 5.0, 1.0),
    (3.0, 1.5, 4.0),
]
SUBJECTS = ["a brown dog", "a white boat", "a small child", "an old man", "two horses", "a red bus"]
PLACES = ["on the wide beach", "near a stone bridge", "in the green park", "by the lake", "in a field", "at night"]


def jpeg(color: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (color, 0, 0)).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def parquet(tmp_path):
    rows = []
    for n, scores in enumerate(SCORES):
        subject, place = SUBJECTS[n], PLACES[n]
        rows.append(
            {
                "source": "COCO",
                # Two rows share a name, as some rows of the published file do.
                "image": f"image_{min(n, 4)}.jpg",
                "binary": jpeg(n),
                "GT_Caption_GPT4O": f"The picture shows {subject} {place}. The sky is blue.",
                "GT_Caption_GPT4V": f"In this image, {subject} can be seen {place}.\n\nIt is a calm scene.",
                "GT_Caption_Gemini15Pro": f"{subject} {place}, with soft light and long shadows.",
                "ShareCaptioner": f"In this image, {subject} is {place}, and the sky is blue.",
                "CogVLM": f"The image shows {subject} {place}. It is calm.",
                "LLaVA_v15": f"The image features {SUBJECTS[(n + 1) % 6]} somewhere.",
                "GPT4_Eval": None if scores is None else json.dumps(dict(zip(CAPTIONERS, scores, strict=True))),
            }
        )
    path = tmp_path / "DetailCaps-4870.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_a_file_of_ones_own_in_the_columns_of_the_release_is_scored_alike(parquet):
    runs = [
        capbench.evaluate(None, [task], metrics=["bleu_2"], data={task: parquet}, resamples=0)[task]
        for task in ("detailcaps_agreement", "detailcaps100_agreement")
    ]
    released, own = ([(result.statistic, result.value) for result in run.results] for run in runs)
    assert released == own
    assert {entry.table for entry in runs[1].record.published.values()} == {2}
    assert runs[0].record.published != runs[1].record.published


def test_agreement_leaves_out_images_without_expert_scores_and_counts_them(parquet):
    run = capbench.evaluate(
        None, ["detailcaps_agreement"], metrics=["bleu_2"], data={"detailcaps_agreement": parquet}, resamples=20
    )["detailcaps_agreement"]
    (failure,) = run.record.failures
    assert failure["count"] == 1
    assert "no expert scores" in failure["reason"]
    assert failure["samples"] == ["row 2 (image_2.jpg)"]
    assert run.record.documents.effective == 15

    samples = run.samples.to_pandas()
    samples = samples[samples["failure"].isna()]
    score = samples["bleu_2"].to_numpy()
    human = np.array([ratings[0] for ratings in samples["ratings"]])
    assert human.max() == 1.0  # the expert's 5 of 5
    values = {result.statistic: result.value for result in run.results}
    assert values["kendall_c"] == pytest.approx(stats.kendalltau(score, human, variant="c").statistic)
    # Σ(expert-metric)² over the metric's own spread.
    expected = ((human - score) ** 2).sum() / ((score - score.mean()) ** 2).sum()
    assert values["one_minus_r2"] == pytest.approx(expected)

    # Rows 4 and 5 share an image name and are still two images.
    taus = [stats.kendalltau(score[i : i + 3], human[i : i + 3]).statistic for i in range(0, 15, 3)]
    assert np.isnan(taus[2])  # three equal expert scores
    assert values["sample_kendall"] == pytest.approx(np.nanmean(taus))
    assert values["sample_kendall_zero"] == pytest.approx(np.nan_to_num(taus).mean())


def test_printed_value_stands_beside_the_encoder_that_this_paper_used(parquet, tmp_path, tiny_clip, monkeypatch):
    encoder = {"adapter": "open_clip", "pretrained": str(tiny_clip.open_clip_folder), "device": "cpu"}
    aliases = {
        "theirs": {**encoder, "printed_as": {"detailcaps": {"CLIP-S": "CLIPScore"}}},
        "another": {**encoder, "printed_as": {"pacspp": {"CLIP-S": "CLIP-S"}}},
    }
    (tmp_path / "aliases.yaml").write_text(json.dumps(aliases))
    monkeypatch.setattr("capbench.adapters.aliases.ALIAS_FOLDER", tmp_path)
    printed = {}
    for name in aliases:
        run = capbench.evaluate(name, ["detailcaps_agreement"], data={"detailcaps_agreement": parquet}, resamples=0)[
            "detailcaps_agreement"
        ]
        assert "clip_s" in {result.metric for result in run.results}
        assert "needs weights of family 'pac'" in run.record.metrics_left_out["pac_s"]
        published = run.record.published.items()
        printed[name] = {key: entry.printed for key, entry in published if key.startswith("clip_s")}
    assert printed["theirs"] == {
        "clip_s.pearson": "0.4463",
        "clip_s.one_minus_r2": "16.10",
        "clip_s.kendall_b": "0.3039",
        "clip_s.sample_kendall": "0.4109",
    }
    assert printed["another"] == {}


@pytest.mark.parametrize(("task", "references"), [("detailcaps", 2), ("detailcaps_3ref", 3)])
def test_captions_of_a_model_are_scored_against_two_or_three_references(parquet, tmp_path, task: str, references: int):
    captions = tmp_path / "captions.jsonl"
    captions.write_text(
        "".join(json.dumps({"id": str(n), "caption": f"{SUBJECTS[n]} {PLACES[n]}."}) + "\n" for n in range(6))
    )
    run = capbench.evaluate(
        f"captions:{captions}", [task], metrics=["rouge_l"], data={task: parquet}, resamples=20, skip_checks=True
    )[task]
    assert run.record.documents.effective == 6
    assert not run.record.data_checks[0].passed  # six documents where the release has 4,870
    samples = run.samples.to_pandas()
    assert {len(texts) for texts in samples["references"]} == {references}
    assert run.results[0].value is not None
    assert 0 < run.results[0].value < 1


def test_captions_of_a_model_are_written_from_the_images_in_the_file(parquet, tmp_path, tiny_llava):
    def run(**settings: Any) -> Any:
        return capbench.evaluate(
            "hf",
            ["detailcaps"],
            model_args=f"pretrained={tiny_llava},device=cpu",
            metrics=["length"],
            data={"detailcaps": parquet},
            store=tmp_path / "store.sqlite",
            generation_kwargs={"max_new_tokens": 12},
            resamples=0,
            skip_checks=True,
            **settings,
        )["detailcaps"]

    task_run = run()
    assert task_run.record.generation["captions"] == 6
    assert task_run.record.failures == []
    captions = task_run.samples.to_pandas().set_index("id")["candidate"]
    # Rows 4 and 5 share a name, and have images of their own.
    model = HfCaptioner(str(tiny_llava), device="cpu")
    for n in range(6):
        request = CaptionRequest(
            str(n), None, "Describe this image in detail.", {"max_new_tokens": 12}, pixels=ImageHandle(jpeg(n))
        )
        (written,) = model.stream([request])
        assert written.captions[0].text.strip() == captions[str(n)]
    assert run().record.store["computed"] == 0
