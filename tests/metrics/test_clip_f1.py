from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capbench
from capbench.adapters import Box, Encoded, Encoder, ImageHandle, VideoHandle
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError, UsageError
from capbench.metrics import Cache, Context, Items, NoCache, build_metric
from capbench.metrics.clip_f1 import text_parts

CAPTIONS = [
    "A dog runs. Is it fast? It is! The grass is green",
    "One dog.",
    "A man on a horse... He waves.",
    "A dog runs. A dog runs.",
]
BOXES: list[tuple[Box, ...]] = [
    ((0, 0, 9, 9), (3, 3, 8, 9), (0, 0, 9, 9)),
    (),
    ((1, 1, 2, 2),),
    ((5, 5, 9, 9), (1, 2, 3, 4), (2, 2, 7, 7), (0, 1, 5, 6)),
]


class Seeded(Encoder):
    """Features drawn from what an input is called, so that each has its own; counts what it encodes."""

    context_length = 6

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"encoder": "seeded"}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        return self._of([bytes(image.source).decode() + str(image.box or "") for image in images])

    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        return self._of(list(texts))

    def _of(self, names: list[str]) -> Iterator[Encoded]:
        self.encoded += names
        lost = {n: "cannot be read" for n, name in enumerate(names) if name.startswith("gone") or "-1" in name}
        yield Encoded({n: vector(name) for n, name in enumerate(names) if n not in lost}, lost)

    def tokens(self, texts: Sequence[str]) -> Iterator[Encoded]:
        raise NotImplementedError

    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        raise NotImplementedError


def vector(name: str) -> np.ndarray:
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(size=24) + 0.7
    return drawn.astype(np.float32)


def items_of(
    captions: Sequence[str] = CAPTIONS,
    boxes: Sequence[tuple[Box, ...]] = BOXES,
    images: Sequence[str | Path] = ("a", "b", "c", "d"),
) -> Items:
    return Items(
        ids=[str(n) for n in range(len(captions))],
        candidates=list(captions),
        references=[()] * len(captions),
        weights=np.ones(len(captions)),
        images=[ImageHandle(image if isinstance(image, Path) else image.encode()) for image in images],
        boxes=list(boxes),
    )


def represented(one: np.ndarray, members: list[np.ndarray], k: int) -> float:
    unit = np.stack([member / np.linalg.norm(member) for member in members]).astype(np.float64)
    nearest = unit[np.argsort(-(unit @ one))[:k]].T
    fit = nearest @ np.linalg.lstsq(nearest, one.astype(np.float64), rcond=None)[0]
    return float(np.linalg.norm(fit) / np.linalg.norm(one))


def by_definition(image: str, boxes: tuple[Box, ...], texts: list[str], k: int) -> tuple[float, float, float]:
    """Section 4.3 word for word: precision, recall and F1 of one caption."""
    image_parts = [vector(image + str(box)) for box in boxes] + [vector(image)]
    words = [vector(text) for text in texts]
    recall = float(np.mean([represented(part, words, k) for part in image_parts]))
    precision = float(np.mean([represented(part, image_parts, k) for part in words]))
    return precision, recall, 2 * precision * recall / (precision + recall)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def score() -> Callable[..., Any]:
    def scored(name: str, items: Items, encoder: Encoder | None = None, cache: Cache | None = None, **keys: Any):
        context = Context(encoder=encoder or Seeded(), cache=cache or NoCache())
        return build_metric(name, keys).score(items, context)

    return scored


def test_a_caption_is_cut_at_full_stops_question_and_exclamation_marks():
    assert text_parts(" A dog. Is it?!  Yes ") == ["A dog", "Is it", "Yes", "A dog. Is it?!  Yes"]
    assert text_parts("It cost 3.5 dollars, e.g. here") == [
        "It cost 3", "5 dollars, e", "g", "here", "It cost 3.5 dollars, e.g. here"
    ]  # fmt: skip
    # A sentence of its own is a part beside the caption, and one that comes twice is two parts.
    assert text_parts("One dog.") == ["One dog", "One dog."]
    assert text_parts('He says "hi." "Hi!"') == ['He says "hi', '" "Hi', 'He says "hi." "Hi!"']
    assert text_parts("Run! Run!") == ["Run", "Run", "Run! Run!"]


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_values_follow_the_definition(score: Callable, k: int):
    expected = [
        by_definition(image, boxes, text_parts(caption), k)
        for image, boxes, caption in zip("abcd", BOXES, CAPTIONS, strict=True)
    ]
    for column, name in enumerate(("clip_precision", "clip_recall", "clip_f1")):
        found = score(name, items_of(), k=k)
        assert not found.failures
        np.testing.assert_allclose(found.values, np.array(expected)[:, column], atol=1e-6)
    np.testing.assert_array_equal(found.parts["image_parts"], [4, 1, 2, 5])
    np.testing.assert_array_equal(found.parts["text_parts"], [5, 2, 3, 3])
    np.testing.assert_array_equal(found.parts["truncated"], [1, 0, 1, 0])


def test_f1_of_the_set_is_the_mean_over_images_and_five_is_the_default(score: Callable):
    found = score("clip_f1", items_of())
    np.testing.assert_array_equal(found.values, score("clip_f1", items_of(), k=5).values)
    p, r = found.parts["precision"], found.parts["recall"]
    np.testing.assert_allclose(found.values, 2 * p * r / (p + r))
    mean = build_metric("clip_f1", {}).corpus(found, np.ones(4))
    assert mean == pytest.approx(found.values.mean())
    # The paper's F1 lies below the harmonic mean of its precision and recall.
    assert mean < 2 * p.mean() * r.mean() / (p.mean() + r.mean())


def test_prompt_goes_before_every_text_part(score: Callable):
    encoder = Seeded()
    found = score("clip_f1", items_of(CAPTIONS[:1], BOXES[:1], "a"), encoder, prompt="A photo of ")
    texts = ["A photo of " + text for text in text_parts(CAPTIONS[0])]
    assert found.values[0] == pytest.approx(by_definition("a", BOXES[0], texts, 5)[2], abs=1e-6)
    assert set(texts) < set(encoder.encoded)


def test_three_metrics_encode_once_and_a_second_run_not_at_all(score: Callable, store: Store):
    encoder = Seeded()
    scored = [score(name, items_of(), encoder, store) for name in ("clip_precision", "clip_recall", "clip_f1")]
    # Each crop once, though one of image a is listed twice; the sentence of the last caption too.
    assert len(encoder.encoded) == len(set(encoder.encoded)) == 3 + 1 + 2 + 5 + 5 + 2 + 3 + 1
    computed = store.computed
    again = score("clip_f1", items_of(), encoder, store)
    assert store.computed == computed
    np.testing.assert_array_equal(again.values, scored[2].values)
    # Another k is other values of the same features.
    score("clip_f1", items_of(), encoder, store, k=3)
    assert len(encoder.encoded) == 22
    assert store.computed == computed + 4


def test_boxes_that_cannot_be_cropped_cost_only_themselves(score: Callable):
    boxes = [(*BOXES[0], (-1.0, -1.0, 0.0, 0.0)), *BOXES[1:]]
    found = score("clip_f1", items_of(boxes=boxes))
    assert not found.failures
    np.testing.assert_array_equal(found.parts["lost_boxes"], [1, 0, 0, 0])
    np.testing.assert_array_equal(found.values, score("clip_f1", items_of()).values)


def test_image_that_cannot_be_read_costs_no_other(score: Callable, tmp_path: Path):
    missing = tmp_path / "e.jpg"
    items = items_of([*CAPTIONS, "x", "y"], [*BOXES, (), ()], ["a", "b", "c", "d", "gone", missing])
    found = score("clip_f1", items)
    assert found.failures == {4: "image: cannot be read", 5: f"image {missing}: No such file or directory"}
    assert np.isnan(found.values[4:]).all()
    np.testing.assert_array_equal(found.parts["truncated"][4:], 0)
    np.testing.assert_array_equal(found.values[:4], score("clip_f1", items_of()).values)


def test_text_part_that_cannot_be_encoded_is_the_reason_of_its_item_alone(score: Callable):
    found = score("clip_f1", items_of(["Here. gone away", *CAPTIONS[1:]]))
    assert found.failures == {0: "text: cannot be read"}
    assert np.isnan(found.values[0])
    np.testing.assert_array_equal(found.values[1:], score("clip_f1", items_of()).values[1:])


def test_values_do_not_depend_on_how_items_are_grouped(score: Callable, monkeypatch: pytest.MonkeyPatch):
    # Two captions of image a lie apart; its crops are encoded once all the same.
    items = items_of([*CAPTIONS, "x y"], [*BOXES, BOXES[0]], "abcda")
    whole = score("clip_f1", items).values
    monkeypatch.setattr("capbench.metrics.clip_f1._PARTS_A_GROUP", 8)
    encoder, steps = Seeded(), []
    context = Context(encoder=encoder, progress=lambda done, total: steps.append((done, total)))
    np.testing.assert_array_equal(build_metric("clip_f1", {}).score(items, context).values, whole)
    of_a = sorted(name for name in encoder.encoded if name.startswith("a"))
    assert of_a == ["a", "a(0, 0, 9, 9)", "a(3, 3, 8, 9)"]
    assert steps == [(0, 5), (2, 5), (5, 5)]


def test_repeated_items_have_the_values_of_the_first(score: Callable):
    found = score("clip_f1", items_of([CAPTIONS[0]] * 2, [BOXES[0]] * 2, "aa"))
    assert found.values[0] == found.values[1]


def test_no_encoder_is_an_error_with_the_remedy():
    with pytest.raises(MetricError, match="needs a model that encodes images and texts"):
        build_metric("clip_f1", {}).score(items_of(), Context())


def test_whole_image_is_the_only_part_where_boxes_are_not_asked_for(score: Callable, store: Store):
    expected = [
        by_definition(image, (), text_parts(caption), 5) for image, caption in zip("abcd", CAPTIONS, strict=True)
    ]
    # Neither the boxes that a data set has, nor their lack, change anything.
    for boxes in (BOXES, ()):
        for column, name in enumerate(("clip_precision", "clip_recall", "clip_f1")):
            found = score(name, items_of(boxes=boxes), cache=store, parts="whole")
            np.testing.assert_allclose(found.values, np.array(expected)[:, column], atol=1e-6)
            np.testing.assert_array_equal(found.parts["image_parts"], 1)
    assert not np.allclose(score("clip_f1", items_of(), cache=store).values, np.array(expected)[:, 2])


def test_whole_image_needs_no_boxes_and_is_told_apart():
    of_boxes, whole = build_metric("clip_f1", {}), build_metric("clip_f1", {"parts": "whole"})
    assert of_boxes.needs == {"image", "boxes", "encoder"}
    assert whole.needs == {"image", "encoder"}
    assert (of_boxes.label, whole.label) == ("CLIP-F1", "CLIP-F1 (whole image)")
    assert of_boxes.fingerprint() != whole.fingerprint()
    with pytest.raises(ValueError, match="parts is boxes or whole, not 'crops'"):
        build_metric("clip_f1", {"parts": "crops"})


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
def test_k_that_is_no_count_is_refused(k: Any):
    with pytest.raises(ValueError, match="at least 1"):
        build_metric("clip_recall", {"k": k})


def test_rows_without_boxes_or_encoder_are_refused():
    row = {"id": "1", "image": b"a", "candidate": "A dog."}
    with pytest.raises(UsageError, match="needs a model that encodes"):
        capbench.score([row], ["clip_f1"])
