"""Negatives of exchanged words: what is exchanged, as in the released code, and which captions have none."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pipeline_stages import made_of

from capbench.errors import MetricError
from capbench.recipes.data_synthesis.contract import NotGenerated, PipelineRow
from capbench.recipes.data_synthesis.stages.spacy_negatives import SpacyNegatives, SpacyNegativesSettings, swapped

NOUNS, VERBS = {"car", "cat", "house", "dogs", "ball", "street"}, {"passes", "chase", "sleeps"}
ADJECTIVES = {"red", "old", "yellow", "empty"}


@cache
def vocabulary() -> Any:
    return pytest.importorskip("spacy", reason="needs the extra 'spacy'").blank("en").vocab


def parse(text: str) -> Any:
    """Read a text of these words: a determiner or adjective belongs to the next noun."""
    vocab = vocabulary()
    from spacy.tokens import Doc

    words = text.split()
    kinds = ["NOUN" if w in NOUNS else "VERB" if w in VERBS else "ADJ" if w in ADJECTIVES else "DET" for w in words]
    nouns, root = [at for at, kind in enumerate(kinds) if kind == "NOUN"], kinds.index("VERB")
    heads = [root if k in ("NOUN", "VERB") else min(n for n in nouns if n > at) for at, k in enumerate(kinds)]
    deps = [{"NOUN": "nsubj", "VERB": "conj", "ADJ": "amod", "DET": "det"}[kind] for kind in kinds]
    deps[root] = "ROOT"
    return Doc(vocab, words=words, pos=kinds, heads=heads, deps=deps)


CAPTION = "a red car passes the old house two yellow dogs chase the ball"


@pytest.mark.parametrize(
    ("seed", "swaps", "expected"),
    [
        (0, 1, "a old car chase two yellow dogs the red house passes the ball"),
        (0, 2, "the ball chase two old dogs the yellow house passes a red car"),
        (1, 2, "the red house chase a old car the ball passes two yellow dogs"),
        (2, 2, "two old dogs chase the ball a red car passes the yellow house"),
    ],
)
def test_phrases_then_adjectives_and_verbs_are_exchanged_as_released(seed: int, swaps: int, expected: str):
    """Expected is what spacy_negs.py of facebookresearch/DCI 8326c97 gives for this parse after random.seed."""
    assert swapped(CAPTION, parse, swaps, random.Random(seed)) == expected  # noqa: S311


@pytest.mark.parametrize(
    ("caption", "why"),
    [
        ("the red car passes a red car", "one is part of the other"),
        ("a red car passes a red cat", "one letter differs"),
        ("the ball sleeps", "there is one of each"),
    ],
)
def test_texts_that_hardly_differ_are_not_exchanged(caption: str, why: str):
    assert swapped(caption, parse, 2, random.Random(0)) == caption, why  # noqa: S311


def made(captions: Any, folder: Path, **settings: Any) -> Any:
    stage = SpacyNegatives("swap", SpacyNegativesSettings(pipeline=str(folder), **settings), 0)
    return made_of(stage, PipelineRow("17", None, {"captions": captions}))


def test_first_caption_gets_a_negative_and_one_without_pairs_is_counted(tiny_spacy: Path):
    row = made(["A red car stands on the road.", "a car"], tiny_spacy)
    assert row.values["negatives"] == ["the road stands on A red car."]
    assert row.provenance[-1]["counts"] == {"unchanged": 0}
    same = made("the road", tiny_spacy)
    assert (same.values["negatives"], same.provenance[-1]["counts"]) == (["the road"], {"unchanged": 1})


def test_row_without_a_caption_or_with_one_that_is_too_long_fails(tiny_spacy: Path):
    assert made([], tiny_spacy) == NotGenerated("has no caption")
    # Start and end included.
    assert made(["a car", "red " * 73], tiny_spacy).values["negatives"] == ["a car"]
    assert made(["a car", "red " * 74], tiny_spacy) == NotGenerated("a caption has 76 CLIP tokens, more than 75")
    long = f"A red car stands on the road {'. ' * 70}"
    assert made(long, tiny_spacy, most_tokens=100) == NotGenerated("its negative has 77 CLIP tokens or more")


def test_results_belong_to_the_versions_and_a_missing_pipeline_is_told(tiny_spacy: Path):
    stage = SpacyNegatives("swap", SpacyNegativesSettings(pipeline=str(tiny_spacy)), 0)
    stage.check()
    assert stage.fingerprint()["pipeline"] == "en_pipeline 0.0.0"
    with pytest.raises(MetricError, match="'no_such_pipeline' cannot be loaded"):
        SpacyNegatives("swap", SpacyNegativesSettings(pipeline="no_such_pipeline"), 0).check()
