"""The contract of encoders that look at an image and a text together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

import numpy as np

from ..errors import AdapterError
from .contracts import Encoded, Encoder
from .pixels.handles import ImageHandle, VideoHandle

PAIRWISE = "pairwise"
"""The family of these encoders (``Encoder.family``)."""


@dataclass(frozen=True)
class ScoredPairs:
    """What a pairwise encoder made of some of its images.

    Attributes:
        scores: Position of an image to ``[k]`` float32, the scores of its texts, in order; NaN for one without.
        failures: Position of an image to the reason why it, or one of its texts, has no score.
        remarks: Position of an image to what was done to read it that is not as usual.
    """

    scores: Mapping[int, np.ndarray]
    failures: Mapping[int, str] = field(default_factory=dict)
    remarks: Mapping[int, str] = field(default_factory=dict)


class PairwiseEncoder(Encoder):
    """An encoder that gives an image and a text one score, and neither a vector.

    A subclass tells by ``fingerprint`` what the score is made of: which head, what stands first, how many tokens.
    """

    family: ClassVar[str] = PAIRWISE

    @abstractmethod
    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Score each image with each of its texts, all of which are cut to ``context_length`` tokens.

        An image is encoded once, however many texts it has.

        Args:
            images: ``n`` images.
            texts: The texts of each.

        Raises:
            AdapterError: The model failed as a whole.
        """

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        """Raise: no image has a vector of its own."""
        self._refuse()

    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Raise: no text has a vector of its own."""
        self._refuse()

    def tokens(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Raise: no token has a vector of its own."""
        self._refuse()

    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        """Raise: no frame has a vector of its own."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise AdapterError(
            f"{getattr(self, 'name', type(self).__name__)} scores an image and a text together, and has a vector of "
            "neither.",
            "Tasks that match images and texts take it, and the metric itm_score; other metrics, and training, take a "
            "dual encoder ('bench ls models').",
        )
