"""``battles``: two systems caption an image, people choose; does a metric choose alike, and rank systems alike?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pydantic import Field

from ...errors import DataError
from ..inputs.failures import FailureLog
from ..statistics.contract import Interval, RatedScores, Statistic, UndefinedStatistic, finite_value
from ..statistics.correlation import KendallB, Spearman
from ..statistics.influence import Spread, spreads_of_values
from ..statistics.rated_rows import first_seen
from ..statistics.systems.battles import as_elo, online_elo, strengths, wins_of
from .choices import Choice, Ties, by_size
from .job import Collected, Job, Result, ScoredMetric
from .preference import Preference, PreferenceSettings, preference_credit, tied_as_often, undecided

PEOPLE = "people"
"""What results are of that say how strong people find systems."""
_STATISTICS: Mapping[str, Statistic] = {"spearman": Spearman(), "kendall": KendallB()}

LABELS = {
    "bradley_terry": "BT",
    "online_elo": "Elo",
    "bt_spearman": "ρ of BT",
    "bt_kendall": "τ-b of BT",
    "elo_spearman": "ρ of Elo",
    "elo_kendall": "τ-b of Elo",
}

Value = Callable[[np.ndarray], float]


class BattleSettings(PreferenceSettings):
    """The choices of a task of battles that move a number."""

    ties: Ties = "leave_out"
    prior: float = Field(default=0.0, ge=0)
    """So many ties are added to each pair of systems: Bradley-Terry strengths then exist where somebody never loses."""
    elo_rounds: int = Field(default=1000, ge=1)
    """Resamples over which medians of online Elo are taken."""
    left_out_systems: tuple[str, ...] = ()
    """Systems whose battles do not count."""


@dataclass(frozen=True, eq=False)
class _Voice:
    """What decides battles besides people: a metric, or a judge whose verdicts are in the data.

    Attributes:
        name: Its name.
        label: The same as tables print it.
        scores: ``[battles, 2]`` more for the better caption, near ties made ties; None where it failed.
        credit: ``[battles]`` what each counts.
        credit_with_ties: The same where a tie is an outcome as any other.
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

    As ``preference``, of two captions each; ``doc_to_systems`` names what wrote them, and ``doc_to_verdict`` may give,
    as a mapping, what judges said of the same battles, who then stand beside the metrics.
    """

    Settings = BattleSettings
    settings: BattleSettings
    reads = (
        *(key for key in Preference.reads if key not in ("doc_to_ranking", "doc_to_pair", "metric_list")),
        "doc_to_systems", "doc_to_verdict", "metric_list",
    )  # fmt: skip
    needs = frozenset({"doc_to_candidates", "doc_to_preferred", "doc_to_systems", "metric_list"})
    needs_one = ()
    lists = frozenset({"doc_to_target", "doc_to_candidates", "doc_to_systems"})
    mappings = frozenset({"doc_to_verdict"})
    about = (
        "Accuracy is without ties of people, or of the metric; accuracy with ties is the share of battles of the same "
        "outcome of three. Systems are ranked by Bradley and Terry, whose strengths do not depend on the order of "
        "battles, and by medians of online Elo as in CapArena; each ranking is held against people's."
    )
    lm_eval = False

    def choices(self, job: Job, failures: FailureLog) -> Iterator[Choice]:
        """Yield the battles that count."""
        for choice in super().choices(job, failures):
            if len(choice.shares) != 2:
                failures.add(choice.id, "candidate", f"is no battle of two captions, but of {len(choice.shares)}")
            elif not set(choice.systems) & set(self.settings.left_out_systems):
                yield choice

    def results(
        self, job: Job, collected: Collected, scored: Sequence[ScoredMetric], statistics: Mapping[str, Statistic]
    ) -> list[Result]:
        """Return how strong people find each system, then of each metric and judge accuracies and rankings."""
        shares = collected.numbers["shares"].reshape(-1, 2)
        if undecided(shares).all():
            raise DataError(f"task '{job.task.task}': people see no difference in any battle")
        systems = collected.numbers["systems"].reshape(-1, 2)
        fought = BattlePairs(collected.summary.systems, systems[:, 0], systems[:, 1])
        rank = partial(SystemRanking, fought, prior=self.settings.prior)
        people, voices = rank(share_of_first(shares)), self._voices(collected, scored)
        rankings = {one.name: rank(share_of_first(one.scores)) for one in voices if one.scores is not None}
        numbers = _Numbers(job, collected, fought)
        for place, system in enumerate(fought.systems):
            numbers.add(PEOPLE, "bradley_terry", partial(_strength, people, place), system)
        for name, ranking in rankings.items():
            for called, statistic in _STATISTICS.items():
                numbers.add(name, f"bt_{called}", partial(_agreement, people, ranking, statistic))
        numbers.scatter()
        rounds = self.settings.elo_rounds
        of_people = people.elo(rounds)
        strengths = [numbers.result((PEOPLE, PEOPLE), "bradley_terry", one) for one in fought.systems]
        medians = [
            numbers.certain((PEOPLE, PEOPLE), "online_elo", lambda found=found: float(found), system)
            for system, found in zip(fought.systems, of_people, strict=True)
        ]
        results = [one for kind in (strengths, medians) for one in sorted(kind, key=_strongest_first)]
        for one in voices:
            subject = (one.name, one.label)
            for statistic, credit in (("", one.credit), ("accuracy_with_ties", one.credit_with_ties)):
                results += self.accuracies(job, collected, subject, credit, statistic=statistic, reason=one.error)
            results += [numbers.result(subject, f"bt_{called}", reason=one.error) for called in _STATISTICS]
            if ranking := rankings.get(one.name):
                elo = ranking.elo(rounds)
                results += [
                    numbers.certain(subject, f"elo_{called}", partial(agreement_of, elo, of_people, statistic))
                    for called, statistic in _STATISTICS.items()
                ]
        return results

    def row_scores(
        self, collected: Collected, scored: Sequence[ScoredMetric]
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return what each battle counts for a metric, and for a judge."""
        values, reasons = super().row_scores(collected, scored)
        judges = self._voices(collected, scored)[len(scored) :]
        return values | {one.name: one.credit for one in judges}, reasons

    def _voices(self, collected: Collected, scored: Sequence[ScoredMetric]) -> list[_Voice]:
        """Return the metrics, then the judges whose verdicts are in the data."""
        shares = collected.numbers["shares"].reshape(-1, 2)
        ties = self.settings.model_copy(update={"ties": "wrong", "human_ties": "match"})
        exact = {"metric_ties": "exact"}
        voices: list[_Voice] = []
        for one in scored:
            scores, credit, with_ties = None, *np.full((2, collected.rows), np.nan)
            if one.scores is not None:
                sign = 1 if one.metric.higher_is_better else -1
                (some,) = by_size(collected, one.scores.values, self.settings.draws)
                scores = sign * some.scores.mean(axis=1)
                if self.settings.metric_ties == "as_many":
                    scores = tied_as_often(scores, int(undecided(shares).sum()))
                credit, with_ties = self.credit_of(collected, one), preference_credit(scores, shares, ties)
            voices.append(_Voice(one.name, one.metric.label, scores, credit, with_ties, one.error))
        for key in (key for key in collected.numbers if key.startswith("verdict.")):
            name, scores = key.removeprefix("verdict."), collected.numbers[key].reshape(-1, 2)
            credit, with_ties = (
                preference_credit(scores, shares, rule.model_copy(update=exact)) for rule in (self.settings, ties)
            )
            voices.append(_Voice(name, name, scores, credit, with_ties))
        return voices


def _strength(ranking: SystemRanking, place: int, weights: np.ndarray) -> float:
    return float(ranking.bradley_terry(weights)[place])


def _strongest_first(result: Result) -> float:
    return math.inf if result.value is None else -result.value


def _agreement(people: SystemRanking, other: SystemRanking, statistic: Statistic, weights: np.ndarray) -> float:
    return agreement_of(other.bradley_terry(weights), people.bradley_terry(weights), statistic)


@dataclass(frozen=True)
class BattlePairs:
    """Who fought whom.

    Attributes:
        systems: Names of the systems, in the order in which they come.
        first: ``[battles]`` the system of the first caption, by its place.
        second: ``[battles]`` that of the second.
    """

    systems: Sequence[str]
    first: np.ndarray
    second: np.ndarray

    @property
    def met(self) -> int:
        """How many pairs of systems fought."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return len(np.unique(low * len(self.systems) + high))


class SystemRanking:
    """What systems are worth, by the outcomes that people, a metric or a judge give battles.

    Args:
        battles: The battles.
        share: ``[battles]`` what the first one gets: 1, a half or 0; NaN where there is no outcome.
        prior: Ties that are added to each pair of systems.
    """

    def __init__(self, battles: BattlePairs, share: np.ndarray, prior: float) -> None:
        self._battles, self._prior = battles, prior
        self._known = np.flatnonzero(np.isfinite(share))
        self._share = share[self._known]
        self._latest: tuple[np.ndarray, np.ndarray | UndefinedStatistic] | None = None

    def bradley_terry(self, weights: np.ndarray) -> np.ndarray:
        """Return ``[systems]`` strengths on Elo's scale; of the latest weights they are kept.

        Args:
            weights: ``[battles]`` how often each counts.

        Raises:
            UndefinedStatistic: As of :func:`~..statistics.systems.battles_terry.strengths`.
        """
        if self._latest is None or self._latest[0] is not weights:
            self._latest = (weights, self._fitted(weights))
        found = self._latest[1]
        if isinstance(found, UndefinedStatistic):
            raise found
        return found

    def _fitted(self, weights: np.ndarray) -> np.ndarray | UndefinedStatistic:
        battles, systems = self._battles, len(self._battles.systems)
        drawn = weights[self._known]
        wins = wins_of(battles.first[self._known], battles.second[self._known], self._share, systems, drawn)
        wins += self._prior / 2 * (1 - np.eye(systems))
        try:
            return as_elo(strengths(wins, battles.systems))
        except UndefinedStatistic as error:
            return error

    def elo(self, rounds: int) -> np.ndarray:
        """Return ``[systems]`` medians of online Elo, as CapArena computes them."""
        first, second = self._battles.first[self._known], self._battles.second[self._known]
        return online_elo(first, second, self._share, len(self._battles.systems), rounds)


def agreement_of(first: np.ndarray, second: np.ndarray, statistic: Statistic) -> float:
    """Return a statistic of two rankings, over the systems that both have."""
    ranked = np.isfinite(first) & np.isfinite(second)
    rated = RatedScores(first[ranked], second[ranked], np.arange(int(ranked.sum())))
    return statistic.value(rated, np.ones(len(rated)))


def share_of_first(scores: np.ndarray) -> np.ndarray:
    """Return ``[battles]`` 1 where the first of two scores is greater, 0 where the second is, a half where they tie.

    NaN where one is missing.
    """
    apart = np.sign(scores[:, 0] - scores[:, 1])
    return (1 + apart) / 2


class _Numbers:
    """Numbers of systems, on all battles and on the same resamples of images, drawn once for all of them."""

    def __init__(self, job: Job, collected: Collected, fought: BattlePairs) -> None:
        self._job, self._battles = job, collected.rows
        self._groups = first_seen(collected.numbers["image"])
        systems = len(fought.systems)
        self._remark = f"{systems} systems, {fought.met} of {systems * (systems - 1) // 2} pairs met"
        self._asked: dict[tuple[str, str, str], Value] = {}
        self._values: dict[tuple[str, str, str], float] = {}
        self._reasons: dict[tuple[str, str, str], str] = {}
        self._spreads: dict[str, Spread] = {}

    def add(self, subject: str, statistic: str, value: Value, category: str = "") -> None:
        """Ask for a number, given what gives it for weights of battles."""
        self._asked[subject, statistic, category] = value

    def scatter(self) -> None:
        """Find all numbers that were asked for, and how they scatter."""
        ones = np.ones(self._battles)
        for key, value in self._asked.items():
            try:
                self._values[key] = finite_value(value, ones)
            except UndefinedStatistic as error:
                self._reasons[key] = str(error)
        settings = self._job.settings
        if self._values and settings.resamples:
            asked = {str(key): (self._asked[key], None) for key in self._values}
            self._spreads = spreads_of_values(asked, self._groups, settings.draws())

    def result(self, subject: tuple[str, str], statistic: str, category: str = "", reason: str = "") -> Result:
        """Return a number that was found."""
        key = (subject[0], statistic, category)
        spread = self._spreads.get(str(key))
        return self._made(
            subject,
            statistic,
            category,
            self._values.get(key),
            reason or self._reasons.get(key, ""),
            spread.interval(self._job.settings.level) if spread is not None else None,
        )

    def certain(
        self, subject: tuple[str, str], statistic: str, value: Callable[[], float], category: str = ""
    ) -> Result:
        """Return a number that is one of resamples already, so that it has no interval of its own."""
        try:
            return self._made(subject, statistic, category, finite_value(value), "", None)
        except UndefinedStatistic as error:
            return self._made(subject, statistic, category, None, str(error), None)

    def _made(
        self,
        subject: tuple[str, str],
        statistic: str,
        category: str,
        value: float | None,
        reason: str,
        interval: Interval | None,
    ) -> Result:
        return Result(
            subject[0],
            statistic,
            (subject[1], " ".join(filter(None, (LABELS[statistic], category)))),
            value,
            self._battles,
            higher_is_better=True,
            # Ratings of systems are never percentages.
            scale=1.0 if subject[0] == PEOPLE else self._job.task.scale,
            interval=interval,
            reason=reason,
            category=category,
            remark=self._remark,
        )
