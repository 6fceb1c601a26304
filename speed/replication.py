"""Runs the recipes of the shapes world with several seeds, and checks findings of the papers.

``python speed/replication.py --output FOLDER`` trains encoders; with ``--rewards`` the
captioner: once by cross-entropy, then by SCST from the result, once per reward and seed.

Finished trainings in FOLDER are not repeated. Exit code 1 if a check fails.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import CARD, SCORES, run_recipe
from capbench.recipes.training.judging import markdown_table
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.schema import load_recipe

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


ReplicationCheck = tuple[str, str, str]
"""A finding of a paper's tables: task and statistic; the variant whose mean is higher; the one whose mean is lower, by
more than the sum of both standard deviations over seeds."""
_NEG, _FIVE, _SCM, _SCM_IN_IMAGE = (
    f"shapes_dci_{name} accuracy" for name in ("all_neg", "pick5_neg", "all_scm", "per_image_scm")
)
CHECKS: Sequence[ReplicationCheck] = (
    (_NEG, "sdci_pick1", "start"),
    (_NEG, "sdci_pick1", "sdci_pick1_nl0"),
    (_FIVE, "sdci_pick1", "sdci_pick1_nl0"),
    (_SCM, "sdci_pick1_nl0", "start"),
    (_SCM, "sdci_pick1_nl0", "sdci_pick1"),
    (_SCM_IN_IMAGE, "sdci_pick1_nl0, by image", "sdci_pick1_nl0"),
)
"""DCI, Tables 4 and 6: the loss of negatives raises Neg at the cost of a part of SCM's gain; grouping helps."""
POSITIVES: Sequence[ReplicationCheck] = tuple(
    (figure, "pacspp", lower)
    for figure in ("shapes_foil_1000 accuracy", "shapes_expert_shapes kendall_b")
    for lower in ("start", "pacspp, neither")
)
"""PAC-S++, Table 7: training improves the metric, and less so without additional positives."""


REWARDS = tuple(f"scst_{name}" for name in ("cider", "clip_s", "pacspp", "refpacspp"))
_CIDER, _CLIP_S, _PAC_S, _REFPAC_S, _LENGTH, _REP = (
    f"shapes_captions {name}" for name in ("cider", "clip_s", "pac_s", "refpac_s", "length", "rep_1")
)
REWARD_CHECKS: Sequence[ReplicationCheck] = (
    *((_CIDER, "scst_cider", lower) for lower in ("start", "scst_clip_s", "scst_pacspp")),
    *((_CLIP_S, "scst_clip_s", lower) for lower in ("start", "scst_cider")),
    *((_PAC_S, "scst_pacspp", lower) for lower in ("start", "scst_cider", "scst_clip_s")),
    (_REFPAC_S, "scst_refpacspp", "scst_clip_s"),
    *((_LENGTH, "scst_clip_s", lower) for lower in ("start", "scst_pacspp")),
    *((_REP, "scst_clip_s", lower) for lower in ("start", "scst_pacspp")),
)
"""PAC-S++, Table 9: each reward is best on its own metric, and CLIP-S makes captions longer and more repetitive than
PAC-S does. Findings within the seeds' spread, with these captioners or with those of before, are not checked: CLIP-S
above PAC-S on CLIP-S, RefPAC-S above CIDEr and PAC-S on RefPAC-S, and longer captions by PAC-S."""
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
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, of_variant in values.items():
        if name != "start":
            groups.setdefault(tuple(of_variant), ["start"]).append(name)
    lines = (
        markdown_table(
            ["", *figures],
            ([name, *(cell(values[name].get(key, ()), _scale(key)) for key in figures)] for name in names),
        )
        for figures, names in groups.items()
    )
    return "\n\n".join(map("\n".join, lines))


def cell(values: Sequence[float], scale: int) -> str:
    """Format values of several seeds: mean ± standard deviation, as tables scale them."""
    if not values:
        return ""
    spread = f" ± {scale * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{scale * fmean(values):.1f}{spread}"


def checked(values: Values, checks: Sequence[ReplicationCheck]) -> list[list[str]]:
    """Return a row per check whose variants both have figures.

    A row has the check, the mean difference, times 100 except for counts, with its 95 % interval by Student's t over
    seeds, and whether it is shown or missing. If both variants were trained, differences are paired by seed.
    """
    from scipy.stats import ttest_1samp

    rows: list[list[str]] = []
    for figure, higher, lower in checks:
        high, low = (values.get(variant, {}).get(figure, []) for variant in (higher, lower))
        if not (high and low):
            continue
        others = low if len(low) > 1 else [*low] * len(high)
        gains = [_scale(figure) * (value - other) for value, other in zip(high, others, strict=True)]
        difference = f"{fmean(gains):+.1f}"
        if len(gains) > 1:
            interval = ttest_1samp(gains, 0).confidence_interval()
            difference += f" [{interval.low:+.1f}, {interval.high:+.1f}]"
        spread = sum(stdev(sample) for sample in (high, low) if len(sample) > 1)
        is_shown = fmean(high) - fmean(low) > spread
        rows.append([figure, higher, lower, difference, "shown" if is_shown else "missing"])
    return rows


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
    options = parser.parse_args()
    start: Path = options.output / "captioner_xe"
    variants, checks, seeds = VARIANTS, (*CHECKS, *POSITIVES), 3
    if options.rewards:
        variants, checks, seeds = reward_variants(start), REWARD_CHECKS, REWARD_SEEDS
    if options.rewards and not (start / CARD).is_file():
        call = TrainingCall(load_recipe("shapes_captioner_xe"), TrainingProcesses("cpu"))
        run_recipe(call, start, lambda taken: None, {}, judge=False)
    values = measured(options.output, range(options.seeds or seeds), variants)
    rows = checked(values, checks)
    faults = [
        f"{figure}: {higher} is not above {lower}"
        for figure, higher, lower, *_, verdict in rows
        if verdict == "missing"
    ]
    return report(
        faults, table(values), "\n".join(markdown_table(["figure", "higher", "lower", "difference", ""], rows))
    )


if __name__ == "__main__":
    sys.exit(main())
