"""Token ids as text towers take them: those of OpenAI's CLIP tokenizer, and how many places there are for others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CONTEXT = 77
"""Tokens of CLIP's context."""


@cache
def clip_tokenizer(context_length: int = CONTEXT) -> Any:
    """Return open_clip's ``SimpleTokenizer``, the same for all who ask: it takes a tenth of a second to make.

    Args:
        context_length: Places of the text tower.
    """
    from open_clip import SimpleTokenizer

    return SimpleTokenizer(context_length=context_length)


def clip_tokens(text: str) -> int:
    """Return the number of OpenAI CLIP tokens of a text, start and end included."""
    return len(clip_tokenizer().encode(text)) + 2


def clip_token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of each text, start and end included, nothing cut off.

    They are made once a text: their number orders texts, and they are the model's input.

    Args:
        tokenizer: open_clip's ``SimpleTokenizer``.
        texts: The texts.
    """
    start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
    return [[start, *tokenizer.encode(text), end] for text in texts]


def cut_to(length: int, ids: Sequence[int]) -> Sequence[int]:
    """Return the ids of the tokens that a model of this context sees of a text: the first ones, and the end token."""
    return ids if len(ids) <= length else [*ids[: length - 1], ids[-1]]


def clip_token_rows(ids: Sequence[list[int]], length: int) -> torch.Tensor:
    """Return ids as rows ``[b, length]``: those too long are cut, their last one the end token; 0 fills the others."""
    import torch

    rows = torch.zeros(len(ids), length, dtype=torch.long)
    for row, tokens in zip(rows, ids, strict=True):
        kept = cut_to(length, tokens)
        row[: len(kept)] = torch.tensor(kept)
    return rows


def reserved_positions(model: Any) -> int:
    """Return how many of a text tower's positions no token can stand at.

    RoBERTa, and what is made of it (AltCLIP), counts positions from the number of its padding token on: of 514
    positions the first two are unused.

    Args:
        model: A model of transformers.
    """
    paddings = [
        getattr(module, "padding_idx", None)
        for name, module in model.named_modules()
        if name.endswith(".position_embeddings")
    ]
    return max((padding + 1 for padding in paddings if padding is not None), default=0)
