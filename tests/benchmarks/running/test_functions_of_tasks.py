"""Metrics and statistics that a task file holds as functions, or classes, beside it."""

import json
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import kendalltau
from task_keys import LOCAL

import capbench
from capbench.benchmarks.scale.executors import LocalExecutor
from capbench.errors import TaskError, UsageError

pytestmark = pytest.mark.usefixtures("functions_may_run")

MINE = """
import numpy as np
from capbench.metrics import Metric, Scores


def shared_words(candidate, references, least=0):
    words = set(candidate.split())
    if "odd" in words:
        raise ValueError("is odd")
    return None if "none" in words else max(least, max(len(words & set(one.split())) for one in references))


def letters(candidate):
    return len(candidate)


class Vowels(Metric):
    label = "vowels"
    source = "here"

    def __init__(self, of="aeiou"):
        self.of = of

    def score(self, items, context):
        return Scores(np.array([float(sum(map(text.count, self.of))) for text in items.candidates]))


def distance(scores, human, groups, power=1):
    return float((np.abs(scores - human) ** power).mean())
"""
ROWS = [
    {"caption": "a dog", "refs": ["a dog runs", "dogs"], "rating": 3},
    {"caption": "two cats sleep", "refs": ["two dogs"], "rating": 1},
    {"caption": "a red bus", "refs": ["a red bus here", "bus"], "rating": 4},
    {"caption": "the odd one", "refs": ["the odd one"], "rating": 2},
    {"caption": "none", "refs": ["none"], "rating": 2},
]
TASK = {
    **LOCAL,
    "task": "mine",
    "output_type": "agreement",
    "doc_to_candidate": "caption",
    "doc_to_target": "refs",
    "doc_to_human": "rating",
}


@pytest.fixture
def run(tmp_path):
    """Return a function that writes the task with lists of its own, and runs it."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "mine.py").write_text(MINE)

    def run(metrics: str, statistics: str = "[kendall_b]", **options: Any) -> Any:
        lists = f"metric_list: {metrics}\nstatistics: {statistics}\n"
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(TASK) + lists)
        options = {"resamples": 20, "output_path": tmp_path / "runs", **options}
        return capbench.evaluate(tasks="mine", include_path=[tmp_path], **options)["mine"]

    return run


def column(task_run: Any, name: str) -> list[float | None]:
    return task_run.samples[name].to_pylist()


def test_function_is_a_metric_of_candidate_and_references(run):
    done = run("[!function mine.shared_words]")
    assert column(done, "shared_words") == [2, 1, 3, None, None]
    assert [(r.metric, r.label[0], r.n) for r in done.results] == [("shared_words", "shared_words", 3)]
    assert done.results[0].value == pytest.approx(kendalltau([2, 1, 3], [3, 1, 4])[0])
    reasons = {failure["reason"]: failure["samples"] for failure in done.failures}
    assert reasons == {
        "shared_words: ValueError: is odd": ["3"],
        "shared_words: the function gave no finite number, but None": ["4"],
    }


def test_function_takes_settings_a_name_and_a_direction(run):
    done = run(
        "[{metric: !function mine.shared_words, least: 2, name: words, higher_is_better: false}, "
        "!function mine.letters]"
    )
    assert column(done, "words")[:3] == [2, 2, 3]
    assert column(done, "letters") == [len(row["caption"]) for row in ROWS]
    with pytest.raises(TaskError, match=r"mine\.yaml:\d+: metric '!function mine\.letters': .*'least'"):
        run("[{metric: !function mine.letters, least: 2}]")


def test_class_is_a_metric_with_its_settings(run):
    done = run("[{metric: !function mine.Vowels, of: ao}]")
    assert column(done, "Vowels") == [2, 2, 1, 2, 1]
    assert {result.label[0] for result in done.results} == {"vowels"}
    with pytest.raises(TaskError, match=r"metric '!function mine\.Vowels' has no setting 'off'\. Did you mean 'of'"):
        run("[{metric: !function mine.Vowels, off: ao}]")
    with pytest.raises(TaskError, match="higher_is_better is true by its definition"):
        run("[{metric: !function mine.Vowels, higher_is_better: false}]")


def test_processes_run_functions_as_one_process_does(run, tmp_path):
    alone = run("[!function mine.shared_words]")
    several = run("[!function mine.shared_words]", engine=LocalExecutor(2), store=tmp_path / "two.sqlite")
    assert column(several, "shared_words") == column(alone, "shared_words")
    assert several.record.fingerprint == alone.record.fingerprint


@pytest.mark.parametrize("metric", ["shared_words", "Vowels"])
def test_fingerprint_is_of_the_functions_code(run, tmp_path, metric: str):
    import sys

    first = run(f"[!function mine.{metric}]").record.fingerprint
    assert run(f"[!function mine.{metric}]").record.fingerprint == first
    (tmp_path / "mine.py").write_text(MINE + "# another\n")
    for name in [name for name in sys.modules if name.startswith("capbench_user_")]:
        del sys.modules[name]
    assert run(f"[!function mine.{metric}]").record.fingerprint != first


def test_function_is_a_statistic_of_scores_and_ratings(run):
    done = run(
        "[!function mine.letters]",
        "[!function mine.distance, "
        "{statistic: !function mine.distance, power: 2, name: squared, higher_is_better: false}]",
    )
    gaps = np.array([len(row["caption"]) - row["rating"] for row in ROWS])
    assert {result.statistic: result.value for result in done.results} == {
        "distance": pytest.approx(np.abs(gaps).mean()),
        "squared": pytest.approx((gaps**2).mean()),
    }
    assert [(r.label[1], r.higher_is_better) for r in done.results] == [("distance", True), ("squared", False)]
    assert all(result.interval.low <= result.value <= result.interval.high for result in done.results)
    with pytest.raises(TaskError, match=r"statistic '!function mine\.distance': .*'base'"):
        run("[!function mine.letters]", "[{statistic: !function mine.distance, base: 2}]")


def test_finished_run_does_not_hold_the_code_of_a_statistic(run):
    from capbench.cli.main import main

    done = run("[!function mine.letters, !function mine.Vowels]", "[!function mine.distance, kendall_b]")
    assert main(["compare", str(done.folder), "--statistic", "kendall_b"]) == 0
    assert main(["compare", str(done.folder), "--statistic", "distance"]) == 2


@pytest.mark.parametrize(
    ("metrics", "statistics", "message"),
    [
        ("[!function mine.shared_word]", "[kendall_b]", r"no function 'shared_word'\. Did you mean 'shared_words'"),
        ("[!function other.words]", "[kendall_b]", "cannot import 'other'"),
        ("[length]", "[!function mine.distances]", r"no function 'distances'\. Did you mean 'distance'"),
        ("[{metric: 5}]", "[kendall_b]", "metric_list"),
        ("[!function mine.Scores]", "[kendall_b]", "is a class, but not a subclass of capbench.metrics.Metric"),
        ("[length]", "[!function mine.Scores]", "is a class, but not a subclass of capbench's Statistic"),
    ],
)
def test_function_that_is_not_there_is_refused(run, metrics: str, statistics: str, message: str):
    with pytest.raises(UsageError, match=message):
        run(metrics, statistics)
