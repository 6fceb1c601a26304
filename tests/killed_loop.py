"""A loop of the tests, and as a program one that ends in a training as if the machine had lost its power.

``python killed_loop.py FILE OUTPUT STEP CHANGE...`` carries it out in a process that has done nothing else before.
"""

from __future__ import annotations

import sys
from pathlib import Path

from killed_training import killed_at

from capbench.recipes.looping.schema import load_loop
from capbench.recipes.looping.turns import LoopCall, LoopReporter, carry_out
from capbench.recipes.training.processes import TrainingProcesses


def call_of(file: Path, *changes: str) -> LoopCall:
    """Return the call of a loop, with a store beside its file."""
    return LoopCall(load_loop(str(file), changes), TrainingProcesses("cpu"), store=str(file.parent / "store.sqlite"))


def main(file: str, output: str, step: str, *changes: str) -> None:
    """Carry out a loop, and end behind a step of the first training."""
    carry_out(call_of(Path(file), *changes), Path(output), LoopReporter(step=killed_at(int(step))))


if __name__ == "__main__":
    main(*sys.argv[1:])
