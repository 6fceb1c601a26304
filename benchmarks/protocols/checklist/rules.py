"""The rules by which captions are changed, and what a metric should make of each."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import median
from typing import Literal, TypeVar

from .captions import CaptionReader, ReadCaption, Token, WordLists, cased, ended, replaced, sentences, words_of, written

VERSION = 1
"""Raised when a rule changes."""

Expected = Literal["fall", "stay", "game"]
_JOINING = re.compile(r"(?<=\w)[-'’.,:](?=\w)|['’](?=(?:s|t|re|ve|ll|d|m)\b)")
_MARK = re.compile(r"[^\w\s]|_")
SiteT = TypeVar("SiteT")


class NothingToChange(Exception):  # noqa: N818 - it is no error: most rules find nothing to change in some captions
    """A rule found nothing to change; the text says why."""


@dataclass(frozen=True)
class Donor:
    """A sentence that may be made up of another image.

    Attributes:
        image: The image that it is true of.
        sentence: The sentence.
        nouns: Its nouns, in their base form.
    """

    image: str
    sentence: str
    nouns: frozenset[str]


@dataclass(frozen=True)
class SourceCorpus:
    """What rules know of all captions of the data.

    Attributes:
        words: The lists.
        reader: Who reads.
        seed: What choices follow from.
        seen: In how many captions each word occurs.
        least_seen: A noun that stands for another occurs in so many captions, at least.
        donors: A sentence of each caption.
        typical: The caption that would do best for all images.
    """

    words: WordLists
    reader: CaptionReader
    seed: int
    seen: Counter[str]
    least_seen: int
    donors: Sequence[Donor]
    typical: str = ""

    def is_known(self, noun: str) -> bool:
        """Tell whether a noun occurs in captions enough."""
        forms = {noun, self.words.plural(noun)}
        return sum(self.seen[form] for form in forms) >= self.least_seen


@dataclass(frozen=True)
class RuleInput:
    """A caption that a rule may change.

    Attributes:
        image: Its image.
        text: The caption.
        read: What the reader found in it.
        references: The captions that it is held against.
        corpus: All captions.
    """

    image: str
    text: str
    read: ReadCaption
    references: tuple[str, ...]
    corpus: SourceCorpus

    @cached_property
    def said(self) -> frozenset[str]:
        """The words of the caption and its references."""
        return words_of(self.text).union(*map(words_of, self.references))

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the caption."""
        return sentences(self.text)

    def pick(self, purpose: str, count: int) -> int:
        """Return a number below ``count`` that the seed, the purpose and the caption decide, and nothing else."""
        return drawn(f"{self.corpus.seed}|{purpose}|{self.text}") % count

    def choose(self, purpose: str, sites: Sequence[SiteT], none: str) -> SiteT:
        """Return one of the places that a rule may change, as :meth:`pick` decides.

        Raises:
            NothingToChange: There is none.
        """
        if not sites:
            raise NothingToChange(none)
        return sites[self.pick(purpose, len(sites))]

    def is_new(self, noun: str) -> bool:
        """Tell whether neither caption nor references say a noun, in the singular or the plural."""
        return self.said.isdisjoint((noun, self.corpus.words.plural(noun)))


Change = Callable[[RuleInput], str]
"""Makes another caption of one.

Raises:
    NothingToChange: There is nothing to change.
"""


def drawn(text: str) -> int:
    """Return the number that a text decides: the first 32 bits of its SHA-256."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


# --- other words in the place of some


def object_replaced(given: RuleInput) -> str:
    """Replace an object by another of its kind, which neither the caption nor a reference names."""
    corpus, words = given.corpus, given.corpus.words
    sites: list[tuple[int, list[str]]] = []
    for at, token in enumerate(given.read.tokens):
        if token.kind != "noun" or token.lemma in words.never_replaced:
            continue
        for tier in corpus.reader.sisters(token.lemma):
            known = (one for one in tier if one not in words.never_replaced and corpus.is_known(one))
            if fitting := list(filter(given.is_new, known)):
                sites.append((at, fitting))
                break
    at, fitting = given.choose("object_replaced", sites, "has no object for which the data knows another of its kind")
    return _with_noun(given, at, fitting[given.pick("object_replaced|by", len(fitting))])


def attribute_replaced(given: RuleInput) -> str:
    """Replace a colour or material by another, a size, age or state by its opposite; not by what references say."""
    sites: list[tuple[int, list[str]]] = []
    for at, token in enumerate(given.read.tokens):
        others = _other_attributes(token, given.corpus.words) if token.kind == "adjective" else []
        if fitting := [one for one in others if one not in given.said]:
            sites.append((at, fitting))
    at, fitting = given.choose(
        "attribute_replaced",
        sites,
        "has no colour, size, age, state or material with another that its references do not say",
    )
    return _with(given, at, fitting[given.pick("attribute_replaced|by", len(fitting))])


def relation_replaced(given: RuleInput) -> str:
    """Replace a preposition or a side by its opposite."""
    at = given.choose("relation_replaced", given.read.relations, "has no preposition or side with an opposite")
    return _with(given, at, given.corpus.words.opposites[given.read.tokens[at].text.lower()])


def number_replaced(given: RuleInput) -> str:
    """Add two to a number from two to ten in letters, or to twenty in digits."""
    numbers = given.corpus.words.numbers
    sites: list[tuple[int, str]] = []
    for at, token in enumerate(given.read.tokens):
        word = token.text.lower()
        if token.kind != "number":
            continue
        if word in numbers[1:10]:
            sites.append((at, numbers[numbers.index(word) + 2]))
        elif word.isdecimal() and 2 <= int(word) <= 20:
            sites.append((at, str(int(word) + 2)))
    return _with(given, *given.choose("number_replaced", sites, "counts nothing, or one"))


def attributes_swapped(given: RuleInput) -> str:
    """Let two adjectives of one sentence, which belong to two nouns, change places."""
    tokens, read = given.read.tokens, given.read
    usable = [one for one in read.modifiers if tokens[one[0]].text.lower() not in given.corpus.words.not_swapped]
    pairs = [
        (first, second)
        for (first, noun), (second, other) in combinations(usable, 2)
        if noun != other
        and read.sentence_of[first] == read.sentence_of[second]
        and tokens[first].text.lower() != tokens[second].text.lower()
    ]
    first, second = given.choose("attributes_swapped", pairs, "has no sentence with adjectives of two nouns")
    one, other = tokens[first].text, tokens[second].text
    by = {first: _in_place_of(one, other), second: _in_place_of(other, one)}
    return replaced(tokens, by, given.corpus.words)


def negated(given: RuleInput) -> str:
    """Deny what a sentence says: "is not", "does not run", "not running"."""
    none = "has no verb to deny, or denies something already"
    return _with(given, *given.choose("negation", given.read.negations, none))


def synonym(given: RuleInput) -> str:
    """Replace a noun by one of the same meaning."""
    synonyms = given.corpus.words.synonyms
    sites = [at for at, token in enumerate(given.read.tokens) if token.kind == "noun" and token.lemma in synonyms]
    at = given.choose("synonym", sites, "has no noun of the list of synonyms")
    return _with_noun(given, at, synonyms[given.read.tokens[at].lemma])


def _other_attributes(token: Token, words: WordLists) -> list[str]:
    word = token.text.lower()
    colour = words.spellings.get(word, word)
    if colour in words.colours:
        return [one for one in words.colours if one != colour]
    if word in words.antonyms:
        return [words.antonyms[word]]
    return [one for one in words.materials if one != word] if word in words.materials else []


def _with_noun(given: RuleInput, at: int, noun: str) -> str:
    words = given.corpus.words
    return _with(given, at, words.plural(noun) if given.read.tokens[at].plural else noun)


def _with(given: RuleInput, at: int, word: str) -> str:
    tokens = given.read.tokens
    return replaced(tokens, {at: cased(word, tokens[at].text)}, given.corpus.words)


def _in_place_of(old: str, new: str) -> str:
    """Return a word with the first letter's case of the one whose place it takes."""
    return cased(new, old) if old[:1].isupper() else new[:1].lower() + new[1:]


# --- words left out, sentences added, another order, other signs


def object_left_out(given: RuleInput) -> str:
    """Drop a prepositional phrase, at most half of the caption."""
    none = "has no prepositional phrase that can be left out"
    start, end = given.choose("object_left_out", given.read.phrases, none)
    pieces = [(token.text, token.space) for token in given.read.tokens]
    # What stood behind the phrase stands behind the word before it.
    pieces[start - 1] = (pieces[start - 1][0], pieces[end - 1][1])
    return written(pieces[:start] + pieces[end:])


def sentence_made_up(given: RuleInput) -> str:
    """Append a sentence of another image, which names nothing that caption or references name."""
    donors = given.corpus.donors
    first = given.pick("sentence_made_up", len(donors))
    nouns, plural = given.read.nouns, given.corpus.words.plural
    for donor in (*donors[first:], *donors[:first]):
        if (
            donor.image != given.image
            and donor.nouns.isdisjoint(nouns)
            and given.said.isdisjoint(form for noun in donor.nouns for form in (noun, plural(noun)))
        ):
            return f"{ended(given.text)} {donor.sentence[:1].upper()}{ended(donor.sentence)[1:]}"
    raise NothingToChange("shares a noun with every sentence of other images")


def words_shuffled(given: RuleInput) -> str:
    """Bring the words into another order, without punctuation."""
    words = [token.text.lower() for token in given.read.tokens if token.kind != "mark"]
    if len(set(words)) < 4:
        raise NothingToChange("has fewer than four different words")
    order = range(len(words))
    attempt = 0
    # One in 24 captions of four words would come out as it was.
    while [words[at] for at in order] == words:
        key = f"{given.corpus.seed}|words_shuffled|{given.text}|{attempt}"
        order = sorted(range(len(words)), key=lambda at, key=key: drawn(f"{key}|{at}"))
        attempt += 1
    shuffled = " ".join(words[at] for at in order)
    # Behind "a" or "no" a full stop would be read as that of an abbreviation.
    return f"{shuffled[:1].upper()}{shuffled[1:]} ."


def sentence_repeated(given: RuleInput) -> str:
    """Say a sentence once more, at the end."""
    found = given.sentences
    again = found[given.pick("sentence_repeated", len(found))]
    return f"{ended(given.text)} {again[:1].upper()}{ended(again)[1:]}"


def end_cut(given: RuleInput) -> str:
    """Keep the first two thirds of the words."""
    words = given.text.split()
    kept = math.ceil(2 * len(words) / 3)
    if len(words) - kept < 2:
        raise NothingToChange("has too few words to lose two of them")
    return " ".join(words[:kept])


def case(given: RuleInput) -> str:
    """Write all in small letters; in capitals what has none."""
    lower = given.text.lower()
    changed = lower if lower != given.text else given.text.upper()
    if changed == given.text:
        raise NothingToChange("has no letter with a small and a capital form")
    return changed


def punctuation(given: RuleInput) -> str:
    """Take away the marks that do not join two letters; end with a full stop what has none."""
    joined = {found.start() for found in _JOINING.finditer(given.text)}
    plain = "".join(" " if _MARK.match(sign) and at not in joined else sign for at, sign in enumerate(given.text))
    if plain == given.text:
        return ended(given.text)
    return " ".join(plain.split())


def sentence_order(given: RuleInput) -> str:
    """Move the first sentence to the end."""
    first, *others = given.sentences
    if not others or [*others, first] == [first, *others]:
        raise NothingToChange("has one sentence alone")
    return " ".join([*others[:-1], ended(others[-1]), first])


# --- what a captioner could write to please a metric, and no reader


def blank(given: RuleInput) -> str:
    """Say nothing."""
    return ""


def same_for_all(given: RuleInput) -> str:
    """Say of every image what fits most of them."""
    return given.corpus.typical


def references(count: int) -> Change:
    """Return a change that says what the first so many references say, one after the other."""

    def change(given: RuleInput) -> str:
        if len(given.references) < count:
            raise NothingToChange(f"has fewer than {count} references")
        return " ".join(map(ended, given.references[:count])) if count > 1 else given.references[0]

    return change


def own(times: int) -> Change:
    """Return a change that says the caption so many times."""

    def change(given: RuleInput) -> str:
        return " ".join([ended(given.text)] * times)

    return change


def typical(captions: Sequence[str], seen: Counter[str]) -> str:
    """Return the caption whose words are in most captions, on average, of those that are not short.

    Args:
        captions: All of them.
        seen: In how many captions each word occurs.
    """
    said = [words_of(caption) for caption in captions]
    least = median(map(len, said))

    def share(number: int) -> float:
        return sum(seen[word] for word in said[number]) / len(said[number])

    return captions[max((n for n in range(len(said)) if len(said[n]) >= least), key=share)]


@dataclass(frozen=True)
class ChangeRule:
    """A change.

    Attributes:
        name: What results are called by.
        label: What tables call it.
        expected: Whether the caption is worse by it, so that a metric should fall; says the same; or is no honest
            caption, of which is asked what a metric pays for it.
        change: Makes the changed caption.
    """

    name: str
    label: str
    expected: Expected
    change: Change


RULES: tuple[ChangeRule, ...] = (
    ChangeRule("object_replaced", "object replaced", "fall", object_replaced),
    ChangeRule("attribute_replaced", "attribute replaced", "fall", attribute_replaced),
    ChangeRule("relation_replaced", "relation replaced", "fall", relation_replaced),
    ChangeRule("number_replaced", "number replaced", "fall", number_replaced),
    ChangeRule("object_left_out", "object left out", "fall", object_left_out),
    ChangeRule("sentence_made_up", "sentence made up", "fall", sentence_made_up),
    ChangeRule("words_shuffled", "words shuffled", "fall", words_shuffled),
    ChangeRule("attributes_swapped", "attributes swapped", "fall", attributes_swapped),
    ChangeRule("sentence_repeated", "sentence repeated", "fall", sentence_repeated),
    ChangeRule("end_cut", "end cut", "fall", end_cut),
    ChangeRule("negation", "negation", "fall", negated),
    ChangeRule("case", "case", "stay", case),
    ChangeRule("punctuation", "punctuation", "stay", punctuation),
    ChangeRule("synonym", "synonym", "stay", synonym),
    ChangeRule("sentence_order", "order of sentences", "stay", sentence_order),
)
"""The fourteen rules; that of the surface, 12, is two. Sources of what metrics were asked before: Sai et al. 2021
(EvalEval), Ahmadi and Agrawal 2024 (arXiv:2305.14998)."""

GAMES: tuple[ChangeRule, ...] = (
    ChangeRule("blank", "blank", "game", blank),
    ChangeRule("same_for_all", "the same for all", "game", same_for_all),
    ChangeRule("references_1", "1 reference", "game", references(1)),
    ChangeRule("references_2", "2 references glued", "game", references(2)),
    ChangeRule("references_4", "4 references glued", "game", references(4)),
    ChangeRule("own_2", "its own, twice", "game", own(2)),
    ChangeRule("own_4", "its own, 4 times", "game", own(4)),
)
"""What a captioner might write for the metric's sake."""

CHANGES = (*RULES, *GAMES)
