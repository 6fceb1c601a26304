from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from capbench.errors import MetricError
from capbench.metrics import Context, Items, NoCache
from capbench.metrics.ptb import tokenize, tokenize_items


def in_file_order(captions: list[str]) -> list[str]:
    """What pycocoevalcap makes of captions, one after the other."""
    entries = {number: [{"caption": caption}] for number, caption in enumerate(captions)}
    return [tokens[0] for tokens in PTBTokenizer().tokenize(entries).values()]


def test_tokens_are_lower_case_without_punctuation_and_brackets_stay():
    caption = "A man's dog (black) can't say: \"Hello, World!\" -- ever..."
    assert tokenize([caption], NoCache()) == ["a man 's dog -lrb- black -rrb- ca n't say hello world ever"]


def test_tokens_are_those_of_pycocoevalcap(composed: Items):
    captions = [*composed.candidates, "The end."]  # its last caption is a case of its own, see below
    assert tokenize(captions, NoCache()) == in_file_order(captions)


def test_caption_at_the_end_is_tokenised_as_anywhere_else():
    assert in_file_order(["We'll", "We'll"]) == ["we 'll", "we ll"]
    assert tokenize(["We'll"], NoCache()) == tokenize(["We'll", "Then what?"], NoCache())[:1] == ["we 'll"]


@pytest.mark.parametrize(("caption", "neighbour"), [("He is no.", "23 runs."), ("See p.", "<b>bold</b>")])
def test_next_caption_does_not_change_this_one(caption: str, neighbour: str):
    assert in_file_order([caption, neighbour])[0] != in_file_order([caption, "A dog."])[0]
    alone = tokenize([caption], NoCache())
    assert tokenize([caption, neighbour], NoCache())[:1] == alone
    assert tokenize([caption, "A dog."], NoCache())[:1] == alone


def test_strange_captions_in_any_order_give_the_same_tokens():
    rng = random.Random(7)  # noqa: S311
    words = "no. fig. p. 5 We'll 'll 's < br > <!-- --> & http:// a@ -- ... 1/2 ( `` '' U.S. ||| *NL*"
    marks = [
        "endofcaption",
        "\u2028",
        "\r",
        "\x0b",
        "\x0c",
        "\x85",
        "\x00",
        "\u00a0",
        "中",
        "😀",
        "\ud83d",
        "\uffff",
    ]
    pieces = [*words.split(" "), *marks]
    captions = ["".join(rng.choice(pieces) + rng.choice(["", " "]) for _ in range(6)) for _ in range(4_000)]
    captions += ["".join(chr(rng.randrange(0x3000)) for _ in range(8)) for _ in range(2_000)]
    tokens = dict(zip(captions, tokenize(captions, NoCache()), strict=True))
    rng.shuffle(captions)
    assert tokenize(captions, NoCache()) == [tokens[caption] for caption in captions]


@pytest.mark.parametrize("mark", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u2029"])
def test_line_break_inside_a_caption_is_a_space(mark: str):
    assert tokenize([f"a dog{mark}runs", "a cat"], NoCache()) == ["a dog runs", "a cat"]


def test_caption_without_words_has_no_tokens():
    assert tokenize(["", "? ...", "  ", "a"], NoCache()) == ["", "", "", "a"]


def test_repeated_captions_are_answered_in_place():
    assert tokenize(["A dog.", "A cat.", "A dog."], NoCache()) == ["a dog", "a cat", "a dog"]


def test_caption_of_20000_characters_works():
    caption = "The dog runs. " * 1_500
    assert tokenize([caption], NoCache()) == [" ".join(["the dog runs"] * 1_500)]


def test_each_batch_is_kept_when_it_is_finished_and_kept_ones_need_no_java(
    cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    captions = [f"Dog {number}." for number in range(5)]
    tokens = tokenize(captions, cache, batch_size=2)
    assert cache.batches == [2, 2, 1]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where no Java is
    assert tokenize(captions[::-1], cache) == tokens[::-1]
    with pytest.raises(MetricError, match="JAVA_HOME"):
        tokenize(["A new one."], cache)


def test_jar_that_hangs_is_an_error(stand_in_java: Callable[[str], Path]):
    stand_in_java("import time; time.sleep(600)")
    with pytest.raises(MetricError, match="PTB tokeniser did not finish"):
        tokenize(["a"], NoCache(), timeout=0.3)


def test_output_that_lost_step_is_an_error_and_not_shifted(stand_in_java: Callable[[str], Path]):
    stand_in_java("import sys; print(sys.stdin.read().replace('dog', '\\n'), end='')")
    with pytest.raises(MetricError, match="lost step with the captions, near 'a dog'"):
        tokenize(["a cat", "a dog", "a man"], NoCache())


def test_items_are_tokenised_once_for_all_metrics(
    make_items: Callable[..., Items], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    items = make_items(["A dog.", "..."], [["A cat.", "!"], ["A man."]])
    tokenized = tokenize_items(items, Context())
    assert tokenized.candidates == ["a dog", ""]
    assert tokenized.reference_sets == [("a cat", ""), ("a man",)]
    assert tokenized.failures == {1: "candidate has no token after PTB tokenisation"}
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where no Java is
    assert tokenize_items(items, Context()) is tokenized


@pytest.mark.data
def test_tokens_of_all_flickr8k_captions_are_those_of_pycocoevalcap(flickr8k_captions: list[str]):
    assert tokenize(flickr8k_captions, NoCache()) == in_file_order(flickr8k_captions)
