import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.golden import golden_items
from capbench.metrics.gpt4_eval import Gpt4Eval, read_scores


def test_captions_of_one_image_are_compared_in_one_question(answers, tmp_path):
    (tmp_path / "prompt.txt").write_text("References:\n{references}\n{candidates}\nScores?")
    # The captions of two images, one after the other as the rows of a data set may come.
    dogs, two = ("a dog", "one dog"), ("a cat",)
    captions = golden_items(["d1", "c1", "d2", "c2", "d3", "d4"], [dogs, two, dogs, two, dogs, dogs])
    asked = {
        "References:\na dog\n\none dog\nCaption 1: d1\nCaption 2: d2\nCaption 3: d3\nScores?": (
            'Thinking of {dogs}... {"ranking": [1, 3, 2], "scores": [5, 2.5, 0]}'
        ),
        "References:\na dog\n\none dog\nCaption 1: d4\nScores?": '{"scores": [1]}',
        "References:\na cat\nCaption 1: c1\nCaption 2: c2\nScores?": "I prefer the first.",
    }
    judge = answers({"prompt": question, "response": response} for question, response in asked.items())
    scores = Gpt4Eval(prompt=str(tmp_path / "prompt.txt")).score(captions, Context(judge=judge))
    assert scores.values == pytest.approx([1.0, np.nan, 0.5, np.nan, 0.0, 0.2], nan_ok=True)
    assert scores.failures == dict.fromkeys((1, 3), "the judge's answer has no JSON object with 'scores'")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("", "has no JSON object"),
        ('{"scores": [1, 2', "has no JSON object"),
        ('{"scores": [1]}', "one score for each caption"),
        ('{"scores": {"a": 1, "b": 2}}', "one score for each caption"),
        ('{"scores": [1, "2"]}', "is not a number between 0 and 5"),
        ('{"scores": [1, true]}', "is not a number between 0 and 5"),
        ('{"scores": [1, 6]}', "is not a number between 0 and 5"),
        ('{"scores": [-1, 2]}', "is not a number between 0 and 5"),
        ('{"scores": [NaN, 2]}', "is not a number between 0 and 5"),
    ],
)
def test_answer_that_cannot_be_used_is_named(answer: str, fault: str):
    with pytest.raises(ValueError, match=fault):
        read_scores(answer, 2, 5.0)


def test_last_object_with_scores_counts():
    assert read_scores('{"scores": [1, 2]} No: {"scores": [3, 4]}. {"reason": "better"}', 2, 5.0) == [3.0, 4.0]


def test_without_a_prompt_it_says_that_none_was_released():
    with pytest.raises(MetricError, match=r"did not release its prompt.*\n.*gpt4_eval\[prompt=FILE\]"):
        Gpt4Eval().check()
