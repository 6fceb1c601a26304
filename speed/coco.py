"""The load that costs are given for: captions of COCO, each with five references, 20,000 at a time as runs cut them."""

import json
import resource
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from capbench.metrics import Items
from capbench.metrics.java import find_jar

SHARD = 20_000
MILLION = 1_000_000
_REFERENCES = 5
_TASK = """\
task: scale
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: generate_until
doc_to_id: id
doc_to_text: Describe the image.
doc_to_target: references
metric_list: [bleu_4, cider, rouge_l, meteor]
metadata: {version: 1.0}
"""

T = TypeVar("T")


def images() -> list[list[str]]:
    """Return the captions, five or more, of each image of COCO 2014."""
    of_image: dict[int, list[str]] = {}
    with zipfile.ZipFile(find_jar("spice/spice-1.0.jar")) as jar:
        for part in ("train", "val"):
            for annotation in json.loads(jar.read(f"coco/annotations/captions_{part}2014.json"))["annotations"]:
                of_image.setdefault(annotation["image_id"], []).append(annotation["caption"])
    return [captions for captions in of_image.values() if len(captions) >= _REFERENCES]


def pairs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield candidates with five references each, without end, no two alike.

    COCO has no sixth caption of an image. In the first five rounds the candidate is one of the five, and the fifth
    reference is of another image; later the references are all of the image, and the candidate is of another one.
    """
    captions = images()
    for number in range(_REFERENCES):
        for place, own in enumerate(captions):
            others = [one for at, one in enumerate(own[:_REFERENCES]) if at != number]
            yield own[number], (*others, captions[place - 1][1])
    distance = 1
    while True:
        for place, own in enumerate(captions):
            yield captions[place - distance][distance % _REFERENCES], tuple(own[:_REFERENCES])
        distance += 1


def shards(number: int) -> Iterator[Items]:
    """Yield so many shards of pairs."""
    source = pairs()
    for _ in range(number):
        yield items_of(list(islice(source, SHARD)))


def write(folder: Path, count: int) -> None:
    """Write so many captions as ``captions.jsonl`` of a captioner's task ``scale``, and as ``rows.jsonl``."""
    (folder / "scale.yaml").write_text(_TASK, encoding="utf-8")
    with (
        (folder / "rows.jsonl").open("w", encoding="utf-8") as rows,
        (folder / "captions.jsonl").open("w", encoding="utf-8") as captions,
    ):
        for number, (candidate, references) in enumerate(islice(pairs(), count)):
            identity = f"image {number}"
            rows.write(json.dumps({"id": identity, "candidate": candidate, "references": references}) + "\n")
            captions.write(json.dumps({"id": identity, "caption": candidate}) + "\n")


def items_of(pairs: Sequence[tuple[str, Sequence[str]]]) -> Items:
    """Return items of candidates and their references."""
    return Items(
        ids=[str(item) for item in range(len(pairs))],
        candidates=[candidate for candidate, _ in pairs],
        references=[tuple(references) for _, references in pairs],
        weights=np.ones(len(pairs)),
    )


def core_seconds(work: Callable[[], T]) -> tuple[T, float]:
    """Return what a call gives, and the seconds of a core that it took of this process."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def report(seconds: dict[str, float], items: int, bar: float) -> None:
    """Print core-seconds a million captions by part, and whether their sum is within the bar."""
    scaled = {name: MILLION * value / items for name, value in seconds.items()}
    print(f"core-seconds a million captions of COCO with {_REFERENCES} references each, from {items:,}:")
    for name, value in scaled.items():
        print(f"  {name:34} {value:7.1f}")
    total = sum(scaled.values())
    verdict = "over" if total > bar else "within"
    print(f"  {'together':34} {total:7.1f}, {verdict} the bar of {bar:.0f}")


def peak_bytes() -> int:
    """Return the most memory that this process has had, in bytes; its own, where getrusage counts its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
