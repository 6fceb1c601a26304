"""Rules that put other words in the place of some."""

from __future__ import annotations

from itertools import combinations

from .captions import Token, replaced
from .given import Given, Unchanged
from .words import Words, cased


def object_replaced(given: Given) -> str:
    """Replace an object by another of its kind, which neither the caption nor a reference names."""
    corpus, words = given.corpus, given.corpus.words
    sites: list[tuple[int, list[str]]] = []
    for at, token in enumerate(given.read.tokens):
        if token.kind != "noun" or token.lemma in words.never_replaced:
            continue
        for tier in corpus.reader.sisters(token.lemma):
            fitting = [
                one
                for one in tier
                if one not in words.never_replaced and given.is_new(one) and corpus.is_known(one)
            ]
            if fitting:
                sites.append((at, fitting))
                break
    if not sites:
        raise Unchanged("has no object for which the data knows another of its kind")
    at, fitting = sites[given.pick("object_replaced", len(sites))]
    noun = fitting[given.pick("object_replaced|by", len(fitting))]
    return _with_noun(given, at, noun)


def attribute_replaced(given: Given) -> str:
    """Replace a colour or material by another, a size, age or state by its opposite; not by what references say."""
    sites: list[tuple[int, list[str]]] = []
    for at, token in enumerate(given.read.tokens):
        if token.kind == "adjective" and (others := _other_attributes(token, given.corpus.words)):
            fitting = [one for one in others if one not in given.said]
            if fitting:
                sites.append((at, fitting))
    if not sites:
        raise Unchanged(
            "has no colour, size, age, state or material with another that its references do not say"
        )
    at, fitting = sites[given.pick("attribute_replaced", len(sites))]
    return _with(given, at, fitting[given.pick("attribute_replaced|by", len(fitting))])


def relation_replaced(given: Given) -> str:
    """Replace a preposition or a side by its opposite."""
    sites = given.read.relations
    if not sites:
        raise Unchanged("has no preposition or side with an opposite")
    at = sites[given.pick("relation_replaced", len(sites))]
    return _with(given, at, given.corpus.words.opposites[given.read.tokens[at].text.lower()])


def number_replaced(given: Given) -> str:
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
    if not sites:
        raise Unchanged("counts nothing, or one")
    return _with(given, *sites[given.pick("number_replaced", len(sites))])


def attributes_swapped(given: Given) -> str:
    """Let two adjectives of one sentence, which belong to two nouns, change places."""
    tokens, read = given.read.tokens, given.read
    usable = [
        one for one in read.modifiers if tokens[one[0]].text.lower() not in given.corpus.words.not_swapped
    ]
    pairs = [
        (first, second)
        for (first, noun), (second, other) in combinations(usable, 2)
        if noun != other
        and read.sentence_of[first] == read.sentence_of[second]
        and tokens[first].text.lower() != tokens[second].text.lower()
    ]
    if not pairs:
        raise Unchanged("has no sentence with adjectives of two nouns")
    first, second = pairs[given.pick("attributes_swapped", len(pairs))]
    one, other = tokens[first].text, tokens[second].text
    by = {first: _in_place_of(one, other), second: _in_place_of(other, one)}
    return replaced(tokens, by, given.corpus.words)


def negated(given: Given) -> str:
    """Deny what a sentence says: "is not", "does not run", "not running"."""
    sites = given.read.negations
    if not sites:
        raise Unchanged("has no verb to deny, or denies something already")
    at, denied = sites[given.pick("negation", len(sites))]
    return _with(given, at, denied)


def synonym(given: Given) -> str:
    """Replace a noun by one of the same meaning."""
    synonyms = given.corpus.words.synonyms
    sites = [
        at for at, token in enumerate(given.read.tokens) if token.kind == "noun" and token.lemma in synonyms
    ]
    if not sites:
        raise Unchanged("has no noun of the list of synonyms")
    at = sites[given.pick("synonym", len(sites))]
    return _with_noun(given, at, synonyms[given.read.tokens[at].lemma])


def _other_attributes(token: Token, words: Words) -> list[str]:
    word = token.text.lower()
    colour = words.spellings.get(word, word)
    if colour in words.colours:
        return [one for one in words.colours if one != colour]
    if word in words.antonyms:
        return [words.antonyms[word]]
    return [one for one in words.materials if one != word] if word in words.materials else []


def _with_noun(given: Given, at: int, noun: str) -> str:
    words = given.corpus.words
    return _with(given, at, words.plural(noun) if given.read.tokens[at].plural else noun)


def _with(given: Given, at: int, word: str) -> str:
    tokens = given.read.tokens
    return replaced(tokens, {at: cased(word, tokens[at].text)}, given.corpus.words)


def _in_place_of(old: str, new: str) -> str:
    """Return a word with the first letter's case of the one whose place it takes."""
    return cased(new, old) if old[:1].isupper() else new[:1].lower() + new[1:]
