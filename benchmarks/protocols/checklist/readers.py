"""Readers of captions: word lists, which need no other package, or a spaCy pipeline with WordNet."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from ....errors import DataError, MetricError
from ....metrics.capture import wordnet
from ....metrics.words.spacy_pipelines import load_pipeline
from .captions import Kind, ReadCaption, Token, WordLists

if TYPE_CHECKING:
    from spacy.tokens import Doc  # pyright: ignore[reportMissingImports] - an extra
    from spacy.tokens import Token as Parsed  # pyright: ignore[reportMissingImports]

_TOKENS = re.compile(r"(['’](?:s|t|re|ve|ll|d|m)\b|\w+(?:['’-]\w+)*|[^\w\s])(\s*)")
_SIDES = ("left", "right", "top", "bottom")
_DENIALS = frozenset({"not", "never", "no", "cannot"})


class ListsReader:
    """Knows only the words of the lists, and finds only unambiguous uses.

    A noun phrase is an article or number, adjectives and nouns of the lists. Phrases with an unknown word are skipped:
    fewer captions are changed than with a parser, and very few incorrectly.

    Args:
        words: The lists.
    """

    def __init__(self, words: WordLists) -> None:
        self._words = words

    def said(self) -> str:
        """Return the name of the word lists."""
        return f"word lists ({self._words.digest[:12]})"

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        return map(self._read, texts)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return the other nouns of a noun's group."""
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
        """Return the kind of each word; from the last to the first, as adjectives depend on the next word."""
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
        """Return whether a possible verb is in a noun's position, such as after an article."""
        words, before = self._words, low[at - 1] if at else ""
        return low[at] not in words.negated or before in words.articles | words.adjectives | words.prepositions

    def _noun_phrase(self, kinds: Sequence[Kind], start: int) -> int:
        """Return the index after a noun phrase that begins at an index, or the same index if none does."""
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
            if kind != "preposition" or start == 0 or kinds[start - 1] in ("preposition", "auxiliary", "mark"):
                continue
            end = self._noun_phrase(kinds, start + 1)
            if end == start + 1 or low[start - 1] in self._words.particles:
                continue
            while end < len(low) and low[end] == "of" and (more := self._noun_phrase(kinds, end + 1)) > end + 1:
                end = more
            is_whole = (
                end == len(low)
                or kinds[end] in ("mark", "preposition", "auxiliary")
                or low[end] in self._words.negated
                or low[end] in ("and", "while", "as", "who", "that", "which")
            )
            if is_whole and 2 * (end - start) <= len(low):
                yield start, end

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


_FINITE = {"VBZ": "does", "VBP": "do", "VBD": "did"}


class SpacyReader:
    """Reads by a dependency parse.

    Args:
        pipeline: An English pipeline with tagger, parser and lemmatizer: a package's name or a folder.
        words: The lists.
    """

    def __init__(self, pipeline: str, words: WordLists) -> None:
        self._name = pipeline
        self._words = words

    def said(self) -> str:
        """Return the versions of spaCy, of the pipeline and of WordNet.

        Raises:
            DataError: One is missing; the hint says what to install.
        """
        pipeline, sisters = self._loaded
        meta = pipeline.meta
        return (
            f"spaCy {importlib.metadata.version('spacy')}, {meta['lang']}_{meta['name']} {meta['version']}, "
            f"WordNet ({sisters.digest[:12]}) and word lists ({self._words.digest[:12]})"
        )

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        for doc in self._loaded[0].pipe(texts, batch_size=64):
            yield read_doc(doc, self._words)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return nouns of the same parent, and of the same grandparent, in WordNet."""
        return self._loaded[1].sisters(noun)

    @cached_property
    def _loaded(self) -> tuple[Any, WordNetSisters]:
        try:
            pipeline = load_pipeline(self._name, "the checklist's reader 'spacy'", "the task's 'pipeline'")
            return pipeline, WordNetSisters()
        except MetricError as error:
            hint = f"{error.hint} Or set 'protocol: {{reader: lists}}', which needs neither."
            raise DataError(error.message, hint) from error


CaptionReader = ListsReader | SpacyReader
"""Finds the tokens of captions that rules change."""


def read_doc(doc: Doc, words: WordLists) -> ReadCaption:
    """Return the tokens of a parsed caption that rules may change.

    Args:
        doc: The caption, with tags, parts of speech, lemmas and dependencies.
        words: The lists.
    """
    return ReadCaption(
        tuple(
            Token(token.text, token.whitespace_, _kind(token, words), token.lemma_.lower(), token.tag_ == "NNS")
            for token in doc
        ),
        tuple(token.i for token in doc if _is_relation(token, words)),
        tuple(_parsed_phrases(doc, words)),
        tuple(
            (token.i, token.head.i)
            for token in doc
            if token.dep_ == "amod" and token.tag_ == "JJ" and token.head.pos_ == "NOUN" and not _is_joined(token)
        ),
        tuple(negation for token in doc if (negation := _negated(token)) is not None),
    )


def _kind(token: Parsed, words: WordLists) -> Kind:
    word = token.lower_
    if token.is_punct or token.is_space:
        return "mark"
    if _is_joined(token):
        return "other"
    if token.pos_ in ("ADJ", "NOUN") and (word in words.colours or word in words.spellings):
        return "adjective"
    if token.tag_ == "JJ" or (word in words.materials and token.dep_ in ("amod", "compound")):
        return "adjective"
    if token.tag_ in ("NN", "NNS"):
        return "noun"
    return "number" if token.pos_ == "NUM" and token.dep_ == "nummod" else "other"


def _is_relation(token: Parsed, words: WordLists) -> bool:
    if token.lower_ not in words.opposites:
        return False
    if token.lower_ in _SIDES:
        return token.pos_ in ("NOUN", "ADJ")
    objects = [child for child in token.children if child.dep_ == "pobj"]
    # "on top of", "on the left": the side is what says where.
    return token.pos_ == "ADP" and any(child.lower_ not in _SIDES for child in objects)


def _parsed_phrases(doc: Doc, words: WordLists) -> Iterator[tuple[int, int]]:
    for token in doc:
        head = token.head
        if token.dep_ != "prep" or head.i >= token.i or head.pos_ == "AUX" or head.lower_ in words.particles:
            continue
        if not any(child.dep_ == "pobj" and child.pos_ == "NOUN" for child in token.children):
            continue
        subtree = [word.i for word in token.subtree]
        if doc[subtree[-1]].is_punct:
            subtree.pop()
        start, end = subtree[0], subtree[-1] + 1
        if start == token.i and end - start == len(subtree) and 2 * (end - start) <= len(doc):
            yield start, end


def _is_joined(token: Parsed) -> bool:
    """Return whether a hyphen makes a token a part of a longer word ("high-angle")."""
    after = token.nbor(1).text if not token.whitespace_ and token.i + 1 < len(token.doc) else ""
    before = token.nbor(-1) if token.i else None
    return after == "-" or (before is not None and before.text == "-" and not before.whitespace_)


def _negated(token: Parsed) -> tuple[int, str] | None:
    """Return the verb of a sentence and its negation, unless the sentence is negated already."""
    if any(child.dep_ == "neg" for word in (token, token.head) for child in word.children):
        return None
    helpers = [child for child in token.children if child.dep_ in ("aux", "auxpass")]
    finite = token.tag_ in (*_FINITE, "MD")
    first = token.dep_ in ("aux", "auxpass") and token.i == min(
        child.i for child in token.head.children if child.dep_ in ("aux", "auxpass")
    )
    if finite and (first or (token.lemma_ == "be" and not helpers)):
        return token.i, f"{token.text} not"
    if token.pos_ != "VERB" or helpers:
        return None
    if token.tag_ in _FINITE and any(child.dep_ == "nsubj" for child in token.children):
        return token.i, f"{_FINITE[token.tag_]} not {token.lemma_}"
    if token.tag_ == "VBG" and token.dep_ in ("ROOT", "acl"):
        return token.i, f"not {token.text}"
    return None


_PHYSICAL = frozenset({5, 6, 8, 11, 13, 15, 17, 18, 20, 27})
"""WordNet's lexicographer files of animals, artefacts, bodies, events, food, places, objects, persons, plants and
substances (lexnames(5WN))."""


class WordNetSisters:
    """Finds sister nouns of a noun, by the first sense of both.

    Raises:
        MetricError: WordNet is missing or cannot be read.
    """

    def __init__(self) -> None:
        database = wordnet.load(wordnet.find())
        self.digest = database.digest
        self._index, self._data = database.index["noun"], database.data["noun"]

    @lru_cache(maxsize=50_000)  # noqa: B019 - one instance per run
    def sisters(self, noun: str) -> tuple[tuple[str, ...], ...]:
        """Return the nouns below a noun's parents, and those below its grandparents; only visible things.

        Args:
            noun: A lemma; other forms have none.

        Returns:
            Nouns of the same lexicographer file whose first sense is that synset, sorted.
        """
        sense = self._first_sense(noun)
        if sense is None or self._file(sense) not in _PHYSICAL:
            return ()
        parents = self._related(sense, "@")
        grandparents = [grandparent for parent in parents for grandparent in self._related(parent, "@")]
        return self._below(parents, sense), self._below(grandparents, sense)

    def _below(self, parents: list[str], sense: str) -> tuple[str, ...]:
        below = {child for parent in parents for child in self._related(parent, "~")} - {sense}
        alike = [other for other in below if self._file(other) == self._file(sense)]
        return tuple(sorted({n for other in alike for n in self._names(other) if self._first_sense(n) == other}))

    def _first_sense(self, lemma: str) -> str | None:
        line = self._index.get(lemma)
        if line is None:
            return None
        fields = line.split()
        return fields[-int(fields[2])]

    def _file(self, sense: str) -> int:
        return int(self._data[sense].split(maxsplit=2)[1])

    def _names(self, sense: str) -> list[str]:
        fields = self._data[sense].split()
        names = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        # Of a plural ("bars") there is no other plural, and no singular behind "a".
        return [name for name in names if name.isalpha() and name.islower() and (name[-1] != "s" or name[-2:] == "ss")]

    def _related(self, sense: str, pointer: str) -> list[str]:
        """Return the senses that one points to; see wndb(5WN)."""
        fields = self._data[sense].partition("|")[0].split()
        first = 4 + 2 * int(fields[3], 16) + 1
        return [fields[at + 1] for at in range(first, len(fields) - 3, 4) if fields[at] == pointer]
