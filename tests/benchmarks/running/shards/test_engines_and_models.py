"""Models whose work an engine does: the record is that of one process, and this one has no model."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tiny_clip import TinyClip
from tiny_dci import make_tiny_dci

import capbench
from capbench.adapters.aliases import ModelSpec
from capbench.adapters.pixels import file_digests
from capbench.adapters.pixels.file_digests import FileDigests
from capbench.benchmarks.engines.contract import Outcome, Pool, UnitOutcome
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.engines.slurm import SlurmEngine
from capbench.benchmarks.running import runner, score_rows
from capbench.benchmarks.running.engaging import EngineChoice
from capbench.benchmarks.running.units import Unit, WorkSpec
from capbench.benchmarks.tables.run import Run
from capbench.errors import UnitsLeftError
from capbench.metrics.clair import PROMPT
from capbench.metrics.judging import fill

pytestmark = pytest.mark.costly

_OF_THE_DAY = ("date", "total_evaluation_time_seconds", "timings", "store", "checksum")


class Shuffled:
    """An engine of this process that does units in an order of its own, each after those that it needs."""

    def __init__(self, seed: int = 0, leaves_out: tuple[int, ...] = ()) -> None:
        self.units: list[Unit] = []
        self.folders: dict[Path, list[str]] = {}
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._leaves_out = leaves_out

    def carry_out(
        self, spec: WorkSpec, units: Iterable[Unit], *, report: Any = None, folder: Path | None = None
    ) -> Outcome:
        asked, work, done = list(units), spec.open(), set[str]()
        self.units += asked
        if folder:
            assert folder not in self.folders
            self.folders[folder] = [unit.stage for unit in asked]
        found: dict[str, UnitOutcome] = {}
        while ready := [one for one in asked if one.key not in done and done.issuperset(one.needs)]:
            unit = self._random.choice(ready)
            done.add(unit.key)
            left = unit.leaving_out(self._leaves_out) if self._leaves_out else unit
            found[unit.key] = UnitOutcome(left, work.run_unit(left))
        return Outcome({one.key: found[one.key] for one in asked})


def content(run: Run) -> list[Any]:
    """Return what the record of a run's task says but for how long it took, and its samples."""
    (task,) = run.tasks
    record = {name: one for name, one in task.record.values.items() if name not in _OF_THE_DAY}
    return [json.loads(json.dumps(record)), *task.samples.to_pylist()]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Return a function that runs a task with a store of its own, by shards of so many documents."""
    stores = (tmp_path / f"store{number}.sqlite" for number in range(99))

    def run(task: str, shard: int | None = None, **arguments: Any) -> list[Any]:
        with monkeypatch.context() as patch:
            for name in ("SHARD", "SHARD_OF_IMAGES"):
                patch.setattr(runner, name, shard or getattr(runner, name))
            settings = {"resamples": 20, "limit": 12, "store": next(stores), **arguments}
            return content(capbench.evaluate(tasks=[task], **settings))

    return run


def size_of(count: int, shards: int) -> int:
    return -(-count // shards)


def test_matching_has_one_record_whatever_the_shards_and_their_order(evaluate: Callable[..., list[Any]]):
    task = "shapes_dci_all_scm"
    alone = evaluate(task, model="shapes-clip", limit=40)
    entries = len(alone) - 1
    for shards in (7, 40):
        engine = Shuffled(shards)
        size = size_of(entries, shards)
        assert evaluate(task, size, model="shapes-clip", limit=40, engine=engine) == alone
        encode = [unit for unit in engine.units if unit.stage == "encode"]
        # An image is not divided.
        assert shards // 2 < len(encode) <= shards
        assert {unit.pool for unit in encode} == {"encoder"}
        assert sum(unit.rows[1] for unit in encode) == entries


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("shapes_expert", {"model": "shapes-clip", "metrics": "clip_s,refclip_s,cider"}),
        ("shapes_pascal", {"model": "shapes-pac", "metrics": "pac_s,refpac_s"}),
        ("shapes_vatex_9ref", {"model": "shapes-clip", "metrics": "emscore,emscore_ref"}),
        ("shapes_clip_f1", {"model": "shapes-llava", "encoder": "shapes-clip"}),
    ],
)
def test_metrics_with_an_encoder_have_the_record_of_one_process(
    evaluate: Callable[..., list[Any]], task: str, arguments: dict[str, Any]
):
    alone = evaluate(task, **arguments)
    record = alone[0]
    assert record["fingerprint_parts"]["encoder"]["checkpoint"].startswith("sha256:")
    assert len(record["fingerprint_parts"]["images"]) == 64
    assert not record["metric_errors"]
    assert evaluate(task, 5, engine=Shuffled(), **arguments) == alone


def test_two_processes_have_the_record_of_one(evaluate: Callable[..., list[Any]]):
    arguments = {"model": "shapes-clip", "limit": 30}
    alone = evaluate("shapes_dci_base_neg", **arguments)
    engine = LocalEngine(2, [Pool("encoder", 2)])
    assert evaluate("shapes_dci_base_neg", 10, engine=engine, **arguments) == alone


def test_units_that_encode_and_units_that_score_have_a_folder_each(
    evaluate: Callable[..., list[Any]], tmp_path: Path
):
    """A queue takes what lies in one folder for one work."""
    engine = Shuffled()
    for task, arguments in (
        ("shapes_dci_base_neg", {"model": "shapes-clip"}),
        ("shapes_clip_f1", {"model": "shapes-llava", "encoder": "shapes-clip", "limit": 2}),
    ):
        evaluate(task, 4, engine=EngineChoice(engine, folder=tmp_path), **arguments)
    stages = {folder.relative_to(tmp_path).parts: {*stages} for folder, stages in engine.folders.items()}
    assert stages == {
        ("shapes_dci_base_neg", "features"): {"encode"},
        ("shapes_dci_base_neg", "units"): set(),
        ("shapes_clip_f1", "captions"): {"caption"},
        ("shapes_clip_f1", "units"): {"score"},
    }


def test_judge_has_the_record_of_one_process(evaluate: Callable[..., list[Any]], tmp_path: Path):
    _, *samples = evaluate("shapes_expert", metrics="length")
    rows = [
        {
            "prompt": fill(
                PROMPT,
                candidates=f"- {one['candidate']}\n",
                references="".join(f"- {text}\n" for text in one["references"]),
            ),
            "response": json.dumps({"score": number * 5}),
        }
        for number, one in enumerate(samples)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = {"judge": f"responses:{tmp_path / 'answers.jsonl'}", "metrics": "clair"}
    alone = evaluate("shapes_expert", **arguments)
    assert not alone[0]["metric_errors"]
    assert alone[0]["judging"] == {"usage": {}}
    assert alone[0]["fingerprint_parts"]["judge"]["adapter"] == "responses"
    assert evaluate("shapes_expert", 5, engine=Shuffled(), **arguments) == alone


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of models that are loaded from here on."""
    found: list[str] = []
    load = ModelSpec.load

    def counted(spec: ModelSpec) -> Any:
        found.append(spec.name)
        return load(spec)

    monkeypatch.setattr(ModelSpec, "load", counted)
    return found


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file is read to be hashed from here on."""
    found: Counter[str] = Counter()
    hashed = FileDigests._hashed

    def counted(self: FileDigests, state: Any) -> Any:
        found[Path(os.fsdecode(state.path)).name] += 1
        return hashed(self, state)

    monkeypatch.setattr(FileDigests, "_hashed", counted)
    # The files of a test are new, and would be hashed again as they may change yet.
    monkeypatch.setattr(file_digests, "_SETTLED_NS", 0)
    return found


class Nobody:
    """An engine that does nothing: what is done is done by who hands it work."""

    def carry_out(
        self, spec: WorkSpec, units: Iterable[Unit], *, report: Any = None, folder: Path | None = None
    ) -> Outcome:
        list(units)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("shapes_dci_base_neg", {"model": "shapes-clip"}),
        ("shapes_expert", {"model": "shapes-clip", "metrics": "clip_s"}),
        ("shapes_clip_f1", {"model": "shapes-llava", "encoder": "shapes-clip"}),
    ],
)
def test_who_hands_out_the_work_loads_no_model(
    evaluate: Callable[..., list[Any]], loads: list[str], task: str, arguments: dict[str, Any]
):
    with pytest.raises(KeyboardInterrupt):
        evaluate(task, 5, engine=Nobody(), **arguments)
    assert loads == []


@pytest.fixture
def dci(tiny_clip: TinyClip, tmp_path: Path) -> dict[str, Any]:
    """A run of files."""
    arguments = f"pretrained={tiny_clip.open_clip_folder},device=cpu"
    folder = make_tiny_dci(tmp_path / "dci")
    return {
        "model": "open_clip", "model_args": arguments, "data": {"dci": folder}, "skip_checks": True, "limit": None,
    }  # fmt: skip


def test_a_file_is_hashed_once_and_a_model_loaded_once(
    evaluate: Callable[..., list[Any]], dci: dict[str, Any], loads: list[str], hashed: Counter[str]
):
    evaluate("dci_all_scm", 4, engine=Shuffled(), **dci)
    assert len(loads) == 1
    photos = {name: count for name, count in hashed.items() if name.endswith(".png")}
    assert photos == dict.fromkeys((f"sa_{number}.png" for number in range(1, 6)), 1)


def test_image_that_no_worker_survives_is_left_out_with_all_of_its_entries(
    evaluate: Callable[..., list[Any]], dci: dict[str, Any]
):
    _, *alone = evaluate("dci_all_neg", **dci)
    record, *left = evaluate("dci_all_neg", engine=Shuffled(leaves_out=(6,)), **dci)
    (image,) = {one["image"] for number, one in enumerate(alone) if number == 6}
    kept = [one for one in left if one["failure"] is None]
    assert kept == [one for one in alone if one["failure"] is None and one["image"] != image]
    (failure,) = [one for one in record["failures"] if "survived" in one["reason"]]
    assert (failure["stage"], failure["count"]) == ("image", 1)


def work_jobs_of_a_queue(folder: Path) -> None:
    """Run both jobs of an array at once, as a queue does."""
    (script,) = folder.glob("slots-*.sbatch")
    jobs = [
        subprocess.Popen(
            ["bash", script],
            env={**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for job in jobs:
        _, said = job.communicate()
        assert job.returncode == 0, said


def test_queue_has_the_record_of_one_process(evaluate: Callable[..., list[Any]], tmp_path: Path):
    arguments = {"metrics": "cider,length"}
    alone = evaluate("shapes_expert", **arguments)
    engine = EngineChoice(SlurmEngine(slots=2), folder=tmp_path / "run")
    queued = {**arguments, "engine": engine, "store": tmp_path / "queue.sqlite"}
    with pytest.raises(UnitsLeftError, match=r"38 units left for the queue; .*: sh .*/units/submit\.sh"):
        evaluate("shapes_expert", 4, **queued)
    work_jobs_of_a_queue(tmp_path / "run" / "shapes_expert" / "units")
    assert evaluate("shapes_expert", 4, **queued) == alone


def test_queue_has_the_scores_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(score_rows, "SHARD", 4)
    rows = [{"candidate": f"a dog {n}", "references": [f"one dog {n % 3}"]} for n in range(12)]
    alone = capbench.score(rows, "cider,length", store=tmp_path / "alone.sqlite")
    engine = EngineChoice(SlurmEngine(slots=2), folder=tmp_path / "run")
    queued: dict[str, Any] = {"engine": engine, "store": tmp_path / "queue.sqlite"}
    with pytest.raises(UnitsLeftError, match="38 units left for the queue"):
        capbench.score(rows, "cider,length", **queued)
    work_jobs_of_a_queue(tmp_path / "run" / "units")
    found = capbench.score(rows, "cider,length", **queued)
    assert (found.system, found.rows) == (alone.system, alone.rows)


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """A store of objects that machines share."""
    return f"{tmp_path / 'shared'}/"


def test_results_that_machines_share_are_those_of_the_file(
    evaluate: Callable[..., list[Any]], dci: dict[str, Any], shared: str, tmp_path: Path
):
    first = evaluate("dci_all_neg", **{**dci, "engine": Shuffled(), "store": shared})
    photos = tmp_path / "dci" / "photos"
    (photos / "sa_2.png").write_bytes((photos / "sa_1.png").read_bytes())
    changed = evaluate("dci_all_neg", **{**dci, "engine": Shuffled(), "store": shared})
    assert changed[1:] == evaluate("dci_all_neg", **dci)[1:]
    assert changed[1:] != first[1:]


@pytest.mark.parametrize(
    ("task", "metrics"), [("shapes_dci_base_neg", {}), ("shapes_expert", {"metrics": "clip_s"})]
)
def test_results_that_machines_share_are_those_of_the_model(
    evaluate: Callable[..., list[Any]], shared: str, tiny_clip: TinyClip, task: str, metrics: dict[str, str]
):
    other = {"model": "open_clip", "model_args": f"pretrained={tiny_clip.open_clip_folder},device=cpu"}
    for model in ({"model": "shapes-clip"}, other):
        arguments = {**model, **metrics, "limit": 6}
        found = evaluate(task, engine=Shuffled(), **{**arguments, "store": shared})
        assert found == evaluate(task, **arguments)
