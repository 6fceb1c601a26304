"""What is on a shelf as bytes, the same for equal values: nothing that is read back runs any code."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....adapters import (
    Caption,
    Captioned,
    CaptionRequest,
    ImageHandle,
    VideoHandle,
)
from ....adapters.pixels.handles import FrameSource
from ....boundary import OutsideFile
from ....errors import StoreError
from ....metrics import Items, Scores
from ....tasks.row_images import RowImage
from ...inputs.items import image_key
from ...inputs.pixels import LateImage, PixelFinder
from .frames import KeptFrames
from .shelf import Arrays, MetricScores, ShardScores, Value


@dataclass(frozen=True)
class Originals:
    """Where images are that a value names without holding them.

    Attributes:
        rows: Gives the documents of the run, of which an image may be a part.
        pixels: Finds images by what documents call them; None where they are paths.
    """

    rows: Callable[[], Any] = list
    pixels: PixelFinder | None = None

    def images(self, column: str) -> RowImage:
        """Return an image of a column; those of all its rows are with it, whatever became of the documents."""
        return next(one for row in self.rows() if isinstance(one := row.get(column), RowImage))


_META = "meta"
_LONGEST_HEAD = 8


def encode(value: Value) -> bytes:
    """Return a value as bytes."""
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
            return b"columns " + _table_bytes(dict(value))


def decode(content: bytes, originals: Originals) -> Any:
    """Return the value of bytes that :func:`encode` made.

    Args:
        content: The bytes.
        originals: Where its images are.

    Raises:
        StoreError: They are none, or damaged.
    """
    try:
        return _decoded(content[:_LONGEST_HEAD], content[_LONGEST_HEAD:], originals)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, MemoryError) as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> StoreError:
    """Return the error for bytes that are damaged."""
    return StoreError(
        f"what a run put aside cannot be read: {type(error).__name__}: {error}",
        "Run again: what is whole is used, and the rest made anew.",
    )


def _decoded(kind: bytes, body: bytes, originals: Originals) -> Any:
    match kind:
        case b"items   ":
            return _items(body, originals)
        case b"scores  ":
            return _scores(arrays(body))
        case b"captions":
            return _captioned(json.loads(body))
        case b"requests":
            return _requests(body, originals)
        case b"arrays  ":
            return arrays(body)
        case b"columns ":
            return _table(body)[0]
        case _:
            raise ValueError(f"begins with {kind!r}")


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
    if at != len(content):
        raise ValueError(f"{len(content)} bytes, of {at}")
    return found


def _table_bytes(columns: Mapping[str, Any], encoded: Sequence[bytes | None] = ()) -> bytes:
    """Return columns of JSON values as bytes, and beside them what is no text."""
    given = [one or b"" for one in encoded]
    return arrays_bytes(
        {
            _META: np.frombuffer(json.dumps(columns).encode(), np.uint8),
            "lengths": np.array([-1 if one is None else len(one) for one in encoded], np.int64),
            "encoded": np.frombuffer(b"".join(given), np.uint8),
        }
    )


def _table(content: bytes) -> tuple[dict[str, list[Any]], list[bytes | None]]:
    found = arrays(content)
    ends = np.cumsum(np.maximum(found["lengths"], 0)).tolist()
    encoded = [
        None if length < 0 else found["encoded"][end - length : end].tobytes()
        for length, end in zip(found["lengths"].tolist(), ends, strict=True)
    ]
    return json.loads(found[_META].tobytes()), encoded


def _items_bytes(items: Items) -> bytes:
    sets, set_of_item = items.reference_sets
    columns: dict[str, Any] = {
        "ids": list(items.ids),
        "candidates": list(items.candidates),
        "sets": sets,
        "references": set_of_item.tolist(),
        "weights": items.weights.tolist(),
        "corpus": None if items.corpus is None else items.corpus.tolist(),
        "objects": [sorted(one) for one in items.objects],
        "boxes": items.boxes,
    }
    # Many items may be of one image.
    names = {name: number for number, name in enumerate(dict.fromkeys(items.image_names))}
    columns["names"], columns["name"] = list(names), [names[name] for name in items.image_names]
    written = {one: (_handle_text(one), _encoded(one)) for one in dict.fromkeys(items.images)}
    columns["images"] = [written[one][0] for one in items.images]
    return _table_bytes(columns, [written[one][1] for one in items.images])


def _items(content: bytes, originals: Originals) -> Items:
    columns, encoded = _table(content)
    sets = list(map(tuple, columns["sets"]))
    known: dict[tuple[str, bytes | None], ImageHandle | VideoHandle] = {}
    images: list[ImageHandle | VideoHandle] = []
    for text, image in zip(columns["images"], encoded, strict=True):
        if (text, image) not in known:
            known[text, image] = _handle(text, image, originals)
        images.append(known[text, image])
    corpus = columns["corpus"]
    return Items(
        ids=columns["ids"],
        candidates=columns["candidates"],
        references=[sets[one] for one in columns["references"]],
        weights=np.array(columns["weights"], dtype=np.float64),
        images=images,
        boxes=[tuple((one[0], one[1], one[2], one[3]) for one in boxes) for boxes in columns["boxes"]],
        corpus=None if corpus is None else np.array(corpus, dtype=np.int64),
        objects=[frozenset(one) for one in columns["objects"]],
        image_names=[columns["names"][number] for number in columns["name"]],
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
        case LateImage():
            known["late"] = source.name
        case FrameSource():
            known["drawn"] = [source.digest(), str(source)]
        case _:
            pass
    return json.dumps(known)


def _encoded(handle: ImageHandle | VideoHandle) -> bytes | None:
    match handle.source:
        case bytes():
            return handle.source
        case Path() | RowImage() | OutsideFile() | LateImage():
            return None
        # What is drawn when it is read, say: others get what is read here.
        case FrameSource():
            return KeptFrames.of(handle.source).content
        case _:
            return handle.source.read_bytes()


def _handle(text: str, encoded: bytes | None, originals: Originals) -> ImageHandle | VideoHandle:
    known = json.loads(text)
    if "drawn" in known:
        source: Any = KeptFrames(known["drawn"][0], known["drawn"][1], encoded or b"")
    elif encoded is not None:
        source = encoded
    elif "row" in known:
        source = replace(originals.images(known["column"]), row=known["row"])
    elif "late" in known and originals.pixels is not None:
        source = LateImage(originals.pixels, known["late"])
    elif "outside" in known:
        source = OutsideFile(Path(known["outside"]))
    else:
        source = Path(known.get("path") or known["late"])
    if "video" in known:
        return VideoHandle(source, tuple(known["span"]) if known["span"] else None)
    return ImageHandle(source, tuple(known["box"]) if known["box"] else None)


def _requests_bytes(requests: Sequence[CaptionRequest]) -> bytes:
    handles = [request.pixels for request in requests]
    settings: list[dict[str, Any]] = []
    of_request: list[int] = []
    latest: Mapping[str, Any] | None = None
    for request in requests:
        # They are the task's, one mapping for all.
        if request.generation_kwargs is not latest:
            latest = request.generation_kwargs
            settings.append(dict(latest))
        of_request.append(len(settings) - 1)
    columns = {
        "ids": [request.id for request in requests],
        "named": [_image_named(request.image) for request in requests],
        "prompts": [request.prompt for request in requests],
        "settings": settings,
        "setting": of_request,
        "numbered": [request.numbered for request in requests],
        "images": [None if one is None else _handle_text(one) for one in handles],
    }
    return _table_bytes(columns, [None if one is None else _encoded(one) for one in handles])


def _image_named(image: Any) -> Any:
    """Return what a document says of its image; what is no name is called by its key."""
    return image if image is None or isinstance(image, str | int) else image_key(image)


def _requests(content: bytes, originals: Originals) -> list[CaptionRequest]:
    columns, encoded = _table(content)
    names = ("ids", "named", "prompts", "setting", "numbered", "images")
    return [
        CaptionRequest(
            identity,
            image,
            prompt,
            columns["settings"][setting],
            numbered,
            None if handle is None else _handle(handle, content, originals),
        )
        for identity, image, prompt, setting, numbered, handle, content in zip(
            *(columns[name] for name in names), encoded, strict=True
        )
    ]


def _scores_bytes(shard: ShardScores) -> bytes:
    found: dict[str, np.ndarray] = {}
    meta: dict[str, Any] = {
        "metrics": [],
        "ids": {str(item): identity for item, identity in shard.ids.items()},
        "remarks": {str(item): remark for item, remark in shard.remarks.items()},
    }
    for number, one in enumerate(shard.metrics):
        known: dict[str, Any] = {
            "name": one.name,
            "error": one.error,
            "seconds": one.seconds,
            "counted": one.counted,
            "of_model": one.of_model,
            "scores": None,
        }
        if one.scores is not None:
            found[f"{number}"] = one.scores.values
            found |= {f"{number}/{name}": part for name, part in one.scores.parts.items()}
            found |= {f"{number}+{name}": part for name, part in (one.sums or {}).items()}
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
            pairs = {key: {int(item): text for item, text in told[key]} for key in ("failures", "remarks")}
            scores = Scores(found[f"{number}"], _named(found, f"{number}/"), **pairs)
        # Copies: those of all shards are kept, and what they are a part of is not.
        sums = {name: part.copy() for name, part in _named(found, f"{number}+").items()} or None
        plain = {name: one[name] for name in ("name", "error", "seconds", "counted", "of_model")}
        metrics.append(MetricScores(scores=scores, sums=sums, **plain))
    ids = {int(item): identity for item, identity in meta["ids"].items()}
    return ShardScores(metrics, ids, {int(item): remark for item, remark in meta["remarks"].items()})


def _named(found: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): one for name, one in found.items() if name.startswith(prefix)}


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
