"""METEOR's tables for English, read from the jar and the paraphrase table beside it.

The paraphrase table is 5 million lines of text: it is made into arrays once (some seconds), as are the
synonym sets, and these are kept in the user's cache folder. Nothing of the tables is part of this package.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..java.jars import find_jar
from .jar import JAR, PARAPHRASES
from .paraphrases import Paraphrases, paraphrases_of
from .synonyms import Synonyms, synonyms_of
from .text import Prefixes, prefixes_of


@dataclass(frozen=True, eq=False)
class Resources:
    """All tables.

    Attributes:
        prefixes: Abbreviations that keep their dot.
        function_words: Words that weigh less.
        synonyms: WordNet.
        paraphrases: The paraphrase table.
    """

    prefixes: Prefixes
    function_words: frozenset[str]
    synonyms: Synonyms
    paraphrases: Paraphrases


def check() -> None:
    """Raise if the jar or the paraphrase table is missing.

    Raises:
        MetricError: One is missing; the hint says how to get it.
    """
    find_jar(JAR)
    find_jar(PARAPHRASES)


def load() -> Resources:
    """Return the tables of the installed pycocoevalcap; read once a process.

    Raises:
        MetricError: The jar or the paraphrase table is missing.
    """
    return load_from(find_jar(JAR), find_jar(PARAPHRASES))


@cache
def load_from(jar: Path, paraphrases: Path) -> Resources:
    """Return the tables of a jar and a paraphrase table."""
    with zipfile.ZipFile(jar) as archive:
        prefixes, function_words = (
            archive.read(name).decode("utf-8").splitlines()
            for name in ("nonbreaking/english.prefixes", "function/english.words")
        )
        synonyms = synonyms_of(archive)
    return Resources(prefixes_of(prefixes), frozenset(function_words), synonyms, paraphrases_of(paraphrases))
