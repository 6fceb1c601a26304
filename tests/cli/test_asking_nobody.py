"""What only reads, and every dry run, asks nobody: no address is looked up, and no connection made."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants
from PIL import Image
from watched import ASKING, Event, watched

from capbench import hub
from capbench.benchmarks.records.progress_file import progress_written
from capbench.cli.main import main
from capbench.progress import silent

TASK = """\
task: {name}
dataset_path: {data}
dataset_kwargs: {files}
output_type: agreement
doc_to_id: id
doc_to_image: image
doc_to_candidate: candidate
doc_to_target: references
doc_to_human: rating
# A module of the hub, a model of the hub, and what needs neither.
metric_list: ['evaluate:evm', bertscore, length, rouge_l]
statistics: [kendall_b]
metadata: {{version: 1.0}}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a task whose data is here, one whose data would be on the hub, a run, and how far another is."""
    folder = tmp_path_factory.mktemp("world")
    tasks = folder / "tasks"
    tasks.mkdir()
    texts = [
        {"candidate": "a dog" + " runs" * n, "references": ["a dog runs"], "captions": ["a dog"]} for n in range(6)
    ]
    rows = [{"id": n, "image": f"{n}.jpg", "rating": n % 3, **caption} for n, caption in enumerate(texts)]
    for row in rows:
        Image.new("RGB", (8, 8)).save(tasks / row["image"])
    (tasks / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tasks / "near.yaml").write_text(TASK.format(name="near", data="json", files="{data_files: rows.jsonl}"))
    (tasks / "far.yaml").write_text(TASK.format(name="far", data="nobody/not_here", files="{}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(folder / "cache"))
        run = f"run --task near --include_path {tasks} --metrics length,rouge_l --output_path {folder}/runs"
        assert main(run.split()) == 0
    with progress_written(folder / "far_away", silent) as progress:
        progress("scores")(1, 3)
    return folder


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the hub's libraries take it that they may ask, and have nothing in their cache."""
    import datasets.config

    monkeypatch.setattr(hub, "_SILENT", {})
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    # 'bench view' sets it for its process.
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


READS = yaml.safe_load(Path(__file__).with_name("reads.yaml").read_text(encoding="utf-8"))


def run_of(world: Path) -> Path:
    (record,) = (world / "runs").rglob("run.json")
    return record.parent


def asked(events: list[Event]) -> list[Event]:
    return [event for event in events if event.kind in ASKING]


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("command", READS.values(), ids=READS)
def test_command_that_only_reads_asks_nobody(command: str, world: Path):
    with watched(forbid=ASKING) as events:
        code = main(shlex.split(command.format(world=world, run=run_of(world))))
    assert asked(events) == []
    assert code == 0


@pytest.mark.usefixtures("online")
def test_data_that_would_be_on_the_hub_is_not_asked_for(world: Path, capsys: pytest.CaptureFixture[str]):
    with watched(forbid=ASKING) as events:
        assert main(["data", "far", "--include_path", str(world / "tasks")]) == 1
    assert asked(events) == []
    assert "hub data set nobody/not_here: fetched by the first run" in capsys.readouterr().out


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize("command", ["validate own", "run --task own --dry_run"])
def test_module_of_the_evaluate_library_beside_a_task_is_not_even_opened(command: str, world: Path, tmp_path: Path):
    module = tmp_path / "own" / "own.py"
    module.parent.mkdir()
    module.write_text("raise SystemExit(77)")
    task = TASK.format(name="own", data="json", files=f"{{data_files: {world}/tasks/rows.jsonl}}")
    (tmp_path / "own" / "own.yaml").write_text(task.replace("evaluate:evm", f"evaluate:{module}"))
    options = ["--include_path", str(module.parent), "--allow_outside", str(world / "tasks")]
    with watched() as events:
        assert main([*command.split(), *options]) == 0
    assert [event for event in events if event.target == str(module)] == []


VISIT = """
import http.client, sys, time
while True:
    try:
        visited = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
        visited.request("GET", "/")
        sys.exit(visited.getresponse().status != 403)
    except ConnectionRefusedError:
        time.sleep(0.05)
"""


@pytest.mark.usefixtures("online")
def test_pages_are_served_on_the_loopback_and_nobody_is_asked(world: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    visitor = subprocess.Popen([sys.executable, "-c", VISIT, str(port)])

    def end_after_the_visit() -> None:
        if visitor.wait() >= 0:
            os.kill(os.getpid(), signal.SIGINT)

    ending = threading.Thread(target=end_after_the_visit)
    ending.start()
    try:
        with watched(forbid=ASKING) as events:
            code = main(["view", str(world / "runs"), "--port", str(port)])
    finally:
        visitor.kill()
        ending.join()
    assert (code, visitor.returncode) == (0, 0)
    assert asked(events) == []
    assert [event.target for event in events if event.kind == "listen"] == [f"('127.0.0.1', {port})"]
