from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capbench.adapters import Judge
from capbench.errors import AdapterError, MetricError
from capbench.metrics import Context, Items
from capbench.metrics.clair import Clair, read_score

PROMPT = """\
You are trying to tell if a candidate set of captions is describing the same image as a reference set of captions.
Candidate set:
- a {references} dog

Reference set:
- a dog
- one dog

On a precise scale from 0 to 100, how likely is it that the candidate set is describing the same image as the \
reference set? (JSON format, with a key "score", value between 0 and 100, and a key "reason" with a string value.)
"""


class Scripted(Judge):
    """Answers the n-th time that a prompt is asked with the n-th of its answers, the last one from then on."""

    batch_size = 2

    def __init__(self, *answers: str | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "scripted"}

    def complete(self, prompts: Sequence[str]) -> list[str | None]:
        answers = []
        for prompt in prompts:
            answers.append(self.answers[min(self.asked.count(prompt), len(self.answers) - 1)])
            self.asked.append(prompt)
        return answers


class Lossy(Scripted):
    """Loses an answer."""

    def complete(self, prompts: Sequence[str]) -> list[str | None]:
        return super().complete(prompts)[1:]


def items(*candidates: str, references: tuple[str, ...] = ("a dog", "one dog")) -> Items:
    count = len(candidates)
    return Items([f"i{n}" for n in range(count)], candidates, [references] * count, np.ones(count))


def test_prompt_is_the_released_one_and_braces_of_a_caption_stay_as_they_are():
    judge = Scripted('{"score": 85, "reason": "alike"}')
    scores = Clair().score(items("a {references} dog"), Context(judge=judge))
    assert judge.asked == [PROMPT]
    assert scores.values.tolist() == [0.85]


# The values that clair.py of DavidMChan/clair (429fa8b) gives for these answers, times 100.
@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('{"score": 85, "reason": "same"}', 85.0),
        ('Sure! {"score": "85"} I hope this helps.', 85.0),
        ('{"score": 0.9}', 0.9),
        ("0.9", 90.0),
        ("I think 85 of 100", 85.0),
        ('{"reason": "3 dogs"}', 3.0),
        ('{"score": 85, "reason": "a } b"}', 85.0),
        ('{"score": high} 12', 12.0),
        ("I cannot tell.", None),
        ("", None),
    ],
)
def test_answer_is_read_as_released_code_reads_it(answer: str, score: float | None):
    assert read_score(answer) == score


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ('{"score": "high"}', "not a number"),
        ('{"score": null}', "not a number"),
        ('{"score": 150}', "not between 0 and 100"),
        ('{"score": -1}', "not between 0 and 100"),
        ('{"score": NaN}', "not between 0 and 100"),
        ('{"score": 1' + "0" * 400 + "}", "not a number"),
        ("It is 120 degrees.", "not between 0 and 100"),
    ],
)
def test_answer_that_cannot_be_a_score_is_named(answer: str, fault: str):
    with pytest.raises(ValueError, match=fault):
        read_score(answer)


def test_answer_without_a_number_is_asked_for_again_up_to_three_times():
    judge = Scripted("Sorry?", "Well...", "60")
    assert Clair().score(items("a dog"), Context(judge=judge)).values.tolist() == [0.6]
    assert len(judge.asked) == 3
    judge = Scripted("Sorry?")
    scores = Clair().score(items("a dog"), Context(judge=judge))
    assert np.isnan(scores.values).all()
    assert scores.failures == {0: "the judge's answer has no number (3 tries)"}
    assert len(judge.asked) == 3


def test_bad_answers_fail_their_own_caption_or_count_as_zero():
    class ByCaption(Scripted):
        def complete(self, prompts: Sequence[str]) -> list[str | None]:
            return [self.answers[next(n for n in range(4) if f"caption {n}" in prompt)] for prompt in prompts]

    judge = ByCaption("70", '{"score": 150}', None, "prose")
    captions = items(*(f"caption {n}" for n in range(4)))
    scores = Clair().score(captions, Context(judge=judge))
    assert scores.values[0] == 0.7
    assert np.isnan(scores.values[1:]).all()
    assert scores.failures == {
        1: "the judge's score is not between 0 and 100",
        2: "judge: was not given by the model",
        3: "the judge's answer has no number (3 tries)",
    }
    released = Clair(on_failure="zero").score(captions, Context(judge=judge))
    assert released.values.tolist() == [0.7, 0.0, 0.0, 0.0]
    assert released.failures == {}


def test_equal_questions_are_asked_once_and_answers_are_kept_good_or_bad(cache):
    judge = Scripted("prose")
    Clair().score(items("a dog", "a dog"), Context(cache=cache, judge=judge))
    assert len(judge.asked) == 3  # one question, three tries
    again = Clair().score(items("a dog", "a dog"), Context(cache=cache, judge=judge))
    assert len(judge.asked) == 3
    assert again.failures.keys() == {0, 1}


def test_without_a_judge_it_fails_by_that_name():
    with pytest.raises(MetricError, match="needs a model that judges"):
        Clair().score(items("a dog"), Context())


def test_judge_that_loses_answers_is_refused():
    with pytest.raises(AdapterError, match="returned 0 answers for 1 requests"):
        Clair().score(items("a dog"), Context(judge=Lossy("70")))
