"""Reports progress of a session, care and agreement of raters, and the images needed for narrower intervals."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

from ...errors import counted
from ..statistics import Draws
from ..statistics.bootstrap import resample_values
from ..statistics.contract import Interval, UndefinedStatistic
from ..statistics.rated_rows import first_seen
from ..tables.results import filled, tabulated
from ..tables.text import csv_text, show_interval
from .forms import TIE, Answer, credits_of, judgements_of, spoken
from .items import RatedItem
from .session import Answers, Key, Session


def report(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]], reach: float, fmt: str) -> str:
    """Return the report on a session, for a terminal or a paper.

    Args:
        session: The session.
        by_rater: The current answers by rater.
        reach: Target half-width of intervals, as a fraction of the range of a scale or of 1.
        fmt: ``github`` and ``latex`` give tables, ``json`` and ``csv`` unscaled values.
    """
    results = figures(session, by_rater) if by_rater else []
    if fmt in ("json", "csv"):
        return _plain(session, by_rater, results, reach, fmt)
    if not results:
        return _summary(session, by_rater)
    raters = rater_rows(session, by_rater)
    named = [{"Rater": name, **shown(values)} for name, values in raters.items()]
    tables = [tabulated(rows, fmt) for rows in (filled(named), filled([_row(figure, reach) for figure in results]))]
    notes = [*warnings(raters), *_notes(results, reach), _FAIRNESS[session.together]]
    return "\n\n".join([_summary(session, by_rater), *tables, "\n".join(notes)])


_FAIRNESS = {
    True: "Captions of an image are on one page, in an order drawn for each rater and recorded (shown).",
    False: "One caption a page, in an order drawn for each rater: captions of an image do not follow one another.",
}


def _summary(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> str:
    total = sum(map(len, by_rater.values()))
    unknown = sum(is_unknown(answer) for answers in by_rater.values() for answer in answers.values())
    cannot = f", {unknown:,} of them 'cannot tell' (not counted)" if unknown else ""
    equal = sum(not item.has_choice for item in session.items) if session.together else 0
    of_equal = f"; {counted(equal, 'image')} with equal captions of all systems count as no difference"
    return (
        f"{session.folder}: {counted(total, 'answer')} by {counted(len(by_rater), 'rater')}{cannot}; "
        f"{counted(session.wanted, 'answer')} per rater ({counted(len(session.items), 'image')})"
        f"{of_equal if equal else ''}"
    )


def _row(figure: Figure, reach: float) -> dict[str, str]:
    more = figure.more(reach)
    return {
        "Figure": figure.name,
        "Of": figure.of,
        "Value": "–" if figure.value is None else f"{figure.value:.3f}".replace("-", "−"),
        "95% CI": show_interval(figure.interval, 1, 3).replace("-", "−"),
        "Images": f"{figure.images:,}",
        "Answers": f"{figure.answers:,}",
        f"For ±{reach:g}": "" if more is None else "reached" if not more[0] else f"{more[0]:,} more images",
        "Which are": f"{more[1]:,} more answers" if more and more[0] else "",
    }


def _notes(results: list[Figure], reach: float) -> list[str]:
    undefined: dict[str, list[str]] = {}
    for figure in results:
        if figure.reason:
            undefined.setdefault(figure.reason, []).append(" ".join(filter(None, (figure.name, figure.of))))
    wide = any(figure.span != 1 for figure in results)
    of = f" (of means: {reach:g} of the range of their scale)" if wide else ""
    return [
        *(f"{', '.join(names)}: {reason}." for reason, names in undefined.items()),
        f"Intervals: {RESAMPLES:,} bootstrap resamples of images. For ±W = ±{reach:g}{of}, n images with ±w "
        "give n·(w/W)², with the same number of answers per image (docs/rate.md).",
    ]


def _plain(
    session: Session, by_rater: Mapping[str, Mapping[Key, Answer]], results: list[Figure], reach: float, fmt: str
) -> str:
    rows: list[dict[str, Any]] = []
    for figure in results:
        more = dict(zip(("more_images", "more_answers"), figure.more(reach) or (None, None), strict=True))
        ends = {name: getattr(figure.interval, name, None) for name in ("low", "high")}
        counts = {"images": figure.images, "answers": figure.answers, "reach": reach, **more}
        values = {"value": figure.value, **ends, **counts, "reason": figure.reason}
        rows.append({"figure": figure.name, "of": figure.of, **values})
    if fmt == "csv":
        return csv_text(rows)
    raters = {name: len(answers) for name, answers in sorted(by_rater.items())}
    quality = rater_rows(session, by_rater)
    values = {"asked": session.wanted, "raters": raters, "quality": quality, "figures": rows}
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)


RESAMPLES = 1000
Value = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Figure:
    """A statistic of a session.

    Attributes:
        name: Its name.
        of: The aspect; empty for choices.
        value: The value; None if undefined.
        interval: 95 % bootstrap interval over images.
        images: Number of images.
        answers: Number of answers.
        span: Unit of interval widths: the range of a scale, or 1.
        reason: Why the value is undefined.
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
        """Return the numbers of additional images and answers for an interval of ``value ± reach``.

        The width of an interval decreases with the square root of the number of images: if ``n`` images give a
        half-width ``w``, ``reach`` needs ``n (w / reach)^2``, with the same number of answers per image.

        Args:
            reach: Target half-width, as a fraction of ``span``.

        Returns:
            None if there is no interval, or its width is 0, so that it cannot be extrapolated.
        """
        low, high = (self.interval and self.interval.ends) or (0.0, 0.0)
        if low == high:
            return None
        reaches = (high - low) / 2 / self.span
        images = max(0, math.ceil(self.images * (reaches / reach) ** 2 - 1e-9) - self.images)
        return images, math.ceil(images * self.answers / self.images)


def figures(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> list[Figure]:
    """Return the statistics of a session.

    Args:
        session: The session.
        by_rater: The current answers by rater.
    """
    questions = session.design.questions
    if questions.better:
        return list(_of_choices(session, by_rater))
    if not questions.aspects:
        return list(_of_credits(session, by_rater))
    return [figure for aspect in session.design.questions.aspects for figure in _of_aspect(session, by_rater, aspect)]


def _of_choices(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[Figure]:
    systems = session.design.systems
    decided = [session.decided(rater, answers) for rater, answers in by_rater.items()]
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
    yield from _agreement(AnswerCounts(counts[asked], asked, "nominal"), "")
    # A vote for equal captions is split among them, and a tie among all.
    equal = (first_equal[:, :, None] == first_equal[:, None, :]).sum(axis=2)
    shares = np.take_along_axis(counts, first_equal, axis=1) / equal + counts[:, -1:] / len(systems)
    for number, system in enumerate(systems):
        sums, answers = shares[:, number], counts.sum(axis=1)
        yield _mean(f"share for {system}", "", sums, answers, 0.0, 1.0, is_share=True)


_CREDITS = {
    "best_worst": ("best minus worst for", -1.0, 2.0),
    "ranking": ("share beaten by", 0.0, 1.0),
    "battle": ("battles won by", 0.0, 1.0),
    "spans": ("mean score of", 0.0, 1.0),
}
"""By form what the mean credit of a system is called, its lowest value, and the span of intervals."""


def _of_credits(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> Iterator[Figure]:
    """Yield agreement on single judgements, and the mean credit of each system."""
    questions, systems = session.design.questions, session.design.systems
    sums, answers = np.zeros((2, len(session.items), len(systems)))
    verdicts: dict[tuple[Any, ...], list[float]] = {}
    for row, item in enumerate(session.items):
        for number in [None] if session.together else range(len(systems)):
            for of_rater in by_rater.values():
                if (key := (item.id, number)) not in of_rater:
                    continue
                for system, credit in credits_of(questions, item, of_rater[key], number).items():
                    sums[row, system] += credit
                    answers[row, system] += 1
                for unit, category in judgements_of(questions, of_rater[key], number):
                    verdicts.setdefault((row, *unit), []).append(category)
    categories = sorted({category for of_unit in verdicts.values() for category in of_unit})
    counts = [[of_unit.count(category) for category in categories] for of_unit in verdicts.values()]
    rows = np.array([unit[0] for unit in verdicts], dtype=int)
    table = np.array(counts, dtype=int).reshape(len(verdicts), len(categories))
    yield from _agreement(AnswerCounts(table, rows, "ordinal" if questions.spans else "nominal"), "", within=None)
    name, lowest, span = _CREDITS[questions.form]
    for number, system in enumerate(systems):
        of_system = sums[:, number] - lowest * answers[:, number]
        yield _mean(
            f"{name} {system}",
            "",
            of_system,
            answers[:, number],
            lowest,
            span,
            is_share=span == 1.0 and not questions.spans,
        )


def _of_aspect(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]], aspect: str) -> Iterator[Figure]:
    numbers, systems = session.design.questions.aspects[aspect].numbers, session.design.systems
    counts = np.zeros((len(session.items), len(systems), len(numbers)), dtype=int)
    for row, item in enumerate(session.items):
        for system in range(len(systems)):
            for answers in by_rater.values():
                answer = answers.get((item.id, system))
                if isinstance(answer, Mapping) and answer[aspect] is not None:
                    counts[row, system, numbers.index(answer[aspect])] += 1
    clusters = np.repeat(np.arange(len(session.items)), len(systems))
    answered = AnswerCounts(counts.reshape(-1, len(numbers)), clusters, "ordinal")
    yield from _agreement(answered, aspect)
    span = float(numbers[-1] - numbers[0])
    for number, system in enumerate(systems):
        of_system = counts[:, number]
        sums = of_system @ (np.array(numbers) - numbers[0])
        yield _mean(f"mean of {system}", aspect, sums, of_system.sum(axis=1), float(numbers[0]), span)


def _agreement(answered: AnswerCounts, aspect: str, within: int | None = 1) -> Iterator[Figure]:
    rows = answered.compared
    compared = AnswerCounts(answered.counts[rows], first_seen(answered.clusters[rows]), answered.level)
    answers = int(compared.counts.sum())
    named: dict[str, Value] = {
        f"alpha ({answered.level})": lambda weights: alpha(compared, weights),
        "equal pairs": lambda weights: equal_share(compared, weights),
    }
    if answered.level == "ordinal" and within:
        named["pairs within 1"] = lambda weights: equal_share(compared, weights, 1)
    for name, value in named.items():
        is_share = not name.startswith("alpha")
        yield _figure(name, spoken(aspect), value, compared.clusters, answers, 1.0, is_share=is_share)


def _mean(
    name: str, aspect: str, sums: np.ndarray, counts: np.ndarray, lowest: float, span: float, *, is_share: bool = False
) -> Figure:
    """Return the mean of image means; for choices, images are weighted by number of answers."""
    rows = counts > 0
    of_image = sums[rows] / counts[rows] + lowest

    def value(weights: np.ndarray) -> float:
        if not weights.any():
            raise UndefinedStatistic("no answers")
        return float(np.average(of_image, weights=weights))

    answers = int(counts.sum())
    return _figure(name, spoken(aspect), value, np.arange(rows.sum()), answers, span, is_share=is_share)


def _figure(
    name: str, aspect: str, value: Value, clusters: np.ndarray, answers: int, span: float, *, is_share: bool
) -> Figure:
    images = int(clusters.max()) + 1 if len(clusters) else 0
    try:
        estimate = value(np.ones(len(clusters)))
    except UndefinedStatistic as error:
        return Figure(name, aspect, None, None, images, answers, span, str(error))
    interval = resample_values({"": value}, clusters, Draws(RESAMPLES, processes=1))[""].interval(is_share=is_share)
    return Figure(name, aspect, estimate, interval, images, answers, span, interval.reason)


_Level = Literal["ordinal", "nominal"]


@dataclass(frozen=True)
class AnswerCounts:
    """Answers of some raters to one question.

    Attributes:
        counts: ``[units, values]`` number of raters per value and unit; a unit is a caption, or a choice between some.
        clusters: ``[units]`` index of the image of each unit, from 0.
        level: Level of measurement: ordinal for scales, nominal for names.
    """

    counts: np.ndarray
    clusters: np.ndarray
    level: _Level

    @property
    def compared(self) -> np.ndarray:
        """``[units]`` whether at least two raters have answered."""
        return self.counts.sum(axis=1) >= 2


def alpha(answered: AnswerCounts, weights: np.ndarray) -> float:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for agreement by chance.

    It is ``1 - D_o / D_e`` over units with at least two answers; each pair of answers of a unit with ``m`` answers
    has the weight ``1 / (m - 1)`` (Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, sections C and D).

    Args:
        answered: The answers.
        weights: ``[units]`` integer weights, as from a resample.

    Raises:
        UndefinedStatistic: No unit has two answers, or all answers are equal.
    """
    often = np.where(answered.compared, weights, 0)
    counts = answered.counts.astype(np.float64)
    if not often.any():
        raise UndefinedStatistic("no caption or choice has answers of two raters")
    values = often @ counts
    if np.count_nonzero(values) < 2:
        raise UndefinedStatistic("all answers are equal")
    others = np.maximum(counts.sum(axis=1) - 1, 1)
    # Pairs of equal answers, including each answer with itself, have distance 0.
    coincidences = counts.T @ (counts * (often / others)[:, None])
    apart = _distances(values, answered.level)
    observed = float((coincidences * apart).sum())
    expected = float(values @ apart @ values) / (values.sum() - 1)
    return 1 - observed / expected


def _distances(values: np.ndarray, level: _Level) -> np.ndarray:
    """Return ``[values, values]`` squared distances, given the number of answers per value."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    # Mid-ranks of equal answers.
    places = np.cumsum(values) - values / 2
    return (places[:, None] - places) ** 2


def equal_share(answered: AnswerCounts, weights: np.ndarray, within: int = 0) -> float:
    """Return the proportion of equal pairs among all pairs of answers to the same unit.

    Args:
        answered: The answers.
        weights: ``[units]`` integer weights, as from a resample.
        within: Maximum difference of scores that count as equal.

    Raises:
        UndefinedStatistic: No unit has two answers.
    """
    counts = answered.counts.astype(np.float64)
    total = counts.sum(axis=1)
    pairs = total * (total - 1) / 2
    agreeing = (counts * (counts - 1) / 2).sum(axis=1)
    for apart in range(1, within + 1):
        agreeing += (counts[:, apart:] * counts[:, :-apart]).sum(axis=1)
    every = float(pairs @ weights)
    if not every:
        raise UndefinedStatistic("no caption or choice has answers of two raters")
    return float(agreeing @ weights) / every


WORDS_A_SECOND = 8.0
"""Twice the mean rate of silent reading (238 words a minute; Brysbaert 2019): who is faster has not read."""
_FEWEST = 8
"""Answers from which a rater is judged."""
QUALITY = {
    "answers": "Answers",
    "asked": "Asked",
    "seconds": "Median seconds",
    "fast": "Faster than reading",
    "same_again": "Same when asked again",
    "known": "Known answers met",
}


def shown(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the quality of a rater's answers as texts by their heads; empty ones are missing."""
    return {head: _text(values[name]) for name, head in QUALITY.items()}


def _text(value: Any) -> str:
    if isinstance(value, Sequence):
        hits, of = value
        if not of:
            return ""
        from scipy.stats import binomtest

        interval = binomtest(hits, of).proportion_ci(method="wilson")
        return f"{hits:,} of {of:,} [{interval.low:.2f}, {interval.high:.2f}]"
    return "" if value is None else f"{value:,}"


def is_unknown(answer: Answer) -> bool:
    """Return whether an answer, or a part of it, is 'cannot tell'."""
    return answer is None or (isinstance(answer, Mapping) and None in answer.values())


def rater_rows(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> dict[str, dict[str, Any]]:
    """Return the quality of each rater's answers: the names of :data:`QUALITY`, and ``constant``.

    That is whether all answers, or all chosen places on the page, are equal. Shares are pairs (hits, of).

    Args:
        session: The session, whose files have times and orders of captions.
        by_rater: The current answers by rater.
    """
    items = {item.id: item for item in session.items}
    known = {
        (entry.id, None if entry.system is None else session.design.systems.index(entry.system)): entry.answer
        for entry in session.design.known
    }
    return {
        name: _values(session, answers, session.answers(name), items, known, len(session.asked(name)))
        for name, answers in sorted(by_rater.items())
    }


def _values(
    session: Session,
    answers: Mapping[Key, Answer],
    log: Answers,
    items: Mapping[str, RatedItem],
    known: Mapping[tuple[str, int | None], Answer],
    asked: int,
) -> dict[str, Any]:
    timed = {key: row["seconds"] for key, row in log.rows.items() if key in answers and "seconds" in row}
    read = {key: _words(items[key[0]], key[1], log.rows[key].get("shown", ())) / WORDS_A_SECOND for key in timed}
    fast = sum(seconds < read[key] for key, seconds in timed.items())
    repeated = [(answers[key[0], key[1]], answer) for key, answer in answers.items() if len(key) == 3]
    # Which pairs of a battle a rater meets is drawn.
    met = [
        (right, answers[key]) for key, right in known.items() if key in answers and _pair(right) == _pair(answers[key])
    ]
    places = Counter(_said(answer, log.rows.get(key, {}).get("shown", ())) for key, answer in answers.items())
    return {
        "answers": len(answers),
        "asked": asked,
        "seconds": median(timed.values()) if timed else None,
        "fast": (fast, len(timed)),
        "same_again": (sum(_alike(first, other) for first, other in repeated), len(repeated)),
        "known": (sum(_alike(right, answer) for right, answer in met), len(met)),
        "constant": len(answers) >= _FEWEST and len(places) == 1,
    }


def _words(item: RatedItem, number: int | None, shown: Sequence[int]) -> int:
    captions = [item.texts[at] for at in (shown if number is None else [number])]
    return sum(len(caption.split()) for caption in captions)


def _said(answer: Answer, shown: Sequence[int]) -> str:
    """Return what a rater did on the page: the places of chosen captions, ranks by place, or the answer itself."""
    if isinstance(answer, Mapping) and "better" in answer:
        answer = answer["better"]
    elif isinstance(answer, Mapping) and "best" in answer:
        return f"places {[shown.index(caption) for caption in answer.values()]}"
    elif isinstance(answer, list) and shown:
        return f"ranks {[answer[caption] for caption in shown]}"
    return f"place {shown.index(answer)}" if type(answer) is int and answer in shown else str(answer)


def _pair(answer: Answer) -> set[int]:
    """Return the two captions of a battle; of other forms, none."""
    return set(answer["pair"]) if isinstance(answer, Mapping) and "pair" in answer else set()


def _alike(first: Answer, other: Answer) -> bool:
    """Return whether two answers are equal; scores may differ by 1, and errors may be marked in any order."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        if "better" in first:
            return first["better"] == other["better"]
        if "best" not in first:
            return all(
                entry == other[name] or (None not in (entry, other[name]) and abs(entry - other[name]) <= 1)
                for name, entry in first.items()
            )
    if first and other and isinstance(first, list) and isinstance(first[0], Mapping):
        first, other = (sorted(sorted(mark.items()) for mark in marks) for marks in (first, other))
    return first == other


def warnings(raters: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each kind of answers that are no judgements, with its raters."""
    fast = [name for name, row in raters.items() if row["fast"][1] >= _FEWEST]
    hasty = [name for name in fast if 2 * raters[name]["fast"][0] > raters[name]["fast"][1]]
    constant = [name for name, row in raters.items() if row["constant"]]
    reasons = {
        f"more than half of their answers took less time than reading ({WORDS_A_SECOND:g} words a second)": hasty,
        "all their answers are equal, or at the same place of the page": constant,
    }
    return [f"Look at {', '.join(names)}: {why}." for why, names in reasons.items() if names]
