"""``matching``: a model retrieves the captions of images, or distinguishes them from false ones."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, Self

import numpy as np

from ...inputs.failures import Failure, FailureLog
from ...inputs.items import numbers_of
from ...inputs.recorded import RecordedCheck
from ...statistics import Draws
from ...statistics.contract import Statistic, Statistics, UndefinedStatistic
from ...statistics.paired import paired_values
from ...statistics.rated_rows import first_seen
from ..checks import no_rows, run_checks
from ..choices import compare_credit
from ..contract import TEXTS, ComparedRows, PairedEstimates, Protocol, unscored_shard
from ..job import CHANCE, Collected, Job, Result, ScoredMetrics, Shard, Summary, estimated_result
from .documents import SHAPE_KEYS, MatchEntry, MatchingSettings, read_matched, shape_of
from .entry_scoring import EntryScorer, ScoredEntry, cut_to_one, groups_of
from .image_text_hits import Ties, match_captions, match_square, prefer_captions, preferred, table_of

_CUT_TO_ONE = "a caption and a text that competes with it are the same once both are cut"
_LABELS = {"scm": "SCM", "neg": "Neg", "texts": "Texts", "text": "Text", "image": "Image", "group": "Group"}
RULES = (CHANCE, "shorter", "longer", "words")
"""Image-blind baselines. ``chance``: a random choice. ``shorter``, ``longer``: the caption with the fewest or most
characters. ``words``: the caption whose words and word pairs occur more often in true than in false captions of other
images, on average over its words; independent of its length."""
_WORD = re.compile(r"\w+")
_SQUARE = ("text", "image", "group")
_CHANCE_OF_SQUARE = (1 / 4, 1 / 4, 1 / 6)
"""The share of orders of four cosines without ties in which a square is right."""


@dataclass(frozen=True)
class _MatchRow:
    """The result of an entry or a square.

    Attributes:
        entries: Its entries, of one document.
        credit: Its credit, by measure.
        columns: Its columns in the samples.
        cut_to_one: The entries with a caption that equals a competing text after truncation.
    """

    entries: tuple[MatchEntry, ...]
    credit: tuple[float, ...]
    columns: Mapping[str, Any]
    cut_to_one: tuple[str, ...] = ()


class Matching(Protocol[MatchingSettings]):
    """Share of entries whose image retrieves its captions, or prefers them to negatives.

    ``doc_to_captions`` and ``doc_to_negatives`` give the true and the false captions of ``doc_to_image``, or of its
    part in ``doc_to_box``. ``doc_to_entries`` gives several such parts of an image: a list of mappings with
    ``captions`` and ``negatives`` (lists of texts), ``box`` (left, top, right, bottom in pixels; null for the whole
    image) and ``key`` (its name). ``doc_to_images`` and ``doc_to_captions`` give two images with two captions; with
    measure ``texts`` there are captions and negatives alone.
    """

    Settings = MatchingSettings
    reads = (
        "doc_to_id", "doc_to_image", "doc_to_images", "image_folder", "doc_to_box", "doc_to_captions",
        "doc_to_negatives", "doc_to_entries", "doc_to_category",
    )  # fmt: skip
    lists = frozenset({"doc_to_images", "doc_to_captions", "doc_to_negatives", "doc_to_category"})
    about = TEXTS["matching"]["about"]
    subject = "model"
    lower_is_better = frozenset({"rival"})
    needs_encoder = True
    statistic = "accuracy"
    category_key = "doc_to_category"
    terms = TEXTS["matching"]["terms"]
    counted = "entries: images, or parts of them, with their captions"
    steps = ("matches",)
    sample = "entry"
    comparable = True

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of the task: three for squares, else one."""
        return _SQUARE if self.settings.measure == "square" else (self.settings.measure,)

    def score_column(self, metric: str) -> str:
        """Return the column with the hits of a measure."""
        return f"{metric}_hit" if metric in _SQUARE else "hit"

    def needed(self, keys: Set[str]) -> Set[str]:
        """Return the keys of the documents' shape."""
        return shape_of(keys, self.settings) - {"doc_to_box"}

    def unread(self, keys: Set[str]) -> Set[str]:
        """Return the keys of other shapes."""
        return keys & SHAPE_KEYS - shape_of(keys, self.settings)

    def read(self, job: Job, failures: FailureLog) -> Summary:
        """Return the number of matched documents, and the data checks."""
        entries, checks = self._read(job, failures)
        return Summary(len({entry.image for entry in entries}), data_checks=checks)

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read entries, encode them a shard at a time, and match them."""
        entries, checks = self._read(job, failures)
        scorer = EntryScorer(job, self.settings, failures, len(entries))
        rows = _matched(scorer.scored(entries), self.settings)
        alone = TextAlone(entries, self.settings.ties) if self.settings.measure == "neg" else None
        categories: dict[str, int] = {}
        documents: set[str] = set()
        cut_to_one: list[str] = []
        while some := list(islice(rows, job.shard)):
            documents.update(row.entries[0].image for row in some)
            cut_to_one += [name for row in some for name in row.cut_to_one]
            yield _shard(some, categories, alone)
        if not documents:
            raise no_rows(job, "no image can be matched", failures)
        return Summary(
            len(documents),
            data_checks=checks,
            cut=dict.fromkeys(self.measures, (scorer.texts, scorer.cut, len(cut_to_one))),
            remarks=[*scorer.remarks, *(Failure(name, "candidate", _CUT_TO_ONE) for name in cut_to_one)],
            categories=list(categories),
        )

    def results(self, job: Job, collected: Collected, scored: ScoredMetrics, statistics: Statistics) -> list[Result]:
        """Return the accuracy by category, then overall, with bootstrap intervals over images.

        The bootstrap resamples images with the hits of their entries; blocks stay as they are.
        """
        settings, numbers = self.settings, collected.numbers
        means = CategoryMeans(collected.summary.categories, numbers["category"], settings)
        named = means.names(settings.category_levels)
        parts = [(name, *means.below(name)) for name in named]
        parts.append(("", np.ones(collected.rows, dtype=bool), means))
        return [
            self._result(job, collected, place, category, mask, of_part)
            for place in range(len(self.measures))
            for category, mask, of_part in parts
        ]

    def compare(self, rows: ComparedRows, statistic: Statistic | None, draws: Draws) -> PairedEstimates:
        """Return the accuracies of models on the same entries, with McNemar's test where there are no categories."""
        if not rows.categories:
            return compare_credit(rows, draws)
        names = list(dict.fromkeys(rows.categories))
        means = CategoryMeans(names, first_seen(rows.categories), self.settings)
        accuracies = {
            name: (partial(means.value, credit), partial(means.influence, credit))
            for name, credit in rows.scores.items()
        }
        groups = first_seen(rows.images)
        return PairedEstimates(
            paired_values(accuracies, groups, draws), means.rows, int(groups.max()) + 1, is_share=True
        )

    def _result(
        self, job: Job, collected: Collected, place: int, category: str, rows: np.ndarray, means: CategoryMeans
    ) -> Result:
        credit, measure = collected.numbers["credit"][rows, place], self.measures[place]
        label, images = (_LABELS[measure], f"{self.statistic} {category}".rstrip()), collected.numbers["image"][rows]
        estimate = partial(means.value, credit), partial(means.influence, credit)
        result = Result(measure, self.statistic, label, None, means.rows, True, job.task.scale, category=category)
        result = estimated_result(job, result, estimate, first_seen(images))
        alone: dict[str, float] = {}
        if result.value is not None and measure == "neg":
            of_rule, ones = collected.numbers["alone"][rows], np.ones(len(credit))
            alone = {rule: means.value(of_rule[:, at], ones) for at, rule in enumerate(RULES)}
        elif measure in _SQUARE:
            # Without the images both have the same caption, and captions do not prefer an image.
            alone = {CHANCE: _CHANCE_OF_SQUARE[place], "texts": 0.0}
        return replace(result, alone=alone)

    def _read(self, job: Job, failures: FailureLog) -> tuple[list[MatchEntry], list[RecordedCheck]]:
        """Return the matched entries, and the data checks."""
        entries = read_matched(job, self.settings, self.document_keys, failures)
        if not entries:
            raise no_rows(job, "no image can be matched", failures)
        # The two entries of a square are neighbours.
        rows = entries[::2] if self.settings.measure == "square" else entries
        checks = run_checks(
            job,
            categories=Counter(row.category for row in rows),
            rows=len(rows),
            items=len({entry.pixels for entry in entries}),
            images=len({entry.image_name for entry in entries}),
        )
        return entries, checks


def _shard(rows: Sequence[_MatchRow], categories: dict[str, int], alone: TextAlone | None) -> Shard:
    """Return rows with their results, and number new categories."""
    names, images = [row.entries[0].category for row in rows], [row.entries[0].image_name for row in rows]
    for name in names:
        categories.setdefault(name, len(categories))
    numbers = {
        "credit": np.array([row.credit for row in rows], dtype=np.float64),
        "image": numbers_of(images),
        "category": np.array([categories[name] for name in names]),
    }
    if alone is not None:
        numbers["alone"] = np.array([alone.credit(row.entries[0]) for row in rows])
    columns = {name: [row.columns[name] for row in rows] for name in rows[0].columns}
    return unscored_shard(
        {"id": columns.pop("id"), "image": images, **({"category": names} if any(names) else {}), **columns},
        numbers,
        [
            [image, entry.pixels and entry.pixels.box, entry.captions, entry.negatives, *([name] if name else [])]
            for row, image, name in zip(rows, images, names, strict=True)
            for entry in row.entries
        ],
    )


def _matched(entries: Iterator[ScoredEntry], settings: MatchingSettings) -> Iterator[_MatchRow]:
    """Yield the result of each entry or square, in order, a group at a time."""
    for group in groups_of(entries, settings):
        if settings.measure == "square":
            yield _square(*group, settings=settings)
            continue
        likenesses = [held.likeness for held in group]
        if settings.measure in ("neg", "texts"):
            hits, texts = [prefer_captions(likenesses[0], settings.ties)], group[0].entry.negatives
        else:
            hits = match_captions(table_of(likenesses))
            texts = [caption for held in group for caption in held.entry.captions]
        for held, hit, same in zip(group, hits, cut_to_one(group), strict=True):
            entry = held.entry
            yield _MatchRow(
                (entry,),
                (hit.hit,),
                {
                    "id": entry.id,
                    "candidates": list(entry.captions),
                    "negatives": list(entry.negatives),
                    "hit": hit.hit,
                    "own": hit.own,
                    "rival": hit.rival,
                    # Of texts alone each caption has all negatives.
                    "rival_caption": None if hit.nearest is None else texts[hit.nearest % len(texts)],
                },
                (entry.id,) if same else (),
            )


def _square(first: ScoredEntry, second: ScoredEntry, *, settings: MatchingSettings) -> _MatchRow:
    """Return the result of two images and two captions."""
    hits, cosines = match_square(first.likeness, second.likeness, settings.ties)
    image = first.entry.image
    return _MatchRow(
        (first.entry, second.entry),
        hits,
        {
            "id": image,
            "candidates": [first.entry.captions[0], second.entry.captions[0]],
            **{f"{name}_hit": hit for name, hit in zip(_SQUARE, hits, strict=True)},
            "cosines": cosines.ravel().tolist(),
        },
        (image,) if any(cut_to_one([first, second])) else (),
    )


class TextAlone:
    """Computes the credit of image-blind baselines for entries with negatives.

    Args:
        entries: All entries; ``words`` of an entry uses those of other images.
        ties: The credit where captions and negatives are equal.
    """

    def __init__(self, entries: Sequence[MatchEntry], ties: Ties) -> None:
        self._ties: Ties = ties
        self._true, self._false = Counter[str](), Counter[str]()
        self._of_image: dict[str, list[MatchEntry]] = {}
        self._last: tuple[str, Counter[str], Counter[str]] | None = None
        for entry in entries:
            self._of_image.setdefault(entry.image_name, []).append(entry)
            self._true.update(_marks(entry.captions))
            self._false.update(_marks(entry.negatives))

    def credit(self, entry: MatchEntry) -> tuple[float, ...]:
        """Return the credit of an entry for each of ``RULES``."""
        own, rivals = len(entry.captions), len(entry.negatives)
        lengths = np.array([len(text) for text in entry.texts], dtype=np.float64)
        plausible = self._plausible(entry)
        return (
            1 / math.comb(own + rivals, own),
            *(preferred(scores[:own], scores[own:], self._ties) for scores in (-lengths, lengths, plausible)),
        )

    def _plausible(self, entry: MatchEntry) -> np.ndarray:
        """Return ``[texts]`` the mean log ratio of a text's marks in true to false captions of other images."""
        true, false = self._marks_of(entry.image_name)

        def rate(mark: str) -> float:
            # Add-one smoothing: a mark that occurs only here has log ratio 0.
            return math.log((self._true[mark] - true[mark] + 1) / (self._false[mark] - false[mark] + 1))

        rates = [[rate(mark) for mark in _marks([text])] for text in entry.texts]
        # Exact sums: the same words in another order tie.
        return np.array([math.fsum(rate) / len(rate) for rate in rates])

    def _marks_of(self, image: str) -> tuple[Counter[str], Counter[str]]:
        """Return the counts of each mark in the true and in the false captions of an image."""
        if self._last is None or self._last[0] != image:
            true, false = Counter[str](), Counter[str]()
            for entry in self._of_image[image]:
                true.update(_marks(entry.captions))
                false.update(_marks(entry.negatives))
            self._last = image, true, false
        return self._last[1:]


def _marks(texts: Sequence[str]) -> Iterator[str]:
    """Yield the words and word pairs of texts; a boundary of the text counts as a neighbour."""
    for text in texts:
        words = _WORD.findall(text.lower())
        yield from words
        yield from (" ".join(pair) for pair in pairwise(["", *words, ""]))


class CategoryMeans:
    """The means of categories, and their unweighted means, level by level.

    Categories of a level have equal weights. A category without rows in a resample is excluded from its means.

    Args:
        names: The categories, with levels separated by ``/``.
        of_row: ``[n]`` index of the category of each row.
        settings: Those of the task, which exclude and round categories.
    """

    def __init__(self, names: Sequence[str], of_row: np.ndarray, settings: MatchingSettings) -> None:
        self._names, self._all_rows, self._settings = names, of_row, settings
        sizes = np.bincount(of_row, minlength=len(names))
        kept = np.flatnonzero((sizes >= settings.least_in_category) & ~np.isin(names, settings.left_out_categories))
        place = np.full(len(names), -1)
        place[kept] = np.arange(len(kept))
        self._used = place[of_row] >= 0
        self._paths = [tuple(names[number].split("/")) for number in kept.tolist()]
        self._leaf = place[of_row]
        self._parents = _parents(self._paths)
        if settings.average_over == "entries":
            self._leaf, self._parents = np.where(self._used, 0, -1), [np.zeros(1, dtype=np.int64)]

    @property
    def rows(self) -> int:
        """The number of rows in the mean."""
        return int(self._used.sum())

    def names(self, levels: int) -> list[str]:
        """Return the categories of the first levels, parents before their children, in the order of the rows."""
        if len(set(self._paths)) < 2:
            return []
        paths = dict.fromkeys(
            "/".join(path[:level]) for path in self._paths for level in range(1, min(levels, len(path)) + 1)
        )
        rank = {name: number for number, name in enumerate(paths)}

        def place(name: str) -> list[int]:
            parts = name.split("/")
            return [rank["/".join(parts[:end])] for end in range(1, len(parts) + 1)]

        return sorted(paths, key=place)

    def below(self, name: str) -> tuple[np.ndarray, Self]:
        """Return the mask of rows ``[n]`` of a category, and the means of only these.

        Args:
            name: A category of any level.
        """
        inside = np.array([path == name or path.startswith(f"{name}/") for path in self._names])
        mask = inside[self._all_rows] & self._used
        numbers = np.flatnonzero(inside)
        renumbered = np.zeros(len(self._names), dtype=np.int64)
        renumbered[numbers] = np.arange(len(numbers))
        rest = [self._names[number].removeprefix(name).removeprefix("/") for number in numbers.tolist()]
        # Rows of excluded categories are not in the mask; names below may equal theirs.
        settings = self._settings.model_copy(update={"left_out_categories": ()})
        return mask, type(self)(rest, renumbered[self._all_rows[mask]], settings)

    def value(self, credit: np.ndarray, weights: np.ndarray) -> float:
        """Return the mean.

        Args:
            credit: ``[n]`` credit of each row.
            weights: ``[n]`` weight of each row.

        Raises:
            UndefinedStatistic: No row counts.
        """
        means, _ = self._leaves(credit, weights)
        for parent in self._parents:
            there = np.isfinite(means)
            count = int(parent.max()) + 1 if len(parent) else 0
            sums = np.bincount(parent[there], means[there], minlength=count)
            means = _ratio(sums, np.bincount(parent[there], minlength=count))
        if not len(means) or not np.isfinite(means[0]):
            least = self._settings.least_in_category
            raise UndefinedStatistic("no entry is drawn" if self.rows else f"no category has {least} entries")
        return float(means[0])

    def influence(self, credit: np.ndarray) -> np.ndarray:
        """Return ``[n]`` the influence of each row on the mean, without rounding."""
        means, sizes = self._leaves(credit, np.ones(len(credit)))
        share = np.ones(1)
        for parent in reversed(self._parents):
            share = (share / np.bincount(parent))[parent]
        of_row = share[self._leaf] * (credit - means[self._leaf]) / sizes[self._leaf]
        return np.where(self._used, of_row, 0.0)

    def _leaves(self, credit: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of each category, NaN where it has none, and its number of rows."""
        used, count = self._used, len(self._parents[0])
        sizes = np.bincount(self._leaf[used], weights[used], minlength=count)
        sums = np.bincount(self._leaf[used], (weights * credit)[used], minlength=count)
        means = _ratio(sums, sizes)
        decimals = self._settings.round_categories
        return (means if decimals is None else np.round(means, decimals)), sizes


def _parents(paths: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
    """Return for each level, from the lowest up, the index of each category's parent; the top has one."""
    parents: list[np.ndarray] = []
    level: list[tuple[str, ...]] = list(paths)
    for depth in range(max(map(len, paths), default=1) - 1, -1, -1):
        above = list(dict.fromkeys(path[:depth] for path in level))
        parents.append(np.array([above.index(path[:depth]) for path in level], dtype=np.int64))
        level = above
    return parents


def _ratio(sums: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return means of groups, NaN for an empty one."""
    return np.divide(sums, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
