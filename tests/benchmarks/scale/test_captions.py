"""Captions that workers write, over results that are shared: an image that was changed is captioned anew."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_shards import AnyOrder, note, notes

import capbench
from capbench.adapters import Captioner, CaptionRequest, ImageHandle, adapters
from capbench.benchmarks.running import runner
from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import Executor
from capbench.errors import UsageError

sys.path.append(str(Path(__file__).parents[3] / "speed"))

from described import write_task

SIZE = 4


class Looking(Captioner):
    """Says as many words as a file has bytes, fails where it has none, and writes down what it looked at."""

    name = "looking"

    def __init__(self, seen: str) -> None:
        self.seen = Path(seen)

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "looking"}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        for request in requests:
            note(self.seen, request.id)
        return [" ".join(["dog"] * size) or None for size in map(self._size, requests)]

    def _size(self, request: CaptionRequest) -> int:
        assert isinstance(request.pixels, ImageHandle)
        assert isinstance(request.pixels.source, Path)
        return request.pixels.source.stat().st_size


@dataclass(frozen=True)
class Captioning:
    """Captions twelve files, four a shard."""

    folder: Path

    def lengths(self, execution: Execution | None = None) -> list[float]:
        run = capbench.evaluate(
            "looking",
            "described",
            model_args={"seen": str(self.folder / "seen")},
            include_path=[self.folder],
            engine=execution or Execution(AnyOrder(), folder=self.folder / "shared"),
            store=self.folder / "store.sqlite",
        )
        scores = [sample["length"] for sample in run["described"].samples.to_pylist()]
        return [score for score in scores if score is not None]

    def seen(self) -> list[str]:
        """Return what was looked at since the last time, and forget it: a file that is named is part of the model."""
        ids = notes(self.folder / "seen")
        (self.folder / "seen").unlink(missing_ok=True)
        return ids


@pytest.fixture
def captioning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Captioning:
    monkeypatch.setitem(adapters._entries, "looking", Looking)
    monkeypatch.setattr(runner, "SHARD_OF_IMAGES", SIZE)
    # What is kept item by item is not what this is about.
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    rows = [{"id": str(n), "image": f"{n}.jpg", "references": ["a dog"]} for n in range(3 * SIZE)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_task(tmp_path)
    for number in range(3 * SIZE):
        (tmp_path / f"{number}.jpg").write_bytes(b"x" * (number + 1))
    return Captioning(tmp_path)


def test_changed_image_of_the_same_name_has_another_caption_and_the_others_are_not_asked_for(captioning: Captioning):
    lengths = [float(n + 1) for n in range(3 * SIZE)]
    assert captioning.lengths() == lengths
    assert len(captioning.seen()) == 3 * SIZE
    assert captioning.lengths() == lengths
    assert captioning.seen() == []
    (captioning.folder / "5.jpg").write_bytes(b"x" * 40)
    assert captioning.lengths() == [*lengths[:5], 40.0, *lengths[6:]]
    # The others of its shard are in the store of this machine.
    assert captioning.seen() == ["5"]


def test_caption_that_the_model_did_not_give_is_asked_for_again_and_no_other(captioning: Captioning):
    (captioning.folder / "5.jpg").write_bytes(b"")
    seen: list[list[str]] = []
    for _ in range(2):
        assert captioning.lengths() == [float(n + 1) for n in range(3 * SIZE) if n != 5]
        seen.append(sorted(captioning.seen(), key=int))
    assert seen == [[str(n) for n in range(3 * SIZE)], ["5"]]


def test_small_run_needs_no_engine_where_shards_alone_go_to_it(captioning: Captioning):
    rows = captioning.folder / "rows.jsonl"
    rows.write_text("\n".join(rows.read_text().splitlines()[:SIZE]))
    assert captioning.lengths(Execution(First(), only_shards=True)) == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(KeyboardInterrupt):
        captioning.lengths(Execution(First()))


def test_model_that_is_an_object_cannot_be_handed_to_an_engine(captioning: Captioning):
    model = Looking(str(captioning.folder / "seen"))
    with pytest.raises(UsageError, match="cannot be sent to the workers"):
        capbench.evaluate(model, "described", include_path=[captioning.folder], engine=AnyOrder())


class First(Executor):
    """Takes one call."""

    def map(self, function: object, calls: Iterable[Any], resources: object = None) -> Iterator[tuple[int, Any]]:
        next(iter(calls))
        raise KeyboardInterrupt
