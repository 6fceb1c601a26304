"""What recorded scores and answers must hold: the pairs that tasks have scored, and the prompts that they ask."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import Adapter, ImageHandle, Judge, Judged, JudgeRequest, PairwiseEncoder
from ...adapters.contracts import UNLIMITED, ScoredPairs
from ...adapters.images.handles import image_suffix
from ...adapters.judges.responses import RecordedResponses, asked
from ...atomic_files import write_whole, written_whole
from ...errors import MetricError, UsageError
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
                f"two images are called {name}: {self._called[name]} and {path}", "Export the tasks one by one."
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
            called = {"image": name} if is_file else {"image": replace(image, box=None).digest(), "image_name": name}
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
            looked_at = {"image": image.digest(), "image_name": self._rows.name(image), **self._rows.put(image)}
        candidates = {"candidates": list(request.candidates)} if request.candidates else {}
        return {"prompt": asked(request), **looked_at, **request.decoding, **candidates}


Exported = tuple[int, list[FailureSummary]]
"""How many rows were written, and what cannot be used, whoever scores or answers."""


def write_pairs(output: Path, tasks: Sequence[str], metrics: Sequence[str] = (), **call: Any) -> Exported:
    """Write the pairs of images and texts that tasks have an encoder score, as rows of ``pair_scores``.

    Args:
        output: The file (jsonl).
        tasks: Names of tasks, groups or tags.
        metrics: Metrics in place of ``itm_score``, for tasks that take metrics.
        call: As of :func:`_written`.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or the file cannot be written.
    """
    return _written(output, tasks, lambda rows: {"encoder": WantedPairs(rows)}, metrics or ("itm_score",), **call)


def write_prompts(
    output: Path, tasks: Sequence[str], metrics: Sequence[str] = (), answers: Path | None = None, **call: Any
) -> Exported:
    """Write the prompts that metrics of tasks ask a judge, as rows of ``responses``.

    Args:
        output: The file (jsonl).
        tasks: Names of tasks, groups or tags.
        metrics: Metrics in place of those of the tasks.
        answers: Recorded answers: these are not asked again, and what metrics ask next is.
        call: As of :func:`_written`.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a file cannot be read or written.
    """
    known = None if answers is None else RecordedResponses(answers)
    return _written(output, tasks, lambda rows: {"judge": WantedPrompts(rows, known)}, metrics, **call)


def _written(
    output: Path,
    tasks: Sequence[str],
    collect: Callable[[WantedRows], Mapping[str, Adapter]],
    metrics: Sequence[str],
    *,
    images: Path | None = None,
    include_path: Sequence[str | Path] = (),
    progress: Progress = silent,
    **call: Any,
) -> Exported:
    """Score tasks by a model that writes down what it is given, and throw the scores away.

    Args:
        output: The file.
        tasks: Names of tasks, groups or tags.
        collect: Makes that model, by its role.
        metrics: Metrics in place of those of the tasks, of tasks that take some.
        images: Where images are put that are no files: drawn ones, and those in rows of the data.
        include_path: Folders with task files of the user's own.
        progress: Gives a reporter for a step.
        call: As of :func:`.resolve_call`: ``model`` and ``model_args``, what writes captions; ``data``;
            ``allow_outside``.
    """
    failures = FailureLog(strict=False)
    try:
        with (
            written_whole(output) as draft,
            draft.open("w", encoding="utf-8", errors="backslashreplace") as file,
            tempfile.TemporaryDirectory() as place,
            Store(Path(place) / "store.sqlite") as store,
        ):
            rows = WantedRows(file.write, images)
            collecting = collect(rows)
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
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from error
    return rows.count, summarise(one for one in failures.entries if not one.reason.endswith(NO_ANSWER))


def _ask(resolved: ResolvedCall, rows: WantedRows, failures: FailureLog, store: Store, progress: Progress) -> None:
    """Have one task score by the model that writes down; metrics that look at no model are left aside."""
    (planned,) = resolved.plan
    metrics = [one for one in planned.metrics if one.metric.needs & {"encoder", "judge"}]
    planned = replace(planned, metrics=metrics)
    root = planned.root
    rows.folder = root if root is None or root.is_dir() else root.parent
    settings = RunSettings(skip_checks=True)
    models = load_models(resolved.models)
    job = prepare(planned, settings, models, locations=resolved.locations, cache=store, progress=progress)
    for one in score(planned, job, failures).metrics:
        if one.scores is None:
            raise MetricError(f"task '{planned.task.task}': metric {one.name} cannot be scored: {one.error}")
