"""Reads captions by the tagger and parser of a spaCy pipeline, and knows kinds of nouns from WordNet."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....errors import DataError, MetricError
from ....metrics.words.spacy_pipelines import load_pipeline
from .captions import CaptionReader, Kind, ReadCaption, Token
from .wordnet_sisters import WordNetSisters
from .words import Words

if TYPE_CHECKING:
    from spacy.tokens import Doc  # pyright: ignore[reportMissingImports] - an extra
    from spacy.tokens import Token as Parsed  # pyright: ignore[reportMissingImports]

_SIDES = ("left", "right", "top", "bottom")
_FINITE = {"VBZ": "does", "VBP": "do", "VBD": "did"}


class SpacyReader(CaptionReader):
    """Reads by a dependency parse.

    Args:
        pipeline: An English pipeline with tagger, parser and lemmatizer: a package's name or a folder.
        words: The lists.
    """

    def __init__(self, pipeline: str, words: Words) -> None:
        self._name = pipeline
        self._words = words

    def said(self) -> str:
        """Return the versions of spaCy, of the pipeline and of WordNet.

        Raises:
            DataError: One is missing; the hint says what to install.
        """
        meta = self._pipeline.meta
        return (
            f"spaCy {importlib.metadata.version('spacy')}, {meta['lang']}_{meta['name']} {meta['version']}, "
            f"WordNet ({self._wordnet.digest[:12]}) and lists of words ({self._words.digest[:12]})"
        )

    def read(self, texts: Sequence[str]) -> Iterator[ReadCaption]:
        """Yield each text as it is read."""
        for doc in self._pipeline.pipe(texts, batch_size=64):
            yield read_doc(doc, self._words)

    def sisters(self, noun: str) -> Sequence[Sequence[str]]:
        """Return nouns of the same parent, and of the same grandparent, in WordNet."""
        return self._wordnet.sisters(noun)

    @cached_property
    def _pipeline(self) -> Any:
        try:
            return load_pipeline(self._name, "the checklist's reader 'spacy'", "the task's 'pipeline'")
        except MetricError as error:
            raise _without(error) from error

    @cached_property
    def _wordnet(self) -> WordNetSisters:
        try:
            return WordNetSisters()
        except MetricError as error:
            raise _without(error) from error


def read_doc(doc: Doc, words: Words) -> ReadCaption:
    """Return what rules change in a parsed caption.

    Args:
        doc: The caption, with tags, parts of speech, lemmas and dependencies.
        words: The lists.
    """
    return ReadCaption(
        tuple(
            Token(one.text, one.whitespace_, _kind(one, words), one.lemma_.lower(), one.tag_ == "NNS")
            for one in doc
        ),
        tuple(one.i for one in doc if _is_relation(one, words)),
        tuple(_phrases(doc, words)),
        tuple(
            (one.i, one.head.i)
            for one in doc
            if one.dep_ == "amod" and one.tag_ == "JJ" and one.head.pos_ == "NOUN" and not _is_joined(one)
        ),
        tuple(found for one in doc if (found := _negated(one)) is not None),
    )


def _kind(token: Parsed, words: Words) -> Kind:
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


def _is_relation(token: Parsed, words: Words) -> bool:
    if token.lower_ not in words.opposites:
        return False
    if token.lower_ in _SIDES:
        return token.pos_ in ("NOUN", "ADJ")
    objects = [child for child in token.children if child.dep_ == "pobj"]
    # "on top of", "on the left": the side is what says where.
    return token.pos_ == "ADP" and any(child.lower_ not in _SIDES for child in objects)


def _phrases(doc: Doc, words: Words) -> Iterator[tuple[int, int]]:
    for token in doc:
        head = token.head
        if token.dep_ != "prep" or head.i >= token.i or head.pos_ == "AUX" or head.lower_ in words.particles:
            continue
        if not any(child.dep_ == "pobj" and child.pos_ == "NOUN" for child in token.children):
            continue
        subtree = [one.i for one in token.subtree]
        if doc[subtree[-1]].is_punct:
            subtree.pop()
        start, end = subtree[0], subtree[-1] + 1
        if start == token.i and end - start == len(subtree) and 2 * (end - start) <= len(doc):
            yield start, end


def _is_joined(token: Parsed) -> bool:
    """Tell whether a hyphen makes a token a part of a longer word ("high-angle")."""
    after = token.nbor(1).text if not token.whitespace_ and token.i + 1 < len(token.doc) else ""
    before = token.nbor(-1) if token.i else None
    return after == "-" or (before is not None and before.text == "-" and not before.whitespace_)


def _negated(token: Parsed) -> tuple[int, str] | None:
    """Return what denies a sentence in the place of its verb, if it is not denied already."""
    if any(child.dep_ == "neg" for one in (token, token.head) for child in one.children):
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


def _without(error: MetricError) -> DataError:
    """Return what is missing, with the reader that needs it not."""
    return DataError(
        error.message, f"{error.hint} Or choose 'protocol: {{reader: lists}}', which needs neither."
    )
