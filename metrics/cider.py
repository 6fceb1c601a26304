"""CIDEr: agreement with the references in tf-idf weighted n-grams."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..adapters.images.file_digests import file_digest
from ..errors import DataError, MetricError
from ..rows import BadRow, load_json, read_rows
from .contract import Context, CorpusMetric, State, check_state, require_choice
from .items import Items, Scores
from .words import ptb
from .words.ngrams import MAX_ORDER, Chunk, NGramCounts, NGrams, concat_ranges, names_of, ngrams_of, text_hash
from .words.tokenizers import PTB

SIGMA = 6.0
SCALE = 10.0

_ONE_IMAGE = (
    "CIDEr weighs an n-gram by how few images have it in their references; with the references "
    "of a single image every weight is 0, and so is every score.",
    "Score at least two images together, or use another metric.",
)
_COUNTED = frozenset({"ngrams", "frequencies", "rows", "sets"})
_JOINED = _COUNTED - {"sets"}
_NO_ROW: State = {
    "ngrams": np.zeros(0, np.uint64),
    "frequencies": np.zeros(0, np.int64),
    "rows": np.zeros(1, np.int64),
    "sets": np.array([2**64 - 1, 0], np.uint64),
}


class WeightedNGram(NamedTuple):
    """An n-gram of a candidate or of one of its references.

    Attributes:
        words: Its words.
        candidate: Its tf-idf weight in the candidate.
        reference: That in the reference.
        added: What it adds to the similarity of the two, 0 to 10.
    """

    words: str
    candidate: float
    reference: float
    added: float


class Cider(ptb.WordMetric, CorpusMetric):
    """Mean cosine of tf-idf vectors of 1- to 4-grams, mean over references, times 10.

    An n-gram's document frequency is the number of data set rows whose references hold it, so an
    item's value depends on the other items and their weights: scores of different sets do not compare.

    With ``document_frequencies`` they are those of other captions: how many of their images have the
    n-gram in a caption, out of all images there. Then an item's value depends on the item alone.

    The state is the document frequencies, the same for both variants: ``ngrams``, ascending uint64 hashes; int64
    ``frequencies``, how many rows have each in their references; ``rows [1]`` in all; ``sets [2]``, the least and the
    greatest hash of a row's references, which are equal where all rows share them. The n-grams are its keys.

    Args:
        variant: ``"d"`` is CIDEr-D, what COCO and papers call CIDEr: counts clipped to the
            reference's, and a Gaussian penalty on the difference in length. ``"plain"`` is without both.
        document_frequencies: File of captions to count n-grams in, instead of the scored items' references:
            COCO's captions (``captions_val2014.json``), or rows with ``image`` and ``caption`` (jsonl, csv, ...).
        tokenizer: As of :class:`~.words.ptb.WordMetric`.

    Raises:
        ValueError: The variant or the tokeniser is not known.
    """

    is_plain = True
    label = "CIDEr"
    range = (0.0, SCALE)
    needs = frozenset({"references"})
    source = (
        "Vedantam et al., CVPR 2015; pycocoevalcap cider/cider_scorer.py (d), "
        "vrama91/cider pyciderevalcap/cider/cider_scorer.py (plain)"
    )

    def __init__(
        self, variant: Literal["d", "plain"] = "d", document_frequencies: str | Path | None = None, tokenizer: str = PTB
    ) -> None:
        if tokenizer != PTB:
            super().__init__(tokenizer)
        require_choice("variant", variant, ("d", "plain"))
        self.variant = variant
        # Private: the file's content is in the fingerprint, not its place.
        self._frequencies = None
        if document_frequencies is not None:
            self._frequencies = Path(document_frequencies).expanduser()
            self.corpus_dependent = False

    def check(self) -> None:
        """Raise if the file of captions cannot be read, or the tokeniser is not installed."""
        self.fingerprint()

    def fingerprint(self) -> dict[str, Any]:
        """Return the variant, what tokenises, and which captions give the document frequencies."""
        own = {"metric": type(self).__name__, "variant": self.variant, "tokenizer": ptb.FINGERPRINT}
        if self.tokenizer != PTB:
            own["tokenizer"] = ptb.fingerprint_of(self.tokenizer)
        if self._frequencies is None:
            return own
        try:
            return {**own, "document_frequencies": f"sha256 {file_digest(self._frequencies)}"}
        except OSError as error:
            raise MetricError(
                f"CIDEr's document_frequencies: {self._frequencies}: cannot be read: {error.strerror}",
                "Name a file of captions: COCO's captions_val2014.json, or rows of image and caption.",
            ) from error

    def state_map(self, items: Items, context: Context) -> State:
        """Return in the references of how many rows of a shard each n-gram occurs."""
        return _count_rows(items, self.tokenizer)

    def partition(self, state: State, parts: int) -> list[State]:
        """Cut a state by the top bits of the hashes; the rows are the first part's."""
        part_of_ngram = (state["ngrams"] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
        ends = np.searchsorted(part_of_ngram, np.arange(parts + 1, dtype=np.uint64))
        return [
            {
                **(_NO_ROW if part else state),
                "ngrams": state["ngrams"][start:end],
                "frequencies": state["frequencies"][start:end],
            }
            for part, (start, end) in enumerate(pairwise(ends.tolist()))
        ]

    def merge(self, states: Sequence[State]) -> State:
        """Return the frequencies in all rows of several shards, or of several parts."""
        for state in states:
            check_state(self, state, _COUNTED)
        sets = np.stack([state["sets"] for state in (_NO_ROW, *states)])
        return _added(
            np.concatenate([state["ngrams"] for state in (_NO_ROW, *states)]),
            np.concatenate([state["frequencies"] for state in (_NO_ROW, *states)]),
            rows=sum(int(state["rows"][0]) for state in states),
            sets=(sets[:, 0].min(), sets[:, 1].max()),
        )

    def condense(self, state: State) -> State:
        """Return a state without the n-grams of a single row, which weigh as much as those of none."""
        repeated = state["frequencies"] > 1
        return {**state, "ngrams": state["ngrams"][repeated], "frequencies": state["frequencies"][repeated]}

    def join(self, states: Sequence[State]) -> State:
        """Return the frequencies in the corpus.

        Raises:
            MetricError: All items share their references, where every weight is 0.
        """
        whole = self.merge(states)
        least, greatest = whole["sets"].tolist()
        if least >= greatest:
            raise MetricError(*_ONE_IMAGE)
        return {name: whole[name] for name in _JOINED}

    def keep(self, items: Items) -> Mapping[str, np.ndarray]:
        """Return the n-grams of items."""
        return ngrams_of(items, self.tokenizer).to_arrays()

    def restore(self, items: Items, kept: Mapping[str, np.ndarray]) -> None:
        """Give items their n-grams."""
        items.memo[f"ngrams {self.tokenizer}"] = NGrams.from_arrays(kept)

    def score(self, items: Items, context: Context, state: State | None = None) -> Scores:
        """Score each item; see ``CorpusMetric.score``.

        ``Scores.parts["per_order"]``: ``[n, 4]`` the value of each n, of which the value is the mean.

        Raises:
            MetricError: All items share their references, where every weight is 0.
            DataError: The captions that give the document frequencies cannot be read.
        """
        if self._frequencies is not None:
            state = _read_frequencies(self._frequencies, file_digest(self._frequencies), self.tokenizer)
        elif state is not None:
            check_state(self, state, _JOINED)
        elif len(set(items.reference_sets[1][items.weights > 0].tolist())) < 2:
            raise MetricError(*_ONE_IMAGE)
        ngrams = ngrams_of(items, self.tokenizer)
        failures = _failures(ngrams)
        chunks = list(ngrams.chunks(np.array([item for item in range(len(items)) if item not in failures], np.int64)))
        rows = np.log(float(items.weights.sum() if state is None else state["rows"][0]))
        per_order = np.full((len(items), MAX_ORDER), np.nan)
        for order in range(1, MAX_ORDER + 1):
            # Each chunk is counted once, for frequencies and similarities.
            counts = [ngrams.count(chunk, order) for chunk in chunks]
            if state is None:
                held = _frequencies(len(ngrams.hashes[order - 1]), chunks, counts, items.weights)
            else:
                held = _look_up(state, ngrams.hashes[order - 1])
            idf = rows - np.log(np.maximum(held, 1.0))
            for chunk, grams in zip(chunks, counts, strict=True):
                similarity, *_ = self._similarity(chunk, grams, idf, ngrams.lengths[chunk.texts])
                sizes, pair_item, _ = chunk.pairs()
                per_order[chunk.items, order - 1] = np.bincount(pair_item, similarity, len(sizes)) / sizes
        per_order *= SCALE
        return Scores(values=per_order.mean(axis=1), parts={"per_order": per_order}, failures=failures)

    def explain(self, items: Items, state: State | None) -> list[list[WeightedNGram]]:
        """Return the n-grams of a candidate and each reference; the mean over references of the sums is its score.

        Args:
            items: The candidate alone; it has a score.
            state: The document frequencies; unused with ``document_frequencies``.
        """
        if self._frequencies is not None:
            state = _read_frequencies(self._frequencies, file_digest(self._frequencies), self.tokenizer)
        state, ngrams = state or _NO_ROW, ngrams_of(items, self.tokenizer)
        (chunk,) = ngrams.chunks(np.zeros(1, np.int64))
        references = len(chunk.texts) - 1
        grams_of: list[list[WeightedNGram]] = [[] for _ in range(references)]
        for order, hashes in enumerate(ngrams.hashes, 1):
            grams, names = ngrams.count(chunk, order), names_of(items, self.tokenizer, order)
            idf = np.log(float(state["rows"][0])) - np.log(np.maximum(_look_up(state, hashes), 1.0))
            similarity, pair, product, entry = self._similarity(chunk, grams, idf, ngrams.lengths[chunk.texts])
            share = similarity / np.maximum(np.bincount(pair, product, references), np.finfo(float).tiny)
            weights, added = np.zeros((2, len(chunk.texts), len(hashes)))
            weights[grams.texts, grams.ngrams] = grams.counts * idf[grams.ngrams]
            added[pair, grams.ngrams[entry]] = product * share[pair] * SCALE / MAX_ORDER
            # The candidate is the last of the texts.
            for of_reference, *numbers in zip(grams_of, weights.tolist(), added.tolist(), strict=False):
                rows = zip(names, weights[-1].tolist(), *numbers, strict=True)
                of_reference += [WeightedNGram(*row) for row in rows if row[1] or row[2]]
        return grams_of

    def _similarity(
        self, chunk: Chunk, grams: NGramCounts, idf: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the similarity in n-grams of ``p`` pairs of candidate and reference, and what it is made of.

        Returns:
            ``[p]`` similarities. Of each n-gram that both of a pair have, ``[e]`` the pair, ``[e]`` the product of its
            weights, ``[e]`` its entry of the reference.
        """
        vector = idf.take(grams.ngrams)
        vector *= grams.counts
        norms = np.sqrt(np.bincount(grams.texts, vector**2, minlength=len(chunk.texts)))
        references_of, pair_item, pair_reference = chunk.pairs()

        # Each n-gram of a candidate meets those of its group that are of references, which come first.
        of_candidates = chunk.is_candidate.take(grams.texts).nonzero()[0]
        references_before = of_candidates - np.arange(len(of_candidates))
        not_alone = ~grams.is_start[of_candidates]
        meeting, references_before = of_candidates[not_alone], references_before[not_alone]
        starts = grams.is_start.nonzero()[0]
        start = starts[starts.searchsorted(meeting) - 1]
        sizes = references_before - (start - of_candidates.searchsorted(start))
        of_references = concat_ranges(start, sizes)
        hypothesis, target = vector[meeting].repeat(sizes), vector[of_references]
        if self.variant == "d":
            hypothesis = np.minimum(hypothesis, target)
        item = chunk.candidates.searchsorted(grams.texts[meeting])
        first_pair = references_of.cumsum() - references_of
        shift = first_pair[item] - chunk.set_starts[chunk.sets[grams.texts[meeting]]]
        pair = shift.repeat(sizes) + grams.texts[of_references]

        product = hypothesis * target
        dot = np.bincount(pair, product, minlength=len(pair_item))
        both = norms[chunk.candidates][pair_item] * norms[pair_reference]
        similarity = np.divide(dot, both, out=np.zeros(len(both)), where=both > 0)
        if self.variant == "d":
            # The released code takes the number of bigrams for the length.
            length = np.maximum(lengths - 1, 0)
            delta = length[chunk.candidates][pair_item] - length[pair_reference]
            similarity *= np.exp(-(delta**2) / (2 * SIGMA**2))
        return similarity, pair, product, of_references


def _failures(ngrams: NGrams) -> dict[int, str]:
    """Return item index to why it cannot be scored: no reference has a word."""
    faults = {
        number: ptb.references_fault([""] * int(ngrams.set_sizes[number]))
        for number in (ngrams.words_of_sets() == 0).nonzero()[0].tolist()
    }
    if not faults:
        return {}
    return {item: fault for item, number in enumerate(ngrams.set_of_item.tolist()) if (fault := faults.get(number))}


def _frequencies(size: int, chunks: Sequence[Chunk], counts: Sequence[NGramCounts], weights: np.ndarray) -> np.ndarray:
    """Return ``[size]`` float64 how many rows have each n-gram in their references.

    Args:
        size: How many n-grams there are.
        chunks: Items.
        counts: Of each chunk.
        weights: ``[n]`` how many rows each item stands for.
    """
    rows = np.zeros(size)
    for chunk, grams in zip(chunks, counts, strict=True):
        rows_of_set = np.bincount(chunk.sets[chunk.candidates], weights[chunk.items])
        rows_of_text = np.where(chunk.is_candidate, 0, rows_of_set[chunk.sets])
        # What starts with a candidate is in no reference.
        np.add.at(rows, grams.ngrams[grams.is_start], rows_of_text.take(grams.texts[grams.is_start]))
    return rows


def _count_rows(items: Items, tokenizer: str) -> State:
    """Return the state of a shard."""
    ngrams = ngrams_of(items, tokenizer)
    # One item a set, with the rows of all, is enough to go through all sets.
    sets, items_of_set = np.unique(ngrams.set_of_item, return_index=True)
    rows = np.zeros(len(items))
    rows[items_of_set] = np.bincount(ngrams.set_of_item, items.weights)[sets] if len(sets) else 0
    counted = items_of_set[(ngrams.words_of_sets()[sets] > 0) & (rows[items_of_set] > 0)]
    chunks = list(ngrams.chunks(counted))
    hashes, frequencies = [_NO_ROW["ngrams"]], [_NO_ROW["frequencies"]]
    for order, of_order in enumerate(ngrams.hashes, 1):
        held = _frequencies(len(of_order), chunks, [ngrams.count(chunk, order) for chunk in chunks], rows)
        hashes.append(of_order[held > 0])
        frequencies.append(held[held > 0].astype(np.int64))
    of_sets = [text_hash("\0".join(items.references[item])) for item in items_of_set.tolist() if rows[item]]
    return _added(
        np.concatenate(hashes),
        np.concatenate(frequencies),
        rows=int(items.weights.sum()),
        sets=(min(of_sets), max(of_sets)) if of_sets else _NO_ROW["sets"],
    )


def _added(hashes: np.ndarray, frequencies: np.ndarray, rows: int, sets: Any) -> State:
    """Return a state in which each hash stands once."""
    sequence = np.argsort(hashes)
    hashes, frequencies = hashes[sequence], frequencies[sequence]
    again = hashes[1:] == hashes[:-1]
    if again.any():
        first = np.concatenate(([True], ~again)).nonzero()[0]
        hashes, frequencies = hashes[first], np.add.reduceat(frequencies, first)
    return {
        "ngrams": hashes,
        "frequencies": frequencies,
        "rows": np.array([rows], dtype=np.int64),
        "sets": np.array(sets, dtype=np.uint64),
    }


def _look_up(state: State, hashes: np.ndarray) -> np.ndarray:
    """Return ``[m]`` float64 how many rows have each n-gram; those of ascending hashes are found fastest."""
    known, frequencies = state["ngrams"], state["frequencies"]
    if not len(known):
        return np.zeros(len(hashes))
    at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[at] == hashes, frequencies[at], 0).astype(np.float64)


@lru_cache(maxsize=2)
def _read_frequencies(path: Path, digest: str, tokenizer: str) -> State:
    """Count the n-grams of a file of captions, in which a document is an image with all its captions.

    Raises:
        DataError: It cannot be read, or a row lacks an image or a caption: frequencies of a part of a corpus would be
            other frequencies.
    """
    captions: dict[str, list[str]] = {}
    for image, caption in _captions(path):
        captions.setdefault(image, []).append(caption)
    if not captions:
        raise DataError(f"{path}: has no caption")
    none = [""] * len(captions)
    return _count_rows(Items(none, none, [tuple(texts) for texts in captions.values()], np.ones(len(none))), tokenizer)


def _captions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield image and caption of each row of a file."""
    document = load_json(path) if path.suffix == ".json" else None
    rows: Any = document
    if isinstance(document, Mapping):
        rows = document.get("annotations")
        if not isinstance(rows, list) or not rows:
            raise DataError(
                f"{path}: has no list 'annotations'",
                'Captions of COCO are {"annotations": [{"image_id": ..., "caption": ...}, ...]}.',
            )
    for number, row in enumerate(rows if isinstance(rows, list) else read_rows(path), 1):
        if isinstance(row, BadRow):
            raise DataError(f"{row.place}: {row.reason}")
        own = row if isinstance(row, Mapping) else {}
        image, caption = own.get("image", own.get("image_id")), own.get("caption")
        if image is None or not isinstance(caption, str):
            raise DataError(f"{path}: row {number} has no image or no caption", "A row is {image: ..., caption: ...}.")
        yield str(image), caption
