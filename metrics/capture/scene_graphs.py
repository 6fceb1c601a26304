"""Scene graphs of sentences, and how those of a caption become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...downloads import Resource
from ..contract import Context

if TYPE_CHECKING:
    from .wordnet import WordNet

NO_GRAPH = "the parser gave no graph"

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class ParsedCaption:
    """A caption after parsing.

    Attributes:
        sentences: The graph of each sentence that gave one; of a finished graph, that alone.
        nouns: Words of the caption tagged as nouns, unchanged, for the check of the objects; None for a
            finished graph, which is used unchanged.
        without_graph: How many sentences gave none.
    """

    sentences: tuple[Graph, ...]
    nouns: tuple[str, ...] | None
    without_graph: int = 0


class CaptionParser(ABC):
    """Parses captions, sentence by sentence."""

    @property
    def finished(self) -> bool:
        """Whether every graph is final, so that no lemma and no noun is needed (``ParsedCaption.nouns``).

        Raises:
            MetricError: The parser cannot be used.
        """
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise if something that it needs is missing.

        Raises:
            MetricError: The hint says how to get it.
        """

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return ()

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a graph."""

    @abstractmethod
    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed, or why it could not be.

        Args:
            captions: Captions, not preprocessed; equal ones are parsed once.
            context: Cache and progress.

        Raises:
            MetricError: Nothing can be parsed.
        """

    def unknown(self, caption: str) -> Sequence[str]:
        """Return the words of a caption that the parser does not know and passes over; most parsers know all."""
        return ()


_PROMPT = "Generate Scene Graph:"


def read_graph(text: str) -> Graph | None:
    """Return the graph that a text stands for, or None if it has no parentheses at all.

    A fact is (object, is, attribute) or (subject, relation, object); an attribute of digits is a count and
    is ignored. Facts of another size count only if the text has no other: as an object.
    """
    if "(" not in text and ")" not in text:
        return None
    facts = _facts(_spaced(text.replace(_PROMPT, "")))
    written = facts_in(" , ".join(f"( {fact} )" for fact in facts))
    # The released code writes the facts out and reads them again; parentheses inside of a fact come off
    # differently in the last one.
    last = len(facts) - 1
    facts = [f"( {fact}{' )' if number == last else ' '}".strip().strip("()") for number, fact in enumerate(facts)] or [
        ""
    ]
    objects: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for fact in facts:
        parts = [part.strip() for part in fact.split(",")]
        if len(parts) == 3:
            subject, relation, other = parts
            objects[subject] = None
            if relation != "is":
                objects[other] = None
                relations[subject, relation, other] = None
            elif not other.isdigit():
                attributes[subject, other] = None
        elif len(facts) == 1:
            objects[parts[0]] = None
    return Graph(tuple(objects), tuple(attributes), tuple(relations), written=written)


def facts_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the parts of each fact of a graph that is written out, as FactualSceneGraph 0.7.3 compares them.

    Nothing is dropped for its size, and nothing is read again. An empty text has no fact.
    """
    facts = _spaced(text).split(") , (") if text.strip() else []
    bare = (fact.strip("()").strip() for fact in facts)
    return tuple(dict.fromkeys(tuple(part.strip() for part in fact.split(",")) for fact in bare))


def _spaced(text: str) -> str:
    for symbol in "(),":
        text = text.replace(symbol, f" {symbol} ")
    return " ".join(text.split())


def _facts(text: str) -> list[str]:
    """Return the different facts in the order of their letters; one that was cut off at the end is dropped."""
    facts = text.split(") ,")
    if not text.endswith(")"):
        facts = facts[:-1] if len(facts) > 1 else [facts[0].split(",")[0]]
    return sorted({bare for fact in facts if (bare := fact.strip().strip("()").strip())})


NOT_IN_CAPTION = "not a noun of the caption"
STOP_WORD = "stop word"


@dataclass(frozen=True)
class Graph:
    """The facts of a text about an image.

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


def merge(sentences: Iterable[Graph], nouns: Iterable[str], stop_words: frozenset[str], wordnet: WordNet) -> Graph:
    """Return the graph of a caption, as released (capture.py, merge_sentence_results, sample_to_parse_results).

    Whole names of objects are lemmatised as nouns and attributes as adjectives, relations stay as they are;
    attributes with " of" inside do not count. An object counts if it, or each of its words, is among the
    lemmatised nouns of the caption and it is no stop word. For attributes and relations only the nouns are
    asked: stop words keep theirs. Upper and lower case are different letters throughout.

    Objects and relations come in the order of their letters; attributes by object, in the order in which
    objects are first given one, and in the order of their letters within.

    Args:
        sentences: Graphs of the caption's sentences.
        nouns: Words of the caption that were tagged as nouns, unchanged.
        stop_words: Objects that do not describe an image.
        wordnet: Knows lemmas.
    """
    objects: set[str] = set()
    attributes: dict[str, set[str]] = {}
    relations: set[tuple[str, str, str]] = set()
    for sentence in sentences:
        for name in sentence.objects:
            lemma = wordnet.lemma(name, "noun")
            objects.add(lemma)
            for owner, attribute in sentence.attributes:
                adjective = wordnet.lemma(attribute, "adj") if owner == name else " of"
                if " of" not in adjective:
                    attributes.setdefault(lemma, set()).add(adjective)
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
            (name, attribute) for name, words in attributes.items() if named(name) for attribute in sorted(words)
        ),
        relations=tuple(sorted(triple for triple in relations if named(triple[0]) and named(triple[2]))),
        left_out=tuple(sorted(reasons.items())),
    )


def united(*graphs: Graph) -> Graph:
    """Return the graphs of a caption's sentences as one, without repetitions, in the order that ``merge`` gives."""
    first: dict[str, set[str]] = {}
    for name, attribute in (pair for graph in graphs for pair in graph.attributes):
        first.setdefault(name, set()).add(attribute)
    return Graph(
        tuple(sorted({name for graph in graphs for name in graph.objects})),
        tuple((name, attribute) for name, words in first.items() for attribute in sorted(words)),
        tuple(sorted({triple for graph in graphs for triple in graph.relations})),
    )


def complete(graph: Graph) -> Graph:
    """Return a graph that also lists, as objects, each name with an attribute or in a relation."""
    ends = [name for name, _ in graph.attributes]
    ends += [name for subject, _, other in graph.relations for name in (subject, other)]
    names: Sequence[str] = list(dict.fromkeys([*graph.objects, *ends]))
    return replace(graph, objects=tuple(names))


def read_items(
    parser: CaptionParser,
    candidates: Sequence[str],
    reference_sets: Sequence[tuple[str, ...]],
    parts: Callable[[Sequence[Graph]], list[_Part]],
    context: Context,
) -> tuple[dict[str, list[_Part] | str], list[list[_Part] | str]]:
    """Return the parts of candidates by caption, and those of each set of references, each once; or why there are none.

    Args:
        parser: Parses all captions but empty ones.
        candidates: The candidates.
        reference_sets: The references of each set.
        parts: Returns the parts of a caption's graphs, of which an empty caption has none.
        context: Cache and progress.
    """
    texts = dict.fromkeys(text for captions in (candidates, *reference_sets) for text in captions)
    parsed = parser.parse([text for text in texts if text.strip()], context)
    of_text: dict[str, list[_Part] | str] = {}
    for text in texts:
        caption = parsed.get(text)
        of_text[text] = caption if isinstance(caption, str) else parts(caption.sentences if caption else ())
    return of_text, [_pooled([of_text[text] for text in captions]) for captions in reference_sets]


def _pooled(captions: Sequence[Iterable[_Part] | str]) -> list[_Part] | str:
    pooled: dict[_Part, None] = {}
    for number, parts in enumerate(captions, 1):
        if isinstance(parts, str):
            return f"reference {number}: {parts}"
        pooled |= dict.fromkeys(parts)
    return list(pooled)
