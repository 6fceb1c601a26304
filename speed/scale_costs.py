"""Measures what ``bench plan`` works with, and writes it to the user's cache folder."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import coco
import yaml
from scale_runs import Runs
from watching import Taken

from capbench.benchmarks.costs.estimate import Demand, estimate
from capbench.benchmarks.costs.table import own_file, read_costs
from capbench.benchmarks.inputs.metric_names import read_metric
from capbench.benchmarks.protocols.job import SHARD_OF_IMAGES
from capbench.benchmarks.running.planned_metrics import plan_metric
from capbench.metrics import Context, build_metric
from capbench.metrics.cider import Cider
from capbench.metrics.words.ngrams import ngrams_of
from capbench.metrics.words.ptb import tokenize_items

FEWEST = 1000
_SHARED = {
    "bleu_4": ("words", "ngrams"), "cider": ("words", "ngrams"), "rouge_l": ("words",), "meteor": ("words",),
}  # fmt: skip
"""The metrics of the bars, each with what it shares with others."""
_BLEU = ("bleu_1", "bleu_2", "bleu_3")
"""Cost what BLEU-4 does."""
_CHEAP = ("length", "rep_1", "rep_2", "rep_3", "rep_4", "incorrect_ending")
_SHARDS = 4
_SOME = 20_000
"""Captions of the runs that say what a metric costs."""
_LEAST = 1e-8


def write_costs(runs: Runs) -> tuple[Path, float]:
    """Write the figures of this machine; return where, and the share of what was measured that they give."""
    parts, alone, merged = _of_words()
    grown = [FEWEST * 10**power for power in range(7) if FEWEST * 10**power <= runs.rows]
    today = datetime.datetime.now(datetime.UTC)
    table = {
        "machine": _machine(),
        "note": f"{today:%d %B %Y}, by 'make bench-scale' with {runs.rows:,} captions of COCO",
        "references": 5,
        "parts": parts,
        "metrics": _of_metrics(runs, parts, alone, merged),
        "run": _of_runs(runs),
        "growth": [{"rows": rows, **_grown(runs.taken("run", "none", rows))} for rows in grown],
    }
    path = own_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(_rounded(table), sort_keys=False, allow_unicode=True), encoding="utf-8")
    known, _, origin = read_costs(path)
    metrics = [plan_metric(read_metric(name), frozenset({"references"})) for name in _SHARED]
    demand = Demand(runs.rows, metrics, shard=SHARD_OF_IMAGES)
    told = estimate(demand, known, origin).total("core_seconds") or 0.0
    return path, told / runs.taken("run", "none", runs.rows).core_seconds


def _of_words() -> tuple[dict[str, float], dict[str, float], float]:
    """Return core-seconds a caption of what metrics share, of metrics alone, and of a merge of CIDEr's state."""
    shared, alone = dict.fromkeys(("words", "ngrams"), 0.0), dict.fromkeys((*_CHEAP, *_SHARED), 0.0)
    # Tables are opened once a process.
    build_metric("meteor", {}).score(coco.items_of([("a dog runs", ["a dog ran"])]), Context())
    cider, source, states, merged, count = Cider(), coco.pairs(), [], 0.0, 0
    for _ in range(_SHARDS):
        items = coco.items_of(list(islice(source, SHARD_OF_IMAGES)))
        count += len(items)
        shared["words"] += coco.core_seconds(lambda items=items: tokenize_items(items))[1]
        shared["ngrams"] += coco.core_seconds(lambda items=items: ngrams_of(items))[1]
        for name in alone:
            metric = build_metric(name, {})
            alone[name] += coco.core_seconds(lambda one=metric, items=items: one.score(items, Context()))[1]
        states.append(cider.state_map(items, Context()))
    for two in zip(states[::2], states[1::2], strict=True):
        merged += coco.core_seconds(lambda two=two: cider.merge(two))[1]
    return (
        {name: value / count for name, value in shared.items()},
        {name: value / count for name, value in alone.items()},
        merged / count,
    )


def _of_metrics(
    runs: Runs, parts: dict[str, float], alone: dict[str, float], merged: float
) -> dict[str, object]:
    """Return what metrics cost beside what they share: the greater ones in a run, with all that it does for them."""
    some = min(runs.rows, _SOME)

    def added(name: str) -> float:
        large, small = (runs.taken("run", "none", rows, *_bare(0, name)) for rows in (some, FEWEST))
        return _slope(large, small, some - FEWEST, _core)

    bare = added("length")
    own = {name: added(name) - bare - sum(parts[part] for part in shared) for name, shared in _SHARED.items()}
    own["cider"] -= merged * math.log2(some / SHARD_OF_IMAGES)
    metrics: dict[str, object] = {name: {"seconds": alone[name]} for name in _CHEAP}
    for name in (*_BLEU, *_SHARED):
        of = "bleu_4" if name in _BLEU else name
        # A difference of runs may be lost in noise; less than by itself a metric does not cost.
        metrics[name] = {"seconds": max(own[of], alone[of]), "parts": list(_SHARED[of])}
    metrics["cider"] |= {"merge_seconds": merged}  # type: ignore
    return metrics


def _of_runs(runs: Runs) -> dict[str, float]:
    """Return what a run costs beside its metrics."""
    large, few, tenth = runs.rows, FEWEST, runs.rows // 10
    bare, small = (runs.taken("run", "none", rows, *_bare(0, "length")) for rows in (large, few))
    whole, part, least = (runs.taken("run", "none", rows) for rows in (large, tenth, few))
    undrawn = runs.taken("run", "none", tenth, *_bare(0, *_SHARED))
    drawn, influenced = (
        runs.taken("run", "none", tenth, "--intervals", way) for way in ("bootstrap", "influence")
    )
    worker = runs.taken("run", "local", few)
    row = _slope(bare, small, large - few, _core)
    # Memory of a part of a shard grows otherwise.
    held = _slope(whole, part, large - tenth, lambda one: one.peak_bytes)
    return {
        "start_seconds": max(small.core_seconds - few * row, _LEAST),
        "worker_seconds": max((worker.core_seconds - least.core_seconds) / 2, _LEAST),
        "row_seconds": row,
        "resample_seconds": _slope(drawn, undrawn, tenth * len(_SHARED), _core),
        "influence_seconds": _slope(influenced, undrawn, tenth * len(_SHARED), _core),
        "driver_bytes": max(part.peak_bytes - tenth * held, 0.0),
        "driver_row_bytes": held,
        "worker_bytes": runs.taken("run", "local", large).worker_bytes,
        "stored_row_bytes": _slope(whole, least, large - few, lambda one: one.written_bytes),
        "read_row_bytes": _slope(whole, least, large - few, lambda one: one.read_bytes),
    }


def _core(taken: Taken) -> float:
    return taken.core_seconds


def _bare(resamples: int, *metrics: str) -> list[str]:
    return ["--metrics", *metrics, "--resamples", str(resamples)]


def _slope(large: Taken, small: Taken, rows: int, figure: Callable[[Taken], float]) -> float:
    """Return what each caption more adds, nothing where noise is greater."""
    return max((figure(large) - figure(small)) / rows, _LEAST)


def _grown(taken: Taken) -> dict[str, float]:
    return {
        "core_seconds": taken.core_seconds,
        "wall_seconds": taken.wall_seconds,
        "peak_bytes": taken.peak_bytes,
    }


def _rounded(value: object) -> object:
    """Return values with three digits, which is more than they are good for."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _machine() -> str:
    """Return what this machine is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores of {model.strip()}, {memory:.0f} GiB, Python {platform.python_version()}"
