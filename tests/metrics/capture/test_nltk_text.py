"""Sentences and nouns by NLTK's models."""

from pathlib import Path

import pytest

from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.capture import nltk_text


def test_line_break_alone_ends_no_sentence(nltk_data: str):
    text = nltk_text.read(["The sky is blue\nA red car stands. Two dogs run."], Context())
    (reading,) = text.values()
    assert reading.sentences == ("The sky is blue\nA red car stands.", "Two dogs run.")


def test_nouns_are_as_written(nltk_data: str):
    (reading,) = nltk_text.read(["Buildings stand near the building."], Context()).values()
    assert reading.nouns == ("Buildings", "building")


def test_second_run_reads_the_cache(nltk_data: str, cache, monkeypatch: pytest.MonkeyPatch):
    first = nltk_text.read(["The sky is blue."], Context(cache=cache))
    monkeypatch.setattr(nltk_text, "_tag", lambda captions: pytest.fail("tagged again"))
    assert nltk_text.read(["The sky is blue."], Context(cache=cache)) == first


@pytest.mark.parametrize("missing", ["punkt_tab", "averaged_perceptron_tagger_eng"])
def test_missing_model_is_told_with_the_command_that_gets_it(nltk_data, tmp_path, monkeypatch, missing):
    from nltk import data

    monkeypatch.setattr(data, "path", [str(tmp_path)])
    other = {
        "punkt_tab": "taggers/averaged_perceptron_tagger_eng",
        "averaged_perceptron_tagger_eng": "tokenizers/punkt_tab",
    }[missing]
    (tmp_path / other).parent.mkdir()
    (tmp_path / other).symlink_to(Path(nltk_data) / other)
    with pytest.raises(MetricError, match=missing) as raised:
        nltk_text.check()
    assert "bench fetch capture" in raised.value.hint
