"""What is read off a dependency parse, and which nouns WordNet has for another."""

import pytest

from capbench.benchmarks.protocols.checklist.captions import ReadCaption, load
from capbench.benchmarks.protocols.checklist.readers import WordNetSisters, read_doc
from capbench.errors import MetricError


def read(rows: str) -> ReadCaption:
    """Read a parse of rows ``word lemma pos tag dependency head``; a word that ends with ``_`` has no space behind."""
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    from spacy.tokens import Doc

    words, lemmas, pos, tags, deps, heads = zip(*(row.split() for row in rows.strip().splitlines()), strict=True)
    doc = Doc(
        spacy.blank("en").vocab, words=[word.rstrip("_") for word in words], lemmas=list(lemmas), pos=list(pos),
        tags=list(tags), deps=list(deps), heads=[int(head) for head in heads],
        spaces=[not word.endswith("_") for word in words],
    )  # fmt: skip
    return read_doc(doc, load())


def texts(caption: ReadCaption, numbers: tuple[int, ...]) -> list[str]:
    return [caption.tokens[number].text for number in numbers]


RUNS = """
A a DET DT det 3
red red ADJ JJ amod 3
wooden wooden ADJ JJ amod 3
sled sled NOUN NN nsubj 6
on on ADP IN prep 3
snow snow NOUN NN pobj 4
passes pass VERB VBZ ROOT 6
two two NUM CD nummod 9
high high ADJ JJ amod 9
walls wall NOUN NNS dobj 6
. . PUNCT . punct 6
"""


def test_parse_gives_kinds_phrases_modifiers_and_what_to_deny():
    caption = read(RUNS)
    assert [token.kind for token in caption.tokens] == [
        "other", "adjective", "adjective", "noun", "other", "noun", "other", "number", "adjective", "noun", "mark",
    ]  # fmt: skip
    assert caption.tokens[9].plural
    assert caption.tokens[9].lemma == "wall"
    assert caption.nouns == {"sled", "snow", "wall"}
    assert texts(caption, caption.relations) == ["on"]
    assert caption.phrases == ((4, 6),)
    assert caption.modifiers == ((1, 3), (2, 3), (8, 9))
    assert caption.negations == ((6, "does not pass"),)


HELPED = """
Dogs dog NOUN NNS nsubjpass 2
are be AUX VBP auxpass 2
seen see VERB VBN ROOT 2
on on ADP IN prep 2
top top NOUN NN pobj 3
of of ADP IN prep 4
hills hill NOUN NNS pobj 5
barking bark VERB VBG acl 6
"""


def test_helping_verb_is_denied_once_and_a_side_says_where():
    caption = read(HELPED)
    assert caption.negations == ((1, "are not"), (7, "not barking"))
    assert texts(caption, caption.relations) == ["top"]
    # All behind "on" is more than half of the caption.
    assert caption.phrases == ((5, 8),)


DENIED = """
It it PRON PRP nsubj 1
is be AUX VBZ ROOT 1
not not PART RB neg 1
in in ADP IN prep 1
a a DET DT det 7
high_ high ADJ JJ amod 7
-_ - PUNCT HYPH punct 7
angle angle NOUN NN compound 8
shot shot NOUN NN pobj 3
"""


def test_what_is_denied_joined_or_said_of_to_be_is_left():
    caption = read(DENIED)
    assert caption.negations == ()
    assert caption.modifiers == ()
    assert caption.phrases == ()
    assert [token.kind for token in caption.tokens[5:8]] == ["other", "mark", "other"]
    # Of "angle shot" neither noun is one by itself.
    assert [token.head for token in caption.tokens[7:]] == [False, False]


def test_wordnet_has_sisters_of_things_by_their_first_senses():
    try:
        known = WordNetSisters()
    except MetricError as error:
        pytest.skip(error.message)
    beside, further = known.sisters("cat")
    assert "cat" not in (*beside, *further)
    assert {"wolf", "fox"} <= {*known.sisters("dog")[0]}
    # By the first sense: a mouse is the animal, a bank is the slope.
    assert "rat" in known.sisters("mouse")[0] or "rat" in known.sisters("mouse")[1]
    assert known.sisters("idea") == ()
    assert known.sisters("no such word") == ()
    # No phrase, no name, no plural.
    assert all(word.isalpha() and word.islower() for tier in known.sisters("dog") for word in tier)
