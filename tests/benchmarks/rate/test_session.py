"""The folder of a session: begun whole, gone on with as it began, and held by one server."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rated_session import SYSTEMS, TASK, begin_session, make_session, make_task

from capbench.benchmarks.rate.collecting import collect, recorded
from capbench.benchmarks.rate.questions import questions_of
from capbench.benchmarks.rate.session import Session, is_session, locked, rater_name, read_session, require_same
from capbench.benchmarks.records.hashes import checksum
from capbench.errors import DataError, UsageError
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task


def found(folder: Path, captions: list[str], *, subset: bool = False) -> Any:
    path = folder / "task" / "photos.yaml"
    return collect(load_task(path)[0], path, DataLocations(), recorded(captions), subset=subset)


def test_a_session_is_read_as_it_was_written(tmp_path: Path) -> None:
    session = make_session(tmp_path, aspects=["recall=1-5: none | all"], references=True, sample=4)
    assert read_session(session.folder) == session
    assert len(session.items) == 4
    assert session.wanted == 8
    assert [item.id for item in session.items] == sorted(item.id for item in session.items)
    for number, item in enumerate(session.items):
        picture = session.picture(number)
        assert picture.media_type == "image/png"
        assert picture.content == (tmp_path / "task" / "images" / item.image).read_bytes()


def test_which_images_are_drawn_follows_from_the_seed_alone(tmp_path: Path) -> None:
    drawn = [
        {item.id for item in make_session(tmp_path / str(number), rows=20, better="?", sample=5, seed=seed).items}
        for number, seed in enumerate((1, 1, 2))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_raters_have_orders_of_their_own_and_each_meets_everything_once(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=20, aspects=["p=1-5"])

    def order(rater: str, seed: int = 1, better: str = "") -> list[tuple[int, tuple[int, ...]]]:
        questions = questions_of([] if better else ["p=1-5"], better)
        design = session.design.model_copy(update={"seed": seed, "questions": questions})
        return [(step.item, step.shown) for step in replace(session, design=design).steps(rater)]

    ann = order("ann")
    assert ann == order("ann")
    assert ann != order("bob")
    assert ann != order("ann", 2)
    assert sorted(ann) == [(item, (system,)) for item in range(20) for system in range(2)]
    # The captions of an image do not follow one another, and which of them comes first is drawn.
    assert all(ann[at][0] != ann[at + 1][0] for at in range(39))
    assert {shown for _, shown in ann[:20]} == {(0,), (1,)}
    assert {shown for _, shown in order("ann", better="?")} == {(0, 1), (1, 0)}
    assert sorted(item for item, _ in order("ann", better="?")) == list(range(20))


def test_captions_of_which_all_are_equal_are_nothing_to_choose_from(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="all systems have equal captions for each image"):
        make_session(tmp_path, rows=2, captions={"a": ["dog", "cat"], "b": ["dog", "cat"]}, better="Which?")
    assert not (tmp_path / "session").exists()


def test_ids_that_do_not_match_are_named(tmp_path: Path) -> None:
    make_task(tmp_path, 4)
    first, second = (str(tmp_path / f"{system}.jsonl") for system in SYSTEMS)
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "row 1", "caption": "one"}\n{"id": "nowhere", "caption": "two"}\n')
    with pytest.raises(DataError, match=r"lacks captions of 3 of 4 documents of 'photos': 'row 0', 'row 2'") as error:
        found(tmp_path, [first, str(other)])
    assert "'nowhere' match no document of the task" in error.value.hint
    assert "--subset" in error.value.hint
    items, failures = found(tmp_path, [first, str(other)], subset=True)
    assert [item.id for item in items] == ["row 1"]
    assert items[0].texts == ("caption 1 of many more words", "one")
    assert {(entry.sample, entry.reason) for entry in failures.entries} == {
        ("nowhere", "is recorded in other.jsonl for no usable document of the task"),
        *((f"row {row}", "is not recorded in other.jsonl") for row in (0, 2, 3)),
    }
    other.write_text('{"id": "nowhere", "caption": "two"}\n')
    with pytest.raises(DataError, match="lacks captions of 4 of 4") as error:
        found(tmp_path, [str(other), second], subset=True)
    assert "--subset" not in error.value.hint


def test_a_caption_that_says_nothing_leaves_its_image_out_by_name(tmp_path: Path) -> None:
    make_task(tmp_path, 2)
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"id": "row 0", "caption": " "}\n{"id": "row 1", "caption": "two"}\n')
    items, failures = found(tmp_path, [str(empty)])
    assert [item.id for item in items] == ["row 1"]
    assert [(entry.sample, entry.reason) for entry in failures.entries] == [("row 0", "of empty.jsonl is empty")]


def test_files_of_one_name_need_names_and_a_name_may_be_given(tmp_path: Path) -> None:
    make_task(tmp_path, 1)
    first = tmp_path / f"{SYSTEMS[0]}.jsonl"
    with pytest.raises(UsageError, match="two files have the name"):
        recorded([str(first), str(first)])
    assert [system.name for system in recorded([f"A={first}", f"B={first}", str(first)])] == ["A", "B", SYSTEMS[0]]
    equal = tmp_path / "a=b.jsonl"
    equal.write_bytes(first.read_bytes())
    assert recorded([str(equal)])[0].name == "a=b"


def test_images_come_from_the_folder_of_the_task_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    make_task(tmp_path, 5)
    images = tmp_path / "task" / "images"
    (tmp_path / "secret.png").write_bytes((images / "0.png").read_bytes())
    rows = [
        {"id": f"row {row}", "image": name, "references": ["words"]}
        for row, name in enumerate(["../../secret.png", "link.png", "text.png", "missing.png", "4.png"])
    ]
    (images / "link.png").symlink_to(tmp_path / "secret.png")
    (images / "text.png").write_text("no image")
    (tmp_path / "task" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    session, failures = begin_session(tmp_path, better="?")
    assert [item.id for item in session.items] == ["row 4"]
    assert sorted(entry.sample for entry in failures.entries) == ["row 0", "row 1", "row 2", "row 3"]
    assert {entry.stage for entry in failures.entries} == {"image"}
    (images / "4.png").unlink()
    with pytest.raises(DataError, match="no image can be shown"):
        begin_session(tmp_path, "another", better="?")
    assert not (tmp_path / "another").exists()
    assert list(tmp_path.glob(".draft-*")) == []


def test_tasks_without_images_are_refused(tmp_path: Path) -> None:
    path = make_task(tmp_path, 1)
    path.write_text(json.dumps({key: TASK[key] for key in TASK.keys() - {"doc_to_image", "image_folder"}}))
    with pytest.raises(UsageError, match="has no images or videos"):
        found(tmp_path, [str(tmp_path / f"{SYSTEMS[0]}.jsonl")])


def test_what_differs_from_how_a_session_began_is_named(tmp_path: Path) -> None:
    session = make_session(tmp_path, better="Which?")
    assert [is_session(folder) for folder in (session.folder, tmp_path)] == [True, False]
    require_same(session, {})
    require_same(session, {"task": "photos", "seed": 1, "systems": list(SYSTEMS)})
    with pytest.raises(UsageError, match="the session in this folder has different captions, seed"):
        require_same(session, {"seed": 2, "captions": ["0"]})


def write_design(session: Session, **changes: Any) -> None:
    """Write a design with changed keys, its sum and that of the items made anew."""
    path = session.folder / "design.json"
    design = {**json.loads(path.read_text()), **changes}
    design["items"] = hashlib.sha256((session.folder / "items.jsonl").read_bytes()).hexdigest()
    path.write_text(json.dumps({**design, "checksum": checksum(design)}, indent=2))


def test_a_session_that_was_changed_is_refused(tmp_path: Path) -> None:
    session = make_session(tmp_path, better="Which?")
    design, items = session.folder / "design.json", session.folder / "items.jsonl"
    before, values = items.read_text(), json.loads(design.read_text())
    assert "\u2028" in before, "letters stand in the file as they are"
    items.write_text(before.replace("row 1", "row 9"))
    with pytest.raises(DataError, match=r"items.jsonl: was changed"):
        read_session(session.folder)
    items.write_text(before)
    for changed, said in (
        ({**values, "systems": values["systems"][::-1]}, r"design.json: was changed"),
        ({key: value for key, value in values.items() if key != "checksum"}, "was changed"),
        ({**values, "task": "\ud800"}, "was changed"),
        ({**values, "capbench_ratings": 1}, "from another version"),
        ([], "from another version"),
    ):
        design.write_text(json.dumps(changed))
        with pytest.raises(DataError, match=said) as error:
            read_session(session.folder)
        assert "start a session in another folder (--output)" in error.value.hint
    design.unlink()
    with pytest.raises(DataError, match="contains no rating session"):
        read_session(session.folder)


@pytest.mark.parametrize("changes", [{"seed": True}, {"sample": -1}, {"colour": 1}, {"questions": {}}, {"systems": []}])
def test_a_design_of_other_types_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    session = make_session(tmp_path, better="Which?", rows=1)
    write_design(session, **changes)
    with pytest.raises(DataError, match=r"design\.json: was changed after the session began"):
        read_session(session.folder)


@pytest.mark.parametrize("changes", [
    {"picture": "../../task/images/0.png"}, {"id": [1]}, {"captions": {}},
    {"captions": {"secret-model-a": "a", "renamed": "b"}}, {"colour": 1}, b"[]\n", b"\xff{\n",
])  # fmt: skip
def test_an_item_of_other_types_is_refused(tmp_path: Path, changes: dict[str, Any] | bytes) -> None:
    session = make_session(tmp_path, better="Which?", rows=2)
    items = session.folder / "items.jsonl"
    if isinstance(changes, dict):
        first, second = items.read_bytes().splitlines()
        changes = first + b"\n" + json.dumps({**json.loads(second), **changes}).encode() + b"\n"
    items.write_bytes(changes)
    write_design(session)
    with pytest.raises(DataError, match=r"items\.jsonl: was changed after the session began"):
        read_session(session.folder)


def test_a_folder_with_something_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        make_session(tmp_path, better="Which?")
    assert [file.name for file in (tmp_path / "session").iterdir()] == ["mine.txt"]


def test_a_second_server_is_refused_while_the_first_one_lasts(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(UsageError, match="another 'bench rate' is serving this session \\(process"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Ann", "ann"), (" Ann  B. ", "ann-b"), ("Ärla", "ärla"), ("../../etc/passwd", "etc-passwd"),
        ("<b>", "b"), ("...", ""), ("", ""), ("a" * 41, ""), ("a" * 40, "a" * 40), ("\u202eann", "ann"),
        ("ＡＮＮ", "ann"), ("\u0390", "\u0390"),
    ],
)  # fmt: skip
def test_names_of_raters_are_those_of_files(said: str, name: str) -> None:
    assert rater_name(said) == name
    assert rater_name(name) == name
