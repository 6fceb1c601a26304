"""Reports what is done shard by shard as one."""

from __future__ import annotations

from ...progress import Progress, Reporter


class ShardProgress:
    """Reports steps that start anew with each shard as one.

    Args:
        progress: Gives a reporter for a step.
        total: How many items there will be, where that is known.
    """

    def __init__(self, progress: Progress, total: int = 0) -> None:
        self._progress, self._total = progress, total
        self._known: dict[str, tuple[Reporter, int]] = {}

    def __call__(self, step: str) -> Reporter:
        """Return a reporter of the next shard's share of a step."""
        report, before = self._known.get(step) or (self._progress(step), 0)
        self._known[step] = report, before

        def of_shard(done: int, total: int) -> None:
            report(before + done, max(self._total, before + total))
            if done == total:
                self._known[step] = report, before + total

        return of_shard
