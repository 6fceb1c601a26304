"""Negatives of captions without a model that writes: their own words, exchanged.

Source: Urbanek et al. 2024, appendix 9.1.4, and facebookresearch/DCI, ``dataset/spacy_negs.py`` (the rules).
"""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from ....adapters.encoders.clip_tokens import CONTEXT, clip_tokens
from ....metrics.words.spacy_pipelines import DEFAULT, load_pipeline, pipeline_identity
from ..asking import seed_of
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings

if TYPE_CHECKING:
    from spacy.tokens import Span  # an extra

_LEAST_DISTANCE = 0.5
"""Edit distance, as a share of the shorter text, above which two texts are exchanged."""
_EXCHANGED = ("ADJ", "VERB")
_TRIES = 10


class SpacyNegativesSettings(StageSettings):
    """Its keys."""

    captions: str = "captions"
    """The value that holds the caption, or a list of captions, of which the first gets the negative."""
    pipeline: str = DEFAULT
    """The spaCy pipeline: a package's name or a folder."""
    swaps: Annotated[int, Field(gt=0)] = 2
    """Maximum number of pairs that are exchanged: of noun phrases, then of adjectives and of verbs."""
    most_tokens: Annotated[int, Field(gt=2)] = 75
    """Maximum number of CLIP tokens; a row with a longer caption fails."""


class SpacyNegatives(Stage):
    """Makes one of ``negatives`` per row: its first caption with noun phrases, adjectives and verbs exchanged.

    As released, a caption in which nothing can be exchanged is its own negative; ``unchanged`` counts them.
    """

    Settings = SpacyNegativesSettings
    settings: SpacyNegativesSettings
    takes = ("{captions}",)
    gives = ("negatives",)

    def check(self) -> None:
        """Raise if spaCy or the pipeline is missing; see ``Stage.check``."""
        self._pipeline()

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the results, with the versions of spaCy and of the pipeline."""
        versions = {"spacy": importlib.metadata.version("spacy"), "pipeline": pipeline_identity(self._pipeline())}
        return super().fingerprint() | versions

    def _pipeline(self) -> Any:
        return load_pipeline(self.settings.pipeline, "stage 'spacy_negatives'", "its key 'pipeline'")

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[Generated]:
        """Return each row with its negative."""
        return [self._row(row) for row in rows]

    def _row(self, row: PipelineRow) -> Generated:
        value = row.values[self.settings.captions]
        captions = [value] if isinstance(value, str) else value
        if not captions:
            return NotGenerated("has no caption")
        if (most := max(map(clip_tokens, captions))) > self.settings.most_tokens:
            return NotGenerated(f"a caption has {most} CLIP tokens, more than {self.settings.most_tokens}")
        rng = random.Random(seed_of(self.seed, self.name, row.id))  # noqa: S311 - a sample, not a secret
        for _ in range(_TRIES):
            negative = swapped(captions[0], self._pipeline(), self.settings.swaps, rng)
            if clip_tokens(negative) < CONTEXT:
                about = {"seed": self.seed, "counts": {"unchanged": int(negative == captions[0])}}
                return row.having(self.name, about, negatives=[negative])
        return NotGenerated(f"its negative has {CONTEXT} CLIP tokens or more")


def swapped(caption: str, pipeline: Any, swaps: int, rng: random.Random) -> str:
    """Return a caption with noun phrases exchanged, and then, parsed again, adjectives and verbs.

    Args:
        caption: The caption.
        pipeline: The spaCy pipeline.
        swaps: Maximum number of pairs of noun phrases, of adjectives and of verbs.
        rng: Draws the pairs, in the order of the released code.
    """
    caption = _exchanged(caption, _pairs(pipeline(caption).noun_chunks, swaps, rng))
    doc = pipeline(caption)
    pairs = [_pairs((doc[word.i : word.i + 1] for word in doc if word.pos_ == pos), swaps, rng) for pos in _EXCHANGED]
    return _exchanged(caption, chain.from_iterable(pairs))


def _pairs(spans: Iterable[Span], most: int, rng: random.Random) -> list[tuple[Span, Span]]:
    """Draw pairs of spans with different texts; each text occurs once."""
    left = list(spans)
    rng.shuffle(left)
    pairs: list[tuple[Span, Span]] = []
    used: set[str] = set()
    while left and len(pairs) < most:
        first = left.pop(0)
        if first.text in used:
            continue
        used.add(first.text)
        if partners := [span for span in left if span.text not in used and _differ(first.text, span.text)]:
            pairs.append((first, rng.choice(partners)))
            used.add(pairs[-1][1].text)
    return pairs


def _differ(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    is_part = short.lower() in long.lower()
    return not is_part and Levenshtein.distance(first, second) / len(short) > _LEAST_DISTANCE


def _exchanged(caption: str, pairs: Iterable[tuple[Span, Span]]) -> str:
    places = [(old, new.text) for first, second in pairs for old, new in ((first, second), (second, first))]
    for old, new in sorted(places, key=lambda place: place[0].start_char, reverse=True):
        caption = caption[: old.start_char] + new + caption[old.end_char :]
    return caption
