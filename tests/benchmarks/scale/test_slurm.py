"""Job arrays of a queue that is faked: jobs that vanish, die and run twice."""

import os
from pathlib import Path

import pytest
from executor_calls import Kept, Recorded, Shard, failing
from fake_slurm import fake_slurm

from capbench.benchmarks.scale import slurm
from capbench.benchmarks.scale.executors import Resources
from capbench.benchmarks.scale.slurm import SlurmExecutor
from capbench.errors import DataError, ExecutorError, UsageError

SHARDS = [Shard(number) for number in range(4)]
SQUARES = {number: number**2 for number in range(4)}


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fake queue, with no time to wait for what never comes."""
    import submitit

    programs = fake_slurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(slurm, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(slurm, "_LATE_SECONDS", 0.1)
    monkeypatch.setattr(slurm, "_VANISHED_SECONDS", 3.0)
    monkeypatch.setattr(submitit.SlurmJob, "watcher", type(submitit.SlurmJob.watcher)(delay_s=1))
    return programs


@pytest.fixture
def executor(tmp_path: Path) -> SlurmExecutor:
    slurm = SlurmExecutor(2, ["--partition=gpu", "--time=0-1:30", "--exclusive"])
    slurm.use_folder(tmp_path)
    return slurm


def test_each_job_of_an_array_takes_its_share(queue: Path, executor: SlurmExecutor, tmp_path: Path):
    recorded = Recorded(tmp_path)
    resources = Resources(gpus=2, memory=1 << 30, cpus=3, role="captioner")
    assert dict(executor.map(recorded, SHARDS, resources)) == SQUARES
    processes = [recorded.calls(number) for number in range(4)]
    assert [len(calls) for calls in processes] == [1] * 4
    assert processes[0][0][0] == processes[2][0][0] != processes[1][0][0]
    # What is in it is unpickled: only this user may write there.
    assert [folder.stat().st_mode & 0o777 for folder in (tmp_path / "slurm").iterdir()] == [0o700]
    script = (queue / "job-1").read_text().splitlines()
    for option in (
        "array=0-1%2", "partition=gpu", "time=0-1:30", "exclusive", "gpus-per-node=2", "mem=1024M", "cpus-per-task=3",
    ):  # fmt: skip
        assert f"#SBATCH --{option}" in script


def test_job_that_is_lost_is_named_and_the_same_command_finishes(queue: Path, executor: SlurmExecutor, tmp_path: Path):
    (queue / "fate").write_text("vanish 1\ndie 2\n")
    executor.slots = 3
    ways = (
        r"1_2 is FAILED, 1_1 has vanished\), for: shard 2, shard 1\n",
        r"1_1 has vanished, 1_2 is FAILED\), for: shard 1, shard 2\n",
    )
    with pytest.raises(ExecutorError, match=rf"^2 jobs of 3 left no result \(({'|'.join(ways)})") as caught:
        list(executor.map(Kept(tmp_path), SHARDS))
    assert "it submits the rest" in caught.value.hint
    assert str(tmp_path / "slurm") in caught.value.hint
    (queue / "fate").write_text("")
    assert dict(executor.map(Kept(tmp_path), SHARDS)) == SQUARES
    assert [len(Recorded(tmp_path).calls(number)) for number in range(4)] == [1] * 4


def test_job_that_runs_twice_gives_the_same(queue: Path, executor: SlurmExecutor, tmp_path: Path):
    (queue / "fate").write_text("twice 0\n")
    assert dict(executor.map(Kept(tmp_path), SHARDS)) == SQUARES


def test_fault_of_the_user_arrives_as_it_is_and_ends_the_other_jobs(queue, executor, monkeypatch):
    # The other job is still waited for when the fault arrives, however slow the machine is.
    monkeypatch.setattr(slurm, "_VANISHED_SECONDS", 600.0)
    (queue / "fate").write_text("vanish 1\n")
    with pytest.raises(DataError, match="shard 0 is no shard\nName another"):
        list(executor.map(failing, SHARDS))
    assert (queue / "cancelled").read_text() == "1_1\n"


def test_gpus_of_jobs_are_those_of_the_pools(executor: SlurmExecutor):
    assert executor.resources_for("judge") == Resources(role="judge")


def test_no_calls_are_no_jobs(queue: Path, executor: SlurmExecutor):
    assert list(executor.map(failing, [])) == []
    assert not (queue / "job-1").exists()


def test_what_cannot_be_submitted_is_said(queue, executor, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"needs a folder that all nodes see\n.*--run_folder"):
        list(SlurmExecutor().map(failing, SHARDS))
    executor.options = ["--time=soon"]
    with pytest.raises(UsageError, match="--time=soon is not a duration"):
        list(executor.map(failing, SHARDS))
    executor.options = []
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_JOB_ID", "7")
        with pytest.raises(UsageError, match="ray symmetric-run"):
            list(executor.map(failing, SHARDS))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"jobs cannot be submitted: .*srun"):
        list(executor.map(failing, SHARDS))


@pytest.mark.parametrize(
    ("duration", "minutes"),
    [("90", 90), ("90:30", 90), ("0:30", 1), ("4:30:00", 270), ("2-12", 3600), ("1-02:30", 1590), ("1-02:30:59", 1590)],
)
def test_time_is_read_as_sbatch_reads_it(duration: str, minutes: int):
    assert slurm._minutes(duration) == minutes
