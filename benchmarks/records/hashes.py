"""Hashes of runs, of their data and of their records."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ...adapters.images.handles import digests
from ...metrics import Items
from ..inputs.items import SeenValues, printable
from ..protocols.job import Shard


def plain(value: Any) -> Any:
    """Return a value as JSON: other types, of YAML or of a metric's settings, become text."""
    # Nearly all values are of these types, and the check for a Mapping is the slowest.
    kind = cast("type[Any]", type(value))
    if kind is str:
        return printable(value)
    if kind is int or kind is bool or value is None or (kind is float and math.isfinite(value)):
        return value
    if isinstance(value, dict | Mapping):
        return {str(key): plain(element) for key, element in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in cast("list[Any]", value)]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return printable(str(value))


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Return a hash of everything that decides the numbers of a run."""
    return hash_of_json(plain(parts))


def hash_of_json(parts: Mapping[str, Any]) -> str:
    """Return the fingerprint of JSON values, which need not be made :func:`plain`."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def checksum(values: Mapping[str, Any]) -> str:
    """Return a hash of a whole record without its ``checksum``, which detects edits by hand.

    Args:
        values: JSON values, as ``json.loads`` returns them.
    """
    whole = {key: value for key, value in values.items() if key != "checksum"}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def verify(values: Mapping[str, Any]) -> str | None:
    """Return why a record is not intact; None if it is.

    Records of versions without a checksum are verified by their fingerprint alone.

    Args:
        values: As of :func:`checksum`.
    """
    if hash_of_json(values.get("fingerprint_parts", {})) != values.get("fingerprint"):
        return "its fingerprint does not match its fingerprint_parts"
    try:
        known = "checksum" not in values or checksum(values) == values["checksum"]
    except ValueError:
        # An infinite number, such as 1e999, which JSON cannot hold.
        known = False
    return None if known else "its checksum does not match its content"


class DataHash:
    """Hashes of the scored data, in order: captions, references, objects and ratings; and of the images."""

    def __init__(self) -> None:
        self._data, self._images = hashlib.sha256(), hashlib.sha256()
        self._seen = SeenValues()
        self.has_images = False

    def add(self, shard: Shard) -> None:
        """Add the data of a shard."""
        for known in shard.content:
            self._data.update(json.dumps(known).encode())

    def add_images(self, items: Items) -> str | None:
        """Add the images of items, each where it first occurs; missing ones count, too.

        Returns:
            The hash of the images of these items alone; None where there are none.
        """
        images = list(dict.fromkeys(items.images))
        self.has_images = self.has_images or bool(images)
        own, new = hashlib.sha256(), set(self._seen.new(images))
        for image, digest in zip(images, digests(images), strict=True):
            text = b"missing" if isinstance(digest, OSError) else digest.encode()
            own.update(text)
            if image in new:
                self._images.update(text)
        return own.hexdigest() if images else None

    @property
    def data(self) -> str:
        """The hash of the scored data."""
        return self._data.hexdigest()

    @property
    def images(self) -> str | None:
        """The hash of the images; None where there were none."""
        return self._images.hexdigest() if self.has_images else None
