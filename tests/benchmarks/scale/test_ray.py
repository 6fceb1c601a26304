"""A real cluster of ray on this machine: three nodes, of which one is lost."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from executor_calls import Permitted, Recorded, Shard, failing

from capbench.benchmarks.scale import ray as ray_executor
from capbench.benchmarks.scale.executors import Resources
from capbench.benchmarks.scale.ray import RayExecutor, options_of_own_cluster
from capbench.benchmarks.scale.ray_sweeper import left
from capbench.errors import DataError, ExecutorError, UsageError
from capbench.permissions import Permissions

pytestmark = pytest.mark.ray

SHARDS = [Shard(number) for number in range(12)]
SQUARES = {number: number**2 for number in range(12)}
MODEL = Resources(role="captioner", gpus=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three nodes of a core each, two of which say that they have a GPU."""
    before = {**os.environ}
    # A cluster of this machine alone needs no token in the user's home; workers that ended are found soon.
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_enable_metrics_collection": "0"}
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["BENCH_CACHE"] = str(tmp_path_factory.mktemp("cache of nodes"))
    from ray.cluster_utils import Cluster

    # Workers are as important as the tests next to them, which would leave them no time otherwise.
    quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3, "worker_niceness": 0}
    # Nobody reads its logs, and no node is to be had for it.
    alone = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **alone, "_system_config": quick})
    for _ in range(2):
        nodes.add_node(num_cpus=1, num_gpus=1)
    yield nodes
    nodes.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def executor(cluster: Any) -> Iterator[RayExecutor]:
    connected = RayExecutor(cluster.address)
    yield connected
    connected.close()


def when(condition: Callable[[], bool], action: Callable[[], object]) -> threading.Thread:
    """Do something as soon as something is so."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def scenario_results_are_those_of_one_process(executor: RayExecutor, folder: Path):
    recorded = Recorded(folder)
    assert dict(executor.map(recorded, SHARDS)) == SQUARES
    assert [len(recorded.calls(number)) for number in range(12)] == [1] * 12


def scenario_actors_keep_what_they_loaded(executor: RayExecutor, folder: Path):
    recorded = Recorded(folder)
    assert executor.resources_for("captioner") == MODEL
    assert dict(executor.map(recorded, SHARDS, MODEL)) == SQUARES
    calls = [call for number in range(12) for call in recorded.calls(number)]
    processes = {process for process, _ in calls}
    assert len(processes) <= 2
    assert sorted(calls) == [
        (process, count)
        for process in sorted(processes)
        for count in range(1, 1 + sum(caller == process for caller, _ in calls))
    ]


def scenario_model_is_loaded_on_no_more_workers_than_its_pool_has(executor: RayExecutor, folder: Path):
    recorded = Recorded(folder)
    list(executor.map(recorded, SHARDS, Resources(role="judge", workers=1)))
    assert len({process for number in range(12) for process, _ in recorded.calls(number)}) == 1


def scenario_fault_of_the_user_and_permissions_are_as_they_are_here(executor: RayExecutor, folder: Path):
    for resources in (Resources(), MODEL):
        with pytest.raises(DataError, match="is no shard\nName another") as caught:
            list(executor.map(failing, SHARDS, resources))
        assert caught.value.hint == "Name another."
    permissions = Permissions((folder,), ("localhost:8000",), functions=True)
    assert dict(executor.map(Permitted(permissions), SHARDS[:1])) == {0: permissions}


def scenario_worker_that_is_killed_once_is_replaced(executor: RayExecutor, folder: Path):
    for resources in (Resources(), MODEL):
        recorded = Recorded(folder, deadly=(3,), lives_after=f"killed {resources.role}")
        assert dict(executor.map(recorded, SHARDS[:5], resources)) == {n: n**2 for n in range(5)}


def scenario_call_that_kills_its_worker_is_named(executor: RayExecutor, folder: Path, monkeypatch):
    monkeypatch.setattr(ray_executor, "_RETRIES", 1)
    for resources in (Resources(), MODEL):
        with pytest.raises(ExecutorError, match="a worker ended 2 times while it ran shard 1: ") as caught:
            list(executor.map(Recorded(folder, deadly=(1,)), SHARDS[:3], resources))
        assert "it continues" in caught.value.hint


def scenario_what_no_node_has_is_refused(executor: RayExecutor, folder: Path):
    for resources, message in (
        (
            Resources(cpus=64),
            r"no node of the cluster at .* has the 64 CPUs, 0 GPUs of a worker; .* of 3 has 1 CPU and 1 GPU",
        ),
        (Resources(gpus=8), "has the 1 CPU, 8 GPUs of a worker"),
        (Resources(memory=1 << 60), r"1073741824.0 GiB"),
    ):
        with pytest.raises(UsageError, match=message):
            list(executor.map(Recorded(folder), SHARDS, resources))


def scenario_node_with_another_capbench_is_refused(executor: RayExecutor, folder: Path, monkeypatch):
    monkeypatch.setattr(ray_executor, "version", lambda name: "99.0")
    with pytest.raises(UsageError, match=r"cannot run capbench: \S+ has capbench .*\n.*capbench\[ray\]==99.0"):
        list(RayExecutor(executor.address).map(Recorded(folder), SHARDS))


def scenario_folder_that_not_all_machines_see_is_refused(executor: RayExecutor, folder: Path, cluster: Any):
    executor.use_folder(folder)
    here = os.open(folder, os.O_RDONLY)
    # The numbers of files are of one process: others find nothing there, as another machine would not.
    os.dup2(here, 900)
    other = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.2")
    try:
        executor.use_folder(folder)
        with pytest.raises(UsageError, match=r"\(.*127\.0\.0\.2.*\) cannot see /proc/self/fd/900, .*\n.*s3://"):
            executor.use_folder(Path("/proc/self/fd/900"))
    finally:
        cluster.remove_node(other)
        os.close(here)
        os.close(900)
    assert not list(folder.iterdir())


def scenario_driver_that_is_killed_leaves_no_worker_at_work(executor: RayExecutor, folder: Path):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from executor_calls import Recorded, Shard\n"
        "from capbench.benchmarks.scale.ray import RayExecutor\n"
        "list(RayExecutor(sys.argv[2]).map(Recorded(Path(sys.argv[1]), seconds=60), [Shard(0)]))\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code, str(folder), executor.address])
    recorded = Recorded(folder)
    when(lambda: bool(recorded.calls(0)), driver.kill).join()
    driver.wait()
    (process, _), deadline = recorded.calls(0)[0], time.monotonic() + 30
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists()


def scenario_node_that_is_lost_costs_what_it_had_in_hand(executor: RayExecutor, folder: Path, cluster: Any):
    for resources in (Resources(), MODEL):
        place = folder / f"of {resources.role}"
        place.mkdir()
        recorded = Recorded(place, seconds=0.3)
        node = next(iter(cluster.worker_nodes))
        lost = when(
            lambda place=place: len(list(place.iterdir())) >= 4,
            lambda node=node: cluster.remove_node(node, allow_graceful=False),
        )
        assert dict(executor.map(recorded, SHARDS, resources)) == SQUARES
        lost.join()
        assert sum(len(recorded.calls(number)) for number in range(12)) <= 12 + 1
        if resources is not MODEL:
            cluster.add_node(num_cpus=1, num_gpus=1)


def scenario_room_that_does_not_come_back_ends_the_run(
    executor: RayExecutor, folder: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ray_executor, "_ROOM_SECONDS", 1.0)
    monkeypatch.setattr(ray_executor, "_LOOK_SECONDS", 0.2)
    nodes = list(cluster.worker_nodes)
    lost = when(
        lambda: any(folder.iterdir()), lambda: [cluster.remove_node(node, allow_graceful=False) for node in nodes]
    )
    with pytest.raises(ExecutorError, match=r"no node .* room for a worker \(1 CPU, 1 GPU\)"):
        list(executor.map(Recorded(folder, seconds=30), SHARDS, MODEL))
    lost.join()


def test_cluster(cluster, executor, tmp_path, monkeypatch, subtests):
    """All scenarios in one test, so that one process of pytest starts one cluster; the last lose nodes."""
    for name, scenario in list(globals().items()):
        if name.startswith("scenario_"):
            (tmp_path / name).mkdir()
            names = scenario.__code__.co_varnames[: scenario.__code__.co_argcount]
            with subtests.test(name), monkeypatch.context() as patches:
                known = {"executor": executor, "folder": tmp_path / name, "cluster": cluster, "monkeypatch": patches}
                scenario(**{name: known[name] for name in names})


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_address_where_no_cluster_is_is_refused(address: str):
    with pytest.raises(UsageError, match=f"no Ray cluster at '{address}'"):
        list(RayExecutor(address).map(failing, SHARDS))


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", "ray://host:1"])
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(UsageError, match="Use auto, local or HOST:PORT"):
        list(RayExecutor(address).map(failing, SHARDS))


def test_ray_that_is_missing_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'capbench\[ray\]'"):
        list(RayExecutor("auto").map(failing, SHARDS))


def test_cluster_of_a_run_alone_does_not_wait_for_all_else_on_its_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    assert options_of_own_cluster()["_system_config"] == {"worker_niceness": 0}
    monkeypatch.setenv("RAY_worker_niceness", "15")
    assert "_system_config" not in options_of_own_cluster()


def mark_of_cluster(driver: int) -> str:
    """Return the mark of the processes of a driver's cluster, which what sweeps them up is told; empty before that."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            words = (folder / "cmdline").read_text().split("\0")
            if parent == str(driver) and any(word.endswith("ray_sweeper.py") for word in words):
                return words[-2]
    return ""


_OWN_CLUSTER = """
import sys
from pathlib import Path
from executor_calls import Recorded, Shard
from capbench.benchmarks.scale.ray import RayExecutor
list(RayExecutor("local").map(Recorded(Path(sys.argv[1]), seconds=60), [Shard(0)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(("number", "moment"), [(signal.SIGTERM, "it connects"), (signal.SIGKILL, "it works")], ids=str)
def test_cluster_of_a_run_alone_ends_with_its_driver(number: signal.Signals, moment: str, tmp_path: Path):
    driver = subprocess.Popen(
        [sys.executable, "-c", _OWN_CLUSTER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled"},
        stderr=subprocess.PIPE,
        process_group=0,
    )
    mark: list[str] = []

    def is_there() -> bool:
        mark[:] = [mark_of_cluster(driver.pid)]
        begun = (tmp_path / "0.calls").exists() if moment == "it works" else list(left(mark[0]))
        return bool(begun) or driver.poll() is not None

    # As 'timeout' and queues do: the signal is for the whole group.
    when(is_there, lambda: os.killpg(driver.pid, number)).join()
    said = driver.communicate()[1]
    assert driver.returncode == -number, said
    assert mark[0]
    deadline = time.monotonic() + 60
    while list(left(mark[0])) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(left(mark[0])) == []
