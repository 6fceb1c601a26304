"""Runs the self-training loop of the shapes world with several seeds, and checks that a turn raises CAPTURE.

``python speed/self_training.py --output FOLDER``

Finished turns in FOLDER are not repeated; ``loop.svg`` shows all seeds. Exit code 1 if the gain of turn 1 is within
the spread over seeds.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from replication import cell, report

from capbench.recipes.self_training.report import curve_of, draw_curves, rows_of
from capbench.recipes.self_training.rounds import LoopCall, run_loop
from capbench.recipes.self_training.schema import load_loop
from capbench.recipes.shapes.world.together import run
from capbench.recipes.training.judging import Row, markdown_table
from capbench.recipes.training.processes import TrainingProcesses

_SPREADS = 3.0
"""Standard deviations over seeds by which the mean of turn 1 must be above turn 0."""


def measured(folder: Path, seeds: Sequence[int], turns: int) -> dict[int, list[Row]]:
    """Return the results of each turn, for a loop per seed.

    Args:
        folder: The folder of loops.
        seeds: Seeds of the loops.
        turns: Number of turns of each.
    """
    by_seed: dict[int, list[Row]] = {}
    for seed in seeds:
        loaded = load_loop("shapes_loop", [f"seed={seed}", f"turns={turns}"])
        call = LoopCall(loaded, TrainingProcesses("cpu"), store=str(folder / "store.sqlite"))
        by_seed[seed] = rows_of(run_loop(call, folder / f"loop-{seed}"))
        text = ", ".join(f"{100 * row['value']:.1f}" for row in curve_of(by_seed[seed])[1])
        print(f"seed {seed}: {text}", flush=True)
    return by_seed


def table(by_seed: Mapping[int, Sequence[Row]]) -> str:
    """Return the values of each turn as Markdown: mean ± standard deviation over seeds, as tables scale them."""
    loops = list(by_seed.values())
    labels = list(dict.fromkeys(row["label"] for row in loops[0]))
    lines: list[list[str]] = []
    # All start from the same captioner.
    for turn, some in [(turn, loops if turn else loops[:1]) for turn in sorted({row["turn"] for row in loops[0]})]:
        of_turn = [{row["label"]: row for row in rows if row["turn"] == turn} for rows in some]
        scaled = ([row[label]["scale"] * row[label]["value"] for row in of_turn] for label in labels)
        lines.append([str(turn), *(cell(values, 1) for values in scaled)])
    return "\n".join(markdown_table(["turn", *labels], lines))


def missing(by_seed: Mapping[int, Sequence[Row]]) -> list[str]:
    """Return failed checks: the gain of turn 1 must exceed the spread over seeds, and each interval exclude 0.

    Args:
        by_seed: Seed to rows of ``rows_of``.
    """
    faults: list[str] = []
    starts, firsts = [], []
    for seed, rows in by_seed.items():
        start, first = (row for row in rows if row["turn"] < 2 and row["metric"] == rows[0]["metric"])
        starts.append(start["value"])
        firsts.append(first["value"])
        low = first["difference"]["low"]
        if low is None or low <= 0:
            faults.append(f"seed {seed}: the interval of turn 1's gain is not above 0")
    spread = stdev(firsts) if len(firsts) > 1 else 0.0
    gain = fmean(firsts) - fmean(starts)
    if gain <= _SPREADS * spread:
        faults.append(f"turn 1 gains {gain:.4f}, not above {_SPREADS:g} × its spread over seeds, {spread:.4f}")
    return faults


def main(output: Path, *, seeds: int = 3, turns: int = 4) -> int:
    """Run the loops, print the table, draw the curves, and return 1 if a check fails.

    Args:
        output: The output folder.
        seeds: Number of loops.
        turns: Number of turns of each.
    """
    output.mkdir(parents=True, exist_ok=True)
    by_seed = measured(output, range(seeds), turns)
    curves = {f"seed {seed}": curve_of(rows)[1] for seed, rows in by_seed.items()}
    draw_curves(output / "loop.svg", curve_of(next(iter(by_seed.values())))[0], curves)
    return report(missing(by_seed), table(by_seed))


if __name__ == "__main__":
    sys.exit(run(main))
