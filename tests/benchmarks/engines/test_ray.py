"""Units on a real cluster of ray: two nodes on this machine, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from counting_work import FACTORY, Sample
from in_shards import VOLATILE

from capbench.benchmarks.cli.main import main
from capbench.benchmarks.engines import driving
from capbench.benchmarks.engines.contract import Outcome, Pool
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.engines.ray import RayEngine, options_of_own_cluster
from capbench.benchmarks.engines.run_folder import read_run
from capbench.benchmarks.engines.workers import ray_worker
from capbench.benchmarks.engines.workers.ray_actors import Actors
from capbench.benchmarks.engines.workers.ray_machines import other_machines
from capbench.benchmarks.engines.workers.ray_sweeper import left
from capbench.benchmarks.running import runner
from capbench.benchmarks.running.units import Unit, WorkSpec
from capbench.errors import DataError, EngineError, StoreError, UsageError

pytest.importorskip("ray", reason='needs ray: pip install "capbench[ray]"')
pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes of a core each, one of which says that it has two GPUs: each node and worker costs a second or two."""
    before = {**os.environ}
    # A cluster of this machine alone needs no token in the user's home; workers that ended are found soon.
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_enable_metrics_collection": "0"}
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    os.environ["BENCH_CACHE"] = str(tmp_path_factory.mktemp("cache of nodes"))
    from ray.cluster_utils import Cluster

    # Workers are as important as the tests beside them, which would leave them no time otherwise.
    quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3, "worker_niceness": 0}
    # Nobody reads its logs, and no node is to be had for it.
    alone = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **alone, "_system_config": quick})
    nodes.add_node(num_cpus=1, num_gpus=2)
    yield nodes
    nodes.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return Sample(tmp_path / "run")


SCENARIOS: list[Callable[..., None]] = []


def on_cluster(scenario: Callable[..., None]) -> Callable[..., None]:
    """Add a scenario to those of the one cluster, which one process of pytest starts."""
    SCENARIOS.append(scenario)
    return scenario


def test_cluster(
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    subtests: pytest.Subtests,
):
    for scenario in SCENARIOS:
        with subtests.test(scenario.__name__), monkeypatch.context() as patch:
            folder = tmp_path / scenario.__name__
            given = {
                "cluster": cluster, "tmp_path": folder, "monkeypatch": patch, "capfd": capfd, "subtests": subtests,
                "sample": Sample(folder / "run") if "sample" in (names := signature(scenario).parameters) else None,
            }  # fmt: skip
            scenario(**{name: given[name] for name in names})


def carry_out(cluster: Any, sample: Sample, *pools: Pool, **options: Any) -> Outcome:
    return RayEngine(cluster.address, pools).carry_out(sample.spec, sample.units, **options)


def same_as_local(sample: Sample, outcome: Outcome, folder: Path) -> bool:
    """Return whether the results are those of one process, and committed once each."""
    alone = Sample(folder / "alone")
    LocalEngine(1).carry_out(alone.spec, alone.units)
    return sample.results() == alone.results() and list(outcome.units) == [unit.key for unit in alone.units]


def when(condition: Callable[[], bool], action: Callable[[], object]) -> threading.Thread:
    """Do something as soon as something is so."""

    def wait() -> None:
        while not condition():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@on_cluster
def results_are_those_of_one_process_also_where_a_worker_is_killed(
    cluster: Any, sample: Sample, tmp_path: Path, capfd: Any
):
    (sample.folder / "warns").touch()
    sample.befalls(13, "once")
    outcome = carry_out(cluster, sample, Pool("cpu"))

    assert same_as_local(sample, outcome, tmp_path)
    assert (outcome.computed, outcome.found) == (9, 0)
    assert outcome.units["caption-1"].attempts == 2
    said = capfd.readouterr()
    assert said.err.count("beware of caption") == 1
    assert said.out == ""


@on_cluster
def units_are_placed_as_they_come(cluster: Any, tmp_path: Path):
    sample = Sample(tmp_path / "many", documents=200)
    begun: list[int] = []

    def coming() -> Iterator[Unit]:
        for unit in sample.units:
            begun.append(len(sample.notes("begun")))
            yield unit

    one = Pool("cpu", 1)
    RayEngine(cluster.address, [one]).carry_out(sample.spec, coming(), folder=tmp_path / "told")
    assert begun[-1] > 0
    assert read_run(tmp_path / "told") == (sample.spec, sample.units)


@on_cluster
def document_that_raises_is_left_out(cluster: Any, sample: Sample):
    sample.befalls(13, "raise")
    sample.units = [sample.units[2]]
    (left_out,) = carry_out(cluster, sample).left_out
    assert (left_out.documents, left_out.fault.in_one_line) == (
        (13,),
        "ValueError: document 13 is impossible",
    )


@on_cluster
def error_of_the_user_is_told_as_it_is(cluster: Any, sample: Sample):
    sample.befalls(13, "data")
    sample.units = [sample.units[2]]
    with pytest.raises(DataError, match="document 13 is missing\nPut it there"):
        carry_out(cluster, sample)


@on_cluster
def model_that_is_spread_has_the_gpus_of_one_node(cluster: Any, tmp_path: Path):
    sample = Sample(tmp_path / "run", pools=("llm", "clip"))
    carry_out(cluster, sample, Pool("cpu", 1), Pool("llm", 1, gpus=2), Pool("clip", 1, gpus=1))

    # One node has room for one of the two workers: the first gives it up when it has nothing more to do.
    assert sorted(line.split()[0] for line in sample.notes("loaded")) == ["clip", "llm"]
    assert {line.split()[0]: line.split()[1].count(",") for line in sample.notes("loaded")} == {
        "llm": 1, "clip": 0,
    }  # fmt: skip


@on_cluster
def model_is_loaded_once_a_replica_and_let_go(cluster: Any, tmp_path: Path):
    sample = Sample(tmp_path / "run", 120, 5, pools=("a", "b", "c", "d"))
    carry_out(cluster, sample, *(Pool(name, 1) for name in "abcd"))

    assert sorted(line.split()[0] for line in sample.notes("loaded")) == ["a", "b", "c", "d"]
    assert {line.split()[2] for line in sample.notes("loaded")} == {"1"}
    # The driver's and a worker's for each core; not one a model.
    assert len(sample.notes("opened")) <= 1 + 2


@on_cluster
def driver_that_is_killed_goes_on_where_it_was(cluster: Any, sample: Sample, tmp_path: Path):
    (sample.folder / "slow").write_text("0.05")
    code = (
        "import sys\n"
        "from counting_work import FACTORY, Sample\n"
        "from capbench.benchmarks.engines.ray import RayEngine\n"
        "from capbench.benchmarks.running.units import Unit, WorkSpec\n"
        "units = [Unit.from_json(line) for line in open(sys.argv[1] + '/units')]\n"
        "RayEngine(sys.argv[2]).carry_out(WorkSpec(FACTORY, {'folder': sys.argv[1]}), units)\n"
    )
    (sample.folder / "units").write_text("\n".join(unit.to_json() for unit in sample.units))
    driver = subprocess.Popen([sys.executable, "-c", code, str(sample.folder), cluster.address])
    when(lambda: len(sample.results()) >= 2, driver.kill).join()
    driver.wait()
    (sample.folder / "slow").unlink()
    outcome = carry_out(cluster, sample, Pool("cpu", 1))

    assert same_as_local(sample, outcome, tmp_path)
    assert outcome.found >= 2
    # What the two workers had in hand may be computed again, and no more.
    assert len(sample.notes("begun")) <= 9 + 2


@on_cluster
def two_drivers_at_once_leave_one_result_a_unit(cluster: Any, sample: Sample, tmp_path: Path):
    import ray

    (sample.folder / "slow").write_text("0.02")
    ray.init(cluster.address, log_to_driver=False)
    try:
        outcomes: list[Outcome] = []
        runs = [
            threading.Thread(
                target=lambda: outcomes.append(carry_out(cluster, sample, Pool("cpu", 1, cpus=0.5)))
            )
            for _ in range(2)
        ]
        for one in runs:
            one.start()
        for one in runs:
            one.join()
    finally:
        ray.shutdown()

    assert len(outcomes) == 2
    assert all(same_as_local(sample, outcome, tmp_path / str(n)) for n, outcome in enumerate(outcomes))
    assert not list((sample.folder / "results").glob(".*"))


@on_cluster
def work_that_only_workers_cannot_open_is_refused_before_it_starts(cluster: Any, sample: Sample):
    spec = WorkSpec(FACTORY, {"folder": str(sample.folder), "faulty": f"store but in {os.getpid()}"})
    with pytest.raises(StoreError, match="cannot be reached\nName one that can"):
        RayEngine(cluster.address).carry_out(spec, sample.units[:1])
    assert not sample.notes("begun")


@on_cluster
def what_no_node_has_is_refused_before_it_starts(cluster: Any, sample: Sample):
    for pool, message in (
        (
            Pool("cpu", cpus=64),
            "'cpu' takes 64 CPUs, 0 GPUs, and no node of the cluster at .* of 2 has 1 CPU and 2 GPUs",
        ),
        (Pool("cpu", gpus=8), "takes 1 CPU, 8 GPUs"),
        (Pool("cpu", memory=1 << 60), "1073741824.0 GiB"),
    ):
        with pytest.raises(UsageError, match=message):
            carry_out(cluster, sample, pool)
    assert set(sample.notes("opened")) == {str(os.getpid())}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379"])
def test_address_where_no_cluster_is_is_refused(sample: Sample, address: str):
    with pytest.raises(UsageError, match=f"no cluster of ray can be had at '{address}'"):
        RayEngine(address).carry_out(sample.spec, sample.units)


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", "ray://host:1"])
def test_what_is_no_address_is_refused(sample: Sample, address: str):
    with pytest.raises(UsageError, match="It is auto, local or HOST:PORT"):
        RayEngine(address).carry_out(sample.spec, sample.units)


def test_ray_that_is_missing_is_said_with_what_installs_it(sample: Sample, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r'pip install "capbench\[ray\]"'):
        RayEngine("auto").carry_out(sample.spec, sample.units)


def test_node_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, sample: Sample):
    worker = ray_worker.actor_class()()
    assert "has capbench" in worker.open(sample.spec.to_json(), [], {}, "99.0", 1)["missing"]
    monkeypatch.setitem(sys.modules, "capbench", None)
    assert "import of capbench halted" in worker.open(sample.spec.to_json(), [], {}, "99.0", 1)["missing"]


@on_cluster
def node_with_another_capbench_is_refused(cluster: Any, sample: Sample, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("capbench.benchmarks.engines.workers.ray_actors.version", lambda name: "99.0")
    sample.units = sample.units[:1]
    with pytest.raises(UsageError, match=r"cannot work: \S+ has capbench .*\n.*capbench\[ray\]==99.0"):
        carry_out(cluster, sample)


RUNS: dict[str, tuple[str, ...]] = {
    "flickr8k_expert": ("--metrics", "bleu_4,cider,length"),
    "pascal50s": ("--metrics", "bleu_4,cider,length"),
    "shapes_detailcaps": (
        "--model",
        "shapes-llava",
        "--metrics",
        "cider",
        "--gen_kwargs",
        "max_new_tokens=12",
    ),
    "shapes_dci_all_scm": ("--model", "shapes-clip"),
}
"""A task of each protocol, with what it is run with."""
WITHOUT_DATA = {"flickr8k_expert": "shapes_expert", "pascal50s": "shapes_pascal"}
FEW = "pools: {cpu: {replicas: %d}, captioner: {replicas: 1}, encoder: {replicas: 1}}"
"""To begin takes a worker a second, and to load a model several."""


def run(folder: Path, *words: object) -> tuple[dict[str, Any], pyarrow.Table]:
    """Return what the record of a run says, but for when and where it ran, and its samples."""
    places = ("--output_path", folder, "--store", folder / "store.sqlite")
    assert main(["run", *map(str, (*words, *places))]) == 0
    (file,) = folder.rglob("run.json")
    record = json.loads(file.read_text())
    samples = pyarrow.parquet.read_table(file.with_name("samples.parquet"))
    return {key: value for key, value in record.items() if key not in VOLATILE}, samples


@on_cluster
def run_of_each_protocol_is_that_of_one_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
):
    documents, shards = 21, 7
    tmp_path.mkdir()
    on_ray = ("--engine", "ray", "--address", cluster.address, "--cluster", tmp_path / "cluster.yaml")
    for task, words in RUNS.items():
        # One worker has the model, another the rest; of the others, two share the work of one.
        (tmp_path / "cluster.yaml").write_text(FEW % (2 if task == "flickr8k_expert" else 1))
        task = task if "CAPBENCH_DATA" in os.environ else WITHOUT_DATA.get(task, task)
        words = ("--task", task, *words, "--limit", documents, "--bootstrap", 20)
        with subtests.test(task), monkeypatch.context() as patch:
            record, samples = run(tmp_path / task, *words)
            for name in ("SHARD", "SHARD_OF_IMAGES"):
                patch.setattr(runner, name, documents // shards)
            there = tmp_path / f"{task} on ray"
            assert run(there, *words, *on_ray, "--run_folder", there) == (record, samples)
            done = [len(file.read_text().splitlines()) for file in there.rglob("done.jsonl")]
            assert min(done) >= shards


@on_cluster
def folder_that_not_all_machines_see_is_refused_before_work_starts(
    cluster: Any, sample: Sample, tmp_path: Path
):
    (tmp_path / "shared").mkdir()
    here = os.open(tmp_path / "shared", os.O_RDONLY)
    # The numbers of files are of one process: others find nothing there, as another machine would not.
    os.dup2(here, 900)
    unseen = replace(sample.spec, folder="/proc/self/fd/900")
    seen = replace(sample.spec, folder=str(tmp_path / "shared"))
    try:
        RayEngine(cluster.address).carry_out(unseen, sample.units[:1])
        assert sample.notes("begun")
        other = cluster.add_node(num_cpus=1, node_ip_address="127.0.0.2")
        try:
            with pytest.raises(
                UsageError,
                match=r"1 machine of the cluster \(127\.0\.0\.2\) cannot see /proc/self/fd/900, .*\n.*--store s3",
            ):
                RayEngine(cluster.address).carry_out(unseen, sample.units[2:3], folder=tmp_path / "told")
            assert len(sample.notes("begun")) == 1
            assert not (tmp_path / "told").exists()
            RayEngine(cluster.address).carry_out(seen, sample.units[4:5])
        finally:
            cluster.remove_node(other)
    finally:
        os.close(here)
        os.close(900)
    assert len(sample.notes("begun")) == 2
    assert not list((tmp_path / "shared").iterdir())


def test_machines_are_told_by_their_addresses_and_those_without_cores_are_not_asked():
    def node(name: str, address: str, cpus: float = 1) -> dict[str, Any]:
        return {"NodeID": name, "NodeManagerAddress": address, "Resources": {"CPU": cpus}}

    nodes = [node("a", "10.0.0.1"), node("b", "10.0.0.1"), node("c", "10.0.0.2"), node("d", "10.0.0.3", 0)]
    assert other_machines(nodes, "a") == {"10.0.0.2": "c"}
    assert other_machines(nodes[:2], "b") == {}


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


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [
        (signal.SIGTERM, 143, "it connects"),
        (signal.SIGTERM, 143, "it works"),
        (signal.SIGKILL, -signal.SIGKILL, "it works"),
    ],
    ids=str,
)
def test_cluster_of_a_run_alone_ends_with_its_driver_which_ends_as_shells_do(
    number: signal.Signals, code: int, moment: str, tmp_path: Path
):
    run = "run --task shapes_expert --metrics length --engine ray --address local --run_folder told --store s.sqlite"
    driver = subprocess.Popen(
        [sys.executable, "-m", "capbench.benchmarks.cli.main", *run.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    mark: list[str] = []

    def is_there() -> bool:
        mark[:] = [mark_of_cluster(driver.pid)]
        begun = any((tmp_path / "told").rglob("spec.json")) if moment == "it works" else list(left(mark[0]))
        return bool(begun) or driver.poll() is not None

    # As 'timeout' and queues do: the signal is for the whole group.
    when(is_there, lambda: os.killpg(driver.pid, number)).join()
    said = driver.communicate()[1]
    assert driver.returncode == code, said
    assert said == (
        "" if number == signal.SIGKILL else "bench: terminated; what was finished is in the store\n"
    )
    assert mark[0]
    if number == signal.SIGKILL:
        deadline = time.monotonic() + 60
        while list(left(mark[0])) and time.monotonic() < deadline:
            time.sleep(0.1)
    assert list(left(mark[0])) == []


# Below, nodes are lost: these come last.


@on_cluster
def node_that_is_lost_costs_what_it_had_in_hand(cluster: Any, sample: Sample, tmp_path: Path):
    (sample.folder / "slow").write_text("0.03")
    (sample.folder / "together").write_text("3")
    (node,) = cluster.worker_nodes
    lost = when(
        lambda: len(sample.results()) >= 1,
        lambda: cluster.remove_node(node, allow_graceful=False),
    )
    outcome = carry_out(cluster, sample)
    lost.join()

    assert same_as_local(sample, outcome, tmp_path)
    assert len(sample.notes("begun")) <= 9 + 1
    assert not outcome.left_out


@on_cluster
def room_that_does_not_come_back_ends_the_run(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sample = Sample(tmp_path / "run", pools=("llm",))
    monkeypatch.setattr(driving, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(Actors, "hire", lambda self, shape: None)
    with pytest.raises(
        EngineError, match=r"nobody could take units of pool 'llm'.*no room for a worker with 1 CPU,"
    ):
        carry_out(cluster, sample)


MAKER = """\
maker: texts
models: {judge: {name: shapes-writer}}
stages:
  - {stage: merge, overall: overall, elements: parts, to: merged, beams: 1}
  - {stage: select, caption: merged, parser: {parser: grammar}, most: 30}
output: {columns: {captions: merged}}
"""


@on_cluster
def maker_writes_the_bytes_that_one_process_writes(cluster: Any, tmp_path: Path):
    tmp_path.mkdir()
    (tmp_path / "texts.yaml").write_text(MAKER)
    (tmp_path / "cluster.yaml").write_text("pools: {cpu: {replicas: 1}, judge: {replicas: 2}}")
    texts = [f"There is a {colour} star." for colour in ("red", "blue", "green")]
    rows = [{"id": str(n), "overall": texts[n % 3], "parts": [texts[n % 2]]} for n in range(40)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    on_ray = ("--engine", "ray", "--address", cluster.address, "--cluster", tmp_path / "cluster.yaml")
    made: dict[str, dict[str, bytes]] = {}
    for name, more in (("here", ()), ("there", (*on_ray, "--run_folder", tmp_path / "run"))):
        places = ("--output", tmp_path / name, "--store", tmp_path / f"{name}.sqlite")
        words = ("make", tmp_path / "texts.yaml", "--data", tmp_path / "data.jsonl", *places, *more)
        assert main([*map(str, words)]) == 0
        made[name] = {one.name: one.read_bytes() for one in (tmp_path / name).iterdir() if one.is_file()}
    assert made["there"] == made["here"]
    assert len(made["there"]["rows.jsonl"].splitlines()) == 30
    done = {one.parent.name: len(one.read_text().splitlines()) for one in tmp_path.rglob("done.jsonl")}
    assert done == {"merge": 3, "select": 3}
