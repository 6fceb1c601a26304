"""Exports the image-text pairs and judge prompts of tasks, for recording scores and answers."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import ImageHandle, Judge, Judged, JudgeRequest, PairwiseEncoder
from ...adapters.contracts import UNLIMITED, ScoredPairs
from ...adapters.images.handles import image_suffix
from ...adapters.judges.responses import RecordedResponses, asked
from ...atomic_files import write_whole, written_whole
from ...errors import MetricError, UsageError, writing
from ...progress import Progress, silent
from ...tasks.index import build_index
from ..inputs.failures import FailureLog, FailureSummary, summarise
from ..inputs.models import load_models
from ..inputs.settings import RunSettings
from ..protocols.binding import load_bound
from ..running.plan import ResolvedCall, resolve_call
from ..running.runner import prepare, score
from ..store.store import Store

NO_ANSWER = "has no answer yet"


@dataclass
class WantedRows:
    """Writes rows, and names images relative to the folder of their data.

    Attributes:
        write: Writes a line.
        images: Folder for images that are not files; None to skip them.
        folder: Folder of the current data.
        count: Number of written rows.
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
        """Return the name of an image: for a file in the data's folder the relative path, else the end of its path.

        Raises:
            UsageError: Another image has the same name.
        """
        if not isinstance(path := image.source, Path):
            return replace(image, box=None).name
        above = self.folder if self.folder is not None and path.is_relative_to(self.folder) else path.anchor
        name = path.relative_to(above).as_posix()
        if self._called.setdefault(name, path) != path:
            raise UsageError(
                f"two images are called {name}: {self._called[name]} and {path}", "Export the tasks one by one."
            )
        return name

    def put(self, image: ImageHandle) -> dict[str, str]:
        """Write an image that is not a file atomically, and return the row's field with its place.

        Raises:
            OSError: The image cannot be read.
            UsageError: The image cannot be written.
        """
        if self.images is None or isinstance(image.source, Path):
            return {}
        content = image.encoded()
        file = self.images / f"{hashlib.sha256(content).hexdigest()}{image_suffix(content)}"
        if not file.exists():
            with writing(self.images):
                self.images.mkdir(parents=True, exist_ok=True)
                write_whole(file, content)
        return {"image_file": str(file)}


class WantedPairs(PairwiseEncoder):
    """Records the pairs to score, as rows of ``pair_scores`` without a score; returns 0 for each.

    Args:
        rows: The output.
    """

    name = "pairs"
    context_length = UNLIMITED

    def __init__(self, rows: WantedRows) -> None:
        self._rows = rows

    def fingerprint(self) -> dict[str, Any]:
        """Return what it is."""
        return {"adapter": self.name}

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return no tokens, like an encoder of recorded scores."""
        return [[] for _ in texts]

    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Record the pairs."""
        for image, of_image in zip(images, texts, strict=True):
            name = self._rows.name(image)
            # The name of an image that is not a file is only for people; the digest identifies it.
            is_file = isinstance(image.source, Path)
            called = {"image": name} if is_file else {"image": replace(image, box=None).digest(), "image_name": name}
            box = {} if image.box is None else {"box": list(image.box)}
            called |= self._rows.put(image)
            for text in of_image:
                self._rows.add({**called, **box, "text": text})
        yield ScoredPairs({at: np.zeros(len(captions), np.float32) for at, captions in enumerate(texts)})


class WantedPrompts(Judge):
    """Records prompts without an answer, as rows of ``responses`` without a response.

    Args:
        rows: The output.
        answers: Recorded answers; None for none.
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
        """Return recorded answers, and record each other prompt once."""
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
            looked_at = {"image": image.digest(), "image_name": self._rows.name(image), **self._rows.put(image)}
        candidates = {"candidates": list(request.candidates)} if request.candidates else {}
        return {"prompt": asked(request), **looked_at, **request.decoding, **candidates}


def write_wanted(
    kind: str,
    output: Path,
    tasks: Sequence[str],
    metrics: Sequence[str] = (),
    *,
    answers: Path | None = None,
    images: Path | None = None,
    include_path: Sequence[str | Path] = (),
    progress: Progress = silent,
    **call: Any,
) -> tuple[int, list[FailureSummary]]:
    """Score tasks with a model that records its inputs, and discard the scores.

    Args:
        kind: ``pairs`` for the image-text pairs that an encoder scores, as rows of ``pair_scores``; ``prompts`` for
            those of a judge, as rows of ``responses``.
        output: The file (jsonl).
        tasks: Names of tasks, groups or tags.
        metrics: Metrics that replace those of the tasks (for pairs: ``itm_score``), for tasks with metrics.
        answers: Recorded answers; only unanswered and follow-up prompts are written.
        images: Folder for images that are not files: drawn ones, and those in rows of the data.
        include_path: Folders with the user's task files.
        progress: Returns a reporter for a step.
        call: See :func:`.resolve_call`: ``model`` and ``model_args`` of the captioner; ``data``;
            ``allow_outside``.

    Returns:
        Number of written rows, and unusable items.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a file cannot be read or written.
    """
    known = None if answers is None else RecordedResponses(answers)
    failures = FailureLog(strict=False)
    with (
        writing(output),
        written_whole(output) as draft,
        draft.open("w", encoding="utf-8", errors="backslashreplace") as file,
        tempfile.TemporaryDirectory() as place,
        Store(Path(place) / "store.sqlite") as store,
    ):
        rows = WantedRows(file.write, images)
        collecting: dict[str, Any] = {"judge": WantedPrompts(rows, known)}
        if kind == "pairs":
            collecting = dict[str, Any](encoder=WantedPairs(rows))
            metrics = metrics or ("itm_score",)
        for entry in build_index(include_path).resolve(tasks):
            takes_metrics = load_bound(entry.path)[2].takes_metrics
            resolved = resolve_call(
                [entry.name],
                metric_names=metrics if takes_metrics else (),
                include_path=include_path,
                **collecting,
                **call,
            )
            _ask(resolved, rows, failures, store, progress)
    return rows.count, summarise(failure for failure in failures.entries if not failure.reason.endswith(NO_ANSWER))


def _ask(resolved: ResolvedCall, rows: WantedRows, failures: FailureLog, store: Store, progress: Progress) -> None:
    """Score a task with the recording model; metrics without a model are skipped."""
    (planned,) = resolved.plan
    metrics = [plan for plan in planned.metrics if plan.metric.needs & {"encoder", "judge"}]
    planned = replace(planned, metrics=metrics)
    root = planned.root
    rows.folder = root if root is None or root.is_dir() else root.parent
    settings = RunSettings(skip_checks=True)
    models = load_models(resolved.models)
    job = prepare(planned, settings, models, locations=resolved.locations, cache=store, progress=progress)
    for metric in score(planned, job, failures).metrics:
        if metric.scores is None:
            raise MetricError(f"task '{planned.task.task}': metric {metric.name} cannot be scored: {metric.error}")
