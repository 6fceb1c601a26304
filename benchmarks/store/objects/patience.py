"""How often and how long what may pass is tried again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """Pauses that double, up to a longest one, each shortened by chance so that a thousand workers do not come at once.

    Attributes:
        attempts: How often something is tried, in all.
        first_pause: Seconds.
        longest_pause: Seconds.
    """

    attempts: int = 10
    first_pause: float = 0.25
    longest_pause: float = 20.0

    def pauses(self) -> Iterator[float]:
        """Yield the seconds between one attempt and the next."""
        # The system's own chance: processes that were forked from one draw the same from a seed.
        chance = random.SystemRandom()
        for number in range(self.attempts - 1):
            yield min(self.first_pause * 2**number, self.longest_pause) * chance.uniform(0.5, 1)
