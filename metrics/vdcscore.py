"""VDCscore: a judge answers questions about a video from its caption, and compares the answers with the right ones."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from .contract import Context, labelled, require_choice
from .items import Items, Scores
from .judging import PROMPTS, DrawingMetric, JudgeQuestion, fill, read_object

ANSWER_SYSTEM, ANSWER = PROMPTS["vdcscore"]["answer_system"], PROMPTS["vdcscore"]["answer"]
COMPARE_SYSTEM, COMPARE = PROMPTS["vdcscore"]["compare_system"], PROMPTS["vdcscore"]["compare"]

HIGHEST = 5.0
"""The best score of the released scale."""
_PARTS: tuple[str, ...] = ("score", "accuracy", "questions")


@dataclass(eq=False, repr=False)
class _Vdc(DrawingMetric):
    """The computation that both metrics share through the cache.

    The references are questions about the video, each with its answer on the next line. A judge answers each from the
    caption alone; then it says whether that answer matches the right one, and how well. A caption has the means over
    its questions.

    Released code sets no temperature, so that the server's default counts (1 of SGLang); here each answer is drawn with
    a seed and stored. A verdict that cannot be used is requested again, up to ``tries`` times; then the caption has no
    value, and the reason is counted. An empty caption is asked about as any other.

    ``Scores.parts``: ``score [n]``, 0 to 5; ``accuracy [n]``, 0 to 1; ``questions [n]``, how many there are.

    Args:
        zeros: A caption whose score or accuracy is 0 counts (``count``, as in lmms-eval), or has no value
            (``leave_out``, as in AuroraCap's ``process_vdc_result.py``, which raises the mean).
        tries: Maximum number of requests for a verdict.
        temperature: That of answers and verdicts.
        seed: The first seed of them.
        max_tokens: Tokens that each may have.

    Raises:
        ValueError: A setting is out of range.
    """

    needs = frozenset({"references", "judge"})
    source = (
        "Chai et al., ICLR 2025 (AuroraCap, arXiv:2410.03051); post_eval/process_vdc_result.py of "
        "github.com/rese1f/aurora (2bf68d5)"
    )
    _of: ClassVar[str]

    zeros: Literal["count", "leave_out"] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("zeros", self.zeros, ("count", "leave_out"))
        self.label = labelled(self, ["0 left out"] * (self.zeros == "leave_out"))

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole.
        """
        failures: dict[int, str] = {}
        asked: list[tuple[int, str, str]] = []
        for item, references in enumerate(items.references):
            pairs = [reference.partition("\n") for reference in references]
            if pairs and all(right for *_, right in pairs):
                asked += [(item, question, right) for question, _, right in pairs]
            else:
                failures[item] = "its references are not questions, each with its answer on the next line"
        prompts = (fill(ANSWER, caption=items.candidates[item], question=question) for item, question, _ in asked)
        questions = [JudgeQuestion(text, str.strip, self.temperature, system=ANSWER_SYSTEM) for text in prompts]
        compared: list[tuple[int, JudgeQuestion]] = []
        for (item, question, right), answer in zip(asked, self._ask(questions, context), strict=True):
            if isinstance(answer, str):
                failures[item] = f"answers: {answer}"
            else:
                text = fill(COMPARE, question=question, answer=right, predicted=answer[0])
                compared.append((item, JudgeQuestion(text, read_verdict, self.temperature, system=COMPARE_SYSTEM)))
        verdicts: dict[int, list[tuple[float, float]]] = {}
        read = self._ask([question for _, question in compared], context)
        for (item, _), verdict in zip(compared, read, strict=True):
            if isinstance(verdict, str):
                failures.setdefault(item, f"verdicts: {verdict}")
            else:
                verdicts.setdefault(item, []).append(verdict[0])
        parts = np.full((len(items), len(_PARTS)), np.nan)
        for item, of_item in verdicts.items():
            score, accuracy = np.mean(of_item, axis=0).tolist()
            if self.zeros == "leave_out" and not (score and accuracy):
                failures.setdefault(item, "its score or its accuracy is 0, which 'zeros' leaves out")
            if item not in failures:
                parts[item] = score, accuracy, len(of_item)
        named = dict(zip(_PARTS, parts.T.copy(), strict=True))
        return Scores(named[self._of], named, failures)


class VdcScore(_Vdc):
    """How well answers from a caption alone match the right ones, 0 to 5 (VDCscore).

    The questions are those of VDC about the video: a caption that lacks what they ask for, or has it wrong, cannot
    answer them. See ``VdcAccuracy`` for the share of right answers.
    """

    label = "VDCscore"
    range = (0.0, HIGHEST)
    _of = "score"


class VdcAccuracy(_Vdc):
    """The share of VDC's questions that a judge answers rightly from the caption alone; see ``VdcScore``."""

    label = "VDC accuracy"
    _of = "accuracy"


def read_verdict(answer: str) -> tuple[float, float]:
    """Return the score of a verdict, 0 to 5, and 1 for a right answer or 0 for a wrong one.

    Raises:
        ValueError: It has none.
    """
    verdict = read_object(answer)
    score, said = verdict.get("score"), str(verdict.get("pred")).strip().lower()
    if said not in ("yes", "no"):
        raise ValueError("the judge's verdict has no 'pred' of yes or no")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= HIGHEST:
        raise ValueError("the judge's verdict has no 'score' between 0 and 5")
    return float(score), float(said == "yes")
