"""What a report says of a stage, counted while its rows go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .rows import MakingRow


@dataclass
class StageFacts:
    """What a report says of a stage.

    Attributes:
        name: What the maker calls it.
        given: Rows that it was given.
        kept: Whether rows that it made nothing of went on as they came.
        unmade: Id to the reason, of these.
        not_chosen: Reasons for which rows that it made were left out, with how many.
        counts: What its rows count, added up.
        left_out: Reasons for which parts of rows were left out, with how many.
        requests: Requests to a judge.
        found: Rows that had been made before.
    """

    name: str
    given: int
    kept: bool
    unmade: dict[str, str] = field(default_factory=dict[str, str])
    not_chosen: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    found: int = 0

    @property
    def made(self) -> int:
        """Rows that it made something of, and that were chosen."""
        return self.given - len(self.unmade) - self.not_chosen.total()

    def counting(self, rows: Iterable[MakingRow]) -> Iterator[MakingRow]:
        """Yield rows as they are, and count what the last stage says of each."""
        for row in rows:
            for told in row.provenance[-1:]:
                self.counts.update(told.get("counts", {}))
                self.left_out.update(told.get("left_out", {}).values())
                self.requests += told.get("requests", 0)
            yield row

    def to_values(self) -> dict[str, Any]:
        """Return the facts as JSON values; nothing in them is of one run, so that they are the same again."""
        return {
            "name": self.name,
            "given": self.given,
            "made": self.made,
            "unmade": self.unmade,
            "kept": self.kept,
            "not_chosen": dict(self.not_chosen),
            "counts": dict(self.counts),
            "left_out": dict(self.left_out.most_common()),
            "requests": self.requests,
        }
