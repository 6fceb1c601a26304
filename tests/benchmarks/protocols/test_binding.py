"""A task meets its protocol: keys that it does not read or that it lacks, choices that it does not know."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from task_keys import line_of

from capbench.benchmarks.protocols import protocols
from capbench.benchmarks.protocols.binding import bind, load_bound
from capbench.benchmarks.protocols.contract import Protocol
from capbench.benchmarks.protocols.matching.documents import MatchingSettings
from capbench.errors import TaskError
from capbench.tasks.index import build_index
from capbench.tasks.schema import load_task

LOCAL = {"task": "mine", "dataset_path": "json", "metadata": {"version": 1.0}}
CAPTIONING = LOCAL | {"doc_to_text": "Describe this image.", "metric_list": ["length"]}
AGREEMENT = LOCAL | {
    "output_type": "agreement",
    "doc_to_candidate": "caption",
    "doc_to_human": "rating",
    "metric_list": ["length"],
    "statistics": ["kendall_b"],
}
PREFERENCE = LOCAL | {
    "output_type": "preference",
    "doc_to_candidates": "captions",
    "doc_to_preferred": "preferred",
    "metric_list": ["length"],
}
MATCHING = LOCAL | {"output_type": "matching", "doc_to_image": "image", "doc_to_entries": "entries"}
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a task file, whole but for the keys given; one given as None is left out."""

    def file(task: dict[str, Any], tail: str = "", **keys: Any) -> Path:
        values = {key: value for key, value in {**task, **keys}.items() if value is not None}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False) + tail)
        return path

    return file


def bound(path: Path) -> Protocol[Any]:
    return bind(*load_task(path))


def faults(path: Path) -> list[str]:
    with pytest.raises(TaskError) as caught:
        bound(path)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("entry", build_index().tasks, ids=lambda entry: entry.name)
def test_every_shipped_task_is_one_that_its_protocol_can_read(entry: Any):
    protocol = bound(entry.path)
    assert type(protocol) is protocols[entry.output_type]
    json.dumps(protocol.fingerprint(), allow_nan=False)


@pytest.mark.parametrize(
    ("task", "missing"),
    [
        (CAPTIONING, ["doc_to_text", "metric_list"]),
        (CAPTIONING, ["metric_list"]),
        (AGREEMENT, ["doc_to_candidate", "doc_to_human", "statistics"]),
        (PREFERENCE, ["doc_to_candidates", "metric_list"]),
        (MATCHING, ["doc_to_image", "doc_to_entries"]),
    ],
)
def test_keys_that_a_protocol_needs_are_named_when_missing(write: Write, task: dict[str, Any], missing: list[str]):
    assert bound(write(task)).needs <= task.keys()
    path = write(task, **dict.fromkeys(missing))
    named = task.get("output_type", "generate_until")
    expected = [f"{path}: output_type '{named}' needs {', '.join(missing)}"]
    assert faults(path) == expected
    # What is empty is not given.
    assert faults(write(task, **{key: [] if key == "metric_list" else None for key in missing})) == expected


@pytest.mark.parametrize(
    ("tail", "key", "nearest"),
    [
        ("doc_to_humn: x\n", "doc_to_humn", "doc_to_human"),
        ("protocol:\n  raters: mean\n  ratrs: mean\n", "ratrs", "raters"),
    ],
)
def test_key_that_no_protocol_knows_is_told_with_line_and_nearest_key(write: Write, tail: str, key: str, nearest: str):
    path = write(AGREEMENT, tail)
    assert faults(path) == [f"{path}:{line_of(path, key)}: unknown key '{key}'. Did you mean '{nearest}'?"]


def test_unknown_choice_of_an_included_file_names_that_file(write: Write, tmp_path: Path):
    (tmp_path / "base.yaml").write_text("description: shared\nprotocol: {ratrs: mean}\n")
    path = write(AGREEMENT, include="base.yaml")
    assert faults(path) == [f"{tmp_path / 'base.yaml'}:2: unknown key 'ratrs'. Did you mean 'raters'?"]


@pytest.mark.parametrize(
    ("task", "tail", "key", "readers"),
    [
        (MATCHING, "doc_to_target: a\n", "doc_to_target", "preference, yes_no"),
        (AGREEMENT, "protocol:\n  ties: half\n", "ties", "battles, matching, preference"),
    ],
)
def test_key_and_choice_of_another_protocol_are_told_with_line_and_whose_they_are(write, task, tail, key, readers):
    path = write(task, tail)
    (fault,) = faults(path)
    assert fault.startswith(f"{path}:{line_of(path, key)}: ")
    assert f"{key}: protocol '{task['output_type']}' does not read it, but " in fault
    assert fault.endswith(readers)


def test_every_fault_is_told_at_once_and_what_is_missing_too(write: Write):
    tail = "doc_to_humn: x\ndoc_to_text: Describe.\nprotocol: {ties: half, raters: median, ratrs: 1}\n"
    path = write(AGREEMENT, tail, doc_to_human=None)
    *others, missing = faults(path)
    assert len(others) == 5
    assert missing == f"{path}: output_type 'agreement' needs doc_to_human"


def all_faults(path: Path) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load_bound(path)
    return str(caught.value).splitlines()


def test_file_that_lacks_what_every_task_has_is_told_what_its_protocol_says_too(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("task: x\ndoc_to_txt: y\n")
    assert all_faults(path) == [
        f"{path}: key 'metadata' is missing",
        f"{path}: one of 'dataset_path' and 'custom_dataset' is required",
        f"{path}:2: unknown key 'doc_to_txt'. Did you mean 'doc_to_text'?",
        f"{path}: output_type 'generate_until' needs doc_to_text, metric_list",
    ]


def test_choice_that_is_wrong_makes_no_key_missing_that_only_the_usual_choice_needs(write: Write):
    path = write(MATCHING, "doc_to_captions: a\ndoc_to_negatives: b\nprotocol: {measure: ngs}\n", doc_to_entries=None)
    (fault,) = faults(path)
    assert "protocol.measure" in fault


def test_unknown_protocol_is_told_beside_the_other_faults(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("task: x\noutput_type: agreemnt\n")
    faults = all_faults(path)
    assert f"{path}:2: unknown protocol 'agreemnt'. Did you mean 'agreement'?" in faults
    assert f"{path}: key 'metadata' is missing" in faults


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("{raters: median}", "protocol.raters: Input should be 'flatten', 'mean' or 'per_rater_mean'"),
        ("{human_range: [0]}", "protocol.human_range.1: Field required"),
        ("{human_range: [5, 5]}", "protocol.human_range: expected the lowest rating, then the highest"),
        ("{round_scores: .inf}", "protocol.round_scores: Input should be a"),
    ],
)
def test_choice_of_a_wrong_value_is_one_fault_with_line_and_key(write: Write, choices: str, message: str):
    path = write(AGREEMENT, f"protocol: {choices}\n")
    (fault,) = faults(path)
    if "human_range.1" in message:  # a list that is too short has no place for what is missing
        assert fault == f"{path}:{line_of(path, 'protocol')}: key 'protocol.human_range.1' is missing"
    else:
        assert fault.startswith(f"{path}:{line_of(path, 'protocol')}: {message}")


@pytest.mark.parametrize(
    ("choices", "idle"),
    [
        ({}, {"ties", "pick", "pick_seed"}),
        ({"measure": "neg"}, {"grouping", "block_size", "pick", "pick_seed"}),
        ({"grouping": "per_image", "captions": 2}, {"ties", "block_size", "pick_seed"}),
        ({"captions": 2, "pick": "random"}, {"ties"}),
        ({"measure": "square"}, {"grouping", "block_size", "captions", "pick", "pick_seed"}),
    ],
)
def test_choices_of_matching_that_change_nothing_are_known(choices: dict[str, Any], idle: set[str]):
    assert MatchingSettings(**choices).idle() == idle
