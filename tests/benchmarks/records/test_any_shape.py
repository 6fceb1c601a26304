"""A record of any inner shape, with sums that fit it: each reader works with it, or refuses it by name."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from finished_runs import seal, write_record
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made_records import rated_captions

from capbench import load_run
from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.comparing.tables import render_comparisons
from capbench.benchmarks.interchange.hub_results import write_dataset
from capbench.benchmarks.interchange.lm_eval_results import write_results
from capbench.benchmarks.leaderboard.build import leaderboard_files
from capbench.benchmarks.leaderboard.collect import collect
from capbench.benchmarks.plots import agreement_figure, length_figure, ratings_figure, read_records
from capbench.benchmarks.records.reading import read_record, read_task_run
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.records.schema import SCHEMA_PATH, schema_text
from capbench.benchmarks.running.rescoring import score_again, verify_run
from capbench.benchmarks.tables.results import write_table
from capbench.errors import BenchError, DataError
from capbench.tasks.index import TaskIndex

KEY = "cider.kendall_c"


def whole_record() -> dict[str, Any]:
    """Return a record in which every key that readers look at holds something."""
    record = rated_captions(
        ["cider", "bleu"],
        task="rated",
        published={"cider": 0.41},
        groups={"cider": "a", "bleu": "b"},
        model_name="a model",
        failures=[{"stage": "image", "reason": "is no image", "count": 2, "samples": ["x", "y"]}],
        remarks=[{"stage": "image", "reason": "first frame", "count": 1, "samples": ["z"]}],
        metric_errors=[{"metric": "spice", "reason": "no Java"}],
        metrics_left_out={"clip_s": "needs an encoder"},
        data_checks=[{"check": "rows", "expected": 5, "found": 5, "passed": True}],
        truncation={"cider": {"captions": 9, "cut": 1, "share": 0.1, "context_length": 77}},
        generation={"captions": 3, "usage": {"tokens": 3}},
        judging={"usage": {"calls": 2}},
        documents_hash="0" * 64,
        redistribution="full",
        samples="full",
        pictures={"a": f"pictures/{'a' * 16}.jpg"},
        timings={"data": 0.5, "each_metric": {"cider": 0.1}},
    )
    record["histograms"].pop("bleu")
    record["config"] |= {
        "encoder": "some-clip", "encoder_args": {"dtype": "half"}, "judge": None, "judge_args": {},
        "generation_kwargs": {"num_beams": 1}, "seed": 3,
    }  # fmt: skip
    record["configs"]["rated"] |= {
        "task": "rated",
        "description": "What people say.",
        "doc_to_text": "Describe it.",
        "generation_kwargs": {"max_new_tokens": 5},
        "metric_list": [{"metric": "cider"}, {"metric": "bleu_1", "name": "bleu"}],
        "statistics": [{"statistic": "kendall_c"}],
        "published": {"paper": "pacspp", "table": 1, "task": "Composite"},
    }
    parts = record["fingerprint_parts"]
    parts["task"] = {"name": "rated", "protocol": {"raters": "flatten"}}
    parts["metrics"] = {name: {"metric": name, "aggregation": "mean"} for name in ("cider", "bleu")}
    record["environment"] |= {"cpus": 2, "libraries": {"transformers": "5.0"}}
    return record


SAMPLES = {
    "id": ["a", "b", "c"],
    "image": ["a.jpg", "b.jpg", "c.jpg"],
    "candidate": ["a dog", "a cat", "it"],
    "references": [["a dog"], ["a cat"], ["a bird"]],
    "ratings": [[1.0], [4.0], [2.0]],
    "cider": [0.1, 0.9, 0.3],
    "bleu": [0.2, 0.8, 0.1],
}


def places_in(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to each inner value; of a list of numbers the first one is enough."""
    if above:
        yield above
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places_in(part, (*above, key))
    elif isinstance(value, list):
        for number, part in enumerate(value[:1]):
            yield from places_in(part, (*above, number))


PLACES = list(places_in(whole_record()))
DELETED = object()
OTHERS = (
    DELETED, None, True, False, 0, -1, 7, 2**70, 1.5, -2.5, 1e99, 1e200, "", "x", "1", "<b>\n", [], [1], ["x"], [None],
    {}, {"a": 1}, {"a": "b"}, {"a": None}, {"a": {"b": []}}, [[]], [{}],
)  # fmt: skip


def changed(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    record = copy.deepcopy(whole_record())
    inner: Any = record
    for step in place[:-1]:
        inner = inner[step]
    if value is DELETED:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return record


def show(folder: Path) -> None:
    run = load_run(folder)
    run.table()
    run.to_pandas()


def draw(folder: Path) -> None:
    for figure in (agreement_figure, length_figure, ratings_figure):
        figure(read_records([folder]), notes=[])


def export(folder: Path) -> None:
    run, out = read_task_run(folder), folder.parents[1] / "out"
    for fmt in ("csv", "latex", "parquet"):
        write_table([run], fmt, out / f"table.{fmt}")


def compare(folder: Path) -> None:
    render_comparisons(compare_runs([folder], CompareSettings(resamples=5)))


def for_the_hub(folder: Path) -> None:
    out = folder.parents[1] / "hub"
    out.mkdir(exist_ok=True)
    write_dataset([read_task_run(folder)], out, "me/it", samples=True)


READERS: dict[str, Callable[[Path], object]] = {
    "show": show,
    "plot": draw,
    "export": export,
    "lm-eval": lambda folder: write_results([read_task_run(folder)], folder.parents[1] / "lm-eval"),
    "hub": for_the_hub,
    "compare": compare,
    "verify": lambda folder: verify_run(folder / "run.json"),
    "verify again": lambda folder: score_again(read_task_run(folder)),
    "leaderboard": lambda folder: list(leaderboard_files(folder.parent)[1]),
}


def sealed(root: Path, record: dict[str, Any]) -> Path:
    """Write a run of the record, with sums that fit, and return its folder."""
    folder = write_record(root, "runs/changed", record, SAMPLES)
    picture = folder / f"pictures/{'a' * 16}.jpg"
    picture.parent.mkdir()
    picture.write_bytes(b"a picture")
    return seal(folder, record)


def is_read(folder: Path) -> bool:
    try:
        read_record(folder)
    except DataError as error:
        assert error.message.startswith(f"{folder / 'run.json'}: ")
        assert error.hint
        return False
    return True


def test_whole_record_is_read_by_every_reader(tmp_path: Path):
    folder = sealed(tmp_path, whole_record())
    for read in READERS.values():
        read(folder)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(place=("environment", "libraries"), value="x")
@example(place=("fingerprint_parts", "metrics", "cider"), value=DELETED)
@example(place=("configs", "rated", "statistics"), value=DELETED)
@example(place=("configs", "rated", "statistics"), value=[1])
@example(place=("metric_errors", 0, "reason"), value="")
@example(place=("intervals", KEY, "n"), value=2**70)
@example(place=("intervals", KEY, "low"), value=2**70)
@example(place=("intervals", KEY, "metric"), value="x")
@example(place=("published", KEY, "scale"), value=0)
@example(place=("total_evaluation_time_seconds",), value="")
@example(place=("timings", "data"), value={})
@example(place=("fingerprint_parts",), value=DELETED)
@example(place=("fingerprint_parts", "task", "protocol"), value=True)
@given(place=st.sampled_from(PLACES), value=st.sampled_from(OTHERS))
def test_record_of_any_inner_shape_is_read_or_refused_by_name(tmp_path_factory, place, value):
    folder = sealed(tmp_path_factory.mktemp("any"), changed(place, value))
    readers = list(READERS)
    if not is_read(folder):
        # Through one door: one reader tells as much as all of them, and one that goes on with the others.
        readers = ["verify"]
        assert collect(folder.parent, TaskIndex())[0] == []
    elif place[0] not in ("results", "intervals", "histograms", "significance", "configs", "task"):
        # Of what a figure shows; drawing takes longest.
        readers.remove("plot")
    for name in readers:
        try:
            READERS[name](folder)
        except BenchError as error:
            assert name != "leaderboard", error


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("schema_version",), True, "/schema_version: input should be a valid integer"),
        (("environment", "libraries"), "x", "/environment/libraries: input should be a valid dictionary"),
        (("intervals", KEY, "label", 0), 3, f"/intervals/{KEY}/label/0: input should be a valid string"),
        (("configs", "rated", "metric_list", 0), {"name": "x"}, "/configs/rated/metric_list/0 has no 'metric'"),
        (("histograms", "cider", "counts"), [1], "/histograms/cider: the numbers of counts and of bins differ"),
        (("histograms", "cider", "edges", 0), 7, "/histograms/cider: edges and ratings must be in rising order"),
        (("published", KEY, "scale"), 0, f"/published/{KEY}/scale: input should be greater than 0"),
        (("config", "level"), 1.0, "/config/level: input should be less than 1"),
        (("results", "rated"), {"name": "rated"}, "/results/rated has no 'alias'"),
        (("results", "rated", "more"), 1.0, "/results/rated/more is not in lm-eval's layout"),
        (("results", "rated", f"{KEY},none"), "N/A", f"/results/rated/{KEY},none is not in lm-eval's layout"),
        (
            ("results", "rated", f"{KEY}_stderr,none"),
            -0.1,
            f"/results/rated/{KEY}_stderr,none is not in lm-eval's layout",
        ),
        (("task",), "x", "/results has no 'x'"),
        (("intervals", KEY, "metric"), "x", f"/intervals/{KEY} is of metric 'x' and statistic 'kendall_c'"),
        (("timings", "a/b~c"), "x", "/timings/a~1b~0c: input should be a valid number"),
        (("judging",), DELETED, ""),
    ],
)  # fmt: skip
def test_fault_is_named_by_its_json_pointer(place: tuple[str | int, ...], value: Any, fault: str):
    assert first_fault(changed(place, value)) == fault


def first_fault(record: dict[str, Any]) -> str:
    try:
        Record(record)
    except DataError as error:
        return error.message.removeprefix("is not a valid run record: ")
    return ""


@pytest.mark.parametrize(("levels", "is_read"), [(48, True), (49, False)])
def test_record_that_is_nested_too_deeply_is_refused(levels: int, is_read: bool):
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"deeper": deep}
    record = whole_record() | {"generation": deep}
    assert first_fault(record) == ("" if is_read else "the record is nested deeper than 50 levels")


def test_schema_is_that_of_the_model():
    remedy = "python -m capbench.benchmarks.records.schema writes it anew"
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), remedy
