"""Parses captions of a closed vocabulary by a grammar, with no model and no data but a list of words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import MetricError
from ..contract import Context
from . import grammar
from .parsers import CaptionParser, ParsedCaption
from .scene_graphs import in_order

SHAPES = Path(__file__).parent / "shapes_lexicon.json"
"""The words of the shapes world."""
LEXICONS = {"shapes": SHAPES, "captions": Path(__file__).parent / "captions_lexicon.json"}
"""Those that ship; ``captions`` has common nouns, adjectives and prepositions of captions of photographs."""

_FORM = (
    'It is {"objects": [nouns in the singular], "attributes": [adjectives], '
    '"relations": {"to the left of": "left of", ...}}.'
)


class GrammarParser(CaptionParser):
    """Reads scene graphs by ``grammar.Grammar``, for captions that keep to few words and plain sentences.

    The graphs are finished: names are those of the lexicon, so that nothing is left to lemmatise, and no noun is
    left out as a stop word. Of a caption without any of the words the graph is empty, which scores 0.

    Args:
        lexicon: A JSON file of words, or the name of one that ships: ``shapes``, ``captions``.
    """

    def __init__(self, lexicon: str | Path = SHAPES) -> None:
        self._file = LEXICONS.get(str(lexicon), Path(lexicon).expanduser())

    @property
    def finished(self) -> bool:
        """True: see the class."""
        return True

    def check(self) -> None:
        """Raise if the lexicon cannot be read; see ``CaptionParser.check``."""
        _ = self._grammar

    def fingerprint(self) -> dict[str, Any]:
        """Return the version of the rules and the hash of the words."""
        words = json.dumps(self._content, sort_keys=True)
        return {
            "parser": "grammar",
            "rules": grammar.VERSION,
            "lexicon": hashlib.sha256(words.encode()).hexdigest(),
        }

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed; see ``CaptionParser.parse``."""
        found: dict[str, ParsedCaption | str] = {}
        for caption in captions:
            graphs = self._grammar.read(caption)
            empty = sum(not graph.objects for graph in graphs)
            found[caption] = ParsedCaption((in_order(grammar.united(graphs)),), None, empty)
        return found

    def unknown(self, caption: str) -> Sequence[str]:
        """Return the words that the lexicon lacks; see ``CaptionParser.unknown``."""
        return self._grammar.unknown(caption)

    @cached_property
    def _grammar(self) -> grammar.Grammar:
        content = self._content
        return grammar.Grammar(
            grammar.Lexicon(content["objects"], content["attributes"], content["relations"])
        )

    @cached_property
    def _content(self) -> dict[str, Any]:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise MetricError(f"CAPTURE's lexicon: {self._file}: {error}", _FORM) from error
        if not isinstance(content, dict) or content.keys() != {"objects", "attributes", "relations"}:
            raise MetricError(
                f"CAPTURE's lexicon: {self._file} is no mapping of objects, attributes and relations", _FORM
            )
        for key, values in content.items():
            kind = dict if key == "relations" else list
            words = [*values, *values.values()] if isinstance(values, dict) else values
            if not isinstance(values, kind) or not all(isinstance(one, str) and one.strip() for one in words):
                raise MetricError(
                    f"CAPTURE's lexicon: {self._file}: its {key} are not as they should be", _FORM
                )
        return content
