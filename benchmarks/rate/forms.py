"""Answers of each form: read from a page, checked, and taken apart into credits of systems and judgements."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias, cast

from .items import RatedItem, Step
from .questions import MarkedErrors, Questionnaire

TIE: Literal["tie"] = "tie"
CANNOT_TELL = "cannot_tell"
Answer: TypeAlias = Any
"""JSON. Scales: score by aspect, None for 'cannot tell'. Choices: index of the better caption, or a tie. Battles:
``{"pair": [i, j], "better": i}``. Best and worst: ``{"best": i, "worst": j}``. Rankings: rank of each caption, None if
it was not shown. Marked errors: a list of ``start``, ``end``, ``category``, ``severity``. None for 'cannot tell'."""


def spoken(name: str) -> str:
    """Return the name of an aspect for pages."""
    return name.replace("_", " ")


def is_answer(questions: Questionnaire, item: RatedItem, value: Any) -> bool:
    """Return whether a value is a valid answer to a question on an item."""
    captions = range(len(item.texts))
    if questions.form == "aspects":
        return _are_scores(questions, value)
    if value is None:
        return True
    match questions.form:
        case "better":
            return value == TIE or _is_index(value, captions)
        case "best_worst":
            of_both = list(value.values()) if isinstance(value, dict) and value.keys() == {"best", "worst"} else []
            return (
                len(of_both) == 2 and all(_is_index(entry, captions) for entry in of_both) and of_both[0] != of_both[1]
            )
        case "ranking":
            return isinstance(value, list) and len(value) == len(captions) and _are_ranks(value, item)
        case "battle":
            return isinstance(value, dict) and value.keys() == {"pair", "better"} and _is_battle(value, captions)
        case _:
            spans = cast("MarkedErrors", questions.spans)
            return isinstance(value, list) and all(_is_mark(spans, item, mark) for mark in value)


def _is_index(value: Any, captions: range) -> bool:
    return type(value) is int and value in captions


def _are_scores(questions: Questionnaire, value: Any) -> bool:
    aspects = questions.aspects
    return (
        isinstance(value, dict)
        and value.keys() == aspects.keys()
        and all(
            entry is None or (type(entry) is int and entry in aspects[name].numbers) for name, entry in value.items()
        )
    )


def _are_ranks(value: Sequence[Any], item: RatedItem) -> bool:
    shown = set(item.first_equal)
    return all(
        type(rank) is int and 1 <= rank <= len(shown) if at in shown else rank is None for at, rank in enumerate(value)
    )


def _is_battle(value: Mapping[str, Any], captions: range) -> bool:
    pair, better = value["pair"], value["better"]
    is_pair = isinstance(pair, list) and len(pair) == 2 and all(_is_index(entry, captions) for entry in pair)
    return is_pair and pair[0] != pair[1] and (better in (None, TIE) or (type(better) is int and better in pair))


def _is_mark(spans: MarkedErrors, item: RatedItem, mark: Any) -> bool:
    if not isinstance(mark, dict) or mark.keys() != {"start", "end", "category", "severity"}:
        return False
    start, end, longest = mark["start"], mark["end"], max(map(len, item.texts))
    is_within = type(start) is int and type(end) is int and 0 <= start < end <= longest
    return is_within and mark["category"] in spans.categories and mark["severity"] in spans.severities


def answer_of(questions: Questionnaire, item: RatedItem, step: Step, fields: Mapping[str, str]) -> Answer | ValueError:
    """Return the answer from a form, or an error for the rater.

    Args:
        questions: The questions.
        item: The item of the step.
        step: The question.
        fields: Fields of the form: ``choice``; ``aspect0``, ``aspect1``, …; ``best`` and ``worst``; ``rank0``,
            ``rank1``, …; or ``spans``. Captions have their index on the page.
    """
    places = [str(place) for place in range(len(step.shown))]
    choice = fields.get("choice", "")
    if questions.form == "aspects":
        return _scores(questions, fields)
    if choice == CANNOT_TELL:
        return {"pair": list(step.shown), "better": None} if questions.battle else None
    match questions.form:
        case "better" | "battle":
            if choice != TIE and choice not in places:
                return ValueError("Choose a caption or one of the other answers.")
            better = TIE if choice == TIE else step.shown[int(choice)]
            return {"pair": list(step.shown), "better": better} if questions.battle else better
        case "best_worst":
            best, worst = fields.get("best", ""), fields.get("worst", "")
            if best not in places or worst not in places or best == worst:
                return ValueError("Choose the best and the worst caption; they are two.")
            return {"best": step.shown[int(best)], "worst": step.shown[int(worst)]}
        case "ranking":
            ranks = [fields.get(f"rank{place}", "") for place in places]
            if any(rank not in [str(n + 1) for n in range(len(places))] for rank in ranks):
                return ValueError("Choose a rank for each caption.")
            of_caption = dict(zip(step.shown, map(int, ranks), strict=True))
            return [of_caption.get(caption) for caption in range(len(item.texts))]
        case _:
            return _marks(cast("MarkedErrors", questions.spans), item, step, fields.get("spans", ""))


def _scores(questions: Questionnaire, fields: Mapping[str, str]) -> Answer | ValueError:
    values = {name: fields.get(f"aspect{place}", "") for place, name in enumerate(questions.aspects)}
    for name, aspect in questions.aspects.items():
        if values[name] not in (CANNOT_TELL, *map(str, aspect.numbers)):
            return ValueError(f"Choose a score for {spoken(name)}.")
    return {name: None if value == CANNOT_TELL else int(value) for name, value in values.items()}


def _marks(spans: MarkedErrors, item: RatedItem, step: Step, text: str) -> Answer | ValueError:
    try:
        marks = json.loads(text)
    except ValueError:
        marks = None
    length = len(item.texts[step.shown[0]])
    if not isinstance(marks, list) or not all(
        _is_mark(spans, item, entry) and entry["end"] <= length for entry in marks
    ):
        return ValueError("The marked errors could not be read; mark them again.")
    return marks


Judgement: TypeAlias = tuple[tuple[Any, ...], float]
"""What is judged, within an item, and the category of the verdict."""


def score_of(spans: MarkedErrors, marks: Sequence[Mapping[str, Any]]) -> float:
    """Return the score of a caption: 0 minus the points of its errors."""
    return 0.0 - sum(spans.severities[mark["severity"]] for mark in marks)


def credits_of(questions: Questionnaire, item: RatedItem, answer: Answer, shown: int | None) -> dict[int, float]:
    """Return the credit of each judged system; systems with equal captions have the same.

    It is 1 for a won battle, the share of captions that a rank beats, 1 for the best and -1 for the worst, or the score
    of marked errors; a tie is a half.

    Args:
        questions: The questions, not scales or choices.
        item: The item.
        answer: The answer.
        shown: Index of the caption, if one is shown at a time.
    """
    if answer is None or (questions.battle and answer["better"] is None):
        return {}
    if questions.spans:
        return {cast("int", shown): score_of(questions.spans, answer)}
    if questions.battle:
        won = answer["better"]
        return {system: 0.5 if won == TIE else float(system == won) for system in answer["pair"]}
    first = item.first_equal
    if questions.best_worst:
        of_first = {caption: float(caption == answer["best"]) - float(caption == answer["worst"]) for caption in first}
    else:
        ranks = {caption: answer[caption] for caption in first}
        of_first = {
            caption: (sum(rank < other for other in ranks.values()) + (list(ranks.values()).count(rank) - 1) / 2)
            / max(1, len(ranks) - 1)
            for caption, rank in ranks.items()
        }
    return {system: of_first[caption] for system, caption in enumerate(first)}


def judgements_of(questions: Questionnaire, answer: Answer, shown: int | None) -> Iterator[Judgement]:
    """Yield what raters agree on or not: a pair of captions, the best, the worst, or the score of a caption."""
    if answer is None or (questions.battle and answer["better"] is None):
        return
    if questions.spans:
        yield (shown,), score_of(questions.spans, answer)
    elif questions.battle:
        first, other = sorted(answer["pair"])
        yield (first, other), -1 if answer["better"] == TIE else answer["better"]
    elif questions.best_worst:
        yield ("best",), answer["best"]
        yield ("worst",), answer["worst"]
    else:
        ranked = [(caption, rank) for caption, rank in enumerate(answer) if rank is not None]
        for (first, rank), (other, other_rank) in combinations(ranked, 2):
            yield (first, other), -1 if rank == other_rank else first if rank < other_rank else other
