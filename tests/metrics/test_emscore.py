"""EMScore: equal to released code on tiny weights, and what happens at the edges."""

import hashlib
import json
from math import log
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from tiny_clip import TinyClip, tiny_state_dict

from capbench.adapters import Encoder, ImageHandle, VideoHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError
from capbench.metrics import Context, Items, Scores, build_metric
from capbench.metrics.emscore import Tokens, Undefined, captions_of, load_idf, match_references
from capbench.metrics.golden import golden_items, read_golden

GOLDEN: dict[str, Any] = read_golden("emscore")
PARTS = ("precision", "recall", "f1", "coarse")


@pytest.fixture(scope="module")
def encoder(tiny_clip: TinyClip) -> Encoder:
    return OpenClipEncoder(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")


def recorded(path: Path, frames: int, seed: int = 1) -> Path:
    """Write features of so many frames, as the golden values were made with."""
    features = np.random.default_rng(seed).standard_normal((frames, 32)).astype(np.float32)
    np.save(path, features / np.linalg.norm(features, axis=1, keepdims=True))
    return path


def items(videos: list[Any], candidates: list[str], references: list[list[str]] | None = None) -> Items:
    return golden_items(candidates, references or [[]] * len(candidates), images=videos)


def score(encoder: Encoder, batch: Items, metric: str = "emscore", **arguments: Any) -> Scores:
    return build_metric(metric, arguments).score(batch, Context(encoder=encoder))


@pytest.fixture
def video(tmp_path: Path) -> VideoHandle:
    return VideoHandle(recorded(tmp_path / "v.npy", 5))


@pytest.mark.parametrize("idf", ["idf_off", "idf_on"])
@pytest.mark.parametrize(("metric", "against"), [("emscore", "video"), ("emscore_ref", "both")])
def test_values_are_those_of_released_code(tmp_path, encoder, idf, metric, against):
    digest = hashlib.sha256()
    for name, value in sorted(tiny_state_dict(0).items()):
        digest.update(name.encode())
        digest.update(value.contiguous().numpy().tobytes())
    assert digest.hexdigest() == GOLDEN["weights"], "other weights than those of the golden values"
    corpus = tmp_path / "train.json"
    corpus.write_text(json.dumps({"video": GOLDEN["corpus"]}))
    arguments = {"idf": str(corpus), "idf_max_words": 66} if idf == "idf_on" else {}
    files = {name: recorded(tmp_path / f"{name}.npy", *video) for name, video in GOLDEN["videos"].items()}
    for sampled in (None, 10):
        chosen = [number for number, item in enumerate(GOLDEN["items"]) if item[3] == sampled]
        rows = [GOLDEN["items"][number] for number in chosen]
        batch = items([VideoHandle(files[row[0]]) for row in rows], [r[1] for r in rows], [r[2] for r in rows])
        scores = build_metric(metric, {"frames": sampled, **arguments}).score(batch, Context(encoder=encoder))
        expected = np.array([GOLDEN[idf][number][against] for number in chosen])
        assert not scores.failures
        parts = [scores.parts[part] for part in PARTS]
        np.testing.assert_allclose(np.transpose([*parts, scores.values]), expected, rtol=0, atol=1e-5)


def unit(*rows: list[float]) -> np.ndarray:
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_best_precision_recall_f1_and_coarse_may_be_those_of_different_references():
    caption = Tokens(unit([1, 0], [0, 1]), np.array([0.5, 0.5]))
    short = Tokens(unit([1, 0]), np.array([1.0]))
    long = Tokens(unit([0, 1], [1, 0], [-1, -1]), np.array([0.2, 0.2, 0.6]))
    # short: precision (1 + 0) / 2, recall 1, coarse 0. long: precision 1, recall 0.4 - 0.6 / sqrt(2), negative.
    worst = 0.4 - 0.6 * np.sqrt(0.5)
    alone = [match_references(caption, [reference]) for reference in (short, long)]
    np.testing.assert_allclose(alone[0], [0.5, 1, 2 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(alone[1], [1, worst, 2 * worst / (1 + worst), -np.sqrt(0.5)], atol=1e-6)
    np.testing.assert_allclose(match_references(caption, [short, long]), [1, 1, 2 / 3, 0], atol=1e-6)


def test_opposite_precision_and_recall_have_no_f1():
    caption = Tokens(unit([1, 0], [-1, 0]), np.array([1.0, 0.0]))
    with pytest.raises(Undefined, match="no harmonic mean"):
        match_references(caption, [Tokens(unit([0, 1], [0, -1]), np.array([0.5, 0.5]))])


def test_a_span_picks_frames_as_released(tmp_path: Path, encoder: Encoder):
    path = recorded(tmp_path / "v.npy", 30)
    # From 30 * 2.5 // 9 to 30 * 6.2 // 9.
    np.save(tmp_path / "cut.npy", np.load(path)[8:20])
    batch = items([VideoHandle(path, (2.5, 6.2, 9.0)), VideoHandle(tmp_path / "cut.npy")], ["a dog"] * 2)
    first, second = build_metric("emscore", {}).score(batch, Context(encoder=encoder)).values
    assert first == second


def test_one_frame_is_the_first(tmp_path: Path, encoder: Encoder):
    video = VideoHandle(recorded(tmp_path / "v.npy", 7))
    np.save(tmp_path / "first.npy", np.load(tmp_path / "v.npy")[:1])
    single = build_metric("emscore", {"frames": 1}).score(items([video], ["a dog"]), Context(encoder=encoder))
    first = items([VideoHandle(tmp_path / "first.npy")], ["a dog"])
    alone = build_metric("emscore", {}).score(first, Context(encoder=encoder))
    assert single.values.tolist() == alone.values.tolist()


def test_what_cannot_be_scored_is_named_and_costs_no_other(tmp_path: Path, encoder: Encoder):
    good = recorded(tmp_path / "good.npy", 10)
    np.save(tmp_path / "nan.npy", np.full((10, 32), np.nan, dtype=np.float32))
    np.save(tmp_path / "wide.npy", np.ones((10, 33), dtype=np.float32))
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    videos = [
        VideoHandle(good),
        VideoHandle(recorded(tmp_path / "few.npy", 3)),
        VideoHandle(good, (5.0, 5.0, 10.0)),
        VideoHandle(tmp_path / "nan.npy"),
        VideoHandle(tmp_path / "gone.npy"),
        VideoHandle(tmp_path / "broken.mp4"),
        VideoHandle(tmp_path / "wide.npy"),
        ImageHandle(good),
    ]
    scores = score(encoder, items(videos, ["a dog"] * len(videos)), frames=4)
    assert np.isfinite(scores.values).tolist() == [True] + [False] * 7
    reasons = scores.failures
    assert sorted(reasons) == list(range(1, 8))
    assert "few.npy: has 3 frames, fewer than 4" in reasons[1]
    assert "from 5 to 5 s of 10 s: no frame of 10 lies there" in reasons[2]
    assert "nan.npy: the features of its frames are 0 or not finite" in reasons[3]
    assert "gone.npy: No such file" in reasons[4]
    assert "broken.mp4: no video in a known format" in reasons[5]
    assert "[10, 33]" in reasons[6]
    assert "takes videos, and this is an image" in reasons[7]


def test_an_item_without_reference_has_no_emscore_ref(video: VideoHandle, encoder: Encoder):
    scores = score(encoder, items([video] * 2, ["a dog", "a cat"], [["dog"], []]), "emscore_ref")
    assert scores.failures == {1: "item has no reference"}


def test_a_caption_over_the_context_is_cut_and_counted(tmp_path: Path, video: VideoHandle, encoder: Encoder):
    corpus = tmp_path / "train.txt"
    corpus.write_text("a dog\nthe cat\n" + "word " * 90)
    # 75 words are what the context of 77 takes beside start and end.
    batch = items([video] * 3, ["a dog", "word " * 200, "word " * 75])
    scores = score(encoder, batch, idf=str(corpus))
    assert scores.parts["truncated"].tolist() == [0, 1, 0]
    assert scores.values[1] == pytest.approx(scores.values[2], abs=1e-6)


def test_idf_counts_padding_and_gives_the_end_token_the_mean(tmp_path: Path, encoder: Encoder):
    corpus = tmp_path / "train.txt"
    corpus.write_text("dog dog\n\ndog cat\ncat\n")
    idf = load_idf(corpus, None, encoder, Context().cache)
    ((start, dog, cat, unseen, end),) = encoder.token_ids(["dog cat zebra"])
    # Four tokens beside the end are in the three captions: start, padding, dog and cat.
    mean = (0 + 0 + log(4 / 3) + log(4 / 3) + 0) / 5
    expected = [0, log(4 / 3), log(4 / 3), log(4), mean]
    np.testing.assert_allclose(idf.weights([start, dog, cat, unseen, end]), expected)


def test_the_corpus_of_activitynet_captions_is_its_sentences(tmp_path: Path):
    path = tmp_path / "train.json"
    path.write_text(
        json.dumps({"v_1": {"duration": 3.5, "note": "x", "sentences": ["a dog", "so " * 66]}, "v_2": ["b"]})
    )
    # The second one has 66 words and a trailing space, which released code counts as one more.
    assert captions_of(path, 66) == ["a dog", "b"]
    assert captions_of(path, 67) == ["a dog", "so " * 66, "b"]


@pytest.mark.parametrize("content", ["{", "{}", "[[]]"])
def test_a_corpus_without_captions_is_an_error(tmp_path: Path, video: VideoHandle, encoder: Encoder, content: str):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(MetricError, match=r"idf corpus .*train\.json"):
        score(encoder, items([video], ["a dog"]), idf=str(tmp_path / "train.json"))


def test_a_caption_all_of_whose_tokens_weigh_nothing_has_no_value(tmp_path, video, encoder):
    (tmp_path / "train.txt").write_text("a dog")
    scores = score(encoder, items([video] * 2, ["a dog", "a cat"]), idf=str(tmp_path / "train.txt"))
    assert scores.failures == {0: "candidate: all its tokens have idf 0: they are in every training caption"}


def test_a_second_run_encodes_nothing_and_the_video_term_is_shared(tmp_path, encoder, monkeypatch):
    batch = items([VideoHandle(recorded(tmp_path / "v.npy", 5))], ["a dog"], [["dog"]])
    (tmp_path / "train.txt").write_text("a dog\na cat")
    arguments = {"idf": str(tmp_path / "train.txt")}
    with Store(tmp_path / "store.sqlite") as store:
        context = Context(cache=store, encoder=encoder)
        first = build_metric("emscore_ref", arguments).score(batch, context)
        monkeypatch.setattr(encoder, "tokens", None)
        monkeypatch.setattr(encoder, "frames", None)
        again = build_metric("emscore_ref", arguments).score(batch, context)
        video = build_metric("emscore", arguments).score(batch, context)
    assert again.values.tolist() == first.values.tolist()
    assert np.isfinite(video.values).all()


def test_frames_of_a_video_are_encoded_once_and_kept(tmp_path, encoder, monkeypatch):
    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(5):
            pixels = np.full((48, 64, 3), 50 * number, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    batch = items([VideoHandle(path), VideoHandle(path, (0.0, 0.6, 1.0))], ["a dog"] * 2)
    with Store(tmp_path / "store.sqlite") as store:
        context = Context(cache=store, encoder=encoder)
        whole, part = build_metric("emscore", {}).score(batch, context).values
        monkeypatch.setattr(encoder, "frames", None)
        sampled = build_metric("emscore", {"frames": 5}).score(items([VideoHandle(path)], ["a dog"]), context)
    assert sampled.values[0] == pytest.approx(whole, abs=1e-6)
    assert part != pytest.approx(whole, abs=1e-6)


def test_captions_without_videos_are_refused(encoder: Encoder):
    with pytest.raises(MetricError, match="needs videos"):
        build_metric("emscore", {}).score(items([], ["a dog"]), Context(encoder=encoder))


def test_the_pac_versions_take_no_features_that_another_model_recorded(tmp_path: Path, encoder: Encoder):
    batch = items([VideoHandle(recorded(tmp_path / "v.npy", 5))], ["a dog"], [["dog"]])
    for name, label in (("emscore", "PAC-S"), ("emscore_ref", "RefPAC-S")):
        metric = build_metric(f"pac_{name}", {})
        assert (metric.encoder_family, metric.label) == ("pac", label)
        assert "were recorded" in metric.score(batch, Context(encoder=encoder)).failures[0]
        with_recorded = build_metric(f"pac_{name}", {"recorded": True}).score(batch, Context(encoder=encoder))
        plain = build_metric(name, {}).score(batch, Context(encoder=encoder))
        assert with_recorded.values.tolist() == plain.values.tolist()
