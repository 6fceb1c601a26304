import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from in_shards import RankOf
from scored_in_shards import scored_in_shards, shuffled

from capbench.errors import MetricError
from capbench.metrics import MEAN, Aggregate, Context, CorpusMetric, Items, Metric, Scores, add_sums, build_metric
from capbench.metrics.bleu import Bleu1, Bleu4
from capbench.metrics.chair import ChairI
from capbench.metrics.cider import Cider
from capbench.metrics.contract import kept
from capbench.metrics.gpt4_eval import Gpt4Eval
from capbench.metrics.length import Length
from capbench.metrics.meteor.metric import N_STATISTICS, Meteor
from capbench.metrics.mid import Mid

SHARDS = (1, 7, 40)


def counts(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 90, size=shape).astype(np.float64)


VALUES = np.random.default_rng(2).normal(size=300) ** 7


def scores_of(kind: type[Aggregate]) -> Scores:
    """Return scores of 300 items, as the metric's ``score`` does; one in ten has no value."""
    failed = np.arange(300) % 10 == 3
    lengths = {"candidate_length": counts((300,)), "reference_length": 5 + counts((300,))}
    parts = {
        Bleu4: {"correct": counts((300, 4)), "guessed": 90 + counts((300, 4)), **lengths},
        ChairI: {"mentions": 90 + counts((300,)), "hallucinated": counts((300,))},
        Meteor: {"statistics": counts((300, N_STATISTICS))},
        Mid: {"information": np.full(300, 1 / 3), "distance": VALUES / 7},
    }.get(kind, {})
    blank = np.nan if kind is Mid else 0.0
    for part in parts.values():
        part[failed] = blank
    return Scores(np.where(failed, np.nan, VALUES), parts)


def take(scores: Scores, which: np.ndarray) -> Scores:
    return Scores(scores.values[which], {name: part[which] for name, part in scores.parts.items()})


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("metric", [MEAN, Bleu4(), ChairI(), Meteor(), Mid()], ids=lambda metric: type(metric).__name__)
def test_corpus_value_is_the_same_to_the_bit_whatever_the_shards(metric: Aggregate, shards: int):
    scores, weights = scores_of(type(metric)), np.random.default_rng(3).integers(1, 9, size=300)
    of_shards = [metric.sums(take(scores, which), weights[which]) for which in shuffled(300, shards)]
    assert {array.dtype for shard in of_shards for array in shard.values()} == {np.dtype(np.int64)}
    value = metric.value(add_sums(of_shards))
    assert value == metric.corpus(scores, weights)
    # A resample's value, in plain floating point, is the same but for rounding.
    assert metric.pool(weights @ metric.terms(scores)) == pytest.approx(value, rel=1e-12)


def test_mean_is_rounded_once_and_of_items_that_have_a_value():
    scores = Scores(np.array([1e16, 1.0, -1e16, np.nan, 5.0]))
    assert MEAN.corpus(scores, np.array([1, 3, 1, 7, 0])) == 3 / 5
    assert np.isnan(MEAN.corpus(scores, np.array([0, 0, 0, 7, 0])))


def test_mean_of_a_metric_with_a_corpus_value_of_its_own_is_a_mean(make_items: Callable[..., Items]):
    items = make_items(["a dog", "the cat sat"], [["a dog"], ["a bird"]])
    scores = Bleu1().score(items, Context())
    assert MEAN.corpus(scores, items.weights) == scores.values.mean() != Bleu1().corpus(scores, items.weights)


class Median(Metric):
    """A metric whose corpus value is not made of sums."""

    label = "median"
    source = "a package of one's own"

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.array([float(len(text)) for text in items.candidates]))

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        return float(np.median(scores.values))


def test_metric_says_whether_its_corpus_value_is_made_of_sums():
    assert not Median().has_sums
    assert all(metric.has_sums for metric in (Length(), Bleu4(), ChairI(), Meteor(), Mid()))


def test_metric_says_whether_shards_can_be_scored_with_a_state():
    assert not RankOf().has_state and RankOf().corpus_dependent
    assert not Gpt4Eval().has_state
    assert Cider().has_state and Mid().has_state
    # Its items do not depend on the others.
    assert not Cider(document_frequencies="captions.json").has_state
    assert isinstance(Cider(), CorpusMetric)


# Of a metric, what is said of settings that it cannot have; "" where each is named.
REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))["metrics"]


@pytest.mark.parametrize(
    ("metric", "message", "settings"),
    [(name, said, settings) for name, said, several in REFUSED for settings in several],
)
def test_setting_that_cannot_be_is_refused(metric: str, message: str, settings: dict[str, Any]):
    with pytest.raises(ValueError, match=message or next(iter(settings))):
        build_metric(metric, settings)


# Files that settings name: two contents, and what is said where there is none.
FILES = [
    ("chair_i", "synonyms", "table.txt", ("puppy", "pup"), "not on this machine"),
    ("cider", "document_frequencies", '[{"image_id": 1, "caption": "a dog"}]', ("dog", "cat"),
     r"document_frequencies: .*gone\.json: cannot be read: No such file"),
    ("emscore", "idf", '{"1": ["a dog"]}', ("dog", "cat"), "there is no such file"),
    ("fleur", "prompt", "Rate {candidate}!", ("Rate", "Judge"), "No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "setting", "content", "change", "said"), FILES, ids=[file[0] for file in FILES])
def test_file_of_a_setting_is_known_by_its_content_and_missed_before_work(
    name: str, setting: str, content: str, change: tuple[str, str], said: str, table_file: Path, tmp_path: Path
):
    def metric(file: str) -> Metric:
        return build_metric(name, {setting: str(tmp_path / file)})

    content = table_file.read_text() if content == "table.txt" else content
    for file, text in {"a.json": content, "b.json": content, "c.json": content.replace(*change)}.items():
        (tmp_path / file).write_text(text)
    a, b, c = (metric(file).fingerprint() for file in ("a.json", "b.json", "c.json"))
    assert a == b != c
    if name != "chair_i":
        # CHAIR's own table may lie on no machine.
        assert build_metric(name, {}).fingerprint() not in (a, c)
    with pytest.raises(MetricError, match=said):
        metric("gone.json").check()


@pytest.fixture
def examples() -> dict[str, Any]:
    """The metrics that docs/extending.md shows how to write; none is registered."""
    text = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        if "Overlap" in code or "CorpusMetric" in code:
            exec(re.sub(r"(?s)@capbench.*?\n|run = .*", "", code), namespace)  # noqa: S102 - our own document
    return namespace


def test_metric_of_ones_own_pools_what_it_adds_up(examples: dict[str, Any], make_items: Callable[..., Items]):
    metric = examples["PooledOverlap"]()
    items = make_items(["a dog", "the cat sat down", "x"], [["a dog"], ["the cat"], ["y"]], [1, 2, 1])
    scores = metric.score(items, Context())
    assert metric.has_sums
    assert metric.corpus(scores, items.weights) == (2 + 2 * 2) / (2 + 2 * 4 + 1)
    assert MEAN.corpus(scores, items.weights) == (1 + 2 * 0.5) / 4
    assert np.isnan(metric.corpus(scores, np.zeros(3)))


@pytest.mark.parametrize("shards", SHARDS)
def test_metric_of_ones_own_is_scored_with_its_state(examples: dict[str, Any], composed: Items, shards: int):
    metric = examples["RelativeLength"]()
    assert metric.has_state
    whole = metric.score(composed, Context())
    assert MEAN.corpus(whole, composed.weights) == pytest.approx(1)
    scores, value = scored_in_shards(metric, composed, Context(), shards)
    np.testing.assert_array_equal(scores.values, whole.values)
    assert value == metric.corpus(whole, composed.weights)


def test_what_was_computed_in_a_second_is_kept_at_once_and_all_of_it_before_an_error(cache):
    def compute(missing: list[str]) -> Iterator[dict[str, int]]:
        yield from ({text: len(text)} for text in missing[:2])
        raise MetricError("the third")

    with pytest.raises(MetricError):
        kept(cache, {}, ["a", "bb", "a", "ccc"], compute)
    assert cache.batches == [2]
    assert kept(cache, {}, ["bb", "ccc"], lambda missing: [dict.fromkeys(missing, 0)]) == {"bb": 2, "ccc": 0}
    assert cache.batches == [2, 1]
