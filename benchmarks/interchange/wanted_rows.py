"""Models that write down what they are given: the pairs that are to be scored, the prompts that are to be answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import ImageHandle, Judge, Judged, JudgeRequest, PairwiseEncoder
from ...adapters.contracts import UNLIMITED
from ...adapters.judges.responses import RecordedResponses, asked
from ...adapters.pairwise import ScoredPairs
from ...adapters.pixels.handles import image_suffix
from ...drafts import write_whole
from ...errors import UsageError

NO_ANSWER = "has no answer yet"


@dataclass
class WantedRows:
    """Writes rows, and calls images by what stands below the folder of their data.

    Attributes:
        write: Takes a line.
        images: Where images are put that are no files; None for nowhere.
        folder: That of the data that is looked at now.
        count: How many rows were written.
    """

    write: Callable[[str], Any]
    images: Path | None = None
    folder: Path | None = None
    count: int = 0
    _called: dict[str, Path] = field(default_factory=dict[str, Path])

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.count += 1

    def name(self, image: ImageHandle) -> str:
        """Return what an image is called: of a file the end of its path, below the data's folder if it lies there.

        Raises:
            UsageError: Another image is called so.
        """
        if not isinstance(path := image.source, Path):
            return replace(image, box=None).name
        above = self.folder if self.folder is not None and path.is_relative_to(self.folder) else path.anchor
        name = path.relative_to(above).as_posix()
        if self._called.setdefault(name, path) != path:
            raise UsageError(
                f"two images are called {name}: {self._called[name]} and {path}",
                "Export the tasks one by one.",
            )
        return name

    def put(self, image: ImageHandle) -> dict[str, str]:
        """Put an image that is no file where images go, whole, and return the key of a row that says where.

        Raises:
            OSError: It cannot be read.
            UsageError: It cannot be written.
        """
        if self.images is None or isinstance(image.source, Path):
            return {}
        content = image.encoded()
        file = self.images / f"{hashlib.sha256(content).hexdigest()}{image_suffix(content)}"
        if not file.exists():
            try:
                self.images.mkdir(parents=True, exist_ok=True)
                write_whole(file, content)
            except OSError as error:
                raise UsageError(f"{self.images}: cannot be written: {error.strerror or error}") from error
        return {"image_file": str(file)}


class WantedPairs(PairwiseEncoder):
    """Writes down the pairs that are to be scored, as rows of ``pair_scores`` without a score; each counts 0 here.

    Args:
        rows: Where they go.
    """

    name = "pairs"
    context_length = UNLIMITED

    def __init__(self, rows: WantedRows) -> None:
        self._rows = rows

    def fingerprint(self) -> dict[str, Any]:
        """Return what it is."""
        return {"adapter": self.name}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return no tokens, as a file of scores does."""
        return [[] for _ in texts]

    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Write the pairs down."""
        for image, of_image in zip(images, texts, strict=True):
            name = self._rows.name(image)
            # The name of what is no file is for people: its digest holds with every engine.
            is_file = isinstance(image.source, Path)
            called = (
                {"image": name}
                if is_file
                else {"image": replace(image, box=None).digest(), "image_name": name}
            )
            box = {} if image.box is None else {"box": list(image.box)}
            called |= self._rows.put(image)
            for text in of_image:
                self._rows.add({**called, **box, "text": text})
        yield ScoredPairs({at: np.zeros(len(its), np.float32) for at, its in enumerate(texts)})


class WantedPrompts(Judge):
    """Writes down the prompts that have no answer yet, as rows of ``responses`` without a response.

    Args:
        rows: Where they go.
        answers: The answers that are there; None for none.
    """

    name = "prompts"

    def __init__(self, rows: WantedRows, answers: RecordedResponses | None) -> None:
        self._rows = rows
        self._answers = answers
        self._written: set[str] = set()

    def fingerprint(self) -> dict[str, Any]:
        """Return what it is."""
        return {"adapter": self.name}

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Give the answers that are there, and write the other prompts down, each once."""
        none = Judged({}, dict.fromkeys(range(len(requests)), NO_ANSWER))
        for judged in [none] if self._answers is None else self._answers.stream(requests):
            for at in judged.failures:
                row = self._row(requests[at])
                if (key := json.dumps(row)) not in self._written:
                    self._written.add(key)
                    self._rows.add(row)
            yield Judged(judged.judgements, dict.fromkeys(judged.failures, NO_ANSWER))

    def _row(self, request: JudgeRequest) -> dict[str, Any]:
        image = request.image
        looked_at: dict[str, Any] = {}
        if image is not None:
            looked_at = {
                "image": image.digest(),
                "image_name": self._rows.name(image),
                **self._rows.put(image),
            }
        candidates = {"candidates": list(request.candidates)} if request.candidates else {}
        return {"prompt": asked(request), **looked_at, **request.decoding, **candidates}
