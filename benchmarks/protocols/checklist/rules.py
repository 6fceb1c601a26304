"""The rules by which captions are changed, and what a metric should make of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import games, sentence_changes, word_changes
from .given import Change

VERSION = 1
"""Raised when a rule changes."""

Expected = Literal["fall", "stay", "game"]


@dataclass(frozen=True)
class Rule:
    """A change.

    Attributes:
        name: What results are called by.
        label: What tables call it.
        expected: Whether the caption is worse by it, so that a metric should fall; says the same; or is no honest
            caption, of which is asked what a metric pays for it.
        change: Makes the changed caption.
    """

    name: str
    label: str
    expected: Expected
    change: Change


RULES: tuple[Rule, ...] = (
    Rule("object_replaced", "object replaced", "fall", word_changes.object_replaced),
    Rule("attribute_replaced", "attribute replaced", "fall", word_changes.attribute_replaced),
    Rule("relation_replaced", "relation replaced", "fall", word_changes.relation_replaced),
    Rule("number_replaced", "number replaced", "fall", word_changes.number_replaced),
    Rule("object_left_out", "object left out", "fall", sentence_changes.object_left_out),
    Rule("sentence_made_up", "sentence made up", "fall", sentence_changes.sentence_made_up),
    Rule("words_shuffled", "words shuffled", "fall", sentence_changes.words_shuffled),
    Rule("attributes_swapped", "attributes swapped", "fall", word_changes.attributes_swapped),
    Rule("sentence_repeated", "sentence repeated", "fall", sentence_changes.sentence_repeated),
    Rule("end_cut", "end cut", "fall", sentence_changes.end_cut),
    Rule("negation", "negation", "fall", word_changes.negated),
    Rule("case", "case", "stay", sentence_changes.case),
    Rule("punctuation", "punctuation", "stay", sentence_changes.punctuation),
    Rule("synonym", "synonym", "stay", word_changes.synonym),
    Rule("sentence_order", "order of sentences", "stay", sentence_changes.sentence_order),
)
"""The fourteen rules; that of the surface, 12, is two. Sources of what metrics were asked before: Sai et al. 2021
(EvalEval), Ahmadi and Agrawal 2024 (arXiv:2305.14998)."""

GAMES: tuple[Rule, ...] = (
    Rule("blank", "blank", "game", games.blank),
    Rule("same_for_all", "the same for all", "game", games.same_for_all),
    Rule("references_1", "1 reference", "game", games.references(1)),
    Rule("references_2", "2 references glued", "game", games.references(2)),
    Rule("references_4", "4 references glued", "game", games.references(4)),
    Rule("own_2", "its own, twice", "game", games.own(2)),
    Rule("own_4", "its own, 4 times", "game", games.own(4)),
)
"""What a captioner might write for the metric's sake."""

CHANGES = (*RULES, *GAMES)
