"""``--judge`` of ``bench run`` and ``bench score``: metrics that ask a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capbench.metrics.clair import PROMPT
from capbench.metrics.judging import fill


def clair_prompt(candidate: str, reference: str) -> str:
    return fill(PROMPT, candidates=f"- {candidate}\n", references=f"- {reference}\n")


@pytest.fixture
def answers(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the answers to the small task's four captions."""

    def write(*scores: Any, name: str = "gpt") -> Path:
        rows = [
            {
                "prompt": clair_prompt("a dog" + " runs" * n, "a dog runs over the grass"),
                "response": score if isinstance(score, str) else json.dumps({"score": score}),
            }
            for n, score in enumerate(scores)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return tmp_path / f"{name}.jsonl"

    return write


def record_of(folder: Path) -> dict[str, Any]:
    [file] = folder.rglob("run.json")
    return json.loads(file.read_text())


def test_judge_of_a_run_scores_what_it_can_and_the_rest_is_named(run_small, write_task, answers, tmp_path: Path):
    write_task(metric_list=["length", "clair"])
    # Ratings are 1, 3, 2, 4: of the captions with a score both agree.
    done = run_small("--judge", f"responses:{answers(10, 60, 'I cannot say.', 80)}").succeeded()
    assert "metric clair: the judge's answer holds no number (3 tries) (first: r2)" in done.err
    record = record_of(tmp_path / "runs")
    assert record["model_name"] == "gpt"
    assert record["config"]["judge"] == "gpt"
    assert record["results"]["small"]["clair.kendall_b,none"] == 1.0
    assert record["intervals"]["clair.kendall_b"]["n"] == 3
    assert record["fingerprint_parts"]["judge"]["adapter"] == "responses"
    # Other metrics of the list are run, too.
    assert record["metrics_left_out"] == {}
    assert "length.kendall_b,none" in record["results"]["small"]


def test_model_may_be_the_judge(run_small, write_task, answers: Callable[..., Path], tmp_path: Path):
    write_task(metric_list=["clair"])
    assert run_small("--model", f"responses:{answers(10, 30, 20, 40)}").code == 0
    assert record_of(tmp_path / "runs")["results"]["small"]["clair.kendall_b,none"] == 1.0


def test_without_a_judge_a_task_goes_without_its_metrics(run_small, write_task):
    write_task(metric_list=["length", "clair"])
    done = run_small().succeeded()
    assert "not run: clair (--model, or --encoder beside" in done.err


def test_metric_that_is_named_needs_its_judge(run_small):
    run_small("--metrics", "clair").failed(
        2, "metric 'clair' needs a model that judges", "--judge openai_judge --judge_args model=NAME"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metrics", "length", "--judge", "FILE"), "none of the metrics of small uses a model that judges"),
        (("--metrics", "clair", "--judge", "FILE", "--model", "FILE"), "two judges were named: --model gpt"),
        (("--metrics", "clair", "--judge", "openai", "--judge_args", "model=m"), "Adapter 'openai_judge' does."),
        (("--metrics", "clair", "--judge", "captions:x"), "adapter 'captions' does not judge"),
        (("--metrics", "clair", "--judge", "responses:"), "responses:FILE serves recorded responses"),
        (("--metrics", "clair", "--judge", "responses:none.jsonl"), "there is no such file"),
        (("--metrics", "clair", "--judge", "openai_judge"), "missing a required argument: 'model'"),
        (
            ("--metrics", "clair", "--judge", "openai_judge", "--judge_args", "model=m,api_key=hush"),
            "has no argument 'api_key'",
        ),
    ],
)
def test_judge_that_cannot_judge_is_refused(run_small, answers, arguments: tuple[str, ...], message: str):
    file = f"responses:{answers(1, 2, 3, 4)}"
    done = run_small(*(file if one == "FILE" else one for one in arguments))
    assert done.code != 0
    assert message in done.err
    assert "hush" not in done.err


def test_dry_run_names_the_judge_and_asks_nothing(run_small, write_task):
    write_task(metric_list=["clair"])
    run_small("--judge", "openai_judge", "--judge_args", "model=gpt-4o", "--dry_run").succeeded(
        "model:      gpt-4o (openai_judge)"
    )


def test_score_takes_a_judge(bench, tmp_path: Path):
    row = {"id": "a", "candidate": "a dog", "references": ["one dog"]}
    (tmp_path / "captions.jsonl").write_text(json.dumps(row))
    answer = {"prompt": clair_prompt("a dog", "one dog"), "response": '{"score": 70}'}
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer))
    judge = ("--judge", "responses:answers.jsonl")
    done = bench("score", "captions.jsonl", "--metrics", "clair", *judge, "--format", "json").succeeded()
    [result] = json.loads(done.out)
    assert (result["label"], result["value"]) == ("CLAIR", pytest.approx(0.7))
    assert bench("score", "captions.jsonl", "--metrics", "clair").code == 2


def test_gpt4_eval_without_a_prompt_says_how_to_give_one(run_small, answers: Callable[..., Path]):
    run_small("--metrics", "gpt4_eval", "--judge", f"responses:{answers(1, 2, 3, 4)}").failed(
        1, "gpt4_eval[prompt=FILE]"
    )
