"""Units on one machine: in one process, in several, and when those fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counting_work import FACTORY, Sample

from capbench.benchmarks.engines import driving, local
from capbench.benchmarks.engines.contract import Advance, Outcome
from capbench.benchmarks.engines.local import LocalEngine, default_processes
from capbench.benchmarks.engines.run_folder import read_run
from capbench.benchmarks.engines.search import MAX_LEFT_OUT
from capbench.benchmarks.engines.workers.worker import cores
from capbench.benchmarks.running.units import Unit, WorkSpec
from capbench.errors import AdapterError, DataError, EngineError, StoreError
from capbench.permissions import Permissions

EACH = pytest.mark.parametrize("processes", [1, 2])
SEVERAL = 2


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return Sample(tmp_path / "run")


def carry_out(sample: Sample, processes: int, units: list[Unit] | None = None, **options: Any) -> Outcome:
    return LocalEngine(processes).carry_out(sample.spec, units or sample.units, **options)


def count_of(sample: Sample, outcome: Outcome) -> int:
    return sample.results()[outcome.units["sums"].unit.key]


@EACH
def test_units_run_after_those_that_they_need(sample: Sample, processes: int):
    outcome = carry_out(sample, processes, sample.units[::-1])

    assert count_of(sample, outcome) == sum(sample.words)
    assert (outcome.computed, outcome.found, outcome.waiting) == (9, 0, 0)
    assert all(one.attempts == 1 for one in outcome.units.values())
    order = sample.notes("computed")
    assert all(order.index(need) < order.index(unit.key) for unit in sample.units for need in unit.needs)


@EACH
def test_what_is_done_is_not_computed_again(sample: Sample, processes: int):
    carry_out(sample, processes, sample.units[:3])
    outcome = carry_out(sample, processes)

    assert (outcome.computed, outcome.found) == (6, 3)
    assert len(sample.notes("computed")) == 9
    assert outcome.units["caption-0"].report is None
    assert outcome.units["score-1"].report is not None


@EACH
@pytest.mark.parametrize("has_folder", [False, True])
def test_units_are_placed_as_they_come(tmp_path: Path, processes: int, has_folder: bool):
    sample = Sample(tmp_path / "many", documents=200)
    begun: list[int] = []

    def coming() -> Iterator[Unit]:
        for unit in sample.units:
            begun.append(len(sample.notes("begun")))
            yield unit

    folder = tmp_path / "run" if has_folder else None
    outcome = LocalEngine(processes).carry_out(sample.spec, coming(), folder=folder)
    assert list(outcome.units) == [unit.key for unit in sample.units]
    assert begun[-1] > 0
    if folder:
        assert read_run(folder) == (sample.spec, sample.units)


def test_workers_begin_what_follows_while_further_units_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driving, "_AHEAD", 1000)
    sample = Sample(tmp_path / "many", documents=1000)
    slow = sample.folder / "slow"
    slow.write_text("60")

    def coming() -> Iterator[Unit]:
        for number, unit in enumerate(sample.units):
            if number >= 20 and slow.exists() and len(sample.notes("begun")) == SEVERAL:
                # More wait than all take. Both are at work; they end it, and nobody gives them what follows.
                slow.unlink()
                end = time.monotonic() + 20
                while len(sample.notes("begun")) < 2 * SEVERAL:
                    assert time.monotonic() < end, "a worker waited for its driver"
                    time.sleep(0.01)
            time.sleep(0.05 if slow.exists() else 0)
            yield unit

    LocalEngine(SEVERAL).carry_out(sample.spec, coming())
    assert not slow.exists() and len(sample.results()) == len(sample.units)


def test_what_follows_is_not_lost_with_a_worker(tmp_path: Path):
    sample = Sample(tmp_path / "many", documents=300)
    for document in (13, 47, 101):
        sample.befalls(document, "once")
    outcome = carry_out(sample, SEVERAL)

    assert not outcome.left_out
    assert sorted(one.attempts for one in outcome.units.values())[-4:] == [1, 2, 2, 2]
    assert count_of(sample, outcome) == sum(sample.words)


def test_where_all_is_done_no_process_is_started(sample: Sample):
    carry_out(sample, 1)
    carry_out(sample, SEVERAL)

    assert set(sample.notes("opened")) == {str(os.getpid())}


def test_one_process_is_this_one_and_keeps_the_order(sample: Sample):
    carry_out(sample, 1)

    assert sample.notes("opened") == [str(os.getpid())]
    # What is wanted first is done first; what it lets be placed comes after what could be placed before.
    assert sample.notes("computed")[:4] == [f"caption-{n}" for n in range(4)]


def test_several_processes_are_others_and_open_their_work_once(sample: Sample):
    (sample.folder / "together").write_text(str(1 + SEVERAL))
    outcome = carry_out(sample, SEVERAL)

    assert len({one.worker for one in outcome.units.values()}) == SEVERAL
    drivers, workers = sample.notes("opened")[:1], sample.notes("opened")[1:]
    assert drivers == [str(os.getpid())]
    assert len(workers) == len(set(workers)) == SEVERAL


@EACH
def test_progress_counts_units_and_documents(sample: Sample, processes: int):
    told: list[Advance] = []
    carry_out(sample, processes, report=told.append)

    last = told[-1]
    assert (last.done, last.units, last.found, last.documents, last.left) == (9, 9, 0, 120, 0)
    assert last.rate == last.documents / last.seconds


@EACH
def test_document_that_raises_is_left_out_and_named(sample: Sample, processes: int):
    sample.befalls(13, "raise")
    sample.befalls(27, "raise")
    outcome = carry_out(sample, processes)

    assert {(one.unit.key, one.documents) for one in outcome.left_out} == {
        ("caption-1", (13,)), ("score-1", (13,)), ("caption-2", (27,)), ("score-2", (27,)),
    }  # fmt: skip
    assert outcome.left_out[0].fault.in_one_line == "ValueError: document 13 is impossible"
    assert count_of(sample, outcome) == sum(sample.words) - sample.words[13] - sample.words[27]
    assert outcome.units["caption-1"].unit.without == (13,)
    assert outcome.units["caption-1"].attempts == 4


@EACH
def test_units_of_a_unit_that_lost_documents_have_other_keys(sample: Sample, processes: int):
    sample.befalls(13, "raise")
    outcome = carry_out(sample, processes)
    units = {key: one.unit for key, one in outcome.units.items()}

    assert units["score-1"].needs == (units["caption-1"].key,) != ("caption-1",)
    assert units["sums"].needs[1] == units["score-1"].key
    assert "sums" not in sample.results()
    assert units["score-0"] == sample.units[1]
    (sample.folder / "fate" / "13").unlink()
    # What was left out is asked for again, and then nothing stands under the name of what lacks it.
    assert count_of(sample, carry_out(sample, processes)) == sum(sample.words)


def test_worker_that_is_killed_is_replaced_and_its_unit_placed_again(sample: Sample):
    sample.befalls(13, "once")
    outcome = carry_out(sample, SEVERAL)

    assert not outcome.left_out
    assert outcome.units["caption-1"].attempts == 2
    assert count_of(sample, outcome) == sum(sample.words)


def test_documents_that_kill_their_worker_are_left_out(sample: Sample):
    sample.befalls(13, "kill")
    sample.befalls(17, "kill")
    outcome = carry_out(sample, SEVERAL)

    assert {one.documents for one in outcome.left_out} == {(13, 17)}
    assert (
        outcome.left_out[0].fault.message
        == "its process was ended by SIGKILL, as it does where memory runs out"
    )
    assert count_of(sample, outcome) == sum(sample.words) - sample.words[13] - sample.words[17]


def test_document_that_takes_more_memory_than_there_is_is_left_out(sample: Sample):
    sample.befalls(3, "memory")
    outcome = carry_out(sample, SEVERAL)

    assert {one.documents for one in outcome.left_out} == {(3,)}
    assert outcome.left_out[0].fault.kind == "MemoryError"


@EACH
def test_error_of_the_user_is_raised_as_it_is_after_the_first_time(sample: Sample, processes: int):
    sample.befalls(13, "data")
    with pytest.raises(DataError) as raised:
        carry_out(sample, processes)

    assert (raised.value.message, raised.value.hint) == ("document 13 is missing", "Put it there.")
    assert "caption-1" not in sample.notes("computed")


def test_device_that_is_broken_costs_a_try_on_another_worker(sample: Sample):
    sample.befalls(13, "place")
    outcome = carry_out(sample, SEVERAL)

    assert outcome.units["caption-1"].attempts == 2
    assert count_of(sample, outcome) == sum(sample.words)


def test_device_that_is_broken_is_told_where_there_is_no_other(sample: Sample):
    sample.befalls(13, "place")
    with pytest.raises(AdapterError, match="device is broken"):
        carry_out(sample, 1)


@EACH
def test_unit_of_which_no_document_can_be_done_ends_the_run(sample: Sample, processes: int):
    for document in range(10, 20):
        sample.befalls(document, "raise")
    with pytest.raises(
        EngineError, match=r"unit 'caption' of counter, documents 10 to 19 fails with 10 of its"
    ):
        carry_out(sample, processes)


def test_no_more_documents_are_left_out_than_may_be(tmp_path: Path):
    sample = Sample(tmp_path / "run", 200, 200)
    for document in range(0, 2 * MAX_LEFT_OUT, 2):
        sample.befalls(document, "raise")
    assert len(carry_out(sample, 1).left_out[0].documents) == MAX_LEFT_OUT
    sample.befalls(2 * MAX_LEFT_OUT, "raise")
    for file in (sample.folder / "results").iterdir():
        file.unlink()
    with pytest.raises(EngineError, match=f"fails with {MAX_LEFT_OUT + 1} of its documents"):
        carry_out(sample, 1)


@EACH
def test_fault_that_is_of_no_document_ends_the_run(sample: Sample, processes: int):
    unit = Unit("lost", "score", "length", 0, (0, 10), pool="llm")
    (sample.folder / "loaded").mkdir()
    with pytest.raises(EngineError, match="documents 0 to 9 fails without any document: IsADirectoryError"):
        carry_out(sample, processes, [unit])


@EACH
def test_work_that_cannot_be_opened_is_refused_as_it_says(tmp_path: Path, processes: int):
    sample = Sample(tmp_path / "run")
    spec = WorkSpec(FACTORY, {"folder": str(sample.folder), "faulty": "store"})
    with pytest.raises(StoreError, match="cannot be reached\nName one that can"):
        LocalEngine(processes).carry_out(spec, sample.units)


def test_workers_that_die_before_they_begin_end_the_run(sample: Sample):
    spec = WorkSpec(FACTORY, {"folder": str(sample.folder), "faulty": f"dies but in {os.getpid()}"})
    with pytest.raises(EngineError, match="no worker could open its work: its process was ended by SIGKILL"):
        LocalEngine(SEVERAL).carry_out(spec, sample.units)
    assert not sample.notes("begun")


def test_work_that_nobody_can_take_is_waited_for_and_then_told(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driving, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(local.Processes, "hire", lambda self, shape: None)
    with pytest.raises(
        EngineError, match=r"nobody could take units of pool 'cpu' for 0 seconds: .* with 1 CPU, 0 GPUs"
    ):
        carry_out(sample, SEVERAL)


def test_units_that_need_what_is_not_there_or_each_other_are_refused(sample: Sample):
    one, other = sample.units[:2]
    with pytest.raises(ValueError, match="unit score-0 needs caption-0, which is not among them"):
        carry_out(sample, 1, [other])
    with pytest.raises(ValueError, match="units need each other"):
        carry_out(sample, 1, [replace(one, needs=("score-0",)), other])


def test_unit_that_fails_as_a_whole_alone_says_so(tmp_path: Path):
    sample = Sample(tmp_path / "run", 10, 10)
    (sample.folder / "whole").touch()
    with pytest.raises(EngineError, match="documents 0 to 9 fails as a whole, though each of its documents"):
        carry_out(sample, 1)
    # Three times, without a document, its halves, and three times again.
    assert len(sample.notes("begun")) == 3 + 1 + 2 + 3


def test_model_is_loaded_once_a_replica_with_a_share_of_the_cores(tmp_path: Path):
    sample = Sample(tmp_path / "run", 80, 5, pools=("llm", "clip"))
    LocalEngine(2).carry_out(sample.spec, sample.units)

    loaded = [line.split() for line in sample.notes("loaded")]
    assert sorted(pool for pool, _, _ in loaded) == ["clip", "llm"]
    assert {threads for _, _, threads in loaded} == {str(max(cores() // 2, 1))}


def test_model_is_let_go_where_no_unit_needs_it_any_more(tmp_path: Path):
    sample = Sample(tmp_path / "run", 60, 5, pools=("a", "b", "c"))
    LocalEngine(1).carry_out(sample.spec, sample.units)

    assert sorted(line.split()[0] for line in sample.notes("loaded")) == ["a", "b", "c"]
    assert sample.notes("released")[:2] == ["a", "b"]


def test_model_is_kept_while_units_that_need_it_may_still_come(tmp_path: Path):
    sample = Sample(tmp_path / "run", 150, 5, pools=("a",))
    LocalEngine(1).carry_out(sample.spec, iter(sample.units))

    assert [line.split()[0] for line in sample.notes("loaded")] == ["a"]


def test_warning_of_several_workers_is_said_once(sample: Sample, capfd: pytest.CaptureFixture[str]):
    (sample.folder / "warns").touch()
    (sample.folder / "together").write_text(str(1 + SEVERAL))
    carry_out(sample, SEVERAL)

    said = capfd.readouterr().err
    assert said.count("beware of caption") == said.count("beware of score") == 1


DRIVER = """
import signal
import sys
from pathlib import Path
from typing import Any
from counting_work import FACTORY, Sample
from capbench.benchmarks.engines.local import LocalEngine
from capbench.permissions import Permissions
from capbench.benchmarks.running.units import Unit, WorkSpec
# A shell that runs tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = Path(sys.argv[1])
units = [Unit.from_json(line) for line in (folder / "units").read_text().splitlines()]
LocalEngine(2).carry_out(WorkSpec(FACTORY, {"folder": str(folder)}), units)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_driver(sample: Sample, number: signal.Signals):
    (sample.folder / "slow").write_text("30")
    (sample.folder / "units").write_text("\n".join(unit.to_json() for unit in sample.units))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(sample.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    while len(sample.notes("opened")) < 1 + SEVERAL:
        time.sleep(0.02)
    driver.send_signal(number)
    # A unit takes 30 seconds, and none is waited for.
    assert driver.wait(timeout=25) == -number
    workers = [int(line) for line in sample.notes("opened")[1:]]
    end = time.monotonic() + 10
    while any(is_alive(worker) for worker in workers):
        assert time.monotonic() < end
        time.sleep(0.02)
    # The same again does what is left.
    (sample.folder / "slow").unlink()
    assert count_of(sample, carry_out(sample, SEVERAL)) == sum(sample.words)


def test_worker_does_not_begin_what_its_driver_asked_for_as_it_ended(sample: Sample):
    (sample.folder / "slow").write_text("30")
    hello = {"spec": sample.spec.to_json(), "path": sys.path, "permissions": Permissions().to_json()}
    order = {"unit": sample.units[0].to_json(), "release": []}
    worker = subprocess.Popen(
        [sys.executable, "-m", "capbench.benchmarks.engines.workers.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert worker.stdin and worker.stdout
    print(json.dumps(hello), file=worker.stdin, flush=True)
    assert "opened" in worker.stdout.readline()
    # The order and the end in one go.
    worker.stdin.write(json.dumps(order) + "\n")
    worker.stdin.close()
    assert worker.wait(timeout=25) == 1


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("meminfo", "limit", "used", "expected"),
    [
        ("MemAvailable: 100000000 kB", "max", "1", 8),
        ("MemAvailable: 9000000 kB", "max", "1", 4),
        ("MemAvailable: 100000000 kB", "8000000000", "1000000000", 3),
        ("MemAvailable: 1000 kB", "max", "1", 1),
    ],
)
def test_default_is_a_process_a_core_where_memory_holds_them(
    monkeypatch: pytest.MonkeyPatch, meminfo: str, limit: str, used: str, expected: int
):
    told = {
        "/proc/meminfo": meminfo,
        "/sys/fs/cgroup/memory.max": limit,
        "/sys/fs/cgroup/memory.current": used,
    }
    monkeypatch.setattr(local, "_lines", lambda path: [told[str(path)]])
    monkeypatch.setattr(local, "cores", lambda: 8)

    assert default_processes() == expected
    assert default_processes(has_gpu_model=True) == 1


@pytest.mark.parametrize(
    ("has_gpu", "pool", "several"), [(False, "llm", True), (True, "cpu", True), (True, "llm", False)]
)
def test_model_on_a_gpu_is_served_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool, pool: str, several: bool
):
    monkeypatch.setattr(local, "_has_gpu", lambda: has_gpu)
    monkeypatch.setattr(local, "cores", lambda: 2)
    sample = Sample(tmp_path / "run", 5, 5, pools=(pool,))
    LocalEngine(None, has_models=pool != "cpu").carry_out(sample.spec, sample.units)

    assert (len(set(sample.notes("opened"))) > 1) == several
