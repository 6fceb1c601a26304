"""CHAIR: objects that a caption mentions and that are not in the image."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..downloads import Files, Resource
from ..errors import MetricError
from ..paths import cache_folder
from ..rows import load_yaml
from ..tasks.locate import DataLocations
from .contract import Context, Metric, ShareMetric
from .items import Items, Scores
from .sources import sources


class _Chair(Metric):
    """The base of both variants.

    An object is in the image if annotators marked it or a reference caption mentions it. Objects are the
    80 of COCO, found in captions by the words of the released table; its singular is that of
    ``pattern.en``, which does not find "bus" or "ties" (``singular``).

    ``Scores.parts``: ``mentions [n]`` and ``hallucinated [n]``, counted with repeats.

    Args:
        synonyms: The table; by default ``$CAPBENCH_DATA/chair/synonyms.txt``.
    """

    splits_words = True
    english_only = True
    is_plain = True
    is_share = True
    higher_is_better = False
    needs = frozenset({"objects", "references"})
    source = "Rohrbach et al., EMNLP 2018; LisaAnne/Hallucination utils/chair.py"

    def __init__(self, synonyms: str | None = None) -> None:
        # Private: the table's content is in the fingerprint, not its place.
        self._synonyms = synonyms

    def check(self) -> None:
        """Raise if the table of synonyms is missing, or is another one."""
        self.table()

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [Files(sources()["chair"], _places()[0].parent, partial(find_table, self._synonyms))]

    def fingerprint(self) -> dict[str, Any]:
        """Return which table finds the objects."""
        return {**super().fingerprint(), "synonyms": self.table().digest}

    def table(self) -> SynonymTable:
        """Return the table, read anew.

        Raises:
            MetricError: It is missing, or is another one.
        """
        return read_table(find_table(self._synonyms))

    def _count(self, items: Items) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return the parts, and item index to why it could not be counted."""
        table = self.table()
        known = items.memo.get(f"chair {table.digest}")
        if known is None:
            known = items.memo[f"chair {table.digest}"] = count(items, table)
        return known


class ChairI(_Chair, ShareMetric):
    """Hallucinated mentions of objects, as a share of all mentions (CHAIRi).

    The value of an item is its own share, 0 where it mentions no object; the system-level value is that
    of all mentions together, to which such an item adds nothing.
    """

    label = "CHAIRi"
    _share = "hallucinated", "mentions"
    undefined = (
        "no caption mentions any of the 80 COCO objects, so that CHAIRi is 0 of 0 mentions. Are these English "
        "captions of everyday photographs? CHAIR knows no other objects."
    )

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        return self._shares(*self._count(items))


class ChairS(_Chair):
    """1 if the caption mentions an object that is not in the image, else 0; the mean is their share (CHAIRs)."""

    label = "CHAIRs"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        parts, failures = self._count(items)
        values = (parts["hallucinated"] > 0).astype(np.float64)
        values[list(failures)] = np.nan
        return Scores(values=values, parts=dict(parts), failures=dict(failures))


def count(items: Items, table: SynonymTable) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Count mentions of objects, and those of objects that are not in the image.

    Args:
        items: ``n`` items with objects.
        table: Which words stand for which object.

    Returns:
        ``mentions [n]`` and ``hallucinated [n]`` by name, and item index to why it could not be counted.
    """
    reference_sets, set_of_item = items.reference_sets
    of_captions = [
        frozenset(name for reference in references for name in table.mentions(reference))
        for references in reference_sets
    ]
    mentions, hallucinated = np.zeros((2, len(items)))
    failures: dict[int, str] = {}
    for item, (candidate, marked) in enumerate(zip(items.candidates, items.objects, strict=True)):
        if unknown := sorted(marked - table.objects.keys()):
            failures[item] = f"its image holds '{unknown[0]}', which is not in the table of COCO objects"
            continue
        present = of_captions[set_of_item[item]] | {table.objects[name] for name in marked}
        mentioned = table.mentions(candidate)
        mentions[item] = len(mentioned)
        hallucinated[item] = sum(name not in present for name in mentioned)
    return {"mentions": mentions, "hallucinated": hallucinated}, failures


TABLE = "chair/synonyms.txt"
N_OBJECTS = 80
"""Lines of the released table; one of another length is not of COCO."""

_WHERE_FROM = (
    "'bench fetch chair_i' fetches it: data/synonyms.txt of https://github.com/LisaAnne/Hallucination, which may not "
    f"be passed on with capbench. Or put it at $CAPBENCH_DATA/{TABLE}, or name it with the setting 'synonyms'."
)

_RULES: Any = load_yaml(Path(__file__).with_suffix(".yaml"))
_DOUBLE_WORDS: dict[str, str] = {
    **{words: words for words in _RULES["compounds"]},
    **{f"{age} {animal}": animal for age in ("baby", "adult") for animal in _RULES["animals"]},
    **_RULES["double_words"],
}
_IRREGULAR: dict[str, str] = _RULES["irregular"]
_UNCHANGED: tuple[str, ...] = tuple(_RULES["unchanged"])
_SUFFIXES = [(re.compile(f"{plural}$"), ending) for plural, ending in _RULES["suffixes"].items()]

# As NLTK splits: a full stop at the end only, no comma or colon before a digit.
_FULL_STOP = re.compile(r"([^.])(\.[\])}>\"'»”’]*)$")
_MARKS = re.compile(r"\.{2,}|--|[,:](?!\d)|[;?!*@#$%&()\[\]{}<>\"“”«»„‘’`]|(?<!\S)'")
_CLITIC = re.compile(r"([^'].*?)('(?:s|m|d|ll|re|ve)?)")


@dataclass(frozen=True)
class SynonymTable:
    """Words and the COCO object that each stands for.

    Attributes:
        objects: Word to object.
        digest: SHA-256 of the file.
    """

    objects: dict[str, str]
    digest: str

    def mentions(self, caption: str) -> list[str]:
        """Return the objects that a caption mentions, one for each mention, in order.

        Args:
            caption: The caption, not preprocessed.
        """
        return [name for name, _ in self.places(tokens(caption.lower()))]

    def places(self, words: Sequence[str]) -> list[tuple[str, tuple[int, int]]]:
        """Return mentioned objects, each with the places of its first word and of the one after its last.

        Args:
            words: Tokens of a caption in lower case.
        """
        named = list(_with_double_words(list(map(singular, words))))
        # "the seat of the toilet" is no chair.
        passed = {"seat"} if any(word == "toilet" for word, _ in named) else set[str]()
        return [(self.objects[word], place) for word, place in named if word in self.objects and word not in passed]


def find_table(path: str | None = None) -> Path:
    """Return where the table of synonyms is.

    Args:
        path: Its path; by default it is looked for in ``$CAPBENCH_DATA/chair`` and in the cache.

    Raises:
        MetricError: It is not there; the hint says where to get it.
    """
    places = _places() if path is None else [Path(path).expanduser()]
    for place in places:
        if place.is_file():
            return place
    looked = " and ".join(map(str, places))
    raise MetricError(f"CHAIR's synonym table is not on this machine (looked for {looked}).", _WHERE_FROM)


def _places() -> list[Path]:
    root = DataLocations.from_environment().root
    return [folder / TABLE for folder in (root, cache_folder() / "data") if folder]


def read_table(path: Path) -> SynonymTable:
    """Read the released table: a line an object, its name first, then its synonyms.

    Raises:
        MetricError: The file is not that table.
    """
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MetricError(f"CHAIR's synonym table {path}: cannot be read: {error}", _WHERE_FROM) from error
    # Split at one comma and one space, as released: "cake,  cheesecake" leaves a word " cheesecake",
    # which no caption has.
    rows = [line.strip().split(", ") for line in lines if line.strip()]
    if len(rows) != N_OBJECTS:
        raise MetricError(
            f"{path}: has {len(rows)} lines; CHAIR's synonym table has {N_OBJECTS}, one per COCO object.", _WHERE_FROM
        )
    objects = {word: row[0] for row in rows for word in row}
    return SynonymTable(objects, hashlib.sha256(content).hexdigest())


def tokens(text: str) -> list[str]:
    """Split a text at white space and split punctuation off its words.

    Stands for NLTK's ``word_tokenize``, which the released code uses, without its models: of 634,984
    captions (COCO 2014, Flickr8k, ImageInWords) all but 3 mention the same objects.
    """
    words: list[str] = []
    for chunk in text.split():
        for word in _MARKS.sub(r" \g<0> ", _FULL_STOP.sub(r"\1 \2", chunk)).split():
            parts = _CLITIC.fullmatch(word)
            words += parts.groups() if parts else (word,)
    return words


def singular(word: str) -> str:
    """Return the singular of a lower-case word, right or wrong as ``pattern.en`` has it.

    Agrees with it in every word that decides whether a caption mentions an object, its mistakes
    included: "bus" becomes "bu" and "ties" becomes "ty", and neither is found; "glass" becomes "glas",
    with which the rule for wine glasses reckons.
    """
    if word.endswith(_UNCHANGED):
        return word
    for plural, ending in _IRREGULAR.items():
        if word.endswith(plural):
            return word.removesuffix(plural) + ending
    for suffix, ending in _SUFFIXES:
        if suffix.search(word):
            return suffix.sub(ending, word)
    return word


def _with_double_words(words: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the words with their places, two that belong together as one."""
    at = 0
    while at < len(words):
        double = _DOUBLE_WORDS.get(" ".join(words[at : at + 2]))
        start, at = at, at + (2 if double else 1)
        yield double or words[start], (start, at)
