from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from named_features import NamedFeatures
from scored_in_shards import corpus_state, scored_in_shards

from capbench.adapters import ImageHandle
from capbench.errors import MetricError
from capbench.metrics import Context, Items
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.mid import (
    STEP,
    Mid,
    add_moments,
    distances,
    fixed,
    mean_and_covariance,
    moments,
    pointwise_information,
    whitening,
)

GOLDEN = read_golden("mid")


def normal() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features that the golden values were made of."""
    generator = np.random.default_rng(7)
    x = generator.normal(size=(40, 5))
    y = 0.7 * x + generator.normal(size=(40, 5))
    z = 0.5 * x + generator.normal(size=(40, 5))
    return tuple(v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y, z))  # type: ignore[return-value]


def items_of(pairs: Sequence[tuple[str, str, tuple[str, ...]]]) -> Items:
    """Items of (image, candidate, references)."""
    images, candidates, references = zip(*pairs, strict=True) if pairs else ((), (), ())
    return golden_items(candidates, references, images=[ImageHandle(image.encode()) for image in images])


@pytest.fixture
def encoder() -> NamedFeatures:
    """Images i0..i39, their references r0..r39 and candidates c0..c39."""
    x, y, z = normal()
    return NamedFeatures(
        {f"{kind}{n}": row for kind, rows in zip("irc", (x, y, z), strict=True) for n, row in enumerate(rows)}
    )


@pytest.fixture
def items() -> Items:
    return items_of([(f"i{n}", f"c{n}", (f"r{n}",)) for n in range(40)])


def test_released_unit_test():
    unit = GOLDEN["unit test"]
    x, y = np.array(unit["x"]), np.array(unit["y"])
    information, distance = pointwise_information(x, y, 1.1 * x, y)
    assert information == pytest.approx(0.1543, abs=5e-5)
    np.testing.assert_allclose(information + distance, unit["pointwise"], rtol=1e-12)
    value = information + distance.sum() / (len(x) - 1)
    assert value == pytest.approx(unit["value"], rel=1e-12)
    assert value == pytest.approx(unit["printed"], abs=5e-5)


@pytest.mark.parametrize(("kind", "eps"), [("made", 0.0), ("eps", 5e-4), ("real", 0.0)])
def test_values_of_the_released_code(kind: str, eps: float):
    x, y, z = normal()
    # The released code scores images made from texts, against the real images of the texts.
    information, distance = pointwise_information(x, y, x if kind == "real" else z, y, eps)
    # The released code rounds eps to single precision.
    tolerance = 1e-6 if eps else 1e-9
    np.testing.assert_allclose(information + distance, GOLDEN[kind]["pointwise"], rtol=tolerance)
    assert information + distance.sum() / 39 == pytest.approx(GOLDEN[kind]["value"], rel=tolerance)


def test_captions_are_scored_against_the_gaussians_of_references(encoder: NamedFeatures, items: Items):
    metric, (x, y, z) = Mid(), normal()
    scores = metric.score(items, Context(encoder=encoder))
    information, distance = pointwise_information(x, y, x, z)
    np.testing.assert_allclose(scores.values, information + distance, rtol=1e-4)
    assert metric.corpus(scores, items.weights) == pytest.approx(information + distance.sum() / 39, rel=1e-4)


def test_captions_are_scored_against_their_own_gaussians_without_references(encoder: NamedFeatures):
    items = items_of([(f"i{n}", f"r{n}", ()) for n in range(40)])
    metric = Mid(gaussian="candidates")
    assert metric.needs == {"image", "encoder"}
    scores = metric.score(items, Context(encoder=encoder))
    np.testing.assert_allclose(scores.values, GOLDEN["real"]["pointwise"], rtol=1e-4)
    assert metric.corpus(scores, items.weights) == pytest.approx(GOLDEN["real"]["value"], rel=1e-4)


def test_pairs_that_occur_twice_count_once(encoder: NamedFeatures, items: Items):
    once = Mid().score(items, Context(encoder=encoder))
    more = items_of([(f"i{n}", f"{c}{n}", (f"r{n}", f"r{n}")) for n in range(40) for c in "cr"])
    scores = Mid().score(more, Context(encoder=encoder))
    np.testing.assert_allclose(scores.values[::2], once.values, rtol=1e-9)


def test_what_cannot_be_encoded_costs_no_other(encoder: NamedFeatures, items: Items):
    with_faults = items_of(
        [(f"i{n}", f"c{n}", (f"r{n}",)) for n in range(40)] + [("gone", "c1", ("r1",)), ("i2", "gone", ("r2", "gone"))]
    )
    scores = Mid().score(with_faults, Context(encoder=encoder))
    assert scores.failures == {40: "image: cannot be read", 41: "text: cannot be read"}
    assert np.isnan(scores.values[40:]).all()
    np.testing.assert_allclose(scores.values[:40], Mid().score(items, Context(encoder=encoder)).values, rtol=1e-9)


def test_fewer_pairs_than_features_are_refused_with_the_remedy(encoder: NamedFeatures):
    items = items_of([(f"i{n}", f"c{n}", (f"r{n}",)) for n in range(10)])
    with pytest.raises(MetricError, match=r"10 pairs for 10 dimensions.*\n.*Score more captions together"):
        Mid().score(items, Context(encoder=encoder))


def test_corpus_value_needs_two_captions():
    assert Mid().pool(np.array([3.0, 0.25, 2.0])) == 1.75
    assert np.isnan(Mid().pool(np.array([1.5, 0.25, 1.0])))


@pytest.mark.parametrize("eps", [0.0, 5e-4])
@pytest.mark.parametrize(
    ("kind", "part", "rank"), [("i", "images", "4 of 5"), ("r", "captions", "4 of 5"), ("ir", "both", "9 of 10")]
)
def test_features_that_depend_on_one_another_are_refused_by_name(encoder, items, kind, part, rank, eps):
    for n in range(40):
        if kind == "ir":
            # The last number of an image's features is that of its reference's: both together lack a direction.
            encoder.features[f"r{n}"][-1] = encoder.features[f"i{n}"][-1]
        else:
            encoder.features[f"{kind}{n}"][-1] = encoder.features[f"{kind}{n}"][0]
    real = [np.stack([encoder.features[f"{kind}{n}"] for n in range(40)]) for kind in "ir"]
    with pytest.raises(MetricError, match=rf"covariance of {part}.* singular \(rank {rank}") as caught:
        pointwise_information(*real, *real, eps)
    assert "Score more different images" in caught.value.hint


def test_images_that_are_all_alike_are_refused_by_name(encoder: NamedFeatures, items: Items):
    for n in range(40):
        encoder.features[f"i{n}"] = encoder.features["i0"]
    with pytest.raises(MetricError, match="feature covariance of images is singular"):
        Mid().score(items, Context(encoder=encoder))


def test_features_of_zeros_are_named_and_cost_no_other(encoder: NamedFeatures, items: Items):
    expected = Mid().score(items, Context(encoder=encoder)).values
    encoder.features |= {"dark": np.zeros(5), "mute": np.zeros(5)}
    with_zeros = items_of(
        [(f"i{n}", f"c{n}", (f"r{n}",)) for n in range(40)] + [("dark", "c1", ("r1",)), ("i2", "mute", ("r2", "mute"))]
    )
    scores = Mid().score(with_zeros, Context(encoder=encoder))
    reason = "its features are all 0, and have no direction"
    assert scores.failures == {40: f"image: {reason}", 41: f"text: {reason}"}
    np.testing.assert_allclose(scores.values[:40], expected, rtol=1e-9)


@pytest.fixture
def many(encoder: NamedFeatures) -> Items:
    """Captions of 60 rows: images, references and pairs that stand in several shards, weights, and two faults."""
    pairs = [(f"i{n % 40}", f"{'cr'[n % 2]}{n % 13}", (f"r{n % 40}", f"r{n % 7}")) for n in range(58)]
    items = items_of([*pairs, ("gone", "c1", ("r1",)), ("i2", "gone", ("r2", "gone"))])
    return replace(items, weights=np.arange(60) % 3 + 1)


@pytest.mark.parametrize(("shards", "parts"), [(1, 1), (7, 3), (12, 16)])
@pytest.mark.parametrize("arguments", [{"eps": 5e-4}, {"gaussian": "candidates"}])
def test_values_are_the_same_to_the_bit_whatever_the_shards(encoder, many, arguments, shards, parts):
    metric, context = Mid(**arguments), Context(encoder=encoder)
    whole = metric.score(many, context)
    scores, value = scored_in_shards(metric, many, context, shards, parts)
    np.testing.assert_array_equal(scores.values, whole.values)
    for name, part in whole.parts.items():
        np.testing.assert_array_equal(scores.parts[name], part)
    assert scores.failures == whole.failures != {}
    assert value == metric.corpus(whole, many.weights)


def test_pairs_are_told_apart_by_image_and_text(encoder: NamedFeatures):
    metric, context = Mid(), Context(encoder=encoder)
    encoder.features |= {"R1": encoder.features["r1"], "I1": encoder.features["i1"]}
    states = [
        metric.state_map(items_of([row]), context)
        for row in [("i1", "c1", ("r1",)), ("i1", "c2", ("R1",)), ("I1", "c1", ("r1",)), ("i1", "c9", ("r1", "r1"))]
    ]
    merged = metric.merge(states)
    assert len(merged["pairs of references"]) == 3
    assert metric.condense(merged)["count"].tolist() == [3]
    empty = metric.state_map(items_of([("gone", "c1", ("r1",))]), context)
    assert metric.merge([empty, *states])["images"].tolist() == merged["images"].tolist()


def test_shards_of_no_pair_are_too_few(encoder: NamedFeatures):
    metric, context = Mid(), Context(encoder=encoder)
    empty = [metric.state_map(items_of(rows), context) for rows in ([], [("gone", "c1", ("r1",))])]
    with pytest.raises(MetricError, match="MID needs more image-caption pairs"):
        corpus_state(metric, empty, 2)


def test_state_of_another_metric_or_step_is_refused(encoder: NamedFeatures, items: Items):
    metric, context = Mid(), Context(encoder=encoder)
    of_candidates = Mid(gaussian="candidates").state_map(items, context)
    pairs = metric.state_map(items, context)
    condensed = metric.condense(pairs)
    for work in (
        lambda: metric.merge([pairs, of_candidates]),
        lambda: metric.partition(condensed, 2),
        lambda: metric.condense(of_candidates),
        lambda: metric.join([pairs]),
        lambda: metric.score(items, context, condensed),
        lambda: metric.score(items, context, {"ngrams": np.ones(1)}),
    ):
        with pytest.raises(MetricError, match="MID: the state has"):
            work()


def unit(n: int, d: int, about: float = 0.0) -> np.ndarray:
    """Return features of norm 1, most of which is along the first axis where ``about`` is large."""
    rows = np.random.default_rng(d).normal(size=(n, d))
    rows[:, 0] += about
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_features_are_rounded_to_the_nearest_multiple():
    rounded = fixed(np.array([[1.0, -1.0, 0.6 * STEP, -0.4 * STEP]]))
    assert rounded.dtype == np.int32
    assert rounded.tolist() == [[2**30, -(2**30), 1, 0]]


def test_moments_are_exact_however_the_rows_are_split(monkeypatch: pytest.MonkeyPatch):
    rows = fixed(unit(50, 4, about=9))
    # The ends of what a feature can be.
    rows[:4] = [[2**30, 0, 0, -(2**30)], [-(2**30), 2**14, -(2**14), 1], [2**15 - 1, -(2**15), 0, 0], [0, 0, 0, 0]]
    whole = moments(rows)
    monkeypatch.setattr("capbench.metrics.mid._ROWS", 8)
    nothing = moments(np.zeros((0, 0), dtype=np.int32))
    parts = add_moments([nothing, moments(rows[30:]), moments(rows[:30])])
    for name, array in whole.items():
        assert array.dtype == parts[name].dtype == np.int64
        np.testing.assert_array_equal(parts[name], array)
    high, cross, low = whole["products"].astype(object)
    exact = rows.astype(object)
    assert (exact.T @ exact == high * 2**30 + (cross + cross.T) * 2**15 + low).all()
    assert (whole["sums"] == exact.sum(axis=0)).all()


@pytest.mark.parametrize("about", [0.0, 1e3])
def test_mean_and_covariance_are_the_true_ones_rounded(about: float):
    rows = fixed(unit(40, 3, about))
    mean, covariance = mean_and_covariance(moments(rows))
    exact = [[Fraction(value) * Fraction(STEP) for value in row] for row in rows.tolist()]
    true_mean = [sum(column) / 40 for column in zip(*exact, strict=True)]
    np.testing.assert_allclose(mean, np.array(true_mean, dtype=float), rtol=1e-15)
    for i in range(3):
        for j in range(3):
            true = sum((row[i] - true_mean[i]) * (row[j] - true_mean[j]) for row in exact) / 39
            # The features of norm 1 about one axis vary by a millionth of their size: nothing of it is lost.
            assert covariance[i, j] == pytest.approx(float(true), rel=1e-14, abs=0)


def test_rows_that_are_all_alike_have_no_covariance_at_all():
    rows = np.repeat(fixed(unit(1, 5)), 30, axis=0)
    mean, covariance = mean_and_covariance(moments(rows))
    assert not covariance.any()
    assert (mean == rows[0] * STEP).all()
    assert whitening(covariance, 0.0)[2] == 0
    assert not mean_and_covariance(moments(rows[:1]))[1].any()
    assert mean_and_covariance(moments(fixed(unit(2, 5))))[1].any()


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_distances_are_those_of_mahalanobis(eps: float):
    rows = unit(300, 24, about=2).astype(np.float64)
    mean, covariance = rows.mean(axis=0), np.cov(rows.T)
    whitened, log_determinant, rank = whitening(covariance, eps)
    outside = rows - mean
    expected = np.einsum("ij,ji->i", outside, np.linalg.solve(covariance + eps * np.eye(24), outside.T))
    np.testing.assert_allclose(distances(rows, mean, whitened), expected, rtol=1e-11)
    assert log_determinant == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-12)
    assert rank == 24


@pytest.mark.parametrize(("n", "d"), [(1100, 5), (600, 130), (600, 512)])
def test_distance_of_a_row_does_not_depend_on_those_beside_it(n, d, monkeypatch):
    rows = unit(n, d, about=2).astype(np.float64)
    mean, covariance = mean_and_covariance(moments(fixed(rows)))
    whitened, _, _ = whitening(covariance, 0.0)
    whole = distances(rows, mean, whitened)
    sequence = np.random.default_rng(0).permutation(n)
    for which in (sequence[:1], sequence[1:4], sequence[4:100], sequence[100:]):
        np.testing.assert_array_equal(distances(rows[which], mean, whitened), whole[which])
    monkeypatch.setattr("capbench.metrics.mid._ROWS", 37)
    np.testing.assert_array_equal(distances(rows, mean, whitened), whole)
    assert distances(rows[:0], mean, whitened).shape == (0,)
