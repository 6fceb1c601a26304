"""What CAPTURE parses and encodes with, by the settings that name it, and which of its numbers is the value."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from pydantic import BaseModel, ValidationError

from ...downloads import Resource
from ...errors import DataError, MetricError, require_all
from ...rows import BadRow, first_fault, read_rows
from ..contract import PARSEABLE, Context, Metric, require_choice
from ..vectors.checkpoints import Checkpoint
from . import nltk_text
from . import wordnet as wordnets
from .factual import RELEASED, FactualParser, InputLimit
from .grammar_parser import SHAPES, GrammarParser
from .matching import KINDS
from .phrases import PhraseEncoder
from .scene_graphs import NO_GRAPH, CaptionParser, Graph, ParsedCaption, complete, facts_in, read_graph, united
from .spacy_parser import DEFAULT, SpacyParser

RELEASED_ENCODER = "sentence-transformers/all-mpnet-base-v2"

OF_A_KIND = tuple(f"{kind}_{name}" for kind in KINDS for name in ("precision", "recall", "f1"))
"""Numbers of objects, attributes and relations."""
F1 = "f1"
"""CAPTURE itself: the weighted F1."""
NUMBERS = (F1, "precision", "recall", *OF_A_KIND)
"""What may be the value; precision and recall are weighted as the F1 is."""


def label_of(number: str, others: list[str]) -> str:
    """Return the label of one of CAPTURE's numbers, with any parser or encoder that is not the released one."""
    kind, _, name = number.rpartition("_")
    spelled = "F1" if name == F1 else name.capitalize()
    label = "CAPTURE" if number == F1 else f"CAPTURE-{spelled}"
    named = [f"{kind}s"] if kind else []
    return " ".join(filter(None, (label, f"({', '.join([*named, *others])})" if named or others else "")))


def choose_parser(
    parser: str,
    model: str | None,
    revision: str | None,
    *,
    input_limit: str | float = "0.5.0",
    device: str | None = None,
) -> CaptionParser:
    """Return the parser that CAPTURE's settings name.

    Raises:
        ValueError: There is none of that name, or it needs a file, or a setting is out of range.
    """
    require_choice("parser", parser, ("factual", "spacy", "grammar", "recorded"))
    # YAML reads 0.7 as a number.
    require_choice("input_limit", str(input_limit), get_args(InputLimit))
    if parser == "factual":
        checkpoint = Checkpoint("CAPTURE's parser", "parser_model", model or RELEASED, revision)
        return FactualParser(checkpoint, cast("InputLimit", str(input_limit)), device)
    if parser == "spacy":
        return SpacyParser(model or DEFAULT)
    if parser == "grammar":
        return GrammarParser(model or SHAPES)
    if model is None:
        raise ValueError("parser 'recorded' needs parser_model, the file with the graphs")
    return RecordedGraphs(model)


def named_parser(parser: str, parser_model: str | None) -> list[str]:
    """Return the label of the parser; empty for the released one."""
    if parser == "spacy":
        return [f"spaCy {Path(parser_model or DEFAULT).name}"]
    if parser == "grammar":
        return ["grammar" if parser_model is None else f"grammar {Path(parser_model).stem}"]
    if parser == "recorded":
        return ["recorded graphs"]
    if parser_model is not None and Path(parser_model).name != Path(RELEASED).name:
        return [Path(parser_model).name]
    return []


def other_encoder(encoder: str, released: str) -> list[str]:
    """Return the label of a sentence encoder; empty for the released one."""
    return [] if Path(encoder).name == Path(released).name else [Path(encoder).name]


@dataclass(kw_only=True, eq=False, repr=False)
class ParsedMetric(Metric):
    """The base of metrics of scene graphs: what parses captions, knows WordNet's words and encodes phrases.

    Args:
        parser: ``factual``, ``spacy``, ``grammar`` or ``recorded``.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: ``0.5.0``, or as FactualSceneGraph ``0.7`` does.
        wordnet: Folder of WordNet's database files.
        device: Where models run; by default the GPU if there is one.

    Raises:
        ValueError: A setting is out of range.
    """

    splits_words = True
    english_only = True
    longest_caption = PARSEABLE
    needs = frozenset({"references"})

    parser: Literal["factual", "spacy", "grammar", "recorded"] = "factual"
    parser_model: str | None = None
    parser_revision: str | None = None
    input_limit: Literal["0.5.0", "0.7"] | float = "0.5.0"
    wordnet: str | None = None
    device: str | None = None
    _encoder: PhraseEncoder | None = field(default=None, init=False)
    """None where phrases are not compared by vectors."""

    def __post_init__(self) -> None:
        self._parser = choose_parser(
            self.parser, self.parser_model, self.parser_revision, input_limit=self.input_limit, device=self.device
        )

    @property
    @abstractmethod
    def _asks_wordnet(self) -> bool:
        """Whether WordNet is needed."""

    def check(self) -> None:
        """Raise if WordNet, the parser or the encoder is missing."""
        words = [lambda: wordnets.find(self.wordnet)] if self._asks_wordnet else []
        require_all(*words, self._parser.check, *([self._encoder.check] if self._encoder else []))

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        words = [wordnets.resource(self.wordnet)] if self._asks_wordnet else []
        return [*words, *self._parser.resources(), *(self._encoder.resources() if self._encoder else ())]

    def fingerprint(self) -> dict[str, Any]:
        """Return what parses, knows words and encodes; a subclass adds its settings."""
        return {
            "metric": type(self).__name__,
            **({"wordnet": self._wordnet.digest} if self._asks_wordnet else {}),
            **self._parser.fingerprint(),
            **(self._encoder.fingerprint() if self._encoder else {}),
        }

    def _vectors(self, phrases: Iterable[str], context: Context) -> dict[str, np.ndarray]:
        return self._encoder.vectors(phrases, context) if self._encoder else {}

    @cached_property
    def _wordnet(self) -> wordnets.WordNet:
        return wordnets.load(wordnets.find(self.wordnet))


class _RecordedGraph(BaseModel):
    """The parts of a graph in a file; any may be left out."""

    objects: tuple[str, ...] = ()
    attributes: dict[str, list[str]] | tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str, str], ...] = ()


class RecordedGraphs(CaptionParser):
    """Serves graphs from a file of rows (.jsonl or .json) with objects, attributes and relations.

    A row with ``caption`` holds a finished graph, as released CAPTURE returns them: it is neither lemmatised
    nor checked, and stop words play no part. A row with ``sentence`` holds what a parser made of one sentence,
    which is merged with those of the caption's other sentences as usual; NLTK splits the sentences. Of two
    rows of one text the first is served.

    ``graph`` is the text that FACTUAL writes (``( dog , is , brown ) , ( dog , on , grass )``). In its place
    ``objects`` is a list of names; ``attributes`` a list of [object, attribute], or a mapping of objects to
    lists; ``relations`` a list of [subject, relation, object]. Any of them may be left out.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser()

    @property
    def finished(self) -> bool:
        """Whether the file holds graphs of whole captions alone."""
        return not self._rows["sentence"]

    def check(self) -> None:
        """Raise if the file cannot be read, or NLTK's models are missing and it holds sentences."""
        if not self.finished:
            nltk_text.check()

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one parser."""
        identity = {"parser": "recorded", "sha256": hashlib.sha256(self._path.read_bytes()).hexdigest()}
        return identity if self.finished else {**identity, **nltk_text.fingerprint()}

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption's graph; see ``CaptionParser.parse``."""
        parsed: dict[str, ParsedCaption | str] = {
            caption: graph
            if isinstance(graph, str)
            else ParsedCaption((replace(united(graph), written=graph.written),), None)
            for caption in captions
            if (graph := self._rows["caption"].get(caption)) is not None
        }
        missing = [caption for caption in dict.fromkeys(captions) if caption not in parsed]
        if self.finished:
            return parsed | dict.fromkeys(missing, self._missing("caption"))
        for caption, text in nltk_text.read(missing, context).items():
            graphs = [self._rows["sentence"].get(sentence.strip()) for sentence in text.sentences]
            usable = tuple(graph for graph in graphs if isinstance(graph, Graph))
            reasons = (graph or self._missing("sentence") for graph in graphs if not isinstance(graph, Graph))
            parsed[caption] = next(reasons, ParsedCaption(usable, text.nouns))
        return parsed

    def _missing(self, level: str) -> str:
        unreadable = self._unreadable
        also = f" ({len(unreadable)} of its rows cannot be used, such as {unreadable[0]})" if unreadable else ""
        return f"{NO_GRAPH}: {self._path.name} has no row of this {level}{also}"

    @cached_property
    def _rows(self) -> dict[str, dict[str, Graph | str]]:
        """Of captions and of sentences, the graph of each text or why that cannot be used."""
        rows: dict[str, dict[str, Graph | str]] = {"caption": {}, "sentence": {}}
        bad = self._unreadable = list[str]()
        try:
            for number, row in enumerate(read_rows(self._path), 1):
                if isinstance(row, BadRow):
                    bad.append(f"{row.place} ({row.reason})")
                elif isinstance(caption := row.get("caption"), str):
                    rows["caption"].setdefault(caption, _graph(row))
                elif isinstance(sentence := row.get("sentence"), str):
                    graph = _graph(row)
                    rows["sentence"].setdefault(sentence.strip(), graph if isinstance(graph, str) else complete(graph))
                else:
                    bad.append(f"row {number} (has no text 'caption' or 'sentence')")
        except DataError as error:
            raise MetricError(f"recorded scene graphs: {error.message}", error.hint) from error
        if not any(rows.values()):
            raise MetricError(
                "; ".join([f"recorded scene graphs: {self._path} no row has 'caption' or 'sentence'", *bad[:1]]),
                'A row is {"caption": text, "objects": [...], "attributes": {...}, "relations": [...]}.',
            )
        return rows


def _graph(row: dict[str, Any]) -> Graph | str:
    """Return the graph of a row, or what is wrong with it; the graph of an empty text is empty."""
    if "graph" in row:
        if not isinstance(text := row["graph"], str):
            return f"{NO_GRAPH}: its recorded graph is no text"
        if not text.strip():
            return Graph()
        graph = read_graph(text)
        return replace(graph, written=facts_in(text)) if graph else f"{NO_GRAPH}: its recorded graph has no parentheses"
    try:
        said = _RecordedGraph.model_validate({key: value for key, value in row.items() if value})
    except ValidationError as error:
        return f"{NO_GRAPH}: its recorded {first_fault(error)}"
    pairs = said.attributes
    if isinstance(pairs, dict):
        pairs = tuple((name, attribute) for name, words in pairs.items() for attribute in words)
    return Graph(said.objects, pairs, said.relations)
