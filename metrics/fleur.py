"""FLEUR and RefFLEUR: a model that sees the image rates the caption; the rating is smoothed by probabilities."""

import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..adapters import Judgement, JudgeRequest, JudgeToken
from .contract import Context, images_of
from .items import Items, Scores
from .judging import PROMPTS, PromptedMetric, ask_until_read, fill

_DIGITS = tuple("0123456789")
_MAX_TOKENS = 512


class Fleur(PromptedMetric):
    """The rating that a model gives caption and image, smoothed by the probabilities of its digits.

    The answer is read as one number from 0.0 to 1.0. With ``p_1(d)`` the probability of digit ``d`` in the
    place of the first decimal and ``p_2(d)`` in that of the second, the value is ``sum_d 0.1 d p_1(d)``, plus
    ``sum_d 0.01 d p_2(d)`` where a second decimal was printed. For 1.0 it is ``0.9 p(0) + p(1)`` in the place
    of the 1.

    Released code gives a caption whose answer cannot be read the value of the caption before, and drops one
    whose number is above 1, which shifts all that follow; here both are failures. It also scores every third
    pair of Flickr8k-Expert only, which is the same as there a pair's three ratings follow each other.

    The released prompt has no licence, so it is not shipped: the default asks the same in other words. For
    numbers that compare with the paper's, put the prompt of ``fleur.py`` (or ``reffleur.py``), line 74 (73),
    into a file, with ``{candidate}`` and ``{references}`` where the texts go, and judge with LLaVA-1.5-13B.

    ``Scores.parts``: ``printed [n]``, the number as printed.

    Args:
        prompt: A file with the prompt; our own words unless given.
    """

    label = "FLEUR"
    needs = frozenset({"image", "judge"})
    source = "Lee et al., ACL 2024; fleur.py of github.com/Yebin46/FLEUR (b9cd6c9); prompt in other words"

    _fields: ClassVar[tuple[str, ...]] = ("candidate",)
    _own: ClassVar[str] = PROMPTS["fleur"]["fleur"]

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole, or tells no probabilities.
        """
        prompt = self._prompt()
        values, printed = np.full((2, len(items)), np.nan)
        images, failures = images_of(self, items)
        remarks: dict[int, str] = {}

        def request(item: int, attempt: int) -> JudgeRequest:
            candidate, references = " ".join(items.candidates[item].split()), "\n".join(items.references[item])
            text = fill(prompt, candidate=candidate, references=references)
            return JudgeRequest(text, images[item], _MAX_TOKENS, _DIGITS)

        def read(item: int, answer: Judgement) -> bool:
            remarks.update({item: answer.remark} if answer.remark else {})
            printed[item] = rating = read_rating(answer.text)
            values[item] = smoothed(rating, answer)
            return True

        unread, _ = ask_until_read(images, request, context, 1, read)
        return Scores(values, {"printed": printed}, failures | unread, remarks)


class RefFleur(Fleur):
    """FLEUR with the references in the prompt, a line each; see ``Fleur``."""

    label = "RefFLEUR"
    needs = frozenset({"image", "references", "judge"})
    source = "Lee et al., ACL 2024; reffleur.py of github.com/Yebin46/FLEUR (b9cd6c9); prompt in other words"

    _fields: ClassVar[tuple[str, ...]] = ("references", "candidate")
    _own: ClassVar[str] = PROMPTS["fleur"]["reffleur"]


def read_rating(answer: str) -> float:
    """Return the number in an answer: what is left of it without all but digits and dots.

    Raises:
        ValueError: It is not one number, or lies outside of 0 to 1.
    """
    numbers = re.sub(r"[^0-9.]", "", answer).strip(".")
    if not numbers:
        raise ValueError("the judge's answer has no number")
    try:
        rating = float(numbers)
    except ValueError:
        raise ValueError("the judge's answer is not one number") from None
    if rating > 1:
        raise ValueError("the judge's rating is not between 0 and 1")
    return rating


def smoothed(rating: float, answer: Judgement) -> float:
    """Return a rating smoothed by the probabilities of its digits.

    Args:
        rating: The number as printed, 0 to 1.
        answer: The answer, with its tokens.

    Raises:
        ValueError: The places of the digits cannot be found among the tokens, or their probabilities are missing.
    """
    if not answer.tokens:
        raise ValueError("the judge gives no token probabilities")
    decimals = f"{rating!r}".partition(".")[2]
    if not decimals.isdecimal():
        raise ValueError("the judge's rating has too many decimals")
    if rating == 1.0:
        probabilities = _place("1", 0, answer.tokens)
        return 0.9 * probabilities.get("0", 0.0) + probabilities.get("1", 0.0)
    # The first 0 of an answer stands before the point; other digits are looked for from the start.
    first = _place(decimals[0], 1 if decimals[0] == "0" else 0, answer.tokens)
    value = 0.1 * _expected(first)
    if len(decimals) > 1:
        value += 0.01 * _expected(_place(decimals[1], 1, answer.tokens))
    return value


def _place(digit: str, later: int, tokens: Sequence[JudgeToken]) -> dict[str, float]:
    """Return the probabilities in the place of a digit: of several the first (0) or the second (1)."""
    places = [dict(token.probabilities) for token in tokens if token.text == digit]
    if not places:
        raise ValueError("the judge's tokens are not single digits")
    place = places[min(later, len(places) - 1)]
    if not place:
        raise ValueError("the judge gives no token probabilities")
    return place


def _expected(probabilities: dict[str, float]) -> float:
    return sum(int(digit) * probabilities.get(digit, 0.0) for digit in _DIGITS)
