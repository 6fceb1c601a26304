"""Thumbnails of the samples that a metric scores highest and lowest."""

import hashlib
import io
from collections.abc import Callable, Sequence

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...adapters.images.reading import UnreadableImage, read_image

SIZE = 256
QUALITY = 80
EACH = 5
"""Number of the best, and of the worst, samples of each metric."""
MOST = 40


def pictures(
    scores: Sequence[np.ndarray], sample: Callable[[int], tuple[str, ImageHandle | VideoHandle | None]]
) -> dict[str, tuple[str, bytes]]:
    """Return pictures of the best and the worst samples of each metric.

    Args:
        scores: ``[n]`` values a metric, not finite where a sample has none.
        sample: Gives the id and the image of a sample, by its number.

    Returns:
        Id of a sample to the name of a file, made of a hash of the id, and its content: JPEG, at most 256 pixels
        wide and high, without the metadata of the original. At most 40; the first ones of
        all metrics come before the second ones of any. An image that cannot be read has none.
    """
    jpegs: dict[str, tuple[str, bytes]] = {}
    for number in _extremes(scores):
        identity, handle = sample(number)
        if isinstance(handle, ImageHandle) and (content := thumbnail(handle)) is not None:
            jpegs[identity] = f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jpg", content
    return jpegs


def _extremes(scores: Sequence[np.ndarray]) -> list[int]:
    """Return the samples with the greatest and least scores, rank by rank, at most ``MOST``."""
    ends: list[tuple[list[int], list[int]]] = []
    for values in scores:
        order = np.argsort(values, kind="stable")
        # Infinite values and NaN are sorted to its ends.
        order = order[np.count_nonzero(values == -np.inf) :][: np.count_nonzero(np.isfinite(values))]
        ends.append((order[:EACH].tolist(), order[: -EACH - 1 : -1].tolist()))
    chosen: dict[int, None] = {}
    for rank in range(EACH):
        for least, greatest in ends:
            if rank < len(least):
                chosen |= {greatest[rank]: None, least[rank]: None}
    return list(chosen)[:MOST]


def thumbnail(handle: ImageHandle) -> bytes | None:
    """Return an image as JPEG, at most 256 pixels wide and high, without metadata; None if it cannot be read."""
    from PIL import Image

    try:
        image = read_image(handle).image.convert("RGB")
        image.thumbnail((SIZE, SIZE))
    except (UnreadableImage, OSError, ValueError):
        return None
    # A new image, without the metadata of the file (EXIF, comments).
    plain = Image.new("RGB", image.size)
    plain.paste(image)
    content = io.BytesIO()
    plain.save(content, "JPEG", quality=QUALITY)
    return content.getvalue()
