"""What raters are asked, as a command line or a file says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from capbench.benchmarks.rate.questions import Questionnaire, questions_of, read_questions
from capbench.errors import UsageError


def test_scales_of_a_command_line_have_ends_and_words() -> None:
    asked = questions_of(["precision=1-5: nothing | all", "recall = 0-2:no|some|whole", "style=1-3"], "")
    assert list(asked.aspects) == ["precision", "recall", "style"]
    assert asked.aspects["precision"].words == {1: "nothing", 5: "all"}
    assert list(asked.aspects["precision"].numbers) == [1, 2, 3, 4, 5]
    assert asked.aspects["recall"].words == {0: "no", 1: "some", 2: "whole"}
    assert asked.aspects["style"].words == {}
    assert Questionnaire.model_validate_json(asked.model_dump_json(), strict=True) == asked


@pytest.mark.parametrize(
    ("aspects", "better", "said"),
    [
        (["precision"], "", "expected NAME=LOW-HIGH"),
        (["p=1-5: a | b | c"], "", "has 3 words, between |, for 5 numbers"),
        (["p=1-10"], "", "from 0 to 9, the lower one first"),
        (["p=5-1"], "", "from 0 to 9, the lower one first"),
        (["p=1-1"], "", "from 0 to 9, the lower one first"),
        (["p q=1-5"], "", "letters of ASCII, digits and _"),
        (["p=1-5", "p=1-5"], "", "given twice"),
        (["p=1-5"], "Which?", "one of the two"),
        ([], "", "one of the two"),
    ],
)
def test_what_is_no_question_is_refused(aspects: list[str], better: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("|", r"\|")):
        questions_of(aspects, better)


def test_a_file_of_questions_is_read_and_its_faults_have_a_line(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(
        "instructions: Look closely.\naspects:\n  recall:\n    question: Is all told?\n    ends: [1, 3]\n"
        "    words: {1: nothing, 2: half, 3: all}\n"
    )
    asked = read_questions(file)
    assert asked.instructions == "Look closely."
    assert asked.aspects["recall"].question == "Is all told?"
    assert asked.aspects["recall"].words[2] == "half"
    file.write_text("aspects:\n  recall: {ends: [1, 3], words: {4: all}}\n")
    with pytest.raises(UsageError, match=r"q\.yaml:2: .*from 1 to 3, not of 4"):
        read_questions(file)
    file.write_text("better: Which?\nquestion: no\n")
    with pytest.raises(UsageError, match=r"q\.yaml:2: unknown key 'question'"):
        read_questions(file)
