"""Captions as rules see them: tokens, the findings of a reader, and the word lists of rules."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

Kind = Literal["noun", "adjective", "preposition", "number", "article", "auxiliary", "mark", "other"]

_ENDS = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])|\n+")


_FILE = Path(__file__).parent / "words.json"
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Token:
    """A word or a punctuation mark.

    Attributes:
        text: Its text in the caption.
        space: The space after it.
        kind: Its kind.
        lemma: Its base form, lower-cased.
        plural: Whether it is a plural noun.
    """

    text: str
    space: str
    kind: Kind = "other"
    lemma: str = ""
    plural: bool = False


@dataclass(frozen=True)
class ReadCaption:
    """The findings of a reader in a caption.

    Attributes:
        tokens: All tokens of the caption.
        relations: Indices of prepositions with an object, and of sides ("left", "top").
        phrases: Prepositional phrases that can be removed: first token, and the one after the last.
        modifiers: Adjectives before a noun: their index, and that of the noun.
        negations: Index of a token whose replacement negates the sentence, and the replacement.
    """

    tokens: tuple[Token, ...]
    relations: tuple[int, ...] = ()
    phrases: tuple[tuple[int, int], ...] = ()
    modifiers: tuple[tuple[int, int], ...] = ()
    negations: tuple[tuple[int, str], ...] = ()

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The lemmas of its nouns."""
        return frozenset(token.lemma for token in self.tokens if token.kind == "noun")

    @cached_property
    def sentence_of(self) -> tuple[int, ...]:
        """The number of each token's sentence."""
        numbers: list[int] = []
        for token in self.tokens:
            before = numbers[-1] if numbers else 0
            ended = bool(numbers) and self.tokens[len(numbers) - 1].text in (".", "!", "?")
            numbers.append(before + (ended and token.kind != "mark"))
        return tuple(numbers)


def sentences(text: str) -> list[str]:
    """Return the sentences of a caption; where two are separate, the second begins with a capital."""
    return [part for part in map(str.strip, _ENDS.split(text)) if part]


def ended(sentence: str) -> str:
    """Return a sentence with a full stop where it has no end mark."""
    if sentence.rstrip("\"'”’)").endswith((".", "!", "?")):
        return sentence
    return f"{sentence.rstrip(' ,;:-')}."


def replaced(tokens: Sequence[Token], by: Mapping[int, str], words: WordLists) -> str:
    """Return a caption with some tokens replaced, and articles that agree with the next word.

    Args:
        tokens: The caption.
        by: Index of a token to its replacement.
        words: The word lists, which choose between "a" and "an".
    """
    texts = [by.get(number, token.text) for number, token in enumerate(tokens)]
    for number in by:
        if number and texts[number - 1].lower() in ("a", "an"):
            article = words.article(texts[number])
            before = texts[number - 1]
            texts[number - 1] = article.capitalize() if before[:1].isupper() else article
    return written(zip(texts, (token.space for token in tokens), strict=True))


def written(pieces: Iterable[tuple[str, str]]) -> str:
    """Return texts with the space after each."""
    return "".join(text + space for text, space in pieces).strip()


class WordLists:
    """The word lists of ``words.json``.

    Attributes:
        digest: Hash of the file.
        sisters: Noun to the others of its kind ("dog": "cat", "horse", ...).
        never_replaced: Nouns without a replacement ("group", "part").
        singular: Every form of a noun to its singular.
        colours: Names of colours.
        spellings: Variant spelling of a colour to its name.
        antonyms: Adjective of size, age or state to its opposite.
        materials: Names of materials.
        adjectives: All adjectives, of colour, size, state and others.
        not_swapped: Adjectives that are not attributes of an object ("other", "several").
        opposites: Preposition or side to its opposite.
        prepositions: All prepositions.
        particles: Words that a preposition belongs to ("next" of "next to").
        numbers: From one to twelve.
        articles: First words of noun phrases.
        auxiliaries: Forms of "to be", and modal verbs.
        negated: Form of a verb to its negation ("runs": "does not run", "running": "not running").
        synonyms: Noun to its synonym.
    """

    def __init__(self) -> None:
        content = _FILE.read_bytes()
        words: dict[str, Any] = json.loads(content)
        self.digest = hashlib.sha256(content).hexdigest()
        self._irregular_plurals: dict[str, str] = words["irregular_plurals"]
        self.spellings: dict[str, str] = words["spellings"]
        self.antonyms: dict[str, str] = words["antonyms"]
        self.opposites: dict[str, str] = words["opposites"]
        self.synonyms: dict[str, str] = words["synonyms"]
        groups = [group.split() for group in words["sisters"]]
        self.sisters = {noun: tuple(other for other in group if other != noun) for group in groups for noun in group}

        def listed(name: str) -> tuple[str, ...]:
            return tuple(" ".join(words[name]).split())

        nouns = [*(noun for group in groups for noun in group), *listed("other_nouns"), *self.synonyms]
        self.singular = {form: noun for noun in nouns for form in (self.plural(noun), noun)}
        self.never_replaced = frozenset(listed("never_replaced"))
        self.colours, self.materials = listed("colours"), listed("materials")
        self.adjectives = frozenset(
            [*self.colours, *self.spellings, *self.antonyms, *self.materials, *listed("other_adjectives")]
        )
        self.not_swapped = frozenset(listed("not_swapped"))
        sides = {"left", "right", "top", "bottom"}
        self.prepositions = frozenset([*self.opposites, *listed("other_prepositions")]) - sides
        self.particles, self.articles = frozenset(listed("particles")), frozenset(listed("articles"))
        self.numbers = listed("numbers")
        self.auxiliaries = frozenset([*listed("linking"), *listed("modals")])
        self.negated = _negated(listed("verbs"), frozenset(listed("not_verbs")))
        self._an_before, self._a_before = listed("an_before"), listed("a_before")

    def plural(self, noun: str) -> str:
        """Return the plural of a noun."""
        return _plural(noun, self._irregular_plurals)

    def article(self, before: str) -> str:
        """Return the article "a" or "an" of a word."""
        word = before.lower()
        if word.startswith(self._an_before):
            return "an"
        return "an" if word[:1] in tuple("aeiou") and not word.startswith(self._a_before) else "a"


@cache
def load() -> WordLists:
    """Return the shipped word lists."""
    return WordLists()


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, lower-cased."""
    return frozenset(_WORD.findall(text.lower()))


def cased(word: str, like: str) -> str:
    """Return a word with the capital of another."""
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def _plural(noun: str, irregular: dict[str, str]) -> str:
    if noun in irregular:
        return irregular[noun]
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def _negated(verbs: Iterable[str], no_verbs: frozenset[str]) -> dict[str, str]:
    """Return every form of the verbs with its negation."""
    negated: dict[str, str] = {}
    for verb in verbs:
        negated[verb] = f"do not {verb}"
        negated[_plural(verb, {"have": "has", "go": "goes"})] = f"does not {verb}"
        negated[_participle(verb)] = f"not {_participle(verb)}"
    return {form: denied for form, denied in negated.items() if form not in no_verbs}


def _participle(verb: str) -> str:
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return f"{verb[:-1]}ing"
    # One short vowel before one consonant: "running", but "looking" and "bowling".
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb) or verb == "begin":
        return f"{verb}{verb[-1]}ing"
    return f"{verb}ing"
