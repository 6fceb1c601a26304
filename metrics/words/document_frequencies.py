"""In how many images of a set of captions each n-gram occurs, for CIDEr with frequencies that are given."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError
from ...rows import BadRow, load_json, read_rows
from .ngrams import MAX_ORDER, NGrams
from .ptb_lexer import tokenize_text


@dataclass(frozen=True)
class DocumentFrequencies:
    """The document frequencies of a set of captions; a document is an image with all its captions.

    Attributes:
        documents: How many images have a caption.
        words: Word to its number.
        keys: For n = 2..4, ascending int64: number of the first n - 1 words times 2**32, plus that of the last
            word. An n-gram's number is the position of its key.
        frequencies: For n = 1..4, how many images have the n-gram of each number.
    """

    documents: int
    words: Mapping[str, int]
    keys: tuple[np.ndarray, ...]
    frequencies: tuple[np.ndarray, ...]

    def of(self, ngrams: NGrams, order: int) -> np.ndarray:
        """Return ``[ngrams.sizes[order - 1]]`` how many images have each of some n-grams.

        Args:
            ngrams: The n-grams.
            order: The n of n-gram, 1 to 4.
        """
        words = np.array([self.words.get(word, -1) for word in ngrams.words], dtype=np.int64)[ngrams.ids[0]]
        found = words
        for length in range(2, order + 1):
            table, last = self.keys[length - 2], np.roll(words, 1 - length)
            keys = np.where((found >= 0) & (last >= 0), (found << 32) | last, -1)
            at = np.searchsorted(table, keys)
            found = np.where(np.append(table, -2)[at] == keys, at, -1)
        frequencies = np.zeros(ngrams.sizes[order - 1])
        left = np.repeat(ngrams.starts + ngrams.lengths, ngrams.lengths) - np.arange(len(words))
        whole = left >= order
        # What was not found has the number -1, and so the 0 at the end.
        frequencies[ngrams.ids[order - 1][whole]] = np.append(self.frequencies[order - 1], 0)[found[whole]]
        return frequencies


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        DataError: It cannot be read.
    """
    try:
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def read_frequencies(path: Path) -> DocumentFrequencies:
    """Count the n-grams of a file of captions; a file that was counted before is not read again.

    Args:
        path: COCO's captions (``{"annotations": [{"image_id", "caption"}]}``), or rows with ``image`` (or
            ``image_id``) and ``caption``, as jsonl, json, csv, tsv or parquet.

    Raises:
        DataError: It cannot be read, or a row lacks an image or a caption: frequencies of a part of a corpus
            would be other frequencies.
    """
    return _counted(path, file_digest(path))


@lru_cache(maxsize=256)
def _digest(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@lru_cache(maxsize=2)
def _counted(path: Path, digest: str) -> DocumentFrequencies:
    documents: defaultdict[str, int] = defaultdict()
    documents.default_factory = documents.__len__
    images, texts = [], []
    for image, caption in _captions(path):
        images.append(documents[image])
        texts.append(tokenize_text(caption).split())
    if not texts:
        raise DataError(f"{path}: holds no captions")
    return count(np.array(images), texts)


def count(images: np.ndarray, texts: list[list[str]]) -> DocumentFrequencies:
    """Count the n-grams of captions.

    Args:
        images: ``[t]`` the image of each caption, numbered from 0.
        texts: The tokens of each caption.
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    words = np.fromiter(map(numbers.__getitem__, chain.from_iterable(texts)), dtype=np.int64)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))
    of_word = np.repeat(images, lengths).astype(np.int64)
    keys, frequencies = [], []
    found, size = words, len(numbers)
    at = np.arange(len(words))
    for order in range(1, MAX_ORDER + 1):
        if order > 1:
            at = np.flatnonzero(left >= order)
            distinct, inverse = np.unique((found[at] << 32) | words[at + order - 1], return_inverse=True)
            found = np.zeros(len(words), dtype=np.int64)
            found[at] = inverse
            keys.append(distinct)
            size = len(distinct)
        once = np.sort(of_word[at] * size + found[at])
        once = once[np.diff(once, prepend=-1) > 0]
        frequencies.append(np.bincount(once % max(size, 1), minlength=size))
    return DocumentFrequencies(len(set(images.tolist())), dict(numbers), tuple(keys), tuple(frequencies))


def _captions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield image and caption of each row of a file."""
    document = load_json(path) if path.suffix == ".json" else None
    rows: Iterable[Any]
    if isinstance(document, Mapping):
        rows = document.get("annotations", ())
        if not isinstance(rows, list) or not rows:
            raise DataError(
                f"{path}: has no list 'annotations'",
                'Captions of COCO are {"annotations": [{"image_id": ..., "caption": ...}, ...]}.',
            )
    else:
        rows = document if isinstance(document, list) else read_rows(path)
    for number, row in enumerate(rows, 1):
        if isinstance(row, BadRow):
            raise DataError(f"{row.place}: {row.reason}")
        image = row.get("image", row.get("image_id")) if isinstance(row, Mapping) else None
        caption = row.get("caption") if isinstance(row, Mapping) else None
        if image is None or not isinstance(caption, str):
            raise DataError(f"{path}: row {number} has no image or no caption", "A row is {image: ..., caption: ...}.")
        yield str(image), caption
