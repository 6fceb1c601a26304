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

Kind = Literal["noun", "adjective", "preposition", "number", "article", "auxiliary", "mark", "name", "other"]

_ENDS = re.compile(
    r"(?<=[.!?])(?<!\b(?:St|Mt|Mr|Ms|Dr|Ft)\.)(?<!\bMrs\.)(?<!\b[A-Z]\.)[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])|\n+"
)


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
        head: Whether it is a noun by itself: no word before or after makes another thing of it ("police car").
    """

    text: str
    space: str
    kind: Kind = "other"
    lemma: str = ""
    plural: bool = False
    head: bool = False


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
        sisters: Noun to others of its kind that cannot be meant by it ("dog": "cat", "horse", ...).
        vague_nouns: Nouns of no object by itself ("group", "image").
        parts: Nouns of places in an object ("top") and of parts of a body.
        objects: Nouns of no list of ``vague_nouns`` and ``parts``.
        telling: Nouns with others of their kind, of things that are not seen in most places as walls and clouds are.
        never_replaced: Nouns without a replacement ("group", "part").
        singular: Every form of a noun to its singular.
        colours: Name of a colour to clearly different ones.
        spellings: Variant spelling of a colour to its name.
        antonyms: Adjective of size, age or state to its opposites, each with the nouns that take both; none: all.
        materials: Name of a material to others.
        shades: Adjectives of colours ("dark").
        adjectives: All adjectives, of colour, size, state and others.
        opposites: Preposition or side to its opposite.
        supports: Nouns of things to be on or under.
        not_above: Nouns of things that others are under but not above ("sky", "shirt").
        prepositions: All prepositions.
        left_out_with: Prepositions that can be left out with their noun phrase.
        intransitive: Forms of verbs that need nothing behind them ("sits").
        particles: Words that a preposition belongs to ("next" of "next to").
        numbers: From one to twelve.
        estimates: Words before a number that another could also meet ("about").
        not_denied: Words that "not" before them does not deny ("only", "many").
        articles: First words of noun phrases.
        auxiliaries: Forms of "to be", and modal verbs.
        negated: Form of a verb to its negation ("runs": "does not run", "running": "not running").
        verbs: The forms of ``negated`` that are no nouns.
        synonyms: Noun to its synonym.
    """

    def __init__(self) -> None:
        content = _FILE.read_bytes()
        words: dict[str, Any] = json.loads(content)
        self.digest = hashlib.sha256(content).hexdigest()
        self._irregular_plurals: dict[str, str] = words["irregular_plurals"]
        self.spellings: dict[str, str] = words["spellings"]
        self.opposites: dict[str, str] = words["opposites"]
        self.synonyms: dict[str, str] = words["synonyms"]
        groups = [group.split() for group in words["sisters"]]
        self.sisters: dict[str, tuple[str, ...]] = {}
        for group in groups:
            for noun in group:
                known = self.sisters.get(noun, ())
                self.sisters[noun] = (*known, *(other for other in group if other not in (noun, *known)))

        def listed(name: str) -> tuple[str, ...]:
            return tuple(" ".join(words[name]).split())

        self.vague_nouns, self.parts = frozenset(listed("vague_nouns")), frozenset(listed("parts"))
        # In the order of the file, as two nouns may have one plural.
        others = (*listed("other_nouns"), *listed("vague_nouns"), *listed("parts"))
        nouns = [*self.sisters, *others, *self.synonyms]
        self.singular = {form: noun for noun in nouns for form in (self.plural(noun), noun)}
        self.never_replaced = frozenset(listed("never_replaced"))
        self.colours, self.materials = (
            {name: tuple(others.split()) for name, others in words[kind].items()} for kind in ("colours", "materials")
        )
        self.antonyms: dict[str, dict[str, frozenset[str]]] = {}
        for pair, lines in words["antonyms"].items():
            for word, other in (pair.split(), reversed(pair.split())):
                self.antonyms.setdefault(word, {})[other] = frozenset(" ".join(lines).split())
        self.shades = frozenset(listed("shades"))
        self.adjectives = frozenset(
            [*self.colours, *self.spellings, *self.antonyms, *self.materials, *listed("other_adjectives")]
        )
        sides = {"left", "right", "top", "bottom"}
        self.prepositions = frozenset([*self.opposites, *listed("other_prepositions")]) - sides
        self.supports, self.not_above = frozenset(listed("supports")), frozenset(listed("not_above"))
        self.left_out_with = frozenset(listed("left_out_with"))
        self.particles, self.articles = frozenset(listed("particles")), frozenset(listed("articles"))
        self.numbers = listed("numbers")
        self.estimates, self.not_denied = frozenset(listed("estimates")), frozenset(listed("not_denied"))
        self.auxiliaries = frozenset([*listed("linking"), *listed("modals")])
        self.negated = _negated(listed("verbs"), frozenset(listed("not_verbs")))
        self.objects = frozenset(self.singular.values()) - self.vague_nouns - self.parts
        self.telling = frozenset(self.sisters) - frozenset(listed("everywhere"))
        self.verbs = frozenset(self.negated) - frozenset(self.singular)
        self.intransitive = frozenset(_negated(listed("intransitive"), frozenset()))
        self._an_before, self._a_before = listed("an_before"), listed("a_before")

    def plural(self, noun: str) -> str:
        """Return the plural of a noun."""
        return _plural(noun, self._irregular_plurals)

    def has_opposite(self, preposition: str, noun: str) -> bool:
        """Return whether a preposition of ``opposites`` before a noun phrase can be replaced by its opposite.

        Args:
            preposition: The preposition, lower-cased.
            noun: The lemma of the phrase's last noun.
        """
        if preposition == "on":
            return noun in self.supports
        if self.opposites[preposition] == "above" and noun in self.not_above:
            return False
        return noun in self.objects

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
