"""Penn Treebank tokenisation without Java: the tokens of Stanford CoreNLP 3.4.1, in Python.

Equal to the jar of pycocoevalcap as ``ptb`` runs it, token for token, on every data set that
``tests/metrics/words/test_ptb_lexer.py`` names and on random strings, but for three classes of text:

* Word-final sigma. Java lower-cases a capital sigma by its own idea of where words end, so that one in a
  token with digits, hyphens, underscores or raised letters (ª) may become the other of the two sigmas.
* Inside addresses and tags, capitals that Unicode has had for less long than the Java, or the Python,
  that runs (40 between Java 17 and Python 3.11); other tokens drop letters so new.
* A tag that opens a quoted value and does not close it. To the jar it may reach into later captions;
  here a caption ends where it ends.
"""

from __future__ import annotations

import re
from functools import cache

from .ptb_automaton import Automaton
from .ptb_rules import CHARACTERS, PIECES, PUNCTUATION, RULES

# What the jar ends a line at; half a character, as a broken JSON escape leaves it; and the characters
# that are two units of UTF-16, as which Java reads them.
_LINE_BREAK = re.compile("[\n\x0b\x0c\r\u2028\u2029]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")

# Some rules look past the end of a caption. A line of this one word stands there.
_NEXT_LINE = "\nendofcaption\n"

# All captions of COCO have 65,000 different words together; longer words hardly ever come again.
_WORDS_KEPT = 500_000
_LONGEST_WORD_KEPT = 40


def tokenize_text(text: str) -> str:
    """Return the tokens of a caption, lower-case and without punctuation, joined by single spaces.

    Args:
        text: The caption as written. A line break in it counts as a space.
    """
    *words, last = text.split(" ")
    inner, final, final_before_blank = _memory()
    if words and not last:
        final, last = final_before_blank, words.pop()
    tokens = [*map(inner.__getitem__, words), final[last]]
    if None in tokens:
        return _tokens_of_whole(text)
    return " ".join(filter(None, tokens))


class _Words(dict[str, str | None]):
    """The tokens of each word, where a word is what stands between spaces.

    None where they depend on more than the word and what follows it, so that the whole caption must be
    read.

    Args:
        following: What follows the words.
        ends_caption: Whether that is all that follows.
    """

    def __init__(self, following: str, *, ends_caption: bool) -> None:
        super().__init__()
        self._following = following
        self._ends_caption = ends_caption

    def __missing__(self, word: str) -> str | None:
        """Tokenise a word that is new."""
        tokens = self._tokens(word)
        if len(word) <= _LONGEST_WORD_KEPT:
            if len(self) >= _WORDS_KEPT:
                self.clear()
            self[word] = tokens
        return tokens

    def _tokens(self, word: str) -> str | None:
        # A blank of another kind at the start belongs to the space before.
        if word != _in_units(word) or word[:1].isspace():
            return None
        tokens, open_ended = _lex(word + self._following, len(word))
        line = " ".join(tokens)
        if not self._ends_caption and (open_ended or line != line.rstrip()):
            return None
        return _without_punctuation(line)


@cache
def _memory() -> tuple[_Words, _Words, _Words]:
    """Return what is known of words that a space follows, of words that end a caption, and of such before a space."""
    return (
        _Words(" ", ends_caption=False),
        _Words(_NEXT_LINE, ends_caption=True),
        # A tenth of COCO's captions end with a space.
        _Words(f" {_NEXT_LINE}", ends_caption=True),
    )


def _tokens_of_whole(text: str) -> str:
    """Return the tokens of a caption, as ``tokenize_text``, without looking any word up."""
    units = _in_units(text)
    tokens, _ = _lex(units + _NEXT_LINE, len(units))
    return _without_punctuation(" ".join(tokens).encode("utf-16", "surrogatepass").decode("utf-16"))


def _in_units(text: str) -> str:
    """Return a caption as the jar reads it: one line, a character for each unit of UTF-16."""
    line = _LONE_SURROGATE.sub("?", _LINE_BREAK.sub(" ", text))
    return _TWO_UNITS.sub(_two_units, line)


def _two_units(character: re.Match[str]) -> str:
    high, low = divmod(ord(character[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def _without_punctuation(line: str) -> str:
    # Blanks may end a token that is an address; those at the end of a line are lost.
    return " ".join(token for token in line.lower().rstrip().split(" ") if token not in PUNCTUATION)


def _lex(text: str, end: int) -> tuple[list[str], bool]:
    """Return the tokens that begin before a place, and whether text after ``text`` might change them."""
    longest = _automaton().longest
    tokens = []
    place = 0
    ever_open = False
    while place < end:
        rule, stop, open_ended = longest(text, place)
        ever_open = ever_open or open_ended
        if rule is None:
            # The jar logs the first character that it cannot tokenise, and drops them all.
            place += 1
            continue
        token = RULES[rule].make(text[place:stop])
        if token:
            tokens.append(token)
        place = stop
    return tokens, ever_open


@cache
def _automaton() -> Automaton:
    return Automaton([rule.pattern for rule in RULES], PIECES, CHARACTERS)
