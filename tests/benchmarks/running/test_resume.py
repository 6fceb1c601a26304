"""A run that is killed half way is finished by the next one, without doing finished work again."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked
import pytest
from task_keys import AGREEMENT, CAPTIONING, write_task
from tiny_images import noise_image

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.store.store import Store
from capbench.metrics import contract
from capbench.metrics.meteor import metric as meteor

TOKENS = 12


def write(folder: Path, task: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    write_task(folder, rows, {**task, "task": "many"})


def run(folder: Path, store: str = "store.sqlite", **call: Any) -> TaskRun:
    settings = {"include_path": [folder], "store": folder / store, "resamples": 0}
    return capbench.evaluate(tasks="many", **settings, **call)["many"]


def kept(folder: Path, of: str) -> int:
    """Return how many results of a metric or a model are in the store."""
    with Store(folder / "store.sqlite") as store:
        return sum(stat.entries for stat in store.stats() if of in str(stat.fingerprint))


def killed(folder: Path, of: str, puts: int, **call: Any) -> int:
    """Kill a run as it has kept so many batches, and return how many results these are."""
    put, batches = Store.put, iter(range(1, 1000))

    def last_put(store: Store, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        put(store, producer, values)
        if of in str(producer) and next(batches) == puts:
            os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        pytest.MonkeyPatch().setattr(Store, "put", last_put)
        run(folder, output_path=folder / "runs", **call)

    assert forked.carried_out(work) == -signal.SIGKILL
    assert not list((folder / "runs").rglob("run.json"))
    with Store(folder / "store.sqlite") as store:
        assert store.verify() == []
    return kept(folder, of)


def test_killed_run_is_finished_by_the_next_without_computing_finished_batches_again(tmp_path, monkeypatch):
    # Each batch, and small ones, so that the run can be caught after one.
    monkeypatch.setattr(contract, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(meteor, "_CHARACTERS_A_BATCH", 1000)
    count = 60
    rows = [
        {"candidate": f"a dog number {n} stands", "references": [f"one dog is standing {n}"], "rating": n % 5}
        for n in range(count)
    ]
    task = {**AGREEMENT, "metric_list": ["meteor"]}
    del task["doc_to_image"]
    write(tmp_path, task, rows)
    finished = killed(tmp_path, "meteor", 1)
    assert 0 < finished < count

    done = run(tmp_path).record
    assert done.documents.effective == count
    assert done.metric_errors == {}
    assert kept(tmp_path, "meteor") == count
    assert done.store["computed"] == count - finished
    again = run(tmp_path).record
    assert again.store["computed"] == 0
    assert again.results == done.results


@pytest.mark.usefixtures("one_thread")
def test_run_killed_while_captioning_is_finished_by_the_next_which_asks_for_the_rest(tmp_path: Path, tiny_llava: Path):
    count = 12
    for n in range(count):
        noise_image(n).save(tmp_path / f"{n}.png")
    write(tmp_path, CAPTIONING, [{"image": f"{n}.png", "references": ["a dog"]} for n in range(count)])
    call = {
        "model": "hf",
        "model_args": f"pretrained={tiny_llava},device=cpu",
        "generation_kwargs": {"min_new_tokens": TOKENS, "max_new_tokens": TOKENS},
    }
    finished = killed(tmp_path, "Llava", 3, batch_size=1, **call)
    assert 0 < finished < count

    second = run(tmp_path, **call)
    assert second.record.generation["captions"] == count
    assert second.record.failures == []
    # As many tokens were written as the rest has.
    assert second.record.generation["usage"]["completion_tokens"] == (count - finished) * TOKENS
    assert kept(tmp_path, "Llava") == count
    # Killed or not, the captions are the same.
    whole = run(tmp_path, "another.sqlite", **call)
    assert whole.record.generation["usage"]["completion_tokens"] == count * TOKENS
    assert whole.samples.column("candidate").equals(second.samples.column("candidate"))
    assert whole.record.results == second.record.results
