"""Shards as Arrow IPC files, named by the hash of their input. Reading a file runs no code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters import Caption, Captioned, CaptionRequest, FrameSampling, ImageHandle, VideoHandle
from ...adapters.images.handles import EncodedImage, FrameSource
from ...atomic_files import is_abandoned, own_name
from ...boundary import OutsideFile
from ...errors import StoreError, writing
from ...metrics import Items, Scores
from ...metrics.vectors.features import Features, PairScores
from ...paths import cache_folder
from ...tasks.row_images import RowImage
from ..inputs.encoding import EncodedItems, ScoredItems
from ..inputs.images import ImageFinder, LateImage
from ..inputs.items import image_key
from ..inputs.models import ModelFacts
from ..running.scoring import MetricScores
from .folders import Folder

if TYPE_CHECKING:
    from PIL import Image

_AGAIN = "Run again: intact files are reused, the others are made anew."
_KEPT_SECONDS = 7 * 24 * 3600
_OWNER = "~"
_MARK = "\0"
"""Prefix of the only key of an object that encodes a value other than JSON."""


@dataclass(frozen=True)
class ShardScores:
    """The output of metrics for a shard.

    Attributes:
        metrics: The output of each.
        ids: Id of each item without a score or with a remark.
        remarks: Item to the remark on its caption that does not depend on the metric.
    """

    metrics: Sequence[MetricScores]
    ids: Mapping[int, str]
    remarks: Mapping[int, str]


@dataclass(frozen=True)
class KeptFrames:
    """The frames of a video object, read for other processes.

    Attributes:
        known: The digest of the video.
        name: Its name in messages.
        frames: ``[height, width, 3]`` each.
    """

    known: str
    name: str
    frames: Sequence[np.ndarray] = field(repr=False, compare=False)

    def read_frames(self) -> Iterator[Image.Image]:
        """Return every frame in RGB, in order."""
        from PIL import Image

        return map(Image.fromarray, self.frames)

    def digest(self) -> str:
        """Return a text that changes with the frames."""
        return self.known

    def __str__(self) -> str:
        return self.name


_CLASSES: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Caption, Captioned, CaptionRequest, EncodedItems, Features, FrameSampling, ImageHandle, MetricScores,
        ModelFacts, PairScores, ScoredItems, Scores, ShardScores, VideoHandle,
    )
}  # fmt: skip
"""Classes that are written field by field."""


def encode(value: Any) -> bytes:
    """Return a value as bytes of an Arrow IPC file: JSON, with its arrays and bytes as columns.

    Args:
        value: JSON values, arrays, bytes, sets, handles of images, items, and objects of ``_CLASSES``.

    Raises:
        TypeError: It holds a value of another type.
    """
    import pyarrow as pa

    blobs: list[Any] = []

    def plain(value: Any) -> Any:
        match value:
            case np.ndarray():
                blobs.append(np.ascontiguousarray(value))
                return {"\0array": [len(blobs), value.dtype.str, value.shape]}
            case bytes():
                blobs.append(value)
                return {"\0bytes": len(blobs)}
            case np.generic():
                return value.item()
            case frozenset():
                return {"\0set": sorted(value)}
            case Items():
                return {"\0items": _columns_of(value)}
            case ModelFacts():
                return {"\0ModelFacts": json.loads(json.dumps(vars(value), default=str))}
            case Path() | OutsideFile():
                return {f"\0{type(value).__name__ if isinstance(value, OutsideFile) else 'Path'}": str(value)}
            case LateImage():
                return {"\0LateImage": value.name}
            case RowImage():
                return {"\0RowImage": [value.column, value.row]}
            case FrameSource():
                frames = [np.asarray(frame.convert("RGB")) for frame in value.read_frames()]
                return {"\0KeptFrames": [value.digest(), str(value), frames]}
            case EncodedImage():
                # Such as an image that is drawn on reading: other processes get the bytes that are read here.
                return plain(value.read_bytes())
            case CaptionRequest(image=image) if not isinstance(image, str | int | None):
                # An image without a name is named by its key.
                return plain(replace(value, image=image_key(image)))
            case _ if type(value).__name__ in _CLASSES:
                known = {entry.name: getattr(value, entry.name) for entry in fields(value)}
                # Keys of mappings may be numbers.
                known = {k: {"\0dict": [*v.items()]} if isinstance(v, Mapping) else v for k, v in known.items()}
                return {_MARK + type(value).__name__: known}
            case _:
                raise TypeError(f"a shard cannot hold {type(value).__name__}: {value!r:.80}")

    blobs.insert(0, json.dumps(value, default=plain).encode())
    arrays = [
        pa.Array.from_buffers(
            pa.large_binary(), 1, [None, pa.py_buffer(np.array([0, memoryview(blob).nbytes])), pa.py_buffer(blob)]
        )
        for blob in blobs
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(map(str, range(len(arrays)))))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Originals:
    """The source of images that a file refers to.

    Attributes:
        rows: Returns the documents of the run, which may contain images.
        pixels: Finds images by their names in documents; None where they are paths.
    """

    rows: Callable[[], Any] = list
    pixels: ImageFinder | None = None

    def in_row(self, column: str, row: int) -> RowImage:
        """Return the image in a row of the documents."""
        # The images of all rows are available, also for failed documents.
        return next(
            replace(image, row=row) for values in self.rows() if isinstance(image := values.get(column), RowImage)
        )


def decode(content: Any, originals: Originals = Originals()) -> Any:
    """Return the value of bytes, or a mapped file, from :func:`encode`.

    Arrays are read-only views of the content.

    Args:
        content: The bytes.
        originals: The source of images.

    Raises:
        StoreError: They are damaged.
    """
    import pyarrow as pa

    builders: dict[str, Callable[[Any], Any]] = {
        "array": lambda known: np.ndarray(known[2], known[1], blobs[known[0]]),
        "bytes": lambda number: blobs[number].to_pybytes(),
        "set": frozenset,
        "dict": dict,
        "items": lambda columns: _items_of(**columns),
        "Path": Path,
        "OutsideFile": lambda path: OutsideFile(Path(path)),
        "LateImage": lambda name: LateImage(originals.pixels, name) if originals.pixels else Path(name),
        "RowImage": lambda place: originals.in_row(*place),
        "KeptFrames": lambda known: KeptFrames(*known),
    }

    def restored(known: dict[str, Any]) -> Any:
        key = next(iter(known), "")
        name = key.removeprefix(_MARK) if key.startswith(_MARK) else ""
        if name in builders:
            return builders[name](known[key])
        if name not in _CLASSES:
            # Other names, such as those of arrays, may have the prefix, too.
            return known
        # Handles are hashed.
        return _CLASSES[name](**{k: tuple(v) if k in ("box", "span") and v else v for k, v in known[key].items()})

    try:
        batch = pa.ipc.open_file(content).get_batch(0)
        blobs = [column[0].as_buffer() for column in batch.columns]
        return json.loads(blobs[0].to_pybytes(), object_hook=restored)
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError) as error:
        raise StoreError(f"an intermediate result cannot be read: {type(error).__name__}: {error}", _AGAIN) from error


def _columns_of(items: Items) -> dict[str, Any]:
    """Return items as columns, in which shared values occur once."""
    columns: dict[str, Any] = {name: getattr(items, name) for name in ("ids", "candidates", "boxes", "objects")}
    columns = {name: list(column) for name, column in columns.items()}
    for name in ("references", "images", "image_names"):
        column = getattr(items, name)
        number = {value: place for place, value in enumerate(dict.fromkeys(column))}
        columns[name] = list(number), np.array([number[value] for value in column], np.int64)
    return {**columns, "weights": items.weights, "corpus": items.corpus}


def _items_of(**columns: Any) -> Items:
    """Return the items of columns from :func:`_columns_of`, with the same shared values."""
    for name in ("references", "images", "image_names"):
        values, number = columns[name]
        values = list(map(tuple, values)) if name == "references" else values
        columns[name] = [values[place] for place in number.tolist()]
    columns["boxes"] = [tuple(map(tuple, boxes)) for boxes in columns["boxes"]]
    return Items(**columns)


def name_of(*parts: Any) -> str:
    """Return the name of a result: a hash of the JSON values that it is made of."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class ShardFiles:
    """The files of a run's shards. It can be pickled.

    Attributes:
        folder: Their folder.
        originals: The source of the images that they refer to.
    """

    folder: Folder
    originals: Originals = field(default_factory=Originals)

    def put(self, name: str, value: Any, facts: Mapping[str, ModelFacts] | None = None) -> None:
        """Write a file unless it exists.

        Args:
            name: Its name.
            value: Its content.
            facts: The facts of the models that made it, by role.
        """
        self.folder.put(name, encode([value, facts or {}]))

    def put_named(self, kind: str, value: Any) -> str:
        """Write a file named by its hash, and return the name; a damaged file of this machine is replaced."""
        content = encode([value, {}])
        name = f"{kind}-{hashlib.sha256(content).hexdigest()}"
        if not self.folder.put(name, content) and self.folder.path and self.folder.read(name) != content:
            (self.folder.path / name).unlink(missing_ok=True)
            self.folder.put(name, content)
        return name

    def read(self, name: str) -> Any:
        """Return the content of a file; arrays of a file on this machine are memory-mapped.

        Raises:
            StoreError: It is missing or damaged.
        """
        return self._read(name)[0]

    def facts(self, name: str) -> dict[str, ModelFacts]:
        """Return the facts of the models that made a file, by role."""
        return self._read(name)[1]

    def _read(self, name: str) -> Any:
        import pyarrow as pa

        place = self.folder.path
        try:
            content = pa.memory_map(str(place / name)) if place else pa.py_buffer(self.folder.read(name))
        except FileNotFoundError as error:
            raise StoreError(f"{self.folder.label}: has no result {name}", _AGAIN) from error
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder.label}: {name} cannot be read: {error}", _AGAIN) from error
        return decode(content, self.originals)

    def has(self, name: str) -> bool:
        """Return whether a file exists; a damaged one on this machine is deleted."""
        if not self.folder.exists(name):
            return False
        if self.folder.path is not None:
            try:
                self._read(name)
            except StoreError:
                (self.folder.path / name).unlink(missing_ok=True)
                return False
        return True


@contextmanager
def unfinished_folder(run: str) -> Generator[Path]:
    """Yield a folder for the intermediate results of a run, which is deleted when the run is done.

    An interrupted run leaves it, and the next identical run reuses it with its files. Folders that are not reused
    within a week are deleted.

    Args:
        run: A hash that identifies the run.

    Raises:
        StoreError: It cannot be created.
    """
    place = cache_folder() / "unfinished"
    folder = place / f"{run}{_OWNER}{own_name()}"
    with writing(place, "Set BENCH_CACHE to another folder.", StoreError):
        place.mkdir(parents=True, exist_ok=True)
        if not any(_take_over(left, folder) for left in place.glob(f"{run}{_OWNER}*")):
            folder.mkdir(mode=0o700)
    for left in place.iterdir():
        with suppress(OSError):
            if _is_left(left) and time.time() - left.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    try:
        yield folder
    except BaseException:
        # This process may continue and run the same again.
        with suppress(OSError):
            folder.rename(place / f"{run}{_OWNER}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _take_over(left: Path, folder: Path) -> bool:
    """Take over the folder of a process that has ended; of several processes only one succeeds."""
    with suppress(OSError):
        if _is_left(left):
            left.rename(folder)
            os.utime(folder)
            return True
    return False


def _is_left(folder: Path) -> bool:
    run, _, owner = folder.name.partition(_OWNER)
    return not owner or is_abandoned(folder, f"{run}{_OWNER}")
