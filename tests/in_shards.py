"""A run that is cut into shards of a size that a test chooses, carried out in an order of chance."""

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capbench.benchmarks.inputs.models import load_models
from capbench.benchmarks.inputs.settings import RunSettings
from capbench.benchmarks.running.execution import IN_PROCESS, Execution
from capbench.benchmarks.running.plan import resolve_call
from capbench.benchmarks.running.runner import run
from capbench.benchmarks.scale.executors import Executor, Resources
from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError
from capbench.metrics import Context, Items, Metric, Scores

VOLATILE = ("date", "total_evaluation_time_seconds", "timings", "environment", "checksum", "git_hash")


@dataclass
class AnyOrder(Executor):
    """This process, in an order of chance; what it is given, and gives, is pickled as for another.

    Attributes:
        seed: Of chance.
    """

    seed: int = 0

    def map(
        self,
        function: Callable[[Any], Any],
        calls: Iterable[Any],
        resources: Resources = Resources(),  # noqa: B008
    ) -> Iterator[tuple[int, Any]]:
        ahead = list(enumerate(calls))
        np.random.default_rng(self.seed).shuffle(ahead)
        sent = _sent(function)
        for number, call in ahead:
            yield number, _sent(sent(_sent(call)))


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - it is our own


def run_in_shards(
    call: Mapping[str, Any], output: Path, execution: Execution = IN_PROCESS, settings: RunSettings | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]], bytes]:
    """Return what the record of a run says, but for when and where it ran; its samples; and their file."""
    import pyarrow.parquet

    resolved = resolve_call(**call)
    (plan,) = resolved.plan
    with Store(output.with_suffix(".sqlite")) as store:
        kept = run(
            plan, settings or RunSettings(resamples=30), load_models(resolved.models), locations=resolved.locations,
            store=store, output=output, execution=execution,
        )  # fmt: skip
    assert kept.folder is not None
    record = json.loads((kept.folder / "run.json").read_text())
    file = kept.folder / "samples.parquet"
    known = {key: value for key, value in record.items() if key not in VOLATILE}
    return known, pyarrow.parquet.read_table(file).to_pylist(), file.read_bytes()


def note(file: Path, line: str) -> None:
    """Append a line, whole, whoever else does."""
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, f"{line}\n".encode())
    os.close(number)


def notes(file: Path) -> list[str]:
    """Return the lines that were appended."""
    return file.read_text().splitlines() if file.exists() else []


class Picky(Metric):
    """Counts letters; does not score captions with an odd word, and remarks on those with a strange one."""

    label = "Picky"
    source = "a package of one's own"
    range = (0.0, float("inf"))

    def score(self, items: Items, context: Context) -> Scores:
        values = np.array([float(len(text)) for text in items.candidates])
        failures = {n: "is odd" for n, text in enumerate(items.candidates) if "odd" in text}
        remarks = {n: "is strange" for n, text in enumerate(items.candidates) if "strange" in text}
        values[list(failures)] = np.nan
        return Scores(values, {"letters": values[:, None]}, failures, remarks)


class LongestOf(Picky):
    """Has a corpus value that is no sum: the median, of captions as often as they occur."""

    label = "Median"
    aggregation = "corpus"

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        usable = np.isfinite(scores.values)
        of_rows = np.repeat(scores.parts["letters"][usable, 0], weights[usable].astype(int))
        return float(np.median(of_rows)) if len(of_rows) else float("nan")


class RankOf(Metric):
    """Looks at all captions, each once, and says no more than that."""

    label = "Rank"
    source = "a package of one's own"
    range = (0.0, float("inf"))
    needs = frozenset({"references"})
    corpus_dependent = True

    def score(self, items: Items, context: Context) -> Scores:
        lengths = np.array(
            [len(text) + len(refs) for text, refs in zip(items.candidates, items.references, strict=True)]
        )
        order = np.argsort(np.argsort(lengths, kind="stable")).astype(float)
        values = order + items.weights / 1000
        failures = {n: "is odd" for n, text in enumerate(items.candidates) if "odd" in text}
        values[list(failures)] = np.nan
        return Scores(values, failures=failures)


class Fragile(Metric):
    """Raises where one of its captions says so."""

    label = "Fragile"
    source = "a package of one's own"
    range = (0.0, float("inf"))

    def score(self, items: Items, context: Context) -> Scores:
        if any("break" in text for text in items.candidates):
            raise RuntimeError("it is broken")
        return Scores(np.array([float(len(text)) for text in items.candidates]))


class Broken(Metric):
    """Fails as a whole."""

    label = "Broken"
    source = "here"

    def score(self, items: Items, context: Context) -> Scores:
        raise MetricError("the model is gone", "Bring it back.")
