"""Makes a pipeline of spaCy as spaCy writes it: tagger, parser and lemmatizer, trained on one sentence."""

from pathlib import Path

import pytest


def make_tiny_spacy(folder: Path) -> None:
    """Write the pipeline; it parses ``A red car stands on the road .``, and its noun phrases in any order."""
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    from spacy.training import Example

    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    nlp.add_pipe("morphologizer")
    nlp.add_pipe("parser", config={"min_action_freq": 1})
    nlp.add_pipe("trainable_lemmatizer", name="lemmatizer", config={"min_tree_freq": 1})
    words = ["A", "red", "car", "stands", "on", "the", "road", "."]
    answer = {
        "words": words,
        "tags": ["DT", "JJ", "NN", "VBZ", "IN", "DT", "NN", "."],
        "pos": ["DET", "ADJ", "NOUN", "VERB", "ADP", "DET", "NOUN", "PUNCT"],
        "lemmas": ["a", "red", "car", "stand", "on", "the", "road", "."],
        "heads": [2, 2, 3, 3, 3, 6, 4, 3],
        "deps": ["det", "amod", "nsubj", "ROOT", "prep", "det", "pobj", "punct"],
    }
    examples = [Example.from_dict(nlp.make_doc(" ".join(words)), answer)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(folder)
