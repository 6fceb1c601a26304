# pyright: basic
# pyarrow has no types that pyright could read.
"""What is on a shelf as bytes, the same for equal values: nothing that is read back runs any code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ....adapters import (
    Caption,
    Captioned,
    CaptionRequest,
    EncodedImage,
    ImageHandle,
    VideoHandle,
)
from ....errors import UsageError
from ....metrics import Items, Scores
from ....tasks.boundary import OutsideFile
from ....tasks.row_images import RowImage
from ...inputs.failures import Failure
from ...inputs.items import image_key
from .shelf import Arrays, MetricScores, ShardScores, Value

Rows = Callable[[], Any]
"""Gives the documents of the run, of which handles may name a row."""

_META = "meta"
_LONGEST_HEAD = 8


def encode(value: Value) -> bytes:
    """Return a value as bytes.

    Raises:
        UsageError: It holds an image that is an object of this process.
    """
    match value:
        case Items():
            return b"items   " + _items_bytes(value)
        case ShardScores():
            return b"scores  " + _scores_bytes(value)
        case Captioned():
            return b"captions" + json.dumps(_captioned_values(value)).encode()
        case Sequence():
            return b"requests" + _requests_bytes(value)
        case _:
            arrays = {name: one for name, one in value.items() if isinstance(one, np.ndarray)}
            if len(arrays) == len(value):
                return b"arrays  " + arrays_bytes(arrays)
            return b"columns " + _table_bytes(value)


def decode(content: bytes, rows: Rows) -> Any:
    """Return the value of bytes that :func:`encode` made.

    Args:
        content: The bytes.
        rows: Gives the documents of the run, where images are rows of these.
    """
    kind, body = content[:_LONGEST_HEAD].decode().strip(), content[_LONGEST_HEAD:]
    match kind:
        case "items":
            return _items(_table(body), rows)
        case "scores":
            return _scores(arrays(body))
        case "captions":
            return _captioned(json.loads(body))
        case "requests":
            return _requests(_table(body), rows)
        case "arrays":
            return arrays(body)
        case _:
            table = _table(body)
            return {name: table[name].to_pylist() for name in table.column_names}


def arrays_bytes(values: Arrays) -> bytes:
    """Return arrays as bytes, of which a part of a file can be mapped: names, types and shapes, then each array."""
    written = io.BytesIO()
    head = json.dumps({name: [one.dtype.str, one.shape] for name, one in values.items()}).encode()
    written.write(len(head).to_bytes(8, "little") + head)
    for one in values.values():
        written.write(np.ascontiguousarray(one).tobytes())
    return written.getvalue()


def arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of bytes that :func:`arrays_bytes` made; they cannot be written to."""
    size = int.from_bytes(content[:8], "little")
    found: dict[str, np.ndarray] = {}
    at = 8 + size
    for name, (kind, shape) in json.loads(content[8:at]).items():
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(content, np.dtype(kind), count, at).reshape(shape)
        at += found[name].nbytes
    return found


def _table_bytes(columns: Mapping[str, Any]) -> bytes:
    import pyarrow

    table = pyarrow.table(dict(columns))
    written = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(
        written, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(table)
    return written.getvalue().to_pybytes()


def _table(content: bytes) -> Any:
    import pyarrow

    with pyarrow.ipc.open_stream(content) as reader:
        return reader.read_all()


def _items_bytes(items: Items) -> bytes:
    columns: dict[str, Any] = {
        "ids": items.ids,
        "candidates": items.candidates,
        "references": items.references,
        "weights": items.weights,
    }
    if items.corpus is not None:
        columns["corpus"] = items.corpus
    if items.objects:
        columns["objects"] = [sorted(one) for one in items.objects]
    if items.boxes:
        columns["boxes"] = [[list(box) for box in boxes] for boxes in items.boxes]
    if items.images:
        columns |= {
            "images": list(map(_handle_text, items.images)),
            "encoded": list(map(_encoded, items.images)),
        }
    return _table_bytes(columns)


def _items(table: Any, rows: Rows) -> Items:
    names = set(table.column_names)

    def column(name: str) -> list[Any]:
        return table[name].to_pylist() if name in names else []

    sets: dict[tuple[str, ...], tuple[str, ...]] = {}
    references = [sets.setdefault(one, one) for one in map(tuple, column("references"))]
    known: dict[tuple[str, bytes | None], ImageHandle | VideoHandle] = {}
    images: list[ImageHandle | VideoHandle] = []
    for key in zip(column("images"), column("encoded"), strict=True):
        if key not in known:
            known[key] = _handle(*key, rows)
        images.append(known[key])
    return Items(
        ids=column("ids"),
        candidates=column("candidates"),
        references=references,
        weights=table["weights"].to_numpy(),
        images=images,
        boxes=[tuple(tuple(box) for box in boxes) for boxes in column("boxes")],
        corpus=table["corpus"].to_numpy() if "corpus" in names else None,
        objects=[frozenset(one) for one in column("objects")],
    )


def _handle_text(handle: ImageHandle | VideoHandle) -> str:
    source = handle.source
    if isinstance(handle, VideoHandle):
        known: dict[str, Any] = {"video": None, "span": handle.span}
    else:
        known = {"box": handle.box}
    match source:
        case OutsideFile():
            known["outside"] = str(source.path)
        case Path():
            known["path"] = str(source)
        case RowImage():
            known |= {"row": source.row, "column": source.column}
        case bytes() | EncodedImage():
            pass
        case _:
            raise UsageError(
                f"the video {handle.name} is an object of this process, and cannot be handed to another",
                "Run without --processes and --engine, or name files.",
            )
    return json.dumps(known)


def _encoded(handle: ImageHandle | VideoHandle) -> bytes | None:
    match handle.source:
        case bytes():
            return handle.source
        case Path() | RowImage() | OutsideFile():
            return None
        case EncodedImage() if isinstance(handle, ImageHandle):
            # What is drawn when it is read, say: others get what is read here.
            return handle.source.read_bytes()
        case _:
            return None


def _handle(text: str, encoded: bytes | None, rows: Rows) -> ImageHandle | VideoHandle:
    known = json.loads(text)
    if encoded is not None:
        source: Any = encoded
    elif "row" in known:
        source = rows()[known["row"]][known["column"]]
    elif "outside" in known:
        source = OutsideFile(Path(known["outside"]))
    else:
        source = Path(known["path"])
    if "video" in known:
        return VideoHandle(source, tuple(known["span"]) if known["span"] else None)
    return ImageHandle(source, tuple(known["box"]) if known["box"] else None)


def _requests_bytes(requests: Sequence[CaptionRequest]) -> bytes:
    handles = [request.pixels for request in requests]
    kwargs: list[str] = []
    for request in requests:
        # They are the task's, one mapping for all.
        same = kwargs and request.generation_kwargs is requests[len(kwargs) - 1].generation_kwargs
        kwargs.append(kwargs[-1] if same else json.dumps(dict(request.generation_kwargs), sort_keys=True))
    return _table_bytes(
        {
            "ids": [request.id for request in requests],
            "images_named": [_image_named(request.image) for request in requests],
            "prompts": [request.prompt for request in requests],
            "kwargs": kwargs,
            "numbered": [request.numbered for request in requests],
            "images": [None if one is None else _handle_text(one) for one in handles],
            "encoded": [None if one is None else _encoded(one) for one in handles],
        }
    )


def _image_named(image: Any) -> str:
    """Return what a document says of its image, as JSON; what is no name is called by its key."""
    return json.dumps(image if image is None or isinstance(image, str | int) else image_key(image))


def _requests(table: Any, rows: Rows) -> list[CaptionRequest]:
    kwargs = {text: json.loads(text) for text in table["kwargs"].unique().to_pylist()}
    columns = ("ids", "images_named", "prompts", "kwargs", "numbered", "images", "encoded")
    return [
        CaptionRequest(
            identity,
            json.loads(image),
            prompt,
            kwargs[settings],
            numbered,
            None if handle is None else _handle(handle, encoded, rows),
        )
        for identity, image, prompt, settings, numbered, handle, encoded in zip(
            *(table[name].to_pylist() for name in columns), strict=True
        )
    ]


def _scores_bytes(shard: ShardScores) -> bytes:
    found: dict[str, np.ndarray] = {}
    meta: dict[str, Any] = {
        "metrics": [],
        "ids": {str(item): identity for item, identity in shard.ids.items()},
        "remarks": [asdict(one) for one in shard.remarks],
    }
    for number, one in enumerate(shard.metrics):
        known: dict[str, Any] = {"name": one.name, "error": one.error, "seconds": one.seconds, "scores": None}
        if one.scores is not None:
            found[f"{number}"] = one.scores.values
            found |= {f"{number}/{name}": part for name, part in one.scores.parts.items()}
            known["scores"] = {
                "failures": list(one.scores.failures.items()),
                "remarks": list(one.scores.remarks.items()),
            }
        meta["metrics"].append(known)
    return arrays_bytes({_META: np.frombuffer(json.dumps(meta).encode(), np.uint8), **found})


def _scores(found: Mapping[str, np.ndarray]) -> ShardScores:
    meta = json.loads(found[_META].tobytes())
    metrics: list[MetricScores] = []
    for number, one in enumerate(meta["metrics"]):
        scores = None
        if (told := one["scores"]) is not None:
            prefix = f"{number}/"
            parts = {
                name.removeprefix(prefix): part for name, part in found.items() if name.startswith(prefix)
            }
            pairs = {key: {int(item): text for item, text in told[key]} for key in ("failures", "remarks")}
            scores = Scores(found[f"{number}"], parts, **pairs)
        metrics.append(MetricScores(one["name"], scores, one["error"], one["seconds"]))
    ids = {int(item): identity for item, identity in meta["ids"].items()}
    return ShardScores(metrics, ids, [Failure(**one) for one in meta["remarks"]])


def _captioned_values(given: Captioned) -> dict[str, Any]:
    return {
        "captions": [[at, asdict(caption)] for at, caption in given.captions.items()],
        "failures": list(given.failures.items()),
        "unseen": list(given.unseen.items()),
        "absent": sorted(given.absent),
    }


def _captioned(values: Mapping[str, Any]) -> Captioned:
    return Captioned(
        {at: Caption(**caption) for at, caption in values["captions"]},
        dict(values["failures"]),
        dict(values["unseen"]),
        frozenset(values["absent"]),
    )
