"""What is put aside as bytes comes back as it was; what is damaged is an error that says so."""

import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from capbench.adapters import Caption, Captioned, CaptionRequest, FrameSampling, ImageHandle, VideoHandle
from capbench.benchmarks.inputs.images import ImageFinder, LateImage
from capbench.benchmarks.inputs.models import ModelFacts
from capbench.benchmarks.running.scoring import MetricScores
from capbench.benchmarks.scale.folders import Folder
from capbench.benchmarks.scale.mapping import DocumentRows
from capbench.benchmarks.scale.merge import PARTS, map_state, merge_states
from capbench.benchmarks.scale.shards import KeptFrames, Originals, ShardFiles, ShardScores, decode, encode
from capbench.boundary import Boundary, OutsideFile
from capbench.errors import StoreError
from capbench.metrics import Context, CorpusMetric, Items, Scores, build_metric
from capbench.metrics.golden import golden_items
from capbench.tasks.documents import load_documents
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.row_images import RowImage
from capbench.tasks.schema import load_task

FINDER = ImageFinder.__new__(ImageFinder)
IMAGES = [{"picture": b"one"}, {"picture": b"two"}]
PICTURES = [RowImage(IMAGES, "picture", row, Boundary()) for row in range(2)]
# What documents became leaves the first one out, and another without its picture.
DOCUMENTS: list[dict[str, Any]] = [{"text": "a dog"}, {"picture": PICTURES[1]}]
ORIGINALS = Originals(lambda: DOCUMENTS, FINDER)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
any_texts = st.text(max_size=12)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\0"), min_size=1, max_size=12)
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
    """Return what comes out of bytes."""
    return decode(encode(value), ORIGINALS)


FACTS = ModelFacts({"adapter": "mine"}, {"tokens": 3.0}, 77)


@given(items())
@settings(max_examples=25)
def test_items(value: Items):
    copy = there_and_back(value)
    for field in ("ids", "candidates", "references", "images", "boxes", "objects"):
        assert list(getattr(copy, field)) == list(getattr(value, field)), field
    np.testing.assert_array_equal(copy.weights, value.weights)
    assert (copy.corpus is None) == (value.corpus is None)
    assert value.corpus is None or np.array_equal(copy.corpus, value.corpus)
    assert copy.weights.dtype == np.float64


requests = st.builds(
    CaptionRequest,
    texts,
    st.none() | any_texts | st.integers(-5, 5),
    any_texts,
    st.dictionaries(texts, st.integers() | st.booleans() | texts, max_size=2),
    st.booleans(),
    st.none() | images | videos,
    st.builds(FrameSampling, st.integers(1, 9), st.none() | st.floats(0.1, 9)),
)


def test_image_that_is_no_name_is_called_by_its_hash():
    (request,) = there_and_back([CaptionRequest("0", {"bytes": b"x"}, "", {})])
    assert request.image.startswith("sha256:")


positions = st.integers(0, 50)


reasons = st.dictionaries(positions, any_texts, max_size=3)
captions = st.builds(Caption, any_texts, st.none() | st.integers(0, 99), st.none() | st.booleans(), remark=any_texts)
captioned = st.builds(
    Captioned, st.dictionaries(positions, captions, max_size=3), reasons, reasons, st.frozensets(positions, max_size=3)
)


@given(st.lists(requests, max_size=3) | captioned)
@settings(max_examples=25)
def test_requests_and_captions(value: list[CaptionRequest] | Captioned):
    copy = there_and_back(value)
    assert copy == value
    assert isinstance(value, list) or list(copy.captions) == list(value.captions)


def is_same(array: np.ndarray, other: np.ndarray) -> bool:
    return array.dtype == other.dtype and array.shape == other.shape and array.tobytes() == other.tobytes()


@st.composite
def scores(draw: st.DrawFn) -> ShardScores:
    n = draw(st.integers(0, 3))
    values = npst.arrays(np.float64, n, elements=st.floats(allow_nan=True))
    parts = st.dictionaries(texts, values, max_size=2)
    of_metric = st.builds(Scores, values, parts, reasons, reasons)
    sums = st.none() | st.dictionaries(texts, values, max_size=2)
    metrics = st.builds(
        MetricScores, texts, st.none() | of_metric, any_texts, st.floats(0, 9), sums, positions, st.booleans()
    )
    return ShardScores(draw(st.lists(metrics, max_size=12)), draw(reasons), draw(reasons))


@given(scores())
@settings(max_examples=25)
def test_scores(value: ShardScores):
    copy = there_and_back(value)
    assert (copy.ids, copy.remarks) == (value.ids, value.remarks)
    for metric, other in zip(copy.metrics, value.metrics, strict=True):
        assert (metric.name, metric.error, metric.seconds) == (other.name, other.error, other.seconds)
        assert (metric.counted, metric.of_model) == (other.counted, other.of_model)
        assert (metric.sums is None) == (other.sums is None)
        assert all(is_same(array, (other.sums or {})[name]) for name, array in (metric.sums or {}).items())
        assert (metric.scores is None) == (other.scores is None)
        if metric.scores is not None and other.scores is not None:
            assert is_same(metric.scores.values, other.scores.values)
            assert list(metric.scores.parts) == list(other.scores.parts)
            assert all(is_same(part, other.scores.parts[name]) for name, part in metric.scores.parts.items())
            assert (metric.scores.failures, metric.scores.remarks) == (other.scores.failures, other.scores.remarks)


class Drawn:
    """An image that is drawn when it is read."""

    def read_bytes(self) -> bytes:
        return b"drawn"


def test_image_that_is_drawn_is_handed_on_as_what_is_read():
    items = Items(["a"], ["a dog"], [()], np.ones(1), [ImageHandle(Drawn())])
    assert there_and_back(items).images == [ImageHandle(b"drawn")]


def test_value_that_is_none_of_these_is_refused():
    with pytest.raises(TypeError, match="a shard cannot hold object"):
        encode([object()])


def test_cut_bytes_are_an_error():
    content = encode([{"a": np.arange(4)}, ["x", "y"]])
    for end in range(0, len(content), 7):
        with pytest.raises(StoreError, match="an intermediate result cannot be read"):
            decode(content[:end])


@pytest.mark.parametrize("content", [b"", b"\xff" * 9, b"ARROW1" + b"x" * 20])
def test_file_of_something_else_is_none(tmp_path: Path, content: bytes):
    files = ShardFiles(Folder(tmp_path))
    (tmp_path / "one").write_bytes(content)
    assert not files.has("one")
    files.put("one", np.arange(3), {"judge": FACTS})
    assert files.has("one")
    assert files.read("one").tolist() == [0, 1, 2]
    assert files.facts("one") == {"judge": FACTS}


def test_file_that_is_named_by_its_content_is_written_once_and_again_where_it_is_damaged(tmp_path: Path):
    files = ShardFiles(Folder(tmp_path))
    name = files.put_named("items", [1, 2])
    os.utime(tmp_path / name, (0, 0))
    files.put_named("items", [1, 2])
    assert (tmp_path / name).stat().st_mtime == 0
    (tmp_path / name).write_bytes(b"")
    assert files.put_named("items", [1, 2]) == name
    assert files.read(name) == [1, 2]


def test_documents_are_loaded_again_by_another_process_and_not_by_this_one():
    task, parsed = load_task(build_index().entries["shapes_dci_base_neg"].path)
    own = load_documents(task, parsed.path, DataLocations()).rows
    rows = DocumentRows(task, parsed.path, DataLocations(), own)
    assert rows() is own
    sent = pickle.loads(pickle.dumps(rows))  # noqa: S301 - made here
    assert sent.rows is None
    assert sent() == own


@pytest.mark.parametrize("corpus", [None, np.array([0, 1])])
def test_state_of_one_corpus_keeps_what_scoring_needs_again(tmp_path: Path, corpus: np.ndarray | None):
    files = ShardFiles(Folder(tmp_path))
    items = replace(golden_items(["a dog", "a cat"], [["the dog"], ["the cat"]]), corpus=corpus)
    metric = build_metric("cider", {})
    assert isinstance(metric, CorpusMetric)
    map_state(files, "state", metric, items, Context())
    assert bool(files.read("state")["kept"]) == (corpus is None)


def test_states_are_merged_in_pairs_of_as_many_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = ShardFiles(Folder(tmp_path))
    metric = build_metric("cider", {})
    assert isinstance(metric, CorpusMetric)
    names = [f"state {number}" for number in range(5)]
    for name in names:
        map_state(files, name, metric, golden_items([f"a dog {name}"], [[f"the {name}"]]), Context())
    merge, merged, sizes = metric.merge, list[tuple[Any, int]](), list[tuple[int, ...]]()

    def noted(states: Sequence[Any]) -> Any:
        counts = [next((count for other, count in merged if other is state), 1) for state in states]
        merged.append((merge(states), sum(counts)))
        sizes.append(tuple(counts))
        return merged[-1][0]

    monkeypatch.setattr(metric, "merge", noted)
    merge_states(files, "merged", metric, names)
    # At last the parts are joined.
    assert sizes == [(1, 1), (1, 1), (2, 2), (4, 1)] * PARTS + [(1,) * PARTS]


def test_kept_frames_are_equal_by_the_digest_of_their_video():
    first, second = (KeptFrames("1", "a.mp4", [np.full((2, 2, 3), value, np.uint8)]) for value in (0, 9))
    assert len({first, second}) == 1
    assert repr(first) == "KeptFrames(known='1', name='a.mp4')"


def test_file_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(StoreError, match=r"has no result one\nRun again"):
        ShardFiles(Folder(tmp_path)).read("one")
