"""The letters that a run records are those that ``bench compare`` gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_entries import own_entries
from task_keys import write_task

import capbench
from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.records.task_run import TaskRun
from capbench.metrics import Context, Items, Metric, Scores, metrics

TASK = {"task": "small", "doc_to_id": "id", "doc_to_image": "image"}
AGREEMENT = {
    "output_type": "agreement",
    "doc_to_candidate": "candidate",
    "doc_to_human": "ratings",
    "statistics": ["kendall_c", "pearson"],
}
PREFERENCE = {
    "output_type": "preference",
    "doc_to_candidates": "candidates",
    "doc_to_preferred": "preferred",
    "doc_to_category": "kind",
}


class Noisy(Metric):
    """The number of words, blurred; without a score for captions with so many words or more."""

    label = "Noisy"
    source = "here"

    def __init__(self, noise: float = 0.0, longest: int = 100) -> None:
        self.noise, self.longest = noise, longest

    def score(self, items: Items, context: Context) -> Scores:
        generator = np.random.default_rng(1)
        words = np.array([float(len(text.split())) for text in items.candidates])
        blurred = words + generator.normal(0, self.noise, len(words))
        return Scores(np.where(words >= self.longest, np.nan, blurred))


class Constant(Noisy):
    """Finds all captions equal."""

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.ones(len(items)))


_user_metrics = own_entries(metrics, noisy=Noisy, constant=Constant)


NOISY = [f"noisy[noise={noise}]" for noise in (0.5, 3.0, 9.0)]


def run(folder: Path, keys: dict[str, Any], names: Sequence[str], count: int = 120, **options: Any) -> TaskRun:
    """Run a task of rows of 60 images; the more words, the better people find the caption."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(count):
        words = generator.integers(1, 15, 2).tolist()
        ratings = [float(words[0] + generator.normal(0, 2)) for _ in range(2)]
        row = {
            "id": str(number),
            "image": f"{(number * 7) % 60}.jpg",
            "candidate": "word " * words[0],
            "ratings": ratings,
            "candidates": ["word " * count for count in words],
            "preferred": int(words[1] + generator.normal(0, 2) > words[0]),
            "kind": "even" if number % 3 else "odd",
        }
        rows.append(row)
    write_task(folder, rows, {**TASK, **keys, "metric_list": ["length"]})
    options = {"resamples": 100, "seed": 7, "output_path": folder / "runs"} | options
    return capbench.evaluate(tasks="small", metrics=list(names), include_path=[folder], **options)["small"]


def compared(done: TaskRun, statistic: str, names: Sequence[str] = ()) -> dict[str, str]:
    assert done.folder is not None
    settings = CompareSettings(statistic, tuple(names), resamples=100, seed=7)
    (comparison,) = compare_runs([done.folder], settings)
    return {row.name: row.letters for row in comparison.compared}


@pytest.mark.parametrize("raters", ["flatten", "mean", "per_rater_mean"])
def test_groups_of_a_task_with_ratings_are_those_of_compare(tmp_path: Path, raters: str):
    done = run(tmp_path, {**AGREEMENT, "protocol": {"raters": raters}}, NOISY)
    significance = done.record.significance
    assert list(significance) == ["kendall_c", "pearson"]
    for statistic, entry in significance.items():
        assert entry.groups == compared(done, statistic)
        assert len(set(entry.groups.values())) > 1
        assert (entry.alpha, entry.resamples, entry.seed) == (0.05, 100, 7)


def test_metric_without_a_value_is_left_out_and_the_others_are_compared(tmp_path: Path):
    # The groups are of the rows that all of the others scored.
    few = "noisy[noise=3.0,longest=10]"
    done = run(tmp_path, AGREEMENT, ["constant", *NOISY[:2], few, "noisy[longest=0]"])
    groups = done.record.significance["kendall_c"].groups
    assert set(groups) == {*NOISY[:2], few}
    assert groups == compared(done, "kendall_c", [*NOISY[:2], few])
    # Captions of one word are all that the last metric scores, and there the first one has no ranking.
    done = run(tmp_path, AGREEMENT, ["length", NOISY[1], "noisy[noise=1.0,longest=2]"], count=360)
    assert set(done.record.significance["kendall_c"].groups) == {NOISY[1], "noisy[noise=1.0,longest=2]"}


@pytest.mark.parametrize("names", [NOISY, [*NOISY[:2], "noisy[longest=12]"], ["constant", NOISY[0]]])
def test_groups_of_a_task_with_preferences_are_those_of_compare(tmp_path: Path, names: list[str]):
    done = run(tmp_path, PREFERENCE, names)
    (entry,) = done.record.significance.values()
    assert entry.groups == compared(done, "accuracy")


@pytest.mark.parametrize("keys", [AGREEMENT, PREFERENCE], ids=["agreement", "preference"])
def test_no_groups_without_resamples_or_with_one_metric(tmp_path: Path, keys: dict[str, Any]):
    assert run(tmp_path, keys, NOISY, resamples=0).record.significance == {}
    assert run(tmp_path, keys, NOISY[:1]).record.significance == {}
    assert run(tmp_path, keys, [NOISY[0], "noisy[longest=0]"]).record.significance == {}
