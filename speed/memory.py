"""Measure peak memory and time of ``bench run`` on 143,000 rated captions, the size of VATEX-EVAL or Polaris.

Run by hand; the rows are synthetic and written to a temporary folder::

    python speed/memory.py
    python speed/memory.py --rows 20000 --metrics length
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BAR_BYTES = 1e9
_BENCH = "import sys; from capbench.benchmarks.cli.main import main; sys.exit(main())"
_TASK = """\
task: memory
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: agreement
doc_to_id: id
doc_to_image: image
doc_to_candidate: candidate
doc_to_target: references
doc_to_human: ratings
metric_list: [length]
statistics: [kendall_b, kendall_c]
metadata: {version: 1.0}
"""


def rows(count: int, captions_an_image: int = 30) -> Iterator[dict[str, Any]]:
    """Yield rated captions: five references of about eleven words, shared by the captions of an image."""
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(20_000)])
    # Zipf's law: the n-th word of a language is about 1/n as frequent as the first.
    cumulative = np.cumsum(1 / np.arange(1, len(words) + 1))

    def captions(number: int) -> list[str]:
        lengths = generator.integers(8, 15, size=number)
        drawn = words[np.searchsorted(cumulative, generator.random(lengths.sum()) * cumulative[-1])]
        return [" ".join(caption) + "." for caption in np.split(drawn, np.cumsum(lengths)[:-1])]

    for first in range(0, count, captions_an_image):
        references = captions(5)
        for number, candidate in enumerate(captions(min(captions_an_image, count - first)), first):
            yield {
                "id": str(number),
                "image": f"images/{first // captions_an_image:06}.jpg",
                "candidate": candidate,
                "references": references,
                "ratings": generator.integers(1, 6, size=int(generator.integers(1, 4))).tolist(),
            }


def write(folder: Path, count: int) -> None:
    """Write a task ``memory`` and its rows."""
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count))
    (folder / "memory.yaml").write_text(_TASK, encoding="utf-8")


def measure(folder: Path, metrics: list[str], resamples: int) -> tuple[int, float, float]:
    """Run the task below ``folder``; return the exit code, seconds, and peak resident bytes."""
    command = [sys.executable, "-c", _BENCH, "run", "--task", "memory"]
    command += ["--include_path", str(folder), "--output_path", str(folder / "runs")]
    command += ["--store", str(folder / "store.sqlite"), "--bootstrap", str(resamples)]
    command += ["--metrics", *metrics]
    start = time.perf_counter()
    process = os.posix_spawn(command[0], command, dict(os.environ))
    # wait4 gives the peak of this one process, where getrusage would mix in others.
    _, status, usage = os.wait4(process, 0)
    scale = 1 if sys.platform == "darwin" else 1024
    return os.waitstatus_to_exitcode(status), time.perf_counter() - start, usage.ru_maxrss * scale


def main() -> None:
    """Write the rows, run the task in a process of its own, print what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=143_000, metavar="N", help="rated captions (143,000)")
    parser.add_argument(
        "--metrics", nargs="+", default=["bleu_1", "bleu_4", "rouge_l", "cider"], metavar="NAME"
    )
    parser.add_argument("--bootstrap", type=int, default=0, metavar="N", help="resamples of intervals (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.rows)
        code, seconds, peak = measure(folder, options.metrics, options.bootstrap)
    verdict = "within" if peak <= BAR_BYTES else "over"
    print(
        f"{options.rows:,} rows, {', '.join(options.metrics)}: {seconds:.1f} s, "
        f"peak {peak / 1e9:.2f} GB, {verdict} the bar of {BAR_BYTES / 1e9:.0f} GB"
    )
    sys.exit(code or peak > BAR_BYTES)


if __name__ == "__main__":
    main()
