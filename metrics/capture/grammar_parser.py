"""Parses captions of a closed vocabulary by a grammar, with no model and no data but a list of words."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from ...errors import MetricError
from ...rows import first_fault
from ..contract import Context
from .scene_graphs import CaptionParser, Graph, ParsedCaption, united

VERSION = 1
"""Raised when a rule changes."""

_SENTENCES = re.compile(r"[.!?;:\n]+")
_WORDS = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|,")
_DETERMINERS = (
    *("a", "an", "the", "this", "these", "those", "some", "another", "one", "two", "three", "four", "five"),
    *("six", "seven", "eight", "nine", "ten"),
)
_PLURAL = ("are", "were")
_FUNCTION_WORDS = {
    **dict.fromkeys(_DETERMINERS, "d"),
    **dict.fromkeys(("is", "was", *_PLURAL), "l"),
    **dict.fromkeys(("that", "which"), "w"),
    **dict.fromkeys(("and", ","), "c"),
}
# Words of the closed classes of English name nothing, and are missed in no list.
_NAMELESS = frozenset((
    "about", "across", "after", "against", "along", "among", "around", "as", "at", "be", "been", "before", "behind",
    "being", "below", "beneath", "beside", "between", "both", "but", "by", "down", "each", "for", "from", "has", "have",
    "he", "her", "here", "him", "his", "in", "inside", "into", "it", "its", "near", "next", "no", "not", "of", "off",
    "on", "onto", "or", "other", "out", "over", "she", "their", "them", "there", "they", "through", "to", "toward",
    "towards", "under", "up", "upon", "very", "when", "where", "while", "who", "whose", "with", "within", "without",
))  # fmt: skip

# One letter for each word: a adjective, c "and" or comma, d determiner, l linking verb, o object, r relation,
# w relative pronoun, x any other; and then for each phrase, where n is a noun phrase and p adjectives alone.
_PHRASES = re.compile(r"(?P<n>(?:a(?:c{0,2}a)*)?o)|(?P<p>a(?:c{0,2}a)*)|.")
_SUBJECTS = re.compile(r"n(?:c{1,2}n)*")
# What follows an "and" is another object only if no separate clause begins with it.
_STATEMENT = re.compile(r"(?P<joined>c{0,2})(?P<relative>w?)(?:l*rn(?:c{1,2}n(?![lr]))*|l+p)")


@dataclass
class _Phrase:
    """A phrase of a sentence.

    Attributes:
        letter: What it is.
        name: Its noun, relation or word.
        adjectives: The adjectives in it.
    """

    letter: str
    name: str
    adjectives: list[str]


class Grammar:
    """Reads sentences such as "A red star is above a circle and a large square, which is to the left of a heart".

    A noun phrase is adjectives and a noun; "and" and commas join several. What follows applies to them: a relation
    and its objects, with or without a verb, or a verb and adjectives ("is red and striped"). Another statement
    is of the same subject behind an "and" or a comma, and of the last object behind "which" or "that", or behind
    nothing ("a star above a circle to the left of a heart"). Of several nouns joined, all are the subject of "are",
    and the last alone of anything else.

    An unknown word ends the current phrase, and is skipped. Any text can be read; of one that has none
    of the words the graph is empty.

    Args:
        objects: Nouns, in the singular; their plurals in -s and -es are known too. A word may be several with spaces
            between.
        attributes: Adjectives.
        relations: Phrases between two noun phrases ("to the left of"), and the relation's name.
    """

    def __init__(self, objects: Sequence[str], attributes: Sequence[str], relations: Mapping[str, str]) -> None:
        # The words of each entry, with its letter and the name that it stands for.
        self._entries = {_split(word): (letter, word) for word, letter in _FUNCTION_WORDS.items()}
        for name in objects:
            self._entries |= {_split(form): ("o", name) for form in (f"{name}es", f"{name}s", name)}
        self._entries |= {_split(word): ("a", word) for word in attributes}
        self._entries |= {_split(word): ("r", name) for word, name in relations.items()}
        self._longest = max(map(len, self._entries))

    def read(self, text: str) -> list[Graph]:
        """Return the graph of each sentence, empty where nothing can be read."""
        sentences = (_split(part) for part in _SENTENCES.split(text))
        return [self._graph(words) for words in sentences if words]

    def unknown(self, text: str) -> list[str]:
        """Return the words that may name something and are passed over as they are not known, each time they occur."""
        words = (entry for part in _SENTENCES.split(text) for entry in self._known(_split(part)))
        return [word for letter, word in words if letter == "x" and word not in _NAMELESS]

    def _graph(self, words: Sequence[str]) -> Graph:
        phrases = [phrase for phrase in _phrases(list(self._known(words))) if phrase.letter != "d"]
        nouns = _of(phrases, "n")
        attributes = [(noun.name, adjective) for noun in nouns for adjective in noun.adjectives]
        relations: list[tuple[str, str, str]] = []
        for subjects, said in _statements(phrases):
            # Without repetitions, or a caption that runs in circles would have relations without number.
            names = dict.fromkeys(subject.name for subject in subjects)
            if said[-1].letter == "p":
                attributes += [(name, adjective) for name in names for adjective in said[-1].adjectives]
            else:
                (relation,) = _of(said, "r")
                others = dict.fromkeys(phrase.name for phrase in _of(said, "n"))
                relations += [(name, relation.name, other) for name in names for other in others]
        return Graph(tuple(noun.name for noun in nouns), tuple(attributes), tuple(relations))

    def _known(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield letter and name of each entry, the longest that fits at each place."""
        at = 0
        while at < len(words):
            for size in range(min(self._longest, len(words) - at), 0, -1):
                if entry := self._entries.get(tuple(words[at : at + size])):
                    yield entry
                    break
            else:
                size = 1
                yield "x", words[at]
            at += size


def _split(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.lower()))


def _phrases(words: Sequence[tuple[str, str]]) -> Iterator[_Phrase]:
    for match in _PHRASES.finditer("".join(letter for letter, _ in words)):
        entries = words[match.start() : match.end()]
        adjectives = [name for letter, name in entries if letter == "a"]
        yield _Phrase(match.lastgroup or entries[0][0], entries[-1][1], adjectives)


def _statements(phrases: Sequence[_Phrase]) -> Iterator[tuple[Sequence[_Phrase], Sequence[_Phrase]]]:
    """Yield the subjects of each statement, and its phrases."""
    letters = "".join(phrase.letter for phrase in phrases)
    at = 0
    while match := _SUBJECTS.search(letters, at):
        subjects = _of(phrases[match.start() : match.end()], "n")
        latest = subjects
        at = match.end()
        while said := _STATEMENT.match(letters, at):
            parts = phrases[at : said.end()]
            if at == match.end():
                subjects = subjects if any(part.name in _PLURAL for part in parts) else subjects[-1:]
            elif said["relative"] or not said["joined"]:
                subjects = latest[-1:]
            yield subjects, parts
            latest = _of(parts, "n") or subjects
            at = said.end()


def _of(phrases: Sequence[_Phrase], letter: str) -> list[_Phrase]:
    return [phrase for phrase in phrases if phrase.letter == letter]


SHAPES = Path(__file__).parent / "shapes_lexicon.json"
"""The words of the shapes world."""
LEXICONS = {"shapes": SHAPES, "captions": Path(__file__).parent / "captions_lexicon.json"}
"""Those that ship; ``captions`` has common nouns, adjectives and prepositions of captions of photographs."""

_FORM = (
    'It is {"objects": [nouns in the singular], "attributes": [adjectives], '
    '"relations": {"to the left of": "left of", ...}}.'
)


_Words = Annotated[str, Field(pattern=r"\S")]


class _Lexicon(BaseModel, extra="forbid"):
    """The contents of a file of words."""

    objects: list[_Words]
    attributes: list[_Words]
    relations: dict[_Words, _Words]


class GrammarParser(CaptionParser):
    """Reads scene graphs by ``Grammar``, for captions that keep to few words and plain sentences.

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
        return {"parser": "grammar", "rules": VERSION, "lexicon": hashlib.sha256(words.encode()).hexdigest()}

    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed; see ``CaptionParser.parse``."""
        parsed: dict[str, ParsedCaption | str] = {}
        for caption in captions:
            graphs = self._grammar.read(caption)
            empty = sum(not graph.objects for graph in graphs)
            parsed[caption] = ParsedCaption((united(*graphs),), None, empty)
        return parsed

    def unknown(self, caption: str) -> Sequence[str]:
        """Return the words that the lexicon lacks; see ``CaptionParser.unknown``."""
        return self._grammar.unknown(caption)

    @cached_property
    def _grammar(self) -> Grammar:
        return Grammar(**self._content)

    @cached_property
    def _content(self) -> dict[str, Any]:
        try:
            content = json.loads(self._file.read_text(encoding="utf-8"))
            return _Lexicon.model_validate(content).model_dump()
        except (OSError, ValueError) as error:
            reason = first_fault(error) if isinstance(error, ValidationError) else error
            raise MetricError(f"CAPTURE's lexicon {self._file}: {reason}", _FORM) from error
