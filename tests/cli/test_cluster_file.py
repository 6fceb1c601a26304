"""Cluster files: what they say, and how their faults are named."""

import pytest

from capbench.benchmarks.scale.executors import LocalExecutor, Resources
from capbench.cli.cluster_file import read_cluster
from capbench.errors import TaskError, UsageError

TEXT = """\
engine: ray
address: head:6379
run_folder: s3://bucket/capbench
pools:
  cpu: {cpus: 2, memory: 4 GB}
  captioner:
    gpus: 2
    replicas: 3
    memory: 1.5GiB
"""


def test_servers_of_a_file_and_options_that_hold_commands_are_refused(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(TEXT)
    with pytest.raises(
        UsageError, match=r"c\.yaml:3: bucket: .*\n.*c\.yaml:2: head:6379: the file names a server"
    ) as e:
        read_cluster(file)
    assert "--allow_server head:6379 allows it." in e.value.hint
    file.write_text('engine: slurm\nslurm: {options: ["--time=1:00\\nrm -rf /"]}\n')
    with pytest.raises(TaskError, match=r"c\.yaml:2: slurm\.options\.0: String should match"):
        read_cluster(file)


@pytest.mark.parametrize(
    ("line", "other", "fault"),
    [
        ("    gpus: 2", "    gpu: 2", r"c.yaml:7: unknown key 'gpu'. Did you mean 'gpus'\?"),
        ("address:", "adress:", r"c.yaml:2: unknown key 'adress'. Did you mean 'address'\?"),
        ("engine: ray", "engine: rey", "c.yaml:1: engine: Input should be 'local', 'ray' or 'slurm'"),
        ("  captioner:", "  captoner:", r"c.yaml:6: unknown key 'captoner'. Did you mean 'captioner'\?"),
        ("  captioner:", "  encoder:mine:", "c.yaml:6: unknown key 'encoder:mine'"),
        ("  cpu: {cpus: 2, memory: 4 GB}", "  cpu:", "c.yaml:5: pools.cpu: Input should be a valid dictionary"),
        ("replicas: 3", "replicas: 0", "c.yaml:8: pools.captioner.replicas: .* greater than or equal to 1"),
        ("1.5GiB", "a lot", "c.yaml:9: pools.captioner.memory: expected bytes, such as 16 GB"),
    ],
)
def test_fault_is_named_with_its_line(tmp_path, line: str, other: str, fault: str):
    (tmp_path / "c.yaml").write_text(TEXT.replace(line, other))
    with pytest.raises(TaskError, match=fault):
        read_cluster(tmp_path / "c.yaml")


@pytest.mark.parametrize(("text", "count"), [("512", 512), ("2 KB", 2048), ("3M", 3 << 20), ("1TiB", 1 << 40)])
def test_memory_is_read_in_powers_of_two(tmp_path, text: str, count: int):
    (tmp_path / "c.yaml").write_text(f"pools: {{cpu: {{memory: {text}}}}}")
    assert read_cluster(tmp_path / "c.yaml").resources()["cpu"].memory == count


def test_workers_with_a_model_take_what_the_pool_of_its_role_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    captioner, cpu = Resources(gpus=2, role="captioner"), Resources(cpus=2)
    executor = LocalExecutor(pools={"captioner": captioner, "cpu": cpu})
    assert executor.resources_for("captioner") == captioner
    assert executor.resources_for() == cpu
    with pytest.raises(UsageError, match="of role 'encoder', but the cluster file has no such pool"):
        executor.resources_for("encoder")
    assert LocalExecutor(pools={"cpu": cpu}).resources_for("encoder") == Resources(role="encoder")
