"""``bench validate``: each kind of fault of a task file is found and placed."""

import json
import re
from pathlib import Path

import pytest
import yaml

SOUND = """\
task: sound
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
output_type: agreement
doc_to_id: id
doc_to_candidate: candidate
doc_to_human: rating
metric_list:
  - length
statistics: [kendall_b]
metadata: {version: 1.0}
tag: mine
"""


@pytest.fixture
def folder(tmp_path):
    rows = [{"id": n, "candidate": "a " * (n + 1), "rating": n, "references": ["a"]} for n in range(3)]
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path / "tasks"


FAULTS = yaml.safe_load(Path(__file__).with_name("task_faults.yaml").read_text(encoding="utf-8"))


def test_every_fault_of_a_folder_is_named_with_its_place_groups_included(bench, folder, subtests, monkeypatch):
    # Without names all tasks are checked, and here no others are.
    monkeypatch.setattr("capbench.tasks.index.BUILTIN_FOLDER", folder)
    for number, fault in enumerate(FAULTS.values()):
        assert fault["old"] in SOUND
        text = SOUND.replace(fault["old"], fault["new"], 1).replace("task: sound", f"task: sound_{number:02}", 1)
        (folder / f"sound_{number:02}.yaml").write_text(text.replace("sound.yaml", f"sound_{number:02}.yaml"))
    (folder / "zz_sound.yaml").write_text(SOUND)
    (folder / "group.yaml").write_text("group: all_of_mine\ntask: [sound, soudn]\n")
    done = bench("validate", "--include_path", folder, "--run_functions").failed(1)
    verdicts = re.split(r"^(?=\S)", done.out, flags=re.MULTILINE)
    for number, (name, fault) in enumerate(FAULTS.items()):
        with subtests.test(name):
            (verdict,) = (line for line in verdicts if line.startswith("faulty") and f"sound_{number:02}" in line)
            place = f"tasks/sound_{number:02}.yaml" if fault["said"].startswith(":") else ""
            assert place + fault["said"] in verdict
    assert sum(line.startswith("faulty") for line in done.out.splitlines()) == len(FAULTS) + 1
    assert "ok       sound\n" in done.out
    assert "faulty   all_of_mine\n" in done.out
    assert "tasks/group.yaml: unknown task 'soudn'. Did you mean 'sound'?" in done.out


def test_two_tasks_of_one_name_are_named_with_both_files(bench, folder):
    (folder / "sound.yaml").write_text(SOUND)
    (folder / "twin.yaml").write_text(SOUND)
    bench("validate", "--include_path", folder).failed(
        2, "task 'sound' is declared twice", "tasks/sound.yaml", "tasks/twin.yaml"
    )


def test_bad_rows_are_counted_by_reason(bench, folder):
    (folder / "sound.yaml").write_text(SOUND)
    with (folder / "rows.jsonl").open("a") as file:
        file.write('\n{broken\n{"id": 9, "candidate": "", "rating": 1}')
    bench("validate", "sound", "--include_path", folder).succeeded(
        "4 of 4 documents usable",
        "counted as empty: 1 × candidate is empty (first: document 9)",
        "(first: rows.jsonl:4)",
    )


def test_functions_of_a_task_run_only_where_they_may(bench, folder):
    (folder / "sound.yaml").write_text(SOUND.replace("dataset_path: json", "custom_dataset: !function mine.read"))
    (folder / "mine.py").write_text("raise SystemExit('ran')\n")
    done = bench("validate", "sound", "--include_path", folder).succeeded()
    assert done.out.startswith("not run  sound\n         has its own functions: !function mine.read: is code")
    assert "--run_functions" in done.out
    assert "\n         functions    !function mine.read (not allowed)\n" in done.out
    for old, new in (("- length", "- !function mine.words"), ("[kendall_b]", "[!function mine.words]")):
        (folder / "sound.yaml").write_text(SOUND.replace(old, new))
        bench("validate", "sound", "--include_path", folder).succeeded(
            "not run  sound\n", "functions    !function mine.words ("
        )
        dry = ("run", "--task", "sound", "--include_path", folder, "--dry_run")
        refused = bench(*dry)
        assert (refused.code, "functions:   !function mine.words (not allowed)\n" in refused.out) == (2, True)
        bench(*dry, "--run_functions").succeeded("since a dry run runs no code")
    (folder / "sound.yaml").write_text(SOUND.replace("dataset_path: json", "custom_dataset: !function mine.read"))
    (folder / "mine.py").write_text("raise OSError('ran')\n")
    assert "functions    !function mine.read (not allowed)" in bench("show", folder / "sound.yaml").out
    assert "OSError: ran" in bench("validate", "sound", "--include_path", folder, "--run_functions").out


def test_file_of_a_group_is_read_with_its_tasks_and_one_of_neither_is_faulty(bench, folder):
    (folder / "sound.yaml").write_text(SOUND)
    (folder / "group.yml").write_text("group: both\ntask: [sound]\n")
    done = bench("validate", folder / "group.yml", "--include_path", folder)
    assert (done.code, done.out.splitlines()[0]) == (0, "ok       sound")
    (folder / "template.yaml").write_text("scale: 1\n")
    done = bench("validate", folder / "template.yaml").failed(1)
    assert "declares no task and no group" in done.out
    done = bench("validate", folder / "nowhere.yaml").failed(1)
    assert "nowhere.yaml: cannot be read: No such file" in done.out
