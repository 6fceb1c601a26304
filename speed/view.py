"""Time ``bench view`` on a run of many samples: start, pages, filters, sort; seconds of a core where the system tells.

Run by hand::

    python speed/view.py
    python speed/view.py --samples 1000000
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import capbench

_WORDS = (
    "a man", "a woman", "a dog", "two people", "a child", "in the street", "on the beach", "near a window", "running",
    "standing", "sitting", "riding", "a red", "a blue", "large", "small", "a camera", "a building", "a tree",
)  # fmt: skip
_TASK = {
    "task": "many",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "output_type": "agreement",
    "doc_to_id": "id",
    "doc_to_image": "image",
    "doc_to_candidate": "candidate",
    "doc_to_target": "references",
    "doc_to_human": "ratings",
    "metric_list": ["bleu_4", "rouge_l", "cider", "length"],
    "statistics": ["kendall_b"],
    "metadata": {"version": 1.0},
}


def main() -> int:
    """Print seconds and megabytes beside what they are held to; exit code 1 where one is over its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000, metavar="N", help="samples of the run (100000)")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where the run is kept, and looked for")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.runs or Path(made)
        if not (folder / "runs").is_dir():
            _make(folder, options.samples)
        return int(not _measure(folder / "runs", options.samples))


def _make(folder: Path, samples: int) -> None:
    """Make a run over made-up captions of some 12 words, each with five references."""
    import numpy as np

    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "many.yaml").write_text(json.dumps(_TASK), encoding="utf-8")
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
        for row in range(samples):
            texts = [" ".join(_WORDS[one] for one in of_text) for of_text in random.integers(0, len(_WORDS), (6, 7))]
            values = {"id": f"sample {row}", "image": f"{row // 5}.jpg", "candidate": texts[0], "references": texts[1:]}
            file.write(json.dumps(values | {"ratings": random.integers(1, 6, 3).tolist()}) + "\n")
    capbench.evaluate(tasks=["many"], include_path=[folder], resamples=0, output_path=folder / "runs")


def _measure(runs: Path, samples: int) -> bool:
    start = time.perf_counter()
    command = [sys.executable, "-m", "capbench.cli.main", "view", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[1] if process.stdout else ""
            started = _cpu(process.pid) if _CPU else time.perf_counter() - start
            return _ask(process.pid, address, started, runs, samples)
        finally:
            process.terminate()


def _ask(pid: int, address: str, started: float, runs: Path, samples: int) -> bool:
    """Print how long the server at an address takes for pages, and its memory; return whether all keep their bars."""
    own, _, token = address.partition("/?token=")
    cookie = f"capbench-view-{urllib.parse.urlsplit(own).port}={token}"

    def seconds(path: str) -> float:
        request = urllib.request.Request(own + urllib.parse.quote(path, "/?=&'+-"), headers={"cookie": cookie})  # noqa: S310 - our own
        before, used = time.perf_counter(), _cpu(pid)
        urllib.request.urlopen(request).read()  # noqa: S310
        return max(_cpu(pid) - used, 0) if _CPU else time.perf_counter() - before

    key = _text(own, cookie).split('href="/runs/')[1].split('"')[0]
    base = f"/runs/{key}/samples"
    print(f"{samples:,} samples, {sum(file.stat().st_size for file in runs.rglob('*.parquet')) / 1e6:.0f} MB")
    kept = [_told("start", started, 1.0, "{:.2f} s")]
    for what, path, most in (
        ("first page", base, 0.5),
        ("a filter", f"{base}?q=cider+<+0.1+and+length+>+12", 0.3),
        ("a search of texts", f"{base}?q='dog+running'", 0.3),
        ("another filter", f"{base}?q=failure+or+candidate+contains+zebra", 0.3),
        ("metrics disagree", f"{base}?sort=-metrics_disagree", 0.5),
        ("a grid", f"{base}?view=grid&sort=-cider", 0.5),
        ("sorted by CIDEr", f"{base}?sort=cider", 1.0),
        ("page 2 of it", f"{base}?sort=cider&page=2", 1.0),
        ("one sample of it", f"{base}/{samples // 2}?sort=cider", 1.0),
        ("a scatter", f"/runs/{key}/scatter?x=ratings&y=cider", 1.0),
        ("two metrics compared", f"/compare?a={key}&b={key}&x=cider&y=rouge_l", 1.0),
        ("page 2 of it", f"/compare?a={key}&b={key}&x=cider&y=rouge_l&page=2", 0.5),
    ):
        kept.append(_told(what, seconds(path), most, "{:.2f} s"))
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1e3
    return all([*kept, _told("peak of memory", peak, 300, "{:.0f} MB")])


def _told(what: str, value: float, most: float, shown: str) -> bool:
    over = ", over the bar" if value > most else ""
    print(f"{what:20} {shown.format(value)} (at most {most:g}){over}", flush=True)
    return not over


_CPU = Path("/proc/self/stat").is_file()


def _cpu(pid: int) -> float:
    """Return the seconds of processor that a process has had: other work on the machine does not count."""
    if not _CPU:
        return 0.0
    import os

    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _text(own: str, cookie: str) -> str:
    request = urllib.request.Request(own + "/", headers={"cookie": cookie})  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return answer.read().decode()


if __name__ == "__main__":
    sys.exit(main())
