"""``matching``: a model finds the captions of images, or tells them from false ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ...inputs.failures import Failure, FailureLog
from ...statistics.contract import Statistic
from ...statistics.rated_rows import first_seen
from ..checks import DataCheck, no_rows, run_checks
from ..contract import Protocol, unscored_shard
from ..job import CHANCE, Collected, Job, Result, ScoredMetric, Shard, Summary, estimated_result, numbers_of
from .category_means import CategoryMeans
from .documents import SHAPE_KEYS, MatchEntry, MatchingData, MatchingSettings, read_matched, shape_of
from .entry_scoring import EntryScorer, ScoredEntry, cut_to_one, groups_of
from .image_text_hits import match_captions, match_square, prefer_captions, table_of
from .text_alone import RULES, TextAlone

_CUT_TO_ONE = "a caption and a text that competes with it are the same once both are cut"
_LABELS = {"scm": "SCM", "neg": "Neg", "text": "Text", "image": "Image", "group": "Group"}
_TERMS = {
    "SCM": "subcrop-caption matching, how often a part of an image finds its own captions among those of other parts",
    "Neg": "how often an image is nearer to its true caption than to the false ones",
    "Text": "of two images with a caption each, how often both images find their own caption",
    "Image": "of the same, how often both captions find their own image",
    "Group": "of the same, how often both do",
}
_SQUARE = ("text", "image", "group")
_CHANCE_OF_SQUARE = (1 / 4, 1 / 4, 1 / 6)
"""Of the orders of four cosines without ties, those in which a square is right."""


@dataclass(frozen=True)
class _MatchRow:
    """What became of an entry or a square.

    Attributes:
        entries: What it is made of, of one document.
        credit: What it counts, by measure.
        columns: What is written of it.
        cut_to_one: The entries of which a caption is the same as a text that competes with it, once both are cut.
    """

    entries: tuple[MatchEntry, ...]
    credit: tuple[float, ...]
    columns: Mapping[str, Any]
    cut_to_one: tuple[str, ...] = ()


class Matching(Protocol[MatchingSettings]):
    """Share of entries whose image finds its captions, or prefers them to negatives.

    ``doc_to_captions`` and ``doc_to_negatives`` give the true and the false captions of ``doc_to_image``, or of its
    part in ``doc_to_box``. ``doc_to_entries`` gives several such parts of an image: a list of mappings with
    ``captions`` and ``negatives`` (lists of texts), ``box`` (left, top, right, bottom in pixels; null for the whole
    image) and ``key`` (its name). ``doc_to_images`` and ``doc_to_captions`` give two images with two captions.
    """

    Settings = MatchingSettings
    reads = (
        "doc_to_id", "doc_to_image", "doc_to_images", "image_folder", "doc_to_box", "doc_to_captions",
        "doc_to_negatives", "doc_to_entries", "doc_to_category",
    )  # fmt: skip
    lists = frozenset({"doc_to_images", "doc_to_captions", "doc_to_negatives", "doc_to_category"})
    about = (
        "Every entry is an image or a crop of one, with captions and negatives; similarity is the cosine of the "
        "model's features, in float32, or the score of a model that looks at image and text together. An image of "
        "which a crop cannot be read is left out with all of its entries. "
        "Accuracy is the share of entries that are right; its interval draws images with the hits of their entries, "
        "and does not group anew. Texts longer than the model takes are cut, and counted in run.json; so are "
        "choices whose texts are the same then. Beside it "
        "stands what is reached without the image."
    )
    subject = "model"
    needs_encoder = True
    statistic = "accuracy"
    category_key = "doc_to_category"
    terms = _TERMS
    counted = "entries: images, or parts of them, with their captions"
    steps = ("matches",)
    sample = "entry"

    @property
    def measures(self) -> tuple[str, ...]:
        """The measure that the task chose; of a square there are three."""
        return _SQUARE if self.settings.measure == "square" else (self.settings.measure,)

    def needed(self, given: Set[str]) -> Set[str]:
        """Return the keys of the shape that the documents have."""
        return shape_of(given, self.settings) - {"doc_to_box"}

    def unread(self, given: Set[str]) -> Set[str]:
        """Return the keys of other shapes."""
        return given & SHAPE_KEYS - shape_of(given, self.settings)

    def read(self, job: Job, failures: FailureLog) -> tuple[int, list[DataCheck]]:
        """Return how many documents are matched, and the data checks."""
        matched, checks = self._read(job, failures)
        return len({entry.image for entry in matched.entries}), checks

    def collect(self, job: Job, failures: FailureLog) -> Generator[Shard, None, Summary]:
        """Read entries, have them encoded a shard at a time, and match them."""
        matched, checks = self._read(job, failures)
        scorer = EntryScorer(job, self.settings, failures, len(matched.entries))
        rows = _matched(scorer.scored(matched.entries), self.settings)
        alone = None
        if self.settings.measure == "neg":
            alone = TextAlone(matched.entries, matched.image_names, self.settings.ties)
        categories: dict[str, int] = {}
        documents: set[str] = set()
        cut_to_one: list[str] = []
        while some := list(islice(rows, job.shard)):
            documents.update(row.entries[0].image for row in some)
            cut_to_one += [name for row in some for name in row.cut_to_one]
            yield _shard(some, matched, categories, alone)
        if not documents:
            raise no_rows(job, "no image can be matched", failures)
        return Summary(
            len(documents),
            data_checks=checks,
            cut=dict.fromkeys(self.measures, (scorer.texts, scorer.cut)),
            identical=dict.fromkeys(self.measures, len(cut_to_one)),
            remarks=[*scorer.remarks, *(Failure(name, "candidate", _CUT_TO_ONE) for name in cut_to_one)],
            categories=list(categories),
        )

    def results(
        self, job: Job, collected: Collected, scored: Sequence[ScoredMetric], statistics: Mapping[str, Statistic]
    ) -> list[Result]:
        """Return the accuracy by category, then that of all, with intervals over images.

        Blocks are not formed anew on a resample: what is drawn are images with the hits of their entries.
        """
        settings, numbers = self.settings, collected.numbers
        means = CategoryMeans(
            collected.summary.categories,
            numbers["category"],
            average_over=settings.average_over,
            least=settings.least_in_category,
            left_out=settings.left_out_categories,
            decimals=settings.round_categories,
        )
        named = means.names(settings.category_levels)
        parts = [(name, *means.below(name)) for name in named]
        parts.append(("", np.ones(collected.rows, dtype=bool), means))
        return [
            self._result(job, collected, place, category, mask, of_part)
            for place in range(len(self.measures))
            for category, mask, of_part in parts
        ]

    def _result(
        self, job: Job, collected: Collected, place: int, category: str, rows: np.ndarray, means: CategoryMeans
    ) -> Result:
        credit, measure = collected.numbers["credit"][rows, place], self.measures[place]
        result = estimated_result(
            job,
            measure,
            self.statistic,
            (_LABELS[measure], f"{self.statistic} {category}".rstrip()),
            lambda weights: means.value(credit, weights),
            first_seen(collected.numbers["image"][rows]),
            lambda: means.influence(credit),
            n=means.rows,
            category=category,
        )
        alone: dict[str, float] = {}
        if result.value is not None and measure == "neg":
            of_rule, ones = collected.numbers["alone"][rows], np.ones(len(credit))
            alone = {rule: means.value(of_rule[:, at], ones) for at, rule in enumerate(RULES)}
        elif measure in _SQUARE:
            # Who sees no image finds the same caption for both, and both images equal.
            alone = {CHANCE: _CHANCE_OF_SQUARE[place], "texts": 0.0}
        return replace(result, alone=alone)

    def _read(self, job: Job, failures: FailureLog) -> tuple[MatchingData, list[DataCheck]]:
        """Return what is matched, and the data checks."""
        matched = read_matched(job, self.settings, self.document_keys, failures)
        if not matched.entries:
            raise no_rows(job, "no image can be matched", failures)
        documents = {entry.image for entry in matched.entries}
        rows = documents if self.settings.measure == "square" else [one.image for one in matched.entries]
        checks = run_checks(
            job,
            categories=Counter(matched.categories[one] for one in rows),
            documents=len(job.documents.rows),
            rows=len(rows),
            items=len({entry.pixels for entry in matched.entries}),
            images=len({matched.image_names[one] for one in documents}),
        )
        return matched, checks


def _shard(
    rows: Sequence[_MatchRow], matched: MatchingData, categories: dict[str, int], alone: TextAlone | None
) -> Shard:
    """Return rows with what became of them, and number the categories that are new."""
    documents = [row.entries[0].image for row in rows]
    names = [matched.categories[one] for one in documents]
    images = [matched.image_names[one] for one in documents]
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
            [image, one.pixels.box, one.captions, one.negatives, *([name] if name else [])]
            for row, image, name in zip(rows, images, names, strict=True)
            for one in row.entries
        ],
    )


def _matched(entries: Iterator[ScoredEntry], settings: MatchingSettings) -> Iterator[_MatchRow]:
    """Yield what became of each entry or square, in order, a group at a time."""
    for group in groups_of(entries, settings, lambda held: held.entry):
        if settings.measure == "square":
            yield _square(*group, settings=settings)
            continue
        likenesses = [held.likeness for held in group]
        if settings.measure == "neg":
            hits = [prefer_captions(likenesses[0], settings.ties)]
        else:
            hits = match_captions(table_of(likenesses))
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
                },
                (entry.id,) if same else (),
            )


def _square(first: ScoredEntry, second: ScoredEntry, *, settings: MatchingSettings) -> _MatchRow:
    """Return what became of two images and two captions."""
    found = match_square(first.likeness, second.likeness, settings.ties)
    image = first.entry.image
    return _MatchRow(
        (first.entry, second.entry),
        (found.text, found.image, found.group),
        {
            "id": image,
            "candidates": [first.entry.captions[0], second.entry.captions[0]],
            **{f"{name}_hit": getattr(found, name) for name in _SQUARE},
            "cosines": found.cosines.ravel().tolist(),
        },
        (image,) if any(cut_to_one([first, second])) else (),
    )
