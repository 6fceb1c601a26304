"""Retrieval in both directions: the values of other harnesses, ties, blocks of the matrix, and what a run records."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from named_features import NamedFeatures

import capbench
from capbench.adapters import Encoded, ImageHandle
from capbench.adapters.contracts import PAIRWISE
from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.protocols import retrieval
from capbench.benchmarks.protocols.retrieval import rank_pairs
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError, UsageError

TASK = """\
task: mine
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: retrieval
doc_to_image: photo
doc_to_captions: caption
scale: 100
metadata: {version: 1.0}
"""
CASES = yaml.safe_load(Path(__file__).with_name("retrieval.yaml").read_text())


def made_features(noise: float = 1.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 60 images with one to five captions each, of 16 dimensions, and the image of each caption."""
    rng = np.random.default_rng(2026)
    images, counts = rng.standard_normal((60, 16)), rng.integers(1, 6, 60)
    image_of_text = np.repeat(np.arange(60), counts)
    texts = images[image_of_text] + noise * rng.standard_normal((len(image_of_text), 16))
    images, texts = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images, texts))
    return images.astype(np.float32), texts.astype(np.float32), image_of_text


class OfFiles(NamedFeatures):
    """Images have the features of the name that their file holds."""

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        return self.texts([Path(str(image.source)).read_text() for image in images])


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TaskRun]:
    def run(
        captions: Mapping[str, Sequence[Any]], encoder: Any, more: str = "", by_row: bool = True, **settings: Any
    ) -> TaskRun:
        for image in captions:
            (tmp_path / image).write_text(image)
        pairs = [(image, text) for image, texts in captions.items() for text in texts]
        rows = [{"photo": image, "caption": text} for image, text in (pairs if by_row else captions.items())]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "mine.yaml").write_text(TASK + more)
        settings = {"resamples": 0, "include_path": [tmp_path], **settings}
        return capbench.evaluate(encoder, "mine", **settings)["mine"]

    return run


@pytest.mark.parametrize(("noise", "by_row"), [(1.2, False), (1.2, True), (6, True)])
def test_values_are_those_of_other_harnesses(run: Callable[..., TaskRun], noise: float, by_row: bool):
    images, texts, image_of_text = made_features(noise)
    features = {f"i{at}": vector for at, vector in enumerate(images)} | {f"t{at}": v for at, v in enumerate(texts)}
    captions = {f"i{at}": [f"t{of}" for of in np.flatnonzero(image_of_text == at)] for at in range(len(images))}
    values = {result.metric: result.value for result in run(captions, OfFiles(features), by_row=by_row).results}
    golden = {
        f"{way}_{name}": value for way, of_way in CASES["golden"][noise].items() for name, value in of_way.items()
    }
    assert {name: values[name] for name in golden} == pytest.approx(golden, abs=6e-6)


def test_ranks_do_not_depend_on_the_blocks_and_are_those_of_the_whole_matrix(monkeypatch: pytest.MonkeyPatch):
    images, texts, image_of_text = made_features()
    whole = rank_pairs(images, texts, image_of_text)
    cosines = images.astype(float) @ texts.T
    own = cosines[image_of_text, np.arange(len(texts))]
    above = cosines >= own
    assert whole.of_image.tolist() == above.sum(axis=0).tolist()
    assert whole.of_text.tolist() == [(cosines[i] >= value).sum() for i, value in zip(image_of_text, own, strict=True)]
    monkeypatch.setattr(retrieval, "_BLOCK", 13)
    monkeypatch.setattr(retrieval, "_STRIP", 5)
    cut = rank_pairs(images, texts, image_of_text)
    assert all(np.array_equal(getattr(whole, name), getattr(cut, name)) for name in ("of_text", "of_image", "place"))


X, Y, BETWEEN, NEAR = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.6 + 1e-8, 0.8]
FEATURES = {
    "a": X, "b": Y, "c": BETWEEN, "x": X, "x too": X, "y": Y, "between": BETWEEN, "near": NEAR,
    "animated": BETWEEN,
}  # fmt: skip


def test_ties_are_broken_against_the_model(run: Callable[..., TaskRun]):
    # To b, "x too" is as near as a's "x" is; to a, c's "near" and b's "between" are equal up to rounding.
    done = run({"a": ["x", "between"], "b": ["x too"], "c": ["near"]}, OfFiles(FEATURES))
    rows = {(row["id"], row["direction"]): row for row in done.samples.to_pylist()}
    # "x" and "x too" are equal to a, so that "x" comes second; "between" and "near" tie for the third place.
    assert rows["0", "image_to_text"]["rank"] == 2
    assert rows["0", "image_to_text"]["image_to_text_map"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert rows["0", "image_to_text"]["text_to_image_map"] is None
    # To c, "between" and "near" are equal: the own one is the second.
    assert rows["3", "image_to_text"]["rank"] == 2
    assert {row["candidates"][0]: row["rank"] for key, row in rows.items() if key[1] == "text_to_image"} == {
        "x": 1, "between": 3, "x too": 3, "near": 1,
    }  # fmt: skip
    median = next(result for result in done.results if result.metric == "text_to_image_median_rank")
    assert (median.value, median.statistic, median.scale, median.higher_is_better) == (2.0, "median", 1.0, False)


def test_run_records_what_was_left_out_cut_and_how_it_compares(run: Callable[..., TaskRun], tmp_path: Path):
    captions = {"a": ["x", "one two three four", 5], "b": ["y", "five six seven eight"], "c": ["lost"], "d": ["near"]}
    features = FEATURES | {"one two three four": X, "five six seven eight": Y, "d": None}
    settings: dict[str, Any] = {"resamples": 100, "output_path": tmp_path / "runs"}
    done = run(captions, OfFiles(features), "protocol: {captions: 2}\nchecks: {rows: 6, images: 4}\n", **settings)
    # A row without a caption costs that row, an image or a caption that cannot be read the whole image.
    assert [(failure["stage"], failure["samples"]) for failure in done.record.failures] == [
        ("candidate", ["2"]), ("candidate", ["5"]), ("image", ["6"]),
    ]  # fmt: skip
    read = capbench.load_run(done.folder)["mine"]
    assert not read.record.higher_is_better("rank")
    ranks = {key: (value.value, value.scale, value.n) for key, value in read.record.results.items()}
    assert ranks["image_to_text_median_rank.median"] == (1.0, 1.0, 2)
    assert ranks["text_to_image_recall_1"] == (1.0, 100.0, 4)
    cut = read.record.truncation["retrieval"]
    assert (cut.cut, cut.identical) == (2, 2)
    features |= {"y": X, "five six seven eight": X}
    other = run(captions, OfFiles(features), "protocol: {captions: 2}\n", store=tmp_path / "other", **settings)
    (comparison,) = compare_runs([done.folder, other.folder], CompareSettings(metrics=["text_to_image_recall_1"]))
    assert [entry.value for entry in comparison.compared] == [1.0, 0.5]
    assert not any("excluded" in note or "scored in all" in note for note in comparison.notes)


def test_nothing_that_can_be_encoded_is_an_error_and_shards_without_any_are_passed_over(run, monkeypatch):
    monkeypatch.setattr("capbench.benchmarks.running.runner.SHARD_OF_IMAGES", 1)
    done = run({"a": ["lost"], "b": ["y"], "animated": ["near"]}, OfFiles(FEATURES))
    assert [(remark["reason"], remark["samples"]) for remark in done.record.remarks] == [("first frame", ["2"])]
    assert [row["rank"] for row in done.samples.to_pylist() if row["image"]] == [1, 1, 1, 1]
    assert done.record.documents.effective == 2
    with pytest.raises(DataError, match=r"no image can be encoded\n0: candidate cannot be read"):
        run({"a": ["lost"]}, OfFiles(FEATURES))


class OfPairs(OfFiles):
    """Says that it scores pairs."""

    family = PAIRWISE


def test_encoder_of_pairs_is_refused(run: Callable[..., TaskRun]):
    with pytest.raises(UsageError, match="every image with every caption"):
        run({"a": ["x"], "b": ["y"]}, OfPairs(FEATURES))


@pytest.mark.parametrize("task", CASES["released_files"])
def test_released_files_give_the_captions_that_compete(tmp_path: Path, task: str):
    case = CASES["released_files"][task]
    content, lines = case["content"], case["file"].endswith("lines")
    text = (
        "\n".join(map(json.dumps, content)) if lines else content if isinstance(content, str) else json.dumps(content)
    )
    for path, written in ((case["photo"], "photo"), (case["file"], text)):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(written)
    encoder = OfFiles(lambda name: np.array([1.0, len(name)]), context_length=9)
    done = capbench.evaluate(encoder, task, data={task: tmp_path}, skip_checks=True, resamples=0)[task]
    competing = [case["captions"], *([caption] for caption in case["captions"])]
    assert [row["candidates"] for row in done.samples.to_pylist()] == competing
