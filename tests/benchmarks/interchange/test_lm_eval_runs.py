"""Exported tasks, run by a stock lm-eval in a process of its own, give the numbers of ``bench run``."""

import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from task_keys import AGREEMENT, CAPTIONING, LOCAL
from tiny_images import noise_png
from tiny_llm import make_tiny_llama, make_tiny_llava
from warm_python import run_python

import capbench
from capbench.benchmarks.interchange.lm_eval_bridge import PREFIX, plan_export, write_tasks
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations

pytestmark = pytest.mark.costly

RATED = AGREEMENT | {
    "task": "rated",
    "dataset_kwargs": {"data_files": "rated.jsonl"},
    "doc_to_id": "id",
    "doc_to_human": "ratings",
    "metric_list": ["cider", "rouge_l", {"metric": "bleu_4", "name": "bleu-4, smoothed"}],
    "statistics": ["kendall_b", "kendall_c", "spearman"],
}
PAIRS = LOCAL | {
    "task": "pairs",
    "dataset_kwargs": {"data_files": "pairs.jsonl"},
    "output_type": "preference",
    "doc_to_candidates": "captions",
    "doc_to_target": "references",
    "doc_to_preferred": "preferred",
    "doc_to_category": "kind",
    "protocol": {"drawn_references": 1, "draws": 3},
    "metric_list": ["length", "rouge_l", "cider"],
    "metadata": {"version": "2b"},
}
WRITTEN = CAPTIONING | {
    "task": "written",
    "dataset_kwargs": {"data_files": "written.jsonl"},
    "doc_to_id": "id",
    "doc_to_text": "Describe {{id}} in a sentence.",
    "image_folder": "images",
    "generation_kwargs": {"max_new_tokens": 8, "do_sample": False, "num_beams": 1, "until": "z"},
    "metric_list": ["cider", "bleu_4", "length"],
}
TEXTS = [
    "a dog runs over the green grass",
    "two men ride brown horses on a beach",
    "a lol of the cat on the red sofa",
    "the child throws a ball to a dog",
    "people walk along a wet street at night",
]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder with a task of each protocol, some rows of which cannot be used."""
    rated = [
        {
            "id": f"r{n}",
            "image": f"{n // 2}.jpg",
            "candidate": " ".join(TEXTS[n % 5].split()[: 3 + n % 4]),
            "references": [TEXTS[n % 5], TEXTS[(n * n) % 5]],
            "ratings": [n % 4, (3 * n) % 5, None],
        }
        for n in range(14)
    ]
    rated[2]["candidate"] = None
    rated[3]["references"] = []
    rated[5]["ratings"] = "good"
    rated[6]["id"] = "r4"
    rated[7]["candidate"] = "broken \ud800"
    pairs = [
        {
            "captions": [TEXTS[n % 5], TEXTS[(n + 2) % 5][:20]],
            "references": [TEXTS[(2 * n) % 5], TEXTS[n % 5][5:]],
            "preferred": n % 2,
            "kind": ["near", "far"][n % 3 == 0],
        }
        for n in range(10)
    ]
    pairs[4]["captions"] = ["only one"]
    written = [
        {"id": f"w{n}", "image": f"{n}.png", "references": [TEXTS[n % 5], f"lol {TEXTS[n % 3]}"]} for n in range(8)
    ]
    written[1]["references"] = None
    folder = tmp_path / "tasks"
    (folder / "images").mkdir(parents=True)
    for name, task, rows in (("rated", RATED, rated), ("pairs", PAIRS, pairs), ("written", WRITTEN, written)):
        (folder / f"{name}.yaml").write_text(json.dumps(task))
        (folder / f"{name}.jsonl").write_text("\n".join([*map(json.dumps, rows), "{not JSON"]))
    for number in (0, 1, 2, 4, 5, 6, 7):
        (folder / "images" / f"{number}.png").write_bytes(noise_png(number))
    return folder


def run_here(words: Sequence[str]) -> None:
    """Call lm-eval's program in this process, without the 13,000 task files of its own that it reads before a run."""
    import lm_eval.evaluator
    import lm_eval.tasks
    from lm_eval.__main__ import cli_evaluate

    manager = functools.partial(lm_eval.tasks.TaskManager, include_defaults=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_eval.tasks, "TaskManager", manager)
        patch.setattr(sys, "argv", ["lm-eval", *words])
        # What a program may do with its own process.
        patch.setattr(os, "environ", os.environ.copy())
        patch.setattr(logging.root, "handlers", [])
        patch.setattr(logging.root, "level", logging.root.level)
        cli_evaluate()


def run_stock(words: Sequence[str], folder: Path, version: str) -> None:
    """Run a version of lm-eval that 'make setup' installed, but for its task files, in a process of its own."""
    installed, package = Path(sys.prefix, "lm_eval", version, "lm_eval"), folder / "lm_eval"
    assert installed.is_dir(), "make setup"
    (package / "tasks").mkdir(parents=True)
    for path in (*installed.iterdir(), *installed.glob("tasks/*.py")):
        if path != installed / "tasks":
            (package / path.relative_to(installed)).symlink_to(path)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = run_python("-m", "lm_eval", *words, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr


LmEval = Callable[..., tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]]


@pytest.fixture
def lm_eval(tmp_path: Path) -> LmEval:
    """Return a function that exports tasks, runs lm-eval on them, and gives its results and samples by task."""

    def run(names: Sequence[str], folders: Sequence[Path], *arguments: str, version: str = "", **export: Any) -> Any:
        planned = plan_export(names, build_index(folders), locations=DataLocations.from_environment(), **export)
        exported = write_tasks(planned, tmp_path / "exported")
        assert [path.stem for path in exported] == [PREFIX + name for name in names]
        words = ["run", "--include_path", str(tmp_path / "exported"), "--log_samples"]
        words += ["--tasks", ",".join(PREFIX + name for name in names)]
        words += ["--output_path", str(tmp_path / "out"), *arguments]
        if version:
            run_stock(words, tmp_path / "stock", version)
        else:
            run_here(words)
        (path,) = (tmp_path / "out").rglob("results_*.json")
        results = json.loads(path.read_text())["results"]
        samples = {}
        for name in names:
            (log,) = (tmp_path / "out").rglob(f"samples_{PREFIX}{name}_*.jsonl")
            samples[name] = [json.loads(line) for line in log.read_text().splitlines()]
        return {name: results[PREFIX + name] for name in names}, samples

    return run


def assert_same(theirs: dict[str, Any], run: capbench.Run, task: str) -> None:
    """Hold the results of lm-eval against those of bench, all of them."""
    ours = {key: result.value for key, result in run[task].record.results.items()}
    ours = {key: value for key, value in ours.items() if isinstance(value, float)}
    measured = {key.removesuffix(",none"): value for key, value in theirs.items() if key.endswith(",none")}
    assert {key: value for key, value in measured.items() if key.endswith("_stderr")} == dict.fromkeys(
        (f"{key}_stderr" for key in measured if not key.endswith("_stderr")), "N/A"
    )
    values = {key: value for key, value in measured.items() if isinstance(value, float) and value == value}
    assert values == pytest.approx({key.replace(",", ";"): value for key, value in ours.items()}, abs=1e-12, rel=0)


def captions_of(samples: Sequence[dict[str, Any]], file: Path) -> str:
    """Write what lm-eval's log says the model wrote as a file of captions; return the model that serves them."""
    rows = [{"id": sample["doc"]["id"], "caption": sample["resps"][0][0]} for sample in samples if sample["doc"]["id"]]
    file.write_text("\n".join(map(json.dumps, rows)))
    return f"captions:{file}"


def test_newest_lm_eval_gives_the_numbers_of_bench_run(tasks: Path, lm_eval: LmEval, tmp_path: Path):
    names = ["rated", "pairs", "written"]
    results, samples = lm_eval(names, [tasks], "--model", "dummy", version="0.5.0.dev1", text_only=True)
    recorded = captions_of(samples["written"], tmp_path / "captions.jsonl")
    for name in names:
        run = capbench.evaluate(recorded if name == "written" else None, [name], include_path=[tasks], resamples=0)
        assert_same(results[name], run, name)
        assert len(samples[name]) == run[name].record.documents.original
    assert set(results["pairs"]) >= {"cider.accuracy.near,none", "cider.accuracy.far,none", "cider.accuracy,none"}
    assert results["written"]["length,none"] == 1


def test_language_model_of_oldest_lm_eval_and_a_limit(tasks: Path, lm_eval: LmEval, tmp_path: Path):
    model = ("--model", "hf", "--model_args", f"pretrained={make_tiny_llama(tmp_path / 'llama')}")
    names, metrics = ["iiw_400", "written", "rated"], ["cider", "rouge_l", "bleu_1"]
    results, samples = lm_eval(
        names,
        [tasks],
        *(*model, "--device", "cpu", "--batch_size", "3", "--limit", "7", "--gen_kwargs", "max_gen_toks=40"),
        version="0.4.11",
        text_only=True,
        metrics=metrics,
    )
    assert len({sample["resps"][0][0] for sample in samples["written"]}) > 1
    for name in names:
        served = None if name == "rated" else captions_of(samples[name], tmp_path / f"{name}.jsonl")
        run = capbench.evaluate(served, [name], include_path=[tasks], metrics=metrics, limit=7, resamples=0)
        assert_same(results[name], run, name)
        assert len(samples[name]) == 7


def test_model_with_images_of_lm_eval_is_shown_them(tasks: Path, lm_eval: LmEval, tmp_path: Path):
    model_args = f"pretrained={make_tiny_llava(tmp_path / 'llava')}"
    results, samples = lm_eval(
        ["written"],
        [tasks],
        *("--model", "hf-multimodal", "--model_args", model_args, "--device", "cpu", "--apply_chat_template"),
    )
    captions = {sample["doc"]["id"]: sample["resps"][0][0] for sample in samples["written"]}
    assert len(captions) == 8
    assert all("<image>\nDescribe" in sample["arguments"]["gen_args_0"]["arg_0"] for sample in samples["written"][:1])
    # The image of w3 is not there: its caption is of nothing.
    samples["written"] = [sample for sample in samples["written"] if sample["doc"]["id"] != "w3"]
    served = captions_of(samples["written"], tmp_path / "written.jsonl")
    run = capbench.evaluate(served, ["written"], include_path=[tasks], resamples=0, subset=True)
    assert_same(results["written"], run, "written")
