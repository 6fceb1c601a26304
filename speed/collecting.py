"""Time what a run does to each row before it scores any: reading its keys, checking its texts, finding its image.

Run by hand, on Flickr8k-CF if ``CAPBENCH_DATA`` is set, else on rows like ``memory.py``'s, as many::

    python speed/collecting.py
"""

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import memory

from capbench.benchmarks.inputs.failures import FailureLog
from capbench.benchmarks.inputs.models import Models
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.protocols.contract import drain
from capbench.benchmarks.running.plan import resolve_call
from capbench.benchmarks.running.runner import prepare
from capbench.metrics import NoCache

BAR = 20.0
"""Microseconds that a row may take."""
ROWS, RUNS = 47_830, 5


def main() -> int:
    """Print the least core-seconds of a few runs; exit code 1 if it is over the bar."""
    with tempfile.TemporaryDirectory() as name:
        folder, task = Path(name), "flickr8k_cf" if "CAPBENCH_DATA" in os.environ else "memory"
        if task == "memory":
            memory.write(folder, ROWS)
        call = resolve_call([task], metric_names=["length"], include_path=[folder])
        (plan,) = call.plan
        taken: list[float] = []
        for _ in range(RUNS):
            job = prepare(plan, RunSettings(skip_checks=True), Models(), locations=call.locations, cache=NoCache())
            # Reading is not what is measured.
            rows = list(job.documents.rows)
            job = replace(job, documents=replace(job.documents, rows=rows))
            start = time.process_time()
            drain(plan.protocol.collect(job, FailureLog(strict=False)))
            taken.append(1e6 * (time.process_time() - start) / len(job.documents.rows))
    verdict = "over" if min(taken) > BAR else "within"
    print(f"{task}, {ROWS:,} rows: {min(taken):.1f} µs a row, {verdict} the bar of {BAR:.0f} µs")
    return int(min(taken) > BAR)


if __name__ == "__main__":
    sys.exit(main())
