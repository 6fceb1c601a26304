import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from capbench.metrics.words.ptb import tokenize_items, tokenize_text

pytestmark = pytest.mark.usefixtures("java_on_path")


def in_file_order(captions: list[str]) -> list[str]:
    """What pycocoevalcap makes of captions, one after the other."""
    entries = {number: [{"caption": caption}] for number, caption in enumerate(captions)}
    return [tokens[0] for tokens in PTBTokenizer().tokenize(entries).values()]


def test_tokens_are_those_of_pycocoevalcap(composed):
    captions = [*composed.candidates, "The end."]  # its last caption is a case of its own, see below
    assert [tokenize_text(caption) for caption in captions] == in_file_order(captions)


def test_caption_at_the_end_is_tokenised_as_anywhere_else():
    assert in_file_order(["We'll", "We'll"]) == ["we 'll", "we ll"]
    assert tokenize_text("We'll") == "we 'll"


@pytest.mark.parametrize(("caption", "neighbour"), [("He is no.", "23 runs."), ("See p.", "A dog.")])
def test_tokens_are_those_of_a_caption_whose_neighbour_is_an_ordinary_one(caption: str, neighbour: str):
    ordinary = in_file_order([caption, "a dog."])[0]
    assert in_file_order([caption, neighbour])[0] != ordinary
    assert tokenize_text(caption) == ordinary


def test_items_are_tokenised_once_for_all_metrics(make_items):
    items = make_items(["A dog.", "...", "A bird."], [["A cat.", "!"], ["A man."], []])
    tokenized = tokenize_items(items)
    assert tokenized.candidates == ["a dog", "", "a bird"]
    assert tokenized.reference_sets == [("a cat", ""), ("a man",), ()]
    assert tokenized.failures == {2: "item has no reference"}
    assert tokenize_items(items) is tokenized


@pytest.mark.data
def test_tokens_of_all_flickr8k_captions_are_those_of_pycocoevalcap(flickr8k_captions: list[str]):
    assert [tokenize_text(caption) for caption in flickr8k_captions] == in_file_order(flickr8k_captions)
