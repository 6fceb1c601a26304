"""How a model of transformers writes: greedy, beam and nucleus search, VCD, differentiated beam decoding."""

from __future__ import annotations

from .settings import decoder_of

__all__ = ["decoder_of"]
