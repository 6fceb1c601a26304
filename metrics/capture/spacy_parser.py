"""Parses captions with a pipeline of spaCy, where the FACTUAL checkpoint is not to be had."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..contract import Context, kept
from ..words.spacy_pipelines import DEFAULT, load_pipeline, pipeline_identity
from .scene_graphs import CaptionParser, Graph, ParsedCaption

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token


VERSION = 1
"""Raised when a rule changes, as graphs are kept."""

_NOUNS = ("NOUN", "PROPN")
_SUBJECTS = ("nsubj", "nsubjpass")
_OBJECTS = ("dobj", "obj", "attr")
_LINKING = ("be", "appear", "seem", "look", "remain")
# A verb in such a clause has the subject of the verb that it hangs on, unless it names its own.
_SHARES_SUBJECT = ("conj", "xcomp", "advcl")
_DEEPEST = 20


def read_graph(doc: Doc) -> Graph:
    """Return the scene graph of a parsed text.

    Objects are nouns with the nouns that stand before them as parts of the name ("traffic light"), in lemmas.
    Attributes are adjectives and participles before a noun, those joined to them, and those behind a linking
    verb ("the sky is blue"). Relations are prepositions between nouns ("cup on table"), and verbs with their
    subject and their object or preposition ("dog chase ball", "man sit on bench"), in lemmas.
    """
    objects: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for token in doc:
        if token.pos_ in _NOUNS and token.dep_ != "compound":
            objects[_name(token)] = None
            for modifier in _attributes(token):
                attributes[_name(token), modifier] = None
            for preposition, other in _prepositions(token):
                relations[_name(token), preposition, _name(other)] = None
        elif token.pos_ in ("VERB", "AUX"):
            for subject in _subjects(token):
                for said, other in _said(token):
                    relations[_name(subject), said, _name(other)] = None
                if token.lemma_ in _LINKING:
                    for child in token.children:
                        if child.dep_ in ("acomp", "oprd") and child.pos_ in ("ADJ", "VERB"):
                            for word in _joined(child):
                                attributes[_name(subject), _adjective(word)] = None
    return Graph(tuple(objects), tuple(attributes), tuple(relations))


def _name(noun: Token) -> str:
    parts = [child.lower_ for child in noun.lefts if child.dep_ == "compound" and child.pos_ in _NOUNS]
    return " ".join([*parts, noun.lemma_.lower()])


def _attributes(noun: Token) -> Iterator[str]:
    for child in noun.children:
        if child.dep_ == "amod":
            yield from map(_adjective, _joined(child))


def _adjective(word: Token) -> str:
    """Return an adjective with what shades it ("dark brown")."""
    shades = [child.lower_ for child in word.lefts if child.dep_ in ("amod", "compound") and child.is_alpha]
    return " ".join([*shades, word.lower_])


def _joined(word: Token) -> Iterator[Token]:
    """Yield a word and those joined to it by "and" or a comma."""
    yield word
    for child in word.rights:
        if child.dep_ == "conj" and child.pos_ == word.pos_:
            yield from _joined(child)


def _nouns(word: Token) -> list[Token]:
    return [noun for noun in _joined(word) if noun.pos_ in _NOUNS] if word.pos_ in _NOUNS else []


def _prepositions(word: Token) -> Iterator[tuple[str, Token]]:
    """Yield each preposition that hangs on a word, "on top of" as one, with each of its nouns."""
    for child in word.children:
        if child.dep_ in ("prep", "agent"):
            for inner in child.children:
                if inner.dep_ == "pobj":
                    yield from ((child.lower_, noun) for noun in _nouns(inner))
                elif inner.dep_ == "prep":
                    yield from (
                        (f"{child.lower_} {inner.lower_}", noun)
                        for last in inner.children
                        if last.dep_ == "pobj"
                        for noun in _nouns(last)
                    )


def _subjects(verb: Token, depth: int = 0) -> list[Token]:
    own = [child for child in verb.lefts if child.dep_ in _SUBJECTS]
    nouns = [noun for child in own for noun in _nouns(child)]
    if nouns or depth > _DEEPEST:
        return nouns
    # "that" and "which" stand for the noun that the clause hangs on.
    if verb.dep_ in ("acl", "relcl"):
        return [verb.head] if verb.head.pos_ in _NOUNS else []
    if not own and verb.dep_ in _SHARES_SUBJECT and verb.head.pos_ in ("VERB", "AUX"):
        return _subjects(verb.head, depth + 1)
    return []


def _said(verb: Token) -> Iterator[tuple[str, Token]]:
    """Yield each relation of a verb's subject, and the noun that it relates to."""
    particles = [child.lower_ for child in verb.rights if child.dep_ == "prt"]
    words = " ".join([verb.lemma_.lower(), *particles])
    for child in verb.rights:
        if child.dep_ in _OBJECTS and not (verb.lemma_ in _LINKING and child.dep_ == "attr"):
            yield from ((words, noun) for noun in _nouns(child))
    for preposition, noun in _prepositions(verb):
        yield preposition if verb.lemma_ == "be" else f"{words} {preposition}", noun


_CAPTIONS_A_WRITE = 256


class SpacyParser(CaptionParser):
    """Reads scene graphs off the dependency parse of a caption (:func:`read_graph`).

    Its objects are nouns of the caption by construction, and words that spaCy's tagger takes for nouns are
    the nouns of the caption; NLTK is not needed.

    Args:
        pipeline: An English pipeline with tagger, parser and lemmatizer: a package's name or a folder.
    """

    def __init__(self, pipeline: str = DEFAULT) -> None:
        self._pipeline = pipeline

    def check(self) -> None:
        """Raise if spaCy or the pipeline is missing; see ``CaptionParser.check``."""
        _load(self._pipeline)

    def fingerprint(self) -> dict[str, Any]:
        """Return the versions of spaCy, of the pipeline and of the rules."""
        return {
            "parser": "spacy",
            "spacy": importlib.metadata.version("spacy"),
            "pipeline": pipeline_identity(_load(self._pipeline)),
            "rules": VERSION,
        }

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed; see ``CaptionParser.parse``."""
        known = kept(context.cache, self.fingerprint(), captions, self._read, context.progress)
        return {caption: _parsed(known[caption]) for caption in captions}

    def _read(self, captions: Sequence[str]) -> Iterator[dict[str, dict[str, Any]]]:
        for start in range(0, len(captions), _CAPTIONS_A_WRITE):
            batch = captions[start : start + _CAPTIONS_A_WRITE]
            graphs = map(read_graph, _load(self._pipeline).pipe(batch))
            yield {
                caption: {"objects": graph.objects, "attributes": graph.attributes, "relations": graph.relations}
                for caption, graph in zip(batch, graphs, strict=True)
            }


def _parsed(kept: dict[str, Any]) -> ParsedCaption:
    attributes, relations = (tuple(map(tuple, kept[part])) for part in ("attributes", "relations"))
    graph = Graph(tuple(kept["objects"]), attributes, relations)
    return ParsedCaption((graph,), tuple(word for name in graph.objects for word in (name, *name.split(" "))))


def _load(pipeline: str) -> Any:
    return load_pipeline(pipeline, "CAPTURE's parser 'spacy'", "the metric's 'parser_model'")
