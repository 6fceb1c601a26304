"""EMScore: matches the tokens of a caption with the frames of a video, and with the tokens of references."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..adapters import Encoder, ImageHandle, VideoHandle
from ..adapters.encoders.clip_tokens import cut_to
from ..adapters.images.file_digests import file_digest
from ..adapters.images.video import is_recorded
from ..errors import BenchError, MetricError, require_counts
from ..rows import load_json
from .contract import Cache, Context, Metric, kept
from .items import Items, Scores
from .vectors.features import over_context, require_encoder

# Videos whose frames are held at once: 0.4 GB at 2 minutes of 25 frames a second and 1,024 float32.
_VIDEOS_A_GROUP = 32

_PARTS = ("precision", "recall", "f1", "coarse")


@dataclass(eq=False, repr=False)
class EmScore(Metric):
    """EMScore(X, V): how well a caption and a video match in the space of a CLIP model, finely and coarsely.

    Fine: each token of the caption, from start to end token, is matched with the most similar frame
    (precision, weighted by idf), each frame with the most similar token (recall, frames weigh the same);
    F1 of both. Coarse: the cosine of the end token with the mean of the frames. The value is the mean of F1
    and coarse. Captions are not preprocessed, but cut to the model's context (released code refuses longer ones).

    Each item is scored separately. Released code pads the items of a batch, and a padded position has
    similarity 0, so that there a value can depend on its neighbours; with one item in a batch it is this.

    ``Scores.parts``: ``precision``, ``recall``, ``f1``, ``coarse``, each ``[n]``, -1 to 1 but for F1, which
    is of any size where precision and recall are nearly opposite; ``truncated [n]``, 1 where the caption was
    cut, else 0.

    Args:
        frames: Number of frames of a video, from the first to the last at equal distances; None for
            all, as the released scorer does unless its caller samples.
        idf: The training captions whose idf weighs the tokens: a ``.json`` or text file (``token_idf``). A
            relative path is one in the data set's folder. None weighs all tokens the same.
        idf_max_words: Longer training captions are left out.
        recorded: Whether recorded features of frames are used. No file names their model; the released ones are
            of OpenAI's CLIP ViT-B/32, so by default they are not used for PAC-S.

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

    frames: int | None = None
    idf: str | None = None
    idf_max_words: int | None = None
    recorded: bool | None = None

    def __post_init__(self) -> None:
        require_counts(ValueError, frames=self.frames, idf_max_words=self.idf_max_words)
        if self.idf is not None and not isinstance(self.idf, str):
            raise ValueError(f"'idf' must be the path of a file or null, not {self.idf!r}")
        self.recorded = self.encoder_family == "clip" if self.recorded is None else bool(self.recorded)

    def check(self) -> None:
        """Raise if the training captions are not here."""
        if self.idf is not None and not Path(self.idf).expanduser().is_file():
            raise MetricError(
                f"{self.label} takes token weights from {self.idf}; there is no such file.",
                "Get the file, or set 'idf' to null, which changes the numbers.",
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
        encoder = require_encoder(context)
        if not items.images:
            raise MetricError(f"{self.label} needs videos; these captions have none.")
        video_of_item, failures = self._videos(items)
        with_references = "references" in self.needs
        for item, references in enumerate(items.references if with_references else ()):
            if not references:
                failures.setdefault(item, "item has no reference")
        produced_by: dict[str, Any] = {"metric": "EMScore", "idf": self._idf_digest(), "encoder": encoder.fingerprint()}
        if self.idf is not None:
            produced_by["idf_max_words"] = self.idf_max_words
        usable = [item for item in range(len(items)) if item not in failures]
        video = _Table(
            {**produced_by, "term": "video", "frames": self.frames},
            {item: _key(items.candidates[item], *video_of_item[item]) for item in usable},
            context.cache,
        )
        references = _Table(
            {**produced_by, "term": "references"},
            {item: _key(items.candidates[item], *items.references[item]) for item in usable} if with_references else {},
            context.cache,
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
        table = video.rows(len(items))
        if with_references:
            table = (table + references.rows(len(items))) / 2
        parts: dict[str, np.ndarray] = dict(zip(_PARTS, table.T, strict=True))
        parts["truncated"] = over_context(items.candidates, context).astype(np.float64)
        return Scores(values=(parts["f1"] + parts["coarse"]) / 2, parts=parts, failures=failures)

    def _videos(self, items: Items) -> tuple[dict[int, tuple[str, str]], dict[int, str]]:
        """Return the digest and span of each item's video, and item index to why it has none."""
        videos: dict[int, tuple[str, str]] = {}
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
                videos[item] = handle.digest(), json.dumps(handle.span)
            except OSError as error:
                failures[item] = f"video {handle.name}: {error.strerror or error}"
        return videos, failures

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
        frames = frame_features([handle for handle in handles.values() if isinstance(handle, VideoHandle)], context)
        texts = dict.fromkeys(items.candidates[item] for item in group)
        texts |= dict.fromkeys(text for i in group if references.lacks(i) for text in items.references[i])
        tokens = token_features(list(texts), idf, context)
        failures = {}
        for item in group:
            try:
                caption = _defined_of(tokens[items.candidates[item]], "candidate")
                if video.lacks(item):
                    features = _defined_of(frames[items.images[item].digest()], "video")
                    clip = clip_frames(features, items.images[item], self.frames)
                    video.add(item, match_frames(caption, clip))
                if references.lacks(item):
                    named = enumerate(items.references[item], 1)
                    others = [_defined_of(tokens[text], f"reference {number}") for number, text in named]
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
            return f"sha256:{file_digest(Path(self.idf).expanduser())}"
        except OSError:
            # It could not be read, so nothing was scored with it.
            return "not read"


class EmScoreRef(EmScore):
    """EMScore(X, V, X*): the mean of EMScore against the video and against the references.

    Against a reference, its tokens stand where the frames do, and recall is weighted by their idf too; the
    coarse cosine is that of both end tokens. Precision, recall, F1 and coarse are each the largest over
    the references. For the rest see ``EmScore``; parts are the means of both terms.

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


class PacEmScore(EmScore):
    """EMScore with a model of the ``pac`` family, which the PAC-S++ paper calls PAC-S for videos.

    The paper says that it computes EMScore with its weights; there is no released code. Frames must be encoded
    by them too, so recorded features are used only with ``recorded``.

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


class _Table:
    """The parts of items against one thing, by key; earlier results come from the cache.

    Args:
        producer: What makes them.
        keys: Item index to key, of the items that have any.
        cache: Where they are kept.
    """

    def __init__(self, producer: dict[str, Any], keys: dict[int, str], cache: Cache) -> None:
        self._producer, self._keys, self._cache = producer, keys, cache
        self._known: dict[str, list[float]] = dict(cache.get(producer, list(dict.fromkeys(keys.values()))))
        self._new: dict[str, list[float]] = {}

    def lacks(self, item: int) -> bool:
        return item in self._keys and self._keys[item] not in self._known

    def add(self, item: int, parts: np.ndarray) -> None:
        self._new[self._keys[item]] = self._known[self._keys[item]] = parts.tolist()

    def keep(self) -> None:
        if self._new:
            self._cache.put(self._producer, self._new)
            self._new = {}

    def rows(self, count: int) -> np.ndarray:
        nothing = [np.nan] * len(_PARTS)
        rows = [self._known.get(self._keys.get(item, ""), nothing) for item in range(count)]
        return np.array(rows).reshape(-1, len(_PARTS))


def _key(*texts: str) -> str:
    return json.dumps(texts, ensure_ascii=False)


def _groups(items: Sequence[int], videos: Sequence[str]) -> Iterator[list[int]]:
    """Yield the items of some videos at a time."""
    of_video: dict[str, list[int]] = {}
    for item, video in zip(items, videos, strict=True):
        of_video.setdefault(video, []).append(item)
    members = list(of_video.values())
    for start in range(0, len(members), _VIDEOS_A_GROUP):
        yield [item for group in members[start : start + _VIDEOS_A_GROUP] for item in group]


_Found = TypeVar("_Found")


class Undefined(Exception):  # noqa: N818 - callers handle it as a reason, not as an error
    """An item that cannot be scored; its text says why."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text.

    Attributes:
        vectors: ``[t, d]`` of norm 1, from the start to the end token.
        weights: ``[t]``, of sum 1.
    """

    vectors: np.ndarray
    weights: np.ndarray


def match_frames(caption: Tokens, frames: np.ndarray) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]`` of a caption and a video.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``vid_greedy_cos`` and ``em_cos_score``.

    Args:
        caption: The caption.
        frames: ``[f, d]`` of norm 1.

    Raises:
        Undefined: Precision and recall are opposite.
    """
    cosines = caption.vectors @ frames.T
    precision = cosines.max(axis=1) @ caption.weights
    recall = cosines.max(axis=0).mean(dtype=np.float64)
    video = frames.mean(axis=0)
    coarse = caption.vectors[-1] @ (video / np.linalg.norm(video))
    return _defined(np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64))


def match_references(caption: Tokens, references: Sequence[Tokens]) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]``, each the largest over the references.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``refs_greedy_cos``, ``scorer.py``.

    Args:
        caption: The caption.
        references: One or more.

    Raises:
        Undefined: Precision and recall of a reference are opposite.
    """
    lengths = [len(reference.weights) for reference in references]
    starts = np.cumsum([0, *lengths[:-1]])
    cosines = caption.vectors @ np.concatenate([reference.vectors for reference in references]).T
    precision = caption.weights @ np.maximum.reduceat(cosines, starts, axis=1)
    weights = np.concatenate([reference.weights for reference in references])
    recall = np.add.reduceat(cosines.max(axis=0) * weights, starts)
    coarse = np.array([reference.vectors[-1] for reference in references]) @ caption.vectors[-1]
    parts = np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64)
    return _defined(parts.max(axis=1))


def _f1(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * precision * recall / (precision + recall)


def _defined(parts: np.ndarray) -> np.ndarray:
    if not np.isfinite(parts).all():
        raise Undefined("precision and recall have no harmonic mean, or the frames no mean direction")
    return parts


_PADDING = 0
_CAPTIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class TokenIdf:
    """The idf of tokens: ``log((N + 1) / (c + 1))`` of a token in ``c`` of ``N`` captions.

    As released with EMScore (``emscore/utils.py``, ``VATEX-EVAL-demo.py``): a token of no caption has
    ``log(N + 1)``, the start token 0, and the end token the mean over all tokens that occur. Padding, id 0,
    is one of these: released code counts it as a token of every caption that does not fill the context.

    Attributes:
        captions: ``N``.
        counts: Token id to the number of captions that it occurs in.
    """

    captions: int
    counts: Mapping[int, int]

    def weights(self, ids: Sequence[int]) -> np.ndarray:
        """Return ``[t]`` the idf of the tokens of a text, of which the last one is its end."""
        weights = [self._idf(token) for token in ids]
        weights[-1] = self._mean
        return np.array(weights)

    @cached_property
    def _mean(self) -> float:
        return sum(map(self._idf, self.counts)) / len(self.counts)

    def _idf(self, token: int) -> float:
        return log((self.captions + 1) / (self.counts.get(token, 0) + 1))


def load_idf(path: Path, max_words: int | None, encoder: Encoder, cache: Cache) -> TokenIdf:
    """Count the tokens of the captions of a file; earlier counts come from the cache.

    Args:
        path: ``.json``: every text of it is a caption, but where a mapping has ``sentences`` (as in ActivityNet
            Captions) those alone; keys of mappings are none. Any other suffix: a caption a line.
        max_words: Longer captions are left out; words are what single spaces separate. None for no limit.
        encoder: Whose tokens.
        cache: Where counts are kept.

    Raises:
        MetricError: The file is not there or not of its format, or has no caption.
    """
    try:
        key = f"sha256:{file_digest(path)} {path.suffix} {max_words}"
    except OSError as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error.strerror or error}") from error
    producer = {"of": "token idf", "encoder": encoder.fingerprint()}
    known = kept(cache, producer, [key], lambda _: [{key: _count(captions_of(path, max_words), encoder)}])[key]
    return TokenIdf(known["captions"], {int(token): count for token, count in known["counts"].items()})


def captions_of(path: Path, max_words: int | None) -> list[str]:
    """Return the captions of a corpus; see :func:`load_idf`."""
    try:
        if path.suffix == ".json":
            texts = _texts(load_json(path))
        else:
            texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except BenchError as error:
        raise MetricError(f"idf corpus {error.message}", error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error}") from error
    if not (captions := [text for text in texts if max_words is None or len(text.split(" ")) <= max_words]):
        raise MetricError(f"idf corpus {path}: has no caption")
    return captions


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value["sentences"] if "sentences" in value else list(value.values())
    return [text for part in value for text in _texts(part)] if isinstance(value, list) else []


def _count(captions: Sequence[str], encoder: Encoder) -> dict[str, Any]:
    counts: Counter[int] = Counter()
    for start in range(0, len(captions), _CAPTIONS_AT_ONCE):
        for ids in encoder.token_ids(captions[start : start + _CAPTIONS_AT_ONCE]):
            seen = set(cut_to(encoder.context_length, ids))
            if len(ids) < encoder.context_length:
                seen.add(_PADDING)
            counts.update(seen)
    return {"captions": len(captions), "counts": {str(token): count for token, count in counts.items()}}


def _defined_of(features: _Found | str, source: str) -> _Found:
    """Return what was found of an input.

    Raises:
        Undefined: It is the reason why there is nothing.
    """
    if isinstance(features, str):
        raise Undefined(f"{source}: {features}")
    return features


def frame_features(videos: Sequence[VideoHandle], context: Context) -> dict[str, np.ndarray | str]:
    """Return by digest ``[frames, d]`` of all frames of videos, regardless of their span, or why there are none.

    They are kept in the cache, unless they are recorded in a file already.

    Raises:
        AdapterError: The encoder failed as a whole.
    """
    encoder = require_encoder(context)
    unique = {video.digest(): video for video in videos}
    decoded = [key for key, video in unique.items() if not is_recorded(video)]
    producer = {"encoder": encoder.fingerprint(), "of": "frames"}
    by_key: dict[str, np.ndarray | str] = {**context.cache.get_arrays(producer, decoded)}
    missing = [key for key in unique if key not in by_key]
    for batch in encoder.frames([unique[key] for key in missing]) if missing else ():
        new = {missing[at]: features for at, features in batch.vectors.items()}
        by_key |= new
        by_key |= {missing[at]: reason for at, reason in batch.failures.items()}
        if lasting := {key: features for key, features in new.items() if key in decoded}:
            context.cache.put_arrays(producer, lasting)
    return by_key


def clip_frames(features: np.ndarray, video: ImageHandle | VideoHandle, count: int | None) -> np.ndarray:
    """Return the unit vectors ``[f, d]`` of the frames of a video's span that are looked at.

    Args:
        features: ``[frames, d]`` of the whole video.
        video: With its span; frame ``time * frames // duration`` stands at a time, as released
            (``ActivityNet-FOIL_demo.py``).
        count: Number of frames, from the first to the last at equal distances (``VATEX-EVAL-demo.py``); None for
            all.

    Raises:
        Undefined: There are none, or too few, or they have no direction.
    """
    where = video.name
    total = len(features)
    if isinstance(video, VideoHandle) and video.span is not None:
        start, end, duration = video.span
        features = features[int(start * total // duration) : int(end * total // duration)]
        where += f" from {start:g} to {end:g} s of {duration:g} s"
    if not len(features):
        raise Undefined(f"video {where}: no frame of {total} lies there")
    if count is not None:
        if len(features) < count:
            raise Undefined(f"video {where}: has {len(features)} frames, fewer than {count}")
        features = features[np.linspace(0, len(features) - 1, count).astype(int)]
    units = _unit(features)
    if not np.isfinite(units).all():
        raise Undefined(f"video {where}: the features of its frames are 0 or not finite")
    return units


def token_features(texts: Sequence[str], idf: TokenIdf | None, context: Context) -> dict[str, Tokens | str]:
    """Return the tokens of texts, or why a text has none.

    Args:
        texts: Unique texts.
        idf: What weighs the tokens; None weighs all the same.
        context: Models.

    Raises:
        AdapterError: The encoder failed as a whole, or has no projected token states.
    """
    encoder = require_encoder(context)
    ids = encoder.token_ids(texts) if idf is not None else None
    tokens: dict[str, Tokens | str] = {}
    for batch in encoder.tokens(texts):
        tokens |= {texts[at]: reason for at, reason in batch.failures.items()}
        for at, states in batch.vectors.items():
            weights = np.ones(len(states))
            if idf is not None and ids is not None:
                weights = idf.weights(cut_to(encoder.context_length, ids[at]))
            tokens[texts[at]] = _tokens(states, weights)
    return tokens


def _tokens(states: np.ndarray, weights: np.ndarray) -> Tokens | str:
    if len(states) != len(weights):
        return f"has {len(weights)} tokens, and the model gave states of {len(states)}"
    vectors = _unit(states)
    if not np.isfinite(vectors).all():
        return "the features of its tokens are 0 or not finite"
    if not weights.sum() > 0:
        return "all its tokens have idf 0: they are in every training caption"
    return Tokens(vectors, weights / weights.sum())


def _unit(vectors: np.ndarray) -> np.ndarray:
    rows = vectors.astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
