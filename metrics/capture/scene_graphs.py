"""Scene graphs of sentences, and how those of a caption become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .wordnet import WordNet

NOT_IN_CAPTION = "not a noun of the caption"
STOP_WORD = "stop word"


@dataclass(frozen=True)
class Graph:
    """What a text says of an image.

    Attributes:
        objects: Names of objects.
        attributes: (object, attribute) each.
        relations: (subject, relation, object) each.
        left_out: (object, reason) of objects that a parser found and that do not count.
        written: The parts of each fact, where a parser writes facts: counts, and facts of other sizes, too.
    """

    objects: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str, str], ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    written: tuple[tuple[str, ...], ...] | None = field(default=None, compare=False)

    @property
    def facts(self) -> tuple[tuple[str, ...], ...]:
        """The parts of each fact: (object,), (object, "is", attribute), (subject, relation, object)."""
        if self.written is not None:
            return self.written
        return (
            *((name,) for name in self.objects),
            *((name, "is", attribute) for name, attribute in self.attributes),
            *self.relations,
        )


def merge(
    sentences: Iterable[Graph], nouns: Iterable[str], stop_words: frozenset[str], wordnet: WordNet
) -> Graph:
    """Return the graph of a caption, as released (capture.py, merge_sentence_results, sample_to_parse_results).

    Whole names of objects are lemmatised as nouns and attributes as adjectives, relations stay as they are;
    attributes with " of" inside do not count. An object counts if it, or each of its words, is among the
    lemmatised nouns of the caption and it is no stop word. For attributes and relations only the nouns are
    asked: stop words keep theirs. Upper and lower case are different letters throughout.

    Objects and relations come in the order of their letters; attributes by object, in the order in which
    objects are first given one, and in the order of their letters within.

    Args:
        sentences: Graphs of the caption's sentences.
        nouns: Words of the caption that were tagged as nouns, as written.
        stop_words: Objects that say nothing of an image.
        wordnet: Knows lemmas.
    """
    objects: set[str] = set()
    attributes: dict[str, set[str]] = {}
    relations: set[tuple[str, str, str]] = set()
    for sentence in sentences:
        for name in sentence.objects:
            lemma = wordnet.lemma(name, "noun")
            objects.add(lemma)
            for its, attribute in sentence.attributes:
                found = wordnet.lemma(attribute, "adj") if its == name else " of"
                if " of" not in found:
                    attributes.setdefault(lemma, set()).add(found)
        relations.update(
            (wordnet.lemma(subject, "noun"), relation, wordnet.lemma(name, "noun"))
            for subject, relation, name in sentence.relations
        )
    lemmas = {wordnet.lemma(noun, "noun") for noun in nouns}

    def named(name: str) -> bool:
        return name in lemmas or all(word in lemmas for word in name.split(" "))

    reasons = {
        name: STOP_WORD if name in stop_words else NOT_IN_CAPTION
        for name in objects
        if name in stop_words or not named(name)
    }
    return Graph(
        objects=tuple(sorted(objects - reasons.keys())),
        attributes=tuple(
            (name, attribute) for name, its in attributes.items() if named(name) for attribute in sorted(its)
        ),
        relations=tuple(sorted(one for one in relations if named(one[0]) and named(one[2]))),
        left_out=tuple(sorted(reasons.items())),
    )


def in_order(graph: Graph) -> Graph:
    """Return a graph without repetitions, in the order that ``merge`` gives."""
    first: dict[str, set[str]] = {}
    for name, attribute in graph.attributes:
        first.setdefault(name, set()).add(attribute)
    return replace(
        graph,
        objects=tuple(sorted(set(graph.objects))),
        attributes=tuple((name, attribute) for name, its in first.items() for attribute in sorted(its)),
        relations=tuple(sorted(set(graph.relations))),
    )


def complete(graph: Graph) -> Graph:
    """Return a graph that also lists, as objects, whatever has an attribute or stands in a relation."""
    ends = [name for name, _ in graph.attributes]
    ends += [name for subject, _, other in graph.relations for name in (subject, other)]
    names: Sequence[str] = list(dict.fromkeys([*graph.objects, *ends]))
    return replace(graph, objects=tuple(names))
