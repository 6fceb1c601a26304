"""CLIP-Precision, CLIP-Recall and CLIP-F1: how far the parts of a caption and of its image represent each other.

Source: Feng et al. 2024, "Do More Details Always Introduce More Hallucinations in LVLM-based Image
Captioning?", sections 4.3 and 5.1. No code was released.

The parts of an image are the crops of its boxes and the whole image; those of a caption are what lies between
the marks ``.``, ``?`` and ``!``, and the whole caption. The cut is plain, as the paper states it: "3.5" and
"e.g." are cut too, the marks go, and a piece without a letter or digit is dropped. Boxes and sentences that
occur twice count twice. Not stated in the paper, and so chosen here: no prompt, cosine as similarity, crops
as they are (those of any size and shape go through the encoder's own transform), and 0 for a caption that says
nothing.

``parts="whole"`` is for data sets without boxes: the whole image is then the image's only part, so that recall is
how far the sentences nearest to it represent it, and precision the mean cosine of the text parts with it (in
absolute value). The paper has no such setting, and its numbers are no measure for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..adapters import ImageHandle, VideoHandle
from ..progress import unheard
from .contract import Context, Metric, Need
from .items import Items, Scores
from .vectors.features import image_features, over_context, require_encoder, text_features
from .vectors.projection import proportions

_REVISION = 1
"""Raised whenever values that are kept would come out otherwise."""

_PARTS_A_GROUP = 4096
"""Parts of images that are held at a time: 12 MB of features of ViT-L/14."""

_SENTENCE_END = re.compile(r"[.?!]+")


class _ClipParts(Metric):
    """What the three metrics compute once and share through the cache.

    How far parts represent a part: the length of its projection on the span of the ``k`` of them that are most similar
    to it, over its own length, 0 to 1.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, ``f1 [n]``; ``image_parts [n]`` and ``text_parts [n]``
    that they were made of; ``lost_boxes [n]`` that could not be cropped (outside the image, no area) and were
    left out; ``truncated [n]`` 1 where the whole caption is longer than the encoder's context, and cut there.

    Args:
        k: How many parts of the other side represent a part. The paper prints 3, 5 and 10, and 5 where it
            prints one.
        prompt: Put before each text part.
        parts: The parts of an image: the crops of its ``boxes`` and the whole image, as in the paper; or the
            ``whole`` image alone, which needs no boxes and is not the paper's setting.

    Raises:
        ValueError: ``k`` is below 1, or ``parts`` is neither.
    """

    needs: frozenset[Need] = frozenset({"image", "boxes", "encoder"})
    source = "Feng et al. 2024 (CLIP-Precision, CLIP-Recall, CLIP-F1), sections 4.3 and 5.1"
    _of: str

    def __init__(self, k: int = 5, prompt: str = "", parts: Literal["boxes", "whole"] = "boxes") -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k is {k!r}; it is a whole number of at least 1")
        if parts not in ("boxes", "whole"):
            raise ValueError(f"parts is boxes or whole, not {parts!r}")
        self.k = k
        self.prompt = prompt
        self.parts = parts
        if parts == "whole":
            self.needs = frozenset({"image", "encoder"})
            self.label = f"{type(self).label} (whole image)"

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings."""
        return {"metric": type(self).__name__, "k": self.k, "prompt": self.prompt, "parts": self.parts}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no encoder.
            AdapterError: The encoder failed as a whole.
        """
        if self.parts == "whole":
            items = replace(items, boxes=[()] * len(items))
        table, failures, remarks = _Parts(items, context, self.k, self.prompt).table()
        precision, recall = table[:, 0], table[:, 1]
        total = precision + recall
        f1 = np.divide(2 * precision * recall, total, out=np.where(np.isnan(total), np.nan, 0.0), where=total > 0)
        parts = {"precision": precision, "recall": recall, "f1": f1}
        values = parts[self._of]
        parts |= dict(zip(("image_parts", "text_parts", "lost_boxes", "truncated"), table[:, 2:].T, strict=True))
        # What could not be scored was not cut either.
        parts["truncated"] = np.nan_to_num(parts["truncated"])
        return Scores(values=values, parts=parts, failures=failures, remarks=remarks)


class ClipPrecision(_ClipParts):
    """Mean over text parts of how far the image parts most similar to each represent it (0-1)."""

    label = "CLIP-Precision"
    _of = "precision"


class ClipRecall(_ClipParts):
    """Mean over image parts of how far the text parts most similar to each represent it (0-1)."""

    label = "CLIP-Recall"
    _of = "recall"


class ClipF1(_ClipParts):
    """Harmonic mean of an image's CLIP-Precision and CLIP-Recall; the system value is the mean over images."""

    label = "CLIP-F1"
    _of = "f1"


def text_parts(caption: str) -> list[str]:
    """Return the sentences of a caption, cut at ``.``, ``?`` and ``!``, then the caption itself."""
    pieces = (piece.strip() for piece in _SENTENCE_END.split(caption))
    return [*(piece for piece in pieces if any(map(str.isalnum, piece))), caption.strip()]


@dataclass(frozen=True)
class _Parts:
    """Some items, and how their parts are compared."""

    items: Items
    context: Context
    k: int
    prompt: str

    def table(self) -> tuple[np.ndarray, dict[int, str], dict[int, str]]:
        """Return ``[n, 6]``, why an item has none, and what was done to read its image that is not as usual.

        A row is precision, recall, image parts, text parts, lost boxes, truncated; NaN where an item has none.
        """
        cache = self.context.cache
        encoder = require_encoder(self.context).fingerprint()
        producer = {
            "metric": "clip parts", "revision": _REVISION, "k": self.k, "prompt": self.prompt, "encoder": encoder
        }  # fmt: skip
        keys, failures = self._keys()
        first: dict[str, int] = {}
        for item, key in enumerate(keys):
            if key is not None:
                first.setdefault(key, item)
        known: dict[str, Any] = dict(cache.get(producer, list(first)))
        told = {**producer, "remarks": True}
        remarks: dict[str, str] = dict(cache.get(told, list(first)))
        missing = [item for key, item in first.items() if key not in known]
        reasons: dict[str, str] = {}
        done = len(first) - len(missing)
        self.context.progress(done, len(first))
        for group in self._groups(missing):
            rows, failed, remarked = self._score(group)
            found = {str(keys[item]): row for item, row in rows.items()}
            new = {str(keys[item]): remark for item, remark in remarked.items()}
            cache.put(told, new)
            cache.put(producer, found)
            remarks |= new
            known |= found
            reasons |= {str(keys[item]): reason for item, reason in failed.items()}
            done += len(group)
            self.context.progress(done, len(first))
        failures |= {item: reasons[key] for item, key in enumerate(keys) if key in reasons}
        table = [
            [0.0] * 6 if key is None and item not in failures else known.get(str(key), [np.nan] * 6)
            for item, key in enumerate(keys)
        ]
        of_item = {item: remarks[key] for item, key in enumerate(keys) if key in remarks}
        return np.array(table, dtype=np.float64).reshape(-1, 6), failures, of_item

    def _keys(self) -> tuple[list[str | None], dict[int, str]]:
        """Return what each item's values depend on.

        None where its caption says nothing, or, with the reason, where its image is not there.
        """
        keys: list[str | None] = []
        failures: dict[int, str] = {}
        for item, (candidate, image, boxes) in enumerate(
            zip(self.items.candidates, self.items.images, self.items.boxes, strict=True)
        ):
            if isinstance(image, VideoHandle):
                keys.append(None)
                failures[item] = f"CLIP-F1 takes images, and this is a video: {image.name}"
                continue
            if not candidate.strip():
                keys.append(None)
                continue
            try:
                keys.append(json.dumps([candidate, image.digest(), boxes], ensure_ascii=False))
            except OSError as error:
                keys.append(None)
                failures[item] = f"image {error.filename or ''}: {error.strerror or error}"
        return keys, failures

    def _groups(self, missing: Sequence[int]) -> Iterator[list[int]]:
        """Yield items in groups of bounded size, those of one image side by side, as its parts are encoded once."""
        first: dict[Any, int] = {}
        order = {item: first.setdefault(self.items.images[item].source, item) for item in missing}
        group: list[int] = []
        size = 0
        for item in sorted(missing, key=order.__getitem__):
            parts = len(self.items.boxes[item]) + 1
            if group and size + parts > _PARTS_A_GROUP:
                yield group
                group, size = [], 0
            group.append(item)
            size += parts
        if group:
            yield group

    def _score(self, group: list[int]) -> tuple[dict[int, list[float]], dict[int, str], dict[int, str]]:
        """Return the row of each item, why an item has none, and remarks on its image."""
        context = replace(self.context, progress=unheard)
        handles: list[ImageHandle] = []
        texts: list[str] = []
        ends = []
        for item in group:
            whole = self.items.images[item]
            if isinstance(whole, ImageHandle):  # as all are that have a key
                handles += [*(replace(whole, box=box) for box in self.items.boxes[item]), replace(whole, box=None)]
            texts += [self.prompt + text for text in text_parts(self.items.candidates[item])]
            ends.append((len(handles), len(texts)))
        images, captions = image_features(handles, context), text_features(texts, context)
        cut = over_context([texts[text - 1] for _, text in ends], context)
        kept, pairs, failures, remarks = [], [], {}, {}
        first_image, first_text = 0, 0
        for number, (item, (end_image, end_text)) in enumerate(zip(group, ends, strict=True)):
            image_rows, text_rows = images.rows[first_image:end_image], captions.rows[first_text:end_text]
            # The whole image and the whole caption come last.
            lost_text = next((at for at in range(first_text, end_text) if at in captions.failures), None)
            if end_image - 1 in images.failures:
                failures[item] = images.failures[end_image - 1]
            elif lost_text is not None:
                failures[item] = captions.failures[lost_text]
            else:
                if end_image - 1 in images.remarks:
                    remarks[item] = images.remarks[end_image - 1]
                read = image_rows[image_rows >= 0]
                pairs.append((images.vectors[read], captions.vectors[text_rows]))
                kept.append((item, [len(read), len(text_rows), len(image_rows) - len(read), int(cut[number])]))
            first_image, first_text = end_image, end_text
        rows = {}
        for (item, counts), (of_images, of_texts) in zip(kept, proportions(pairs, self.k), strict=True):
            rows[item] = [float(of_texts.mean()), float(of_images.mean()), *counts]
        return rows, failures, remarks
