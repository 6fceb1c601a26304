"""Parses captions with a pipeline of spaCy, where the FACTUAL checkpoint is not to be had."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from ..contract import Context
from ..words.spacy_pipelines import DEFAULT, load_pipeline
from . import dependency_rules
from .parsers import CaptionParser, ParsedCaption
from .scene_graphs import Graph

_CAPTIONS_A_WRITE = 256


class SpacyParser(CaptionParser):
    """Reads scene graphs off the dependency parse of a caption (see ``dependency_rules``).

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
        meta = _load(self._pipeline).meta
        return {
            "parser": "spacy",
            "spacy": importlib.metadata.version("spacy"),
            "pipeline": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "rules": dependency_rules.VERSION,
        }

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed; see ``CaptionParser.parse``."""
        unique = list(dict.fromkeys(captions))
        producer = self.fingerprint()
        known: dict[str, Any] = dict(context.cache.get(producer, unique))
        missing = [caption for caption in unique if caption not in known]
        context.progress(len(known), len(unique))
        for start in range(0, len(missing), _CAPTIONS_A_WRITE):
            batch = missing[start : start + _CAPTIONS_A_WRITE]
            new = {
                caption: _as_json(dependency_rules.read_graph(doc))
                for caption, doc in zip(batch, _load(self._pipeline).pipe(batch), strict=True)
            }
            context.cache.put(producer, new)
            known |= new
            context.progress(len(known), len(unique))
        return {caption: _parsed(known[caption]) for caption in unique}


def _as_json(graph: Graph) -> dict[str, Any]:
    return {"objects": graph.objects, "attributes": graph.attributes, "relations": graph.relations}


def _parsed(kept: dict[str, Any]) -> ParsedCaption:
    graph = Graph(
        tuple(kept["objects"]),
        tuple((name, attribute) for name, attribute in kept["attributes"]),
        tuple((subject, relation, name) for subject, relation, name in kept["relations"]),
    )
    return ParsedCaption((graph,), tuple(word for name in graph.objects for word in (name, *name.split(" "))))


def _load(pipeline: str) -> Any:
    return load_pipeline(pipeline, "CAPTURE's parser 'spacy'", "the metric's 'parser_model'")
