import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from capbench.adapters import ImageHandle, Judged, Judgement, JudgeRequest, JudgeToken
from capbench.adapters.judges.responses import RecordedResponses
from capbench.errors import AdapterError, DataError


def recorded(folder: Path, *rows: Any) -> RecordedResponses:
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return RecordedResponses(folder / "answers.jsonl")


def ask(judge: RecordedResponses, *requests: JudgeRequest) -> Judged:
    [judged] = judge.stream(requests)
    return judged


def test_responses_are_found_by_prompt_or_its_hash(tmp_path: Path):
    sha256 = hashlib.sha256("Zwölf?".encode()).hexdigest().upper()
    judge = recorded(tmp_path, {"prompt": "One?", "response": "1"}, {"sha256": sha256, "response": "12"})
    judged = ask(judge, JudgeRequest("Zwölf?"), JudgeRequest("Two?"), JudgeRequest("One?"))
    assert judged.judgements == {0: Judgement("12"), 2: Judgement("1")}
    assert judged.failures == {1: "is not among the recorded responses"}


def test_system_prompt_of_a_request_stands_before_its_prompt(tmp_path: Path):
    judge = recorded(tmp_path, {"prompt": "Be brief.\n\nOne?", "response": "1"})
    judged = ask(judge, JudgeRequest("One?", system="Be brief.", decoding={"seed": 3}), JudgeRequest("One?"))
    assert judged.judgements == {0: Judgement("1")}


def test_response_drawn_by_one_seed_goes_before_that_of_any(tmp_path: Path):
    image = ImageHandle(b"pixels")
    judge = recorded(
        tmp_path,
        {"prompt": "Rate.", "response": "any"},
        {"prompt": "Rate.", "response": "by 1", "seed": 1},
        {"prompt": "Rate.", "response": "this by 0", "seed": 0, "image": image.digest()},
        {"prompt": "Rate.", "response": "this", "image": image.digest()},
    )
    requests = [
        JudgeRequest("Rate.", of, decoding=decoding)
        for of in (None, image, ImageHandle(b"others"))
        for decoding in ({"seed": 0}, {"seed": 1}, {})
    ]
    answers = [judgement.text for judgement in ask(judge, *requests).judgements.values()]
    assert answers == ["any", "by 1", "any", "this by 0", "this", "this", "any", "by 1", "any"]


def test_tokens_come_with_their_probabilities(tmp_path: Path):
    judge = recorded(tmp_path, {"prompt": "Rate.", "response": "8", "tokens": [["8", {"8": 0.9, "7": 0.1}]]})
    judged = ask(judge, JudgeRequest("Rate.", candidates=("7", "8")))
    assert judged.judgements[0].tokens == (JudgeToken("8", {"8": 0.9, "7": 0.1}),)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "One?"},
        {"response": "1"},
        {"prompt": "One?", "response": 1},
        {"prompt": 1, "response": "1"},
        {"prompt": "One?", "response": "1", "tokens": ["1"]},
        {"prompt": "One?", "response": "1", "tokens": [["1", {"1": "much"}]]},
        {"prompt": "One?", "response": "1", "tokens": [["1", {"1": True}]]},
        {"prompt": "One?", "response": "1", "tokens": [["1", {"1": "inf"}]]},
        ["One?", "1"],
    ],
)
def test_row_that_cannot_be_read_is_named(tmp_path: Path, row: Any):
    with pytest.raises(AdapterError, match=r"answers\.jsonl: (row 2 cannot be read|answers\.jsonl:2)"):
        recorded(tmp_path, {"prompt": "Two?", "response": "2"}, row)


def test_second_response_to_one_prompt_is_refused_unless_it_is_the_same(tmp_path: Path):
    same = {"prompt": "One?", "response": "1"}
    recorded(tmp_path, same, same)
    with pytest.raises(AdapterError, match="row 2: a second response to the same prompt"):
        recorded(tmp_path, same, {"prompt": "One?", "response": "one"})


def test_fingerprint_is_that_of_the_files_bytes(tmp_path: Path):
    first = recorded(tmp_path, {"prompt": "One?", "response": "1"}).fingerprint()
    second = recorded(tmp_path, {"prompt": "One?", "response": "one"}).fingerprint()
    assert first != second


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="there is no such file"):
        RecordedResponses(tmp_path / "none.jsonl")
