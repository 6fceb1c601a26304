"""Penn Treebank tokens of items: the text that BLEU, ROUGE-L, METEOR and CIDEr compare.

Tokens are those of the COCO caption evaluation (Stanford CoreNLP 3.4.1, lower-cased, 17 punctuation
tokens removed; pycocoevalcap ``tokenizer/ptbtokenizer.py``), made by ``ptb_lexer`` without Java. There each
caption is tokenised as if no other stood beside it; the jar, which is given all captions in one file, looks
past the end of a line, so that "no." keeps its full stop if the next caption starts with a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..items import Items
from .ptb_lexer import tokenize_text

FINGERPRINT = {"tokenizer": "ptb 3.4.1", "revision": 1}
"""What can change a token; the revision is raised whenever ``ptb_lexer`` gives other tokens."""

_EMPTY = "candidate has no token after PTB tokenisation"


@dataclass(frozen=True)
class TokenizedItems:
    """The tokens of ``n`` items.

    Attributes:
        candidates: ``[n]`` tokens joined by single spaces; empty where nothing is left, which is scored as it is.
        reference_sets: The tokens of each of ``Items.reference_sets``.
        failures: Item index to why no metric that compares tokens can score it: no reference has one.
    """

    candidates: list[str]
    reference_sets: list[tuple[str, ...]]
    failures: dict[int, str]


def tokenize_items(items: Items) -> TokenizedItems:
    """Tokenise candidates and references; the first metric that asks pays, the others share."""
    if (known := items.memo.get("ptb")) is not None:
        return known
    raw_sets, set_of_item = items.reference_sets
    reference_sets = [tuple(map(tokenize_text, references)) for references in raw_sets]
    faults = list(map(references_fault, reference_sets))
    failures: dict[int, str] = {}
    if any(faults):
        failures = {item: fault for item, its_set in enumerate(set_of_item.tolist()) if (fault := faults[its_set])}
    items.memo["ptb"] = tokenized = TokenizedItems(list(map(tokenize_text, items.candidates)), reference_sets, failures)
    return tokenized


def tokenize_candidates(items: Items) -> tuple[list[str], dict[int, str]]:
    """Tokenise the candidates alone, for metrics that look at no reference.

    Returns:
        ``[n]`` the tokens of each candidate, and item index to why it has none.
    """
    with_references = items.memo.get("ptb")
    known = with_references.candidates if with_references else items.memo.get("ptb candidates")
    if known is None:
        known = items.memo["ptb candidates"] = list(map(tokenize_text, items.candidates))
    return known, {item: _EMPTY for item, tokens in enumerate(known) if not tokens}


def references_fault(references: Sequence[str]) -> str | None:
    """Return why no metric that compares tokens can score with tokenised references; None if it can."""
    if not references:
        return "item has no reference"
    return None if any(references) else "no reference has a token after PTB tokenisation"
