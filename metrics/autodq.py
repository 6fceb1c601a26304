"""AutoDQ: the events of a description that another entails, in both directions."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from .contract import Context, labelled, require_choice
from .items import Items, Scores
from .judging import PROMPTS, DrawingMetric, JudgeQuestion, fill, read_list

EXTRACT, RELATE = PROMPTS["autodq"]["extract"], PROMPTS["autodq"]["relate"]

_CLASSES = ("entailment", "neutral", "contradiction")
_PARTS: tuple[str, ...] = ("precision", "recall", "f1", "events", "reference_events")
_Direction = tuple[str, tuple[str, ...] | str]
"""A description, and the events of the other one; or why there are none."""
_Key = TypeVar("_Key")
_Said = TypeVar("_Said")


@dataclass(eq=False, repr=False)
class _AutoDq(DrawingMetric):
    """The computation that the three metrics share through the cache.

    A judge extracts the caption's events. Precision is their share that the reference entails, recall the share of the
    reference's events that the caption entails; a description without events has 1. The reference is the first one;
    further ones are its events, as people took them out of it (DREAM-1K).

    Released code sets no temperature, so that the server's default of 1 counts; here each answer is drawn with a seed
    and stored. An unusable answer (no list, an event without one of the three classes) is requested again, up to
    ``tries`` times; then the caption has no value, and the reason is counted. An empty caption has no events and
    entails none, without a request.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, ``f1 [n]``; ``events [n]`` and ``reference_events [n]``, how
    many there are.

    Args:
        events: ``given``: those of the reference are the further references; ``judge``: the judge extracts them, too,
            and further references are not read.
        tries: Maximum number of requests for an answer.
        temperature: That of the answers.
        seed: The first seed of the answers.
        max_tokens: Tokens that an answer may have.

    Raises:
        ValueError: A setting is out of range.
    """

    needs = frozenset({"references", "judge"})
    source = (
        "Wang et al. 2024 (Tarsier, arXiv:2407.00634); evaluation/metrics/evaluate_dream_gpt.py of "
        "github.com/bytedance/tarsier (63de87a)"
    )
    _of: ClassVar[str]

    events: Literal["given", "judge"] = "given"
    _: KW_ONLY
    tries: int = 10
    max_tokens: int = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("events", self.events, ("given", "judge"))
        self.label = labelled(self, ["reference's events by the judge"] * (self.events == "judge"))

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole.
        """
        captions = [candidate.lower() for candidate in items.candidates]
        references = [texts[0].lower() if texts else "" for texts in items.references]
        described = [*captions, *(references if self.events == "judge" else ())]
        asked = {text: fill(EXTRACT, caption=text.replace('"', "'")) for text in described if text.strip()}
        extracted = self._said({text: (prompt, read_events) for text, prompt in asked.items()}, context)
        directions: list[tuple[_Direction, _Direction]] = []
        for caption, reference, texts in zip(captions, references, items.references, strict=True):
            known = extracted.get(reference, ()) if self.events == "judge" else texts[1:]
            directions.append(((reference, extracted.get(caption, ())), (caption, known)))
        related = self._said(
            {
                (text, events): (
                    fill(RELATE, description=text, events=str([*events])),
                    partial(read_entailed, count=len(events)),
                )
                for text, events in chain.from_iterable(directions)
                if text.strip() and events and not isinstance(events, str)
            },
            context,
        )
        parts = np.full((len(items), len(_PARTS)), np.nan)
        failures: dict[int, str] = {}
        for item, both in enumerate(directions):
            try:
                if not references[item].strip():
                    raise ValueError("item has no reference")
                precision, recall = (_share(direction, related) for direction in both)
                parts[item] = precision, recall, f1_of(precision, recall), *(len(events) for _, events in both)
            except ValueError as reason:
                failures[item] = str(reason)
        named = dict(zip(_PARTS, parts.T.copy(), strict=True))
        return Scores(named[self._of], named, failures)

    def _said(
        self, asked: Mapping[_Key, tuple[str, Callable[[str], _Said]]], context: Context
    ) -> dict[_Key, _Said | str]:
        """Return by key what the answer to a prompt says, or the reason why there is none."""
        questions = [JudgeQuestion(prompt, read, self.temperature) for prompt, read in asked.values()]
        answers = (answer if isinstance(answer, str) else answer[0] for answer in self._ask(questions, context))
        return dict(zip(asked, answers, strict=True))


class AutoDq(_AutoDq):
    """F1 of the events of a caption and of its reference: which of them the other description entails (AutoDQ).

    A caption's value is its F1; the system-level value is F1 of mean precision and mean recall, as released.
    """

    label = "AutoDQ F1"
    aggregation = "corpus"
    _of = "f1"

    def terms(self, scores: Scores) -> np.ndarray:
        """Return precision and recall of each item, and whether it has them."""
        precision, recall = scores.parts["precision"], scores.parts["recall"]
        return np.stack([np.nan_to_num(precision), np.nan_to_num(recall), np.isfinite(precision)], axis=1)

    def pool(self, totals: np.ndarray) -> float:
        """Return F1 of mean precision and mean recall; NaN if no item has them."""
        precision, recall, weight = totals.tolist()
        return f1_of(precision / weight, recall / weight) if weight else float("nan")


class AutoDqPrecision(_AutoDq):
    """The share of a caption's events that the reference entails; see ``AutoDq``."""

    label = "AutoDQ precision"
    _of = "precision"


class AutoDqRecall(_AutoDq):
    """The share of the reference's events that the caption entails; see ``AutoDq``."""

    label = "AutoDQ recall"
    _of = "recall"


def f1_of(precision: float, recall: float) -> float:
    """Return the harmonic mean of both; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def read_events(answer: str) -> tuple[str, ...]:
    """Return the events of an answer, in order; there may be none.

    Raises:
        ValueError: It holds no list of texts.
    """
    events = read_list(answer)
    if not all(isinstance(event, str) for event in events):
        raise ValueError("the judge's answer is not a list of texts")
    return tuple(events)


def read_entailed(answer: str, count: int) -> int:
    """Return how many events of an answer are entailed.

    Args:
        answer: The answer.
        count: How many events there are.

    Raises:
        ValueError: It does not give each event one of the three classes.
    """
    entries = read_list(answer)
    classes = [entry.get("relationship") if isinstance(entry, Mapping) else None for entry in entries]
    classes = [name.strip().lower() if isinstance(name, str) else name for name in classes]
    if len(classes) != count or any(name not in _CLASSES for name in classes):
        raise ValueError(f"the judge's answer does not give each event one of {', '.join(_CLASSES)}")
    return classes.count("entailment")


def _share(direction: _Direction, related: Mapping[Any, int | str]) -> float:
    """Return the share of events that a description entails; 1 of none.

    Raises:
        ValueError: An answer is missing.
    """
    text, events = direction
    if isinstance(events, str):
        raise ValueError(f"events: {events}")
    entailed = related.get((text, events), 0)
    if isinstance(entailed, str):
        raise ValueError(f"relationships: {entailed}")
    return entailed / len(events) if events else 1.0
