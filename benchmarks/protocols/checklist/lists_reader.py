"""Reads captions by lists of words and the order in which they stand; needs nothing but this package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .captions import CaptionReader, Kind, ReadCaption, Token
from .words import Words

_TOKENS = re.compile(r"(['’](?:s|t|re|ve|ll|d|m)\b|\w+(?:['’-]\w+)*|[^\w\s])(\s*)")
_SIDES = ("left", "right", "top", "bottom")
_DENIALS = frozenset({"not", "never", "no", "cannot"})


class ListsReader(CaptionReader):
    """Knows the words of the lists alone, and finds only what they leave no doubt of.

    A noun phrase is an article or number, adjectives and nouns of the lists. A place with a word that the lists do
    not have is passed over: fewer captions are changed than by a parser, and hardly one wrongly.

    Args:
        words: The lists.
    """

    def __init__(self, words: Words) -> None:
        self._words = words

    def said(self) -> str:
        """Return the name of the lists."""
        return f"lists of words ({self._words.digest[:12]})"

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        return map(self._read, texts)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return the other nouns of the group that a noun is of."""
        return [self._words.sisters.get(noun, ())]

    def _read(self, text: str) -> ReadCaption:
        pieces: list[tuple[str, str]] = _TOKENS.findall(text)
        low = [word.lower() for word, _ in pieces]
        kinds = self._kinds(low)
        tokens: list[Token] = []
        for (word, space), small, kind in zip(pieces, low, kinds, strict=True):
            lemma = self._words.singular.get(small, small) if kind == "noun" else small
            tokens.append(Token(word, space, kind, lemma, kind == "noun" and small != lemma))
        return ReadCaption(
            tuple(tokens),
            tuple(self._relations(low, kinds)),
            tuple(self._phrases(low, kinds)),
            tuple(self._modifiers(kinds)),
            tuple(self._negations(low, tokens)),
        )

    def _kinds(self, low: Sequence[str]) -> list[Kind]:
        """Return what each word is; from the last one to the first, as adjectives depend on what follows."""
        words = self._words
        kinds: list[Kind] = ["other"] * len(low)
        for at in reversed(range(len(low))):
            word, following = low[at], kinds[at + 1] if at + 1 < len(low) else "mark"
            if not any(map(str.isalnum, word)):
                kinds[at] = "mark"
            elif word in words.articles and word not in words.numbers:
                kinds[at] = "article"
            elif word in words.auxiliaries:
                kinds[at] = "auxiliary"
            elif word in words.prepositions:
                kinds[at] = "preposition"
            elif (word in words.numbers or word.isdecimal()) and following in ("noun", "adjective"):
                kinds[at] = "number"
            elif word in words.adjectives and (
                following in ("noun", "adjective") or word in words.colours or word in words.spellings
            ):
                kinds[at] = "adjective"
            elif word in words.singular and self._is_noun(low, at):
                kinds[at] = "noun"
        return kinds

    def _is_noun(self, low: Sequence[str], at: int) -> bool:
        """Tell whether a word that may be a verb stands where a noun does: behind an article, say."""
        words, before = self._words, low[at - 1] if at else ""
        return (
            low[at] not in words.negated or before in words.articles | words.adjectives | words.prepositions
        )

    def _noun_phrase(self, kinds: Sequence[Kind], start: int) -> int:
        """Return the token after a noun phrase that begins at a place; the place itself if none does."""
        at = start
        for wanted in (("article",), ("number",), ("adjective",)):
            while at < len(kinds) and kinds[at] in wanted:
                at += 1
        first = at
        while at < len(kinds) and kinds[at] == "noun":
            at += 1
        return at if at > first else start

    def _phrases(self, low: Sequence[str], kinds: Sequence[Kind]) -> Iterator[tuple[int, int]]:
        for start, kind in enumerate(kinds):
            if (
                kind != "preposition"
                or start == 0
                or kinds[start - 1] in ("preposition", "auxiliary", "mark")
            ):
                continue
            end = self._noun_phrase(kinds, start + 1)
            if end == start + 1 or low[start - 1] in self._words.particles:
                continue
            while (
                end < len(low) and low[end] == "of" and (more := self._noun_phrase(kinds, end + 1)) > end + 1
            ):
                end = more
            if self._ends_phrase(low, kinds, end) and 2 * (end - start) <= len(low):
                yield start, end

    def _ends_phrase(self, low: Sequence[str], kinds: Sequence[Kind], at: int) -> bool:
        """Tell whether a noun before a place has nothing more to it."""
        return (
            at == len(low)
            or kinds[at] in ("mark", "preposition", "auxiliary")
            or low[at] in self._words.negated
            or low[at] in ("and", "while", "as", "who", "that", "which")
        )

    def _relations(self, low: Sequence[str], kinds: Sequence[Kind]) -> Iterator[int]:
        for at, kind in enumerate(kinds):
            if low[at] not in self._words.opposites:
                continue
            following = low[at + 1 : at + 3]
            if kind == "noun" or (
                kind == "preposition"
                and kinds[at + 1 : at + 2]
                and kinds[at + 1] in ("article", "number", "adjective", "noun")
                # "on top of", "on the left": the side is what says where.
                and not any(word in _SIDES for word in following)
            ):
                yield at

    def _modifiers(self, kinds: Sequence[Kind]) -> Iterator[tuple[int, int]]:
        for at, kind in enumerate(kinds):
            if kind == "adjective":
                end = at + 1
                while end < len(kinds) and kinds[end] in ("adjective", "noun"):
                    end += 1
                if kinds[end - 1] == "noun":
                    yield at, end - 1

    def _negations(self, low: Sequence[str], tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
        if _DENIALS.intersection(low) or any(word.endswith(("n't", "n’t")) for word in low):
            return
        for at, token in enumerate(tokens):
            before = tokens[at - 1] if at else None
            follows = tokens[at + 1].kind if at + 1 < len(tokens) else "mark"
            if token.kind == "auxiliary" and follows != "mark":
                yield at, f"{token.text} not"
            elif (
                token.kind == "other"
                and (denied := self._words.negated.get(low[at])) is not None
                and before is not None
                and before.kind == "noun"
                and follows != "noun"
                and before.plural >= denied.startswith("do ")
                and before.plural <= (not denied.startswith("does "))
            ):
                yield at, denied
