from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.errors import TaskError
from capbench.tasks.index import BUILTIN_FOLDER, build_index
from capbench.tasks.schema import TaskConfig, load_task

WriteTask = Callable[..., Path]
SHIPPED = build_index().tasks


def faults(path: Path) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load_task(path)
    return str(caught.value).splitlines()


def line_of(path: Path, key: str) -> int:
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:"))


def test_every_shipped_task_loads(subtests: pytest.Subtests):
    for entry in SHIPPED:
        with subtests.test(task=entry.name):
            task, _ = load_task(entry.path)
            assert task.task == entry.name
            assert task.description
            json.dumps([task.to_json(), task.fingerprint()], allow_nan=False)
            for function in (task.custom_dataset, task.process_docs):
                assert function is None or callable(function.resolve())


def test_every_shipped_yaml_file_is_a_task_a_group_a_template_or_a_data_card():
    declared = {entry.path for entry in build_index().entries.values()}
    for path in BUILTIN_FOLDER.rglob("*.yaml"):
        template, card = path.name.startswith("_"), path.name.endswith("_source.yaml")
        assert (path in declared) + template + card == 1, path


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
        ({"dataset_path": None}, "", None, "one of 'dataset_path' and 'custom_dataset' must say where the data is"),
    ],
)
def test_key_that_is_unknown_or_missing_is_an_error_with_its_line(write_task, keys, tail: str, key, fault: str):
    path = write_task(tail=tail, **keys)
    place = f"{path}:{line_of(path, key)}" if key else str(path)
    assert faults(path) == [f"{place}: {fault}"]


def test_unknown_key_of_an_included_file_names_that_file(write_task: WriteTask, write: Callable[..., Path]):
    base = write("base.yaml", "description: shared\nchecks: {rowz: 3}\n")
    assert faults(write_task(include="base.yaml")) == [f"{base}:2: unknown key 'rowz'. Did you mean 'rows'?"]


def test_every_fault_of_a_file_is_told_at_once(write_task: WriteTask):
    assert len(faults(write_task(tail="doc_to_text_: 5\nchecks: {rowz: 3}\nscale: much\n"))) == 3


def test_other_keys_of_metrics_and_statistics_are_their_arguments(make_task: Callable[..., TaskConfig]):
    task = make_task(
        metric_list=["length", {"metric": "cider", "name": "cider_plain", "variant": "plain", "aggregation": "mean"}],
        statistics=["kendall_b", {"statistic": "sample_kendall", "undefined": "zero"}],
    )
    assert [metric.metric for metric in task.metric_list] == ["length", "cider"]
    assert [metric.arguments for metric in task.metric_list] == [{}, {"variant": "plain"}]
    assert task.metric_list[1].name == "cider_plain"
    assert [statistic.arguments for statistic in task.statistics] == [{}, {"undefined": "zero"}]
    # What was looked at is no key of what is written and hashed.
    assert task.metric_list[1].called == "cider_plain"
    dumped = [one.model_dump(exclude_none=True) for one in (task.metric_list[1], task.statistics[1])]
    assert dumped == [
        {"metric": "cider", "name": "cider_plain", "variant": "plain", "aggregation": "mean"},
        {"statistic": "sample_kendall", "undefined": "zero"},
    ]


def test_metric_entry_without_a_metric_says_so(write_task: WriteTask):
    path = write_task(metric_list=None, tail="metric_list:\n- length\n- {metrc: cider}\n")
    line = line_of(path, "metric_list") + 2
    assert faults(path) == [f"{path}:{line}: key 'metric_list.1.metric' is missing"]


@pytest.mark.parametrize(
    ("tail", "key", "message"),
    [
        ("scale: much\n", "scale", "scale: Input should be a valid number"),
        ("scale: .nan\n", "scale", "scale: Input should be a finite number"),
        ("tag: 5\n", "tag", "tag: Input should be a valid list"),
        ("checks: {rows: many}\n", "checks", "checks.rows: Input should be a valid integer"),
        ("protocol: mean\n", "protocol", "protocol: Input should be a valid dict"),
        ("generation_kwargs: [1]\n", "generation_kwargs", "generation_kwargs: Input should be a valid dict"),
        ("custom_dataset: reader.read\n", "custom_dataset", "custom_dataset: expected '!function module.name'"),
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
    (found,) = faults(path)
    assert found.startswith(f"{path}:{line_of(path, key)}: {message}")


def test_references_are_a_template_or_a_list_of_templates(make_task: Callable[..., TaskConfig], write_task: WriteTask):
    assert make_task(doc_to_target=["first", "{{second}}"]).templates["doc_to_target"] == ["first", "{{second}}"]
    (found,) = faults(write_task(doc_to_target=["first", 2]))
    assert "doc_to_target: expected a column, a template or a !function, found 2" in found


def test_keys_of_documents_are_gathered_whatever_their_names(make_task: Callable[..., TaskConfig]):
    task = make_task(doc_to_mood="mood")
    assert task.templates == {
        "doc_to_text": "Describe this image.", "doc_to_target": "references", "doc_to_mood": "mood"
    }  # fmt: skip


def test_key_of_an_included_file_is_taken_back_with_null(write_task: WriteTask, write: Callable[..., Path]):
    write("base.yaml", "doc_to_target: references\ndoc_to_image: image\n")
    task, _ = load_task(write_task(include="base.yaml", doc_to_target=None, tail="doc_to_image: null\n"))
    assert set(task.templates) == {"doc_to_text", "doc_to_target"}
    assert "doc_to_image" not in task.to_json()


@pytest.mark.parametrize("key", ["templates", "template"])
def test_place_where_templates_are_gathered_is_no_key_of_a_file(write_task: WriteTask, key: str):
    path = write_task(tail=f"{key}: {{}}\n")
    (found,) = faults(path)
    assert found.startswith(f"{path}:{line_of(path, key)}: ")


def test_tag_is_a_name_or_a_list(make_task: Callable[..., TaskConfig]):
    assert make_task(tag="image").tag == ["image"]
    assert make_task(tag=["image", "agreement"]).tag == ["image", "agreement"]


def test_alias_is_the_name_unless_given(make_task: Callable[..., TaskConfig]):
    assert make_task().alias == "mine"
    assert make_task(task_alias="Mine, too").alias == "Mine, too"


def test_task_as_json_holds_what_the_file_says(make_task: Callable[..., TaskConfig], write: Callable[..., Path]):
    write("reader.py", "def read(docs): return docs\n")
    task = make_task(tail="process_docs: !function reader.read\n", protocol={"raters": "mean"})
    assert task.to_json() == {
        "task": "mine",
        "dataset_path": "json",
        "doc_to_text": "Describe this image.",
        "doc_to_target": "references",
        "metric_list": [{"metric": "length"}],
        "metadata": {"version": 1.0},
        "process_docs": "!function reader.read",
        "protocol": {"raters": "mean"},
    }


def test_fingerprint_is_that_of_the_numbers_not_of_names_and_texts(make_task: Callable[..., TaskConfig]):
    plain = make_task().fingerprint()
    assert make_task(task="other", description="x", tag="t", scale=100, checks={"rows": 3}).fingerprint() == plain
    assert make_task(doc_to_text="Describe it.").fingerprint() != plain
    assert make_task(generation_kwargs={"max_new_tokens": 5}).fingerprint() != plain
    assert make_task(metadata={"version": 2.0}).fingerprint() != plain


def test_fingerprint_is_the_same_whether_a_default_is_stated_or_not(make_task: Callable[..., TaskConfig]):
    stated = make_task(output_type="generate_until", generation_kwargs={}, doc_to_image=None)
    assert stated.fingerprint() == make_task().fingerprint()
    assert stated.fingerprint()["test_split"] == "test"


def test_fingerprint_changes_when_the_reader_changes(make_task: Callable[..., TaskConfig], write: Callable[..., Path]):
    write("reader.py", "def read(docs): return docs\n")
    task = make_task(tail="process_docs: !function reader.read\n")
    before = task.fingerprint()
    write("reader.py", "def read(docs): return docs[:10]\n")
    assert task.fingerprint() != before
