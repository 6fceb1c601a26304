"""The rules that change captions, and the expected change of the score for each."""

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

from .captions import ReadCaption, Token, WordLists, cased, ended, replaced, sentences, words_of, written
from .readers import CaptionReader

VERSION = 2
"""Raised when a rule changes."""

Expected = Literal["fall", "stay", "game"]
_JOINING = re.compile(r"(?<=\w)[-'’.,:](?=\w)|['’](?=(?:s|t|re|ve|ll|d|m)\b)")
_REFERS = re.compile(
    r"(?:It|Its|They|Their|Them|He|His|She|Her|This|That|These|Those|Both|Another|Other|Others|All|Each|One|Some|Most|"
    r"Also|However|Additionally|Similarly|Instead|Then)\b"
)
_MARK = re.compile(r"[^\w\s#$%&*+/<=>@^|~°]|_")
SiteT = TypeVar("SiteT")


class NothingToChange(Exception):  # noqa: N818 - not an error: most rules find nothing to change in some captions
    """A rule found nothing to change; the message is the reason."""


@dataclass(frozen=True)
class Donor:
    """A sentence of one image that may be added to a caption of another.

    Attributes:
        image: Its image.
        sentence: The sentence.
        nouns: Its nouns, in their base form.
    """

    image: str
    sentence: str
    nouns: frozenset[str]


@dataclass(frozen=True)
class SourceCorpus:
    """All captions of the data, as rules use them.

    Attributes:
        words: The word lists.
        reader: The reader.
        seed: Seed of choices.
        seen: Number of captions with each word.
        least_seen: The least number of captions with a noun that replaces another.
        donors: A sentence of each caption.
        typical: The caption that fits all images best.
    """

    words: WordLists
    reader: CaptionReader
    seed: int
    seen: Counter[str]
    least_seen: int
    donors: Sequence[Donor]
    typical: str = ""

    def is_known(self, noun: str) -> bool:
        """Return whether a noun occurs in at least ``least_seen`` captions."""
        forms = {noun, self.words.plural(noun)}
        return sum(self.seen[form] for form in forms) >= self.least_seen


@dataclass(frozen=True)
class RuleInput:
    """A caption that a rule may change.

    Attributes:
        image: Its image.
        text: The caption.
        read: The findings of the reader.
        references: Its references.
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
        """Return a number below ``count`` that depends only on the seed, the purpose and the caption."""
        return drawn(f"{self.corpus.seed}|{purpose}|{self.text}") % count

    def choose(self, purpose: str, sites: Sequence[SiteT], none: str) -> SiteT:
        """Return one of the sites that a rule may change, chosen by :meth:`pick`.

        Raises:
            NothingToChange: There is none.
        """
        if not sites:
            raise NothingToChange(none)
        return sites[self.pick(purpose, len(sites))]

    def is_new(self, noun: str) -> bool:
        """Return whether neither caption nor references contain a noun or its synonym, singular or plural."""
        words = self.corpus.words
        nouns = (noun, words.synonyms.get(noun, noun))
        return self.said.isdisjoint((*nouns, *map(words.plural, nouns)))


Change = Callable[[RuleInput], str]
"""Changes a caption.

Raises:
    NothingToChange: There is nothing to change.
"""


def drawn(text: str) -> int:
    """Return the first 32 bits of the SHA-256 of a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


# --- replaced words


def object_replaced(caption: RuleInput) -> str:
    """Replace an object by another of its kind that neither the caption nor a reference names."""
    corpus, words = caption.corpus, caption.corpus.words
    sites: list[tuple[int, list[str]]] = []
    tokens = caption.read.tokens
    for at, token in enumerate(tokens):
        # A "school of fish" is no museum.
        if not token.head or [token.text for token in tokens[at + 1 : at + 2]] == ["of"]:
            continue
        if token.kind != "noun" or token.lemma in words.never_replaced:
            continue
        for tier in corpus.reader.sisters(token.lemma):
            known = (noun for noun in tier if noun not in words.never_replaced and corpus.is_known(noun))
            if fitting := list(filter(caption.is_new, known)):
                sites.append((at, fitting))
                break
    at, fitting = caption.choose("object_replaced", sites, "has no object for which the data knows another of its kind")
    return _with_noun(caption, at, fitting[caption.pick("object_replaced|by", len(fitting))])


def attribute_replaced(caption: RuleInput) -> str:
    """Replace a colour or material by another, a size, age or state by its opposite; never by a reference's word."""
    sites: list[tuple[int, list[str]]] = []
    for at, noun in caption.read.modifiers:
        others = _other_attributes(caption.read.tokens, at, noun, caption.corpus.words)
        if fitting := [word for word in others if word not in caption.said]:
            sites.append((at, fitting))
    at, fitting = caption.choose(
        "attribute_replaced",
        sites,
        "has no colour, size, age, state or material with another that its references do not say",
    )
    return _with(caption, at, fitting[caption.pick("attribute_replaced|by", len(fitting))])


def relation_replaced(caption: RuleInput) -> str:
    """Replace a preposition or a side by its opposite."""
    at = caption.choose("relation_replaced", caption.read.relations, "has no preposition or side with an opposite")
    tokens, opposites = caption.read.tokens, caption.corpus.words.opposites
    word, end = tokens[at].text.lower(), at + 1
    if word == "in":
        word, end = "in front of", at + 3
    pieces = [(token.text, token.space) for token in tokens]
    return written([*pieces[:at], (cased(opposites[word], tokens[at].text), tokens[end - 1].space), *pieces[end:]])


def number_replaced(caption: RuleInput) -> str:
    """Add two to a number from two to ten in letters, or to twenty in digits."""
    numbers = caption.corpus.words.numbers
    sites: list[tuple[int, str]] = []
    for at, token in enumerate(caption.read.tokens):
        word = token.text.lower()
        if token.kind != "number":
            continue
        if word in numbers[1:10]:
            sites.append((at, numbers[numbers.index(word) + 2]))
        elif word.isdecimal() and 2 <= int(word) <= 20:
            sites.append((at, str(int(word) + 2)))
    return _with(caption, *caption.choose("number_replaced", sites, "counts nothing, or one"))


def attributes_swapped(caption: RuleInput) -> str:
    """Swap two adjectives of one sentence that modify different nouns."""
    tokens, read, words = caption.read.tokens, caption.read, caption.corpus.words
    said = Counter((read.sentence_of[at], token.text.lower()) for at, token in enumerate(tokens))
    usable = [pair for pair in read.modifiers if said[read.sentence_of[pair[0]], tokens[pair[0]].text.lower()] == 1]
    pairs = [
        (first, second)
        for (first, noun), (second, other) in combinations(usable, 2)
        if tokens[noun].lemma != tokens[other].lemma
        and read.sentence_of[first] == read.sentence_of[second]
        and tokens[second].text.lower() in _other_attributes(tokens, first, noun, words)
        and tokens[first].text.lower() in _other_attributes(tokens, second, other, words)
    ]
    first, second = caption.choose("attributes_swapped", pairs, "has no sentence with like adjectives of two nouns")
    word, other = tokens[first].text, tokens[second].text
    by = {first: _in_place_of(word, other), second: _in_place_of(other, word)}
    return replaced(tokens, by, caption.corpus.words)


def negation(caption: RuleInput) -> str:
    """Negate a sentence: "is not", "does not run", "not running"."""
    none = "has no verb to deny, or denies something already"
    return _with(caption, *caption.choose("negation", caption.read.negations, none))


def synonym(caption: RuleInput) -> str:
    """Replace a noun by a synonym."""
    synonyms, said = caption.corpus.words.synonyms, words_of(caption.text)
    sites = [
        at
        for at, token in enumerate(caption.read.tokens)
        if token.kind == "noun" and token.head and (other := synonyms.get(token.lemma))
        # "Bushes and shrubs" would be "bushes and bushes".
        if said.isdisjoint((other, caption.corpus.words.plural(other)))
    ]
    at = caption.choose("synonym", sites, "has no noun of the list of synonyms")
    return _with_noun(caption, at, synonyms[caption.read.tokens[at].lemma])


def _other_attributes(tokens: Sequence[Token], at: int, noun: int, words: WordLists) -> list[str]:
    """Return what the adjective at ``at`` can be replaced by before the noun at ``noun``."""
    word = tokens[at].text.lower()
    colour = words.spellings.get(word, word)
    if colour in words.colours:
        shaded = at > 0 and tokens[at - 1].text.lower() in words.shades
        return [other for other in words.colours[colour] if not shaded or other not in ("black", "white")]
    if word in ("light", "dark") and tokens[at + 1].text.lower() in words.colours:
        return ["dark" if word == "light" else "light"]
    opposites = words.antonyms.get(word, {}).items()
    return [
        *(other for other, nouns in opposites if not nouns or tokens[noun].lemma in nouns),
        *words.materials.get(word, ()),
    ]


def _with_noun(caption: RuleInput, at: int, noun: str) -> str:
    words = caption.corpus.words
    return _with(caption, at, words.plural(noun) if caption.read.tokens[at].plural else noun)


def _with(caption: RuleInput, at: int, word: str) -> str:
    tokens = caption.read.tokens
    return replaced(tokens, {at: cased(word, tokens[at].text)}, caption.corpus.words)


def _in_place_of(old: str, new: str) -> str:
    """Return a word with the first letter's case of the word that it replaces."""
    return cased(new, old) if old[:1].isupper() else new[:1].lower() + new[1:]


# --- removed words, added sentences, order, punctuation and case


def object_left_out(caption: RuleInput) -> str:
    """Drop a prepositional phrase, at most half of the caption."""
    none = "has no prepositional phrase that can be left out"
    start, end = caption.choose("object_left_out", caption.read.phrases, none)
    pieces = [(token.text, token.space) for token in caption.read.tokens]
    if pieces[end - 1][0] == ",":
        pieces[end] = (pieces[end][0][:1].upper() + pieces[end][0][1:], pieces[end][1])
    else:
        # The space after the phrase moves to the word before it.
        pieces[start - 1] = (pieces[start - 1][0], pieces[end - 1][1])
    return written(pieces[:start] + pieces[end:])


def sentence_made_up(caption: RuleInput) -> str:
    """Append a sentence of another image that shares no noun with the caption or references."""
    donors = caption.corpus.donors
    first = caption.pick("sentence_made_up", max(1, len(donors)))
    nouns, plural = caption.read.nouns, caption.corpus.words.plural
    for donor in (*donors[first:], *donors[:first]):
        if (
            donor.image != caption.image
            and donor.nouns.isdisjoint(nouns)
            and caption.said.isdisjoint(form for noun in donor.nouns for form in (noun, plural(noun)))
        ):
            return f"{ended(caption.text)} {donor.sentence[:1].upper()}{ended(donor.sentence)[1:]}"
    raise NothingToChange("shares a noun with every sentence about objects of other images")


def words_shuffled(caption: RuleInput) -> str:
    """Shuffle the words, without punctuation."""
    words = [token.text.lower() for token in caption.read.tokens if token.kind != "mark"]
    if len(set(words)) < 4:
        raise NothingToChange("has fewer than four different words")
    order = range(len(words))
    attempt = 0
    # One in 24 shuffles of four words changes nothing.
    while [words[at] for at in order] == words:
        key = f"{caption.corpus.seed}|words_shuffled|{caption.text}|{attempt}"
        order = sorted(range(len(words)), key=lambda at, key=key: drawn(f"{key}|{at}"))
        attempt += 1
    shuffled = " ".join(words[at] for at in order)
    # After "a" or "no" a full stop would be read as that of an abbreviation.
    return f"{shuffled[:1].upper()}{shuffled[1:]} ."


def sentence_repeated(caption: RuleInput) -> str:
    """Repeat a sentence at the end."""
    parts = caption.sentences
    again = parts[caption.pick("sentence_repeated", len(parts))]
    return f"{ended(caption.text)} {again[:1].upper()}{ended(again)[1:]}"


def end_cut(caption: RuleInput) -> str:
    """Keep the first two thirds of the words."""
    words = caption.text.split()
    kept = math.ceil(2 * len(words) / 3)
    if len(words) - kept < 2:
        raise NothingToChange("has too few words to lose two of them")
    return " ".join(words[:kept])


def case(caption: RuleInput) -> str:
    """Lower-case the caption; upper-case it if it has no capitals."""
    lower = caption.text.lower()
    changed = lower if lower != caption.text else caption.text.upper()
    if changed == caption.text:
        raise NothingToChange("has no letter with a small and a capital form")
    return changed


def punctuation(caption: RuleInput) -> str:
    """Remove punctuation except inside words; add a final full stop if the caption has none."""
    joined = {match.start() for match in _JOINING.finditer(caption.text)}
    plain = "".join(" " if _MARK.match(sign) and at not in joined else sign for at, sign in enumerate(caption.text))
    return ended(caption.text) if plain == caption.text else " ".join(plain.split())


def sentence_order(caption: RuleInput) -> str:
    """Move the first sentence to the end."""
    first, *others = caption.sentences
    if not others or [*others, first] == [first, *others]:
        raise NothingToChange("has one sentence alone")
    if _REFERS.match(others[0]):
        raise NothingToChange("has a second sentence that refers to the first")
    return " ".join([*others[:-1], ended(others[-1]), first])


# --- games: captions that could raise a metric and help no reader


def blank(caption: RuleInput) -> str:
    """Return an empty caption."""
    return ""


def same_for_all(caption: RuleInput) -> str:
    """Return the caption that fits most images."""
    return caption.corpus.typical


def references(count: int) -> Change:
    """Return a change that joins the first ``count`` references."""

    def change(caption: RuleInput) -> str:
        if len(caption.references) < count:
            raise NothingToChange(f"has fewer than {count} references")
        return " ".join(map(ended, caption.references[:count])) if count > 1 else caption.references[0]

    return change


def own(times: int) -> Change:
    """Return a change that repeats the caption ``times`` times."""

    def change(caption: RuleInput) -> str:
        return " ".join([ended(caption.text)] * times)

    return change


def typical(captions: Sequence[str], seen: Counter[str]) -> str:
    """Return the caption whose words occur in the most captions on average, among those that are not short.

    Args:
        captions: All captions.
        seen: Number of captions with each word.
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
        name: Its name in results.
        label: Its label in tables.
        expected: ``fall`` if the rule makes a caption worse; ``stay`` if it keeps the meaning; ``game`` if it
            makes a caption that only aims at a high score.
        change: Makes the changed caption.
    """

    name: str
    label: str
    expected: Expected
    change: Change


RULES: tuple[ChangeRule, ...] = (
    *(
        ChangeRule(change.__name__, change.__name__.replace("_", " "), "fall", change)
        for change in (
            object_replaced, attribute_replaced, relation_replaced, number_replaced, object_left_out, sentence_made_up,
            words_shuffled, attributes_swapped, sentence_repeated, end_cut, negation,
        )
    ),
    *(ChangeRule(change.__name__, change.__name__, "stay", change) for change in (case, punctuation, synonym)),
    ChangeRule("sentence_order", "order of sentences", "stay", sentence_order),
)  # fmt: skip
"""The fourteen rules; rule 12, of the surface, is two. Sources of earlier checklists: Sai et al. 2021
(EvalEval), Ahmadi and Agrawal 2024 (arXiv:2305.14998)."""

GAMES: tuple[ChangeRule, ...] = (
    ChangeRule("blank", "blank", "game", blank),
    ChangeRule("same_for_all", "the same for all", "game", same_for_all),
    ChangeRule("references_1", "1 reference", "game", references(1)),
    *(ChangeRule(f"references_{n}", f"{n} references glued", "game", references(n)) for n in (2, 4)),
    ChangeRule("own_2", "caption repeated twice", "game", own(2)),
    ChangeRule("own_4", "caption repeated 4 times", "game", own(4)),
)
"""Captions that a captioner might write only to raise the metric."""

CHANGES = (*RULES, *GAMES)
