"""A byte-pair vocabulary of the world's captions, in the format of CLIP's tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from .architecture import CONTEXT, END, START

if TYPE_CHECKING:
    import torch
    from transformers import CLIPTokenizer


def train_tokenizer(texts: Iterable[str], merges: int) -> CLIPTokenizer:
    """Return CLIP's tokenizer with a vocabulary of its own: all bytes, alone and ending a word, and merges.

    As in CLIP's, text is lowered, the start token comes last but one, and the end token, which also pads, last,
    so that the largest id of a row is where its text ends. All bytes are there, so that none is unknown.

    Args:
        texts: What it is made from.
        merges: At most so many pairs are merged, the most frequent first.
    """
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(f"{byte}</w>" for byte in alphabet)]
    empty = CLIPTokenizer(vocab={piece: n for n, piece in enumerate([*pieces, START, END])}, merges=[])
    backend: Any = empty.backend_tokenizer
    words: Counter[str] = Counter()
    for text in texts:
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text)):
            words[word] += 1
    pairs = _merges(words, merges)
    vocabulary = list(dict.fromkeys([*pieces, *("".join(pair) for pair in pairs), START, END]))
    ids = {piece: n for n, piece in enumerate(vocabulary)}
    # The library takes pairs, and says that it takes text.
    return CLIPTokenizer(vocab=ids, merges=cast("list[str]", pairs), model_max_length=CONTEXT)


def token_ids(tokenizer: CLIPTokenizer, texts: Sequence[str]) -> torch.Tensor:
    """Return ids ``[n, length]``, cut to the context and padded with the end token."""
    return tokenizer(list(texts), padding="longest", truncation=True, max_length=CONTEXT, return_tensors="pt")[
        "input_ids"
    ]


def _merges(words: Counter[str], number: int) -> list[tuple[str, str]]:
    """Return the pairs that byte-pair encoding merges; of equally frequent ones the first by alphabet."""
    split = {word: [*word[:-1], f"{word[-1]}</w>"] for word in words}
    found: list[tuple[str, str]] = []
    while len(found) < number:
        counts: Counter[tuple[str, str]] = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        found.append(best)
        for parts in split.values():
            at = 0
            while at + 1 < len(parts):
                if (parts[at], parts[at + 1]) == best:
                    parts[at : at + 2] = ["".join(best)]
                at += 1
    return found
