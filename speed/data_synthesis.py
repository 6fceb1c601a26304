"""Measure what memory a pipeline takes of a thousand rows of texts, and of a hundred thousand.

python speed/data_synthesis.py
"""

import json
import random
import sys
import tempfile
from pathlib import Path

from watching import Taken, watched

FEW, MANY, BAR = 1_000, 100_000, 1.5
"""Rows, and how many times the memory of the few the many may take."""
PIPELINE = """\
pipeline: texts
models: {judge: {name: shapes-writer}}
stages:
  - {stage: merge, overall: overall, elements: parts, to: merged, beams: 1}
  - {stage: select, caption: merged, parser: {parser: grammar}}
output: {columns: {captions: merged}}
judged: {texts: {overall: overall, merged: merged}, metrics: [length, rep_4]}
"""
THINGS = [
    f"{size} {colour} {shape}"
    for size in ("small", "large")
    for colour in ("red", "blue", "green", "yellow")
    for shape in ("star", "square", "circle", "triangle")
]


def made(folder: Path, count: int) -> Taken:
    """Return what a pipeline of so many rows took."""
    rng = random.Random(count)  # noqa: S311 - texts of a measurement
    data = folder / f"{count}.jsonl"
    with data.open("w", encoding="utf-8") as file:
        for number in range(count):
            first, *parts = (f"There is a {one} on the left." for one in rng.sample(THINGS, 6))
            file.write(json.dumps({"id": f"row {number}", "overall": first, "parts": parts}) + "\n")
    pipeline = folder / "texts.yaml"
    pipeline.write_text(PIPELINE, encoding="utf-8")
    out, store = folder / f"{count}", folder / f"{count}.sqlite"
    words = (pipeline, "--data", data, "--output", out, "--store", store)
    return watched([sys.executable, "-m", "capbench.cli.main", "make", *words])


def main() -> None:
    """Print core-seconds and peak memory, and whether the bar is kept."""
    with tempfile.TemporaryDirectory() as name:
        few, many = made(Path(name), FEW), made(Path(name), MANY)
    for count, taken in ((FEW, few), (MANY, many)):
        print(f"{count:,} rows: {taken.core_seconds:.1f} core-seconds, peak {taken.peak_bytes / 1e6:.0f} MB")
    grown = many.peak_bytes / few.peak_bytes
    print(f"{grown:.2f} times the memory, {'within' if grown <= BAR else 'over'} {BAR}")


if __name__ == "__main__":
    main()
