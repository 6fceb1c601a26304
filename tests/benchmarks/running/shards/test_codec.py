"""What is put aside as bytes comes back as it was; what is damaged is an error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from capbench.adapters import Caption, Captioned, CaptionRequest, ImageHandle, VideoHandle
from capbench.benchmarks.inputs.pixels import LateImage, PixelFinder
from capbench.benchmarks.running.shards.codec import Originals, decode, encode
from capbench.benchmarks.running.shards.shelf import MetricScores, ShardScores
from capbench.boundary import Boundary, OutsideFile
from capbench.errors import StoreError
from capbench.metrics import Items, Scores
from capbench.tasks.row_images import RowImage

FINDER = PixelFinder.__new__(PixelFinder)
IMAGES = [{"picture": b"one"}, {"picture": b"two"}]
PICTURES = [RowImage(IMAGES, "picture", row, Boundary()) for row in range(2)]
# What documents became leaves the first one out, and another without its picture.
DOCUMENTS: list[dict[str, Any]] = [{"text": "a dog"}, {"picture": PICTURES[1]}]
ORIGINALS = Originals(lambda: DOCUMENTS, FINDER)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
any_texts = st.text(max_size=12)
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\0"), min_size=1, max_size=12
)
paths = st.builds(Path, names)
numbers = st.floats(-1000, 1000)
boxes = st.tuples(numbers, numbers, numbers, numbers)
images = st.builds(
    ImageHandle,
    st.one_of(
        paths,
        st.binary(max_size=20),
        st.builds(OutsideFile, paths),
        st.builds(LateImage, st.just(FINDER), names),
        st.sampled_from(PICTURES),
    ),
    st.none() | boxes,
)
videos = st.builds(
    VideoHandle,
    st.one_of(paths, st.binary(max_size=20), st.builds(OutsideFile, paths)),
    st.none() | st.tuples(numbers, numbers, numbers),
)


@st.composite
def items(draw: st.DrawFn) -> Items:
    n = draw(st.integers(0, 4))

    def each(of: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(of, min_size=n, max_size=n))

    def some(of: st.SearchStrategy[Any]) -> Sequence[Any]:
        return each(of) if draw(st.booleans()) else ()

    return Items(
        ids=each(texts),
        candidates=each(texts),
        references=each(st.lists(texts, max_size=3).map(tuple)),
        weights=np.array(each(st.integers(1, 9)), dtype=np.float64),
        images=some(images | videos),
        boxes=some(st.lists(boxes, max_size=2).map(tuple)),
        corpus=np.array(each(st.integers(0, 3)), dtype=np.int64) if draw(st.booleans()) else None,
        objects=some(st.frozensets(texts, max_size=3)),
    )


def there_and_back(value: Any) -> Any:
    content = encode(value)
    assert encode(value) == content
    return decode(content, ORIGINALS)


@given(items())
@settings(max_examples=60)
def test_items(value: Items):
    found = there_and_back(value)
    for field in ("ids", "candidates", "references", "images", "boxes", "objects"):
        assert list(getattr(found, field)) == list(getattr(value, field)), field
    np.testing.assert_array_equal(found.weights, value.weights)
    assert (found.corpus is None) == (value.corpus is None)
    assert value.corpus is None or np.array_equal(found.corpus, value.corpus)
    assert found.weights.dtype == np.float64
    # Equal values have equal bytes, so that they have one name on the shelf.
    assert encode(found) == encode(value)


requests = st.builds(
    CaptionRequest,
    texts,
    st.none() | any_texts | st.integers(-5, 5),
    any_texts,
    st.dictionaries(texts, st.integers() | st.booleans() | texts, max_size=2),
    st.booleans(),
    st.none() | images | videos,
)


@given(st.lists(requests, max_size=3))
@settings(max_examples=60)
def test_requests(value: list[CaptionRequest]):
    assert there_and_back(value) == value


def test_requests_of_one_task_share_their_settings():
    shared = {"max_new_tokens": 3}
    value = [CaptionRequest(str(n), "a.jpg", "Describe.", shared) for n in range(3)]
    found = there_and_back([*value, CaptionRequest("3", "a.jpg", "Describe.", {"max_new_tokens": 4})])
    assert found[0].generation_kwargs is found[2].generation_kwargs
    assert found[3].generation_kwargs == {"max_new_tokens": 4}


def test_image_that_is_no_name_is_called_by_its_hash():
    (found,) = there_and_back([CaptionRequest("0", {"bytes": b"x"}, "", {})])
    assert found.image.startswith("sha256:")


positions = st.integers(0, 50)


@given(
    st.builds(
        Captioned,
        st.dictionaries(
            positions,
            st.builds(
                Caption,
                any_texts,
                st.none() | st.integers(0, 99),
                st.none() | st.booleans(),
                remark=any_texts,
            ),
            max_size=3,
        ),
        st.dictionaries(positions, any_texts, max_size=3),
        st.dictionaries(positions, any_texts, max_size=3),
        st.frozensets(positions, max_size=3),
    )
)
@settings(max_examples=60)
def test_captions(value: Captioned):
    found = there_and_back(value)
    assert found == value
    assert list(found.captions) == list(value.captions)


arrays = npst.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.uint64, np.uint8, np.bool_]),
    npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
)


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@given(st.dictionaries(texts, arrays, max_size=3))
@settings(max_examples=60)
def test_arrays(value: dict[str, np.ndarray]):
    found = there_and_back(value)
    assert list(found) == list(value)
    assert all(is_same(found[name], value[name]) for name in value)


@st.composite
def scores(draw: st.DrawFn) -> ShardScores:
    n = draw(st.integers(0, 3))
    values = npst.arrays(np.float64, n, elements=st.floats(allow_nan=True))
    told = st.dictionaries(st.integers(0, 12), any_texts, max_size=2)
    parts = st.dictionaries(texts, values, max_size=2)
    one = st.builds(Scores, values, parts, told, told)
    metrics = st.builds(
        MetricScores, texts, st.none() | one, any_texts, st.floats(0, 9), of_model=st.booleans()
    )
    return ShardScores(draw(st.lists(metrics, max_size=12)), draw(told), draw(told))


@given(scores())
@settings(max_examples=60)
def test_scores(value: ShardScores):
    found = there_and_back(value)
    assert (found.ids, found.remarks) == (value.ids, value.remarks)
    for one, other in zip(found.metrics, value.metrics, strict=True):
        assert (one.name, one.error, one.seconds) == (other.name, other.error, other.seconds)
        assert one.of_model == other.of_model
        assert (one.scores is None) == (other.scores is None)
        if one.scores is not None and other.scores is not None:
            assert is_same(one.scores.values, other.scores.values)
            assert list(one.scores.parts) == list(other.scores.parts)
            assert all(is_same(part, other.scores.parts[name]) for name, part in one.scores.parts.items())
            assert (one.scores.failures, one.scores.remarks) == (other.scores.failures, other.scores.remarks)


def test_columns():
    columns = {
        "id": ["a", "b"],
        "references": [("x", "y"), ()],
        "ratings": [[1.0, None], []],
        "none": [None, None],
        "preferred": [1, 0],
    }
    assert there_and_back(columns) == {**columns, "references": [["x", "y"], []]}


class Drawn:
    """An image that is drawn when it is read."""

    def read_bytes(self) -> bytes:
        return b"drawn"


def one_item(handle: ImageHandle | VideoHandle) -> Items:
    return Items(["a"], ["a dog"], [()], np.ones(1), [handle])


def test_image_that_is_drawn_is_handed_on_as_what_is_read():
    assert there_and_back(one_item(ImageHandle(Drawn()))).images == [ImageHandle(b"drawn")]


def test_items_of_one_image_share_its_handle_and_of_one_set_of_references_the_set():
    value = Items(
        ["a", "b"], ["x", "y"], [("r",), ("r",)], np.ones(2), [ImageHandle(b"1"), ImageHandle(b"1")]
    )
    found = there_and_back(value)
    assert found.images[0] is found.images[1]
    assert found.references[0] is found.references[1]


VALUES = [
    one_item(ImageHandle(Path("a.jpg"))),
    [CaptionRequest("0", "a.jpg", "Describe.", {})],
    Captioned({0: Caption("a dog")}, {}, {}, frozenset()),
    ShardScores([MetricScores("length", Scores(np.arange(3.0)))], {0: "a"}, {0: "is strange"}),
    {"a": np.arange(4), "b": np.ones((2, 2))},
    {"id": ["a", "b"], "candidate": ["x", "y"]},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_cut_bytes_are_an_error(value: Any):
    content = encode(value)
    for end in range(len(content)):
        with pytest.raises(StoreError, match="what a run put aside cannot be read"):
            decode(content[:end], ORIGINALS)


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"pickles " + b"x" * 20, b"arrays  " + b"\xff" * 8])
def test_bytes_of_something_else_are_an_error(content: bytes):
    with pytest.raises(StoreError, match="cannot be read"):
        decode(content, ORIGINALS)
