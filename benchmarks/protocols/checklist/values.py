"""What metrics make of changed captions, as numbers, and which metric does better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...statistics.near_ties import settle
from ..comparisons import ComparedRows, Draws, PairedEstimates, compare_credit
from .changing import CLEAN
from .rules import RULES, Rule
from .shares import Share

COMPARED: dict[str, Rule] = {
    f"{'falls' if rule.expected == 'fall' else 'equal'}.{rule.name}": rule for rule in RULES
}
"""What metrics are compared by: of each rule the share of captions that do as they should. Games are of no honest
caption, so that no metric is the better one for its value."""


@dataclass(frozen=True)
class Scored:
    """Scores of captions and of what one rule made of them; more is better.

    Attributes:
        clean: ``[n]`` scores of the captions as they were.
        changed: ``[n]`` of the changed ones.
        applies: ``[n]`` whether the rule changed them.
        unit: Standard deviation of the scores of all captions.
    """

    clean: np.ndarray
    changed: np.ndarray
    applies: np.ndarray
    unit: float

    def values(self, rule: Rule) -> Iterator[tuple[str, Share]]:
        """Yield name and value of each result of a rule; see ``Checklist``."""
        if rule.expected == "game":
            yield "pays", self._pays()
        else:
            shares = self._shares()
            first = "falls" if rule.expected == "fall" else "equal"
            for name in sorted(shares, key=lambda one: one != first):
                yield name, shares[name]
        yield "change", self._change(absolute=rule.expected == "stay")

    def _shares(self) -> dict[str, Share]:
        """Return the shares of captions that fall, stay and rise; one without a score does none of these."""
        before, after = settle(self.clean), settle(self.changed)
        every, why = self.applies.astype(float), "no caption was changed"
        with np.errstate(invalid="ignore"):
            found: Mapping[str, np.ndarray] = {
                "falls": after < before,
                "equal": after == before,
                "rises": after > before,
            }
        return {name: Share((one & self.applies).astype(float), every, why) for name, one in found.items()}

    def _change(self, absolute: bool) -> Share:
        used = self._used
        difference = np.where(used, self.changed - self.clean, 0.0)
        if absolute:
            difference = np.abs(difference)
        if not self.unit > 0:
            return Share(
                difference, np.zeros(len(used)), "all captions have the same score before they are changed"
            )
        return Share(difference / self.unit, used.astype(float), "no changed caption has a score")

    def _pays(self) -> Share:
        used = self._used
        changed, clean = (np.where(used, one, 0.0) for one in (self.changed, self.clean))
        return Share(changed, clean, "the mean of the captions as they were is not above 0")

    @property
    def _used(self) -> np.ndarray:
        return self.applies & np.isfinite(self.clean) & np.isfinite(self.changed)


def compare_rule(rows: ComparedRows, draws: Draws) -> PairedEstimates:
    """Compare metrics by how often they do as they should, of the changed captions that all of them scored.

    Args:
        rows: Captions, each as it was and then its versions; a version that was not made has no score.
        draws: The resamples, of images.

    Raises:
        UndefinedStatistic: There is no such caption.
    """
    rule, version = COMPARED[rows.by], np.asarray(rows.categories)
    clean = version == CLEAN
    changed = np.flatnonzero(version == rule.name)
    scored = [np.isfinite(values[changed]) for values in rows.scores.values()]
    changed = changed[np.logical_or.reduce(scored)]
    unchanged = np.flatnonzero(clean)[np.cumsum(clean)[changed] - 1]
    credit: dict[str, np.ndarray] = {}
    for name, values in rows.scores.items():
        sign = -1.0 if name in rows.lower_is_better else 1.0
        before, after = sign * values[unchanged], sign * values[changed]
        used = np.isfinite(before) & np.isfinite(after)
        # The first of a rule's values is what it should be.
        _, share = next(Scored(before, after, used, 0.0).values(rule))
        credit[name] = np.where(used, share.of, np.nan)
    return compare_credit(ComparedRows(np.asarray(rows.images)[changed], credit), draws)
