"""Rules of the checklist: what becomes of captions, read with word lists only."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from capbench.benchmarks.protocols.checklist.captions import load, sentences
from capbench.benchmarks.protocols.checklist.readers import ListsReader
from capbench.benchmarks.protocols.checklist.rules import (
    CHANGES,
    Donor,
    NothingToChange,
    RuleInput,
    SourceCorpus,
    drawn,
    typical,
)
from capbench.errors import MetricError
from capbench.metrics.capture import wordnet
from capbench.metrics.capture.grammar_parser import LEXICONS

WORDS = load()
CHANGE = {rule.name: rule.change for rule in CHANGES}
SEEN = Counter({"dog": 3, "cat": 3, "cats": 1, "woman": 2, "women": 1, "horse": 1, "truck": 9})
CASES = yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8"))
DONORS = [Donor("theirs", "two ducks swim in a pond", frozenset({"duck", "pond"}))]


def cases(kind: str) -> list[tuple[str, str, Any]]:
    return [(rule, *case) for rule, of_rule in CASES[kind].items() for case in of_rule]


def given(text: str, *references: str, seed: int = 0, donors: list[Donor] | None = None) -> RuleInput:
    reader = ListsReader(WORDS)
    (read,) = reader.read([text])
    corpus = SourceCorpus(WORDS, reader, seed, SEEN, 3, DONORS if donors is None else donors, "A dog runs.")
    return RuleInput("mine", text, read, references or ("Someone is here.",), corpus)


def change(rule: str, text: str, *references: str, **keys) -> str:
    return CHANGE[rule](given(text, *references, **keys))


@pytest.mark.parametrize(("rule", "text", "expected"), cases("changed"))
def test_rule_changes_a_caption(rule: str, text: str, expected: str):
    changed = {change(rule, text, seed=seed) for seed in range(20)}
    assert expected in changed
    assert text not in changed


@pytest.mark.parametrize(("rule", "text", "references"), cases("left"))
def test_rule_says_why_it_leaves_a_caption(rule: str, text: str, references: list[str]):
    with pytest.raises(NothingToChange, match=r"^(has|counts|shares) "):
        change(rule, text, *references)


def test_adjective_belongs_to_the_last_noun_of_its_phrase_and_one_behind_a_verb_to_none():
    (read,) = ListsReader(WORDS).read(["A small red wooden car door is red near houses and blue"])
    words = [token.text for token in read.tokens]
    pairs = [(words[at], words[noun]) for at, noun in read.modifiers]
    assert pairs == [("small", "door"), ("red", "door"), ("wooden", "door")]
    assert [token.text for token in read.tokens if token.kind == "adjective"][3:] == ["red", "blue"]
    (read,) = ListsReader(WORDS).read(["The red yo-yo of a ragged dog"])
    assert [(read.tokens[at].text, read.tokens[noun].text) for at, noun in read.modifiers] == [
        ("red", "yo-yo"),
        ("ragged", "dog"),
    ]


def test_choice_among_places_follows_from_seed_rule_and_caption():
    text = "A red car, a blue car and a green car."
    by_seed = [change("attribute_replaced", text, seed=seed) for seed in range(12)]
    assert by_seed == [change("attribute_replaced", text, seed=seed) for seed in range(12)]
    assert len(set(by_seed)) > 6
    # The first 32 bits of SHA-256 of "abc" (FIPS 180-2, appendix B.1).
    assert drawn("abc") == 0xBA7816BF


def test_shuffled_words_are_the_same_words_in_another_order():
    text = "Big dogs chase cats."
    for seed in range(60):
        shuffled = change("words_shuffled", text, seed=seed)
        *words, stop = shuffled.lower().split()
        assert stop == "."
        assert sorted(words) == ["big", "cats", "chase", "dogs"]
        assert words != ["big", "dogs", "chase", "cats"]
        assert shuffled == shuffled.capitalize()


def test_shuffled_word_keeps_its_ending():
    assert "'s" in change("words_shuffled", "The tail of a dog 's friend").split()


def test_donor_of_the_same_image_gives_nothing():
    own = [Donor("mine", "Two ducks swim.", frozenset({"duck"}))]
    with pytest.raises(NothingToChange):
        change("sentence_made_up", "A dog runs.", donors=own)


def test_references_are_glued_as_sentences():
    references = ("A dog runs", "A cat sits.", "A cow", "A pig")
    assert change("references_1", "A dog.", *references) == "A dog runs"
    assert change("references_4", "A dog.", *references) == "A dog runs. A cat sits. A cow. A pig."


def test_typical_caption_has_the_words_of_most_captions_and_is_not_short():
    seen = Counter({"a": 9, "dog": 6, "runs": 5, "zebra": 1, "on": 4})
    assert typical(["A", "A dog runs", "A zebra runs on"], seen) == "A dog runs"


def test_sentences_end_where_another_begins():
    assert sentences("It is 3.5 m. A dog of the U.S. team runs!\n\nit barks") == [
        "It is 3.5 m.",
        "A dog of the U.S. team runs!",
        "it barks",
    ]
    assert sentences('He said "No." Then he left.') == ['He said "No.', "Then he left."]
    assert sentences("A bridge in St. Louis. Mr. X. Y. It. Is") == ["A bridge in St. Louis.", "Mr. X. Y. It.", "Is"]


@pytest.mark.parametrize(
    ("word", "article"), [("orange", "an"), ("uniform", "a"), ("hour", "an"), ("House", "a"), ("one", "a")]
)
def test_article_fits_the_sound(word: str, article: str):
    assert WORDS.article(word) == article


def test_lists_of_words_hold_together():
    nouns = {noun for group in WORDS.sisters.items() for noun in (group[0], *group[1])}
    assert len(nouns) > 250
    assert all(noun in WORDS.singular and WORDS.singular[WORDS.plural(noun)] == noun for noun in nouns)
    assert all(word in WORDS.antonyms[other] for word, others in WORDS.antonyms.items() for other in others)
    assert {other for others in WORDS.colours.values() for other in others} <= set(WORDS.colours)
    known = set(WORDS.singular.values())
    listed = [WORDS.supports, WORDS.not_above, WORDS.telling, *WORDS.antonyms["old"].values()]
    assert all(nouns <= known for nouns in listed)
    assert not WORDS.objects & (WORDS.vague_nouns | WORDS.parts)
    assert WORDS.negated["goes"] == "does not go"
    assert WORDS.negated["lying"] == "not lying"
    assert WORDS.negated["sitting"] == "not sitting"
    assert WORDS.negated["looking"] == "not looking"
    assert "building" not in WORDS.negated


def test_capture_knows_the_nouns_that_are_replaced():
    known = LEXICONS["captions"].read_text()
    assert all(f'"{noun}"' in known for noun in WORDS.sisters)


def test_synonyms_share_wordnets_first_sense():
    try:
        database = wordnet.load(wordnet.find())
    except MetricError as error:
        pytest.skip(error.message)
    for noun, other in WORDS.synonyms.items():
        line = database.index["noun"][database.lemma(noun, "noun")].split()
        names = database.data["noun"][line[-int(line[2])]].split()[4::2]
        assert database.lemma(other, "noun") in names or other in names, (noun, other)
