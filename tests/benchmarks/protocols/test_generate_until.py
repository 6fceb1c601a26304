"""The generate_until protocol with small captioners of our own: what is asked, kept, counted and lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

import capbench
from capbench.adapters import Captioner, CaptionRequest, adapters, register_adapter
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import AdapterError, DataError, UsageError

TASK = {
    "task": "captioning",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": "rows.jsonl"},
    "doc_to_id": "id",
    "doc_to_image": "image",
    "doc_to_text": "Describe {{image}}.",
    "doc_to_target": "references",
    "generation_kwargs": {"max_new_tokens": 32, "temperature": 0},
    "metric_list": ["length"],
    "metadata": {"version": 1.0},
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


class Forgetful(Counter):
    """As Counter, of captions that are not worth keeping."""

    keep = False


class Short(Counter):
    """Loses a caption."""

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        return super().caption(requests)[:-1]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    Counter.batches.clear()
    Counter.answers.clear()
    for name, captioner in {"counter": Counter, "forgetful": Forgetful, "short": Short}.items():
        register_adapter(name)(captioner)
    yield
    for name in ("counter", "forgetful", "short"):
        del adapters._entries[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path)


def write(folder: Path, rows: Sequence[dict[str, Any]] | None = None, **keys: Any) -> Path:
    """Write a task of five images, d0 to d4."""
    if rows is None:
        rows = [{"id": f"d{n}", "image": f"{n}.jpg", "references": ["a reference"]} for n in range(5)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "captioning.yaml").write_text(json.dumps({**TASK, **keys}), encoding="utf-8")
    return folder


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
    assert done.results[0].value == 3
    assert done.results[0].n == 5


@pytest.mark.parametrize(("size", "batches"), [(1, 5), (3, 2), (100, 1)])
def test_batch_size_of_the_run_goes_before_that_of_the_captioner(folder: Path, size: int, batches: int):
    run(folder, batch_size=size)
    assert len(asked()) == batches
    assert max(map(len, asked())) == min(size, 5)


def test_generation_settings_of_the_run_go_before_those_of_the_task(folder: Path):
    run(folder, generation_kwargs={"temperature": 1, "top_p": 0.9})
    settings = {"max_new_tokens": 32, "temperature": 1, "top_p": 0.9}
    assert all(request.generation_kwargs == settings for batch in Counter.batches for request in batch)


def test_captions_are_kept_and_not_asked_for_again(folder: Path):
    first = run(folder)
    Counter.batches.clear()
    second = run(folder)
    assert asked() == []
    assert second.results == first.results
    assert second.record.store == {"found": 5, "computed": 0}
    assert second.record.fingerprint == first.record.fingerprint


def test_only_captions_that_are_not_kept_yet_are_asked_for(folder: Path):
    run(folder, limit=2)
    Counter.batches.clear()
    run(folder)
    assert asked() == [["d2", "d3"], ["d4"]]


@pytest.mark.parametrize(
    "change",
    [
        {"model_args": "pretrained=second"},
        {"generation_kwargs": {"temperature": 1}},
    ],
    ids=["checkpoint", "decoding"],
)
def test_another_checkpoint_or_setting_is_asked_anew(folder: Path, change: dict[str, Any]):
    first = run(folder)
    Counter.batches.clear()
    second = run(folder, **change)
    assert len(asked()) == 3
    assert second.record.fingerprint != first.record.fingerprint


def test_another_prompt_is_asked_anew(folder: Path):
    run(folder)
    Counter.batches.clear()
    run(write(folder, doc_to_text="What is in {{image}}?"))
    assert len(asked()) == 3


def test_image_file_that_changed_is_asked_anew(tmp_path: Path):
    image = tmp_path / "image.jpg"
    image.write_bytes(b"first")
    write(tmp_path, [{"id": "d0", "image": str(image), "references": ["a reference"]}])
    run(tmp_path)
    image.write_bytes(b"second")
    run(tmp_path)
    assert len(asked()) == 2


def test_captions_that_are_not_worth_keeping_are_asked_for_again(folder: Path):
    run(folder, "forgetful")
    done = run(folder, "forgetful")
    assert len(asked()) == 6
    assert done.record.store == {"found": 0, "computed": 0}


def test_batches_before_a_failure_of_the_model_are_kept(folder: Path):
    with pytest.raises(AdapterError, match="out of memory"):
        run(folder, model_args="fail_at=d3")
    assert asked() == [["d0", "d1"]]
    Counter.batches.clear()
    done = run(folder)
    assert asked() == [["d2", "d3"], ["d4"]]
    assert done.results[0].value == 3


def test_captions_that_are_none_or_no_text_are_counted_and_left_out(folder: Path):
    Counter.answers.update(d0=None, d1="", d2="?!", d3=17)
    done = run(folder)
    assert failures(done) == {
        "caption was not given by the model": ["d0"],
        "caption is empty": ["d1"],
        "caption has no letter or digit": ["d2"],
        "caption is not text but int": ["d3"],
    }
    assert done.results[0].value == 5
    assert done.results[0].n == 1
    assert done.record.documents.to_json() == {"original": 5, "effective": 1}


def test_caption_with_a_lone_surrogate_is_kept_and_counted_as_no_caption(folder: Path):
    Counter.answers.update(d0="a dog \ud83d")
    for _ in range(2):
        assert failures(run(folder)) == {"caption is not valid UTF-8": ["d0"]}
    assert len(asked()) == 3


def test_missing_caption_is_asked_for_again(folder: Path):
    Counter.answers.update(d0=None)
    run(folder)
    Counter.batches.clear()
    Counter.answers.clear()
    assert run(folder).results[0].n == 5
    assert asked() == [["d0"]]


def test_model_that_gives_no_caption_at_all_is_an_error(folder: Path):
    Counter.answers.update({f"d{n}": "" for n in range(5)})
    with pytest.raises(DataError, match="no caption can be scored; first failure: d0: caption is empty"):
        run(folder)


def test_captioner_that_loses_captions_is_named(folder: Path):
    with pytest.raises(AdapterError, match="Short gave 1 captions for 2 requests"):
        run(folder, "short")


def test_document_without_references_is_not_asked_for(tmp_path: Path):
    rows = [
        {"id": "d0", "image": "0.jpg", "references": []},
        {"id": "d1", "image": "1.jpg", "references": "one as text"},
        {"id": "d1", "image": "2.jpg", "references": ["twice"]},
        {"id": "d2", "image": "3.jpg", "references": ["a dog", "\0"]},
    ]
    done = run(write(tmp_path, rows))
    assert asked() == [["d1"]]
    assert failures(done) == {
        "reference is an empty list": ["d0"],
        "data has an id that occurred before; the first one was kept": ["d1"],
        "reference reference 2 has no letter or digit": ["d2"],
    }


def test_strict_stops_at_the_first_missing_caption(folder: Path):
    Counter.answers.update(d3=None)
    with pytest.raises(DataError, match="d3: caption was not given"):
        run(folder, strict=True)


def test_interval_is_over_images_and_follows_from_the_seed(folder: Path):
    first, second, other = (run(folder, resamples=200, seed=seed).results[0].interval for seed in (1, 1, 2))
    assert first == second != other
    assert 1 <= first.low < 3 < first.high <= 5


def test_count_is_not_shown_as_a_percentage(folder: Path):
    assert run(write(folder, scale=100)).results[0].scale == 1


def test_task_without_a_model_says_how_to_name_one(folder: Path):
    with pytest.raises(UsageError, match="none was named") as caught:
        capbench.evaluate(None, ["captioning"], include_path=[folder])
    assert "--model captions:FILE" in caught.value.hint


def test_model_that_writes_no_captions_is_refused(folder: Path):
    register_adapter("encoder only")(object)
    try:
        with pytest.raises(UsageError, match="a model that writes captions is needed; 'encoder only'"):
            run(folder, "encoder only")
    finally:
        del adapters._entries["encoder only"]


def test_recorded_captions_are_served_by_id_or_image(folder: Path):
    lines = [{"id": "d0", "caption": "by id"}, {"image": "1.jpg", "caption": "by image name"}]
    file = folder / "mine.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    done = run(folder, f"captions:{file}")
    assert done.record.model_name == "mine"
    assert [s["candidate"] for s in done.samples.to_pylist()[:2]] == ["by id", "by image name"]
    assert failures(done) == {"caption was not given by the model": ["d2", "d3", "d4"]}
