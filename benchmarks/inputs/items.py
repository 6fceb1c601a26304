"""Checks captions and gathers unique items from the rows of a data set."""

import ast
import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np

from ...adapters import Box, ImageHandle, VideoHandle
from ...errors import UsageError
from ...metrics import Items
from ...rows import is_utf8, parse_json
from .failures import FailureLog, Stage

_Value = TypeVar("_Value")
EmptyCaption = Literal["zero", "leave_out"]


MAX_REFERENCE_CHARACTERS = 20_000
"""References of known data sets are far shorter; a longer one is a broken row. Model captions have no limit."""
_LIST = re.compile(r"""\s*\[[\s\[]*["']""")
_TEXT = r"""(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
_PYTHON_LIST = re.compile(rf"\s*\[\s*{_TEXT}\s*+(?:,\s*{_TEXT}\s*+)*+(?:,\s*)?\]\s*")
"""A flat list of texts as Python prints it; no other Python syntax is read."""


def text_fault(text: Any) -> str | None:
    """Return why a value is not a caption, or None if it is."""
    if text is None:
        return "is null"
    if not isinstance(text, str):
        return f"is not text but {type(text).__name__}"
    if not text.strip():
        return "is empty"
    return None if is_utf8(text) else "is not valid UTF-8"


def candidate_fault(text: Any) -> str | None:
    """Return why a value cannot be scored as a caption, or None if it can."""
    # Nearly all captions are ASCII and begin with a letter, which is quick to check.
    if type(text) is str and text.isascii() and text[:1].isalpha():
        return None
    return text_fault(text) or (None if any(map(str.isalnum, text)) else "has no letter or digit")


def references_of(value: Any) -> Any:
    """Return the references of a data set as a list, where they are one.

    None is an empty list and a text a list of one. A text that is a JSON or Python list of texts (as in CSV files) is
    that list. Any other value is returned unchanged, for ``references_fault`` to name.
    """
    if value is None:
        return []
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            return parse_json(value)
        if _PYTHON_LIST.fullmatch(value):
            # Escapes that Python does not know, such as \\U of nothing, are a SyntaxError.
            with contextlib.suppress(SyntaxError, ValueError):
                return ast.literal_eval(value.strip())
    return [value]


def references_fault(references: Any) -> str | None:
    """Return why a value is not a list of references, or None if it is.

    A reference without a letter or digit is a fault, even next to valid ones: released code does not define it.
    """
    # Lists first: the check for a Sequence is slow.
    if not isinstance(references, list) and (isinstance(references, str) or not isinstance(references, Sequence)):
        return f"is not a list of captions but {type(references).__name__}"
    if not references:
        return "is an empty list"
    for number, text in enumerate(references, 1):
        if type(text) is str and text.isascii() and text[:1].isalpha():
            fault = None
        elif (fault := candidate_fault(text)) is None and _LIST.match(text):
            fault = "is a list in a text, and neither JSON nor Python's"
        if fault:
            return f"reference {number} {fault}"
        if len(text) > MAX_REFERENCE_CHARACTERS:
            return f"reference {number} is longer than {MAX_REFERENCE_CHARACTERS:,} characters"
    return None


def require_rule(rule: str) -> EmptyCaption:
    """Return a rule that a user named.

    Raises:
        UsageError: It is unknown.
    """
    if rule not in get_args(EmptyCaption):
        raise UsageError(f"empty_caption must be {' or '.join(get_args(EmptyCaption))}, not {rule!r}")
    return cast("EmptyCaption", rule)


def scored_caption(text: Any, sample: str, stage: Stage, rule: EmptyCaption, failures: FailureLog) -> str | None:
    """Return a caption as metrics score it.

    Args:
        text: The value of the caption.
        sample: Id of the sample.
        stage: The step that returned it.
        rule: The rule for an empty or invalid caption.
        failures: Receives such a caption.

    Returns:
        The caption; empty where it is scored as an empty one; None where it is excluded.

    Raises:
        DataError: It is invalid, and the log is strict.
    """
    fault = candidate_fault(text)
    if fault is None:
        return text
    if rule == "leave_out":
        failures.add(sample, stage, fault)
        return None
    failures.add_empty(sample, stage, fault)
    return ""


def objects_fault(objects: Any) -> str | None:
    """Return why a value is not a list of objects, or None if it is; the list may be empty."""
    if objects is None:
        return "are null; an image without any has an empty list"
    if isinstance(objects, str) or not isinstance(objects, Sequence):
        return f"are not a list of names but {type(objects).__name__}"
    return next((f"hold a name that {fault}" for name in objects if (fault := text_fault(name))), None)


def image_key(image: Any) -> str:
    """Return a text that identifies an image: its path or name, or the hash of encoded bytes."""
    if isinstance(image, Mapping):
        known = (image[key] for key in ("bytes", "path", "url") if image.get(key) is not None)
        image = next(known, image)
    return f"sha256:{hashlib.sha256(image).hexdigest()}" if isinstance(image, bytes) else printable(str(image))


def printable(name: str) -> str:
    """Return a name that is valid UTF-8: lone surrogates become their escapes."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


class CaptionRow(NamedTuple):
    """A caption of the data set that will be scored.

    Attributes:
        id: Its name in messages and records.
        image: The key of its image.
        candidate: The caption.
        references: Its references; empty where there are none.
        objects: Objects that annotators marked in the image; None where the data set has none.
        pixels: The image or video; None where the data set has none.
        boxes: The parts of the image; None where the data set has none.
        corpus: Captions with the same number form one corpus (see ``Items.corpus``).
        weight: Number of its ratings.
    """

    id: str
    image: str
    candidate: str
    references: tuple[str, ...]
    objects: frozenset[str] | None = None
    pixels: ImageHandle | VideoHandle | None = None
    boxes: tuple[Box, ...] | None = None
    corpus: int = 0
    weight: int = 1

    def content(self, ratings: Sequence[float] | Mapping[str, Sequence[float]] = ()) -> list[Any]:
        """Return the data of the caption, such as its references and ratings, as JSON values."""
        known: list[Any] = [self.image, self.candidate, self.references, ratings]
        if self.objects is not None:
            known.append(sorted(self.objects))
        if self.boxes is not None:
            known.append({"boxes": self.boxes})
        if isinstance(self.pixels, VideoHandle) and self.pixels.span is not None:
            known.append({"span": self.pixels.span})
        return known


item_key = itemgetter(slice(1, -1))
"""Returns the key of a row's item, all but id and weight: rows with the same key are scored once."""


def caption_columns(samples: Sequence[CaptionRow]) -> dict[str, Sequence[Any]]:
    """Return the columns of rows that are single captions."""
    names = ("id", "image", "candidate", "references")
    columns: dict[str, Sequence[Any]] = {name: list(map(attrgetter(name), samples)) for name in names}
    # A task names the objects of all images, or of none.
    if samples and samples[0].objects is not None:
        columns["objects"] = list(map(sorted, map(attrgetter("objects"), samples)))
    return columns


def numbers_of(values: Iterable[Any]) -> np.ndarray:
    """Return ``[n]`` a number for each value, equal for equal ones within this process."""
    return np.fromiter(map(hash, values), np.int64)


class SeenValues:
    """Counts distinct values, a shard at a time; keeps 8 bytes per value."""

    def __init__(self) -> None:
        self._hashes = np.zeros(0, np.int64)

    def add(self, values: Iterable[Any]) -> None:
        """Count hashable values."""
        self._hashes = np.union1d(self._hashes, numbers_of(values))

    def new(self, values: Iterable[_Value]) -> list[_Value]:
        """Count values; return the new ones."""
        listed = list(values)
        hashes = numbers_of(listed)
        known = np.isin(hashes, self._hashes)
        self._hashes = np.union1d(self._hashes, hashes)
        return [value for value, is_known in zip(listed, known.tolist(), strict=True) if not is_known]

    def holds_any(self, values: Iterable[Any]) -> bool:
        """Return whether one of these was counted."""
        return bool(np.isin(numbers_of(values), self._hashes).any())

    def __len__(self) -> int:
        return len(self._hashes)


def gather(rows: Iterable[CaptionRow], by_id: bool = False) -> tuple[Items, np.ndarray, np.ndarray]:
    """Return the unique items among rows, and the index of each row's item.

    Args:
        rows: The rows.
        by_id: Whether rows with different ids are different items even if all else is equal.

    Returns:
        The items; ``[rows]`` the index of each row's item; and ``[n]`` a number per item, equal for equal items
        within this process.
    """
    index: dict[tuple[Any, ...], int] = {}
    weights: list[int] = []
    first: list[CaptionRow] = []
    of_row: list[int] = []
    for row in rows:
        key = item_key(row)
        position = index.setdefault((row.id, *key) if by_id else key, len(index))
        if position == len(first):
            first.append(row)
            weights.append(0)
        weights[position] += row.weight
        of_row.append(position)
    columns: list[list[Any]] = list(map(list, zip(*first, strict=True))) or [[] for _ in CaptionRow._fields]
    ids, names, candidates, references, objects, pixels, boxes, corpora, _ = columns
    # Either all rows of a data set have them, or none has.
    has_pixels, has_boxes, has_objects = (column.count(None) < len(column) for column in (pixels, boxes, objects))
    keys: Iterable[Any] = index
    if has_boxes:
        # Python's hash is the same for -1 and -2, which may be the left of two boxes.
        keys = zip(index, map(str, boxes), strict=True)
    items = Items(
        ids=ids,
        candidates=candidates,
        references=references,
        weights=np.array(weights, np.float64),
        corpus=np.array(corpora, np.int64) if any(corpora) else None,
        # A name among others that are files is that of a missing file.
        images=[image or ImageHandle(Path(name)) for image, name in zip(pixels, names, strict=True)]
        if has_pixels
        else [],
        boxes=boxes if has_boxes else [],
        objects=objects if has_objects else [],
        image_names=names,
    )
    return items, np.array(of_row, np.int64), numbers_of(keys)
