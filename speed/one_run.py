"""The process that ``scale.py`` measures: one run, or one file of captions scored, as the command line does it.

::

    python speed/one_run.py run FOLDER --metrics length --resamples 0 --engine local --processes 2
"""

import argparse
import gc
from pathlib import Path
from typing import Any

import capbench
from capbench.benchmarks.running.execution import Execution
from capbench.rows import read_rows

METRICS = ("bleu_4", "cider", "rouge_l", "meteor")


def engine_of(name: str, processes: int) -> dict[str, Any]:
    """Return the keyword of an engine; nothing for what a call does by itself."""
    if name == "default":
        return {}
    if name == "none":
        return {"engine": Execution(processes=1)}
    if name == "ray":
        from capbench.benchmarks.scale.ray import RayExecutor

        return {"engine": RayExecutor("local")}
    from capbench.benchmarks.scale.executors import LocalExecutor

    return {"engine": LocalExecutor(processes)}


def main() -> None:
    """Carry out what the arguments say, and print the system-level values."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "score"))
    parser.add_argument("folder", type=Path, help="what coco.write wrote")
    parser.add_argument("--metrics", nargs="+", default=METRICS, metavar="NAME")
    parser.add_argument("--resamples", type=int, default=1000, metavar="N")
    parser.add_argument("--intervals", choices=("auto", "bootstrap", "influence"), default="auto")
    parser.add_argument("--engine", choices=("default", "none", "local", "ray"), default="default")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="of the local engine (2)")
    parser.add_argument("--store", metavar="FILE|URL", required=True)
    parser.add_argument("--output", type=Path, metavar="DIR", required=True, help="where the run is written")
    options = parser.parse_args()
    # As the command sets it.
    gc.set_threshold(10_000)
    engine = engine_of(options.engine, options.processes)
    if options.what == "score":
        table = capbench.score(read_rows(options.folder / "rows.jsonl"), options.metrics, store=options.store, **engine)
        print(table.system)
        return
    captioner = f"captions:{options.folder / 'captions.jsonl'}"
    run = capbench.evaluate(
        captioner,
        ["scale"],
        metrics=options.metrics,
        include_path=[options.folder],
        output_path=options.output,
        resamples=options.resamples,
        intervals=options.intervals,
        store=options.store,
        **engine,
    )
    print(run.table())


if __name__ == "__main__":
    main()
