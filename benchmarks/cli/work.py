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
    parser.add_argument(
        "--sum",
        metavar="SHA256",
        help="of RUN/spec.json, as submit.sh gives it: the run is the one that its command wrote, and does what that "
        "was allowed to; without it a run asks for itself, as any file does",
    )
    add_permission_options(parser)


def run(options: argparse.Namespace) -> int:
    """Carry out units until none is left."""
    from ...errors import counted
    from ..engines.slots import work_slot
    from .engine_options import advance_lines

    _require_trusted(options)
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


def _require_trusted(options: argparse.Namespace) -> None:
    """Raise unless the caller allows what a run asks for.

    Raises:
        UsageError: The run is another than the one that was named, or asks for what nobody allowed.
    """
    from ...access import Request, linked_outside, requests_of, require_permitted
    from ...errors import UsageError
    from ...recipes.making.work import FACTORY
    from ..engines.run_folder import SPEC, read_run, sum_of
    from ..running.shards.opening import FACTORIES

    spec, _ = read_run(options.run)
    file, place = options.run / SPEC, str(options.run / SPEC)
    code = [] if spec.factory in (*FACTORIES, FACTORY) else [Request("functions", spec.factory, place)]
    require_permitted(code)
    if options.sum is None:
        asked = requests_of(spec.arguments, file, lambda *keys: ": ".join((place, *keys)))
        require_permitted([*asked, *linked_outside(options.run)])
    elif options.sum != sum_of(options.run):
        raise UsageError(
            f"{file}: is not the one that --sum names, and was changed or is of another run",
            "Run the command again that wrote it, and submit the jobs that it writes.",
        )
