"""WordNet's lemmas and synonyms, read from its database files, wherever they came from.

They give what NLTK's ``WordNetLemmatizer.lemmatize`` and ``wordnet.synsets`` give, from an NLTK corpus
(folder or archive), Debian's wordnet-base or any other copy of the files; a run downloads nothing.
"""

import hashlib
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Literal

from ...downloads import Files
from ...errors import MetricError
from ..sources import sources

Kind = Literal["noun", "verb", "adj", "adv"]
_KINDS: tuple[Kind, ...] = ("noun", "verb", "adj", "adv")
_DEBIAN = Path("/usr/share/wordnet")
_MARKER = re.compile(r"\([^()]*\)$")
"""Where an adjective may stand; written behind its name."""

# NLTK's rules of detachment: WordNet's own (morphy) and "ves".
_DETACHMENTS: dict[Kind, tuple[tuple[str, str], ...]] = {
    "noun": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
        *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
    ),
    "verb": (
        *(("s", ""), ("ies", "y"), ("es", "e"), ("es", "")),
        *(("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}


@dataclass(frozen=True, eq=False)
class WordNet:
    """A WordNet database.

    Attributes:
        digest: Hash of its files.
        index: For each part of speech, lemma to its line of the index file.
        data: For each part of speech, offset to its line of the data file.
        exceptions: For each part of speech, irregular form to base forms.
    """

    digest: str
    index: dict[Kind, dict[str, str]] = field(repr=False)
    data: dict[Kind, dict[str, str]] = field(repr=False)
    exceptions: dict[Kind, dict[str, list[str]]] = field(repr=False)

    @lru_cache(maxsize=200_000)  # noqa: B019 - one database lives as long as the process
    def lemma(self, word: str, kind: Kind) -> str:
        """Return the shortest base form of a word, or the word itself where WordNet knows none; case matters."""
        return min(self._bases(word, kind), key=len, default=word)

    @lru_cache(maxsize=200_000)  # noqa: B019
    def synonyms(self, phrase: str) -> frozenset[str]:
        """Return the names of all lemmas of all synsets of a phrase and its base forms; spaces count as "_"."""
        word = "_".join(phrase.split()).lower()
        return frozenset(
            name
            for kind in _KINDS
            for base in self._bases(word, kind)
            for offset in _offsets(self.index[kind][base])
            for name in _names(self.data[kind][offset])
        )

    def _bases(self, word: str, kind: Kind) -> list[str]:
        forms = self.exceptions[kind].get(word)
        if forms is None:
            forms = [
                word.removesuffix(suffix) + replacement
                for suffix, replacement in _DETACHMENTS[kind]
                if word.endswith(suffix)
            ]
        return [form for form in dict.fromkeys([word, *forms]) if form in self.index[kind]]


def find(folder: str | None = None) -> Path:
    """Return where WordNet's files are: a folder, or NLTK's archive of them.

    Args:
        folder: The only place to look; otherwise ``$WNSEARCHDIR``, NLTK's data folders and Debian's.

    Raises:
        MetricError: There is none; the hint says how to get it.
    """
    places = [Path(folder).expanduser()] if folder is not None else list(_places())
    for place in places:
        if (place / "data.noun").is_file() or (place.suffix == ".zip" and place.is_file()):
            return place
    raise MetricError(
        f"WordNet is not in {folder}: data.noun is missing."
        if folder is not None
        else "WordNet's database files are not on this machine.",
        f"{sources()['wordnet'].offer('capture')} Or run 'apt-get install wordnet-base', or set the metric's 'wordnet' "
        "or $WNSEARCHDIR to the folder of data.noun.",
    )


def resource(folder: str | None = None) -> Files:
    """Return the files for ``bench fetch``, which keeps them where NLTK looks for them.

    Args:
        folder: As of :func:`find`.
    """
    return Files(sources()["wordnet"], nltk_folder(), partial(find, folder))


def nltk_folder() -> Path:
    """Return the first folder in which NLTK looks for its data."""
    from nltk import data

    return Path(next(iter(data.path), Path.home() / "nltk_data"))


@cache
def load(place: Path) -> WordNet:
    """Return the database in a folder or archive; read once a process.

    Raises:
        MetricError: A file is missing or is not WordNet's.
    """
    try:
        root = place if place.is_dir() else zipfile.Path(place, "wordnet/")
        names = (name for kind in _KINDS for name in (f"index.{kind}", f"data.{kind}", f"{kind}.exc"))
        files = {name: (root / name).read_bytes() for name in names}
        digest = hashlib.sha256()
        for name in sorted(files):
            digest.update(f"{name}:{len(files[name])}:".encode())
            digest.update(files[name])
        return WordNet(
            digest.hexdigest(),
            {kind: _by_first_word(files[f"index.{kind}"]) for kind in _KINDS},
            {kind: _by_first_word(files[f"data.{kind}"]) for kind in _KINDS},
            {
                kind: {row[0]: row[1:] for line in files[f"{kind}.exc"].decode().splitlines() if (row := line.split())}
                for kind in _KINDS
            },
        )
    except (OSError, KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise MetricError(
            f"WordNet at {place} cannot be read: {error}",
            "The folder needs index.*, data.* and *.exc of noun, verb, adj and adv, as WordNet 3.0 has them.",
        ) from error


def _places() -> Iterator[Path]:
    if folder := os.environ.get("WNSEARCHDIR"):
        yield Path(folder)
    from nltk import data

    for folder in data.path:
        yield Path(folder) / "corpora/wordnet"
        yield Path(folder) / "corpora/wordnet.zip"
    yield _DEBIAN


def _by_first_word(content: bytes) -> dict[str, str]:
    # Lines of the licence begin with a space.
    lines = (line for line in content.decode("utf-8").splitlines() if line and line[0] != " ")
    return {line.partition(" ")[0]: line for line in lines}


def _offsets(line: str) -> list[str]:
    # lemma, part of speech, count of synsets, count of pointer kinds, those, ..., the offsets at the end.
    fields = line.split()
    return fields[-int(fields[2]) :]


def _names(line: str) -> list[str]:
    # offset, file number, kind, count of words in hexadecimal, then each word with its number.
    fields = line.split(" ", 4)
    words = fields[4].split(" ", 2 * int(fields[3], 16))
    return [_MARKER.sub("", word) for word in words[: 2 * int(fields[3], 16) : 2]]
