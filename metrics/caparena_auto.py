"""CapArena-Auto: a model that sees the image judges whether a caption is better than that of a baseline."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..adapters import Judgement, JudgeRequest
from .contract import Context, images_of
from .items import Items, Scores
from .judging import PROMPTS, PromptedMetric, ask_until_read, fill, require_tries

_VERDICTS = {"caption 1 is better": 1, "caption 2 is better": -1, "tie": 0}


@dataclass(eq=False, repr=False)
class CapArenaAuto(PromptedMetric):
    """Whether a judge prefers a caption to that of a baseline: 1, 0 for a tie, -1.

    The mean over images, times 100, is (wins - losses) / 2 of 200 images, which CapArena-Auto prints for each of its
    three baselines. The first reference of an item is the baseline's caption, the second a person's, which the judge
    sees as well. A caption that is the baseline's own ties without being asked about. Which of the two stands first
    depends on ``seed`` and the two texts alone; released code tosses a coin without a seed.

    An answer without a line ``Judgment:`` of one of the three verdicts is requested again, up to ``tries`` times.
    Released code then counts 0, as a tie: ``on_failure="zero"``, remarked on by name.

    The released prompt has no licence, so it is not shipped: the default asks for the same in other words. For numbers
    that compare with the paper's, put the prompt of ``vlm_as_a_judge.py`` into a file, with ``{first}``, ``{second}``
    and ``{reference}`` where the texts go, and judge with GPT-4o (2024-08-06).

    Args:
        prompt: A file with the prompt; our own words unless given.
        seed: Decides, with the texts, which caption stands first.
        max_tokens: Tokens that the answer may have.
        tries: Maximum number of requests for an answer.
        on_failure: ``fail``: an item without a verdict has no value; ``zero``: it has 0.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "CapArena-Auto"
    needs = frozenset({"image", "references", "judge"})
    range = (-1.0, 1.0)
    _own = PROMPTS["caparena_auto"]["compare"]
    _fields = ("first", "second", "reference")
    source = "Cheng et al. 2025; vlm_as_a_judge.py of github.com/njucckevin/CapArena (c251cdd); prompt in other words"

    seed: int = 0
    max_tokens: int = 1500
    tries: int = 5
    on_failure: Literal["fail", "zero"] = "fail"

    def __post_init__(self) -> None:
        require_tries(self.max_tokens, self.tries, self.on_failure)

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge.
            AdapterError: The judge failed as a whole.
        """
        prompt = self._prompt()
        values = np.full(len(items), np.nan)
        images, failures = images_of(self, items)
        remarks: dict[int, str] = {}
        signs: dict[int, int] = {}
        requests: dict[int, JudgeRequest] = {}
        for item, image in images.items():
            candidate, references = items.candidates[item], items.references[item]
            if len(references) < 2:
                failures[item] = "needs two references: the baseline's caption, then a person's"
            elif candidate == references[0]:
                values[item] = 0.0
            else:
                # 1 where the candidate stands first, -1 where its rival does.
                texts = json.dumps([self.seed, candidate, references[0]]).encode()
                signs[item] = 1 if hashlib.sha256(texts).digest()[0] % 2 == 0 else -1
                first, second = (candidate, references[0])[:: signs[item]]
                text = fill(prompt, first=first, second=second, reference=references[1])
                requests[item] = JudgeRequest(text, image, self.max_tokens)

        def read(item: int, answer: Judgement) -> bool:
            verdict = read_verdict(answer.text)
            if verdict is not None:
                values[item] = verdict * signs[item]
                remarks.update({item: answer.remark} if answer.remark else {})
            return verdict is not None

        unanswered, waiting = ask_until_read(requests, lambda item, attempt: requests[item], context, self.tries, read)
        none = f"the judge gave no verdict ({self.tries} tries)"
        if self.on_failure == "zero":
            values[waiting] = 0.0
            remarks |= dict.fromkeys(waiting, f"{none}, and counts 0")
        else:
            unanswered |= dict.fromkeys(waiting, none)
        return Scores(values, failures=failures | unanswered, remarks=remarks)


def read_verdict(answer: str) -> int | None:
    """Return 1 where the answer is for caption 1, -1 for caption 2, 0 for a tie; None if it holds no verdict."""
    lines = re.findall(r"^\W*Judge?ment\W*:\W*(.+)$", answer, re.MULTILINE | re.IGNORECASE)
    return _VERDICTS.get(lines[-1].strip(" \t\r.*<>").lower()) if lines else None
