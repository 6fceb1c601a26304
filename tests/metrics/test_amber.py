"""AMBER's counts against the released script, on made answers to all of its photographs."""

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.protocols.yes_no import RATES, TERMS, exact, term_of
from capbench.errors import MetricError
from capbench.metrics import Context, build_metric
from capbench.metrics.golden import golden_items, read_golden

COUNTERS = {"CHAIR": "chair", "Cover": "safe_cover", "Hal": "non_hallu", "Cog": "hallu_cover"}
DIMENSIONS = {
    "existence": ["discriminative-hallucination"],
    "state": ["discriminative-attribute-state"],
    "number": ["discriminative-attribute-number"],
    "action": ["discriminative-attribute-action"],
    "relation": ["discriminative-relation", "relation"],
}


def vocabulary(folder: Path) -> list[str]:
    associations = json.loads((folder / "relation.json").read_text())
    return list(dict.fromkeys(word for name, others in associations.items() for word in (name, *others)))


def make_vectors(folder: Path, words: list[str]) -> str:
    """Write a pipeline of spaCy whose words are similar in groups of four or so; some have no vector."""
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    nlp = spacy.blank("en")
    for place, word in enumerate(words):
        group, own = (np.random.default_rng(seed).normal(size=50) for seed in (place % 110, zlib.crc32(word.encode())))
        if place % 13:
            nlp.vocab.set_vector(word, (group + 0.4 * own).astype(np.float32))
    nlp.to_disk(folder)
    return str(folder)


def made_answers(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the annotations of each photograph, and an answer with true, false, safe, similar and unknown words."""
    rows, words = json.loads((folder / "annotations.json").read_text()), vocabulary(folder)
    safe, draw = (folder / "safe_words.txt").read_text().split("\n"), np.random.default_rng(7).random

    def one_of(choices: list[str]) -> str:
        return choices[int(draw() * len(choices))]

    for row in rows[:1004]:
        named = [
            one_of([row["truth"], row["truth"], row["hallu"], words, safe, ["sofas", "women", "zebra", "Dog"]][kind])
            for kind in (draw(int(draw() * 9)) * 6).astype(int)
        ]
        sentences = [f"The scene shows the {word}{'s' * int(draw() * 1.3)} ." for word in named]
        yield row, " ".join(sentences)


@pytest.mark.data
@pytest.mark.costly
@pytest.mark.usefixtures("princeton", "nltk_data")
def test_counts_are_those_of_the_released_script(data_folder: Callable[[str], Path], tmp_path: Path):
    folder, golden = data_folder("amber"), read_golden("amber")
    answers = list(made_answers(folder))
    references = [[", ".join(row["truth"]), ", ".join(row["hallu"])] for row, _ in answers]
    items = golden_items([answer for _, answer in answers], references)
    files = {"associations": str(folder / "relation.json"), "safe_words": str(folder / "safe_words.txt")}
    vectors = make_vectors(tmp_path / "vectors", vocabulary(folder))
    for printed, counter in COUNTERS.items():
        metric = build_metric(f"amber_{printed.lower()}", {**files, "vectors": vectors})
        scores = metric.score(items, Context())
        assert scores.failures == {}
        part, whole = metric.terms(scores).sum(axis=0).tolist()
        released = golden["counters"]
        score = released[f"{counter}_score"]
        hits = released["non_hallu_num"] - score if printed == "Hal" else score
        assert (part, whole) == (hits, released[f"{counter}_num"])
        assert round(100 * metric.corpus(scores, items.weights), 1) == golden["printed"]["generative"][printed]


@pytest.mark.data
def test_answers_to_questions_give_the_printed_rates(data_folder: Callable[[str], Path]):
    rows, draw = (
        json.loads((data_folder("amber") / "annotations.json").read_text())[1004:],
        np.random.default_rng(9).random,
    )
    said = ["Yes", "No", "No", "no", "Yes.", ""]
    terms: dict[str, np.ndarray] = {}
    for row in rows:
        answer = row["truth"].title() if draw() < 0.6 else said[int(draw() * 6)]
        sums = terms.setdefault(row["type"], np.zeros(len(TERMS)))
        sums[term_of(exact(answer), row["truth"] == "yes")] += 1
    attribute = [name for part in ("state", "number", "action") for name in DIMENSIONS[part]]
    for name, types in {**DIMENSIONS, "attribute": attribute, "discriminative": [*terms]}.items():
        sums, added = (
            sum((terms[kind] for kind in types), np.zeros(len(TERMS))),
            0.001 if name == "existence" else 0.0001,
        )
        rates = [RATES[rate](sums, "no") for rate in ("accuracy", "precision", "recall")]
        rates.append(RATES["f1"](sums, "no", decimals=1, added=added))
        assert [round(100 * rate, 1) for rate in rates] == [*read_golden("amber")["printed"][name].values()]


@pytest.mark.usefixtures("princeton", "nltk_data")
def test_what_is_missing_or_unknown_is_named(tmp_path: Path):
    (tmp_path / "relation.json").write_text('{"car": ["road"], "dog": [], "bus": [], "sky": []}')
    (tmp_path / "safe_words.txt").write_text("sky\n")
    files = {"associations": str(tmp_path / "relation.json"), "safe_words": str(tmp_path / "safe_words.txt")}
    # The last word is similar to the second, as both are of one group.
    vectors = make_vectors(tmp_path / "vectors", ["x", "car", "road", "dog", *map(str, range(107)), "bus"])
    metric = build_metric("amber_chair", {**files, "vectors": vectors})
    captions = ["A red car stands on a road ."] * 3 + ["A dog and a bus stand under the sky .", "A bus stands here ."]
    references = [["dog", "car"], ["cat", "car"], ["dog"], ["sky, dog, car, dog", "car"], ["dog", "dog, car"]]
    items = golden_items(captions, references)
    scores = metric.score(items, Context())
    assert scores.values == pytest.approx([1, np.nan, np.nan, 0, 1], nan_ok=True)
    # Nouns, hallucinated ones, words of the truth, covered, foreseen, cognitive, captions, hallucinating.
    assert np.stack([*scores.parts.values()], axis=1)[[0, 3, 4]].tolist() == [
        [2, 2, 1, 0, 1, 1, 1, 1], [3, 0, 4, 2, 1, 1, 1, 0], [1, 1, 1, 0, 2, 1, 1, 1]
    ]  # fmt: skip
    kinds = [build_metric(f"amber_{name.lower()}", {**files, "vectors": vectors}) for name in COUNTERS]
    assert [kind.label for kind in kinds] == [f"AMBER {name} (vectors)" for name in COUNTERS]
    assert [(kind.higher_is_better, kind.splits_words) for kind in kinds] == [
        (name == "Cover", True) for name in COUNTERS
    ]
    assert scores.failures[1] == "its word 'cat' is not among the associations"
    assert "expected 2, got 1" in scores.failures[2]
    # A word without a vector has a cosine of 0 with others, which is not above 0.
    at_zero = build_metric("amber_chair", {**files, "vectors": vectors, "similarity": 0})
    assert at_zero.score(golden_items(["A dog stands ."], [["sky", "sky"]]), Context()).values.tolist() == [1]
    with pytest.raises(MetricError, match="has no word vectors"):
        build_metric("amber_chair", {**files, "vectors": make_vectors(tmp_path / "none", [])}).check()
    with pytest.raises(MetricError, match="needs its files, as the settings 'associations' and 'safe_words'"):
        build_metric("amber_chair", {"safe_words": files["safe_words"]}).check()
    for content, fault in (
        ("{", "not JSON"),
        ("[]", "not an object of lists"),
        ('{"car": ""}', "not an object of lists"),
    ):
        (tmp_path / "relation.json").write_text(content)
        with pytest.raises(MetricError, match=fault):
            build_metric("amber_chair", {**files, "vectors": vectors}).check()
