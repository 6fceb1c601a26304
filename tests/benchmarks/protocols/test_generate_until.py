"""The generate_until protocol with small captioners of our own: what is asked, kept, counted and lost."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from task_keys import CAPTIONING, write_task

import capbench
from capbench.adapters import Caption, Captioned, Captioner, CaptionRequest, adapters
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import render
from capbench.errors import AdapterError, DataError, UsageError
from capbench.metrics import Context, Items, Metric, Scores
from capbench.metrics import metrics as known_metrics

TASK = CAPTIONING | {
    "task": "captioning",
    "doc_to_id": "id",
    "doc_to_text": "Describe {{image}}.",
    "generation_kwargs": {"max_new_tokens": 32, "temperature": 0},
}


class Counter(Captioner):
    """Captions the n-th image with n + 1 words, and remembers what it was asked."""

    batches: ClassVar[list[list[CaptionRequest]]] = []
    answers: ClassVar[dict[str, Any]] = {}

    def __init__(self, pretrained: str = "first", batch_size: int = 2, fail_at: str = "") -> None:
        self.pretrained = pretrained
        self.batch_size = batch_size
        self.fail_at = fail_at

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "counter", "pretrained": self.pretrained}

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        if self.fail_at in {request.id for request in requests}:
            raise AdapterError("the model ran out of memory", "Ask for smaller batches.")
        self.batches.append(list(requests))
        return [self.answers.get(r.id, "word " * (int(r.id[1:]) + 1)) for r in requests]


class Short(Counter):
    """Loses a caption."""

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        return super().caption(requests)[:-1]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    Counter.batches.clear()
    Counter.answers.clear()
    known = {"counter": Counter, "short": Short}
    monkeypatch.setattr(adapters, "_entries", {**adapters._entries, **known})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


def write(folder: Path, rows: Sequence[dict[str, Any]] | None = None, **keys: Any) -> Path:
    """Write a task of five images, d0 to d4."""
    if rows is None:
        rows = [{"id": f"d{n}", "image": f"{n}.jpg", "references": ["a reference"]} for n in range(5)]
    return write_task(folder, rows, TASK | keys)


def run(folder: Path, model: str = "counter", **settings: Any) -> TaskRun:
    done = capbench.evaluate(model, ["captioning"], include_path=[folder], **{"resamples": 0} | settings)
    return done["captioning"]


def asked() -> list[list[str]]:
    """Return the ids of each batch that the captioner was asked for."""
    return [[request.id for request in batch] for batch in Counter.batches]


def failures(task_run: TaskRun) -> dict[str, list[str]]:
    return {f"{f['stage']} {f['reason']}": f["samples"] for f in task_run.record.failures}


def test_captioner_is_asked_in_batches_with_prompt_image_and_settings(folder: Path):
    done = run(folder)
    assert asked() == [["d0", "d1"], ["d2", "d3"], ["d4"]]
    request = Counter.batches[0][1]
    assert (request.image, request.prompt) == ("1.jpg", "Describe 1.jpg.")
    assert request.generation_kwargs == {"max_new_tokens": 32, "temperature": 0}
    # 1 to 5 words.
    assert (done.results[0].value, done.results[0].n) == (3, 5)
    run(folder, generation_kwargs={"temperature": 1, "top_p": 0.9})
    settings = {"max_new_tokens": 32, "temperature": 1, "top_p": 0.9}
    assert all(request.generation_kwargs == settings for batch in Counter.batches[3:] for request in batch)


def test_captions_are_kept_and_not_asked_for_again(folder: Path):
    run(folder, limit=2)
    Counter.batches.clear()
    first = run(folder)
    assert asked() == [["d2", "d3"], ["d4"]]
    Counter.batches.clear()
    second = run(folder)
    assert asked() == []
    assert second.results == first.results
    assert second.record.store == {"found": 5, "computed": 0}
    assert second.record.fingerprint == first.record.fingerprint


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"model_args": "pretrained=second"}, {}),
        ({"generation_kwargs": {"temperature": 1}}, {}),
        ({}, {"doc_to_text": "What is in {{image}}?"}),
    ],
    ids=["checkpoint", "decoding", "prompt"],
)
def test_another_checkpoint_setting_or_prompt_is_asked_anew(folder: Path, change: dict[str, Any], keys: dict[str, Any]):
    first = run(folder)
    Counter.batches.clear()
    second = run(write(folder, **keys), **change)
    assert len(asked()) == 3
    assert second.record.fingerprint != first.record.fingerprint


def test_image_file_that_changed_is_asked_anew(tmp_path: Path):
    image = tmp_path / "image.jpg"
    image.write_bytes(b"first")
    write(tmp_path, [{"id": "d0", "image": str(image), "references": ["a reference"]}])
    run(tmp_path)
    image.write_bytes(b"second")
    run(tmp_path)
    assert len(asked()) == 2


class Impatient(Metric):
    """Counts characters, of short captions alone."""

    label = "Impatient"
    source = "here"
    longest_caption = 20_000

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.array([float(len(text)) for text in items.candidates]))


def test_caption_of_a_captioner_that_loops_is_kept_and_counted_in_full(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(known_metrics._entries, "impatient", Impatient)
    looping = "a dog and " * 2_500
    Counter.answers.update(d0=looping, d1="a dog " * 4_000, d2="a dog")
    metrics = ["length", "rep_1", "bleu_1", "impatient"]
    done = run(folder, metrics=metrics)
    assert failures(done) == empty(done) == {}
    rows = done.samples.to_pylist()
    assert [row["candidate"] for row in rows[:3]] == [looping.strip(), ("a dog " * 4_000).strip(), "a dog"]
    assert [row["length"] for row in rows[:3]] == [7_500, 8_000, 2]
    assert [row["impatient"] for row in rows[:3]] == [20_000, 20_000, 5]
    # Of 7,500 words three are new.
    assert [row["rep_1"] for row in rows[:3]] == [7_497, 7_998, 0]
    assert [(remark["stage"], remark["reason"], remark["samples"]) for remark in done.record.remarks] == [
        ("candidate", "is cut at 20,000 characters for Impatient", ["d0", "d1"])
    ]
    assert done.record.generation["mean_words"] == (7_500 + 8_000 + 2 + 4 + 5) / 5
    Counter.batches.clear()
    assert [r.value for r in run(folder, metrics=metrics).results] == [r.value for r in done.results]
    assert asked() == []


def test_batches_before_a_failure_of_the_model_are_kept(folder: Path):
    with pytest.raises(AdapterError, match=r"Short\.caption returned 1 answers for 2 requests"):
        run(folder, "short")
    Counter.batches.clear()
    with pytest.raises(AdapterError, match="out of memory"):
        run(folder, model_args="fail_at=d3")
    assert asked() == [["d0", "d1"]]
    Counter.batches.clear()
    done = run(folder)
    assert asked() == [["d2", "d3"], ["d4"]]
    assert done.results[0].value == 3


def empty(task_run: TaskRun) -> dict[str, list[str]]:
    return {f"{f['stage']} {f['reason']}": f["samples"] for f in task_run.record.empty_captions}


def test_captions_that_say_nothing_count_as_empty_ones_with_their_references(folder: Path):
    Counter.answers.update(d1="", d2="?!", d3=17)
    done = run(folder, resamples=10)
    assert failures(done) == {}
    assert empty(done) == {
        "caption is empty": ["d1"],
        "caption has no letter or digit": ["d2"],
        "caption is not text but int": ["d3"],
    }
    # One word and five, and three times none.
    assert done.results[0].value == 6 / 5
    assert done.results[0].n == 5
    assert done.record.documents.to_json() == {"original": 5, "effective": 5}
    assert done.record.is_complete
    assert [row["candidate"] for row in done.samples.to_pylist()[1:4]] == [""] * 3
    line = "3 captions counted as empty: 1 × is empty, 1 × has no letter or digit, 1 × is not text but int"
    assert line in render([done])
    assert json.loads(render([done], "json"))[0]["empty"] == 3
    Counter.batches.clear()
    # An empty caption is an answer, and is not asked for again.
    run(folder)
    assert asked() == []


def test_captions_that_say_nothing_are_left_out_where_the_task_says_so(folder: Path):
    Counter.answers.update(d1="", d2="?!", d3=17)
    done = run(write(folder, protocol={"empty_caption": "leave_out"}))
    assert list(failures(done)) == ["caption is empty", "caption has no letter or digit", "caption is not text but int"]
    assert empty(done) == {}
    assert (done.results[0].value, done.results[0].n) == (3, 2)
    assert run(write(folder)).record.identity != done.record.identity
    Counter.answers.update({f"d{n}": "" for n in range(5)})
    with pytest.raises(DataError, match=r"no caption can be scored\nd0: caption is empty; d1"):
        run(folder, model_args="pretrained=silent")


def test_caption_with_a_lone_surrogate_is_kept_and_counted_as_no_caption(folder: Path):
    Counter.answers.update(d0="a dog \ud83d")
    for _ in range(2):
        assert empty(run(folder)) == {"caption is not valid UTF-8": ["d0"]}
    assert len(asked()) == 3


def test_document_on_which_the_model_fails_makes_the_run_incomplete_and_is_asked_again(folder: Path):
    Counter.answers.update(d0=None, d1="")
    done = run(folder)
    assert failures(done) == {"model was not given by the model": ["d0"]}
    assert empty(done) == {"caption is empty": ["d1"]}
    assert not done.record.is_complete
    assert not done.record.is_whole
    assert "incomplete: the model failed on 1 document" in render([done])
    Counter.batches.clear()
    Counter.answers.clear()
    again = run(folder)
    assert again.results[0].n == 5
    assert again.record.is_complete
    assert asked() == [["d0"]]


@pytest.mark.parametrize("of", ["failures", "unseen"])
def test_only_what_the_model_could_not_be_shown_leaves_a_run_complete(folder, of: str, monkeypatch):
    # Of the last two documents it says nothing at all.
    captioned = Captioned({0: Caption("a dog"), 2: Caption("a cat")}, **{of: {1: "HTTP 500"}})
    monkeypatch.setattr(Counter, "stream", lambda self, requests, batch_size=None: iter([captioned]))
    done = run(folder, limit=3)
    assert failures(done) == {f"{'model' if of == 'failures' else 'image'} HTTP 500": ["d1"]}
    assert done.record.is_complete == (of == "unseen")
    assert done.results[0].n == 2


def test_strict_stops_at_the_first_missing_caption(folder: Path):
    Counter.answers.update(d3=None)
    with pytest.raises(DataError, match="d3: caption was not given"):
        run(folder, strict=True)


def test_interval_of_a_mean_can_come_of_the_captions_that_have_a_score(folder: Path):
    interval = run(folder, resamples=5, intervals="influence").results[0].interval
    by_resamples = run(folder, resamples=2000).results[0].interval
    assert (interval.method, interval.resamples) == ("influence", 0)
    # Few captions: the bootstrap's variance is smaller by their number less one over it.
    assert 1 < interval.stderr / by_resamples.stderr < 1.3
    assert run(folder, resamples=0, intervals="influence").results[0].interval is None


def test_task_without_a_model_says_how_to_name_one(folder: Path):
    with pytest.raises(UsageError, match=r"none was named.*\n.*--model captions:FILE"):
        capbench.evaluate(None, ["captioning"], include_path=[folder])


def test_model_that_writes_no_captions_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(adapters._entries, "encoder only", object)
    with pytest.raises(UsageError, match="the run needs a model that writes captions; 'encoder only'"):
        run(folder, "encoder only")
