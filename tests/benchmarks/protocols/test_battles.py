"""Battles of systems of known strength: agreement with people, by battle and by ranking."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rated_task import UNRATED, run_rated

from capbench.benchmarks.comparing.comparison import compare_runs
from capbench.benchmarks.protocols.battles import BattleSettings
from capbench.benchmarks.protocols.job import Result
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.systems.battles import as_elo, strengths, wins_of
from capbench.benchmarks.tables.results import render
from capbench.errors import DataError, TaskError
from capbench.metrics import Context, Items, Metric, Scores, metrics

TASK = {
    **UNRATED,
    "doc_to_id": None,
    "output_type": "battles",
    "doc_to_image": "img",
    "doc_to_candidates": ["caption1", "caption2"],
    "doc_to_systems": ["source1", "source2"],
    "doc_to_preferred": "winner",
    "doc_to_verdict": {"judge": "{{ 0 if '1' in judge else 1 if '2' in judge else 'tie' }}"},
    "doc_to_target": "ref",
    "metric_list": ["length", "bleu_1"],
    "protocol": {"tie_words": ["skip", "bad"]},
}
SYSTEMS = {"large": 6, "middle": 4, "small": 3, "tiny": 2}
"""What each writes: so many words on average; people like long captions."""


def battles(number: int = 240, systems: dict[str, int] = SYSTEMS) -> list[dict[str, Any]]:
    generator = np.random.default_rng(3)
    names = list(systems)
    rows: list[dict[str, Any]] = []
    for battle in range(number):
        first, other = (names[place] for place in generator.choice(len(names), 2, replace=False))
        lengths = [int(systems[name] + generator.integers(-1, 2)) for name in (first, other)]
        likes = 1 / (1 + np.exp(lengths[1] - lengths[0]))
        winner = (first if generator.random() < likes else other) if generator.random() < 0.8 else "equal"
        verdict = "Tie." if generator.random() < 0.1 else f"Caption {1 if lengths[0] > lengths[1] else 2} is better."
        rows.append(
            {
                "img": f"{battle // 2}.jpg", "source1": first, "source2": other, "ref": "a word", "winner": winner,
                "caption1": " ".join(["word"] * lengths[0]), "caption2": " ".join(["word"] * lengths[1]),
                "judge": verdict, "level": "level 1" if battle % 2 else "level 2",
            }
        )  # fmt: skip
    return rows


@pytest.fixture
def run(tmp_path):
    return partial(run_rated, tmp_path, **TASK)


def result(done: TaskRun, metric: str, statistic: str, category: str = "") -> Result:
    (result,) = [r for r in done.results if (r.metric, r.statistic, r.category) == (metric, statistic, category)]
    return result


QUICK = {**TASK["protocol"], "elo_rounds": 50}


def test_systems_of_known_strength_are_ranked_by_people_metrics_and_judges(run):
    rows = battles()
    done = run(rows, {"resamples": 40}, metric_list=["length"], protocol=QUICK)
    names = list(dict.fromkeys(name for row in rows for name in (row["source1"], row["source2"])))
    first, second = (np.array([names.index(row[side]) for row in rows]) for side in ("source1", "source2"))
    share = np.array([{row["source1"]: 1.0, row["source2"]: 0.0}.get(row["winner"], 0.5) for row in rows])
    expected = as_elo(strengths(wins_of(first, second, share, len(names))))
    for name, value in zip(names, expected, strict=True):
        strength = result(done, "people", "bradley_terry", name)
        assert strength.value == pytest.approx(value)
        assert strength.interval.low < value < strength.interval.high
        assert strength.higher_is_better
        assert abs(result(done, "people", "online_elo", name).value - 1000) < abs(value - 1000)
    ranked = sorted(SYSTEMS, key=lambda name: -result(done, "people", "bradley_terry", name).value)
    assert ranked == list(SYSTEMS)
    # The table is a ranking, in whatever order battles name systems.
    assert names != ranked
    for kind in ("bradley_terry", "online_elo"):
        assert [result.category for result in done.results if result.statistic == kind] == ranked
    for voice in ("length", "judge"):
        for statistic in ("bt_spearman", "bt_kendall", "elo_spearman", "elo_kendall"):
            assert result(done, voice, statistic).value == pytest.approx(1)
    assert result(done, "judge", "bt_kendall").interval.low is not None
    # By length the largest hardly ever loses: on too many resamples it never does.
    assert "'large' never lost to the others" in result(done, "length", "bt_kendall").interval.reason
    assert result(done, "length", "elo_kendall").interval is None
    assert result(done, "length", "bt_kendall").remark == "4 systems, 6 of 6 pairs met"
    assert "6 of 6 pairs met" in render([done])


def test_agreement_is_given_with_ties_and_without(run, tmp_path):
    rows = battles(60)
    table = {"paper": "caparena", "table": 2, "task": "CapArena {category}", "metrics": {"judge": "Inter-annotator"}}
    published = {**table, "categories": []}
    done = run(rows, {"output_path": tmp_path / "runs"}, protocol=QUICK, scale=100, published=published)
    printed = {key: number.printed for key, number in done.record.published.items() if "with_ties" in key}
    assert printed == {"length.accuracy_with_ties": ".585", "judge.accuracy_with_ties": ".683"}
    # A part of the data, or other data, has no published values.
    for settings, checks in (({"limit": 40}, {}), ({"skip_checks": True}, {"checks": {"documents": 7}})):
        assert run(rows, settings, protocol=QUICK, published=published, **checks).record.published == {}
    # A value of all categories is that of the paper only where the categories are.
    assert run(rows, protocol=QUICK, published={**table, "categories": ["level 1"]}).record.published == {}
    # Strengths are never percentages, but agreement may be.
    assert result(done, "people", "bradley_terry", "large").scale == 1
    assert result(done, "people", "online_elo", "large").scale == 1
    assert result(done, "judge", "elo_kendall").scale == 100
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("run.json"))
    (compared,) = compare_runs([folder])
    (length,) = [row for row in compared.compared if row.name == "length"]
    assert length.value == pytest.approx(result(done, "length", "accuracy").value)

    def outcome(row: dict[str, Any]) -> tuple[int, int, int]:
        """Of people, of length, of the judge: 1 for the first, -1 for the second, 0 for a tie."""
        people = {row["source1"]: 1, row["source2"]: -1}.get(row["winner"], 0)
        length = int(np.sign(len(row["caption1"]) - len(row["caption2"])))
        return people, length, 1 if "1" in row["judge"] else -1 if "2" in row["judge"] else 0

    outcomes = np.array([outcome(row) for row in rows])
    for place, voice in ((1, "length"), (2, "judge")):
        both = (outcomes[:, 0] != 0) & (outcomes[:, place] != 0)
        same = outcomes[:, 0] == outcomes[:, place]
        without, with_ties = (result(done, voice, name) for name in ("accuracy", "accuracy_with_ties"))
        assert (without.value, without.n) == (pytest.approx(same[both].mean()), both.sum())
        assert (with_ties.value, with_ties.n) == (pytest.approx(same.mean()), len(rows))
    assert done.samples["systems"].to_pylist()[0] == [rows[0]["source1"], rows[0]["source2"]]
    assert set(done.record.results) >= {"people.bradley_terry.large", "judge.accuracy", "length.elo_kendall"}


class Missing(Metric):
    """How many words a caption lacks to ten: fewer are better."""

    label = "missing"
    source = "this test"
    higher_is_better = False

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.array([10.0 - len(candidate.split()) for candidate in items.candidates]))


@pytest.mark.parametrize("metric_ties", ["exact", "as_many"])
def test_metric_of_which_less_is_better_says_what_its_opposite_says(run, metric_ties: str, monkeypatch):
    monkeypatch.setitem(metrics._entries, "missing", Missing)
    rows = battles(60)
    done = run(rows, metric_list=["length", "missing"], protocol=QUICK | {"metric_ties": metric_ties})
    for name in ("accuracy", "accuracy_with_ties", "bt_kendall", "elo_kendall"):
        of_missing, opposite = (result(done, metric, name) for metric in ("missing", "length"))
        assert (of_missing.value, of_missing.n, of_missing.interval) == (opposite.value, opposite.n, None)
    assert result(done, "missing", "elo_kendall").value > 0.5


def test_choices_that_nobody_makes_are_those_of_caparena():
    chosen = BattleSettings()
    assert (chosen.ties, chosen.prior, chosen.elo_rounds, chosen.left_out_systems) == ("leave_out", 0, 1000, ())
    assert BattleSettings(prior=0.5, elo_rounds=1).prior == 0.5
    for wrong in ({"prior": -0.1}, {"elo_rounds": 0}):
        with pytest.raises(ValidationError):
            BattleSettings(**wrong)


def test_levels_are_categories_and_a_system_may_be_left_out(run):
    rows = battles(60)
    rules = {"aggregate": "all", "left_out_systems": ["tiny"]}
    done = run(rows, doc_to_category="level", protocol=QUICK | rules)
    assert len(done.samples) == sum("tiny" not in (row["source1"], row["source2"]) for row in rows)
    assert not [result for result in done.results if result.category == "tiny"]
    parts = [result(done, "judge", "accuracy", level) for level in ("level 1", "level 2")]
    pooled = result(done, "judge", "accuracy")
    assert pooled.n == sum(part.n for part in parts)
    assert pooled.value == pytest.approx(sum(part.n * part.value for part in parts) / pooled.n)


def test_undefeated_system_has_no_strength_unless_ties_are_added(run):
    rows = [row | {"winner": row["source1"] if row["source1"] == "large" else row["winner"]} for row in battles(60)]
    for row in rows:
        if row["source2"] == "large":
            row["winner"] = "large"
    done = run(rows, protocol=QUICK)
    strength = result(done, "people", "bradley_terry", "large")
    assert strength.value is None
    assert strength.reason == "'large' never lost to the others"
    assert "never lost" in result(done, "judge", "bt_spearman").reason
    with_prior = run(rows, protocol=QUICK | {"prior": 1})
    assert result(with_prior, "people", "bradley_terry", "large").value > 1100
    assert result(with_prior, "judge", "bt_spearman").value is not None
    assert result(with_prior, "judge", "bt_spearman").interval is None


def test_groups_that_never_met_are_told(run):
    rows = battles(40, {"a": 2, "b": 3}) + battles(40, {"c": 2, "d": 3})
    done = run(rows, protocol=QUICK)
    assert "never met the others" in result(done, "people", "bradley_terry", "a").reason
    assert result(done, "judge", "bt_spearman").remark == "4 systems, 2 of 6 pairs met"


def test_battle_without_a_verdict_says_nothing_of_the_judge(run):
    rows = battles(20)
    done = run(rows, doc_to_verdict={"judge": "{{ none if loop_free is defined else none }}"}, protocol=QUICK)
    assert result(done, "judge", "accuracy").value is None
    assert result(done, "length", "accuracy").value is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"winner": "huge"}, "is neither the number of a candidate nor a tie nor one of"),
        ({"source1": None}, "does not name the system of each of its 2 captions"),
        ({"source1": "same", "source2": "same"}, "has two captions of the same system"),
        ({"judge": None}, "cannot be rendered"),
    ],
)
def test_battle_that_says_something_impossible_is_named(run, change: dict[str, Any], reason: str):
    rows = battles(20)
    rows[3] |= change
    done = run(rows, protocol=QUICK)
    (failure,) = done.failures
    assert reason in failure["reason"]
    assert len(done.samples) == 20


def test_people_who_never_choose_battles_of_three_and_without_systems_are_refused(run):
    with pytest.raises(DataError, match="all human verdicts are ties"):
        run([row | {"winner": "equal"} for row in battles(10)], protocol=QUICK)
    with pytest.raises(TaskError, match="output_type 'battles' needs doc_to_systems"):
        run(battles(4), doc_to_systems=None)
    rows = [row | {"source3": "other", "caption3": "a third one"} for row in battles(4)]
    three = {key: [f"{name}{n}" for n in (1, 2, 3)] for key, name in (
        ("doc_to_candidates", "caption"), ("doc_to_systems", "source"))}  # fmt: skip
    with pytest.raises(DataError) as raised:
        run(rows, protocol=QUICK, **three)
    assert "has 3 captions; a battle needs two" in f"{raised.value.message} {raised.value.hint}"
