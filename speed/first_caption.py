"""Print the seconds from a model that is there to the first caption that is asked of it, with so many images.

::

    python speed/first_caption.py FOLDER 100000
"""

import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from described import write_task
from PIL import Image

import capbench
from capbench.adapters import Captioner, CaptionRequest

_FILES = 100
"""Different images; the others are further names of these, as a file system would be full of their like."""


class Asked(BaseException):
    """The first caption is asked for; no run takes this for a fault of the model."""


class Waiting(Captioner):
    """Is there, and ends the run when it is asked."""

    name = "waiting"

    def fingerprint(self) -> dict[str, Any]:
        """Return what it is."""
        return {"adapter": "waiting"}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        """End the run."""
        raise Asked


def write(folder: Path, count: int) -> None:
    """Write rows of so many images of 64 x 64 pixels."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    with (folder / "rows.jsonl").open("w") as rows:
        for number in range(count):
            path, first = (folder / f"images/{one}.jpg" for one in (number, number % _FILES))
            if number < _FILES:
                content = io.BytesIO()
                pixels = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(content, "JPEG")
                path.write_bytes(content.getvalue())
            else:
                os.link(first, path)
            row = {"id": str(number), "image": f"images/{number}.jpg", "references": ["a grey image"]}
            rows.write(json.dumps(row) + "\n")


def main() -> None:
    """Write what is asked about, and ask."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    write(folder, count)
    task = write_task(folder)
    model = Waiting()
    start = time.perf_counter()
    try:
        capbench.evaluate(model, [task], include_path=[folder], store=folder / "store.sqlite")
    except Asked:
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
