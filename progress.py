"""How far work is: what is told of a step, and what is asked for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Reporter = Callable[[int, int], object]
"""Is told how far one step is: (done, total)."""

Progress = Callable[[str], Reporter]
"""Gives the reporter of a step of that name."""


def unheard(done: int, total: int) -> None:
    """Report a step to nobody."""


def silent(step: str) -> Reporter:
    """Report no step to anybody."""
    return unheard


def numbered(progress: Progress, steps: Sequence[str], before: str = "") -> Progress:
    """Return what gives reporters of steps that say which of how many they are: ``step 2 of 5: cider``.

    Args:
        progress: Gives the reporters.
        steps: The steps to come, in order; another one has no number.
        before: What is said before each.
    """
    places = {step: f"step {place} of {len(steps)}: " for place, step in enumerate(steps, 1)}
    return lambda step: progress(f"{before}{places.get(step, '')}{step}")
