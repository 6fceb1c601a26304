"""Models whose work an engine does: the record is that of one process, and this one has no model."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from in_shards import AnyOrder
from tiny_dci import make_tiny_dci

import capbench
from capbench.adapters.aliases import ModelSpec
from capbench.adapters.images import file_digests
from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import LocalExecutor
from capbench.benchmarks.tables.results import Run

pytestmark = pytest.mark.costly

_OF_THE_DAY = ("date", "total_evaluation_time_seconds", "timings", "store", "checksum")


def content(run: Run) -> list[Any]:
    """Return what the record of a run's task says but for how long it took, and its samples."""
    (task,) = run.tasks
    record = {name: value for name, value in task.record.values.items() if name not in _OF_THE_DAY}
    return [json.loads(json.dumps(record)), *task.samples.to_pylist()]


@pytest.fixture
def evaluate(tmp_path: Path) -> Callable[..., list[Any]]:
    """Return a function that runs a task with a store of its own, by shards of so many documents."""
    stores = (tmp_path / f"store{number}.sqlite" for number in range(99))

    def run(task: str, shard: int | None = None, engine: Any = None, **arguments: Any) -> list[Any]:
        settings = {"resamples": 20, "limit": 12, "store": next(stores), **arguments}
        execution = engine if isinstance(engine, Execution) else Execution(engine, shard_rows=shard)
        return content(capbench.evaluate(tasks=[task], engine=execution, **settings))

    return run


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("shapes_expert", {"model": "shapes-clip", "metrics": "clip_s,refclip_s,cider"}),
        ("shapes_vatex_9ref", {"model": "shapes-clip", "metrics": "emscore,emscore_ref"}),
        ("shapes_clip_f1", {"model": "shapes-llava", "encoder": "shapes-clip"}),
    ],
)
def test_metrics_with_an_encoder_have_the_record_of_one_process(evaluate, task: str, arguments: dict[str, Any]):
    alone = evaluate(task, **arguments)
    record = alone[0]
    assert record["fingerprint_parts"]["encoder"]["checkpoint"].startswith("sha256:")
    assert len(record["fingerprint_parts"]["images"]) == 64
    assert not record["metric_errors"]
    assert evaluate(task, 5, engine=AnyOrder(), **arguments) == alone


def test_another_process_has_the_record_of_this_one(evaluate: Callable[..., list[Any]]):
    arguments = {"model": "shapes-clip", "limit": 6}
    alone = evaluate("shapes_dci_base_neg", **arguments)
    assert evaluate("shapes_dci_base_neg", 3, engine=LocalExecutor(1), **arguments) == alone


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of models that are loaded from here on."""
    names: list[str] = []
    load = ModelSpec.load

    def counted(spec: ModelSpec) -> Any:
        names.append(spec.name)
        return load(spec)

    monkeypatch.setattr(ModelSpec, "load", counted)
    return names


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is read to be hashed from here on."""
    counts: Counter[str] = Counter()
    real = hashlib.file_digest

    def counted(content: Any, kind: str) -> Any:
        counts[Path(content.name).name] += 1
        return real(content, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    # The files of a test are new, and would be hashed again as they may change yet.
    monkeypatch.setattr(file_digests, "_SETTLED_NS", 0)
    return counts


class Nobody(AnyOrder):
    """Does nothing: what is done is done by who hands it work."""

    def map(self, function: Any, calls: Iterable[Any], *resources: Any) -> Any:
        list(calls)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("shapes_dci_base_neg", {"model": "shapes-clip"}),
        ("shapes_expert", {"model": "shapes-clip", "metrics": "clip_s"}),
        ("shapes_clip_f1", {"model": "shapes-llava", "encoder": "shapes-clip"}),
    ],
)
def test_who_hands_out_the_work_loads_no_model(evaluate, loads, task: str, arguments: dict[str, Any]):
    with pytest.raises(KeyboardInterrupt):
        evaluate(task, 5, engine=Nobody(), **arguments)
    assert loads == []


@pytest.fixture
def dci(tiny_clip, tmp_path: Path) -> dict[str, Any]:
    """A run of files."""
    arguments = f"pretrained={tiny_clip.open_clip_folder},device=cpu"
    folder = make_tiny_dci(tmp_path / "dci")
    return {
        "model": "open_clip", "model_args": arguments, "data": {"dci": folder}, "skip_checks": True, "limit": None,
    }  # fmt: skip


def test_a_file_is_hashed_once_and_a_model_loaded_once(evaluate, dci, loads, hashed):
    evaluate("dci_all_scm", 4, engine=AnyOrder(), **dci)
    assert len(loads) == 1
    photos = {name: count for name, count in hashed.items() if name.endswith(".png")}
    assert photos == dict.fromkeys((f"sa_{number}.png" for number in range(1, 6)), 1)


def test_results_that_machines_share_are_those_of_the_file(evaluate, dci, tmp_path):
    first = evaluate("dci_all_neg", engine=Execution(AnyOrder(), folder=tmp_path / "shared"), **dci)
    photos = tmp_path / "dci" / "photos"
    (photos / "sa_2.png").write_bytes((photos / "sa_1.png").read_bytes())
    changed = evaluate("dci_all_neg", engine=Execution(AnyOrder(), folder=tmp_path / "shared"), **dci)
    assert changed[1:] == evaluate("dci_all_neg", **dci)[1:]
    assert changed[1:] != first[1:]


@pytest.mark.parametrize(("task", "metrics"), [("shapes_dci_base_neg", {}), ("shapes_expert", {"metrics": "clip_s"})])
def test_results_that_machines_share_are_those_of_the_model(evaluate, tmp_path, tiny_clip, task, metrics):
    other = {"model": "open_clip", "model_args": f"pretrained={tiny_clip.open_clip_folder},device=cpu"}
    for model in ({"model": "shapes-clip"}, other):
        arguments = {**model, **metrics, "limit": 6}
        results = evaluate(task, engine=Execution(AnyOrder(), folder=tmp_path / "shared"), **arguments)
        assert results == evaluate(task, **arguments)
