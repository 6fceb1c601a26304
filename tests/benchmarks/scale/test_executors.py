"""Executors of this machine: the same results whoever works, and no worker outlives its driver."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import executor_calls
import psutil
import pytest
from executor_calls import Kept, Permitted, Recorded, Shard, environment, failing, failing_oddly, kind_of_process

from capbench.benchmarks.scale import executors
from capbench.benchmarks.scale.executors import Executor, InProcess, LocalExecutor, Resources, cores
from capbench.errors import DataError, ExecutorError
from capbench.permissions import Permissions

SHARDS = [Shard(number) for number in range(7)]
SQUARES = [number**2 for number in range(7)]


def children() -> list[psutil.Process]:
    """Return the processes that this one has started, but what multiprocessing and other tests keep until its end."""
    commands = {process: " ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)}
    kept = ("resource_tracker", "packages_distributions()")
    return [process for process, command in commands.items() if not any(text in command for text in kept)]


def test_resources_are_named():
    assert str(Resources()) == "1 CPU, 0 GPUs"
    assert str(Resources(gpus=1, memory=3 << 29, cpus=2)) == "2 CPUs, 1 GPU and 1.5 GiB"


def test_machine_that_does_not_tell_its_cores_has_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


def test_who_wants_no_more_results_ends_the_workers(tmp_path: Path):
    results = LocalExecutor(processes=2).map(Recorded(tmp_path, seconds=0.05), SHARDS)
    next(results)
    assert children()
    results.close()
    assert not children()


@pytest.mark.parametrize("executor", [InProcess(), LocalExecutor(processes=2)])
def test_fault_of_the_user_arrives_as_it_is(executor: Executor):
    with pytest.raises(DataError, match=r"is no shard.*\nName another.$"):
        list(executor.map(failing, SHARDS))
    assert not children()


def test_error_that_cannot_be_sent_is_told():
    with pytest.raises(ExecutorError, match=r"shard \d: OddError: odd"):
        list(LocalExecutor(processes=2).map(failing_oddly, SHARDS))


def test_permissions_that_a_function_carries_are_in_force_in_workers(tmp_path: Path):
    permissions = Permissions((tmp_path,), ("localhost:8000",), functions=True, remote_code=True)
    results = LocalExecutor(processes=2).map(Permitted(permissions), SHARDS[:2])
    assert [inherited for _, inherited in results] == [permissions] * 2


def test_worker_that_is_killed_once_is_replaced(tmp_path: Path):
    recorded = Recorded(tmp_path, deadly=(3,), lives_after="killed")
    assert dict(LocalExecutor(processes=2).map(recorded, SHARDS)) == dict(enumerate(SQUARES))


def test_call_that_kills_its_worker_is_named_and_the_next_run_goes_on(tmp_path: Path):
    with pytest.raises(ExecutorError, match=r"by SIGKILL, as .* memory runs out, .*: shard 3, shard 4\n") as caught:
        list(LocalExecutor(processes=1).map(Kept(tmp_path, deadly=(3,)), SHARDS))
    assert "shard 6" not in caught.value.message
    assert "it continues" in caught.value.hint
    assert not children()
    assert dict(LocalExecutor(processes=1).map(Kept(tmp_path), SHARDS)) == dict(enumerate(SQUARES))
    # It was tried in the first pool, in the second one, and now.
    assert [len(Recorded(tmp_path).calls(number)) for number in range(7)] == [1, 1, 1, 3, 1, 1, 1]


@pytest.mark.parametrize(("code", "how"), [(0, "ended"), (1, "ended with exit code 1")])
def test_worker_that_exits_is_told_with_its_code(code: int, how: str):
    with pytest.raises(ExecutorError, match=f"a worker process {how} while these were running: {code}\n"):
        list(LocalExecutor(processes=1).map(os._exit, [code]))


_DRIVER = """
import signal, sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from executor_calls import Recorded, Shard
from capbench.benchmarks.scale.executors import LocalExecutor

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may ignore Ctrl-C
    if sys.argv[3] == "spawn":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    for _ in LocalExecutor(processes=2).map(Recorded(Path(sys.argv[2]), seconds=20), map(Shard, range(2))):
        pass
"""


@pytest.mark.parametrize(
    ("start", "number"), [("fork", signal.SIGKILL), ("fork", signal.SIGINT), ("spawn", signal.SIGKILL)]
)
def test_workers_end_with_their_driver(tmp_path: Path, start: str, number: int):
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    command = [sys.executable, str(script), str(Path(executor_calls.__file__).parent), str(tmp_path), start]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as driver:
        _wait_for(lambda: all((tmp_path / f"{shard}.calls").exists() for shard in range(2)))
        workers = psutil.Process(driver.pid).children(recursive=True)
        assert len(workers) >= 2
        # A forked worker keeps the command line of its driver.
        assert all(worker.cmdline() == command for worker in workers) == (start == "fork")
        if number == signal.SIGINT:
            # Ctrl-C reaches the workers, too, which leave it to the driver.
            for worker in workers:
                worker.send_signal(number)
            assert not psutil.wait_procs(workers, 0.5)[0]
        driver.send_signal(number)
        driver.wait(10)
    _, alive = psutil.wait_procs(workers, 5)
    assert not alive


def _wait_for(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("processes", "gpus", "taken", "expected"),
    [(4, ("0", "1", "2", "3", "4"), 2, {"0,1", "2,3"}), (None, ("5", "7"), 1, {"5", "7"}), (2, ("0", "1"), 0, {"0,1"})],
)
def test_workers_with_a_model_share_out_the_gpus(processes, gpus, taken, expected, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(gpus))
    executor = LocalExecutor(processes=processes)
    environments = {result for _, result in executor.map(environment, SHARDS, Resources(gpus=taken, role="captioner"))}
    assert {devices for _, devices in environments} <= expected
    by_process = dict(environments)
    assert len(by_process) == len(environments)
    if processes is None or taken > 1:
        assert len(by_process) <= len(gpus)


def test_worker_that_loads_a_model_is_not_forked():
    assert list(LocalExecutor(1).map(kind_of_process, SHARDS[:1], Resources(role="judge"))) == [(0, "SpawnProcess")]


def test_worker_holds_no_more_than_two_calls():
    taken: list[Shard] = []

    def calls() -> Iterator[Shard]:
        for shard in SHARDS:
            taken.append(shard)
            yield shard

    results = LocalExecutor(processes=1).map(environment, calls())
    next(results)
    assert len(taken) == 2
    assert len(list(results)) == len(SHARDS) - 1


def test_workers_are_as_many_as_the_pool_the_model_and_memory_allow(monkeypatch: pytest.MonkeyPatch):
    def workers(executor: LocalExecutor, resources: Resources) -> int:
        return len(executor._environments(resources))

    monkeypatch.setattr(executors, "cores", lambda: 8)
    memory = {"meminfo": ["MemTotal: 99 kB", f"MemAvailable: {32 << 20} kB"], "memory.max": ["max"]}
    monkeypatch.setattr(executors, "_lines", lambda path: memory.get(path.name, ["0"]))
    assert workers(LocalExecutor(), Resources()) == 8
    assert workers(LocalExecutor(), Resources(workers=3)) == 3
    # Without a GPU a model is loaded once, unless the user says otherwise.
    assert workers(LocalExecutor(), Resources(role="judge")) == 1
    assert workers(LocalExecutor(2), Resources(role="judge")) == 2
    # 2 GiB a worker; the limit of a container counts, less what is in use.
    memory |= {"memory.max": [str(9 << 30)], "memory.current": [str(1 << 30)]}
    assert workers(LocalExecutor(), Resources()) == 4
    # They share the cores; with more workers than cores, each has one thread.
    assert {own["OMP_NUM_THREADS"] for own in LocalExecutor(3)._environments(Resources())} == {"2"}
    assert {own["OMP_NUM_THREADS"] for own in LocalExecutor(9)._environments(Resources())} == {"1"}


def test_gpus_that_this_process_may_use_are_those_that_workers_get(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert LocalExecutor().resources_for("encoder") == Resources(gpus=1, role="encoder")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3, 5"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert LocalExecutor().resources_for("encoder") == Resources(role="encoder")
