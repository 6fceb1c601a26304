import json
from collections.abc import Callable
from pathlib import Path

import pytest
from task_keys import line_of

from capbench.errors import TaskError
from capbench.tasks.index import build_index
from capbench.tasks.schema import TaskConfig, load_task

WriteTask = Callable[..., Path]
SHIPPED = build_index().tasks


def faults(path: Path) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load_task(path)
    return str(caught.value).splitlines()


def test_every_shipped_task_loads(subtests: pytest.Subtests):
    for entry in SHIPPED:
        with subtests.test(task=entry.name):
            task, _ = load_task(entry.path)
            assert task.task == entry.name
            assert task.description
            json.dumps([task.to_json(), task.fingerprint()], allow_nan=False)
            for function in (task.custom_dataset, task.process_docs):
                assert function is None or callable(function.resolve())


NO_VERSION = "metadata.version is missing; results of two versions are never mixed"
PUBLISHED = "published:\n  paper: x\n  table: 1\n  task: y\n  statistic: {}\n"


@pytest.mark.parametrize(
    ("keys", "tail", "key", "fault"),
    [
        ({}, "task_alia: x\n", "task_alia", "unknown key 'task_alia'. Did you mean 'task_alias'?"),
        ({}, "checks:\n\n  rowz: 3\n", "rowz", "unknown key 'rowz'. Did you mean 'rows'?"),
        ({}, PUBLISHED, "statistic", "unknown key 'statistic'. Did you mean 'statistics'?"),
        ({}, "zzzzzz: 1\n", "zzzzzz", "unknown key 'zzzzzz'."),
        ({"metadata": None}, "", None, "key 'metadata' is missing"),
        ({"metadata": {}}, "", "metadata", NO_VERSION),
        ({"metadata": {"author": "x"}}, "", "metadata", NO_VERSION),
        ({"metadata": {"version": None}}, "", "metadata", NO_VERSION),
        ({"dataset_path": None}, "", None, "one of 'dataset_path' and 'custom_dataset' is required"),
    ],
)
def test_key_that_is_unknown_or_missing_is_an_error_with_its_line(write_task, keys, tail: str, key, fault: str):
    path = write_task(tail=tail, **keys)
    place = f"{path}:{line_of(path, key)}" if key else str(path)
    assert faults(path) == [f"{place}: {fault}"]


def test_metric_entry_without_a_metric_says_so(write_task: WriteTask):
    path = write_task(metric_list=None, tail="metric_list:\n- length\n- {metrc: cider}\n")
    line = line_of(path, "metric_list") + 2
    assert faults(path) == [f"{path}:{line}: key 'metric_list.1.metric' is missing"]


@pytest.mark.parametrize(
    ("tail", "key", "message"),
    [
        ("scale: much\n", "scale", "scale: Input should be a valid number"),
        ("checks: {rows: many}\n", "checks", "checks.rows: Input should be a valid integer"),
        (
            "video_frames: {count: 0}\n",
            "video_frames",
            "video_frames.count: Input should be greater than or equal to 1",
        ),
        ("video_frames: {fps: 1}\n", "video_frames", "key 'video_frames.count' is missing"),
        ("process_docs: {reference: os.system, folder: /}\n", "process_docs", "process_docs: expected '!function"),
        (
            "doc_to_image: 5\n",
            "doc_to_image",
            "doc_to_image: expected a column, a template or a !function, found 5; "
            'what is the same for all documents is "{{ 5 }}"',
        ),
        ("doc_to_any: [a, 5]\n", "doc_to_any", "doc_to_any: expected a column, a template or a !function"),
    ],
)
def test_value_of_the_wrong_type_is_one_error_with_line_and_key(write_task, tail: str, key: str, message: str):
    path = write_task(tail=tail)
    (fault,) = faults(path)
    assert fault.startswith(f"{path}:{line_of(path, key)}: {message}")


def test_fingerprint_is_that_of_the_numbers_not_of_names_and_texts(make_task: Callable[..., TaskConfig]):
    plain = make_task().fingerprint()
    assert make_task(task="other", description="x", tag="t", scale=100, checks={"rows": 3}).fingerprint() == plain
    assert make_task(doc_to_text="Describe it.").fingerprint() != plain
    assert make_task(generation_kwargs={"max_new_tokens": 5}).fingerprint() != plain
    assert make_task(metadata={"version": 2.0}).fingerprint() != plain
    frames = make_task(video_frames={"count": 8}).fingerprint()
    assert frames == {**plain, "video_frames": {"count": 8, "fps": None}}
    assert make_task(video_frames={"count": 8, "fps": 2}).fingerprint() != frames


def test_fingerprint_changes_when_the_reader_changes(make_task: Callable[..., TaskConfig], write: Callable[..., Path]):
    write("reader.py", "def read(docs): return docs\n")
    task = make_task(tail="process_docs: !function reader.read\n")
    before = task.fingerprint()
    write("reader.py", "def read(docs): return docs[:10]\n")
    assert task.fingerprint() != before
