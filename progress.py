"""How far work is: what is told of a step, and what is asked for one."""

from __future__ import annotations

from collections.abc import Callable

Reporter = Callable[[int, int], object]
"""Is told how far one step is: (done, total)."""

Progress = Callable[[str], Reporter]
"""Gives the reporter of a step of that name."""


def unheard(done: int, total: int) -> None:
    """Report a step to nobody."""


def silent(step: str) -> Reporter:
    """Report no step to anybody."""
    return unheard
