import json
import random
import zipfile
from collections.abc import Sequence

import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PUNCTUATIONS

from capbench.metrics.golden import read_golden
from capbench.metrics.java import find_jar, run_java
from capbench.metrics.words.ptb import PUNCTUATION, Automaton, tokenize_text

pytestmark = pytest.mark.costly

HARD_STRINGS = read_golden("ptb_hard_strings")["cases"]

JAR = "tokenizer/stanford-corenlp-3.4.1.jar"
OPTIONS = ("-preserveLines", "-lowerCase", "-encoding", "UTF-8")

# After each caption, what ends any tag that it leaves open; else the jar reads on into the next.
WALL = "endofcaption\n' \" < endofcaption"
TOKENS_OF_WALL = ["endofcaption", "' '' < endofcaption"]


def tokens_of_jar(captions: Sequence[str]) -> list[str]:
    lines = [as_line(caption) for caption in captions]
    output = run_java(
        ["-cp", str(find_jar(JAR)), "edu.stanford.nlp.process.PTBTokenizer", *OPTIONS],
        "".join(f"{line}\n{WALL}\n" for line in lines),
        600,
        "the PTB tokeniser",
    ).split("\n")
    assert output[1::3] + output[2::3] == [line for line in TOKENS_OF_WALL for _ in lines]
    return [" ".join(token for token in line.rstrip().split(" ") if token not in PUNCTUATION) for line in output[:-1:3]]


def as_line(caption: str) -> str:
    for line_break in "\n\x0b\x0c\r\u2028\u2029":
        caption = caption.replace(line_break, " ")
    return caption.encode("utf-8", "replace").decode()


def assert_equal_to_jar(captions: Sequence[str]) -> None:
    """Compare all, and show few: pytest's own comparison of long lists takes minutes."""
    captions = list(dict.fromkeys(captions))
    expected = tokens_of_jar(captions)
    different = [
        (caption, tokens, wanted)
        for caption, wanted in zip(captions, expected, strict=True)
        if (tokens := tokenize_text(caption)) != wanted
    ]
    assert not different, f"{len(different)} of {len(captions)} differ; first {different[:5]}"


def test_longest_match_wins_and_of_equally_long_ones_the_first_rule():
    automaton = Automaton(["can/not", "[a-z]+", "cannot", "no{dot}/ {2}5", "no"], {"dot": r"\."}, {})
    assert automaton.longest("cannot", 0) == (0, 3, True)
    assert automaton.longest("cannots", 0) == (1, 7, True)
    assert automaton.longest("CANNOT", 0) == (0, 3, False)
    assert automaton.longest("a no.  5", 2) == (3, 5, False)
    assert automaton.longest("a no.  6", 2) == (1, 4, False)
    assert automaton.longest("No.", 0) == (4, 2, True)
    assert automaton.longest("?", 0) == (None, 0, False)


@pytest.mark.parametrize("pattern", ["a)", "(a|b)*/(c|dd)"])
def test_pattern_that_cannot_be_a_rule_is_an_error(pattern: str):
    with pytest.raises(ValueError, match="in the pattern"):
        Automaton([pattern], {}, {})


def test_punctuation_is_the_list_of_pycocoevalcap():
    assert set(PUNCTUATIONS) == PUNCTUATION


def test_hard_strings_have_the_tokens_of_the_jar_the_first_and_the_second_time():
    for _ in range(2):
        assert not [case for case in HARD_STRINGS if tokenize_text(case[0]) != case[1]]


def test_golden_tokens_of_hard_strings_are_what_the_jar_says():
    texts = [text for text, _ in HARD_STRINGS]
    assert dict(zip(texts, tokens_of_jar(texts), strict=True)) == dict(HARD_STRINGS)


def test_tokens_of_coco_captions_with_every_word_of_theirs_are_those_of_the_jar():
    with zipfile.ZipFile(find_jar("spice/spice-1.0.jar")) as jar:
        annotations = json.loads(jar.read("coco/annotations/captions_val2014.json"))["annotations"]
    seen: set[str] = set()
    telling = []
    for caption in (annotation["caption"] for annotation in annotations):
        if not seen.issuperset(words := caption.split(" ")):
            telling.append(caption)
            seen.update(words)
    assert len(telling) > 10_000
    assert_equal_to_jar(telling)


def test_tokens_of_random_strings_are_those_of_the_jar():
    rng = random.Random(20140827)  # noqa: S311
    pieces = sorted({word for text, _ in HARD_STRINGS for word in text.split(" ") if len(word) < 40})
    characters = sorted({character for piece in pieces for character in piece})
    gaps = ["", "", " ", " ", "  "]

    def from_pieces() -> str:
        return "".join(rng.choice(pieces) + rng.choice(gaps) for _ in range(rng.randint(1, 8)))

    def from_characters() -> str:
        ascii_only = [character for character in characters if character.isascii()]
        return "".join(rng.choice(ascii_only if rng.random() < 0.8 else characters) for _ in range(rng.randint(1, 20)))

    def changed() -> str:
        text = from_pieces()
        place = rng.randrange(len(text) + 1)
        return text[:place] + rng.choice(["", *characters]) + text[place + rng.randint(0, 1) :]

    captions = [make() for make in (from_pieces, from_characters, changed) for _ in range(2_000)]
    # Which sigma is word-final is a known difference.
    assert_equal_to_jar([caption for caption in captions if "Σ" not in caption])


def test_words_looked_up_have_the_tokens_of_words_read_in_their_caption():
    rng = random.Random(4)  # noqa: S311
    words = ["2", "1/2", ".", "..", "no.", "No.", "U.S.", "The", "p.", "5", "<b", "c>", ">", "Mr", "X", "'"]
    words += ["'s", "'a", "http://a.b\u00a0", "\u00a0", "\u00a0foo.com", "\tx", "", "a", "a.", "A", "555", "1234"]
    captions = [" ".join(rng.choices(words, k=rng.randint(1, 7))) for _ in range(5_000)]
    first = [tokenize_text(caption) for caption in captions]
    assert first == tokens_of_jar(captions)
    assert [tokenize_text(caption) for caption in reversed(captions)] == first[::-1]


@pytest.mark.parametrize(
    "end", ["p.", "U.S.", "no.", "dog.", "we'll", "", "<b", "http://a.b", "\u00a0", "1/2", "?", "cannot"]
)
def test_caption_that_a_blank_ends_is_read_word_by_word_as_it_is_whole(end: str):
    for text in (f"A dog, see {end} ", f"{end} ", f"A dog, see {end}  ", f"A dog, see {end}"):
        # A character that is two units of UTF-16 is no token, and has its caption read whole.
        assert tokenize_text(text) == tokenize_text(f"😀 {text}")


@pytest.mark.parametrize("mark", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u2029"])
def test_line_break_inside_a_caption_is_a_space(mark: str):
    assert tokenize_text(f"a dog{mark}runs U.S.{mark}The end.{mark}") == "a dog runs u.s. the end"


def test_half_a_character_is_read_as_a_question_mark():
    assert tokenize_text("a dog\ud83d runs http://x.y/\ud83d/z") == "a dog runs http://x.y/?/z"


def test_tag_that_is_left_open_ends_with_its_caption():
    assert tokenize_text("a <a href='x dog") == "a < a href = x dog"
    assert_equal_to_jar(["a <a href='x dog", "a cat's tail", "it's <a b=\"c", 'the "end">'])


def test_caption_without_words_has_no_tokens():
    assert [tokenize_text(text) for text in ("", "  ", "? ...", "\u00a0", "😀", "&nbsp;")] == [""] * 6


def test_caption_of_20000_characters_works():
    assert tokenize_text("The dog runs. " * 1_500) == " ".join(["the dog runs"] * 1_500)
