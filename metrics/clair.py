"""CLAIR: a language model says how likely two sets of captions describe the same image."""

import json
import math
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..adapters import Judgement, JudgeRequest
from .contract import PARSEABLE, Context, Metric
from .items import Items, Scores
from .judging import PROMPTS, ask_until_read, fill, require_tries

PROMPT = PROMPTS["clair"]["rate"]


class Clair(Metric):
    """The likelihood, as a language model puts it, that candidate and references are of one image.

    The answer's first JSON object is read; where it is none, the first number of the answer counts, times
    100 if it is below 1. An answer without any number is requested again, up to ``tries`` times.
    The value is the number / 100.

    Released code gives an answer that cannot be read the value 0, and takes numbers outside of 0 to 100.
    Here both are failures, unless ``on_failure="zero"`` gives them the value 0, too.

    Args:
        max_tokens: Tokens that the answer may have; the released default, of which the demo uses 128.
        tries: Maximum number of requests for an answer.
        on_failure: ``fail``: an item whose answer cannot be used has no value; ``zero``: it has 0.

    Raises:
        ValueError: An argument is out of range.
    """

    longest_caption = PARSEABLE
    label = "CLAIR"
    needs = frozenset({"references", "judge"})
    source = "Chan et al., EMNLP 2023; clair.py of github.com/DavidMChan/clair (429fa8b)"

    def __init__(self, max_tokens: int = 1024, tries: int = 3, on_failure: Literal["fail", "zero"] = "fail") -> None:
        require_tries(max_tokens, tries, on_failure)
        self.max_tokens = max_tokens
        self.tries = tries
        self.on_failure = on_failure

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole.
        """
        values = np.full(len(items), np.nan)

        def request(item: int, attempt: int) -> JudgeRequest:
            candidates, references = _listed(items.candidates[item : item + 1]), _listed(items.references[item])
            prompt = fill(PROMPT, candidates=candidates, references=references)
            return JudgeRequest(prompt, max_tokens=self.max_tokens)

        def read(item: int, answer: Judgement) -> bool:
            score = read_score(answer.text)
            if score is not None:
                values[item] = score / 100
            return score is not None

        failures, waiting = ask_until_read(range(len(items)), request, context, self.tries, read)
        failures |= dict.fromkeys(waiting, f"the judge's answer has no number ({self.tries} tries)")
        if self.on_failure == "zero":
            values[list(failures)] = 0.0
            failures = {}
        return Scores(values, failures=failures)


def read_score(answer: str) -> float | None:
    """Return the number in an answer, 0 to 100; None if it holds none.

    Raises:
        ValueError: The JSON object's score is no number, or a number lies outside of 0 to 100.
    """
    try:
        # Released code reads from the first brace to the next of either kind.
        data = json.loads("{" + answer.split("{")[1].split("}")[0] + "}")
        score = data["score"]
    except (IndexError, KeyError, ValueError):
        numbers = re.findall(r"\d*\.?\d+", answer)
        if not numbers:
            return None
        score = float(numbers[0])
        # Some models answer on a scale of 0 to 1.
        score = score * 100 if score < 1 else score
    try:
        number = float(score)
    except (OverflowError, TypeError, ValueError):
        raise ValueError("the judge's score is not a number") from None
    if not (math.isfinite(number) and 0 <= number <= 100):
        raise ValueError("the judge's score is not between 0 and 100")
    return number


def _listed(captions: Sequence[str]) -> str:
    return "".join(f"- {caption}\n" for caption in captions)
