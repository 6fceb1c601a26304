"""The numbers of a session: how far raters agree, what they think of each system, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..statistics.bootstrap import Resampled
from ..statistics.contract import Interval, UndefinedStatistic
from ..statistics.rated_rows import first_seen
from ..statistics.resampling import on_resamples
from .agreement import Answered, alpha, equal_share
from .answers import TIE, Answer, Key
from .desk import spoken
from .session import Session

RESAMPLES = 1000
Value = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Figure:
    """A number of a session.

    Attributes:
        name: What it is.
        of: Which aspect it is of; empty for choices.
        value: The number; None where it is undefined.
        interval: Its 95 % interval over images.
        images: How many images it is of.
        answers: How many answers it is of.
        span: What 0.01 of an interval's width is a hundredth of: the range of a scale, or 1.
        reason: Why it is undefined.
    """

    name: str
    of: str
    value: float | None
    interval: Interval | None
    images: int
    answers: int
    span: float = 1.0
    reason: str = ""

    def more(self, reach: float) -> tuple[int, int] | None:
        """Return how many more images an interval of ``value ± reach`` needs, and how many more answers these are.

        The width of an interval falls with the root of the number of images: ``n`` images whose interval reaches
        ``w`` to each side give ``n (w / reach)^2`` for one that reaches ``reach``, each with as many answers as so far.

        Args:
            reach: How far the interval reaches to each side, as a share of ``span``.

        Returns:
            None where there is no interval, or one without width, which says nothing of another one's.
        """
        if self.interval is None or self.interval.low is None or self.interval.high is None:
            return None
        reaches = (self.interval.high - self.interval.low) / 2 / self.span
        if reaches == 0:
            return None
        images = max(0, math.ceil(self.images * (reaches / reach) ** 2 - 1e-9) - self.images)
        return images, math.ceil(images * self.answers / self.images)


def figures(session: Session, given: Mapping[str, Mapping[Key, Answer]]) -> list[Figure]:
    """Return the numbers of a session.

    Args:
        session: The session.
        given: The answers that stand, by rater.
    """
    questions = session.design.questions
    if questions.better:
        return list(_of_choices(session, given))
    return [figure for aspect in questions.aspects for figure in _of_aspect(session, given, aspect)]


def _of_choices(session: Session, given: Mapping[str, Mapping[Key, Answer]]) -> Iterator[Figure]:
    systems = session.design.systems
    decided = [session.decided(rater, answers) for rater, answers in given.items()]
    first_equal = np.array([item.first_equal for item in session.items])
    counts = np.zeros((len(session.items), len(systems) + 1), dtype=int)
    for row, item in enumerate(session.items):
        for answers in decided:
            answer = answers.get((item.id, None))
            if answer == TIE:
                counts[row, -1] += 1
            elif isinstance(answer, int):
                counts[row, first_equal[row, answer]] += 1
    asked = np.flatnonzero(first_equal.any(axis=1))
    yield from _agreement(Answered(counts[asked], asked, "nominal"), "", ())
    # A vote for equal captions is shared out among them, and a tie among all.
    equal = (first_equal[:, :, None] == first_equal[:, None, :]).sum(axis=2)
    shares = np.take_along_axis(counts, first_equal, axis=1) / equal + counts[:, -1:] / len(systems)
    for number, system in enumerate(systems):
        yield _mean(
            f"share for {system}", "", shares[:, number], counts.sum(axis=1), np.arange(len(counts)), 0.0, 1.0
        )


def _of_aspect(session: Session, given: Mapping[str, Mapping[Key, Answer]], aspect: str) -> Iterator[Figure]:
    numbers, systems = session.design.questions.aspects[aspect].numbers, session.design.systems
    counts = np.zeros((len(session.items), len(systems), len(numbers)), dtype=int)
    for row, item in enumerate(session.items):
        for system in range(len(systems)):
            for answers in given.values():
                answer = answers.get((item.id, system))
                if isinstance(answer, Mapping):
                    counts[row, system, numbers.index(answer[aspect])] += 1
    images = np.arange(len(session.items))
    clusters = np.repeat(images, len(systems))
    answered = Answered(counts.reshape(-1, len(numbers)), clusters, "ordinal")
    yield from _agreement(answered, aspect, (1,))
    span = float(numbers[-1] - numbers[0])
    for number, system in enumerate(systems):
        of_system = counts[:, number]
        sums = of_system @ (np.array(numbers) - numbers[0])
        yield _mean(f"mean of {system}", aspect, sums, of_system.sum(axis=1), images, float(numbers[0]), span)


def _agreement(answered: Answered, aspect: str, apart: Sequence[int]) -> Iterator[Figure]:
    rows = answered.compared
    compared = Answered(answered.counts[rows], first_seen(answered.clusters[rows]), answered.level)
    answers = int(compared.counts.sum())
    named: dict[str, Value] = {
        f"alpha ({answered.level})": lambda weights: alpha(compared, weights),
        "equal pairs": lambda weights: equal_share(compared, weights),
    }
    for one in apart:
        named[f"pairs within {one}"] = lambda weights, one=one: equal_share(compared, weights, one)
    for name, value in named.items():
        yield _figure(name, spoken(aspect), value, compared.clusters, answers, 1.0)


def _mean(
    name: str,
    aspect: str,
    sums: np.ndarray,
    counts: np.ndarray,
    clusters: np.ndarray,
    lowest: float,
    span: float,
) -> Figure:
    """Return the mean over images of what each has on average; of choices each image counts by its answers."""
    rows = counts > 0
    of_image = sums[rows] / counts[rows] + lowest

    def value(weights: np.ndarray) -> float:
        if not weights.any():
            raise UndefinedStatistic("nobody has answered")
        return float(np.average(of_image, weights=weights))

    return _figure(name, spoken(aspect), value, first_seen(clusters[rows]), int(counts.sum()), span)


def _figure(name: str, aspect: str, value: Value, clusters: np.ndarray, answers: int, span: float) -> Figure:
    images = int(clusters.max()) + 1 if len(clusters) else 0
    try:
        found = value(np.ones(len(clusters)))
    except UndefinedStatistic as error:
        return Figure(name, aspect, None, None, images, answers, span, str(error))
    values, reasons = on_resamples([value], clusters, images, RESAMPLES, seed=0, processes=1)
    interval = Resampled(values[:, 0], images, reasons[0]).interval()
    return Figure(name, aspect, found, interval, images, answers, span, interval.reason)
