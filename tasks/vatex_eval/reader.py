"""Reads the released files of VATEX-EVAL."""

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError
from ...rows import Row

_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_KINDS = "biufSU"


class _Refused(Exception):  # noqa: N818 - what the caller is told of is a reason, not an error
    """The pickle wants what is not granted."""


class _ElementType:
    """Stands for ``numpy.dtype``."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code = code
        self.byte_order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byte_order = state[1] if state[1] in ("<", ">") else "="
        if any(part is not None for part in state[2:5]):
            raise _Refused("an array of records")

    def dtype(self) -> np.dtype:
        """Return the element type that is meant; one of numbers or texts."""
        dtype = np.dtype(f"{self.byte_order}{self.code}")
        if dtype.kind not in _KINDS:
            raise _Refused(f"an array of type {self.code}")
        return dtype


class _Array:
    """Stands for ``numpy.ndarray`` while it is put together."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.element_type, self.is_column_major, self.content = state

    def array(self) -> np.ndarray:
        """Return the array."""
        order = "F" if self.is_column_major else "C"
        if isinstance(self.content, list):
            if self.element_type.code not in ("O", "O8"):
                raise _Refused(f"a list as an array of type {self.element_type.code}")
            cells = np.empty(len(self.content), dtype=object)
            for number, cell in enumerate(self.content):
                cells[number] = _plain(cell)
            return cells.reshape(self.shape, order=order)
        flat = np.frombuffer(self.content, dtype=self.element_type.dtype())
        return flat.reshape(self.shape, order=order)


def _reconstruct(kind: Any, *_: Any) -> _Array:
    """Stand for numpy's function of that name, which makes an empty array to be filled."""
    if kind is not _ARRAY:
        raise _Refused("an object that is no array")
    return _Array()


_ARRAY = object()
"""What the pickle gets for ``numpy.ndarray``: nothing that could be called."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "ndarray"):
            return _ARRAY
        if (module, name) == ("numpy", "dtype"):
            return _ElementType
        if module in _MODULES and name == "_reconstruct":
            return _reconstruct
        raise _Refused(f"{module}.{name}")


def load_array(path: Path, hint: str) -> np.ndarray:
    """Return the array or list that a pickle file holds.

    Args:
        path: The file.
        hint: What to do if it is missing.

    Returns:
        An array of numbers or texts, or of objects that are plain texts, numbers or lists of these.

    Raises:
        DataError: The file is missing or damaged, or names anything but an array.
    """
    try:
        with path.open("rb") as content:
            return np.asarray(_plain(_Reader(content).load()))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint) from error
    except _Refused as refused:
        raise DataError(
            f"{path}: names {refused}, which an array has no need of; nothing was executed.",
            "Take the file from its authors, or do without it.",
        ) from refused
    except Exception as error:
        # A damaged pickle raises whatever its remains lead to.
        raise DataError(
            f"{path}: is no pickled array, or is damaged ({type(error).__name__}: {error})", "Is the file complete?"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.array()
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    raise _Refused(f"a {type(value).__name__}")


_HINT = "'bench data vatex_eval_noref' lists the files."
_RATERS = 3


def captions(folder: Path) -> Iterator[Row]:
    """Yield each rated caption with its video, its references and three ratings.

    Source: the released EMScore code, ``VATEX-EVAL-demo.py``. Ratings are stored rater by rater: all of the
    first, all of the second, all of the third.
    """
    candidates, references, videos, ratings = (
        load_array(folder / name, _HINT)
        for name in ("candidates_list.pkl", "gts_list.pkl", "video_ids.pkl", "human_scores.pkl")
    )
    count = len(candidates)
    if len(references) != count or len(videos) != count or ratings.size != _RATERS * count:
        raise DataError(
            f"{folder}: {count} captions, {len(references)} sets of references, {len(videos)} videos and "
            f"{ratings.size} ratings, which should be {_RATERS} a caption.",
            "Are the files complete, and of one data set?",
        )
    by_caption = ratings.reshape(_RATERS, -1).T
    seen: Counter[str] = Counter()
    # Lists hold Python's own texts and numbers; what is none is left for the protocol to name.
    columns = map(str, videos), candidates.tolist(), references, by_caption.tolist()
    for video, candidate, of_caption, of_raters in zip(*columns, strict=True):
        yield {
            "id": f"{video}-{seen[video]}",
            "video": video,
            "candidate": candidate,
            "references": np.asarray(of_caption).ravel().tolist(),
            "ratings": of_raters,
        }
        seen[video] += 1
