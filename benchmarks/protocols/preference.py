"""``preference``: people prefer one of several captions of an image; does the metric score it highest?"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from ...rows import parse_number
from ..inputs.failures import FailureLog
from ..inputs.items import printable
from .choices import Choice, ChoicePart, Choices, ChoicesOfSize, Ties, credit_of_best
from .contract import TEXTS, ProtocolSettings
from .document_reader import Document, UnusableDocument, is_blank, is_list, read_documents
from .job import Collected, Job

MetricTies = Literal["exact", "as_many"]
HumanTies = Literal["leave_out", "half", "match"]
Votes = Literal["majority", "share"]


class PreferenceSettings(ProtocolSettings):
    """The settings of a preference task that affect its numbers."""

    ties: Ties = "half"
    """Credit of a choice whose best captions have equal scores: a half (of two), 0 or 1; or it is excluded."""
    metric_ties: MetricTies = "exact"
    """When two scores are tied: if the numbers are equal; or as many pairs as people tie, those with the smallest
    difference."""
    human_ties: HumanTies = "leave_out"
    """Credit of a choice that people tie: it is excluded, counts a half, or is right where the metric ties."""
    votes: Votes = "majority"
    """Of several votes, or a grade: the majority counts, or the share of votes for the metric's choice."""
    tie_words: tuple[str, ...] = ()
    """Texts that mean a tie, in addition to ``tie`` and ``equal``."""
    grades: tuple[float, float] | None = None
    """The extreme grades for the first and for the second of two captions; None where votes are numbers of
    candidates."""
    aggregate: Literal["categories", "all"] = "categories"
    """The overall value next to categories: their unweighted mean, or the mean of all choices."""
    first_references: int | None = Field(default=None, ge=1)
    """The number of references of a caption that are used, from the first."""
    drawn_references: int | None = Field(default=None, ge=1)
    """The number of references drawn at random for each pair, the same for both captions."""
    draws: int = Field(default=1, ge=1)
    """Number of draws of references; accuracy is the mean over draws."""
    draw_seed: int = 0
    """Seed of the draws of references."""

    meanings: ClassVar = TEXTS["preference"]["meanings"]

    @field_validator("grades")
    @classmethod
    def _differ(cls, grades: tuple[float, float] | None) -> tuple[float, float] | None:
        if grades is not None and grades[0] == grades[1]:
            raise ValueError("expected two grades that differ: the extreme for the first caption, then for the second")
        return grades

    @property
    def words_of_ties(self) -> frozenset[str]:
        """Texts that mean a tie, lower-cased."""
        return frozenset(word.strip().lower() for word in ("tie", "equal", *self.tie_words))

    def shares_of(self, preferred: Any, candidates: int, systems: Sequence[str] = ()) -> tuple[float, ...]:
        """Return the share of the votes of each candidate.

        Args:
            preferred: A vote, or a list of votes, where null is a missing vote. A vote is the number of a candidate,
                from 0; its system; a word for a tie; for two candidates a number between 0 (the first) and 1 (the
                second), where 0.5 is a tie; or a grade.
            candidates: Number of candidates.
            systems: The system of each, where known.

        Returns:
            ``candidates`` shares of sum 1.

        Raises:
            UnusableDocument: A value is no vote.
        """
        voted = [vote for vote in (preferred if is_list(preferred) else [preferred]) if vote is not None]
        if not voted:
            raise UnusableDocument("rating", "is missing")
        votes = [self._shares(vote, candidates, systems) for vote in voted]
        return tuple(math.fsum(column) / len(votes) for column in zip(*votes, strict=True))

    def _shares(self, vote: Any, candidates: int, systems: Sequence[str]) -> list[float]:
        if isinstance(vote, str) and vote.strip().lower() in self.words_of_ties:
            return [1 / candidates] * candidates
        if isinstance(vote, str) and systems.count(vote) == 1:
            vote = systems.index(vote)
            return [float(number == vote) for number in range(candidates)]
        names = f" nor one of {', '.join(map(repr, systems))}" if systems else ""
        number = _number(vote, f"is neither the number of a candidate nor a tie{names}: {vote!r:.80}")
        if (grades := self.grades) is not None:
            if candidates != 2:
                raise UnusableDocument("rating", f"is a grade of two candidates, but there are {candidates}")
            number = (number - grades[0]) / (grades[1] - grades[0])
            if not 0 <= number <= 1:
                reason = f"lies outside of the grades {grades[0]:g} to {grades[1]:g}: {parse_number(vote):g}"
                raise UnusableDocument("rating", reason)
        if candidates == 2 and 0 <= number <= 1:
            return [1 - number, number]
        if number in range(candidates):
            return [float(candidate == number) for candidate in range(candidates)]
        reason = f"votes for a candidate other than 0 to {candidates - 1}: {vote!r:.80}"
        raise UnusableDocument("rating", reason)


VOTED_ROWS: Mapping[str, Any] = {
    "output_type": "preference",
    "doc_to_candidates": "captions",
    "doc_to_preferred": "votes",
    "protocol": {"votes": "share", "human_ties": "half"},
}
"""Keys of a task whose rows, of votes for captions, capbench writes."""
RANKED_ROWS = {"output_type": "preference", "doc_to_candidates": "captions", "doc_to_ranking": "ranks"}
"""Keys of a task whose rows, of captions with their ranks by one rater, capbench writes."""


class Preference(Choices[PreferenceSettings]):
    """Share of choices in which the metric scores the preferred caption best, by category and their mean.

    ``doc_to_candidates`` gives two or more captions of an image, ``doc_to_preferred`` the human preference: the number
    of a caption, a tie, several votes or a grade. Or ``doc_to_ranking`` gives the rank of each; each pair is a choice.
    Accuracy is given by ``doc_to_category``, and as the mean of categories. Documents with the same ``doc_to_pair``
    (such as the sentences of two paragraphs) are one choice: their scores are averaged first.
    """

    Settings = PreferenceSettings
    reads = (*Choices.reads, "doc_to_preferred", "doc_to_ranking", "doc_to_pair")
    needs_one = ("doc_to_preferred", "doc_to_ranking")
    lm_eval = True

    @property
    def draws(self) -> int:
        """The number of draws of references."""
        return self.settings.draws

    @property
    def average_categories(self) -> bool:
        """Whether the overall value is the mean of categories."""
        return self.settings.aggregate == "categories"

    def read_document(self, document: Document) -> Iterator[Choice]:
        """Yield the choice of a document, or the pairs of its ranking."""
        count = len(document.candidates)
        # The first fault in this order is reported.
        _ = document.references, document.category
        systems = _systems(document, count)
        document.check_view()
        name, settings = _pair_of(document), self.settings
        shares = settings.shares_of
        if document["doc_to_ranking"] is None:
            chosen = [(name, range(count), shares(document["doc_to_preferred"], count, systems))]
        else:
            pairs = pairs_of_ranking(document["doc_to_ranking"], count)
            chosen = [(f"{name}|{first}|{other}", (first, other), of_both) for first, other, of_both in pairs]
        verdicts: dict[str, tuple[float, ...]] = {}
        by_judge: Mapping[str, Any] = document["doc_to_verdict"] or {}
        for judge, verdict in by_judge.items():
            # Null counts as missing.
            try:
                verdicts[judge] = (math.nan,) * count if verdict is None else shares(verdict, count, systems)
            except UnusableDocument as fault:
                raise UnusableDocument(fault.stage, f"of {judge} {fault}") from fault
        for identity, numbers, of_all in chosen:
            captions = [document.candidates[number] for number in numbers]
            wrote = tuple(systems[number] for number in numbers) if systems else ()
            yield replace(Choice.of(document, of_all, captions), id=identity, systems=wrote, verdicts=verdicts)

    def choices(self, job: Job, failures: FailureLog) -> Iterator[Choice]:
        """Yield the choices that can be scored; documents with the same ``doc_to_pair`` are one choice."""
        if "doc_to_pair" not in job.task.templates:
            yield from super().choices(job, failures)
            return
        choices: dict[str, Choice] = {}
        broken: set[str] = set()
        for document, of_document in read_documents(job, self.document_keys, self.read_document, failures):
            if not of_document:
                broken.add(_pair_of(document))
            for new in of_document:
                choice = choices.setdefault(new.id, new)
                if (choice.shares, choice.systems) != (new.shares, new.systems):
                    failures.add(document.id, "rating", f"contradicts an earlier document of pair '{choice.id}'")
                    broken.add(choice.id)
                elif choice is not new:
                    choice.parts.extend(new.parts)
        # Without one of its parts a choice would compare other texts than the data set does.
        for part in (part for name in choices if name in broken for part in choices[name].parts):
            failures.add(part.id, "data", "belongs to a pair with an unusable document")
        yield from (choice for name, choice in choices.items() if name not in broken)

    def content_of(self, choices: Sequence[Choice]) -> list[Any]:
        """Return the votes as values of the row; for a plain preference only the captions, in order."""
        return [choice.known for choice in choices if set(choice.shares) != {0.0, 1.0} or choice.systems]

    def references_of(self, part: ChoicePart) -> list[tuple[str, ...]]:
        """Return the references of each draw; they depend on the document's id and the seed, not on other documents."""
        settings = self.settings
        references = part.references[: settings.first_references]
        if settings.drawn_references is None or len(references) <= settings.drawn_references:
            return [references] * settings.draws
        draws: list[tuple[str, ...]] = []
        for draw in range(settings.draws):
            generator = np.random.default_rng([settings.draw_seed, draw, *part.id.encode()])
            chosen: list[int] = generator.choice(len(references), settings.drawn_references, replace=False).tolist()
            draws.append(tuple(references[i] for i in sorted(chosen)))
        return draws

    def credit(self, scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return ``[k]`` the credit of choices by the task's rules of ties and votes."""
        return preference_credit(scores, shares, self.settings)

    def remark(self, collected: Collected, of_sizes: Sequence[ChoicesOfSize]) -> str:
        """Return how many ties the task's rule decides for or against a metric."""
        if self.settings.ties == "half":
            return ""
        best = [some.scores == some.scores.max(axis=2, keepdims=True) for some in of_sizes]
        tied = sum(int((of_size.sum(axis=2) > 1).sum()) for of_size in best)
        if not tied:
            return ""
        rule = {"wrong": "counted as wrong", "right": "counted as right", "leave_out": "excluded"}[self.settings.ties]
        return f"{tied / (collected.rows * self.draws):.1%} of choices have equal best scores, {rule}"


def preference_credit(scores: np.ndarray, shares: np.ndarray, rule: PreferenceSettings) -> np.ndarray:
    """Return ``[k]`` the credit of choices; NaN for an excluded one.

    Args:
        scores: ``[k, n]`` scores of captions; higher is better, ties exactly equal.
        shares: ``[k, n]`` share of the votes of each.
        rule: The task's rule.
    """
    if rule.metric_ties == "as_many" and scores.shape[1] == 2:
        scores = tied_as_often(scores, int(undecided(shares).sum()))
    if rule.votes == "share":
        return credit_of_best(scores, shares, rule.ties)
    majority = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    of_tie = {
        "leave_out": np.full(len(scores), np.nan),
        "half": np.full(len(scores), 0.5),
        "match": (scores == scores[:, :1]).all(axis=1).astype(np.float64),
    }
    credit = np.where(undecided(shares), of_tie[rule.human_ties], credit_of_best(scores, majority, rule.ties))
    return np.where(np.isfinite(scores).all(axis=1), credit, np.nan)


def undecided(shares: np.ndarray) -> np.ndarray:
    """Return ``[k]`` whether people tie the choice."""
    return (shares == shares[:, :1]).all(axis=1)


def tied_as_often(scores: np.ndarray, ties: int) -> np.ndarray:
    """Return scores of pairs with as many ties as people have: the pairs with the smallest difference."""
    apart = np.abs(scores[:, 0] - scores[:, 1])
    known = np.sort(apart[np.isfinite(apart)])
    least = known[ties] if ties < len(known) else np.inf
    return np.where((apart < least)[:, None], 0.0, scores)


def _pair_of(document: Document) -> str:
    pair = document["doc_to_pair"]
    return document.id if pair is None else printable(str(pair))


def _systems(document: Document, count: int) -> list[str]:
    """Return the system of each candidate; empty where the task does not name them."""
    systems = document["doc_to_systems"]
    if "doc_to_systems" in document.job.task.templates:
        if not is_list(systems) or len(systems) != count or any(map(is_blank, systems)):
            raise UnusableDocument("data", f"does not name the system of each of its {count} captions: {systems!r:.80}")
        if len(set(map(str, systems))) < len(systems):
            raise UnusableDocument("data", f"has two captions of the same system: {systems!r:.80}")
    return [printable(str(system)) for system in systems or ()]


def _number(value: Any, fault: str) -> float:
    try:
        return parse_number(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnusableDocument("rating", fault) from error


def pairs_of_ranking(ranking: Any, candidates: int) -> list[tuple[int, int, tuple[float, float]]]:
    """Return all pairs of ranked candidates with the shares of both.

    Args:
        ranking: The rank of each candidate, 1 for the best; equal ranks are a tie, null is a missing rank.
        candidates: Number of candidates.

    Raises:
        UnusableDocument: A value is no ranking.
    """
    if not is_list(ranking) or len(ranking) != candidates:
        raise UnusableDocument("rating", f"is not a list of {candidates} ranks: {ranking!r:.80}")
    ranks = [
        None if rank is None else _number(rank, f"holds a rank that is no number: {rank!r:.80}") for rank in ranking
    ]
    pairs: list[tuple[int, int, tuple[float, float]]] = []
    for (first, place), (second, other) in combinations(enumerate(ranks), 2):
        if place is not None and other is not None:
            share = 0.5 if place == other else float(place > other)
            pairs.append((first, second, (1 - share, share)))
    if not pairs:
        raise UnusableDocument("rating", "has no two ranks")
    return pairs
