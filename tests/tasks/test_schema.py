import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from task_keys import line_of

from capbench.errors import TaskError
from capbench.tasks.index import build_index
from capbench.tasks.schema import TaskConfig, load_task

WriteTask = Callable[..., Path]
SHIPPED = build_index().tasks
FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))


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


@pytest.mark.parametrize(("keys", "tail", "key", "fault"), FAULTS["keys"])
def test_key_that_is_unknown_or_missing_is_an_error_with_its_line(write_task, keys, tail: str, key, fault: str):
    path = write_task(tail=tail, **keys)
    place = f"{path}:{line_of(path, key)}" if key else str(path)
    assert faults(path) == [f"{place}: {fault}"]


def test_metric_entry_without_a_metric_says_so(write_task: WriteTask):
    path = write_task(metric_list=None, tail="metric_list:\n- length\n- {metrc: cider}\n")
    line = line_of(path, "metric_list") + 2
    assert faults(path) == [f"{path}:{line}: key 'metric_list.1.metric' is missing"]


@pytest.mark.parametrize(("tail", "message"), FAULTS["types"].items())
def test_value_of_the_wrong_type_is_one_error_with_line_and_key(write_task, tail: str, message: str):
    path = write_task(tail=f"{tail}\n")
    (fault,) = faults(path)
    assert fault.startswith(f"{path}:{line_of(path, tail.partition(':')[0])}: {message}")


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
