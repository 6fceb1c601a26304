import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from bounded_work import calls_at_most

from capbench.errors import TaskError, UsageError
from capbench.tasks.index import build_index

Write = Callable[..., Path]
FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))["index"]
HEAVY = ("torch", "transformers", "datasets", "evaluate", "pandas", "scipy", "numpy", "pydantic", "pyarrow")


def python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, with folders in front of its search path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def distribution(folder: Path, name: str, entry_points: str, files: dict[str, str]) -> None:
    """Lay out an installed distribution: its package, and a dist-info folder with entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_listing_imports_nothing_heavy():
    done = python(
        "import json, sys\n"
        "from capbench.tasks.index import build_index\n"
        "names = [entry.name for entry in build_index().tasks]\n"
        f"print(json.dumps([len(names), [m for m in {HEAVY} if m in sys.modules]]))"
    )
    count, loaded = json.loads(done.stdout)
    assert count > 0
    assert loaded == []


def test_names_stand_for_tasks_groups_and_tags_each_task_once_in_order(write: Write, tmp_path: Path):
    for name, tag in (("b", "tag: letters"), ("a", "tag: [letters, vowel]"), ("c", "")):
        write(f"{name}.yaml", f"task: {name}\n{tag}\n")
    write("inner.yaml", "group: inner\ntask: c\n")
    write("outer.yaml", "group: outer\ntask: [inner, vowel]\ndescription: Two\n  lines.\n")
    index = build_index([tmp_path])
    assert {"inner", "outer"} <= {e.name for e in index.groups}
    assert index.entries["outer"].description == "Two lines."
    assert [e.name for e in index.resolve(["outer"])] == ["c", "a"]
    assert [e.name for e in index.resolve(["letters", "outer", "b"])] == ["a", "b", "c"]
    assert index.resolve([]) == []


def test_group_that_names_an_unknown_task_says_so_when_it_is_asked_for(write: Write, tmp_path: Path):
    write("g.yaml", "group: g\ntask: [flickr8k_exprt]\n")
    index = build_index([tmp_path])
    with pytest.raises(UsageError, match="Did you mean 'flickr8k_expert'"):
        index.resolve(["g"])


def test_groups_that_contain_each_other_are_named_in_order(write: Write, tmp_path: Path):
    write("a.yaml", "group: a\ntask: b\n")
    write("b.yaml", "group: b\ntask: [iiw_400, a]\n")
    with pytest.raises(TaskError, match="groups contain each other: a -> b -> a"):
        build_index([tmp_path]).resolve(["a"])


def test_shipped_name_cannot_be_taken(write: Write, tmp_path: Path):
    write("one.yaml", "task: flickr8k_expert\n")
    with pytest.raises(TaskError, match="'flickr8k_expert' is declared twice"):
        build_index([tmp_path])


@pytest.mark.parametrize(("text", "reason"), FAULTS.items())
def test_faulty_file_is_reported_and_does_not_stop_the_others(write: Write, tmp_path: Path, text: str, reason: str):
    broken = write("a_broken.yaml", text)
    write("b_fine.yaml", "task: fine\n")
    index = build_index([tmp_path])
    assert list(index.faults) == [broken]
    assert f"{broken}:{reason}" in index.faults[broken]
    assert [entry.name for entry in index.resolve(["fine"])] == ["fine"]
    with pytest.raises(UsageError) as caught:
        index.resolve(["broken"])
    assert index.faults[broken] in str(caught.value)


def test_hostile_files_of_a_folder_are_named_and_cost_no_other(write: Write, tmp_path: Path):
    hostile = {
        "deep": "[" * 10_000,
        "bomb": "a: &a [x, x]\n" + "".join(f"k{n}: &a [*a, *a]\n" for n in range(40)),
        "binary": "task: \0",
        "int": "task: " + "9" * 5_000,
        "include": f"include: {'x' * 300}\n",
    }
    for name, text in hostile.items():
        write(f"{name}.yaml", text)
    for number in range(45):
        write(f"chain/{number}.yaml", f"include: {number + 1}.yaml\n")
    (tmp_path / "folder.yaml").mkdir()
    write("fine.yaml", "task: fine\n")
    with calls_at_most(3_000_000):
        index = build_index([tmp_path])
    assert {path.stem for path in index.faults} >= {*hostile, "folder", "0"}
    assert [entry.name for entry in index.resolve(["fine"])] == ["fine"]


def test_groups_that_each_name_the_next_twice_are_expanded_once_each(write: Write, tmp_path: Path):
    for number in range(30):
        write(f"g{number}.yaml", f"group: g{number}\ntask: [g{number + 1}, g{number + 1}]\n")
    write("g30.yaml", "group: g30\ntask: [iiw_400]\n")
    index = build_index([tmp_path])
    with calls_at_most(100_000):
        assert [entry.name for entry in index.resolve(["g0"])] == ["iiw_400"]


def test_chain_of_groups_is_an_error(write: Write, tmp_path: Path):
    for number in range(60):
        write(f"g{number}.yaml", f"group: g{number}\ntask: [g{number + 1}]\n")
    with pytest.raises(TaskError, match="group 'g0' holds groups in each other, more than 40 deep"):
        build_index([tmp_path]).resolve(["g0"])


def test_installed_package_brings_tasks_readers_and_metrics(tmp_path: Path):
    distribution(
        tmp_path,
        "third-party",
        "[capbench.tasks]\nanything = third_party.tasks\n[capbench.metrics]\nvowels = third_party.metrics:Vowels\n",
        {
            "third_party/__init__.py": "",
            "third_party/tasks/__init__.py": "",
            "third_party/tasks/theirs.yaml": "task: theirs\ncustom_dataset: !function reader.read\n",
            "third_party/tasks/reader.py": "def read(path): return 'theirs'\n",
            "third_party/metrics.py": (
                "from capbench.metrics import Metric\n"
                "class Vowels(Metric):\n"
                "    label = 'vowels'\n"
                "    def fingerprint(self): return {}\n"
                "    def score(self, items, context): ...\n"
            ),
        },
    )
    done = python(
        "import sys\n"
        "from capbench.tasks.index import build_index\n"
        "from capbench.tasks.yaml_files import parse\n"
        "index = build_index()\n"
        "assert 'third_party.tasks.reader' not in sys.modules\n"
        "path = index.entries['theirs'].path\n"
        "print(parse(path).values['custom_dataset'].resolve()(None))\n"
        "from capbench.metrics import metrics\n"
        "print('vowels' in metrics, 'third_party.metrics' in sys.modules)\n"
        "print(metrics['vowels'].label, 'bleu_1' in list(metrics))\n",
        tmp_path,
    )
    assert done.stdout.splitlines() == ["theirs", "True False", "vowels True"], done.stderr


@pytest.mark.parametrize(
    ("target", "files", "reason"),
    [
        ("no_such_package.tasks", {}, "No module named 'no_such_package'"),
        ("third_file", {"third_file.py": ""}, "it is not a package"),
        ("third_broken.tasks", {"third_broken/__init__.py": "1 / 0\n"}, "ZeroDivisionError"),
    ],
)
def test_entry_point_that_leads_nowhere_is_an_error_that_names_it(tmp_path, monkeypatch, target, files, reason):
    distribution(tmp_path, "third-party", f"[capbench.tasks]\nbad = {target}\n", files)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TaskError) as caught:
        build_index()
    assert f"entry point 'bad' of group capbench.tasks: cannot find '{target}'" in str(caught.value)
    assert reason in str(caught.value)
