"""How far captions trust a token that holds no more than what was said before, and where a search returns for it.

Huang et al.: OPERA: Alleviating Hallucination in Multi-Modal Large Language Models via Over-Trust Penalty and
Retrospection-Allocation, CVPR 2024; released code 61426ef, ``opera_beam_search``.

Rows of attention are those of the last layer, the largest of its heads, divided by their sum. With W the rows and
columns of a caption's own tokens, times ``scale``, the trust in token j is ``1e-7 prod_{i >= j} W_ij``. The token with
the most is the candidate's location.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import UsageError

if TYPE_CHECKING:
    import torch

EARLY = 10
"""While a caption has so many tokens at most, attention to the image is rewarded instead; no search returns to them."""
PRECISIONS = ("half", "log")
_UNIT = 1e-7
_MOST = 500.0
"""Largest logarithm of trust in log space: differences of its exponentials stay numbers of 64 bits."""
LEFT_OUT = -999.0
"""Logit of a token that is not to be chosen."""
_LOWEST = -900.0
"""Least logit of a candidate in log space: above every token that is none."""


@dataclass(frozen=True)
class OverTrust:
    """The penalty, and its settings.

    Attributes:
        scale: What attention is multiplied by.
        weight: Of the penalty.
        threshold: A search returns when, in every beam, more steps than these had one location.
        candidates: Next tokens that are looked at in each beam; how often a search returns to one place.
        window: A search returns by so many tokens at most, and to none behind so many.
        precision: ``half`` stores trust in 16 bits, as released: above 65,504 it is infinite, and where it is so of all
            candidates others are written; below 6e-8 it is 0. ``log`` does neither: sums of logarithms in 64 bits.

    Raises:
        UsageError: There is no such precision, or no candidate can be preferred to another.
    """

    scale: float = 50.0
    weight: float = 1.0
    threshold: int = 15
    candidates: int = 5
    window: int = 512
    precision: str = "half"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(f"opera_precision={self.precision} is not known.", f"Known are {', '.join(PRECISIONS)}.")
        if self.scale <= 0:
            raise UsageError(
                f"opera_scale={self.scale:g} leaves no attention.", "The released one is 50; it is above 0."
            )

    @property
    def _in_logs(self) -> bool:
        return self.precision == "log"

    def extended(self, products: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the column products of W with one token more.

        Args:
            products: ``[..., k - 1]`` without it, or their logarithms in log space; ``[..., 0]`` for no token.
            rows: ``[..., k]`` attention of the token to its caption, itself included.

        Returns:
            ``[..., k]`` in the same form.
        """
        import torch

        scaled = self.scale * rows
        column = torch.zeros_like(scaled[..., :1])
        if self._in_logs:
            scaled = scaled.double().log()
            return scaled + torch.cat([products.double(), column], -1)
        return scaled * torch.cat([products, column + 1], -1)

    def penalties(self, products: torch.Tensor, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return penalty and location of candidates.

        Args:
            products: ``[..., k]`` column products of W with the candidate's own row.
            images: ``[...]`` share of the candidate's attention that is on the image.

        Returns:
            ``[...]`` the trust in the location, or for a caption's first tokens minus the share of the image; and
            ``[...]`` the location, counted from 0, the first of those that have the most.
        """
        if self._in_logs:
            trust, locations = (products + math.log(_UNIT)).max(-1)
            trust = trust.clamp(max=_MOST).exp()
        else:
            trust, locations = (_UNIT * products).half().max(-1)
        return (-images if products.shape[-1] <= EARLY else trust), locations

    def penalised(self, logits: torch.Tensor, penalties: torch.Tensor) -> torch.Tensor:
        """Return logits of candidates less their penalties.

        In log space what is common to a beam's candidates is taken away first, which changes no probability.

        Args:
            logits: ``[B, C]``.
            penalties: ``[B, C]``.
        """
        if self.weight == 0:
            # Even of trust that overflows.
            return logits
        if not self._in_logs:
            return logits - (self.weight * penalties).to(logits.device)
        above = (penalties - penalties.amin(-1, keepdim=True)).to(logits.device)
        values = logits.double() - self.weight * above
        return (values - values.amax(-1, keepdim=True)).clamp(min=_LOWEST).to(logits.dtype)


class Retrospection:
    """When a search returns, where to, and what it may not choose there again.

    Args:
        settings: Those of the penalty.
    """

    def __init__(self, settings: OverTrust) -> None:
        self._settings = settings
        self._locations: list[torch.Tensor] = []
        self._returns: Counter[int] = Counter()
        self._rejected: dict[int, torch.Tensor] = {}

    def place(self, locations: torch.Tensor) -> int | None:
        """Take a step's locations, and return where the search goes back to.

        A beam's location is the commonest of its candidates, the smallest of several; that of the step the commonest
        of its beams. If a place was returned to as often as it may be, the one before is taken.

        Args:
            locations: ``[B, C]``.

        Returns:
            The number of tokens that stay; None where the search goes on.
        """
        import torch

        of_beams = locations.mode(-1).values
        self._locations.append(of_beams)
        common = int(of_beams.mode().values)
        alike = (torch.stack(self._locations, -1) == common).sum(-1)
        if common < EARLY or not bool((alike > self._settings.threshold).all()):
            return None
        # To where the location is there, and what follows it is not.
        for place in (common + 1, common):
            if self._returns[place] < self._settings.candidates:
                too_far = len(self._locations) - place > self._settings.window
                if too_far or place >= self._settings.window - 1:
                    return None
                self._returns[place] += 1
                return place
        return None

    def forget(self, place: int) -> int:
        """Forget the steps behind a place, and return the number of tokens that stay.

        With a threshold below 2 a place may lie ahead of what can be chosen otherwise; then one choice is taken back.
        """
        length = len(self._locations)
        left = min(place, length - 2)
        # As released, what was rejected further on is kept, but for the place that follows and the window's end.
        end = self._settings.window - (length - place - 2)
        self._rejected = {one: flat for one, flat in self._rejected.items() if one < end and one != place + 1}
        del self._locations[left + 1 :]
        return left

    def rejecting(self, logits: torch.Tensor, place: int, parents: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits in which what was chosen at a place before is the least of all.

        Args:
            logits: ``[B, vocabulary]`` at the place.
            place: Where the search returned to.
            parents: ``[B]`` beams that were continued there when it was left last.
            tokens: ``[B]`` by which tokens.
        """
        import torch

        flat = parents * logits.shape[-1] + tokens
        self._rejected[place] = torch.cat([self._rejected.get(place, flat[:0]), flat])
        lifted = logits - (logits.amin(-1, keepdim=True) - LEFT_OUT)
        return lifted.flatten().index_fill(0, self._rejected[place], LEFT_OUT).view_as(lifted)
