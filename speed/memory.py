"""Measure peak memory and time of ``bench run`` and ``bench score`` on captions, of 10,000 and of a million.

Run by hand; the rows are synthetic and written to a temporary folder::

    python speed/memory.py
    python speed/memory.py --rows 143000 --metrics length

What must be in memory is numbers: some of 8 bytes for each row and metric. Texts and images are there for a shard at a
time, whatever the number of rows.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BAR_BYTES = 1e9
_BENCH = "import sys; from capbench.cli.main import main; sys.exit(main())"
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


@dataclass(frozen=True)
class Cost:
    """What a process took: its exit code, core-seconds, and the most bytes that it had in memory."""

    code: int
    seconds: float
    peak: float


def run(folder: Path, metrics: list[str], resamples: int) -> Cost:
    """Run the task below a folder."""
    task = ["--task", "memory", "--include_path", str(folder), "--output_path", str(folder / "runs")]
    return _measure(folder, "run", [*task, "--bootstrap", str(resamples)], metrics)


def score(folder: Path, metrics: list[str], resamples: int) -> Cost:
    """Score the rows below a folder, and write the scores beside them."""
    return _measure(folder, "score", [str(folder / "rows.jsonl"), "--output", str(folder / "scores.jsonl")], metrics)


def _measure(folder: Path, command: str, arguments: list[str], metrics: list[str]) -> Cost:
    whole = [sys.executable, "-c", _BENCH, command, *arguments]
    whole += ["--store", str(folder / "store.sqlite"), "--metrics", *metrics]
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(whole[0], whole, dict(os.environ), file_actions=silent)
    # wait4 gives the peak of this one process, where getrusage would mix in others.
    _, status, usage = os.wait4(process, 0)
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


def main() -> None:
    """Write the rows, few and many, run and score each in a process of its own, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="captions (1,000,000)")
    parser.add_argument("--few", type=int, default=10_000, metavar="N", help="to compare with (10,000)")
    parser.add_argument("--metrics", nargs="+", default=["bleu_1", "bleu_4", "rouge_l", "cider"], metavar="NAME")
    parser.add_argument("--bootstrap", type=int, default=0, metavar="N", help="resamples of intervals (0)")
    options = parser.parse_args()
    failed = False
    few: dict[str, Cost] = {}
    print(f"{', '.join(options.metrics)}:")
    for count in (options.few, options.rows):
        for measured in (run, score):
            with tempfile.TemporaryDirectory() as name:
                write(Path(name), count)
                cost = measured(Path(name), options.metrics, options.bootstrap)
            known = few.setdefault(measured.__name__, cost)
            more = (cost.peak - known.peak) / max(count - options.few, 1)
            print(
                f"bench {measured.__name__}, {count:,} rows: {cost.seconds:.1f} core-seconds, peak "
                f"{cost.peak / 1e9:.2f} GB, {cost.peak / known.peak:.2f} times that of {options.few:,} rows "
                f"({more:.0f} bytes a row more); {'within' if cost.peak <= BAR_BYTES else 'over'} "
                f"the bar of {BAR_BYTES / 1e9:.0f} GB",
                flush=True,
            )
            failed = failed or cost.code != 0 or cost.peak > BAR_BYTES
    sys.exit(failed)


if __name__ == "__main__":
    main()
