"""GPT4-Eval: a language model ranks and scores the captions of one image against its references."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..adapters import Judgement, JudgeRequest
from ..errors import MetricError
from .contract import Context
from .items import Items, Scores
from .judging import PromptedMetric, ask_until_read, fill


@dataclass(eq=False, repr=False)
class Gpt4Eval(PromptedMetric):
    """The absolute scores that a language model gives the captions of an image, compared with one another.

    All captions of one image that are scored together (three in the paper) go into one question, with its
    references. The answer's last JSON object is read: ``scores`` lists a number a caption, in order, from 0
    to ``highest``; the value is the number / ``highest``. A ranking is not needed. An empty caption is
    not asked about, and has 0.

    The paper shows its prompt as a picture, with three worked examples, and releases neither: the prompt is
    yours to give. It must ask for ``{"ranking": [...], "scores": [...]}`` and hold ``{references}`` and
    ``{candidates}``, where the texts go: a line ``Caption 1: ...`` for each candidate, and the references
    with an empty line between them.

    Captions of an image may stand anywhere in a corpus, and come into questions in the order of the corpus: there is no
    state that shards could make, and a corpus is scored in one piece.

    Args:
        prompt: The file with the prompt; required.
        group: Captions of one image that are compared in one question.
        highest: The best score of the prompt's scale.
        max_tokens: Tokens that the answer may have.

    Raises:
        ValueError: A number is out of range.
    """

    label = "GPT4-Eval"
    needs = frozenset({"references", "judge"})
    source = "Dong et al. 2024 (DetailCaps), appendix A; no code or prompt was released"
    corpus_dependent = True
    _fields = ("references", "candidates")

    group: int = 3
    highest: float = 5.0
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.group < 1 or self.highest <= 0 or self.max_tokens < 1:
            raise ValueError("'group' and 'max_tokens' must be at least 1, and 'highest' above 0")

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no prompt, or no judge.
            AdapterError: The judge failed as a whole.
        """
        prompt = self._prompt()
        groups = _groups(items, self.group)
        values = np.array([np.nan if candidate.strip() else 0.0 for candidate in items.candidates])

        def request(number: int, attempt: int) -> JudgeRequest:
            listed = (f"Caption {place}: {items.candidates[item]}" for place, item in enumerate(groups[number], 1))
            references = "\n\n".join(items.references[groups[number][0]])
            text = fill(prompt, references=references, candidates="\n".join(listed))
            return JudgeRequest(text, max_tokens=self.max_tokens)

        def read(number: int, answer: Judgement) -> bool:
            scores = read_scores(answer.text, len(groups[number]), self.highest)
            values[groups[number]] = np.array(scores) / self.highest
            return True

        unread, _ = ask_until_read(range(len(groups)), request, context, 1, read)
        return Scores(values, failures={item: why for number, why in unread.items() for item in groups[number]})

    def _prompt(self) -> str:
        if self.prompt is None:
            raise MetricError(
                "GPT4-Eval needs a prompt file: the paper did not release its prompt.",
                "Write a prompt with {references} and {candidates} and asks for "
                '{"scores": [...]}, and name its file: gpt4_eval[prompt=FILE].',
            )
        return super()._prompt()


def read_scores(answer: str, count: int, highest: float) -> list[float]:
    """Return the scores in an answer.

    Args:
        answer: The answer; its last JSON object with ``scores`` counts.
        count: How many there must be.
        highest: The best score.

    Raises:
        ValueError: There is no such object, or its scores are not one number a caption from 0 to ``highest``.
    """
    scores = None
    decoder = json.JSONDecoder()
    for start, character in enumerate(answer):
        if character != "{":
            continue
        try:
            parsed, _ = decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            continue
        scores = parsed.get("scores", scores)
    if scores is None:
        raise ValueError("the judge's answer has no JSON object with 'scores'")
    if not isinstance(scores, list) or len(scores) != count:
        raise ValueError("the judge's answer does not have one score for each caption")
    numbers = (isinstance(score, int | float) and not isinstance(score, bool) for score in scores)
    if not all(numbers) or not all(0 <= score <= highest for score in scores):
        raise ValueError(f"one of the judge's scores is not a number between 0 and {highest:g}")
    return [float(score) for score in scores]


def _groups(items: Items, size: int) -> list[list[int]]:
    """Return the items of each image that are not empty, in pieces of ``size``."""
    _, set_of_item = items.reference_sets
    of_image: dict[Any, list[int]] = {}
    for item, its_set in enumerate(set_of_item.tolist()):
        if items.candidates[item].strip():
            of_image.setdefault((its_set, items.images[item] if items.images else None), []).append(item)
    return [group[start : start + size] for group in of_image.values() for start in range(0, len(group), size)]
