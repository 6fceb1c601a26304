"""Sentences and nouns of captions, by the models in NLTK's folders ($NLTK_DATA), as released CAPTURE finds them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...downloads import Files
from ...errors import MetricError, require_all
from ..contract import Context, kept
from ..sources import sources
from .wordnet import nltk_folder

_PUNKT = "tokenizers/punkt_tab/english/"
_TAGGER = "taggers/averaged_perceptron_tagger_eng/"
_CAPTIONS_A_WRITE = 512


@dataclass(frozen=True)
class CaptionText:
    """The sentences and nouns of a caption.

    Attributes:
        sentences: Its sentences; a line break alone ends none.
        nouns: Words tagged NN, NNS, NNP or NNPS, unchanged.
    """

    sentences: tuple[str, ...]
    nouns: tuple[str, ...]


def check() -> None:
    """Raise if NLTK or one of its models is missing.

    Raises:
        MetricError: The hint says how to get it.
    """
    require_all(lambda: _find(_PUNKT), lambda: _find(_TAGGER))


def resource() -> Files:
    """Return the models for ``bench fetch``."""
    return Files(sources()["nltk"], nltk_folder(), check)


def fingerprint() -> dict[str, Any]:
    """Return NLTK's version and which models it reads."""
    hashes = "".join(_hash_of(str(_find(resource))) for resource in (_PUNKT, _TAGGER))
    return {"nltk": version("nltk"), "models": hashlib.sha256(hashes.encode()).hexdigest()}


def read(captions: Sequence[str], context: Context) -> dict[str, CaptionText]:
    """Return sentences and nouns of each caption.

    Raises:
        MetricError: A model is missing.
    """
    producer = {"of": "sentences and nouns", **fingerprint()}
    known = kept(context.cache, producer, captions, _tag)
    return {caption: CaptionText(*map(tuple, known[caption])) for caption in captions}


def _tag(captions: Sequence[str]) -> Iterator[dict[str, tuple[list[str], list[str]]]]:
    punkt, words, tagger = _models()
    for start in range(0, len(captions), _CAPTIONS_A_WRITE):
        texts: dict[str, tuple[list[str], list[str]]] = {}
        for caption in captions[start : start + _CAPTIONS_A_WRITE]:
            sentences: list[str] = punkt.tokenize(caption)
            tokens = [token for sentence in sentences for token in words.tokenize(sentence)]
            texts[caption] = sentences, [token for token, tag in tagger.tag(tokens) if tag.startswith("NN")]
        yield texts


@cache
def _models() -> tuple[Any, Any, Any]:
    """Return sentence splitter, word splitter and tagger; loaded once a process, not for each caption."""
    from nltk.tag.perceptron import PerceptronTagger
    from nltk.tokenize import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktTokenizer

    return PunktTokenizer("english"), NLTKWordTokenizer(), PerceptronTagger()


def _find(resource: str) -> Any:
    from nltk import data

    try:
        return data.find(resource)
    except LookupError as error:
        name = resource.split("/")[1]
        raise MetricError(
            f"NLTK's '{name}' is not on this machine.",
            f"{sources()['nltk'].offer('capture')} Or set $NLTK_DATA to the folder that holds {resource}.",
        ) from error


@lru_cache(maxsize=16)
def _hash_of(path: str) -> str:
    """Return the hash of the files in a folder, or in a folder of an archive."""
    digest = hashlib.sha256()
    folder = Path(path)
    if folder.is_dir():
        for file in sorted(folder.iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()
    # NLTK names a folder in an archive by the archive's path and the folder's.
    archive = next(parent for parent in (folder, *folder.parents) if parent.suffix == ".zip")
    return hashlib.sha256(archive.read_bytes()).hexdigest()
