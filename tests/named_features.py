"""An encoder of inputs by name: of texts, and of images that are bytes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from capbench.adapters import Encoded, Encoder, ImageHandle, VideoHandle


class NamedFeatures(Encoder):
    """Gives the features of a name, which for an image is what it holds and its box; notes what it encodes.

    Args:
        features: Those of each name, or a function that returns them. What has none cannot be read;
            ``animated`` is read with a remark.
        context_length: So many words are the longest text.
    """

    def __init__(
        self, features: Mapping[str, Any] | Callable[[str], np.ndarray | None], context_length: int = 3
    ) -> None:
        self.features = features
        self.context_length = context_length
        self.encoded: list[str] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"encoder": "named features"}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        return self.texts([bytes(image.source).decode() + str(image.box or "") for image in images])

    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        self.encoded += texts
        of = self.features if callable(self.features) else self.features.get
        vectors = {at: np.array(vector) for at, vector in enumerate(map(of, texts)) if vector is not None}
        failures = {at: "cannot be read" for at in range(len(texts)) if at not in vectors}
        yield Encoded(vectors, failures, {at: "first frame" for at, text in enumerate(texts) if text == "animated"})

    def tokens(self, texts: Sequence[str]) -> Iterator[Encoded]:
        raise NotImplementedError

    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        raise NotImplementedError
