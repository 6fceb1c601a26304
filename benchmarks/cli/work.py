"""``bench work``: a slot of a queue, which carries out units of a run beside others."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import add_permission_options, names, not_negative, positive

_EPILOG = """\
RUN is a folder that 'bench run --engine slurm' wrote, on a file system that all slots see. Start as many slots as you
like, on any machines, at any time; jobs of a queue do so (RUN/submit.sh), and so does a loop in a shell:

  for n in 0 1 2 3; do ssh node$n bench work /shared/run --slot $n --of 4 & done; wait

A slot takes its share of the units first, then what others have not begun. A unit is claimed by a file that its slot
renews; where that stops, another slot takes the unit over. A worker that dies is replaced, and documents that no
worker survives are found and left out. A slot ends when nothing that it may take is left; the first error that is
yours to mend ends all of them. A slot that was killed is started again with the same command.

'bench status RUN' says how far all of them are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--slot", type=not_negative, required=True, metavar="N", help="number of this slot, from 0"
    )
    parser.add_argument("--of", type=positive, default=1, metavar="M", help="how many slots there are (1)")
    parser.add_argument(
        "--pools",
        action="append",
        metavar="NAME,...",
        help="take only units that run there: cpu, or the role of a model (all)",
    )
    parser.add_argument(
        "--processes", type=positive, default=1, metavar="N", help="units at a time, each in a process (1)"
    )
    parser.add_argument(
        "--lost_after",
        type=positive,
        default=120,
        metavar="SECONDS",
        help="take over what a slot has in hand that says nothing for so long (120)",
    )
    add_permission_options(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out units until none is left."""
    from ...errors import UsageError, counted
    from ...permissions import RUN_HINT
    from ..engines.run_folder import read_run
    from ..engines.slots import work_slot
    from .engine_options import advance_lines

    spec, _ = read_run(options.run)
    if not (spec.factory.startswith("capbench.") or options.run_functions):
        raise UsageError(
            f"{options.run}: its work is opened by {spec.factory}, which is no part of capbench.", RUN_HINT
        )
    outcome = work_slot(
        options.run,
        options.slot,
        options.of,
        pools=names(options.pools),
        processes=options.processes,
        lost_after=options.lost_after,
        report=advance_lines(),
    )
    print(
        f"slot {options.slot}: {counted(outcome.computed, 'unit')} computed here, {outcome.found:,} by others or before"
    )
    return 0
