"""How long the captions of a model are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...adapters import Caption


@dataclass
class CaptionLengths:
    """How long captions are, and how many ended because their allowed tokens were used up."""

    captions: int = 0
    words: int = 0
    told_tokens: int = 0
    tokens: int = 0
    told_cut: int = 0
    cut: int = 0

    def add(self, caption: Caption) -> None:
        """Count a caption."""
        self.captions += 1
        self.words += len(caption.text.split())
        if caption.tokens is not None:
            self.told_tokens += 1
            self.tokens += caption.tokens
        if caption.cut is not None:
            self.told_cut += 1
            self.cut += caption.cut

    def to_json(self) -> dict[str, Any]:
        """Return the means, as records hold them."""
        return {
            "captions": self.captions,
            "mean_words": self.words / self.captions if self.captions else 0.0,
            "mean_tokens": self.tokens / self.told_tokens if self.told_tokens else None,
            "cut": self.cut if self.told_cut else None,
        }
