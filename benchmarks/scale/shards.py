"""What shards hold, as files: Arrow IPC, named by the hash of what they are made of. Reading one runs no code."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import Caption, Captioned, CaptionRequest, ImageHandle, VideoHandle
from ...adapters.pixels.handles import FrameSource
from ...boundary import OutsideFile
from ...drafts import is_abandoned, own_name
from ...errors import StoreError
from ...metrics import Items, Scores
from ...paths import cache_folder
from ...tasks.document_rows import RowImage
from ..inputs.items import image_key
from ..inputs.models import ModelFacts
from ..inputs.pixels import LateImage, PixelFinder
from ..running.scoring import MetricScores
from .folders import Folder
from .frames import KeptFrames

Columns = Mapping[str, np.ndarray | Sequence[str] | Sequence[bytes | None]]
"""Arrays of numbers, texts, or encoded images, of any lengths."""
_AGAIN = "Run again: what is whole is used, and the rest made anew."
_KEPT_SECONDS = 7 * 24 * 3600
_OWNER = "~"


def encode(columns: Columns, about: Any = None, facts: Any = None) -> bytes:
    """Return columns as bytes of an Arrow IPC file with one row.

    Args:
        columns: The columns.
        about: What else is to be known, as JSON values.
        facts: What a record says of the models that made it, by role, as JSON values.
    """
    import pyarrow as pa

    shapes: dict[str, tuple[str, list[int]] | None] = {}
    arrays: dict[str, Any] = {"": pa.nulls(1)}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            shapes[name] = column.dtype.str, list(column.shape)
            content = np.ascontiguousarray(column).reshape(-1)
            # Arrow packs truth values.
            kind = pa.uint8() if column.dtype == bool else pa.from_numpy_dtype(column.dtype)
            flat = pa.Array.from_buffers(kind, len(content), [None, pa.py_buffer(content)])
        else:
            shapes[name] = None
            flat = _texts(column)
        ends = pa.py_buffer(np.array([0, len(flat)], np.int64))
        arrays[name] = pa.Array.from_buffers(pa.large_list(flat.type), 1, [None, ends], children=[flat])
    meta = {"shapes": json.dumps(shapes), "about": json.dumps(about), "facts": json.dumps(facts, default=str)}
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays), metadata=meta)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _numbers(values: Any, kind: str, shape: Sequence[int]) -> np.ndarray:
    """Return an array of numbers; what pyarrow has for it imports pandas."""
    dtype = np.dtype(kind)
    # Of an array without a value there may be no buffer.
    buffer = values.buffers()[1] or b""
    return np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize).reshape(shape)


def _texts(values: Sequence[str] | Sequence[bytes | None]) -> Any:
    """Return texts, or bytes and None, as an array; what pyarrow has for lists imports pandas."""
    import pyarrow as pa

    kind = pa.large_string() if all(isinstance(one, str) for one in values) else pa.large_binary()
    contents = [one.encode() if isinstance(one, str) else one for one in values]
    ends = np.cumsum([0, *(len(one or b"") for one in contents)], dtype=np.int64)
    is_there = np.array([one is not None for one in contents], dtype=bool)
    valid = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    joined = pa.py_buffer(b"".join(one or b"" for one in contents))
    return pa.Array.from_buffers(kind, len(contents), [valid, pa.py_buffer(ends), joined])


def decode(content: Any) -> tuple[dict[str, Any], Any, Any]:
    """Return columns, what else is known, and facts of bytes, or a mapped file, that :func:`encode` made.

    Arrays cannot be written to; they are views of what was given.

    Raises:
        StoreError: They are damaged.
    """
    import pyarrow as pa

    try:
        batch = pa.ipc.open_file(content).get_batch(0)
        meta = {name.decode(): json.loads(text) for name, text in batch.schema.metadata.items()}
        columns: dict[str, Any] = {}
        for name, shape in meta["shapes"].items():
            values = batch.column(name).flatten()
            columns[name] = values.to_pylist() if shape is None else _numbers(values, *shape)
        return columns, meta["about"], meta["facts"]
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError) as error:
        raise StoreError(f"what a run put aside cannot be read: {type(error).__name__}: {error}", _AGAIN) from error


def name_of(*parts: Any) -> str:
    """Return the name of what is made of some JSON values: a hash."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _put_named(folder: Folder, kind: str, content: bytes) -> str:
    """Write what is named by its hash, and return the name; a file of this machine that is damaged is replaced."""
    name = f"{kind}-{hashlib.sha256(content).hexdigest()}"
    if not folder.put(name, content) and folder.path is not None and folder.read(name) != content:
        (folder.path / name).unlink(missing_ok=True)
        folder.put(name, content)
    return name


@dataclass(frozen=True)
class Originals:
    """Where images are that a file names without holding them.

    Attributes:
        rows: Gives the documents of the run, of which an image may be a part.
        pixels: Finds images by what documents call them; None where they are paths.
    """

    rows: Callable[[], Any] = list
    pixels: PixelFinder | None = None

    def handle(self, text: str, encoded: bytes | None) -> ImageHandle | VideoHandle:
        """Return what :func:`_handle_text` and :func:`_encoded` wrote."""
        known = json.loads(text)
        if "drawn" in known:
            source: Any = KeptFrames(known["drawn"][0], known["drawn"][1], encoded or b"")
        elif encoded is not None:
            source = encoded
        elif "row" in known:
            column = known["column"]
            # The images of all rows are with any of them, whatever became of the documents.
            first = next(image for row in self.rows() if isinstance(image := row.get(column), RowImage))
            source = replace(first, row=known["row"])
        elif "late" in known and self.pixels is not None:
            source = LateImage(self.pixels, known["late"])
        elif "outside" in known:
            source = OutsideFile(Path(known["outside"]))
        else:
            source = Path(known.get("path") or known["late"])
        if "video" in known:
            return VideoHandle(source, tuple(known["span"]) if known["span"] else None)
        return ImageHandle(source, tuple(known["box"]) if known["box"] else None)


def _handle_text(handle: ImageHandle | VideoHandle) -> str:
    known: dict[str, Any] = (
        {"video": None, "span": handle.span} if isinstance(handle, VideoHandle) else {"box": handle.box}
    )
    match handle.source:
        case OutsideFile() as source:
            known["outside"] = str(source.path)
        case Path() as source:
            known["path"] = str(source)
        case RowImage() as source:
            known |= {"row": source.row, "column": source.column}
        case LateImage() as source:
            known["late"] = source.name
        case FrameSource() as source:
            known["drawn"] = [source.digest(), str(source)]
        case _:
            pass
    return json.dumps(known)


def _encoded(handle: ImageHandle | VideoHandle) -> bytes | None:
    match handle.source:
        case bytes() as source:
            return source
        case Path() | RowImage() | OutsideFile() | LateImage():
            return None
        # What is drawn when it is read, say: others get what is read here.
        case FrameSource() as source:
            return KeptFrames.of(source).content
        case source:
            return source.read_bytes()


class ShardFiles:
    """The files of a run's shards. It can be pickled.

    Args:
        folder: Where they are.
        originals: Where the images are that they name.
        own: Where files are that only this process needs.
    """

    def __init__(self, folder: Folder, originals: Originals, own: Folder) -> None:
        self.folder = folder
        self.originals = originals
        self._own = own

    def put_rows(self, rows: Mapping[str, Any]) -> str:
        """Write what a protocol says of rows, and return the name of the file."""
        content = encode({}, dict(rows))
        return _put_named(self._own, "rows", content)

    def rows(self, name: str) -> dict[str, Any]:
        """Read what a protocol says of rows."""
        return decode(self._own.read(name))[1]

    def read(self, name: str) -> tuple[dict[str, Any], Any]:
        """Return the columns of a file, mapped where it is on this machine, and what else is to be known.

        Raises:
            StoreError: There is none, or it is damaged.
        """
        return self._read(name)[:2]

    def facts(self, name: str) -> dict[str, ModelFacts]:
        """Return what a record says of the models that made a file, by role."""
        return {role: ModelFacts(**one) for role, one in (self._read(name)[2] or {}).items()}

    def _read(self, name: str) -> tuple[dict[str, Any], Any, Any]:
        """Return all that a file holds.

        Raises:
            StoreError: There is none, or it is damaged.
        """
        import pyarrow as pa

        try:
            if self.folder.path is not None:
                return decode(pa.memory_map(str(self.folder.path / name)))
            return decode(pa.py_buffer(self.folder.read(name)))
        except FileNotFoundError as error:
            raise StoreError(f"{self.folder.label}: has no result {name}", _AGAIN) from error
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder.label}: {name} cannot be read: {error}", _AGAIN) from error

    def has(self, name: str) -> bool:
        """Return whether there is a file of a name; one of this machine that is damaged goes."""
        if not self.folder.exists(name):
            return False
        if self.folder.path is not None:
            try:
                self._read(name)
            except StoreError:
                (self.folder.path / name).unlink(missing_ok=True)
                return False
        return True

    def put(
        self, name: str, columns: Columns, about: Any = None, facts: Mapping[str, ModelFacts] | None = None
    ) -> None:
        """Write a file unless it is there."""
        told = {role: vars(one) for role, one in (facts or {}).items()}
        self.folder.put(name, encode(columns, about, told))

    def put_items(self, items: Items) -> str:
        """Write items, and return their name, which follows from what they are."""
        sets, set_of_item = items.reference_sets
        # Many items may be of one image.
        images = list(dict.fromkeys(items.images))
        number = {image: place for place, image in enumerate(images)}
        names = {name: place for place, name in enumerate(dict.fromkeys(items.image_names))}
        columns: dict[str, Any] = {
            "ids": list(items.ids),
            "candidates": list(items.candidates),
            "references": [text for references in sets for text in references],
            "set_sizes": np.array([len(references) for references in sets], np.int64),
            "set_of_item": set_of_item,
            "weights": items.weights,
            "names": list(names),
            "name_of_item": np.array([names[name] for name in items.image_names], np.int64),
            "images": [_handle_text(image) for image in images],
            "encoded": [_encoded(image) for image in images],
            "image_of_item": np.array([number[image] for image in items.images], np.int64),
        }
        if items.corpus is not None:
            columns["corpus"] = items.corpus
        content = encode(columns, [[sorted(one) for one in items.objects], items.boxes])
        return _put_named(self.folder, "items", content)

    def items(self, name: str) -> Items:
        """Read items."""
        columns, (objects, boxes) = self.read(name)
        references, ends = columns["references"], np.cumsum([0, *columns["set_sizes"]]).tolist()
        sets = [tuple(references[start:end]) for start, end in pairwise(ends)]
        images = list(map(self.originals.handle, columns["images"], columns["encoded"]))
        return Items(
            ids=columns["ids"],
            candidates=columns["candidates"],
            references=[sets[number] for number in columns["set_of_item"].tolist()],
            weights=np.array(columns["weights"], np.float64),
            images=[images[number] for number in columns["image_of_item"].tolist()],
            boxes=[tuple((box[0], box[1], box[2], box[3]) for box in one) for one in boxes],
            corpus=np.array(columns["corpus"]) if "corpus" in columns else None,
            objects=[frozenset(one) for one in objects],
            image_names=[columns["names"][number] for number in columns["name_of_item"].tolist()],
        )

    def put_scores(self, name: str, result: ShardResult, facts: Mapping[str, ModelFacts]) -> None:
        """Write what metrics made of a shard."""
        columns: dict[str, np.ndarray] = {}
        metrics: list[dict[str, Any]] = []
        for number, one in enumerate(result.metrics):
            plain = {key: getattr(one, key) for key in _PLAIN}
            failures = remarks = None
            if one.scores is not None:
                columns[f"{number}"] = one.scores.values
                columns |= {f"{number}/{part}": values for part, values in one.scores.parts.items()}
                columns |= {f"{number}+{part}": values for part, values in (one.sums or {}).items()}
                failures, remarks = list(one.scores.failures.items()), list(one.scores.remarks.items())
            metrics.append({**plain, "failures": failures, "remarks": remarks})
        self.put(name, columns, [metrics, list(result.ids.items()), list(result.remarks.items())], facts)

    def scores(self, name: str) -> ShardResult:
        """Read what metrics made of a shard."""
        columns, (metrics, ids, remarks) = self.read(name)

        def named(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): one for name, one in columns.items() if name.startswith(prefix)}

        found: list[MetricScores] = []
        for number, one in enumerate(metrics):
            scores = None
            if one["failures"] is not None:
                values, parts = columns[f"{number}"], named(f"{number}/")
                scores = Scores(values, parts, dict(one["failures"]), dict(one["remarks"]))
            plain = {key: one[key] for key in _PLAIN}
            found.append(MetricScores(scores=scores, sums=named(f"{number}+") or None, **plain))
        return ShardResult(found, dict(ids), dict(remarks))

    def put_distinct(self, first: np.ndarray, weights: np.ndarray) -> str:
        """Write which items of all shards are distinct and how often each counts, and return the name of the file."""
        return _put_named(self.folder, "distinct", encode({"first": first, "weights": weights}))

    def put_requests(self, requests: Sequence[CaptionRequest]) -> str:
        """Write what a captioner is asked, and return its name, which follows from that."""
        about: list[Any] = []
        for one in requests:
            # What is no name is called by its key.
            named = one.image if one.image is None or isinstance(one.image, str | int) else image_key(one.image)
            handle = None if one.pixels is None else _handle_text(one.pixels)
            about.append([one.id, named, one.prompt, dict(one.generation_kwargs), one.numbered, handle])
        images = [None if one.pixels is None else _encoded(one.pixels) for one in requests]
        content = encode({"encoded": images}, about)
        return _put_named(self.folder, "requests", content)

    def requests(self, name: str) -> list[CaptionRequest]:
        """Read what a captioner is asked."""
        columns, about = self.read(name)
        return [
            CaptionRequest(
                identity,
                image,
                prompt,
                settings,
                numbered,
                None if handle is None else self.originals.handle(handle, encoded),
            )
            for (identity, image, prompt, settings, numbered, handle), encoded in zip(
                about, columns["encoded"], strict=True
            )
        ]

    def put_captions(self, name: str, captioned: Captioned, facts: Mapping[str, ModelFacts]) -> None:
        """Write what a captioner answered."""
        captions = [[number, asdict(caption)] for number, caption in captioned.captions.items()]
        failures, unseen = list(captioned.failures.items()), list(captioned.unseen.items())
        self.put(name, {}, [captions, failures, unseen, sorted(captioned.absent)], facts)

    def captions(self, name: str) -> Captioned:
        """Read what a captioner answered."""
        _, (captions, failures, unseen, absent) = self.read(name)
        return Captioned(
            {number: Caption(**caption) for number, caption in captions},
            dict(failures),
            dict(unseen),
            frozenset(absent),
        )


_PLAIN = ("name", "error", "seconds", "counted", "of_model")


@dataclass(frozen=True)
class ShardResult:
    """What metrics made of a shard.

    Attributes:
        metrics: What each did.
        ids: Id of each item that a metric could not score, or on which something is remarked.
        remarks: Item to what is to be remarked on its caption, whatever the metric.
    """

    metrics: Sequence[MetricScores]
    ids: Mapping[int, str]
    remarks: Mapping[int, str]


@contextmanager
def unfinished_folder(run: str) -> Generator[Path]:
    """Give a folder for what a run puts aside, which goes when the run is done.

    A run that is broken off leaves it: the next one that is the same takes it over with all that is in it. Those
    that nobody took over for a week are removed.

    Args:
        run: What tells runs apart: a hash.

    Raises:
        StoreError: It cannot be made.
    """
    place = cache_folder() / "unfinished"
    folder = place / f"{run}{_OWNER}{own_name()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not any(_take_over(left, folder) for left in place.glob(f"{run}{_OWNER}*")):
            folder.mkdir(mode=0o700)
    except OSError as error:
        raise StoreError(
            f"{place}: cannot be written: {error.strerror}", "BENCH_CACHE names another folder for what runs put aside."
        ) from error
    for left in place.iterdir():
        with suppress(OSError):
            if _is_left(left) and time.time() - left.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    try:
        yield folder
    except BaseException:
        # This process goes on, perhaps, and has the same run again.
        with suppress(OSError):
            folder.rename(place / f"{run}{_OWNER}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _take_over(left: Path, folder: Path) -> bool:
    """Give a folder that a run of a process that is no more left another owner; one of several that try does."""
    with suppress(OSError):
        if _is_left(left):
            left.rename(folder)
            os.utime(folder)
            return True
    return False


def _is_left(folder: Path) -> bool:
    run, _, owner = folder.name.partition(_OWNER)
    return not owner or is_abandoned(folder, f"{run}{_OWNER}")
