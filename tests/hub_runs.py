"""``bench`` as a process that knows one hub alone, and small repositories under real names."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from hub_server import Hub
from tiny_images import noise_png
from warm_python import run_python

LLAVA = "llava-hf/llava-1.5-7b-hf"
FACTUAL = "lizhuang144/flan-t5-base-VG-factual-sg"
MPNET = "sentence-transformers/all-mpnet-base-v2"
DETAILCAPS = "foundation-multimodal-models/DetailCaps-4870"


@dataclass(frozen=True)
class Ended:
    """A call of ``bench`` that has ended.

    Attributes:
        code: Its exit code.
        out: What it printed.
        err: What it printed to stderr.
        runs: The folder with its records.
    """

    code: int
    out: str
    err: str
    runs: Path

    @property
    def record(self) -> dict[str, Any]:
        """The latest record."""
        assert self.code == 0, self.err
        return json.loads(max(self.runs.rglob("run.json"), key=lambda file: file.stat().st_mtime_ns).read_text())


Bench = Callable[..., Ended]


def call_bench(hub: Hub, folder: Path, *arguments: str, **environment: str) -> Ended:
    """Call ``bench`` in a folder, below which are the hub's cache (``home``), bench's own, data and runs."""
    own = {"BENCH_CACHE": f"{folder}/cache", "CAPBENCH_DATA": f"{folder}/data", "SHORT_WAITS": "1"} | environment
    environment = hub.environment(folder / "home", **own)
    ended = run_python("-m", "capbench.cli.main", *arguments, folder=folder, environment=environment)
    return Ended(ended.returncode, ended.stdout, ended.stderr, folder / "runs")


def write_detailcaps(folder: Path, first: int = 0) -> Path:
    """Write six rows in the columns of DetailCaps-4870, whose images begin at a number, and return the folder."""
    rows = [
        {
            "source": "COCO",
            "image": f"{n}.jpg",
            "binary": noise_png(first + n),
            "GT_Caption_GPT4V": f"A brown dog stands on the grass in picture {n}. The sky is blue.",
            "GT_Caption_Gemini15Pro": "A man rides a horse near the trees.",
        }
        for n in range(6)
    ]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.Table.from_pylist(rows), folder / "data/test-00000-of-00001.parquet")
    return folder
