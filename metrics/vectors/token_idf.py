"""How rare the tokens of a text are among training captions: inverse document frequency."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import Encoder
from ...errors import BenchError, MetricError
from ...rows import load_json
from ..contract import Cache

_PADDING = 0
_CAPTIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class TokenIdf:
    """The idf of tokens: ``log((N + 1) / (c + 1))`` of a token in ``c`` of ``N`` captions.

    As released with EMScore (``emscore/utils.py``, ``VATEX-EVAL-demo.py``): a token of no caption has
    ``log(N + 1)``, the start token 0, and the end token the mean over all tokens that occur. Padding, id 0,
    is one of these: released code counts it as a token of every caption that does not fill the context.

    Attributes:
        captions: ``N``.
        counts: Token id to the number of captions that it occurs in.
    """

    captions: int
    counts: Mapping[int, int]

    def weights(self, ids: Sequence[int]) -> np.ndarray:
        """Return ``[t]`` the idf of the tokens of a text, of which the last one is its end."""
        found = [self._idf(token) for token in ids]
        found[-1] = self._mean
        return np.array(found)

    @cached_property
    def _mean(self) -> float:
        return sum(map(self._idf, self.counts)) / len(self.counts)

    def _idf(self, token: int) -> float:
        return log((self.captions + 1) / (self.counts.get(token, 0) + 1))


def corpus_digest(path: Path) -> str:
    """Return a text that changes with a corpus' bytes.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def load_idf(path: Path, max_words: int | None, encoder: Encoder, cache: Cache) -> TokenIdf:
    """Count the tokens of the captions of a file; what was counted before is taken from the cache.

    Args:
        path: ``.json``: every text of it is a caption, but where a mapping has ``sentences`` (as in ActivityNet
            Captions) those alone; keys of mappings are none. Any other suffix: a caption a line.
        max_words: Longer captions are left out; words are what single spaces separate. None for no limit.
        encoder: Whose tokens.
        cache: Where counts are kept.

    Raises:
        MetricError: The file is not there or not of its format, or has no caption.
    """
    try:
        key = f"{corpus_digest(path)} {path.suffix} {max_words}"
    except OSError as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error.strerror or error}") from error
    producer = {"of": "token idf", "encoder": encoder.fingerprint()}
    known = cache.get(producer, [key]).get(key)
    if known is None:
        known = _count(captions_of(path, max_words), encoder)
        cache.put(producer, {key: known})
    return TokenIdf(known["captions"], {int(token): count for token, count in known["counts"].items()})


def captions_of(path: Path, max_words: int | None) -> list[str]:
    """Return the captions of a corpus; see :func:`load_idf`."""
    try:
        if path.suffix == ".json":
            found = _texts(load_json(path))
        else:
            found = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except BenchError as error:
        raise MetricError(f"idf corpus {error.message}", error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error}") from error
    kept = [text for text in found if max_words is None or len(text.split(" ")) <= max_words]
    if not kept:
        raise MetricError(f"idf corpus {path}: has no caption")
    return kept


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value["sentences"] if "sentences" in value else list(value.values())
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []


def _count(captions: Sequence[str], encoder: Encoder) -> dict[str, Any]:
    counts: Counter[int] = Counter()
    for start in range(0, len(captions), _CAPTIONS_AT_ONCE):
        for ids in encoder.token_ids(captions[start : start + _CAPTIONS_AT_ONCE]):
            seen = set(cut_to_context(ids, encoder))
            if len(ids) < encoder.context_length:
                seen.add(_PADDING)
            counts.update(seen)
    return {"captions": len(captions), "counts": {str(token): count for token, count in counts.items()}}


def cut_to_context(ids: Sequence[int], encoder: Encoder) -> list[int]:
    """Return the ids of the tokens that the encoder sees: the first ones, and the end token."""
    longest = encoder.context_length
    return list(ids) if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]
