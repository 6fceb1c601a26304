import json
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pycocoevalcap.cider.cider_scorer import CiderScorer
from scored_in_shards import corpus_state, scored_in_shards, shuffled

from capbench.errors import DataError, MetricError
from capbench.metrics import Context, Items
from capbench.metrics.cider import Cider
from capbench.metrics.words.ptb import FINGERPRINT, tokenize_items, tokenize_text


def by_definition(items: Items, variant: str) -> list[float]:
    """Vedantam et al. 2015, equations 1 to 4, word for word, with dictionaries."""
    tokenized = tokenize_items(items)
    sets = [tokenized.reference_sets[number] for number in items.reference_sets[1]]

    def grams(text: str, n: int) -> Counter:
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    values = []
    for candidate, references in zip(tokenized.candidates, sets, strict=True):
        total = 0.0
        for n in (1, 2, 3, 4):
            held = [
                (set().union(*(grams(text, n) for text in texts)), w)
                for texts, w in zip(sets, items.weights, strict=True)
            ]

            def vector(text: str, n: int = n, held: list = held) -> dict:
                rows = sum(weight for _, weight in held)
                return {
                    gram: count * np.log(rows / max(1, sum(weight for grams, weight in held if gram in grams)))
                    for gram, count in grams(text, n).items()
                }

            ours = vector(candidate)
            for reference in references:
                theirs = vector(reference)
                norms = np.sqrt(sum(x * x for x in ours.values()) * sum(x * x for x in theirs.values()))
                pairs = [(ours[gram], theirs[gram]) for gram in ours.keys() & theirs.keys()]
                if variant == "d":
                    pairs = [(min(a, b), b) for a, b in pairs]
                cosine = sum(a * b for a, b in pairs) / norms if norms else 0.0
                if variant == "d":
                    delta = max(len(candidate.split()) - 1, 0) - max(len(reference.split()) - 1, 0)
                    cosine *= np.exp(-(delta**2) / (2 * 6**2))
                total += 10 * cosine / len(references) / 4
        values.append(total)
    return values


@pytest.mark.parametrize("variant", ["d", "plain"])
def test_values_follow_the_definition(make_items, variant):
    items = make_items(
        ["a dog runs runs fast", "the cat sat on the mat", "a bird", "a dog runs"],
        [
            ["a dog runs", "one dog is running fast today"],
            ["the cat sat on a mat", "the the cat"],
            ["a man rides", "a bird flies"],
            ["a dog runs", "one dog is running fast today"],
        ],
        [3, 1, 2, 1],
    )
    values = Cider(variant=variant).score(items, Context()).values
    np.testing.assert_allclose(values, by_definition(items, variant), rtol=1e-12)


def test_value_calculated_by_hand(make_items):
    # Two rows, so a word of one image weighs log 2 and a word of both nothing. Candidate "x y y", reference
    # "x y". CIDEr-D: unigrams (1, 2) clipped to (1, 1) against (1, 1): 2 / sqrt(5 * 2). Bigrams xy, yy
    # against xy: 1 / sqrt(2). Length differs by one bigram: exp(-1/72). No longer n-grams.
    items = make_items(["x y y", "z"], [["x y"], ["z"]])
    scores = Cider().score(items, Context())
    expected = 10 * np.array([2 / np.sqrt(10), 1 / np.sqrt(2), 0, 0]) * np.exp(-1 / 72)
    np.testing.assert_allclose(scores.parts["per_order"][0], expected)
    assert scores.values[0] == pytest.approx(expected.mean())
    # Plain: unigrams (1, 2) against (1, 1): 3 / sqrt(10), and no penalty.
    plain = Cider(variant="plain").score(items, Context())
    np.testing.assert_allclose(plain.parts["per_order"][0], [30 / np.sqrt(10), 10 / np.sqrt(2), 0, 0])


def test_fingerprint_says_the_variant_and_the_tokenizer():
    assert Cider().fingerprint() == {"metric": "Cider", "variant": "d", "tokenizer": FINGERPRINT}


def test_references_of_a_single_image_are_an_error(make_items):
    items = make_items(["a dog", "a cat"], [["a dog runs"]] * 2, [3, 1])
    with pytest.raises(MetricError, match="single image every weight is 0"):
        Cider().score(items, Context())


def test_empty_candidate_scores_0_and_its_references_still_count(make_items):
    references = [["a dog runs"], ["a cat"], ["a dog sits"]]
    scores = Cider().score(make_items(["a dog runs", "!", "a dog"], references), Context())
    assert scores.failures == {}
    assert scores.values[1] == 0
    other = Cider().score(make_items(["a dog runs", "a cat", "a dog"], references), Context())
    np.testing.assert_array_equal(scores.values[[0, 2]], other.values[[0, 2]])


def given(path: Path, rows: list[tuple[int, str]]) -> Path:
    """Write captions as COCO's file."""
    annotations = [{"image_id": image, "id": n, "caption": text} for n, (image, text) in enumerate(rows)]
    path.write_text(json.dumps({"images": [], "annotations": annotations}))
    return path


@pytest.fixture
def corpus(composed: Items) -> list[tuple[int, str]]:
    """Captions of other images, some of which share n-grams with the items, and one that has no token."""
    texts = [text for references in composed.references[:40] for text in references]
    return [(n // 3, text) for n, text in enumerate([*texts, "A zebra grazes.", "A zebra grazes.", "..."])]


class Given(CiderScorer):
    """The released scorer with document frequencies and a number of documents that are given."""

    frequencies: ClassVar[dict[tuple[str, ...], float]] = {}
    documents: ClassVar[int] = 0

    def compute_doc_freq(self) -> None:
        self.document_frequency.update(self.frequencies)
        # Its number of documents is that of the entries: the first is repeated until there are enough.
        missing = self.documents - len(self.crefs)
        self.crefs += [self.crefs[0]] * missing
        self.ctest += [self.ctest[0]] * missing


def test_values_with_given_frequencies_are_those_of_pycocoevalcap(composed, corpus, tmp_path):
    items = composed.subset(np.array([0, 3, 30, 59, 65, 70, 100, 150]))
    tokenized = tokenize_items(items)
    by_image: dict[int, list[str]] = {}
    for image, text in corpus:
        by_image.setdefault(image, []).append(tokenize_text(text))
    counter = CiderScorer()
    for texts in by_image.values():
        counter += ("x", texts)
    counter.compute_doc_freq()
    Given.frequencies, Given.documents = dict(counter.document_frequency), len(by_image)
    released = Given()
    for candidate, its_set in zip(tokenized.candidates, items.reference_sets[1], strict=True):
        released += (candidate, list(tokenized.reference_sets[its_set]))
    _, values = released.compute_score()
    assert len(values) == len(by_image) > len(items)
    scores = Cider(document_frequencies=given(tmp_path / "captions.json", corpus)).score(items, Context())
    np.testing.assert_allclose(scores.values, values[: len(items)], rtol=0, atol=1e-9)


def test_layouts_of_the_captions_give_the_same_frequencies(composed, corpus, tmp_path):
    as_lines = tmp_path / "captions.jsonl"
    as_lines.write_text("".join(json.dumps({"image": image, "caption": text}) + "\n" for image, text in corpus))
    as_list = tmp_path / "list.json"
    as_list.write_text(json.dumps([{"image_id": image, "caption": text} for image, text in corpus]))
    first, *others = [
        Cider(document_frequencies=path).score(composed, Context()).values
        for path in (given(tmp_path / "captions.json", corpus), as_lines, as_list)
    ]
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"images": []}', "has no list 'annotations'"),
        ("a.json", '{"annotations": [{"image_id": 1, "caption": null}]}', "row 1 has no image or no caption"),
        ("a.json", "[5]", "row 1 has no image or no caption"),
        ("a.jsonl", '{"image": 1, "caption": "a"}\n{"caption": "a"}\n', "row 2 has no image or no caption"),
        ("a.jsonl", "{", "a.jsonl:1: not JSON"),
        ("a.jsonl", "", "has no caption"),
    ],
)
def test_captions_that_cannot_be_read_are_an_error(make_items, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        Cider(document_frequencies=tmp_path / name).score(make_items(["a"], [["a"]]), Context())


@pytest.mark.parametrize(("shards", "parts"), [(1, 1), (7, 3), (12, 16)])
def test_values_are_the_same_to_the_bit_whatever_the_shards(composed: Items, shards: int, parts: int):
    for metric in (Cider(), Cider(variant="plain")):
        whole = metric.score(composed, Context())
        scores, value = scored_in_shards(metric, composed, Context(), shards, parts)
        np.testing.assert_array_equal(scores.values, whole.values)
        np.testing.assert_array_equal(scores.parts["per_order"], whole.parts["per_order"])
        assert scores.failures == whole.failures
        assert value == metric.corpus(whole, composed.weights)


def test_an_item_has_one_value_whatever_stands_beside_it_in_its_shard(composed: Items):
    metric = Cider()
    whole = metric.score(composed, Context()).values
    state = metric.joined([metric.state_map(composed, Context())])
    for item in (0, 3, 150):
        alone = composed.subset(np.array([item]))
        assert metric.score(alone, Context(), state).values.tolist() == [whole[item]]


def test_hash_of_an_ngram_is_the_same_on_every_machine(make_items):
    state = Cider().state_map(make_items(["dog"], [["a dog ran"]]), Context())
    a, dog, ran = (int.from_bytes(blake2b(word, digest_size=8).digest(), "little") for word in (b"a", b"dog", b"ran"))
    base = 0x9E3779B97F4A7C13
    polynomials = [a, dog, ran, a * base + dog, dog * base + ran, a * base**2 + dog * base + ran]
    assert state["ngrams"].tolist() == sorted(number % 2**64 for number in polynomials)


def test_ngrams_that_all_stand_in_one_row_weigh_the_most(make_items):
    items = make_items(["a dog", "x"], [["a dog"], ["one cat"]])
    metric = Cider()
    state = metric.joined([metric.state_map(items, Context())])
    assert not len(state["ngrams"])
    assert metric.score(items, Context(), state).parts["per_order"].tolist() == [
        [pytest.approx(10), pytest.approx(10), 0, 0],
        [0, 0, 0, 0],
    ]


def test_no_worker_holds_more_than_its_part(composed: Items):
    metric = Cider()
    state = metric.state_map(composed, Context())
    parts = metric.partition(state, 16)
    sizes = [len(part["ngrams"]) for part in parts]
    assert sum(sizes) == len(state["ngrams"])
    assert max(sizes) < 2 * len(state["ngrams"]) / 16
    np.testing.assert_array_equal(np.concatenate([part["ngrams"] for part in parts]), state["ngrams"])


def test_single_image_is_found_out_over_all_shards(make_items):
    metric = Cider()
    shard = metric.state_map(make_items(["a dog", "a cat"], [["a dog runs"]] * 2, [3, 1]), Context())
    nothing = metric.state_map(make_items([], []), Context())
    with pytest.raises(MetricError, match="single image every weight is 0"):
        corpus_state(metric, [shard, nothing, shard], 4)
    other = metric.state_map(make_items(["a dog"], [["a bird"]]), Context())
    assert corpus_state(metric, [shard, nothing, other], 4)["rows"].tolist() == [5]


def test_state_of_another_metric_or_step_is_refused(composed: Items):
    metric = Cider()
    counted = metric.state_map(composed, Context())
    joined = metric.joined([counted])
    for work in (
        lambda: metric.score(composed, Context(), counted),
        lambda: metric.score(composed, Context(), {"moments": np.ones(3)}),
        lambda: metric.merge([counted, joined]),
        lambda: metric.join([{}]),
    ):
        with pytest.raises(MetricError, match="CIDEr: the state has"):
            work()


def test_with_given_frequencies_shards_have_the_values_of_the_whole(composed, corpus, tmp_path):
    metric = Cider(document_frequencies=given(tmp_path / "captions.json", corpus))
    assert Cider().corpus_dependent and not metric.corpus_dependent
    whole = metric.score(composed, Context())
    for which in shuffled(len(composed), 7):
        np.testing.assert_array_equal(metric.score(composed.subset(which), Context()).values, whole.values[which])


def test_kept_ngrams_are_those_of_the_items(make_items):
    # A letter beyond the basic plane, half of one, and no word at all.
    for texts in (["a \U0001f600 \ud800 dog", "x"], ["!", ""]):
        items = make_items(texts, [["a dog"], ["!"]])
        metric, again = Cider(), make_items(texts, [["a dog"], ["!"]])
        state = metric.joined([metric.state_map(make_items(["a", "b"], [["a dog"], ["a cat"]]), Context())])
        metric.restore(again, metric.keep(items))
        kept, expected = metric.score(again, Context(), state), metric.score(items, Context(), state)
        np.testing.assert_array_equal(kept.values, expected.values)
        assert kept.failures == expected.failures == {1: "no reference has a token after tokenisation"}
        assert "ptb" not in again.memo
