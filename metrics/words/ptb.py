"""Penn Treebank tokens without Java: the text that BLEU, ROUGE-L, METEOR and CIDEr compare.

Tokens are those of the COCO caption evaluation (Stanford CoreNLP 3.4.1, lower-cased, 17 punctuation tokens removed;
pycocoevalcap ``tokenizer/ptbtokenizer.py``), for each caption separately. The jar reads all captions from one file and
looks past the end of a line, so that "no." keeps its full stop if the next caption starts with a digit.

Given one caption at a time, the jar gives the same tokens on every data set that
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
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import unpack
from typing import Any

from ...rows import load_yaml
from ..contract import Metric, labelled
from ..items import Items
from . import tokenizers

FINGERPRINT = {"tokenizer": "ptb 3.4.1", "revision": 1}
"""Versions that can change a token; the revision is raised when tokens change."""

_EMPTY = "candidate has no token after tokenisation"
_LEXEME = re.compile(
    r"(?P<set>\[(?:\\.|[^\]\\])+\])"
    r"|\{(?P<name>[a-z_]+)\}"
    r"|\{(?P<least>\d+)(?:,(?P<most>\d+))?\}"
    r"|(?P<operator>[()|*+?/.])"
    r"|\\?(?P<literal>.)",
    re.DOTALL,
)

# As Java folds single characters: the long s, the Kelvin sign and the i's of Turkish are among them.
_BOTH_CASES = {letter: letter + letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"} | {
    "i": "iI\u0130\u0131",
    "k": "kK\u212a",
    "s": "sS\u017f",
}


@dataclass(frozen=True)
class TokenRule:
    """A kind of token.

    Attributes:
        pattern: Its pattern; behind a ``/``, a lookahead, which is not part of the token.
        make: The token for the text that was matched; empty if there is none.
    """

    pattern: str
    make: Callable[[str], str] = str


# The list of pycocoevalcap. Tokens are lower-cased before, so "-lrb-" and its like are not removed; every
# published number was made that way.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)

_GRAMMAR: Any = load_yaml(Path(__file__).with_name("ptb_rules.yaml"))


def _characters(ranges: str) -> frozenset[str]:
    """Return the characters of ranges such as ``"41-5a 61"``."""
    bounds = [part.partition("-") for part in ranges.split()]
    return frozenset(chr(c) for a, _, b in bounds for c in range(int(a, 16), int(b or a, 16) + 1))


_NEWER_LETTERS, _NEWER_DIGITS, _WORD_SIGNS = (
    _characters(_GRAMMAR["characters"][name]) for name in ("letters", "digits", "word_signs")
)


def _is_letter(character: str) -> bool:
    return unicodedata.ucd_3_2_0.category(character)[0] == "L" or character in _NEWER_LETTERS


def _is_digit(character: str) -> bool:
    return character in _NEWER_DIGITS or (
        unicodedata.ucd_3_2_0.category(character) == "Nd"
        # The digits of Ethiopia were numbers of another kind by then.
        and not "\u1369" <= character <= "\u1371"
    )


CHARACTERS: dict[str, Callable[[str], bool]] = {
    "letter": _is_letter,
    "digit": _is_digit,
    "wordletter": lambda character: _is_letter(character) or character in _WORD_SIGNS,
}
"""The named sets of characters, each as a test of one."""


PIECES: dict[str, str] = {
    **{name: "".join(pattern) for name, pattern in _GRAMMAR["pieces"].items()},
    **{name: "|".join(words.split()) for name, words in _GRAMMAR["words"].items()},
}
"""Patterns that others refer to."""


_TO_QUOTES = str.maketrans(
    dict.fromkeys("\u0091\u2018\u201b\u2039", "`")  # pyrefly: ignore[bad-argument-type]
    | dict.fromkeys("\u0092\u2019\u203a", "'")
    | dict.fromkeys("\u0093\u201c\xab", "``")
    | dict.fromkeys("\u0094\u201d\xbb", "''")
)
_TO_FRACTIONS = str.maketrans({"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})
# The currency signs that the Treebank's time had no code for.
_TO_CURRENCY = str.maketrans({"¢": "cents", "£": "#"} | dict.fromkeys("\x80¤\u20a0€", "$"))
_TO_BRACKETS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})
_AMPERSAND = re.compile("&amp;", re.IGNORECASE)


def _quotes(text: str) -> str:
    # In capitals the entities are quotation marks too, but stay as they are.
    return text.replace("&apos;", "'").replace('"', "''").replace("&quot;", "''").translate(_TO_QUOTES)


_MAKERS: dict[str, Callable[[str], str]] = {
    "ampersands": lambda text: _AMPERSAND.sub("&", text),
    "brackets": lambda text: text.translate(_TO_BRACKETS),
    "currency": lambda text: text.translate(_TO_CURRENCY),
    "dashes": lambda text: "--" if len(text) in (3, 4) else text,
    "fractions": lambda text: text.translate(_TO_FRACTIONS),
    "no_break": lambda text: text.replace(" ", "\xa0"),
    "quotes": _quotes,
    "telephone": lambda text: text.replace(" ", "\xa0").translate(_TO_BRACKETS),
    "without_soft_hyphens": lambda text: text.replace("\xad", "") or "-",
}


def _rule(said: str | Mapping[str, Any]) -> TokenRule:
    if isinstance(said, str):
        return TokenRule(said)
    make = _MAKERS[said["make"]] if "make" in said else str
    return TokenRule("".join(said["pattern"]), (lambda _: said["token"]) if "token" in said else make)


RULES: tuple[TokenRule, ...] = tuple(map(_rule, _GRAMMAR["rules"]))
"""The kinds of tokens; of two equally long matches the first counts. Text that none matches is no token."""


@dataclass(frozen=True)
class _Character:
    """One character of a set, by the number of the set."""

    set: int


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Choice:
    options: tuple[_Node, ...]


@dataclass(frozen=True)
class _Loop:
    """Once or more often."""

    part: _Node


_Node = _Character | _Sequence | _Choice | _Loop
_NOTHING = _Sequence(())


class _Parser:
    """Reads patterns; a set of characters has the same number wherever it is used."""

    def __init__(self, pieces: Mapping[str, str], characters: Mapping[str, Callable[[str], object]]) -> None:
        self._pieces = pieces
        self._characters = characters
        self._parsed: dict[str, _Node] = {}
        self._numbers: dict[str, int] = {}
        self.tests: list[Callable[[str], object]] = []

    def parse(self, pattern: str) -> tuple[_Node, _Node]:
        """Return the nodes of a pattern and of its lookahead."""
        rest = list(_LEXEME.finditer(pattern))[::-1]
        taken = self._choice(rest)
        following: _Node = _NOTHING
        if rest and rest[-1]["operator"] == "/":
            rest.pop()
            following = self._choice(rest)
        if rest:
            raise ValueError(f"cannot read {rest[-1][0]!r} in the pattern {pattern!r}")
        return taken, following

    def _choice(self, rest: list[re.Match[str]]) -> _Node:
        options = [self._sequence(rest)]
        while rest and rest[-1]["operator"] == "|":
            rest.pop()
            options.append(self._sequence(rest))
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self, rest: list[re.Match[str]]) -> _Node:
        parts: list[_Node] = []
        while rest and (rest[-1]["operator"] or "") not in ("|", ")", "/"):
            lexeme = rest.pop()
            if lexeme["operator"] == "(":
                parts.append(self._choice(rest))
                rest.pop()
            elif lexeme["operator"] == "?":
                parts.append(_Choice((parts.pop(), _NOTHING)))
            elif lexeme["operator"] == "+":
                parts.append(_Loop(parts.pop()))
            elif lexeme["operator"] == "*":
                parts.append(_Choice((_Loop(parts.pop()), _NOTHING)))
            elif lexeme["least"]:
                part, least = parts.pop(), int(lexeme["least"])
                parts += [part] * least
                parts += [_Choice((part, _NOTHING))] * (int(lexeme["most"] or least) - least)
            else:
                parts.append(self._atom(lexeme))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _atom(self, lexeme: re.Match[str]) -> _Node:
        name = lexeme["name"]
        if name in self._pieces:
            if name not in self._parsed:
                self._parsed[name] = self.parse(self._pieces[name])[0]
            return self._parsed[name]
        if name:
            return self._character(lexeme[0], self._characters[name])
        if lexeme["set"]:
            return self._character(lexeme[0], re.compile(lexeme[0]).match)
        if lexeme["operator"] == ".":
            return self._character("any", bool)
        literal = lexeme["literal"]
        cases = _BOTH_CASES.get(literal.lower(), literal)
        return self._character(cases, cases.__contains__)

    def _character(self, spelling: str, test: Callable[[str], object]) -> _Character:
        number = self._numbers.setdefault(spelling, len(self.tests))
        if number == len(self.tests):
            self.tests.append(test)
        return _Character(number)


def _width(node: _Node) -> int | None:
    """Return how many characters a pattern matches, if it is always as many."""
    match node:
        case _Character():
            return 1
        case _Sequence(parts):
            widths = [_width(part) for part in parts]
            return None if None in widths else sum(width for width in widths if width)
        case _Choice(options):
            widths = [_width(option) for option in options]
            return widths[0] if len(set(widths)) == 1 else None
        case _Loop():
            return None


class AutomatonState(dict[str, "AutomatonState"]):
    """Where the automaton is: the next state for each character, computed on first use.

    Attributes:
        rule: The first rule that matches what was read so far, if any does.
        ended: Whether no character can lead to a match any more.
    """

    __slots__ = ("_automaton", "_positions", "ended", "rule")

    def __init__(self, automaton: Automaton, positions: frozenset[int]) -> None:
        super().__init__()
        self._automaton = automaton
        self._positions = positions
        rules = [automaton.rule_at[position] for position in positions if position in automaton.rule_at]
        self.rule = min(rules, default=None)
        self.ended = not any(automaton.follow[position] for position in positions)

    def __missing__(self, character: str) -> AutomatonState:
        """Return the state that a character leads to."""
        state = self[character] = self._automaton.step(self._positions, character)
        return state


class Automaton:
    """What finds the longest match.

    Args:
        patterns: In the order that decides between matches of the same length.
        pieces: Patterns by the names that others use them by.
        characters: Tests of one character by the names that patterns use them by.
    """

    def __init__(
        self, patterns: Sequence[str], pieces: Mapping[str, str], characters: Mapping[str, Callable[[str], object]]
    ) -> None:
        parser = _Parser(pieces, characters)
        # A position is one character of one pattern; 0 is before all of them.
        self.follow: list[set[int]] = [set()]
        self.rule_at: dict[int, int] = {}
        self._set_of = [-1]
        # Where what is taken ends: whether counted from the end of the match or from its start, and how far.
        self._ends: list[tuple[bool, int]] = []
        for rule, pattern in enumerate(patterns):
            taken, following = parser.parse(pattern)
            give_back, take = _width(following), _width(taken)
            if give_back is not None:
                self._ends.append((True, -give_back))
            elif take is not None:
                self._ends.append((False, take))
            else:
                raise ValueError(f"neither side of the '/' has a fixed length in the pattern {pattern!r}")
            _, first, last = self._place(_Sequence((taken, following)))
            self.follow[0] |= first
            self.rule_at.update(dict.fromkeys(last, rule))
        self._tests = parser.tests
        self._sets_with: dict[str, frozenset[int]] = {}
        self._states: dict[frozenset[int], AutomatonState] = {}
        self._start = self._state(frozenset([0]))

    def longest(self, text: str, start: int) -> tuple[int | None, int, bool]:
        """Find the longest match at a place.

        Args:
            text: Where to look.
            start: The place.

        Returns:
            The number of the pattern (None if none matches), the end of what it takes, and whether more
            text after the end of this one might change either.
        """
        state = self._start
        rule, stop = None, start
        for place in range(start, len(text)):
            state = state[text[place]]
            if state.rule is not None:
                rule, stop = state.rule, place + 1
            if state.ended:
                open_ended = False
                break
        else:
            open_ended = True
        if rule is None:
            return None, start, open_ended
        from_end, distance = self._ends[rule]
        return rule, (stop if from_end else start) + distance, open_ended

    def step(self, positions: frozenset[int], character: str) -> AutomatonState:
        """Return the state that a character leads to from a set of positions."""
        sets = self._sets_with.get(character)
        if sets is None:
            sets = frozenset(number for number, test in enumerate(self._tests) if test(character))
            self._sets_with[character] = sets
        set_of = self._set_of
        return self._state(frozenset(p for q in positions for p in self.follow[q] if set_of[p] in sets))

    def _state(self, positions: frozenset[int]) -> AutomatonState:
        state = self._states.get(positions)
        if state is None:
            state = self._states[positions] = AutomatonState(self, positions)
        return state

    def _place(self, node: _Node) -> tuple[bool, set[int], set[int]]:
        """Make the positions of a pattern.

        Returns:
            Whether it may match nothing, the positions it may start with, and those it may end with.
        """
        match node:
            case _Character(number):
                self._set_of.append(number)
                self.follow.append(set())
                return False, {len(self._set_of) - 1}, {len(self._set_of) - 1}
            case _Choice(options):
                empty, first, last = False, set[int](), set[int]()
                for option in options:
                    option_empty, option_first, option_last = self._place(option)
                    empty, first, last = empty or option_empty, first | option_first, last | option_last
                return empty, first, last
            case _Sequence(parts):
                empty, first, last = True, set[int](), set[int]()
                for part in parts:
                    part_empty, part_first, part_last = self._place(part)
                    self._connect(last, part_first)
                    first = first | part_first if empty else first
                    last = last | part_last if part_empty else part_last
                    empty = empty and part_empty
                return empty, first, last
            case _Loop(part):
                empty, first, last = self._place(part)
                self._connect(last, first)
                return empty, first, last

    def _connect(self, before: set[int], after: set[int]) -> None:
        for position in before:
            self.follow[position] |= after


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
        text: The caption. A line break in it counts as a space.
    """
    *words, last = text.split(" ")
    inner, final, final_before_blank = _memory()
    if words and not last:
        final, last = final_before_blank, words.pop()
    tokens = [*map(inner.__getitem__, words), final[last]]
    if None not in tokens:
        return " ".join(filter(None, tokens))
    # Without looking any word up.
    units = _in_units(text)
    tokens, _ = _lex(units + _NEXT_LINE, len(units))
    return _without_punctuation(" ".join(tokens).encode("utf-16", "surrogatepass").decode("utf-16"))


class _Words(dict[str, str | None]):
    """The tokens of each word, where a word is what stands between spaces.

    None where they depend on more than the word and what follows it, so that the whole caption must be
    read.

    Args:
        following: The text after the words.
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


def _in_units(text: str) -> str:
    """Return a caption as the jar reads it: one line, a character for each unit of UTF-16."""
    line = _LONE_SURROGATE.sub("?", _LINE_BREAK.sub(" ", text))
    return _TWO_UNITS.sub(lambda character: "".join(map(chr, unpack("<2H", character[0].encode("utf-16-le")))), line)


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


@dataclass(frozen=True)
class TokenizedItems:
    """The tokens of ``n`` items.

    Attributes:
        candidates: ``[n]`` tokens joined by single spaces; empty where nothing is left, which is scored as it is.
        reference_sets: The tokens of each of ``Items.reference_sets``.
        failures: Item index to why no metric that compares tokens can score it: no reference has one.
    """

    candidates: list[str]
    reference_sets: list[tuple[str, ...]]
    failures: dict[int, str]


def tokenize_items(items: Items, tokenizer: str = tokenizers.PTB) -> TokenizedItems:
    """Tokenise candidates and references; the first metric that asks pays, the others share.

    Raises:
        MetricError: The tokeniser is not installed.
    """
    if (known := items.memo.get(tokenizer)) is not None:
        return known
    tokenize = tokenize_text if tokenizer == tokenizers.PTB else tokenizers.load(tokenizer)[0]
    raw_sets, set_of_item = items.reference_sets
    reference_sets = [tuple(map(tokenize, references)) for references in raw_sets]
    faults = list(map(references_fault, reference_sets))
    failures: dict[int, str] = {}
    if any(faults):
        failures = {item: fault for item, its_set in enumerate(set_of_item.tolist()) if (fault := faults[its_set])}
    items.memo[tokenizer] = tokenized = TokenizedItems(list(map(tokenize, items.candidates)), reference_sets, failures)
    return tokenized


def tokenize_candidates(items: Items) -> tuple[list[str], dict[int, str]]:
    """Tokenise the candidates alone, for metrics that look at no reference.

    Returns:
        ``[n]`` the tokens of each candidate, and item index to why it has none.
    """
    with_references = items.memo.get("ptb")
    known = with_references.candidates if with_references else items.memo.get("ptb candidates")
    if known is None:
        known = items.memo["ptb candidates"] = list(map(tokenize_text, items.candidates))
    return known, {item: _EMPTY for item, tokens in enumerate(known) if not tokens}


def references_fault(references: Sequence[str]) -> str | None:
    """Return why no metric that compares tokens can score with tokenised references; None if it can."""
    if not references:
        return "item has no reference"
    return None if any(references) else "no reference has a token after tokenisation"


class TokenMetric(Metric):
    """The base of metrics that compare PTB tokens."""

    splits_words = True

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings and what tokenises."""
        return {**super().fingerprint(), "tokenizer": FINGERPRINT}


class WordMetric(TokenMetric):
    """The base of metrics that compare words of any language.

    Args:
        tokenizer: What finds the words: ``ptb``, lower-cased and without punctuation, for English; sacrebleu's ``13a``,
            ``intl``, ``zh``, ``char``, ``ja-mecab`` or ``ko-mecab``; or ``spacy:LANGUAGE``. All but ``ptb`` keep case
            and punctuation.

    Raises:
        ValueError: There is no such tokeniser.
    """

    tokenizer: str = tokenizers.PTB

    def __init__(self, tokenizer: str = tokenizers.PTB) -> None:
        if tokenizer == tokenizers.PTB:
            return
        tokenizers.check_name(tokenizer)
        self.tokenizer = tokenizer
        self.label = labelled(self, [tokenizer])
        if not tokenizers.needs_spaces(tokenizer):
            self.splits_words = False

    def check(self) -> None:
        """Raise if the tokeniser is not installed."""
        self.fingerprint()

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings and what tokenises."""
        return {**super().fingerprint(), "tokenizer": fingerprint_of(self.tokenizer)}


def fingerprint_of(tokenizer: str) -> dict[str, Any]:
    """Return the versions that can change a token.

    Raises:
        MetricError: The tokeniser is not installed.
    """
    return FINGERPRINT if tokenizer == tokenizers.PTB else tokenizers.load(tokenizer)[1]
