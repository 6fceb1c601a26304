"""Simulate how often 95 % intervals hold the truth, and how often equal metrics get different letters.

Data are drawn from distributions whose true values are known, and intervals made as a run makes them. Each share has
the error of that many draws. Run by hand; a minute for each 100 draws::

    python speed/coverage.py
    python speed/coverage.py --draws 1000 --images 10 30 100 500
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from tabulate import tabulate

from capbench.benchmarks.statistics import Draws, statistics
from capbench.benchmarks.statistics.contract import RatedScores, Statistic
from capbench.benchmarks.statistics.influence import Ratio, Spread, ratio_intervals, spreads_of_all, spreads_of_values
from capbench.benchmarks.statistics.paired import paired_bootstrap, paired_means
from capbench.benchmarks.statistics.significance import rank

_MANY = 40_000
"""Images of the sample that gives a true value for which there is no formula."""
_CAPTIONS = 4
_SYSTEMS = np.array([[0.0, 0.25, 0.5, 0.8, 1.0], [0.0, 0.35, 0.45, 0.75, 1.0]])
"""True mean score and mean rating of five systems."""

Covers = Callable[[np.random.Generator, int, Draws], bool]
"""Draws data of so many images; returns whether the interval holds the truth, or whether letters differ."""


@dataclass(frozen=True)
class Case:
    """What is simulated.

    Attributes:
        name: Of the statistic and its data.
        covers: Draws once.
        marked: Whether its intervals have a caution at any number of images.
    """

    name: str
    covers: Covers
    marked: bool = False


def captions(generator: np.random.Generator, images: int, levels: int | None = None) -> RatedScores:
    """Return scores and ratings of four captions an image, whose quality both see, and the image's own effect."""
    image, quality = generator.normal(size=(images, 1)), generator.normal(size=(images, _CAPTIONS))
    scores = 0.5 * image + 0.8 * quality + 0.6 * generator.normal(size=quality.shape)
    human = 0.3 * image + 0.8 * quality + 0.6 * generator.normal(size=quality.shape)
    if levels:
        human = np.clip(np.round(human + levels / 2), 1, levels)
    return RatedScores(scores.ravel(), human.ravel(), np.arange(images).repeat(_CAPTIONS))


def of_systems(generator: np.random.Generator, images: int) -> RatedScores:
    """Return a score and a rating of each of five systems' captions of each image."""
    of_image = generator.normal(size=(2, images, 1)) * np.array([0.7, 0.5])[:, None, None]
    noise = generator.normal(size=(2, images, 5)) * np.array([0.8, 1.0])[:, None, None]
    scores, human = _SYSTEMS[:, None, :] + of_image + noise
    systems = np.tile(np.arange(5), images)
    return RatedScores(scores.ravel(), human.ravel(), np.arange(images).repeat(5), systems)


def holds(spread: Spread, truth: float, *, is_share: bool) -> bool:
    """Return whether the interval of a number holds a value."""
    interval = spread.interval(is_share=is_share)
    return interval.low is not None and interval.high is not None and interval.low <= truth <= interval.high


def statistic_case(name: str, data: Callable[[np.random.Generator, int], RatedScores], truth: float | None) -> Case:
    """Return the case of a statistic.

    Args:
        name: In the registry.
        data: Draws rows of so many images.
        truth: The true value; None for that of a large sample, or for SPA, whose p depend on the number of images, for
            the mean over samples of that number.
    """
    statistic: Statistic = statistics[name]()

    def value_of(rated: RatedScores) -> float:
        return statistic.value(rated, np.ones(len(rated)))

    @cache
    def true(images: int) -> float:
        if truth is not None:
            return truth
        generator = np.random.default_rng(1)
        if name == "soft_pairwise_accuracy":
            return float(np.mean([value_of(data(generator, images)) for _ in range(400)]))
        return value_of(data(generator, _MANY))

    def covers(generator: np.random.Generator, images: int, draws: Draws) -> bool:
        spread = spreads_of_all({"": ({"": statistic}, [data(generator, images)])}, draws)[""][""]
        return holds(spread, true(images), is_share=statistic.is_share)

    return Case(statistic.label, covers, bool(statistic.caution))


def share_case(true: float, pairs: int, alike: float = 0.0) -> Case:
    """Return the case of an accuracy.

    Args:
        true: The accuracy.
        pairs: Pairs an image.
        alike: Share of images whose pairs are all right or all wrong.
    """

    def covers(generator: np.random.Generator, images: int, draws: Draws) -> bool:
        right = generator.random((images, pairs)) < true
        right = np.where(generator.random((images, 1)) < alike, right[:, :1], right).ravel().astype(float)
        # The standard error of a mean is that of resamples without their error, and takes a hundredth of the time.
        quick = replace(draws, intervals="influence")
        spread = paired_means({"": right}, np.arange(images).repeat(pairs), quick)[""]
        return holds(spread, true, is_share=True)

    return Case(f"accuracy {true}, {pairs} pair{'s' * (pairs > 1)} an image{', alike' * (alike > 0)}", covers)


def mean_case(name: str, data: Callable[[np.random.Generator, int], np.ndarray], truth: float) -> Case:
    """Return the case of the mean of a metric, a caption an image."""

    def covers(generator: np.random.Generator, images: int, draws: Draws) -> bool:
        spread = paired_means({"": data(generator, images)}, np.arange(images), draws)[""]
        return holds(spread, truth, is_share=False)

    return Case(name, covers)


def hallucinated(generator: np.random.Generator, images: int, draws: Draws) -> bool:
    """Return whether the interval of CHAIRi holds: 8 % of some five mentions a caption."""
    mentions = generator.poisson(5, images) + 1
    ratio = Ratio(generator.binomial(mentions, 0.08).astype(float), mentions.astype(float), "", is_share=True)
    interval = ratio_intervals({"": ratio}, np.arange(images), draws, 0.95)[""]
    return interval.low is not None and interval.high is not None and interval.low <= 0.08 <= interval.high


def f1(generator: np.random.Generator, images: int, draws: Draws) -> bool:
    """Return whether the interval of the F1 of yes-no answers holds: six questions an image, 90 % right."""
    truth = generator.random((images, 6)) < 0.5
    answer = np.where(generator.random(truth.shape) < 0.9, truth, ~truth)
    terms = np.stack([(truth & answer).sum(axis=1), truth.sum(axis=1), answer.sum(axis=1)], axis=1).astype(float)

    def value(weights: np.ndarray) -> float:
        both, yes, said = weights @ terms
        return float(2 * both / (yes + said))

    return holds(spreads_of_values({"": (value, None)}, np.arange(images), draws)[""], 0.9, is_share=True)


def letters_of_accuracy(generator: np.random.Generator, images: int, draws: Draws) -> bool:
    """Return whether two metrics that are right on 80 % of three pairs an image get different letters."""
    common = generator.random((images * 3, 1)) < 0.5
    right = np.where(common, generator.random((images * 3, 1)) < 0.8, generator.random((images * 3, 2)) < 0.8)
    values = {str(metric): column.astype(float) for metric, column in enumerate(right.T)}
    return _differ(rank(paired_means(values, np.arange(images).repeat(3), draws), higher_is_better=True).groups)


def letters_of_correlation(generator: np.random.Generator, images: int, draws: Draws) -> bool:
    """Return whether two metrics with the same correlation get different letters."""
    rated = captions(generator, images)
    scores = 0.8 * rated.human + 0.9 * generator.normal(size=len(rated))
    other = 0.8 * rated.human + 0.9 * generator.normal(size=len(rated))
    several = {str(at): [RatedScores(column, rated.human, rated.groups)] for at, column in enumerate((scores, other))}
    return _differ(rank(paired_bootstrap(statistics["pearson"](), several, draws), higher_is_better=True).groups)


def _differ(groups: Mapping[str, str]) -> bool:
    first, second = groups.values()
    return bool(first) and not set(first) & set(second)


def cases() -> Iterator[Case]:
    """Yield what is simulated: intervals, then letters."""
    yield from (share_case(0.95, 1), share_case(0.99, 1), share_case(0.8, 4), share_case(0.9, 4, alike=0.3))
    yield Case("CHAIRi 0.08", hallucinated)
    yield Case("F1 0.9", f1)
    yield mean_case("mean, little skew", lambda generator, images: generator.beta(2, 5, images), 2 / 7)
    yield mean_case("mean, skewed as CIDEr", lambda generator, images: generator.gamma(1.5, size=images), 1.5)
    for name in ("pearson", "spearman"):
        yield statistic_case(name, captions, None)
    for name in ("kendall_b", "kendall_c", "sample_kendall", "accuracy_eq"):
        yield statistic_case(name, partial(captions, levels=5), None)
    yield statistic_case("system_pearson", of_systems, float(np.corrcoef(_SYSTEMS)[0, 1]))
    yield statistic_case("soft_pairwise_accuracy", of_systems, None)


LETTERS = (Case("accuracy", letters_of_accuracy), Case("PCC", letters_of_correlation))


def simulated(case: Case, images: int, draws: int, resamples: int) -> str:
    """Return the share of draws for which a case holds, with its error."""
    generator = np.random.default_rng([images, sum(map(ord, case.name))])
    settings = [Draws(resamples, seed, processes=1) for seed in range(draws)]
    share = float(np.mean([case.covers(generator, images, setting) for setting in settings]))
    return f"{share:.3f} ± {math.sqrt(max(share * (1 - share), 0.25 / draws) / draws):.3f}"


def main() -> None:
    """Print a table of coverage, and one of false letters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300, metavar="N", help="of each case (300)")
    parser.add_argument("--resamples", type=int, default=500, metavar="N", help="of each interval (500)")
    parser.add_argument("--images", type=int, nargs="+", default=[10, 30, 100], metavar="N", help="(10 30 100)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    options = parser.parse_args()
    for title, some in (("coverage of 95 %", list(cases())), ("letters of equal metrics", LETTERS)):
        rows = [
            [
                case.name + " (marked)" * case.marked,
                *(simulated(case, images, options.draws, options.resamples) for images in options.images),
            ]
            for case in some
            if options.only in case.name
        ]
        print(
            tabulate(rows, [title, *(f"{images} images" for images in options.images)], tablefmt="github"), flush=True
        )
        print()


if __name__ == "__main__":
    main()
