"""A task meets its protocol: keys that it does not read or that it lacks, choices that it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import capbench
from capbench.benchmarks.protocols import names_where, protocols
from capbench.benchmarks.protocols.agreement import Agreement, AgreementSettings
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


def line_of(path: Path, key: str) -> int:
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:"))


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
        ("doc_to_humn: x\n", "doc_to_humn", " Did you mean 'doc_to_human'?"),
        ("doc_to_zzzzzzzz: x\n", "doc_to_zzzzzzzz", ""),
        ("protocol:\n  raters: mean\n  ratrs: mean\n", "ratrs", " Did you mean 'raters'?"),
    ],
)
def test_key_that_no_protocol_knows_is_told_with_line_and_nearest_key(write: Write, tail: str, key: str, nearest: str):
    path = write(AGREEMENT, tail)
    assert faults(path) == [f"{path}:{line_of(path, key)}: unknown key '{key}'.{nearest}"]


def test_unknown_choice_of_an_included_file_names_that_file(write: Write, tmp_path: Path):
    (tmp_path / "base.yaml").write_text("description: shared\nprotocol: {ratrs: mean}\n")
    path = write(AGREEMENT, include="base.yaml")
    assert faults(path) == [f"{tmp_path / 'base.yaml'}:2: unknown key 'ratrs'. Did you mean 'raters'?"]


@pytest.mark.parametrize(
    ("task", "tail", "key"),
    [
        (CAPTIONING, "doc_to_pair: kind\n", "doc_to_pair"),
        (MATCHING, "doc_to_target: a\n", "doc_to_target"),
        (MATCHING, "metric_list: [cider]\n", "metric_list"),
        (AGREEMENT, "protocol:\n  ties: 1\n", "ties"),
        (MATCHING, "protocol:\n  first_references: 1\n", "first_references"),
    ],
)
def test_key_and_choice_of_another_protocol_are_told_with_line_and_whose_they_are(
    write: Write, task: dict[str, Any], tail: str, key: str
):
    path, is_choice = write(task, tail), tail.startswith("protocol")
    *others, last = (
        f"'{name}'" for name in names_where(lambda one: key in (one.Settings.model_fields if is_choice else one.reads))
    )
    readers = f"{', '.join(others)} and {last} do" if others else f"{last} does"
    place, mine = f"{path}:{line_of(path, key)}", task.get("output_type", "generate_until")
    named = f"protocol.{key}" if is_choice else key
    assert faults(path) == [f"{place}: {named}: protocol '{mine}' does not read it; {readers}"]


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
        f"{path}: one of 'dataset_path' and 'custom_dataset' must say where the data is",
        f"{path}:2: unknown key 'doc_to_txt'. Did you mean 'doc_to_text'?",
        f"{path}: output_type 'generate_until' needs doc_to_text, metric_list",
    ]


def test_values_of_the_wrong_type_hide_no_other_fault(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: x y\ndataset_path: rows.jsonl\nscale: much\nmetric_list: 5\nchecks: {rowz: 3}\nstatistcs: []\n"
        "output_type: agreement\ndoc_to_candidate: 5\ndoc_to_humn: rating\nprotocol: {ratrs: mean}\n"
        "metadata: {author: me}\n"
    )
    beginnings = [
        "5: unknown key 'rowz'. Did you mean 'rows'?",
        "8: doc_to_candidate: expected a column",
        "4: metric_list: Input should be a valid list",
        "3: scale: Input should be a valid number",
        "6: unknown key 'statistcs'. Did you mean 'statistics'?",
        "1: task 'x y': a name holds",
        "2: dataset_path 'rows.jsonl' is a file",
        "11: metadata.version is missing",
        "9: unknown key 'doc_to_humn'. Did you mean 'doc_to_human'?",
        "10: unknown key 'ratrs'. Did you mean 'raters'?",
        # What is there and wrong is not missing.
        " output_type 'agreement' needs doc_to_human, statistics",
    ]
    found = all_faults(path)
    assert len(found) == len(beginnings)
    for beginning in beginnings:
        assert any(one.startswith(f"{path}:{beginning}") for one in found), (beginning, found)


def test_choice_that_is_wrong_makes_no_key_missing_that_only_the_usual_choice_needs(write: Write):
    path = write(MATCHING, "doc_to_captions: a\ndoc_to_negatives: b\nprotocol: {measure: ngs}\n", doc_to_entries=None)
    (found,) = faults(path)
    assert "protocol.measure" in found


def test_unknown_protocol_is_told_beside_the_other_faults(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text("task: x\noutput_type: agreemnt\n")
    found = all_faults(path)
    assert f"{path}:2: unknown protocol 'agreemnt'. Did you mean 'agreement'?" in found
    assert f"{path}: key 'metadata' is missing" in found


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("{empty_caption: skip}", "protocol.empty_caption: Input should be 'zero' or 'leave_out'"),
        ("{aggregate: mean}", "protocol.aggregate: Input should be 'all' or 'categories'"),
        ("{raters: median}", "protocol.raters: Input should be 'flatten', 'mean' or 'per_rater_mean'"),
        ("{human_range: [0]}", "protocol.human_range.1: Field required"),
        ("{human_range: [5, 5]}", "protocol.human_range: the least rating stands first, the greatest second"),
        ("{first_references: 0}", "protocol.first_references: Input should be greater than or equal to 1"),
        ("{round_scores: .inf}", "protocol.round_scores: Input should be a"),
    ],
)
def test_choice_of_a_wrong_value_is_one_fault_with_line_and_key(write: Write, choices: str, message: str):
    path = write(AGREEMENT, f"protocol: {choices}\n")
    (found,) = faults(path)
    if "human_range.1" in message:  # a list that is too short has no place for what is missing
        assert found == f"{path}:{line_of(path, 'protocol')}: key 'protocol.human_range.1' is missing"
    else:
        assert found.startswith(f"{path}:{line_of(path, 'protocol')}: {message}")


def test_list_of_templates_is_for_keys_that_take_one(write: Write):
    path = write(PREFERENCE, "doc_to_candidates: [one, other]\ndoc_to_target: [a, b]\n", doc_to_candidates=None)
    assert bound(path)
    path = write(PREFERENCE, "doc_to_image: [a, b]\n")
    assert faults(path) == [
        f"{path}:{line_of(path, 'doc_to_image')}: doc_to_image: expected a column, a template or a !function, "
        "found ['a', 'b']"
    ]


def test_choices_stand_with_their_defaults_in_the_fingerprint(write: Write):
    assert bound(write(AGREEMENT, "protocol: {raters: mean, human_range: [1, 5]}\n")).fingerprint() == {
        "empty_caption": "zero",
        "raters": "mean",
        "rated_reference": "keep",
        "reference_match": "exact",
        "first_references": None,
        "human_range": [1.0, 5.0],
        "round_scores": None,
        "aggregate": "all",
    }
    assert bound(write(CAPTIONING)).fingerprint() == {"empty_caption": "zero", "aggregate": "all"}


def test_recorded_choices_leave_out_those_of_other_protocols():
    older = {"raters": "mean", "human_range": [0, 5], "ties": "half", "block_size": 8}
    assert AgreementSettings.recorded(older) == AgreementSettings(raters="mean", human_range=(0, 5))


def test_choices_are_shown_with_what_they_do_and_those_that_say_nothing_are_not():
    settings = AgreementSettings(raters="mean", human_range=(1, 5), first_references=2)
    assert [settings.shown(name) for name in AgreementSettings.model_fields] == [
        "zero", "mean", "keep", "exact", "2", "ratings of 1 to 5 become 0 to 1", "", "all"
    ]  # fmt: skip
    assert settings.meaning("empty_caption").endswith("counts as an empty one and keeps its references")
    assert settings.meaning("raters") == "the ratings of a caption are averaged before correlating"
    assert settings.meaning("first_references") == ""
    assert MatchingSettings().meaning("block_size") == "entries of a block"


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


class ByMood(Agreement):
    """Agreement over the captions of one mood, which a key of its own gives."""

    reads = (*Agreement.reads, "doc_to_mood")
    needs = Agreement.needs | {"doc_to_mood"}

    def collect(self, job, failures):
        assert "doc_to_mood" in self.document_keys
        return super().collect(job, failures)


@pytest.fixture
def by_mood() -> Iterator[None]:
    capbench.register_protocol("by_mood")(ByMood)
    yield
    del protocols._entries["by_mood"]


@pytest.mark.usefixtures("by_mood")
def test_protocol_of_the_user_declares_keys_of_its_own(write: Write, tmp_path: Path):
    rows = [{"caption": "word " * (n + 1), "rating": n, "mood": "good"} for n in range(3)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    files = {"dataset_kwargs": {"data_files": "rows.json"}}
    path = write(AGREEMENT, output_type="by_mood", **files)
    assert faults(path) == [f"{path}: output_type 'by_mood' needs doc_to_mood"]
    write(AGREEMENT, output_type="by_mood", doc_to_mood="mood", **files)
    done = capbench.evaluate(tasks="mine", include_path=[tmp_path], resamples=0)["mine"]
    assert done.results[0].value == pytest.approx(1.0)
    assert done.record.protocol_choices["raters"] == "flatten"
    assert done.record.config["doc_to_mood"] == "mood"
    path = write(AGREEMENT, "doc_to_mood: mood\n")
    assert faults(path)[0].endswith("protocol 'agreement' does not read it; 'by_mood' does")


@pytest.mark.usefixtures("by_mood")
def test_faults_name_the_protocol_as_the_task_does(write: Write):
    found, _ = faults(write(AGREEMENT, "protocol: {ties: half}\n", output_type="by_mood"))
    assert "protocol 'by_mood' does not read it" in found
