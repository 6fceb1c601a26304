"""VATEX-EVAL and ActivityNet-FOIL from small files in the released layout to numbers."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import capbench
from capbench.adapters import Encoder, VideoHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import MetricError
from capbench.metrics import Context, Items, build_metric


@pytest.fixture(scope="module")
def encoder(tiny_clip) -> Encoder:
    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


def record(folder: Path, videos: dict[str, int]) -> None:
    """Write features of so many frames of each video, as released: tensors in ``.pt`` files."""
    folder.mkdir()
    for seed, (name, frames) in enumerate(videos.items()):
        features = np.random.default_rng(seed).standard_normal((frames, 32)).astype(np.float32)
        torch.save(torch.from_numpy(features), folder / f"{name}.pt")


CANDIDATES = [
    "a dog runs", "a cat sleeps on a mat", "two men talk", "a woman cooks rice", "people dance", "a boy swims",
    "dogs bark at the car", "a girl sings a song",
]  # fmt: skip
VIDEOS = ["v1", "v1", "v2", "v2", "v3", "v3", "v4", "v4"]
REFERENCES = [["a dog is running", f"reference {number}", "unused"] for number in range(8)]
RATINGS = np.array([[1, 2, 3, 4, 5, 1, 2, 3], [2, 2, 4, 4, 5, 1, 1, 3], [5, 1, 3, 4, 2, 2, 1, 4]])
TRAINING = {"t1": ["a dog runs", "a man talks"], "t2": ["people dance and sing"]}


@pytest.fixture
def vatex(tmp_path: Path) -> Path:
    folder = tmp_path / "vatex_eval"
    folder.mkdir()
    for name, array in {
        "candidates_list": np.array(CANDIDATES),
        "gts_list": np.array(REFERENCES),
        "video_ids": np.array(VIDEOS),
        "human_scores": RATINGS.ravel(),
    }.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(array, protocol=4))
    (folder / "vatex_train_en_annotations.json").write_text(json.dumps(TRAINING))
    record(folder / "VATEX-EVAL_video_feats", {"v1": 12, "v2": 30, "v3": 10, "v4": 55})
    return folder


def run(task: str, data: Path, encoder: Encoder | None, **more: Any) -> TaskRun:
    settings = {"resamples": 0, "skip_checks": True}
    return capbench.evaluate(encoder, task, data={task: data}, **settings, **more)[task]


@pytest.mark.parametrize(
    ("task", "metric", "references"),
    [("vatex_eval_noref", "emscore", 0), ("vatex_eval_1ref", "emscore_ref", 1), ("vatex_eval_9ref", "emscore_ref", 9)],
)
def test_vatex_eval_is_the_mean_of_each_rater_s_correlation_with_rounded_scores(
    vatex: Path, encoder: Encoder, task: str, metric: str, references: int
):
    done = run(task, vatex, encoder)
    folder = vatex / "VATEX-EVAL_video_feats"
    items = Items(
        ids=[str(number) for number in range(8)],
        candidates=CANDIDATES,
        references=[tuple(texts[:references]) for texts in REFERENCES],
        weights=np.ones(8),
        images=[VideoHandle(folder / f"{name}.pt") for name in VIDEOS],
    )
    arguments = {"frames": 10, "idf": str(vatex / "vatex_train_en_annotations.json")}
    scores = build_metric(metric, arguments).score(items, Context(encoder=encoder)).values
    np.testing.assert_allclose(done.samples[metric].to_pylist(), scores, rtol=0, atol=1e-6)
    rounded = np.around(scores, decimals=4)
    value_of = {result.statistic: result.value for result in done.results}
    for name, statistic in (("kendall_b", scipy.stats.kendalltau), ("spearman", scipy.stats.spearmanr)):
        expected = np.mean([statistic(rounded, ratings).statistic for ratings in RATINGS])
        assert value_of[name] == pytest.approx(expected, abs=1e-9)


def test_a_metric_named_by_the_user_is_taken_as_the_task_sets_it(vatex: Path, encoder: Encoder):
    named = run("vatex_eval_noref", vatex, encoder, metrics="emscore")
    listed = run("vatex_eval_noref", vatex, encoder)
    assert named.record.fingerprint == listed.record.fingerprint


def test_without_the_training_captions_emscore_is_not_another_number(vatex: Path, encoder: Encoder):
    (vatex / "vatex_train_en_annotations.json").unlink()
    with pytest.raises(MetricError, match=r"vatex_train_en_annotations\.json; there is no such file"):
        run("vatex_eval_noref", vatex, encoder)


TRUE = {"a": ["a dog runs", "it eats"], "b": ["a man sings"], "c": ["people dance"]}
FOIL = {"a": ["a cat runs", "it eats"], "b": ["a car sings"], "c": ["people sleep"]}
TIMES = {"a": [[0, 9.5], [8, 30]], "b": [[2.5, 20]], "c": [[0, 5]]}


@pytest.fixture
def activitynet(tmp_path: Path) -> Path:
    folder = tmp_path / "activitynet_foil"
    folder.mkdir()

    def write(name: str, content: Any) -> None:
        (folder / name).write_text(json.dumps(content))

    for name, captions in (("right", TRUE), ("foil", FOIL)):
        sentences = {video: [{"sentence": text} for text in texts] for video, texts in captions.items()}
        write(f"final_{name}_video_sentences.json", {"results": sentences})
    for number in (1, 2):
        described = {
            video: {"duration": 30.0, "timestamps": times, "sentences": [f"{t} there" for t in TRUE[video]]}
            for video, times in TIMES.items()
        }
        write(f"anet_entities_test_{number}.json", described)
    long = "word " * 80
    write("train.json", {"v": {"duration": 9, "timestamps": [[0, 9]], "sentences": ["a dog eats", long]}})
    record(folder / "ActivityNet-FOIL_video_feats", {"a": 45, "b": 31})
    return folder


def segment_score(metric: str, data: Path, encoder: Encoder, video: str, captions: list[str]) -> float:
    """Return the mean score of a paragraph, its sentences held against frames that are cut out beforehand."""
    features = torch.load(data / "ActivityNet-FOIL_video_feats" / f"{video}.pt").numpy()
    cuts = []
    for number, (start, end) in enumerate(TIMES[video]):
        cuts.append(data / f"{video}-{number}.npy")
        np.save(cuts[-1], features[int(start * len(features) // 30) : int(end * len(features) // 30)])
    items = Items(
        ids=captions,
        candidates=captions,
        # No sentence overlaps with another by 0.4, so each has its own counterpart alone.
        references=[(f"{text} there",) for text in TRUE[video]],
        weights=np.ones(len(captions)),
        images=[VideoHandle(cut) for cut in cuts],
    )
    (data / "kept.txt").write_text("a dog eats")
    scorer = build_metric(metric, {"idf": str(data / "kept.txt")})
    return scorer.score(items, Context(encoder=encoder)).values.mean()


def test_activitynet_foil_scores_segments_and_leaves_out_videos_without_features(activitynet: Path, encoder: Encoder):
    done = run("activitynet_foil", activitynet, encoder)
    samples = {row["id"]: row for row in done.samples.to_pylist()}
    by_video = [result for result in done.results if result.metric.startswith("emscore")]
    for result in by_video:
        credit = [
            float(
                segment_score(result.metric, activitynet, encoder, video, TRUE[video])
                > segment_score(result.metric, activitynet, encoder, video, FOIL[video])
            )
            for video in ("a", "b")
        ]
        assert [samples[video][result.metric] for video in ("a", "b")] == credit
        assert (result.value, result.n) == (np.mean(credit), 2)
        assert samples["c"][result.metric] is None
    assert [result.metric for result in by_video] == ["emscore", "emscore_ref"]
    # Metrics of the list that look at no video score the third one, too.
    assert {result.n for result in done.results if result not in by_video} == {3}
    missing = {failure["reason"]: failure["count"] for failure in done.record.failures}
    assert any("No such file" in reason for reason in missing)


def test_text_metrics_of_activitynet_foil_need_no_video(activitynet: Path):
    done = run("activitynet_foil", activitynet, None, metrics="bleu_1")
    assert done.results[0].n == 3
