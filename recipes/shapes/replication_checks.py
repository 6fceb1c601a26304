"""Runs the recipes of the shapes world with several seeds, and checks findings of the papers.

``python -m capbench.recipes.shapes.replication_checks --output FOLDER`` trains encoders; with ``--rewards`` the
captioner: once by cross-entropy, then by SCST from the result, once per reward and seed.

Finished trainings in FOLDER are not repeated. Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..training.contract import TrainingCall
from ..training.execution import CARD, SCORES, run_recipe
from ..training.judging import markdown_table
from ..training.processes import TrainingProcesses
from ..training.schema import load_recipe

Variants = Mapping[str, tuple[str, tuple[str, ...]]]
"""Name to a recipe and its changes."""
VARIANTS: Variants = {
    "pacspp": ("shapes_pacspp", ()),
    "pacspp, texts alone": ("shapes_pacspp", ("objective.further_images=0",)),
    "pacspp, images alone": ("shapes_pacspp", ("objective.further_texts=0",)),
    "pacspp, neither": ("shapes_pacspp", ("objective.further_images=0", "objective.further_texts=0")),
    "sdci_pick1": ("shapes_sdci_pick1", ()),
    "sdci_pick1, by image": ("shapes_sdci_pick1", ("objective.sampler=by_image",)),
    "sdci_pick1_nl0": ("shapes_sdci_pick1_nl0", ()),
    "sdci_pick1_nl0, by image": ("shapes_sdci_pick1_nl0", ("objective.sampler=by_image",)),
}
_COUNTS = ("length", "rep_1", "rep_4")
Values = Mapping[str, Mapping[str, Sequence[float]]]
"""Variant to task and statistic to a value per seed; ``start`` has one value."""


@dataclass(frozen=True)
class ReplicationCheck:
    """A finding of a paper's tables.

    Attributes:
        figure: Task and statistic.
        higher: The variant whose mean is higher.
        lower: The variant whose mean is lower, by more than the sum of both standard deviations over seeds.
    """

    figure: str
    higher: str
    lower: str


_NEG, _FIVE, _SCM, _SCM_IN_IMAGE = (
    f"shapes_dci_{name} accuracy" for name in ("all_neg", "pick5_neg", "all_scm", "per_image_scm")
)
CHECKS = (
    ReplicationCheck(_NEG, "sdci_pick1", "start"),
    ReplicationCheck(_NEG, "sdci_pick1", "sdci_pick1_nl0"),
    ReplicationCheck(_FIVE, "sdci_pick1", "sdci_pick1_nl0"),
    ReplicationCheck(_SCM, "sdci_pick1_nl0", "start"),
    ReplicationCheck(_SCM, "sdci_pick1_nl0", "sdci_pick1"),
    ReplicationCheck(_SCM_IN_IMAGE, "sdci_pick1_nl0, by image", "sdci_pick1_nl0"),
)
"""DCI, Tables 4 and 6: the loss of negatives raises Neg at the cost of a part of SCM's gain; grouping helps."""
POSITIVES = tuple(
    ReplicationCheck(figure, "pacspp", lower)
    for figure in ("shapes_foil_1000 accuracy", "shapes_expert_shapes kendall_b")
    for lower in ("start", "pacspp, neither")
)
"""PAC-S++, Table 7: training improves the metric, and less so without additional positives."""


REWARDS = tuple(f"scst_{name}" for name in ("cider", "clip_s", "pacspp", "refpacspp"))
_CIDER, _CLIP_S, _PAC_S, _REFPAC_S, _LENGTH, _REP = (
    f"shapes_captions {name}" for name in ("cider", "clip_s", "pac_s", "refpac_s", "length", "rep_1")
)
REWARD_CHECKS = (
    *(ReplicationCheck(_CIDER, "scst_cider", lower) for lower in ("start", "scst_clip_s", "scst_pacspp")),
    *(ReplicationCheck(_CLIP_S, "scst_clip_s", lower) for lower in ("start", "scst_cider")),
    *(ReplicationCheck(_PAC_S, "scst_pacspp", lower) for lower in ("start", "scst_cider", "scst_clip_s")),
    *(ReplicationCheck(_REFPAC_S, "scst_refpacspp", f"scst_{lower}") for lower in ("cider", "clip_s", "pacspp")),
    *(ReplicationCheck(_LENGTH, "scst_clip_s", lower) for lower in ("start", "scst_pacspp")),
    *(ReplicationCheck(_REP, "scst_clip_s", lower) for lower in ("start", "scst_pacspp")),
)
"""PAC-S++, Table 9: each reward is best on its own metric, and CLIP-S makes captions longer and more repetitive than
PAC-S does. Two findings within the seeds' spread are not checked: the gain of CLIP-S over PAC-S on CLIP-S, and longer
captions by PAC-S."""
REWARD_SEEDS = 6
"""With three seeds, half of the intervals that now exclude 0 contained it."""


def measured(folder: Path, seeds: Sequence[int], variants: Variants) -> dict[str, dict[str, list[float]]]:
    """Return the figures of variants, each trained once per seed.

    Args:
        folder: The folder of trainings.
        seeds: Seeds of the trainings.
        variants: The variants.
    """
    figures: dict[str, dict[str, list[float]]] = {"start": {}}
    for seed in seeds:
        for variant, (recipe, changes) in variants.items():
            of_variant = figures.setdefault(variant, {})
            place = folder / f"{variant.replace(', ', '-').replace(' ', '_')}-{seed}"
            for row in _scores(place, recipe, (*changes, f"seed={seed}")):
                figure = f"{row['task']} {row['metric' if row['statistic'] == 'mean' else 'statistic']}"
                figures["start"][figure] = [row["before"]["value"]]
                of_variant.setdefault(figure, []).append(row["after"]["value"])
            text = ", ".join(f"{name} {100 * values[-1]:.1f}" for name, values in of_variant.items())
            print(f"{variant}, seed {seed}: {text}", flush=True)
    return figures


def _scores(place: Path, recipe: str, changes: Sequence[str]) -> list[dict[str, Any]]:
    if (place / SCORES).is_file():
        return json.loads((place / SCORES).read_text(encoding="utf-8"))
    call = TrainingCall(load_recipe(recipe, changes), TrainingProcesses("cpu"))
    return run_recipe(call, place, lambda taken: None, {"store": place.parent / "store.sqlite"}).scores


def table(values: Values) -> str:
    """Return the figures as Markdown, a table for variants with the same tasks.

    Cells are mean ± standard deviation over seeds, times 100 except for counts.
    """
    start, *others = values.items()
    groups: dict[tuple[str, ...], list[tuple[str, Mapping[str, Sequence[float]]]]] = {}
    for variant in others:
        groups.setdefault(tuple(variant[1]), [start]).append(variant)
    lines = (
        markdown_table(
            ["", *figures],
            ([name, *(cell(values.get(key, ()), _scale(key)) for key in figures)] for name, values in variants),
        )
        for figures, variants in groups.items()
    )
    return "\n\n".join(map("\n".join, lines))


def cell(values: Sequence[float], scale: int) -> str:
    """Format values of several seeds: mean ± standard deviation, as tables scale them."""
    if not values:
        return ""
    spread = f" ± {scale * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{scale * fmean(values):.1f}{spread}"


def shown(values: Values, checks: Sequence[ReplicationCheck]) -> str:
    """Return a Markdown table of the checks whose variants both have figures.

    A row has the mean difference, times 100 except for counts, and its 95 % interval by Student's t over seeds; if both
    variants were trained, over differences paired by seed.
    """
    from scipy.stats import t

    rows: list[list[str]] = []
    for check, high, low in _pairs(values, checks):
        others = low if len(low) > 1 else [*low] * len(high)
        scale = _scale(check.figure)
        gains = [scale * (value - other) for value, other in zip(high, others, strict=True)]
        interval = ""
        if len(gains) > 1:
            reach = float(t.ppf(0.975, len(gains) - 1)) * stdev(gains) / len(gains) ** 0.5
            interval = f" [{fmean(gains) - reach:+.1f}, {fmean(gains) + reach:+.1f}]"
        verdict = "shown" if _is_shown(high, low) else "missing"
        rows.append([check.figure, check.higher, check.lower, f"{fmean(gains):+.1f}{interval}", verdict])
    return "\n".join(markdown_table(["figure", "higher", "lower", "difference", ""], rows))


def missing(values: Values, checks: Sequence[ReplicationCheck]) -> list[str]:
    """Return the checks that fail."""
    return [
        f"{check.figure}: {check.higher} is not above {check.lower}"
        for check, high, low in _pairs(values, checks)
        if not _is_shown(high, low)
    ]


def _pairs(
    values: Values, checks: Sequence[ReplicationCheck]
) -> Iterator[tuple[ReplicationCheck, Sequence[float], Sequence[float]]]:
    """Yield the checks whose variants both have figures, with their values."""
    for check in checks:
        high, low = (values.get(variant, {}).get(check.figure, []) for variant in (check.higher, check.lower))
        if high and low:
            yield check, high, low


def _is_shown(high: Sequence[float], low: Sequence[float]) -> bool:
    spread = sum(stdev(sample) for sample in (high, low) if len(sample) > 1)
    return fmean(high) - fmean(low) > spread


def _scale(figure: str) -> int:
    return 1 if figure.endswith(_COUNTS) else 100


def report(faults: Sequence[str], *tables: str) -> int:
    """Print tables and failed checks, and return the exit code: 1 if a check failed."""
    print(*tables, sep="\n\n")
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


def reward_variants(start: Path) -> Variants:
    """Return SCST variants from a start model, by the names of ``REWARDS``, without the rule probe."""
    changes = f"model={json.dumps({'name': str(start)})}", "probe=null"
    return {name: (f"shapes_{name}", changes) for name in REWARDS}


def main() -> int:
    """Train, print the tables, and return 1 if a check fails."""
    parser = argparse.ArgumentParser(description="Check findings of the papers on the recipes of the shapes world.")
    parser.add_argument("--output", type=Path, required=True, help="output folder")
    parser.add_argument("--rewards", action="store_true", help="train captioners by rewards instead of encoders")
    parser.add_argument("--seeds", type=int, help=f"number of seeds (3; of rewards {REWARD_SEEDS})")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="these alone")
    options = parser.parse_args()
    start: Path = options.output / "captioner_xe"
    known, checks, seeds = VARIANTS, (*CHECKS, *POSITIVES), 3
    if options.rewards:
        known, checks, seeds = reward_variants(start), REWARD_CHECKS, REWARD_SEEDS
    if unknown := set(options.variants or ()) - known.keys():
        parser.error(f"unknown variants: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if options.rewards and not (start / CARD).is_file():
        call = TrainingCall(load_recipe("shapes_captioner_xe"), TrainingProcesses("cpu"))
        run_recipe(call, start, lambda taken: None, {}, judge=False)
    variants = {name: known[name] for name in options.variants or known}
    values = measured(options.output, range(options.seeds or seeds), variants)
    return report(missing(values, checks), table(values), shown(values, checks))


if __name__ == "__main__":
    sys.exit(main())
