"""soft-SPICE: the meaning of what scene graphs say, phrase by phrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...errors import require_all
from ..capture.choices import other_encoder
from ..capture.phrases import PhraseEncoder
from ..contract import Context
from ..vectors.checkpoints import Checkpoint
from .facts import Fact, phrases
from .graphs import GraphMetric

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""The sentence encoder of the released examples."""


class SoftSpice(GraphMetric):
    """The mean over the candidate's phrases of the cosine with the most similar phrase of all references.

    Phrases are the objects, and a phrase for each attribute ("red car") and relation ("car on road"). As released it
    is a precision: what the references say and the candidate does not costs nothing; with ``both_ways`` it does.

    ``Scores.parts``: ``precision [n]``, which is the value, and ``recall [n]``, the same of the references' phrases.

    Args:
        both_ways: Whether the value is the harmonic mean of precision and recall, each moved from -1..1 to 0..1
            (``bidirectional=True`` of the released ``Evaluator``).
        encoder: The sentence encoder: a name on the hub or a folder.
        encoder_revision: Branch, tag or commit of the encoder.
        parser: ``factual``, ``spacy``, ``grammar`` or ``recorded``, as of ``capture``; this and what follows as of
            :class:`~capbench.metrics.graph_spice.graphs.GraphMetric`.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: ``0.5.0``, or as FactualSceneGraph ``0.7`` does.
        lemmatize: Whether words become lemmas of WordNet's nouns.
        empty: What a graph without any fact is: ``nothing``, or the empty ``phrase``, as released.
        wordnet: Folder of WordNet's database files.
        nltk_data: Folder of NLTK's data.
        device: Where models run.
        batch_size: Sentences that ``factual`` parses at once.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "soft-SPICE"
    range = (-1.0, 1.0)
    source = "Li et al., Findings of ACL 2023; FactualSceneGraph 0.7.3 evaluation/soft_spice_evaluation.py"

    def __init__(
        self,
        both_ways: bool = False,
        encoder: str = ENCODER,
        encoder_revision: str | None = None,
        parser: Literal["factual", "spacy", "grammar", "recorded"] = "factual",
        parser_model: str | None = None,
        parser_revision: str | None = None,
        input_limit: Literal["0.5.0", "0.7"] | float = "0.5.0",
        lemmatize: bool = True,
        empty: Literal["nothing", "phrase"] = "nothing",
        wordnet: str | None = None,
        nltk_data: str | None = None,
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(
            parser, parser_model, parser_revision, input_limit, lemmatize, empty, wordnet, nltk_data, device, batch_size
        )  # fmt: skip
        self.both_ways = both_ways
        self._encoder = PhraseEncoder(
            Checkpoint("soft-SPICE's text encoder", "encoder", encoder, encoder_revision), device
        )
        ways = ["both ways"] if both_ways else []
        self.label = self._spelled([*ways, *self._others, *other_encoder(encoder, ENCODER)])

    def check(self) -> None:
        """Raise if the parser, WordNet or the encoder is missing."""
        require_all(super().check, self._encoder.check)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses, knows lemmas and encodes."""
        return {**super().fingerprint(), **self._encoder.fingerprint()}

    def _compare(
        self, pairs: Sequence[tuple[frozenset[Fact], frozenset[Fact]]], context: Context
    ) -> list[tuple[float, float, float]]:
        of_pairs = [(phrases(candidate), phrases(references)) for candidate, references in pairs]
        vectors = self._encoder.vectors([one for pair in of_pairs for its in pair for one in its], context)
        rows: list[tuple[float, float, float]] = []
        for mine, theirs in of_pairs:
            if not mine or not theirs:
                rows.append((0.0, 0.0, 0.0))
                continue
            similarity = np.stack([vectors[one] for one in mine]) @ np.stack([vectors[one] for one in theirs]).T
            precision, recall = (float(similarity.max(axis=axis).mean(dtype=np.float64)) for axis in (1, 0))
            rows.append((self._value(precision, recall), precision, recall))
        return rows

    def _value(self, precision: float, recall: float) -> float:
        if not self.both_ways:
            return precision
        moved, other = (precision + 1) / 2, (recall + 1) / 2
        return 2 * moved * other / (moved + other) if moved + other > 0 else 0.0
