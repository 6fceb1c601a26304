import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from named_features import NamedFeatures

from capbench.adapters import Box, Encoder, ImageHandle
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError
from capbench.metrics import Cache, Context, Items, NoCache, build_metric
from capbench.metrics.clip_f1 import ClipF1, proportions, text_parts
from capbench.metrics.golden import golden_items

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


def vector(name: str) -> np.ndarray | None:
    """Return features drawn from what an input is called, so that each has its own."""
    if name.startswith("gone") or "-1" in name:
        return None
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(size=24) + 0.7
    return drawn.astype(np.float32)


def seeded() -> NamedFeatures:
    return NamedFeatures(vector, context_length=6)


def items_of(
    captions: Sequence[str] = CAPTIONS,
    boxes: Sequence[tuple[Box, ...]] = BOXES,
    images: Sequence[str | Path] = ("a", "b", "c", "d"),
) -> Items:
    handles = [ImageHandle(image if isinstance(image, Path) else image.encode()) for image in images]
    return golden_items(captions, [()] * len(captions), images=handles, boxes=list(boxes))


def by_definition(image: str, boxes: tuple[Box, ...], texts: list[str], k: int) -> tuple[float, float, float]:
    """Section 4.3 word for word: precision, recall and F1 of one caption."""
    image_parts = np.array([*(vector(image + str(box)) for box in boxes), vector(image)], np.float64)
    words = np.array([vector(text) for text in texts], np.float64)
    recall, precision = by_lstsq(image_parts, words, k).mean(), by_lstsq(words, image_parts, k).mean()
    return precision, recall, 2 * precision * recall / (precision + recall)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def score(name: str, items: Items, encoder: Encoder | None = None, cache: Cache | None = None, **keys: Any):
    context = Context(encoder=encoder or seeded(), cache=cache or NoCache())
    return build_metric(name, keys).score(items, context)


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
def test_values_follow_the_definition(k: int):
    expected = [
        by_definition(image, boxes, text_parts(caption), k)
        for image, boxes, caption in zip("abcd", BOXES, CAPTIONS, strict=True)
    ]
    for column, name in enumerate(("clip_precision", "clip_recall", "clip_f1")):
        scores = score(name, items_of(), k=k)
        assert not scores.failures
        np.testing.assert_allclose(scores.values, np.array(expected)[:, column], atol=1e-6)
    np.testing.assert_array_equal(scores.parts["image_parts"], [4, 1, 2, 5])
    np.testing.assert_array_equal(scores.parts["text_parts"], [5, 2, 3, 3])
    np.testing.assert_array_equal(scores.parts["truncated"], [1, 0, 1, 0])


def test_f1_of_the_set_is_the_mean_over_images_and_five_is_the_default():
    scores = score("clip_f1", items_of())
    np.testing.assert_array_equal(scores.values, score("clip_f1", items_of(), k=5).values)
    p, r = scores.parts["precision"], scores.parts["recall"]
    np.testing.assert_allclose(scores.values, 2 * p * r / (p + r))
    mean = build_metric("clip_f1", {}).corpus(scores, np.ones(4))
    assert mean == pytest.approx(scores.values.mean())
    # The paper's F1 lies below the harmonic mean of its precision and recall.
    assert mean < 2 * p.mean() * r.mean() / (p.mean() + r.mean())


def test_prompt_goes_before_every_text_part():
    encoder = seeded()
    scores = score("clip_f1", items_of(CAPTIONS[:1], BOXES[:1], "a"), encoder, prompt="A photo of ")
    texts = ["A photo of " + text for text in text_parts(CAPTIONS[0])]
    assert scores.values[0] == pytest.approx(by_definition("a", BOXES[0], texts, 5)[2], abs=1e-6)
    assert set(texts) < set(encoder.encoded)
    metric = build_metric("clip_f1", {"prompt": "A photo of "})
    assert isinstance(metric, ClipF1)
    of_texts, of_image = metric.explain(items_of(CAPTIONS[:1], BOXES[:1], "a"), Context(encoder=encoder))
    for name, parts in (("precision", of_texts), ("recall", of_image)):
        assert np.mean([share for *_, share in parts]) == pytest.approx(scores.parts[name][0])


def test_three_metrics_encode_once_and_a_second_run_not_at_all(store: Store):
    encoder = seeded()
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


def test_boxes_that_cannot_be_cropped_cost_only_themselves():
    boxes = [(*BOXES[0], (-1.0, -1.0, 0.0, 0.0)), *BOXES[1:]]
    scores = score("clip_f1", items_of(boxes=boxes))
    assert not scores.failures
    np.testing.assert_array_equal(scores.parts["lost_boxes"], [1, 0, 0, 0])
    np.testing.assert_array_equal(scores.values, score("clip_f1", items_of()).values)


def test_image_that_cannot_be_read_costs_no_other_and_a_remark_is_of_its_item(tmp_path: Path, store: Store):
    missing = tmp_path / "e.jpg"
    images = [*"abcd", "gone", missing, "animated"]
    items = items_of([*CAPTIONS, "x", "y", "z"], [*BOXES, (), (), ()], images)
    scores, again = (score("clip_f1", items, cache=store) for _ in "ab")
    assert scores.remarks == again.remarks == {6: "first frame"}
    assert scores.failures == {4: "image: cannot be read", 5: f"image {missing}: No such file or directory"}
    assert np.isnan(scores.values).tolist() == [False] * 4 + [True, True, False]
    np.testing.assert_array_equal(scores.parts["truncated"][4:], 0)
    np.testing.assert_array_equal(scores.values[:4], score("clip_f1", items_of()).values)


def test_text_part_that_cannot_be_encoded_is_the_reason_of_its_item_alone():
    scores = score("clip_f1", items_of(["Here. gone away", *CAPTIONS[1:]]))
    assert scores.failures == {0: "text: cannot be read"}
    assert np.isnan(scores.values[0])
    np.testing.assert_array_equal(scores.values[1:], score("clip_f1", items_of()).values[1:])


def test_values_do_not_depend_on_how_items_are_grouped(monkeypatch: pytest.MonkeyPatch):
    # Two captions of image a lie apart; its crops are encoded once all the same.
    items = items_of([*CAPTIONS, "x y"], [*BOXES, BOXES[0]], "abcda")
    whole = score("clip_f1", items).values
    monkeypatch.setattr("capbench.metrics.clip_f1._PARTS_A_GROUP", 8)
    encoder, steps = seeded(), []
    context = Context(encoder=encoder, progress=lambda done, total: steps.append((done, total)))
    np.testing.assert_array_equal(build_metric("clip_f1", {}).score(items, context).values, whole)
    of_a = sorted(name for name in encoder.encoded if name.startswith("a"))
    assert of_a == ["a", "a(0, 0, 9, 9)", "a(3, 3, 8, 9)"]
    assert steps == [(0, 5), (2, 5), (5, 5)]


def test_no_encoder_is_an_error_with_the_remedy():
    with pytest.raises(MetricError, match="needs a model that encodes images and texts"):
        build_metric("clip_f1", {}).score(items_of(), Context())


def test_whole_image_is_the_only_part_where_boxes_are_not_asked_for(store: Store):
    expected = [by_definition(image, (), text_parts(text), 5) for image, text in zip("abcd", CAPTIONS, strict=True)]
    # Neither the boxes that a data set has, nor their lack, change anything.
    for boxes in (BOXES, ()):
        for column, name in enumerate(("clip_precision", "clip_recall", "clip_f1")):
            scores = score(name, items_of(boxes=boxes), cache=store, parts="whole")
            np.testing.assert_allclose(scores.values, np.array(expected)[:, column], atol=1e-6)
            np.testing.assert_array_equal(scores.parts["image_parts"], 1)
    assert not np.allclose(score("clip_f1", items_of(), cache=store).values, np.array(expected)[:, 2])


def test_whole_image_needs_no_boxes_and_is_told_apart():
    of_boxes, whole = build_metric("clip_f1", {}), build_metric("clip_f1", {"parts": "whole"})
    assert of_boxes.needs == {"image", "boxes", "encoder"}
    assert whole.needs == {"image", "encoder"}
    assert (of_boxes.label, whole.label) == ("CLIP-F1", "CLIP-F1 (whole image)")
    assert of_boxes.fingerprint() != whole.fingerprint()


SIZE = 48


def by_lstsq(vectors: np.ndarray, members: np.ndarray, k: int) -> np.ndarray:
    """The definition word for word: a call of lstsq for each vector, on members of norm 1."""
    members = members / np.linalg.norm(members, axis=1, keepdims=True)
    lengths = []
    for vector in vectors:
        nearest = members[np.argsort(-(members @ vector), kind="stable")[:k]].T
        coefficients = np.linalg.lstsq(nearest, vector, rcond=None)[0]
        lengths.append(np.linalg.norm(nearest @ coefficients) / np.linalg.norm(vector))
    return np.array(lengths)


def vectors(generator: np.random.Generator, count: int) -> np.ndarray:
    """Vectors of any length about a direction that they share."""
    return generator.lognormal(size=(count, 1)) * (0.5 + generator.normal(size=(count, SIZE)))


def assert_equal_to_lstsq(pairs: list[tuple[np.ndarray, np.ndarray]], k: int) -> None:
    shares = proportions(pairs, k)
    assert len(shares) == len(pairs)
    for (first, second), (by_second, by_first) in zip(pairs, shares, strict=True):
        np.testing.assert_allclose(by_second, by_lstsq(first, second, k), rtol=0, atol=1e-6)
        np.testing.assert_allclose(by_first, by_lstsq(second, first, k), rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 100])
def test_values_are_those_of_lstsq_on_sets_of_all_sizes(k: int):
    generator = np.random.default_rng(0)
    sizes = [(1, 1), (1, 9), (60, 2), (12, 12), (3, 40), *generator.integers(1, 30, size=(40, 2)).tolist()]
    assert_equal_to_lstsq([(vectors(generator, n), vectors(generator, m)) for n, m in sizes], k)


@pytest.mark.parametrize("distance", [0.0, 1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-8])
def test_members_that_are_nearly_or_quite_the_same(distance: float):
    generator = np.random.default_rng(1)
    pairs = []
    for _ in range(10):
        first, second = vectors(generator, 6), vectors(generator, 5)
        # Three of each, the copies as far away as said.
        first = np.concatenate([first, *(first + distance * generator.normal(size=first.shape) for _ in "ab")])
        second = np.concatenate([second, second + distance * generator.normal(size=second.shape)])
        pairs.append((first, second))
    for k in (2, 4, 10):
        assert_equal_to_lstsq(pairs, k)


def test_members_that_depend_on_each_other_and_are_no_copies():
    generator = np.random.default_rng(2)
    a, b = vectors(generator, 2)
    assert_equal_to_lstsq([(np.stack([a, b, a + b, a + 2 * b]), vectors(generator, 3))], 4)


def test_vectors_that_point_away_from_every_member():
    generator = np.random.default_rng(3)
    first = vectors(generator, 8)
    assert_equal_to_lstsq([(first, -first[:3])], 2)
    # k = 1 is the absolute cosine with the most similar member, which here is the least unlike.
    (value,), _ = proportions([(np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0], [-0.6, 0.8]]))], 1)[0]
    assert value == pytest.approx(0.6)


def test_value_calculated_by_hand():
    # Onto the plane of x and y, (1, 2, 2) is (1, 2, 0): sqrt(5) / 3. With z alone: 2 / 3.
    vector = np.array([[1.0, 2.0, 2.0]])
    (both,), each = proportions([(vector, np.array([[1.0, 0.0, 0.0], [1.0, 5.0, 0.0]]))], 2)[0]
    assert both == pytest.approx(np.sqrt(5) / 3)
    assert each == pytest.approx([1 / 3, 11 / (3 * np.sqrt(26))])
    (share,), _ = proportions([(vector, np.array([[0.0, 0.0, 7.0], [-1.0, 0.0, 0.0]]))], 1)[0]
    assert share == pytest.approx(2 / 3)


def test_copies_that_differ_by_the_rounding_of_single_precision_add_nothing():
    generator = np.random.default_rng(4)
    first, second = vectors(generator, 5).astype(np.float32), vectors(generator, 4).astype(np.float32)
    copies = second * np.float32(1 + 1e-7) + np.float32(5e-6) * generator.normal(size=second.shape).astype(np.float32)
    pairs = [(first, second), (first, np.concatenate([second, copies])), (first.astype(float), second.astype(float))]
    (plain, _), (with_copies, _), _ = proportions(pairs, 8)
    np.testing.assert_allclose(with_copies, plain, atol=1e-6)
