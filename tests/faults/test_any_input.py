"""Whatever captions, ratings, rows, task files and records hold: a result or a named fault, never a traceback.

Rows that are scored and rows that are named are the rows that were given, and their order changes no number.
"""

import io
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import task_keys
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.images.reading import MAX_PIXELS, UnreadableImage, read_image
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import BenchError, DataError
from capbench.rows import SUFFIXES, BadRow, read_rows

pytestmark = pytest.mark.costly

# A hang fails; a machine that others use may stall for seconds.
many = partial(
    settings,
    deadline=timedelta(seconds=30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

WORDS = st.lists(st.sampled_from(["a", "dog", "runs", "red", "Bus", "don't", "3.5"]), max_size=6).map(" ".join)
TEXTS = st.one_of(
    WORDS,
    WORDS,
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", ".", "\0", "\ud800", "a\u2028dog", "a\r\ndog", "é" * 40, "狗", "\u202edog", "𝔡𝔬𝔤", "<b>"]
    ),
)
REFERENCES = st.lists(TEXTS, max_size=3) | TEXTS | st.none() | st.integers()
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def same(first: float | None, other: float | None) -> bool:
    """Tell whether two numbers are the same, but for the order in which they were summed."""
    if first is None or other is None:
        return first is other
    return math.isclose(first, other, rel_tol=1e-12, abs_tol=1e-12)


def written(folder: Path, rows: Iterable[Any], name: str) -> Path:
    """Write rows as JSON Lines; bytes are a line as it is."""
    path = folder / name
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return path


def run_of(folder: Path, task: dict[str, Any], rows: Sequence[Any], captions: Sequence[Any] = ()) -> TaskRun | None:
    """Return the run of a task over rows, with recorded captions; None where a fault is named."""
    written(folder, rows, "rows.jsonl")
    model = f"captions:{written(folder, captions, 'captions.jsonl')}" if captions else None
    (folder / "any.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    with suppress(BenchError):
        return capbench.evaluate(model, ["any"], include_path=[folder], resamples=0, store=folder / "store.sqlite")[
            "any"
        ]
    return None


def same_numbers(first: TaskRun, other: TaskRun) -> bool:
    return all(
        (a.metric, a.statistic, a.n, a.reason) == (b.metric, b.statistic, b.n, b.reason) and same(a.value, b.value)
        for a, b in zip(first.results, other.results, strict=True)
    )


def assert_each_is_scored_or_named(count: int, scored: int, faults: Iterable[Any]) -> None:
    """A row that is scored all the same may be named, too; none is named twice."""
    named = sum(fault["count"] for fault in faults if fault["stage"] != "metric")
    assert count - scored <= named <= count
    assert 0 < scored <= count


BASE = {"task": "any", "doc_to_id": "id", "metric_list": ["bleu_1", "cider", "length"]}
CAPTIONING = task_keys.CAPTIONING | BASE
RATED = {"doc_to_human": "ratings", "statistics": ["kendall_b", "kendall_c", "pearson"]}
AGREEMENT = task_keys.AGREEMENT | BASE | RATED
PREFERENCE = (
    task_keys.LOCAL
    | BASE
    | {
        "doc_to_image": "image",
        "doc_to_target": "references",
        "output_type": "preference",
        "doc_to_pair": ["candidate", "other"],
        "doc_to_preferred": "preferred",
    }
)


# --- captions, references, ratings


DOCUMENTS = st.lists(
    st.fixed_dictionaries({"references": REFERENCES}, optional={"image": SCALARS}), min_size=1, max_size=6
)
CAPTIONS = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 7).map(str)}, optional={"caption": ANYTHING})
    | st.just(b"{")
    | ANYTHING,
    max_size=8,
)


@many(max_examples=15)
@given(documents=DOCUMENTS, captions=CAPTIONS)
def test_every_document_is_scored_or_named_once_whatever_captions_and_references_are(
    tmp_path: Path, documents: list[dict[str, Any]], captions: list[Any]
):
    sound = {"id": "sound", "image": "x", "references": ["a dog runs"]}
    rows = [sound, *({"id": str(number), "image": "x"} | row for number, row in enumerate(documents))]
    run = run_of(tmp_path, CAPTIONING, rows, [{"id": "sound", "caption": "a dog"}, *captions])
    if run is None:
        return
    table = run.samples.to_pylist()
    scored = {row["id"] for row in table if row["length"] is not None}
    named = {row["id"] for row in table if row["failure"] is not None}
    assert {row["id"] for row in rows} <= scored | named
    # A caption whose document was left out may be named, too.
    times = Counter(row["id"] for row in table)
    assert all(times[name] == 1 for name in scored)
    assert len(scored) == run.record.documents.effective
    assert run.record.documents.original == len(rows)


@many(max_examples=15)
@given(
    documents=st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=3), WORDS | TEXTS), min_size=1, max_size=6),
    seed=st.randoms(),
)
def test_order_of_documents_and_captions_changes_no_number(
    tmp_path: Path, documents: list[tuple[list[str], str]], seed: random.Random
):
    rows = [{"id": str(n), "image": f"{n}.jpg", "references": texts} for n, (texts, _) in enumerate(documents)]
    captions = [{"id": str(n), "caption": caption} for n, (_, caption) in enumerate(documents)]
    first = run_of(tmp_path, CAPTIONING, rows, captions)
    other = run_of(tmp_path, CAPTIONING, seed.sample(rows, len(rows)), seed.sample(captions, len(captions)))
    assert (first is None) == (other is None)
    assert first is None or other is None or same_numbers(first, other)


RATINGS = st.one_of(
    st.integers(1, 5),
    st.lists(st.integers(1, 5) | st.none(), max_size=3),
    st.sampled_from(["3", "1_0", "nan", math.inf, -0.0, 1e308, True, None, [], [[1]], {"a": 1}]),
    st.floats(allow_nan=False),
)


@many(max_examples=20)
@given(rated=st.lists(st.tuples(TEXTS, RATINGS), min_size=1, max_size=8), seed=st.randoms())
def test_order_of_rated_rows_changes_no_number_and_each_is_scored_or_named(
    tmp_path: Path, rated: list[tuple[str, Any]], seed: random.Random
):
    rated = [("a dog", 1), ("a red dog runs", 3), *rated]
    rows = [
        {"id": str(n), "image": f"{n}.jpg", "candidate": text, "references": ["a dog runs"], "ratings": rating}
        for n, (text, rating) in enumerate(rated)
    ]
    first, other = (run_of(tmp_path, AGREEMENT, ordered) for ordered in (rows, seed.sample(rows, len(rows))))
    assert (first is None) == (other is None)
    if first is not None and other is not None:
        assert same_numbers(first, other)
        assert_each_is_scored_or_named(len(rows), first.record.documents.effective, first.record.failures)


# --- images


@pytest.fixture(scope="module")
def images() -> dict[str, bytes]:
    """A small picture in each format that is common."""
    from PIL import Image

    picture = Image.effect_noise((24, 16), 60).convert("RGB")
    files = {}
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        file = io.BytesIO()
        picture.save(file, kind)
        files[kind] = file.getvalue()
    return files


@pytest.mark.filterwarnings("ignore::UserWarning")
@many(max_examples=100)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]),
    faults=st.lists(
        st.tuples(st.sampled_from(["cut", "flip", "more"]), st.floats(0, 1, exclude_max=True), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    ),
)
def test_damaged_image_is_read_or_a_failure_with_its_cause(
    images: dict[str, bytes], kind: str, faults: list[tuple[str, float, int]]
):
    content = images[kind]
    for fault in faults:
        content = damaged(content, *fault)
    try:
        image = read_image(ImageHandle(content)).image
    except UnreadableImage as error:
        assert str(error).startswith(f"{len(content)} bytes: ") or str(error).startswith("is empty")
    else:
        assert image.width * image.height <= MAX_PIXELS


# --- rows


@many(max_examples=200)
@given(
    content=st.binary(max_size=60) | st.text(alphabet='a1,;\t"\n\r[]{}:\\ é', max_size=40),
    suffix=st.sampled_from(SUFFIXES),
)
def test_any_bytes_are_rows_or_named(tmp_path: Path, content: bytes | str, suffix: str):
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with suppress(DataError):
        assert all(isinstance(row, dict | BadRow) for row in read_rows(path))


# --- task files


KEYS = sorted(
    {*CAPTIONING, *AGREEMENT, *PREFERENCE}
    | {"include", "group", "tag", "protocol", "checks", "generation_kwargs", "test_split", "process_docs", "scale"}
    | {"custom_dataset", "doc_to_category", "doc_to_system", "doc_to_boxes", "doc_to_objects", "published"}
)
VALUES = ANYTHING | st.sampled_from(
    ["{{ id }}", "{{ 1/0 }}", "{% for", "{{ ''.__class__ }}", "../../etc/passwd", "/etc/passwd", "rows.jsonl", "cider"]
)


@many(max_examples=40)
@given(
    task=st.sampled_from([CAPTIONING, AGREEMENT, PREFERENCE]),
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=2),
    value=VALUES,
)
def test_task_file_with_anything_in_the_place_of_a_value_runs_or_is_a_fault(
    tmp_path: Path, task: dict[str, Any], keys: list[str], value: Any
):
    row = {"id": "1", "image": "1.jpg", "candidate": "a dog", "other": "a cat", "preferred": 0, "ratings": [1, 2]}
    rows = [row | {"references": ["a dog runs"]}, row | {"id": "2", "references": ["a bus"], "ratings": [3]}]
    captions = [{"id": "1", "caption": "a dog"}] if task is CAPTIONING else ()
    run_of(tmp_path, {**task, **dict.fromkeys(keys, value)}, rows, captions)


@many(max_examples=40)
@given(values=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_task_file_of_any_keys_runs_or_is_a_fault(tmp_path: Path, values: dict[str, Any]):
    run_of(tmp_path, {"task": "any", **values}, [{"id": "1", "references": ["a dog"]}])


# --- records


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """What ``run.json`` and ``samples.parquet`` of a run hold."""
    folder = tmp_path_factory.mktemp("record")
    rows = [
        {"id": str(n), "image": f"{n}.jpg", "candidate": "dog " * (n + 1), "references": ["a dog"], "ratings": n}
        for n in range(4)
    ]
    written(folder, rows, "rows.jsonl")
    (folder / "any.yaml").write_text(yaml.safe_dump(AGREEMENT))
    run = capbench.evaluate(
        tasks=["any"], include_path=[folder], resamples=20, store=folder / "s.sqlite", output_path=folder / "runs"
    )["any"]
    assert run.folder is not None
    return (run.folder / "run.json").read_bytes(), (run.folder / "samples.parquet").read_bytes()


def damaged(content: bytes, how: str, place: float, byte: int) -> bytes:
    """Return a file that is cut off, or that has another byte somewhere, or some more."""
    at = int(place * len(content))
    match how:
        case "cut":
            return content[:at]
        case "flip":
            return content[:at] + bytes([byte]) + content[at + 1 :]
        case _:
            return content[:at] + bytes([byte]) * 8 + content[at:]


@many(max_examples=150)
@given(
    how=st.sampled_from(["cut", "flip", "more"]),
    place=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    samples=st.booleans(),
)
def test_damaged_record_is_read_or_a_fault(
    tmp_path: Path, record: tuple[bytes, bytes], how: str, place: float, byte: int, samples: bool
):
    contents = list(record)
    contents[samples] = damaged(contents[samples], how, place, byte)
    for name, content in zip(("run.json", "samples.parquet"), contents, strict=True):
        (tmp_path / name).write_bytes(content)
    try:
        run = capbench.load_run(tmp_path)
        table, columns = run.table(), run["any"].samples.column_names
    except BenchError:
        return
    assert "any" in table
    assert "candidate" in columns
    assert contents[1] == record[1]
