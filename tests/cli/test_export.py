"""``bench export``: the flat table, lm-eval's layout read by lm-eval itself, what is refused."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from datasets import load_dataset
from finished_runs import seal
from lm_eval.utils import get_latest_filename, get_results_filenames

from capbench.benchmarks.tables.results import COLUMNS

from .conftest import WRONG_USAGE, Bench, lines_of, run_below

THEIRS = Path(__file__).parents[1] / "benchmarks" / "interchange" / "data" / "other_harnesses" / "lm_eval"


@pytest.fixture
def runs(run_small, write_task, copy_of_run, tmp_path: Path) -> Path:
    """Return a folder with a run of a task that rates captions."""
    write_task(metric_list=["rouge_l", "length"], scale=100)
    copy_of_run("exported", tmp_path / "runs", lambda output: run_small("--bootstrap", 20, "--output_path", output))
    return tmp_path / "runs"


@pytest.fixture
def caption(bench, write_captioning_task, tmp_path: Path):
    """Return a function that runs captions of a model into the folder ``runs``."""

    def run(model: str, task: str = "small", **captions: str) -> None:
        tasks = write_captioning_task(
            task=task,
            doc_to_text="Describe it.",
            generation_kwargs={"max_new_tokens": 20},
            metric_list=["rouge_l", "length"],
        )
        file = tmp_path / "captions.jsonl"
        file.write_text("\n".join(json.dumps({"id": i, "caption": c}) for i, c in captions.items()))
        options = ("--model", f"captions:{file}", "--model_args", f"name={model}", "--bootstrap", 0)
        output = ("--include_path", tasks, "--output_path", tmp_path / "runs")
        bench("run", "--task", task, "--subset", *options, *output).succeeded()

    return run


def test_table_has_the_values_of_the_record(bench, runs: Path, tmp_path: Path):
    _, record = run_below(runs)
    done = bench("export", "csv", runs, "-o", "out/results.csv")
    assert (done.code, done.err) == (0, "")
    with (tmp_path / "out" / "results.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["metric"], row["statistic"]) for row in rows] == [("rouge_l", "kendall_b"), ("length", "kendall_b")]
    values, intervals = record["results"]["small"], record["intervals"]
    for row in rows:
        key = f"{row['metric']}.kendall_b"
        assert float(row["value"]) == values[f"{key},none"]
        assert float(row["stderr"]) == values[f"{key}_stderr,none"]
        assert (float(row["low"]), float(row["high"])) == (intervals[key]["low"], intervals[key]["high"])
        assert (row["task"], row["version"], row["model"], row["n"]) == ("small", "1.0", "", "4")
        assert (row["fingerprint"], row["published"], row["category"]) == (record["fingerprint"], "", "")
        assert datetime.fromisoformat(row["date"]).timestamp() == pytest.approx(record["date"], abs=1)


@pytest.mark.parametrize("fmt", ["csv", "latex", "parquet", "lm-eval"])
def test_record_that_was_edited_is_left_out_of_every_export(bench, runs: Path, fmt: str):
    folder, record = run_below(runs)
    record["results"]["small"]["rouge_l.kendall_b,none"] = 0.9876
    (folder / "run.json").write_text(json.dumps(record))
    bench("export", fmt, runs, "-o", "out").failed(
        1, f"left out: {folder}/run.json: was edited by hand: its checksum does not match its content"
    )
    assert not Path("out").exists()


@pytest.mark.parametrize("fmt", ["csv", "parquet", "lm-eval"])
def test_run_whose_samples_were_changed_is_left_out_of_every_export(bench, caption, runs: Path, fmt: str):
    caption("model", task="other", r0="a dog runs", r1="a cat")
    (path,) = runs.rglob("no-model/*/samples.parquet")
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.slice(1), path)
    done = bench("export", fmt, runs, "-o", "out").failed(
        1, f"left out: {path}: was changed after the run", "'bench verify' lists all errors"
    )
    assert "without samples" not in done.err
    assert done.out.startswith("1 runs:")


@pytest.mark.parametrize(("typed", "refused"), WRONG_USAGE["export"].items())
def test_wrong_usage_is_refused(bench, typed: str, refused: tuple[int, str]):
    bench("export", *typed.split()).failed(*refused)


def test_table_that_cannot_be_written_is_an_error(bench, runs: Path):
    Path("file").write_text("")
    bench("export", "csv", runs, "-o", "file/t.csv").failed(2, "cannot be written")


def test_files_have_the_date_of_the_run_and_the_keys_of_lm_evals_and_can_be_imported_again(bench, caption):
    caption("model", r0="a dog runs over the grass", r1="a café")
    date = datetime.fromtimestamp(run_below(Path("runs"))[1]["date"], UTC)
    assert bench("export", "lm-eval", "runs", "-o", "out").code == 0
    (ours,) = Path("out/model").glob("results_*.json")
    assert ours.name == f"results_{date:%Y-%m-%dT%H-%M-%S.%f}.json"
    (theirs,) = THEIRS.glob("results_*.json")
    left_out = {"lm_eval_version", "upper_git_hash"}
    assert set(json.loads(theirs.read_text())) - set(json.loads(ours.read_text())) == left_out
    (ours,) = Path("out/model").glob("samples_*.jsonl")
    (theirs,) = THEIRS.glob("samples_*.jsonl")
    sample, example = lines_of(ours)[1], lines_of(theirs)[1]
    kinds = {key: type(value) for key, value in example.items() if key not in example["metrics"]}
    assert {key: type(sample[key]) for key in sample if key not in sample["metrics"]} == kinds
    assert sample["resps"] == [["a café"]]
    assert sample["filtered_resps"] == ["a café"]
    assert sample["arguments"] == {"gen_args_0": {"arg_0": "Describe it.", "arg_1": {"max_new_tokens": 20}}}
    assert sample["target"] == str(["a dog runs over the grass"])
    assert sample["doc"]["references"] == ["a dog runs over the grass"]
    assert set(sample["metrics"]) == {"rouge_l", "length"}
    assert sample["length"] == 2.0
    loaded = load_dataset("json", data_files=str(ours), split="train", cache_dir="cache")
    assert loaded["filtered_resps"] == [["a dog runs over the grass"], ["a café"]]
    bench("import", ours, "-o", "back.jsonl").succeeded()
    assert [(row["id"], row["caption"], row["logged_length"]) for row in lines_of(Path("back.jsonl"))] == [
        ("r0", "a dog runs over the grass", 6.0),
        ("r1", "a café", 2.0),
    ]


def test_latest_run_of_a_task_stands_in_the_latest_results(bench, caption, tmp_path: Path):
    caption("model", r0="a dog")
    caption("model", r0="a dog runs over the grass")
    assert bench("export", "lm-eval", "runs", "-o", "out").code == 0
    files = get_results_filenames([str(path) for path in (tmp_path / "out").rglob("*.json")])
    assert len(files) == 2
    latest = json.loads(Path(get_latest_filename(files)).read_text())
    assert latest["results"]["small"]["rouge_l,none"] == 1.0
    assert len(list((tmp_path / "out" / "model").glob("samples_*"))) == 2


def test_run_without_captions_or_samples_has_results_alone(bench, runs: Path):
    (path,) = runs.rglob("samples.parquet")
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.select(["id", "image", "rouge_l", "length", "failure"]), path)
    seal(path.parent)
    done = bench("export", "lm-eval", runs, "-o", "out").succeeded()
    assert "without samples" in done.err
    assert "has scores without captions" in done.err
    assert [path.name[:8] for path in Path("out/no-model").iterdir()] == ["results_"]
    path.unlink()
    done = bench("export", "lm-eval", runs, "-o", "other").succeeded()
    assert f"without samples: {path.parent}: has no samples.parquet" in done.err


@pytest.mark.parametrize("model", ["..", "../../up", "a\\b:c"])
def test_no_model_is_written_outside_the_folder(bench, caption, model: str, tmp_path: Path):
    caption(model, r0="a dog")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert bench("export", "lm-eval", "runs", "-o", "out/deep").code == 0
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert len(new) == 2
    assert all(path.parent.parent == tmp_path / "out" / "deep" for path in new)


# -- ``bench export lm-eval``: what it prints


def test_folder_that_cannot_be_written_is_named(bench: Bench, write_task, tmp_path: Path):
    (tmp_path / "file").write_text("")
    tasks = ("--tasks", "small", "--include_path", write_task())
    bench("export", "lm-eval", *tasks, "-o", tmp_path / "file").failed(2, "file/capbench_small: cannot be written")
