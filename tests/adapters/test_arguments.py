"""Arguments on a command line: key=value, quotes, lists, JSON."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capbench.adapters.arguments import parse_arguments
from capbench.errors import UsageError

ARGUMENTS = yaml.safe_load(Path(__file__).with_name("arguments.yaml").read_text(encoding="utf-8"))
SENTENCE = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
    "detailed, and polite answers to the questions of the user."
)


@pytest.mark.parametrize(("text", "expected"), [*ARGUMENTS, ("a=" + "9" * 5000, {"a": "9" * 5000})])
def test_arguments_are_numbers_truth_values_null_or_text(text: str, expected):
    arguments = parse_arguments(text, "--model_args")
    assert arguments == expected
    assert [type(value) for value in arguments.values()] == [type(value) for value in expected.values()]
    json.dumps(arguments)


@pytest.mark.parametrize("text", ["pretrained", "a=1,b", "b,a=1", "=5", " =5"])
def test_argument_without_key_or_value_is_an_error_that_shows_it(text: str):
    with pytest.raises(UsageError, match=f"--model_args {text}: expected key=value, found '"):
        parse_arguments(text, "--model_args")


def test_sentence_with_commas_outside_of_quotes_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match="found 'detailed'") as caught:
        parse_arguments(f"system={SENTENCE}", "--model_args")
    assert 'stands in quotes: key="one, two"' in caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a=1,a=2", "'a' is given twice"),
        ('{"a": 1, "a": 2}', "not JSON: key 'a' is given twice"),
        ('{"a": 1', "not JSON"),
        ("{a: 1}", "not JSON"),
        ('{"a": NaN}', "not JSON: NaN is not a JSON value"),
    ],
)
def test_what_is_given_twice_or_is_broken_json_is_refused(text: str, reason: str):
    with pytest.raises(UsageError, match=reason):
        parse_arguments(text, "--gen_kwargs")


KEYS = st.sampled_from(["a", "top_p", "until"])
TEXTS = st.text(alphabet="ab=,'\"[]{}: \\1_-é", max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(KEYS, LEAVES, max_size=3)


@settings(max_examples=20)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_values_written_as_json_come_back(arguments):
    assert parse_arguments(json.dumps(arguments), "x") == arguments
    text = ",".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
    assert parse_arguments(text, "x") == arguments


@settings(max_examples=300)
@given(st.text(alphabet="ab=,'\"[]{}: \\\\1_-", max_size=30))
def test_whatever_is_given_is_read_or_refused(text: str):
    try:
        arguments = parse_arguments(text, "x")
    except UsageError:
        return
    json.dumps(arguments)
