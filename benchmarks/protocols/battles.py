"""``battles``: people choose between captions of two systems; agreement of a metric in choices and ranking."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from ...errors import DataError
from ..inputs.failures import FailureLog
from ..statistics.bootstrap import finite_value
from ..statistics.contract import Interval, RatedScores, Statistic, Statistics, UndefinedStatistic
from ..statistics.correlation import KendallB, Spearman
from ..statistics.influence import spreads_of_values
from ..statistics.rated_rows import first_seen
from ..statistics.systems.battles import as_elo, online_elo, strengths, wins_of
from ..statistics.systems.means import FEW_SYSTEMS
from .choices import Choice, Choices, Ties, by_size
from .contract import TEXTS
from .job import Collected, Job, Result, RowScores, ScoredMetrics
from .preference import VOTED_ROWS, Preference, PreferenceSettings, preference_credit, tied_as_often, undecided

PEOPLE = "people"
"""The name in results of the strengths of systems by human votes."""
_STATISTICS: Statistics = {"spearman": Spearman(), "kendall": KendallB()}

LABELS: Mapping[str, str] = TEXTS["battles"]["labels"]

_Found = tuple[float | None, str, Interval | None]
"""A number, the reason if there is none, and its interval."""


BATTLE_ROWS: Mapping[str, Any] = {**VOTED_ROWS, "output_type": "battles", "doc_to_systems": "systems"}
"""Keys of a task whose rows, of battles of two systems, capbench writes."""


class BattleSettings(PreferenceSettings):
    """The settings of a battles task that affect its numbers."""

    ties: Ties = "leave_out"
    prior: float = Field(default=0.0, ge=0)
    """Ties added to each pair of systems, so that Bradley-Terry strengths exist if a system never loses."""
    elo_rounds: int = Field(default=1000, ge=1)
    """Number of resamples for the medians of online Elo."""
    left_out_systems: tuple[str, ...] = ()
    """Systems whose battles are excluded."""


@dataclass(frozen=True, eq=False)
class _Voice:
    """A metric, or a judge whose verdicts are in the data, that decides battles.

    Attributes:
        name: Its name.
        label: Its name in tables.
        scores: ``[battles, 2]`` higher for the better caption, near ties made ties; None where it failed.
        credit: ``[battles]`` credit for each.
        credit_with_ties: The same with a tie as a third outcome.
        error: Why it failed.
    """

    name: str
    label: str
    scores: np.ndarray | None
    credit: np.ndarray
    credit_with_ties: np.ndarray
    error: str = ""


class Battles(Preference):
    """Agreement with people on battles of two systems, and on the ranking of systems that follows from them.

    As ``preference``, with two captions each; ``doc_to_systems`` names their systems. ``doc_to_verdict`` may give, as a
    mapping, the verdicts of judges on the same battles; judges are then reported with the metrics.
    """

    Settings = BattleSettings
    settings: BattleSettings  # pyrefly: ignore[bad-override-mutable-attribute]
    reads = (*Choices.reads, "doc_to_preferred", "doc_to_systems", "doc_to_verdict")
    needs = frozenset({"doc_to_candidates", "doc_to_preferred", "doc_to_systems", "metric_list"})
    needs_one = ()
    lists = frozenset({"doc_to_target", "doc_to_candidates", "doc_to_systems"})
    mappings = frozenset({"doc_to_verdict"})
    about = TEXTS["battles"]["about"]
    lm_eval = False

    def choices(self, job: Job, failures: FailureLog) -> Iterator[Choice]:
        """Yield the battles that count."""
        for choice in super().choices(job, failures):
            if len(choice.shares) != 2:
                failures.add(choice.id, "candidate", f"has {len(choice.shares)} captions; a battle needs two")
            elif not set(choice.systems) & set(self.settings.left_out_systems):
                yield choice

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the human strength of each system, then accuracies and rankings of each metric and judge."""
        shares = collected.numbers["shares"].reshape(-1, 2)
        if undecided(shares).all():
            raise DataError(f"task '{job.task.task}': all human verdicts are ties", "Check column doc_to_preferred.")
        systems = collected.numbers["systems"].reshape(-1, 2)
        names, rounds = collected.summary.systems, self.settings.elo_rounds
        rank = partial(SystemRanking, names, systems, prior=self.settings.prior)
        people, voices = rank(share_of_first(shares)), self._voices(collected, scored)
        rankings = {voice.name: rank(share_of_first(voice.scores)) for voice in voices if voice.scores is not None}

        def strength(place: int, weights: np.ndarray) -> float:
            return float(people.bradley_terry(weights)[place])

        def agreement(other: SystemRanking, statistic: Statistic, weights: np.ndarray) -> float:
            return agreement_of(other.bradley_terry(weights), people.bradley_terry(weights), statistic)

        asked = {(PEOPLE, system): partial(strength, place) for place, system in enumerate(names)}
        for name, ranking in rankings.items():
            asked |= {
                (name, called): partial(agreement, ranking, statistic) for called, statistic in _STATISTICS.items()
            }
        numbers, of_people = _numbers(job, collected, asked), people.elo(rounds)
        count, met = len(names), len(np.unique(np.sort(systems, axis=1), axis=0))
        remark = f"{count} systems, {met} of {count * (count - 1) // 2} pairs met"

        def result(subject: str, label: str, statistic: str, number: _Found, category: str = "") -> Result:
            value, reason, interval = number
            label_of = label, " ".join(filter(None, (LABELS[statistic], category)))
            # Ratings of systems are never percentages.
            scale = 1.0 if subject == PEOPLE else job.task.scale
            rows = collected.rows
            result = Result(
                subject, statistic, label_of, value, rows, True, scale, None, reason, category, remark=remark
            )
            return result.with_interval(interval, "" if subject == PEOPLE else FEW_SYSTEMS)

        results: list[Result] = []
        for statistic, of_systems in (
            ("bradley_terry", [numbers[PEOPLE, system] for system in names]),
            ("online_elo", [_certain(float, rating) for rating in of_people]),
        ):
            pairs = zip(names, of_systems, strict=True)
            kind = [result(PEOPLE, PEOPLE, statistic, number, system) for system, number in pairs]
            results += sorted(kind, key=lambda row: math.inf if row.value is None else -row.value)
        for voice in voices:
            for statistic, credit in (("", voice.credit), ("accuracy_with_ties", voice.credit_with_ties)):
                subject = voice.name, voice.label, voice.error
                results += self.accuracies(job, collected, subject, credit, statistic)
            failed: _Found = None, voice.error, None
            for called in _STATISTICS:
                number = numbers.get((voice.name, called), failed)
                results.append(result(voice.name, voice.label, f"bt_{called}", number))
            if ranking := rankings.get(voice.name):
                elo = ranking.elo(rounds)
                for called, statistic in _STATISTICS.items():
                    number = _certain(agreement_of, elo, of_people, statistic)
                    results.append(result(voice.name, voice.label, f"elo_{called}", number))
        return results

    def row_scores(self, collected: Collected, scored: ScoredMetrics) -> RowScores:
        """Return the credit of each battle for a metric, and for a judge."""
        values, reasons = super().row_scores(collected, scored)
        judges = self._voices(collected, scored)[len(scored) :]
        return values | {judge.name: judge.credit for judge in judges}, reasons

    def _voices(self, collected: Collected, scored: ScoredMetrics) -> list[_Voice]:
        """Return the metrics, then the judges whose verdicts are in the data."""
        shares = collected.numbers["shares"].reshape(-1, 2)
        ties = self.settings.model_copy(update={"ties": "wrong", "human_ties": "match"})
        exact = {"metric_ties": "exact"}
        voices: list[_Voice] = []
        for judge in scored:
            scores, credit, with_ties = None, *np.full((2, collected.rows), np.nan)
            if judge.scores is not None:
                sign = 1 if judge.metric.higher_is_better else -1
                (some,) = by_size(collected, judge.scores.values, self.settings.draws)
                scores = sign * some.scores.mean(axis=1)
                if self.settings.metric_ties == "as_many":
                    scores = tied_as_often(scores, int(undecided(shares).sum()))
                credit, with_ties = self.credit_of(collected, judge), preference_credit(scores, shares, ties)
            voices.append(_Voice(judge.name, judge.metric.label, scores, credit, with_ties, judge.error))
        for key in (key for key in collected.numbers if key.startswith("verdict.")):
            name, scores = key.removeprefix("verdict."), collected.numbers[key].reshape(-1, 2)
            credit, with_ties = (
                preference_credit(scores, shares, rule.model_copy(update=exact)) for rule in (self.settings, ties)
            )
            voices.append(_Voice(name, name, scores, credit, with_ties))
        return voices


class SystemRanking:
    """Strengths of systems, from the outcomes of battles by people, a metric or a judge.

    Args:
        names: Names of the systems, in order of occurrence.
        sides: ``[battles, 2]`` number of the system of each caption.
        share: ``[battles]`` outcome for the first system: 1, 0.5 or 0; NaN where there is none.
        prior: Ties added to each pair of systems.
    """

    def __init__(self, names: Sequence[str], sides: np.ndarray, share: np.ndarray, prior: float) -> None:
        self._names, self._prior = names, prior
        self._known = np.flatnonzero(np.isfinite(share))
        first, second = sides[self._known].T
        self._battles = first, second, share[self._known], len(names)
        self._latest: tuple[np.ndarray, np.ndarray | UndefinedStatistic] | None = None

    def bradley_terry(self, weights: np.ndarray) -> np.ndarray:
        """Return ``[systems]`` strengths on the Elo scale; the result for the latest weights is cached.

        Args:
            weights: ``[battles]`` weight of each.

        Raises:
            UndefinedStatistic: As of :func:`~..statistics.systems.battles_terry.strengths`.
        """
        if self._latest is None or self._latest[0] is not weights:
            self._latest = (weights, self._fitted(weights))
        latest = self._latest[1]
        if isinstance(latest, UndefinedStatistic):
            raise latest
        return latest

    def _fitted(self, weights: np.ndarray) -> np.ndarray | UndefinedStatistic:
        wins = wins_of(*self._battles, weights[self._known]) + self._prior / 2 * (1 - np.eye(len(self._names)))
        try:
            return as_elo(strengths(wins, self._names))
        except UndefinedStatistic as error:
            return error

    def elo(self, rounds: int) -> np.ndarray:
        """Return ``[systems]`` medians of online Elo, as CapArena computes them."""
        return online_elo(*self._battles, rounds)


def agreement_of(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> float:
    """Return a statistic of two rankings over their common systems."""
    ranked = np.isfinite(first) & np.isfinite(second)
    rated = RatedScores(first[ranked], second[ranked], np.arange(int(ranked.sum())))
    return statistic.value(rated, np.ones(len(rated)))


def share_of_first(scores: np.ndarray) -> np.ndarray:
    """Return ``[battles]`` 1 where the first of two scores is greater, 0 where it is less, 0.5 where they tie.

    NaN where one is missing.
    """
    apart = np.sign(scores[:, 0] - scores[:, 1])
    return (1 + apart) / 2


def _numbers(
    job: Job, collected: Collected, asked: Mapping[tuple[str, str], Callable[[np.ndarray], float]]
) -> dict[tuple[str, str], _Found]:
    """Return numbers of all battles, with intervals by the same bootstrap resamples of images."""
    numbers = {key: _certain(value, np.ones(collected.rows)) for key, value in asked.items()}
    defined = {str(key): (value, None) for key, value in asked.items() if numbers[key][0] is not None}
    settings, groups = job.settings, first_seen(collected.numbers["image"])
    if not defined or not settings.resamples:
        return numbers
    spreads = spreads_of_values(defined, groups, settings.draws())
    return {
        key: (value, reason, spreads[str(key)].interval(settings.level) if str(key) in spreads else None)
        for key, (value, reason, _) in numbers.items()
    }


def _certain(value: Callable[..., float], *arguments: object) -> _Found:
    """Return a number without an interval: it is already made of resamples."""
    try:
        return finite_value(value, *arguments), "", None
    except UndefinedStatistic as error:
        return None, str(error), None
