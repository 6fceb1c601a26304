"""Metrics of a checklist against each other: which captions count, and letters in runs as in comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import capbench
from capbench.benchmarks.protocols.checklist.protocol import COMPARED, NAMES, compare_rule
from capbench.benchmarks.protocols.contract import ComparedRows
from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.cli.main import main

NONE = float("nan")


def rows(name: str, lower: frozenset[str] = frozenset(), **scores: list[tuple[float, float]]) -> ComparedRows:
    """Return captions with the scores of each metric before and after the change of a rule."""
    captions = len(next(iter(scores.values())))
    of_metric: dict[str, np.ndarray] = {}
    for metric, pairs in scores.items():
        table = np.full((captions, len(NAMES)), NONE)
        table[:, [0, NAMES.index(name.partition(".")[2])]] = pairs
        of_metric[metric] = table.ravel()
    images = np.repeat(np.arange(captions), len(NAMES))
    return ComparedRows(images, of_metric, categories=NAMES * captions, by=name, lower_is_better=lower)


def values(compared: ComparedRows) -> tuple[dict[str, float], int, tuple[int, int]]:
    found = compare_rule(compared, Draws(50, 0))
    return {name: one.value for name, one in found.estimates.items()}, found.n, found.left_out


def test_share_that_falls_is_compared_whichever_way_a_metric_points():
    scores = [(2.0, 1.0), (2.0, 2.0), (2.0, 3.0), (2.0, 1.0)]
    found = values(rows("falls.negation", frozenset({"errors"}), points=scores, errors=scores))
    assert found == ({"points": 0.5, "errors": 0.25}, 4, (0, 4))


def test_of_rules_that_say_the_same_the_share_that_stays_is_compared():
    found = values(rows("equal.case", a=[(1.0, 1.0), (1.0, 1.0 + 1e-15)], b=[(1.0, 2.0), (1.0, 0.0)]))
    assert found[0] == {"a": 1.0, "b": 0.0}


def test_captions_that_were_not_changed_say_nothing_and_those_that_one_cannot_score_are_left_out():
    a = [(2.0, 1.0), (2.0, NONE), (2.0, 1.0), (NONE, 1.0)]
    b = [(2.0, 1.0), (2.0, NONE), (2.0, NONE), (2.0, 3.0)]
    assert values(rows("falls.end_cut", a=a, b=b)) == ({"a": 1.0, "b": 1.0}, 1, (2, 3))
    with pytest.raises(UndefinedStatistic, match="nothing was judged by all of them"):
        values(rows("falls.end_cut", a=[(1.0, NONE)], b=[(1.0, NONE)]))


def test_each_caption_is_held_against_itself():
    compared = rows("falls.negation", a=[(1.0, 2.0), (5.0, 4.0)], b=[(1.0, 0.0), (5.0, 6.0)])
    mcnemar = compare_rule(compared, Draws(50, 0)).classical
    assert mcnemar is not None
    assert mcnemar("a", "b")["McNemar"] == 1.0
    assert values(compared)[0] == {"a": 0.5, "b": 0.5}


def test_letters_of_a_run_are_those_of_the_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = capbench.evaluate(
        None, "checklist_iiw", metrics=["rouge_l", "cider", "length"], limit=12, resamples=300,
        output_path=tmp_path, log_samples="scores",
    )["checklist_iiw"]  # fmt: skip
    record, folder = run.record, next(tmp_path.rglob("run.json")).parent
    assert {"falls.negation", "falls.end_cut", "equal.case"} <= set(record.significance) <= set(COMPARED)
    for name in ("falls.end_cut", "equal.synonym"):
        code = main(["compare", str(folder), "--statistic", name, "--bootstrap", "300", "--format", "json"])
        (compared,) = json.loads(capsys.readouterr().out)
        letters = {one["name"]: one["letters"] for one in compared["compared"]}
        assert (code, letters) == (0, record.significance[name].groups)
        of_rule = [one for one in run.results if f"{one.statistic}.{one.category}" == name]
        assert {one.metric: record.letters(one) for one in of_rule} == letters
        assert len(set(letters.values())) > 1
    others = [one for one in run.results if one.statistic in ("change", "pays", "rises")]
    assert others
    assert not any(record.letters(one) for one in others)


def test_statistic_of_another_rule_is_refused_with_those_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    capbench.evaluate(None, "checklist_iiw", metrics=["rouge_l", "length"], limit=3, resamples=0, output_path=tmp_path)
    folder = next(tmp_path.rglob("run.json")).parent
    assert main(["compare", str(folder), "--statistic", "falls.synonym"]) != 0
    said = capsys.readouterr().err
    assert "unknown statistic 'falls.synonym' for a task of protocol checklist. Did you mean 'equal.synonym'?" in said
    assert "are compared by falls.object_replaced, " in said
