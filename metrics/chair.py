"""CHAIR: objects that a caption mentions and that are not in the image."""

from __future__ import annotations

from typing import Any

import numpy as np

from .contract import Context, Metric
from .items import Items, Scores
from .words.coco_objects import SynonymTable, find_table, read_table


class _Chair(Metric):
    """What both variants count.

    An object is in the image if annotators marked it or a reference caption mentions it. Objects are the
    80 of COCO, found in captions as written by the words of the released table; its singular is that of
    ``pattern.en``, which does not find "bus" or "ties" (``coco_objects.singular``).

    ``Scores.parts``: ``mentions [n]`` and ``hallucinated [n]``, counted with repeats.

    Args:
        synonyms: The table; by default ``$CAPBENCH_DATA/chair/synonyms.txt``.
    """

    splits_words = True
    is_plain = True
    higher_is_better = False
    needs = frozenset({"objects", "references"})
    source = "Rohrbach et al., EMNLP 2018; LisaAnne/Hallucination utils/chair.py"

    def __init__(self, synonyms: str | None = None) -> None:
        # Private: the table's content is in the fingerprint, not its place.
        self._synonyms = synonyms

    def check(self) -> None:
        """Raise if the table of synonyms is missing, or is another one."""
        self._table()

    def fingerprint(self) -> dict[str, Any]:
        """Return which table finds the objects."""
        return {**super().fingerprint(), "synonyms": self._table().digest}

    def _table(self) -> SynonymTable:
        return read_table(find_table(self._synonyms))

    def _count(self, items: Items) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Return the parts, and item index to why it could not be counted."""
        table = self._table()
        known = items.memo.get(f"chair {table.digest}")
        if known is None:
            known = items.memo[f"chair {table.digest}"] = count(items, table)
        return known


class ChairI(_Chair):
    """Hallucinated mentions of objects, as a share of all mentions (CHAIRi).

    The value of an item is its own share, 0 where it mentions no object; the system-level value is that
    of all mentions together, to which such an item adds nothing.
    """

    label = "CHAIRi"
    aggregation = "corpus"
    undefined = (
        "no caption mentions any of the 80 COCO objects, so that CHAIRi is 0 of 0 mentions. Are these English "
        "captions of everyday photographs? CHAIR knows no other objects."
    )

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        parts, failures = self._count(items)
        mentions, hallucinated = parts["mentions"], parts["hallucinated"]
        values = np.divide(hallucinated, mentions, out=np.zeros(len(items)), where=mentions > 0)
        values[list(failures)] = np.nan
        return Scores(values=values, parts=dict(parts), failures=dict(failures))

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the mentions of each item, and those that are hallucinated."""
        return np.stack([scores.parts["mentions"], scores.parts["hallucinated"]], axis=1)

    def pool(self, totals: np.ndarray) -> float:
        """Return the share among all mentions; NaN if there are none."""
        mentions, hallucinated = totals.tolist()
        return hallucinated / mentions if mentions else float("nan")


class ChairS(_Chair):
    """1 if the caption mentions an object that is not in the image, else 0; the mean is their share (CHAIRs)."""

    label = "CHAIRs"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        parts, failures = self._count(items)
        values = (parts["hallucinated"] > 0).astype(np.float64)
        values[list(failures)] = np.nan
        return Scores(values=values, parts=dict(parts), failures=dict(failures))


def count(items: Items, table: SynonymTable) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Count mentions of objects, and those of objects that are not in the image.

    Args:
        items: ``n`` items with objects.
        table: Which words stand for which object.

    Returns:
        ``mentions [n]`` and ``hallucinated [n]`` by name, and item index to why it could not be counted.
    """
    reference_sets, set_of_item = items.reference_sets
    of_captions = [
        frozenset(name for reference in references for name in table.mentions(reference))
        for references in reference_sets
    ]
    mentions, hallucinated = np.zeros((2, len(items)))
    failures: dict[int, str] = {}
    for item, (candidate, marked) in enumerate(zip(items.candidates, items.objects, strict=True)):
        if unknown := sorted(marked - table.objects.keys()):
            failures[item] = f"its image holds '{unknown[0]}', which is not in the table of COCO objects"
            continue
        present = of_captions[set_of_item[item]] | {table.objects[name] for name in marked}
        found = table.mentions(candidate)
        mentions[item] = len(found)
        hallucinated[item] = sum(name not in present for name in found)
    return {"mentions": mentions, "hallucinated": hallucinated}, failures
