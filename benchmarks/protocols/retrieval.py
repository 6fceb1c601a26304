"""``retrieval``: a model finds the captions of images, and the images of captions, among all of them."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import Field

from ...adapters import ImageHandle
from ...batches import grouped
from ...errors import UsageError
from ..inputs.encoding import EncodedItems
from ..inputs.failures import Failure, FailureLog
from ..inputs.items import numbers_of, text_fault
from ..inputs.recorded import RecordedCheck
from ..statistics import Draws
from ..statistics.contract import Statistic, Statistics, UndefinedStatistic, dot
from ..statistics.influence import influence_of_mean
from ..statistics.rated_rows import first_seen
from .checks import no_rows, run_checks
from .choices import compare_credit
from .contract import TEXTS, ComparedRows, PairedEstimates, Protocol, ProtocolSettings, unscored_shard
from .document_reader import Document, UnusableDocument, is_list, read_documents
from .job import Collected, Job, Result, ScoredMetrics, Shard, Summary, estimated_result
from .matching.documents import MatchEntry
from .matching.entry_scoring import encode_pieces, items_of, reason_of

TIE = 1e-6
"""Cosines that differ by less are equal: that of two vectors of norm 1 in float32 is exact to a tenth of it."""
_BLOCK, _STRIP = 4096, 128
"""Images, and captions, of a block of the matrix; images that are compared together, whose counts fit into a byte."""
_CUTOFFS, _DEPTH, MEDIAN = (1, 5, 10), 10, "median_rank"
_VALUES = {**{f"recall_{k}": f"R@{k}" for k in _CUTOFFS}, MEDIAN: "median rank", "map": "mAP", "ndcg_10": "nDCG@10"}
DIRECTIONS = {"image_to_text": "Image to text", "text_to_image": "Text to image"}
_MEASURES = {f"{way}_{name}": (at, name) for at, way in enumerate(DIRECTIONS) for name in _VALUES}
"""Of a measure the number of its direction, and its value."""


class RetrievalSettings(ProtocolSettings):
    """The settings of a retrieval task that affect its numbers."""

    captions: int | None = Field(default=None, ge=1)
    """The number of captions of an image that are used, the first in the data; null for all."""

    meanings: ClassVar = TEXTS["retrieval"]["meanings"]


@dataclass(frozen=True)
class PairRanks:
    """Ranks from 1 of the ``m`` pairs of a caption and its image.

    Attributes:
        of_text: ``[m]`` rank of the caption among all captions, for its image.
        of_image: ``[m]`` rank of the image among all images, for the caption.
        place: ``[m]`` place of the caption among those of its image, from 1.
    """

    of_text: np.ndarray
    of_image: np.ndarray
    place: np.ndarray


def rank_pairs(images: np.ndarray, texts: np.ndarray, image_of_text: np.ndarray) -> PairRanks:
    """Rank captions by their cosine with each image, and images by that with each caption.

    Ties are broken against the model: the images and captions of others whose cosine is at most ``TIE`` below that of
    the pair come before it. Only a block of the matrix is in memory.

    Args:
        images: ``[n, d]`` float32, of norm 1.
        texts: ``[m, d]`` float32, of norm 1.
        image_of_text: ``[m]`` index of the image of each caption.
    """
    count, total = len(images), len(texts)
    own = np.empty(total, dtype=np.float32)
    for start in range(0, total, _BLOCK):
        some = slice(start, start + _BLOCK)
        own[some] = np.einsum("md,md->m", images[image_of_text[some]], texts[some])
    order = np.lexsort((-own, image_of_text))
    sizes = np.bincount(image_of_text, minlength=count)
    place = np.empty(total, dtype=np.int64)
    place[order] = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    least = own - np.float32(TIE)
    least_of_image = np.full((count, int(sizes.max())), np.inf, dtype=np.float32)
    least_of_image[image_of_text, place] = least
    better_texts, better_images = np.zeros(least_of_image.shape, dtype=np.int64), np.zeros(total, dtype=np.int64)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for first in range(0, count, _BLOCK):
            for start in range(0, total, _BLOCK):
                columns = slice(start, start + _BLOCK)
                cosines = images[first : first + _BLOCK] @ texts[columns].T
                row = image_of_text[columns] - first
                inside = np.flatnonzero((row >= 0) & (row < len(cosines)))
                cosines[row[inside], inside] = -np.inf
                strips = range(0, len(cosines), _STRIP)
                of_strips = [
                    least_of_image[first + strip : first + min(strip + _STRIP, len(cosines))] for strip in strips
                ]
                blocks = (cosines[strip : strip + _STRIP] for strip in strips)
                compared = pool.map(partial(_better, least=least[columns]), blocks, of_strips)
                for strip, (of_texts, of_images) in zip(strips, compared, strict=True):
                    better_texts[first + strip : first + strip + len(of_texts)] += of_texts
                    better_images[columns] += of_images
    return PairRanks(place + 1 + better_texts[image_of_text, place], 1 + better_images, place + 1)


def _better(cosines: np.ndarray, least_of_image: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``[r, k]`` how many cosines of a row are not below each of its bounds, and ``[c]`` of a column its bound.

    Args:
        cosines: ``[r, c]``.
        least_of_image: ``[r, k]``.
        least: ``[c]``.
    """
    # Bytes are added, or counted eight at a time, several times as fast as booleans are.
    of_images = (cosines >= least).view(np.uint8).sum(axis=0, dtype=np.uint8)
    of_texts = np.empty(least_of_image.shape, dtype=np.int64)
    whole = cosines.shape[1] // 8 * 8
    for rank, bound in enumerate(least_of_image.T):
        flags = cosines >= bound[:, None]
        eights = np.bitwise_count(np.ascontiguousarray(flags[:, :whole]).view(np.uint64))
        of_texts[:, rank] = eights.sum(axis=1, dtype=np.uint16) + flags[:, whole:].sum(axis=1)
    return of_texts, of_images


def query_values(rank: np.ndarray, place: np.ndarray, query: np.ndarray) -> dict[str, np.ndarray]:
    """Return ``[q]`` the values of queries whose means, or median, are the measures.

    Source: Manning, Raghavan, Schütze, *Introduction to Information Retrieval*, section 8.4, with relevance 0 or 1.

    Args:
        rank: ``[m]`` rank of each right answer, from 1.
        place: ``[m]`` its place among the right answers of its query, from 1.
        query: ``[m]`` its query, from 0; each has one at least.
    """
    sizes = np.bincount(query)
    gain = np.where(rank <= _DEPTH, 1 / np.log2(rank + 1.0), 0.0)
    ideal = np.cumsum(1 / np.log2(np.arange(_DEPTH) + 2.0))[np.minimum(sizes, _DEPTH) - 1]
    first = np.empty(len(sizes))
    first[query[place == 1]] = rank[place == 1]
    return {
        **{f"recall_{k}": (first <= k).astype(np.float64) for k in _CUTOFFS},
        MEDIAN: first,
        "map": np.bincount(query, place / rank) / sizes,
        "ndcg_10": np.bincount(query, gain) / ideal,
    }


@dataclass(frozen=True)
class CaptionedImage(MatchEntry):
    """An image with its captions; ``id`` is that of the first of its documents, ``image`` the image's key."""

    documents: int = 0


class Retrieval(Protocol[RetrievalSettings]):
    """R@1, R@5, R@10, median rank, mAP and nDCG@10 of images that retrieve captions, and captions that retrieve images.

    ``doc_to_captions`` gives the captions of ``doc_to_image``: one or a list. Documents of one image are put together.
    """

    Settings = RetrievalSettings
    reads = ("doc_to_id", "doc_to_image", "doc_to_pixels", "image_folder", "doc_to_captions")
    needs = frozenset({"doc_to_image", "doc_to_captions"})
    lists = frozenset({"doc_to_captions"})
    about = TEXTS["retrieval"]["about"]
    subject = "model"
    needs_encoder = True
    statistic = "mean"
    counted = "queries: images, or captions"
    steps = ("matches",)
    sample = "query"
    comparable = True
    lower_is_better = frozenset({"rank"})
    ranges: ClassVar = {f"{direction}_{MEDIAN}": (1.0, np.inf) for direction in DIRECTIONS}

    @property
    def measures(self) -> tuple[str, ...]:
        """The values of both directions."""
        return tuple(_MEASURES)

    def score_column(self, metric: str) -> str:
        """Return the column of a measure; none for the median, which is no mean of queries."""
        return "" if metric.endswith(MEDIAN) else metric

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return the number of usable documents, and the data checks."""
        images, checks = self._read(job, failures)
        return Summary(sum(image.documents for image in images), data_checks=checks)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Encode all images and captions, and rank them.

        Raises:
            UsageError: The encoder has no vectors.
            DataError: As of ``Protocol.collect``.
        """
        if job.scores_pairs:
            raise UsageError(
                f"task '{job.task.task}' compares every image with every caption; this model has no vectors and would "
                "read each pair",
                "Use a model that encodes images and texts separately ('bench ls models').",
            )
        images, checks = self._read(job, failures)
        gallery = _encoded(job, images, failures)
        ranks = rank_pairs(gallery.image_vectors, gallery.text_vectors, gallery.image_of_text)
        texts = len(gallery.image_of_text)
        scores = (
            query_values(ranks.of_text, ranks.place, gallery.image_of_text),
            query_values(ranks.of_image, np.ones(texts, dtype=np.int64), np.arange(texts)),
        )
        of_captions = [
            (replace(image, id=f"{image.id}|{n}"), (text,))
            for image in gallery.images
            for n, text in enumerate(image.captions)
        ]
        queries = ([(image, image.captions) for image in gallery.images], of_captions)
        for direction, (own, values) in enumerate(zip(queries, scores, strict=True)):
            for start in range(0, len(own), job.shard):
                some = slice(start, start + job.shard)
                yield _shard(own[some], {name: column[some] for name, column in values.items()}, direction)
        return Summary(
            sum(image.documents for image in gallery.images),
            data_checks=checks,
            cut={"retrieval": (texts, gallery.cut, gallery.same)},
            remarks=gallery.remarks,
        )

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the values of each direction, with bootstrap intervals over images."""
        numbers = collected.numbers
        images, results = first_seen(numbers["image"]), list[Result]()
        for metric, (direction, name) in _MEASURES.items():
            rows = numbers["direction"] == direction
            values, is_median = numbers[name][rows], name == MEDIAN
            statistic, scale = ("median", 1.0) if is_median else ("mean", job.task.scale)
            label = (f"{list(DIRECTIONS.values())[direction]}: {_VALUES[name]}", statistic)
            result = Result(metric, statistic, label, None, len(values), not is_median, scale)
            value = partial(_median if is_median else _mean, values)
            influence = None if is_median else partial(influence_of_mean, values, np.ones(len(values)))
            results.append(estimated_result(job, result, (value, influence), images[rows], is_share=not is_median))
        return results

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the means of a measure over the queries of its direction."""
        return compare_credit(rows, draws)

    def _read(self, job: Job, failures: FailureLog) -> tuple[list[CaptionedImage], list[RecordedCheck]]:
        """Return the images with the captions that are used, and the data checks."""
        images: dict[str, CaptionedImage] = {}
        for document, captions in read_documents(job, self.document_keys, _captions, failures):
            if captions:
                pixels = document.pixels
                assert isinstance(pixels, ImageHandle)  # noqa: S101 - _captions has seen it
                image = images.get(document.image) or CaptionedImage(document.id, document.image, pixels, (), ())
                together = (*image.captions, *captions)[: self.settings.captions]
                images[document.image] = replace(image, captions=together, documents=image.documents + 1)
        if not images:
            raise no_rows(job, "no image can be retrieved", failures)
        rows = sum(len(image.captions) for image in images.values())
        checks = run_checks(job, rows=rows, images=len(images))
        return list(images.values()), checks


def _captions(document: Document) -> Iterator[str]:
    """Yield the captions of a document.

    Raises:
        UnusableDocument: It has none, one that is no text, or no image.
    """
    captions = document["doc_to_captions"]
    captions = captions if is_list(captions) else [captions]
    if not captions:
        raise UnusableDocument("candidate", "has no caption")
    for caption in captions:
        if fault := text_fault(caption):
            raise UnusableDocument("candidate", fault)
    if not isinstance(document.pixels, ImageHandle):
        raise UnusableDocument("image", f"is no image of this machine: {document['doc_to_image']!r:.80}")
    yield from captions


@dataclass(frozen=True)
class Gallery:
    """The ``n`` images and ``m`` captions that compete.

    Attributes:
        images: The images, in order.
        image_vectors: ``[n, d]`` float32.
        text_vectors: ``[m, d]`` float32, image by image.
        image_of_text: ``[m]``.
        cut: Number of captions that are cut to the encoder's context.
        same: Number of captions that equal one of another image only after that.
        remarks: Remarks on how images were read.
    """

    images: list[CaptionedImage]
    image_vectors: np.ndarray
    text_vectors: np.ndarray
    image_of_text: np.ndarray
    cut: int
    same: int
    remarks: list[Failure]


def _encoded(job: Job, images: Sequence[CaptionedImage], failures: FailureLog) -> Gallery:
    """Return the images and captions with vectors; an image of which a part has none is excluded."""
    kept, remarks, cut, done = list[CaptionedImage](), list[Failure](), 0, 0
    pictures, texts, seen = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    report = job.progress("matches")
    pieces = grouped(images, lambda image: len(image.captions), job.shard)
    for piece, encoded in encode_pieces(job, pieces, lambda some: items_of((image, image.captions) for image in some)):
        assert isinstance(encoded, EncodedItems)  # noqa: S101 - the encoder has vectors
        sizes = np.array([len(image.captions) for image in piece])
        of_text = np.repeat(np.arange(len(piece)), sizes)
        faults = {of_text[number]: ("candidate", reason) for number, reason in encoded.texts.failures.items()}
        faults |= {number: ("image", reason) for number, reason in encoded.images.failures.items()}
        for number, image in enumerate(piece):
            if number in faults:
                stage, reason = faults[number]
                failures.add(image.id, stage, reason_of(reason))
            else:
                kept.append(image)
                if number in encoded.images.remarks:
                    remarks.append(Failure(image.id, "image", encoded.images.remarks[number]))
        done += len(piece)
        report(done, len(images))
        usable = np.array([number not in faults for number in range(len(piece))])
        if not usable.any():
            continue
        pictures.append(encoded.images.vectors[encoded.images.rows[usable]])
        texts.append(encoded.texts.vectors[encoded.texts.rows[usable[of_text]]])
        seen.append(encoded.seen[usable[of_text]])
        cut += int(encoded.cut[usable[of_text]].sum())
    if not kept:
        raise no_rows(job, "no image can be encoded", failures)
    image_of_text = np.repeat(np.arange(len(kept)), [len(image.captions) for image in kept])
    same = _same_once_cut([text for image in kept for text in image.captions], np.concatenate(seen), image_of_text)
    return Gallery(kept, np.concatenate(pictures), np.concatenate(texts), image_of_text, cut, same, remarks)


def _same_once_cut(texts: Sequence[str], seen: np.ndarray, image_of_text: np.ndarray) -> int:
    """Return the number of captions that differ from one of another image only behind the encoder's context."""
    alike: dict[int, list[int]] = {}
    for at in np.flatnonzero(seen).tolist():
        alike.setdefault(int(seen[at]), []).append(at)
    return sum(
        any(texts[at] != texts[other] and image_of_text[at] != image_of_text[other] for other in group)
        for group in alike.values()
        for at in group
    )


def _shard(
    queries: Sequence[tuple[CaptionedImage, tuple[str, ...]]], values: Mapping[str, np.ndarray], direction: int
) -> Shard:
    """Return queries of one direction: images with all of their captions, or captions with their image."""
    names = [image.image for image, _ in queries]
    columns = {
        metric: values[name].tolist() if own == direction else [None] * len(queries)
        for metric, (own, name) in _MEASURES.items()
        if name != MEDIAN
    }
    return unscored_shard(
        {
            "id": [image.id for image, _ in queries],
            "image": names,
            "candidates": [list(captions) for _, captions in queries],
            "direction": [list(DIRECTIONS)[direction]] * len(queries),
            "rank": values[MEDIAN].tolist(),
            **columns,
        },
        {"image": numbers_of(names), "direction": np.full(len(queries), direction), **values},
        [[name, captions] for name, (_, captions) in zip(names, queries, strict=True)],
    )


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    if not (total := float(weights.sum())):
        raise UndefinedStatistic("no query is drawn")
    return dot(values, weights) / total


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the median of values that occur as often as they weigh; of two middle ones their mean."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    if not ends[-1]:
        raise UndefinedStatistic("no query is drawn")
    half = float(ends[-1]) / 2
    return float(values[order[[int((ends < half).sum()), int((ends <= half).sum())]]].mean())
