"""Lengths of texts as CLIP counts them: start and end are tokens, too."""

from __future__ import annotations

from ...adapters.encoders.clip_tokens import clip_tokenizer


def clip_tokens(text: str) -> int:
    """Return how many tokens of OpenAI's CLIP a text has, start and end included."""
    return len(clip_tokenizer().encode(text)) + 2


def cut_to_tokens(text: str, most: int) -> str:
    """Return a text cut to so many tokens, by characters in proportion, as DCI cuts; as it is where it is shorter.

    Args:
        text: The text.
        most: Tokens that it may have.
    """
    while (count := clip_tokens(text)) > most:
        # In proportion it may still be too long by some, as tokens are not all of one length.
        text = text[: min(len(text) * most // count, len(text) - 1)]
    return text
