"""What a run costs, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ...errors import counted

if TYPE_CHECKING:
    from .estimate import Estimate

TOTALS: tuple[Literal["core_seconds", "gpu_seconds", "wall_seconds"], ...] = (
    "core_seconds",
    "gpu_seconds",
    "wall_seconds",
)
LEFT = ("stage", "pool", "figures are", "of")
"""Columns of texts."""


def cost_rows(found: Estimate) -> list[dict[str, str]]:
    """Return a row a stage, and one of all together."""
    rows = [
        _row(one.stage, one.pool, one.units, tuple(getattr(one, name) for name in TOTALS), one.basis, one.why)
        for one in found.stages
    ]
    totals = tuple(found.total(name) for name in TOTALS)
    return [*rows, {**_row("together", "", 0, totals, "", ""), "units": f"{found.units:,}"}]


def cost_lines(found: Estimate) -> list[str]:
    """Return what is written, read and held in memory, and how long it takes."""
    sizes = {
        "stored": found.stored_bytes,
        "read": found.read_bytes,
        "memory of the driver": found.driver_bytes,
        "memory of a worker": found.worker_bytes,
    }
    of_bytes = ", ".join(f"{name}: {_bytes(size)}" for name, size in sizes.items() if size)
    wall = found.total("wall_seconds")
    took = "open" if wall is None else _duration(wall)
    return [f"{of_bytes} ({found.bytes_basis}; images not counted)", f"wall time: {took}"]


def _row(
    stage: str, pool: str, units: int, seconds: tuple[float | None, ...], basis: str, why: str
) -> dict[str, str]:
    core, gpu, wall = map(_number, seconds)
    return {
        "stage": stage,
        "pool": pool,
        "units": f"{units:,}" if units else "",
        "core s": core,
        "GPU s": gpu,
        "wall s": wall,
        "figures are": basis,
        "of": why,
    }


def _number(value: float | None) -> str:
    return "open" if value is None else f"{value:,.0f}" if value >= 10 or not value else f"{value:.2g}"


def _bytes(value: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} PB"


def _duration(seconds: float) -> str:
    for name, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {name}"
    return counted(round(seconds), "second")
