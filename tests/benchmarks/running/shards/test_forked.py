"""A small run that forked processes share is that of one process."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import capbench
from capbench import forks
from capbench.benchmarks.cli.main import main
from capbench.benchmarks.running.engaging import EngineChoice
from capbench.benchmarks.running.shards import forked
from capbench.benchmarks.statistics import resampling
from capbench.benchmarks.store.store import Store
from capbench.errors import StoreError
from capbench.metrics import Context, Items, Metric, Scores, metrics

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
ROWS = 60
TASK = {
    "task": "small",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "output_type": "agreement",
    "doc_to_id": "id",
    "doc_to_image": "id",
    "doc_to_candidate": "candidate",
    "doc_to_target": "references",
    "doc_to_human": "rating",
    "metric_list": ["bleu_4", "cider", "rouge_l", "kept"],
    "statistics": ["kendall_b", "kendall_c"],
    "metadata": {"version": 1.0},
}


class Kept(Metric):
    """Counts letters, keeps them, and may go wrong where it is not wanted."""

    label = "Kept"
    is_plain = True
    source = "a package of one's own"
    range = (0.0, float("inf"))
    fault: ClassVar[Any] = None
    places: ClassVar[Path]

    def score(self, items: Items, context: Context) -> Scores:
        with self.places.open("a") as file:
            file.write(f"{os.getpid()} {len(items)}\n")
        if self.fault:
            self.fault()
        known = context.cache.get({"by": "letters"}, items.candidates)
        new = {text: len(text) for text in items.candidates if text not in known}
        context.cache.put({"by": "letters"}, new)
        context.progress(len(items), len(items))
        return Scores(np.array([float((known | new)[text]) for text in items.candidates]))


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["dog", "boat", "child", "horse", "street", "table", "river"]
    rows = [
        {
            "id": f"{number}",
            "candidate": f"a {words[number % 7]} {number} stands beside the {words[number // 7 % 7]}",
            "references": [f"one {words[number % 7]} by a {words[number // 3 % 7]}", "the river"],
            "rating": number % 5,
        }
        for number in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "small.yaml").write_text(json.dumps(TASK))
    monkeypatch.setitem(metrics._entries, "kept", Kept)
    monkeypatch.setattr(Kept, "places", tmp_path / "places", raising=False)
    monkeypatch.setattr(forked, "_WORTH_SHARING", ROWS)
    monkeypatch.setattr(forked, "cores_to_share", lambda: 3)


def run(folder: Path, name: str, processes: int | None = None) -> dict[str, Any]:
    """Return record and samples of a run, but for when and where it ran."""
    done = capbench.evaluate(
        tasks="small",
        include_path=[folder],
        store=folder / f"{name}.sqlite",
        output_path=folder / name,
        resamples=20,
        engine=EngineChoice(None, processes=processes),
    )["small"]
    assert done.folder is not None
    record = json.loads((done.folder / "run.json").read_text())
    own = ("date", "total_evaluation_time_seconds", "timings", "checksum")
    known = {name: value for name, value in record.items() if name not in own}
    return {**known, "samples of captions": (done.folder / "samples.parquet").read_bytes()}


def places(folder: Path) -> list[tuple[int, int]]:
    """Return who scored how many items, each time."""
    text = (folder / "places").read_text()
    (folder / "places").unlink()
    return [(int(who), int(count)) for who, count in map(str.split, text.splitlines())]


def test_run_that_processes_share_is_that_of_one(tmp_path: Path):
    alone = run(tmp_path, "alone", processes=1)
    assert places(tmp_path) == [(os.getpid(), ROWS)]
    shared = run(tmp_path, "shared")
    who, counts = zip(*places(tmp_path), strict=True)
    assert len(set(who)) == 3 and os.getpid() in who and counts == (20, 20, 20)
    assert shared == alone and shared["store"] == {"found": 0, "computed": ROWS}
    assert multiprocessing.active_children() == []
    # What forked processes kept is known.
    assert run(tmp_path, "shared")["store"] == {"found": ROWS, "computed": 0}


_forks: list[str] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.fork":
        _forks.append(event)


sys.addaudithook(_note)


def test_who_asks_for_one_process_has_one_for_the_resamples_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resampling, "_WORTH_SHARING", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr("threading.active_count", lambda: 1)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    forks_before = len(_forks)
    alone = run(tmp_path, "alone", processes=1)
    assert len(_forks) == forks_before
    assert run(tmp_path, "shared") == alone
    assert len(_forks) > forks_before + 2
    assert forks.cores_to_share() == 3


def test_forked_process_opens_the_store_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened = Store.__init__

    def noted(self: Store, *arguments: Any) -> None:
        with (tmp_path / "opened").open("a") as file:
            file.write(f"{os.getpid()}\n")
        opened(self, *arguments)

    monkeypatch.setattr(Store, "__init__", noted)
    run(tmp_path, "shared")
    who = {who for who, _ in places(tmp_path)}
    assert len(who) == 3 and who <= {int(line) for line in (tmp_path / "opened").read_text().split()}


def test_what_a_killed_process_was_to_make_is_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    alone, here = run(tmp_path, "alone", processes=1), os.getpid()
    monkeypatch.setattr(
        Kept, "fault", lambda self: os.getpid() == here or os.kill(os.getpid(), signal.SIGKILL)
    )
    assert run(tmp_path, "shared") == alone


def test_what_a_forked_process_could_not_make_is_made_here_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    here, opened = os.getpid(), Store.__init__

    def broken(self: Store, *arguments: Any) -> None:
        if os.getpid() != here:
            raise StoreError("the store is locked", "Try again.")
        opened(self, *arguments)

    alone = run(tmp_path, "alone", processes=1)
    monkeypatch.setattr(Store, "__init__", broken)
    assert run(tmp_path, "shared") == alone
    assert "Traceback" not in capfd.readouterr().err
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("options, shared", [([], 3), (["--processes", "1"], 1)])
def test_command_line_says_how_many_share(tmp_path: Path, options: list[str], shared: int):
    command = [
        "run",
        "--task",
        "small",
        "--include_path",
        str(tmp_path),
        "--store",
        str(tmp_path / "s.sqlite"),
    ]
    assert main([*command, "--output_path", str(tmp_path / "out"), "--bootstrap", "0", *options]) == 0
    assert len({who for who, _ in places(tmp_path)}) == shared


def test_few_documents_and_metrics_that_see_all_or_are_not_plain_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forked, "_WORTH_SHARING", ROWS + 1)
    run(tmp_path, "few")
    assert places(tmp_path) == [(os.getpid(), ROWS)]
    monkeypatch.setattr(forked, "_WORTH_SHARING", ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(Kept, "corpus_dependent", True)
        run(tmp_path, "all")
        assert places(tmp_path) == [(os.getpid(), ROWS)]
    monkeypatch.setattr(Kept, "is_plain", False)
    run(tmp_path, "of a library")
    assert places(tmp_path) == [(os.getpid(), ROWS)]


def test_process_in_which_something_else_runs_is_not_forked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert forks.cores_to_share() == 3
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert forks.cores_to_share() == 1


def test_captions_of_a_model_stay_here(tmp_path: Path):
    shown = {**TASK, "task": "shown", "output_type": "generate_until", "doc_to_text": "Describe it."}
    for key in ("doc_to_candidate", "doc_to_human", "statistics"):
        del shown[key]
    (tmp_path / "shown.yaml").write_text(json.dumps(shown))
    lines = [json.dumps({"id": f"{number}", "caption": f"a dog {number}"}) for number in range(ROWS)]
    (tmp_path / "captions.jsonl").write_text("\n".join(lines))
    capbench.evaluate(
        tasks="shown",
        model=f"captions:{tmp_path / 'captions.jsonl'}",
        include_path=[tmp_path],
        store=tmp_path / "s.sqlite",
        resamples=0,
    )
    assert places(tmp_path) == [(os.getpid(), ROWS)]
