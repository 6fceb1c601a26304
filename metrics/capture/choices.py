"""What CAPTURE parses and encodes with, by the settings that name it, and which of its numbers is the value."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

from ..vectors.checkpoints import Checkpoint
from .factual import RELEASED, FactualParser, InputLimit
from .grammar_parser import SHAPES, GrammarParser
from .matching import KINDS
from .nltk_text import NltkText
from .recorded import RecordedGraphs
from .scene_graphs import CaptionParser
from .spacy_parser import DEFAULT, SpacyParser

RELEASED_ENCODER = "sentence-transformers/all-mpnet-base-v2"

OF_A_KIND = tuple(f"{kind}_{name}" for kind in KINDS for name in ("precision", "recall", "f1"))
"""Numbers of objects, attributes and relations."""
F1 = "f1"
"""CAPTURE itself: the weighted F1."""
NUMBERS = (F1, "precision", "recall", *OF_A_KIND)
"""What may be the value; precision and recall are weighted as the F1 is."""


def label_of(number: str, others: list[str]) -> str:
    """Return what a reader calls one of CAPTURE's numbers, with what is not the released parser or encoder."""
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
    nltk_data: str | None = None,
    input_limit: str | float = "0.5.0",
    device: str | None = None,
    batch_size: int | None = None,
) -> CaptionParser:
    """Return the parser that CAPTURE's settings name.

    Raises:
        ValueError: There is none of that name, or it needs a file, or a setting is out of range.
    """
    # YAML reads 0.7 as a number.
    if str(input_limit) not in get_args(InputLimit):
        raise ValueError(f"input_limit is {' or '.join(get_args(InputLimit))}, not {input_limit}")
    if batch_size is not None and batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    text = NltkText(nltk_data)
    if parser == "factual":
        checkpoint = Checkpoint("CAPTURE's parser", "parser_model", model or RELEASED, revision)
        return FactualParser(checkpoint, text, cast("InputLimit", str(input_limit)), device, batch_size)
    if parser == "spacy":
        return SpacyParser(model or DEFAULT)
    if parser == "grammar":
        return GrammarParser(model or SHAPES)
    if parser == "recorded":
        if model is None:
            raise ValueError("parser 'recorded' needs parser_model, the file with the graphs")
        return RecordedGraphs(model, text)
    raise ValueError(f"parser is factual, spacy, grammar or recorded, not '{parser}'")


def not_released(parser: str, parser_model: str | None, encoder: str) -> list[str]:
    """Return what a reader calls the parser and the encoder; nothing for a released one."""
    return [*named_parser(parser, parser_model), *other_encoder(encoder, RELEASED_ENCODER)]


def named_parser(parser: str, parser_model: str | None) -> list[str]:
    """Return what a reader calls the parser; nothing for the released one."""
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
    """Return what a reader calls a sentence encoder; nothing for the released one."""
    return [] if Path(encoder).name == Path(released).name else [Path(encoder).name]
