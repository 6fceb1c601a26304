"""Rules that leave words out, add sentences, or change their order and their signs."""

from __future__ import annotations

import math
import re

from .captions import ended, written
from .given import Given, Unchanged, drawn

_JOINING = re.compile(r"(?<=\w)[-'’.,:](?=\w)|['’](?=(?:s|t|re|ve|ll|d|m)\b)")
_MARK = re.compile(r"[^\w\s]|_")


def object_left_out(given: Given) -> str:
    """Drop a prepositional phrase, at most half of the caption."""
    phrases = given.read.phrases
    if not phrases:
        raise Unchanged("has no prepositional phrase that can be left out")
    start, end = phrases[given.pick("object_left_out", len(phrases))]
    pieces = [(token.text, token.space) for token in given.read.tokens]
    # What stood behind the phrase stands behind the word before it.
    pieces[start - 1] = (pieces[start - 1][0], pieces[end - 1][1])
    return written(pieces[:start] + pieces[end:])


def sentence_made_up(given: Given) -> str:
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
    raise Unchanged("shares a noun with every sentence of other images")


def words_shuffled(given: Given) -> str:
    """Bring the words into another order, without punctuation."""
    words = [token.text.lower() for token in given.read.tokens if token.kind != "mark"]
    if len(set(words)) < 4:
        raise Unchanged("has fewer than four different words")
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


def sentence_repeated(given: Given) -> str:
    """Say a sentence once more, at the end."""
    found = given.sentences
    again = found[given.pick("sentence_repeated", len(found))]
    return f"{ended(given.text)} {again[:1].upper()}{ended(again)[1:]}"


def end_cut(given: Given) -> str:
    """Keep the first two thirds of the words."""
    words = given.text.split()
    kept = math.ceil(2 * len(words) / 3)
    if len(words) - kept < 2:
        raise Unchanged("has too few words to lose two of them")
    return " ".join(words[:kept])


def case(given: Given) -> str:
    """Write all in small letters; in capitals what has none."""
    lower = given.text.lower()
    changed = lower if lower != given.text else given.text.upper()
    if changed == given.text:
        raise Unchanged("has no letter with a small and a capital form")
    return changed


def punctuation(given: Given) -> str:
    """Take away the marks that do not join two letters; end with a full stop what has none."""
    joined = {found.start() for found in _JOINING.finditer(given.text)}
    plain = "".join(
        " " if _MARK.match(sign) and at not in joined else sign for at, sign in enumerate(given.text)
    )
    if plain == given.text:
        return ended(given.text)
    return " ".join(plain.split())


def sentence_order(given: Given) -> str:
    """Move the first sentence to the end."""
    first, *others = given.sentences
    if not others or [*others, first] == [first, *others]:
        raise Unchanged("has one sentence alone")
    return " ".join([*others[:-1], ended(others[-1]), first])
