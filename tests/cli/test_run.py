"""``bench run``: what is printed and written, what fails and with which exit code."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from tiny_capture import find_minilm
from tiny_images import noise_png

from capbench.adapters import Captioner, CaptionRequest, adapters
from capbench.cli import ls
from capbench.cli.run import _alike
from capbench.errors import UsageError

from .conftest import cells_of

JUDGES = yaml.safe_load(Path(__file__).with_name("judges_refused.yaml").read_text())
_BENCH = "import sys; from capbench.cli.main import main; sys.exit(main())"


def records(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("run.json"))]


def test_table_goes_to_stdout_and_everything_else_to_stderr(run_small, tmp_path: Path):
    done = run_small().succeeded()
    assert done.out.splitlines() == [
        "| Task   | Metric   | Statistic   |   Value |   n |",
        "|--------|----------|-------------|---------|-----|",
        "| small  | length   | τ-b ↑       |  0.6667 |   4 |",
    ]
    assert done.err.endswith("\n\n↑ higher is better\n")
    assert "more is better" not in run_small("--format", "csv").err
    record, _ = sorted((tmp_path / "runs").rglob("run.json"))
    assert "small: 4 of 4 documents scored in" in done.err
    assert f"written to {record.parent}" in done.err


def test_dry_run_says_what_would_be_done_and_writes_nothing(run_small, tmp_path: Path):
    before = set(tmp_path.rglob("*"))
    done = run_small("--dry_run").succeeded("rows.jsonl (json)\n", "metrics:    length", "statistics: kendall_b")
    assert done.out.startswith("task:       small (version 1.0, agreement)\n")
    # The small task itself is written by the fixture.
    assert {path for path in set(tmp_path.rglob("*")) - before if "tasks" not in path.parts} == set()


def test_missing_data_exits_1_saying_what_is_missing_where_to_put_it_and_how_to_check(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "data"))
    done = bench("run", "--task", "flickr8k_expert", "--metrics", "length").failed(1)
    for part in (
        "task 'flickr8k_expert': the data set Flickr8k",
        f"looked in {tmp_path / 'data' / 'flickr8k'} and {tmp_path / 'cache' / 'data' / 'flickr8k'}",
        "ExpertAnnotations.txt",
        "--data flickr8k_expert=PATH",
        "'bench data flickr8k_expert' shows terms and layout and checks your copy.",
    ):
        assert part in done.err
    assert done.out == ""
    named = f"flickr8k_expert={tmp_path / 'no'}"
    done = bench("run", "--task", "flickr8k_expert", "--data", named)
    done.failed(1, f"--data {named}: there is no such file or folder")


def test_metric_that_fails_leaves_the_others_printed_and_written_and_exits_1(run_small, user_metrics, tmp_path: Path):
    done = run_small("--metrics", "broken", "length").failed(1)
    assert cells_of(done.out) == [
        ["small", "Broken", "τ-b ↑", "-", "0", "the model is gone"],
        ["", "length", "τ-b ↑", "0.6667", "4", ""],
    ]
    assert "small: metric broken failed: the model is gone\nBring it back." in done.err
    (record,) = records(tmp_path / "runs")
    assert record["metric_errors"][0]["metric"] == "broken"
    assert record["results"]["small"]["length.kendall_b,none"] == pytest.approx(4 / 6)


def test_what_cannot_run_stops_before_the_work(run_small, write_task, no_java, user_metrics, tmp_path: Path):
    write_task(metric_list=["spice"])
    run_small().failed(1, "bench: error: metric 'spice': SPICE needs stanford-corenlp")
    run_small("--metrics", "undocumented").failed(2, "metric 'undocumented': its class has no 'source'.")
    folder = write_task(published={"paper": "pacspp", "table": 1, "task": "Flickr8k-Exprt"})
    place = f"{folder.name}/small.yaml:1: "
    run_small().failed(2, f"{place}table 1 of 'pacspp' has no task 'Flickr8k-Exprt'. Did you mean 'Flickr8k-Expert'?")
    assert not (tmp_path / "runs").exists()
    # Java is not missed by metrics that need none.
    write_task()
    run_small("--metrics", "length").succeeded()


@pytest.mark.parametrize("name", ["id", "failure", "preferred", "candidates", "scores.cider"])
def test_metric_that_is_called_as_a_column_of_the_samples_is_refused_before_the_work(
    run_small, write_task, tmp_path: Path, name: str
):
    write_task(metric_list=["bleu_1", {"metric": "length", "name": name}])
    run_small().failed(
        2,
        f"small.yaml:1: metric 'length' cannot have the name '{name}'",
        "Columns: id, image, system, category, failure, candidate, rival_caption, references",
    )
    assert not list(tmp_path.rglob("run.json"))


# --- bars, pipes and signals


def test_reader_who_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", _BENCH, "ls", "tasks"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_under_the_output_is_an_error_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", _BENCH, "ls", "tasks"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b"bench: error: [Errno 28] No space left on device\n"


_PROGRAM = """
import atexit, sys, types
from capbench.cli.main import program

class Kept:
    def __del__(self):
        print("taken apart", flush=True)

def on_import(event, arguments):
    if event == "import" and arguments[0] == "capbench.errors":
        atexit.register(print, "ended", flush=True)

sys.modules["kept"] = types.ModuleType("kept")
sys.modules["kept"].it = Kept()
sys.addaudithook(on_import)
program()
"""


@pytest.mark.parametrize(("words", "code"), [(["ls", "protocols"], 0), (["unheard-of"], 2)])
def test_program_ends_with_its_exit_code_and_all_that_ends_with_it_and_is_left_as_it_is(words: list[str], code: int):
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], stdout=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert ("generate_until" in done.stdout) == (not code)
    assert done.stdout.endswith("ended\n")


def test_terminal_without_greek_letters_still_gets_the_numbers(run_small, monkeypatch: pytest.MonkeyPatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    run_small().succeeded()
    assert b"| ?-b ?       |  0.6667 |" in printed.getvalue()


_SLOW = """
import sys, time
from capbench.adapters import Captioner, register_adapter
from capbench.cli.main import main

@register_adapter("unsteady")
class Slow(Captioner):
    batch_size = 1

    def fingerprint(self):
        return {"adapter": "unsteady"}

    def caption(self, requests):
        if requests[0].id == "r2":
            print("waiting", flush=True)
            time.sleep(60)
        return ["a dog" for _ in requests]

sys.exit(main(sys.argv[1:]))
"""


def test_run_that_is_ended_says_so_exits_as_shells_do_and_keeps_finished_captions(
    bench, write_captioning_task, unsteady, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    command = ["run", "--task", "small", "--model", "unsteady", "--bootstrap", "0"]
    command += ["--include_path", str(write_captioning_task()), "--output_path", str(tmp_path / "runs")]
    child = [sys.executable, "-c", _SLOW, *command]
    process = subprocess.Popen(child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert err == "bench: terminated; what was finished is in the store\n"
    assert out == ""
    monkeypatch.setattr(Unsteady, "mended", True)
    bench(*command).succeeded()
    assert Unsteady.asked == ["r2", "r3"]
    (record,) = records(tmp_path / "runs")
    assert record["store"] == {"found": 2, "computed": 2}


def test_data_of_a_group_is_the_data_of_its_tasks(bench, tmp_path: Path):
    (tmp_path / "Flickr8k.token.txt").write_text("a.jpg#0\ta dog runs\n")
    bench("run", "--task", "flickr8k", "--data", f"flickr8k={tmp_path}", "--metrics", "length").failed(
        1, f"{tmp_path} has no ExpertAnnotations.txt"
    )


def test_model_that_no_task_uses_is_refused(bench):
    bench("run", "--task", "composite", "--model", "iiw-p5b").failed(
        2, "model iiw-p5b writes captions, and nothing in composite uses it"
    )


class Panic(BaseException):
    """What an extension written in Rust makes of an interruption while it is imported."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", [Panic, UsageError, OSError])
def test_error_that_a_library_makes_of_an_interruption_is_the_interruption(bench, monkeypatch, number, kind):
    def interrupted(options: object) -> int:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except BaseException as error:
            raise kind("the import failed") from error
        return 0

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}[number]
    before = signal.signal(number, usual)
    monkeypatch.setattr(ls, "run", interrupted)
    try:
        done = bench("ls", "tasks")
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert done.code == 128 + number
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert done.err == f"bench: {word}; what was finished is in the store\n"


# --- captions that are not there


class Unsteady(Captioner):
    """Fails on the second document until it is mended; remembers what it was asked."""

    mended: ClassVar[bool] = False
    asked: ClassVar[list[str]] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "unsteady"}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        self.asked.extend(request.id for request in requests)
        return ["a dog" if self.mended or request.id != "r1" else None for request in requests]


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(adapters._entries, "unsteady", Unsteady)
    monkeypatch.setattr(Unsteady, "mended", False)
    monkeypatch.setattr(Unsteady, "asked", [])


@pytest.fixture
def caption(bench, write_captioning_task, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs a model, with further arguments, over four documents."""
    tasks = write_captioning_task(doc_to_text="Describe it.", metric_list=["length"])

    def run(*arguments: object) -> Any:
        where = ("--include_path", tasks, "--output_path", tmp_path / "runs")
        return bench("run", "--task", "small", "--bootstrap", 0, *where, *arguments)

    return run


def test_model_is_named_in_the_words_of_lm_eval(bench, write_captioning_task, tiny_llava: Path, tmp_path: Path):
    tasks = write_captioning_task(doc_to_image="image", generation_kwargs={"max_new_tokens": 2})
    for number in range(4):
        (tasks / f"{number}.jpg").write_bytes(noise_png(number))
    model = ("--model", "hf-multimodal", "--model_args", f"pretrained={tiny_llava},dtype=float", "--device", "cpu")
    bench("run", "--tasks", "small", *model, "--include_path", tasks, "--output_path", tmp_path / "runs").succeeded()
    (record,) = records(tmp_path / "runs")
    assert record["config"]["model"] == "hf"
    assert record["config"]["model_args"] == {"pretrained": tiny_llava.name, "dtype": "float", "device": "cpu"}


def test_run_that_a_tracker_refuses_is_written_and_shown_and_exits_1(run_small, tmp_path: Path, monkeypatch):
    def refuse(folder: Path) -> None:
        raise OSError(f"{folder}: disk is full")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", refuse)
    done = run_small("--log_to", "tensorboard").failed(1, "small: not logged to tensorboard: OSError: ", "disk is full")
    assert "| small " in done.out
    assert len(records(tmp_path / "runs")) == 1


def test_tasks_list_is_ls_tasks(bench, write_task):
    where = ("--include_path", write_task())
    assert bench("run", "--tasks", "list", *where).succeeded("small").out == bench("ls", "tasks", *where).out


def test_run_on_which_the_model_failed_is_written_and_shown_exits_1_and_is_completed_by_the_next(
    caption, unsteady, tmp_path: Path
):
    done = caption("--model", "unsteady").failed(
        1, "incomplete: the model failed on 1 document; run again to ask for these alone"
    )
    assert "incomplete: the model failed on 1 document" in done.out
    (record,) = records(tmp_path / "runs")
    assert [(failure["stage"], failure["samples"]) for failure in record["failures"]] == [("model", ["r1"])]
    assert Unsteady.asked == ["r0", "r1", "r2", "r3"]
    Unsteady.mended = True
    done = caption("--model", "unsteady").succeeded()
    assert "incomplete" not in done.err + done.out
    assert Unsteady.asked[4:] == ["r1"]


def test_part_of_the_captions_is_refused_without_subset_and_told_with_it(caption, tmp_path: Path):
    (tmp_path / "mine.jsonl").write_text('{"id": "r0", "caption": "a dog"}\n{"id": "r2", "caption": ""}')
    done = caption("--model", "captions:mine.jsonl").failed(
        1, "no caption is recorded for 2 of 4 documents: 'r1', 'r3'", "--subset"
    )
    assert records(tmp_path / "runs") == []
    of_lm_eval = ("--device", "cpu", "--batch_size", "auto")
    done = caption("--model", "captions:mine.jsonl", "--subset", *of_lm_eval).succeeded()
    assert all("a subset: 2 of 4 documents" in printed for printed in (done.out, done.err))
    assert re.search(r"1 caption counted as empty(?!:)", done.out)
    assert re.findall("counted as empty.*", done.err) == ["counted as empty: 1 × caption is empty (first: r2)"]
    (record,) = records(tmp_path / "runs")
    assert record["subset"]["documents"] == 2
    assert record["empty_captions"] == [{"stage": "caption", "reason": "is empty", "count": 1, "samples": ["r2"]}]
    assert record["config"]["subset"]


# -- What ``bench`` says of runs that others carry out, and of folders and files that keep it from it


def test_folder_of_workers_and_faults_of_a_cluster_file_are_named(run_small, tmp_path: Path):
    run_small("--engine", "slurm", "--run_folder", "/proc/none").failed(
        2, "/proc/none/small: cannot be written", "Name a folder with --run_folder that you can write"
    )
    (tmp_path / "cluster.yaml").write_text("engine: local\npools: {gpu: {replicas: 2}}\n")
    for words in ((), ("--dry_run",)):
        run_small("--cluster", tmp_path / "cluster.yaml", *words).failed(2, "cluster.yaml:2: unknown key 'gpu'")


# -- ``bench run`` with metrics of graphs and objects on the shapes world, as docs/baselines.md tells it


GRAPH = "parser=grammar,lemmatize=false"


def test_what_is_wrong_with_a_caption_moves_the_metrics_that_look_at_it(bench, tmp_path: Path):
    encoder = f"encoder={find_minilm()}"
    metrics = {
        "factual": f"factual_spice[{GRAPH}]",
        "merged": f"factual_spice[{GRAPH},compare=merged]",
        "soft": f"soft_spice[{GRAPH},{encoder}]",
        "both": f"soft_spice[{GRAPH},both_ways=true,{encoder}]",
        "aloha": f"aloha[objects=grammar,{encoder}]",
        "zero": f"aloha[objects=grammar,unmatched=zero,{encoder}]",
    }
    done = bench(
        *("run", "--task", "shapes_detailcaps_agreement", "--limit", 12, "--bootstrap", 0),
        *("--metrics", *metrics.values(), "--output_path", tmp_path),
    ).succeeded()
    # All words of the shapes world are in the list.
    assert "passes over" not in done.err
    for label in ("SPICE (FACTUAL) (merged, grammar)", "soft-SPICE (both ways, grammar", "ALOHa (grammar, unmatched 0"):
        assert label in done.out
    (file,) = tmp_path.rglob("samples.parquet")
    table = pq.read_table(file)
    columns = [name for name in table.column_names if name.endswith("]")]
    values = {name: table[column].to_numpy() for name, column in zip(metrics, columns, strict=True)}
    wrong = np.array([key.partition("-")[2] for key in table["id"].to_pylist()])
    of = {name: {kind: scores[wrong == kind] for kind in set(wrong)} for name, scores in values.items()}
    for scores in of.values():
        assert scores["full"] == pytest.approx(1, abs=1e-6)
        assert scores["shuffled"].max() < 0.95
    # A thing that is not there is the object that is left over.
    assert of["zero"]["hallucination"].tolist() == [0.0] * 2
    assert of["aloha"]["hallucination"] == pytest.approx(1, abs=1e-6)
    # What is left out costs the recall of graphs, which soft-SPICE has one way not.
    assert of["factual"]["omission"].max() < 0.9 < of["soft"]["omission"].min()
    assert (of["both"]["omission"] < of["soft"]["omission"]).all()


# -- ``--judge`` of ``bench run`` and ``bench score``: metrics that ask a model


@pytest.mark.parametrize(("options", "message"), JUDGES)
def test_judge_that_cannot_judge_is_refused(run_small, tmp_path: Path, options: str, message: str):
    (tmp_path / "gpt.jsonl").write_text('{"prompt": "Rate it.", "response": "85"}')
    done = run_small(*("responses:gpt.jsonl" if argument == "FILE" else argument for argument in options.split()))
    assert done.code != 0
    assert message in done.err
    assert "hush" not in done.err


def test_metrics_that_fail_on_the_same_samples_for_one_reason_are_told_together():
    rows = [
        {"stage": "metric", "reason": f"{name}: no word", "count": 1, "samples": ["a"]} for name in ("rep", "cider")
    ]
    other = {"stage": "image", "reason": "rep: no word", "count": 1, "samples": ["a"]}
    assert [row["reason"] for row in _alike([*rows, {**rows[0], "count": 2}, other])] == [
        "rep, cider: no word", "rep: no word", "rep: no word",
    ]  # fmt: skip
