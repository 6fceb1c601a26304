"""EMScore: matches the tokens of a caption with the frames of a video, and with the tokens of references."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ..adapters import VideoHandle
from ..adapters.pixels.video import is_recorded
from ..errors import MetricError
from .contract import Context, Metric
from .items import Items, Scores
from .vectors.features import over_context, require_encoder
from .vectors.video_features import (
    TokenIdf,
    Undefined,
    clip_frames,
    corpus_digest,
    frame_features,
    load_idf,
    match_frames,
    match_references,
    token_features,
)

# Videos whose frames are held at once: 0.4 GB at 2 minutes of 25 frames a second and 1,024 float32.
_VIDEOS_A_GROUP = 32

_PARTS = ("precision", "recall", "f1", "coarse")


class EmScore(Metric):
    """EMScore(X, V): how well a caption and a video match in the space of a CLIP model, finely and coarsely.

    Fine: each token of the caption, from start to end token, is matched with the most similar frame
    (precision, weighted by idf), each frame with the most similar token (recall, frames weigh the same);
    F1 of both. Coarse: the cosine of the end token with the mean of the frames. The value is the mean of F1
    and coarse. Captions go in as written, cut to the model's context (released code refuses longer ones).

    Each item is scored by itself. Released code pads the items of a batch, and a padded position has
    similarity 0, so that there a value can depend on its neighbours; with one item in a batch it is this.

    ``Scores.parts``: ``precision``, ``recall``, ``f1``, ``coarse``, each ``[n]``, -1 to 1 but for F1, which
    is of any size where precision and recall are nearly opposite; ``truncated [n]``, 1 where the caption was
    cut, else 0.

    Args:
        frames: So many frames are taken of a video, from the first to the last at equal distances; None for
            all, as the released scorer does unless its caller samples.
        idf: The training captions whose idf weighs the tokens: a ``.json`` or text file (``token_idf``). A
            relative path is one in the data set's folder. None weighs all tokens the same.
        idf_max_words: Longer training captions are left out.
        recorded: Whether features that somebody recorded of frames are taken. No file says of which model they
            are; the released ones are of OpenAI's CLIP ViT-B/32, so by default they are not taken for PAC-S.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "EMScore"
    range = (-inf, inf)
    needs = frozenset({"image", "encoder"})
    encoder_family = "clip"
    source = "Shi et al., CVPR 2022, section 3; ShiYaya/emscore emscore/utils.py, emscore/scorer.py"
    data_files = frozenset({"idf"})
    set_by_data = frozenset({"frames", "idf", "idf_max_words", "recorded"})

    def __init__(
        self,
        frames: int | None = None,
        idf: str | None = None,
        idf_max_words: int | None = None,
        recorded: bool | None = None,
    ) -> None:
        for name, number in (("frames", frames), ("idf_max_words", idf_max_words)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ValueError(f"'{name}' is a whole number above 0 or null, not {number!r}")
        if idf is not None and not isinstance(idf, str):
            raise ValueError(f"'idf' is the path of a file or null, not {idf!r}")
        self.frames = frames
        self.idf = idf
        self.idf_max_words = idf_max_words
        self.recorded = self.encoder_family == "clip" if recorded is None else bool(recorded)

    def check(self) -> None:
        """Raise if the training captions are not here."""
        if self.idf is not None and not Path(self.idf).expanduser().is_file():
            raise MetricError(
                f"{self.label} weighs tokens by the captions of {self.idf}, and there is no such file.",
                "Get it, or set the metric's 'idf' to null, which gives other numbers.",
            )

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings; of the training captions, the hash of their file."""
        return {**super().fingerprint(), "idf": self._idf_digest()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The items have no videos, the context has no encoder, or the training captions
                cannot be read.
            AdapterError: The encoder failed as a whole.
        """
        terms = self._terms(items, context, with_references=False)
        return self._scores(items, context, terms.video, terms.failures)

    def _scores(self, items: Items, context: Context, table: np.ndarray, failures: dict[int, str]) -> Scores:
        parts: dict[str, np.ndarray] = dict(zip(_PARTS, table.T, strict=True))
        parts["truncated"] = over_context(items.candidates, context).astype(np.float64)
        return Scores(values=(parts["f1"] + parts["coarse"]) / 2, parts=parts, failures=failures)

    def _terms(self, items: Items, context: Context, *, with_references: bool) -> _Terms:
        """Return the parts of each item against its video and, if asked for, against its references."""
        encoder = require_encoder(context)
        if not items.images:
            raise MetricError(f"{self.label} looks at videos, and these captions come without.")
        video_of_item, failures = self._videos(items)
        if with_references:
            for item, references in enumerate(items.references):
                if not references:
                    failures.setdefault(item, "item has no reference")
        produced_by = {"metric": "EMScore", "idf": self._idf_digest(), "encoder": encoder.fingerprint()}
        if self.idf is not None:
            produced_by["idf_max_words"] = self.idf_max_words
        usable = [item for item in range(len(items)) if item not in failures]
        video = _Table(
            {**produced_by, "term": "video", "frames": self.frames},
            {item: _key(items.candidates[item], *video_of_item[item]) for item in usable},
            context,
        )
        references = _Table(
            {**produced_by, "term": "references"},
            {item: _key(items.candidates[item], *items.references[item]) for item in usable} if with_references else {},
            context,
        )
        missing = [item for item in usable if video.lacks(item) or references.lacks(item)]
        done = len(items) - len(missing)
        context.progress(done, len(items))
        idf = None
        if missing and self.idf is not None:
            idf = load_idf(Path(self.idf).expanduser(), self.idf_max_words, encoder, context.cache)
        for group in _groups(missing, [video_of_item[item][0] for item in missing]):
            failures |= self._score_group(items, group, video, references, idf, context)
            done += len(group)
            context.progress(done, len(items))
        return _Terms(video.rows(len(items)), references.rows(len(items)), failures)

    def _videos(self, items: Items) -> tuple[dict[int, tuple[str, str]], dict[int, str]]:
        """Return the digest and span of each item's video, and item index to why it has none."""
        found: dict[int, tuple[str, str]] = {}
        failures: dict[int, str] = {}
        for item, handle in enumerate(items.images):
            if not isinstance(handle, VideoHandle):
                failures[item] = f"{self.label} takes videos, and this is an image: {handle.name}"
                continue
            if not self.recorded and is_recorded(handle):
                failures[item] = (
                    "video: features of its frames were recorded, by another model unless the metric is told "
                    f"otherwise (recorded: true): {handle.name}"
                )
                continue
            try:
                found[item] = handle.digest(), json.dumps(handle.span)
            except OSError as error:
                failures[item] = f"video {handle.name}: {error.strerror or error}"
        return found, failures

    def _score_group(
        self,
        items: Items,
        group: Sequence[int],
        video: _Table,
        references: _Table,
        idf: TokenIdf | None,
        context: Context,
    ) -> dict[int, str]:
        """Fill in the rows of some items; return item index to why it has none."""
        handles = {item: items.images[item] for item in group if video.lacks(item)}
        frames = frame_features([one for one in handles.values() if isinstance(one, VideoHandle)], context)
        texts = dict.fromkeys(items.candidates[item] for item in group)
        texts |= dict.fromkeys(text for i in group if references.lacks(i) for text in items.references[i])
        tokens = token_features(list(texts), idf, context)
        failures = {}
        for item in group:
            try:
                caption = tokens.of("candidate", items.candidates[item])
                if video.lacks(item):
                    clip = clip_frames(frames.of(items.images[item]), items.images[item], self.frames)
                    video.add(item, match_frames(caption, clip))
                if references.lacks(item):
                    named = enumerate(items.references[item], 1)
                    others = [tokens.of(f"reference {number}", text) for number, text in named]
                    references.add(item, match_references(caption, others))
            except Undefined as reason:
                failures[item] = str(reason)
        video.keep()
        references.keep()
        return failures

    def _idf_digest(self) -> str | None:
        if self.idf is None:
            return None
        try:
            return corpus_digest(Path(self.idf).expanduser())
        except OSError:
            # It could not be read, so nothing was scored with it.
            return "not read"


class EmScoreRef(EmScore):
    """EMScore(X, V, X*): the mean of EMScore against the video and against the references.

    Against a reference, its tokens stand where the frames do, and recall is weighted by their idf too; the
    coarse cosine is that of both end tokens. Of precision, recall, F1 and coarse the largest over the
    references is taken, each by itself. For the rest see ``EmScore``; parts are the means of both terms.

    Args:
        frames: As of ``EmScore``.
        idf: As of ``EmScore``.
        idf_max_words: As of ``EmScore``.
        recorded: As of ``EmScore``.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "EMScoreRef"
    needs = frozenset({"image", "references", "encoder"})

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``EmScore.score``."""
        terms = self._terms(items, context, with_references=True)
        return self._scores(items, context, (terms.video + terms.references) / 2, terms.failures)


class PacEmScore(EmScore):
    """EMScore with a model of the ``pac`` family, which the PAC-S++ paper calls PAC-S for videos.

    The paper says that it computes EMScore with its weights; there is no released code. Frames must be encoded
    by them too, so recorded features are not taken unless ``recorded`` says that they were.

    Args:
        frames: As of ``EmScore``.
        idf: As of ``EmScore``.
        idf_max_words: As of ``EmScore``.
        recorded: As of ``EmScore``.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "PAC-S"
    encoder_family = "pac"
    source = "Sarto et al., IJCV 2025, the section on video captions; computed as EMScore"


class PacEmScoreRef(EmScoreRef):
    """EMScore with references and a model of the ``pac`` family: RefPAC-S for videos; see ``PacEmScore``.

    Args:
        frames: As of ``EmScore``.
        idf: As of ``EmScore``.
        idf_max_words: As of ``EmScore``.
        recorded: As of ``EmScore``.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "RefPAC-S"
    encoder_family = "pac"
    source = PacEmScore.source


@dataclass(frozen=True)
class _Terms:
    """``[n, 4]`` the parts of each item against its video and its references; NaN where there are none."""

    video: np.ndarray
    references: np.ndarray
    failures: dict[int, str]


@dataclass
class _Table:
    """The parts of items against one thing, by key; what was computed before comes from the cache.

    Attributes:
        producer: What makes them.
        keys: Item index to key, of the items that have any.
        context: Where the cache is.
    """

    producer: dict[str, Any]
    keys: dict[int, str]
    context: Context
    _known: dict[str, list[float]] = field(init=False)
    _new: dict[str, list[float]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._known = self.context.cache.get(self.producer, list(dict.fromkeys(self.keys.values())))

    def lacks(self, item: int) -> bool:
        return item in self.keys and self.keys[item] not in self._known

    def add(self, item: int, parts: np.ndarray) -> None:
        self._new[self.keys[item]] = self._known[self.keys[item]] = parts.tolist()

    def keep(self) -> None:
        if self._new:
            self.context.cache.put(self.producer, self._new)
            self._new = {}

    def rows(self, count: int) -> np.ndarray:
        found = np.full((count, len(_PARTS)), np.nan)
        for item, key in self.keys.items():
            found[item] = self._known.get(key, np.nan)
        return found


def _key(*texts: str) -> str:
    return json.dumps(texts, ensure_ascii=False)


def _groups(items: Sequence[int], videos: Sequence[str]) -> Iterator[list[int]]:
    """Yield the items of so many videos at a time."""
    of_video: dict[str, list[int]] = {}
    for item, video in zip(items, videos, strict=True):
        of_video.setdefault(video, []).append(item)
    members = list(of_video.values())
    for start in range(0, len(members), _VIDEOS_A_GROUP):
        yield [item for one in members[start : start + _VIDEOS_A_GROUP] for item in one]
