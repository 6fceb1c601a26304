"""Runs the recipes of the shapes world with several seeds, and checks findings of the papers.

``python speed/replication.py --output FOLDER`` trains encoders; with ``--rewards`` the
captioner: with each seed by cross-entropy, then by SCST from the result, once per reward.

Finished trainings in FOLDER are not repeated. Exit code 1 if a check fails.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
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
"""Variant to task and statistic to a value per seed."""


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


def measured(
    folder: Path, seeds: Sequence[int], variants_of: Callable[[int], Variants]
) -> dict[str, dict[str, list[float]]]:
    """Return the figures of variants, each trained once per seed, and of what they start from.

    Args:
        folder: The folder of trainings.
        seeds: Seeds of the trainings.
        variants_of: Seed to its variants.
    """
    figures: dict[str, dict[str, dict[int, float]]] = {"start": {}}
    for seed in seeds:
        for variant, (recipe, changes) in variants_of(seed).items():
            place = folder / f"{variant.replace(', ', '-').replace(' ', '_')}-{seed}"
            for row in _scores(place, recipe, (*changes, f"seed={seed}")):
                figure = f"{row['task']} {row['metric' if row['statistic'] == 'mean' else 'statistic']}"
                for name, side in (("start", "before"), (variant, "after")):
                    figures.setdefault(name, {}).setdefault(figure, {})[seed] = row[side]["value"]
            text = ", ".join(f"{name} {100 * values[seed]:.1f}" for name, values in figures[variant].items())
            print(f"{variant}, seed {seed}: {text}", flush=True)
    return {name: {figure: list(of.values()) for figure, of in of_name.items()} for name, of_name in figures.items()}


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
    # Encoders start from one model, whatever the seed.
    spread = f" ± {scale * stdev(values):.1f}" if len(set(values)) > 1 else ""
    return f"{scale * fmean(values):.1f}{spread}"


def checked(values: Values, checks: Sequence[ReplicationCheck]) -> list[list[str]]:
    """Return a row per check whose variants both have figures.

    A row has the check, the mean difference, times 100 except for counts, with its 95 % interval by Student's t over
    seeds, and whether it is shown or missing. Differences are paired by seed.
    """
    from scipy.stats import ttest_1samp

    rows: list[list[str]] = []
    for figure, higher, lower in checks:
        high, low = (values.get(variant, {}).get(figure, []) for variant in (higher, lower))
        if not (high and low):
            continue
        gains = [_scale(figure) * (value - other) for value, other in zip(high, low, strict=True)]
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


def captioner(folder: Path, seed: int) -> Path:
    """Return the captioner that rewards start from, which cross-entropy trains unless it is there."""
    place = folder / f"captioner_xe-{seed}"
    if not (place / CARD).is_file():
        call = TrainingCall(load_recipe("shapes_captioner_xe", [f"seed={seed}"]), TrainingProcesses("cpu"))
        run_recipe(call, place, lambda taken: None, {}, judge=False)
    return place


def main() -> int:
    """Train, print the tables, and return 1 if a check fails."""
    parser = argparse.ArgumentParser(description="Check findings of the papers on the recipes of the shapes world.")
    parser.add_argument("--output", type=Path, required=True, help="output folder")
    parser.add_argument("--rewards", action="store_true", help="train captioners by rewards instead of encoders")
    parser.add_argument("--seeds", type=int, help=f"number of seeds (4; of rewards {REWARD_SEEDS})")
    options = parser.parse_args()
    checks, seeds = (REWARD_CHECKS, REWARD_SEEDS) if options.rewards else ((*CHECKS, *POSITIVES), 4)

    def variants_of(seed: int) -> Variants:
        return reward_variants(captioner(options.output, seed)) if options.rewards else VARIANTS

    values = measured(options.output, range(options.seeds or seeds), variants_of)
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
