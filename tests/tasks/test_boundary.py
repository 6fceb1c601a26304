"""Which files a task may read: its own folder, that of its data, and what the user allows besides."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from capbench.boundary import Boundary, OutsideFile
from capbench.errors import DataError, TaskError
from capbench.permissions import Permissions, permit
from capbench.tasks.documents import load_documents
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task
from capbench.tasks.sources import load_source

Write = Callable[..., Path]


@pytest.fixture
def load(tmp_path: Path, write_task: Write) -> Callable[..., Any]:
    """Return a function that loads the documents of ``tasks/mine.yaml`` with other keys."""

    def documents(*, allow: tuple[Path, ...] = (), data: Path | None = None, **keys: Any) -> Any:
        task, parsed = load_task(write_task("tasks/mine.yaml", **keys))
        named = {"mine": data} if data else {}
        return load_documents(task, parsed.path, DataLocations.from_environment(named, allow)).rows

    return documents


def test_paths_are_followed_before_they_are_held_against_the_folders(tmp_path: Path, write: Write):
    secret, photo = write("private/key", "x"), write("data/photo.png", "x")
    (tmp_path / "data" / "link").symlink_to(secret)
    (tmp_path / "data" / "inner").symlink_to(photo)
    (tmp_path / "alias").symlink_to(tmp_path / "data")
    boundary = Boundary.of(tmp_path / "alias")
    for inside in ("data/photo.png", "data/inner", "data/no/such.png", "alias/photo.png", "data/../data/x"):
        assert boundary.holds(tmp_path / inside), inside
    for outside in ("private/key", "data/link", "data/../private/key", "data2/x", "."):
        assert not boundary.holds(tmp_path / outside), outside
    assert Boundary.of(photo).holds(photo.with_name("other.png"))
    assert not Boundary().holds(photo)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300])
def test_path_that_no_file_system_takes_leads_nowhere(tmp_path: Path, name: str):
    Boundary.of(tmp_path).require([name], "here", tmp_path)
    assert Boundary.of(tmp_path).holds(tmp_path / name)


def test_links_in_a_circle_lead_nowhere(tmp_path: Path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert Boundary.of(tmp_path).holds(tmp_path / "a")


@pytest.mark.parametrize(
    ("value", "outside"),
    [
        ("/private/creds.json", True),
        ("~root/creds.json", True),
        ("../creds.json", True),
        ("sub/../../creds.json", True),
        ({"a": [1, None, {"b": "/private/creds.json"}]}, True),
        ("file:///private/creds.json", True),
        ("zip://creds.json::/private/all.zip", True),
        ("hf://datasets/owner/name/a.json", False),
        ("rows.jsonl", False),
        ("sub/../rows.jsonl", False),
        ("a prompt with ... and / in it", False),
        ([1, True, None, 2.5, b"/private"], False),
    ],
)
def test_setting_that_is_a_path_outside_is_refused(tmp_path: Path, value: Any, outside: bool):
    boundary = Boundary.of(tmp_path)
    if not outside:
        boundary.require(value, "mine.yaml:3", tmp_path)
        return
    with pytest.raises(TaskError, match=r"^mine\.yaml:3: .* lies outside of the folders of the task and its data") as e:
        boundary.require(value, "mine.yaml:3", tmp_path)
    assert "--allow_outside DIR" in e.value.hint


def test_file_outside_refuses_to_be_read_in_any_way(tmp_path: Path):
    file = OutsideFile(tmp_path / "key")
    for read in (file.read_bytes, file.read_frames, file.digest):
        with pytest.raises(PermissionError, match="lies outside of the folders of the task and its data"):
            read()
    assert str(file) == str(tmp_path / "key")


# --- data files

ROW = '{"references": ["a"]}\n'


@pytest.mark.parametrize("name", ["{root}/private/rows.jsonl", "../private/rows.jsonl", "link.jsonl", "~/rows.jsonl"])
def test_data_file_outside_is_refused_unless_its_folder_is_allowed(tmp_path, write, load, name: str, monkeypatch):
    secret = write("private/rows.jsonl", ROW)
    monkeypatch.setenv("HOME", str(secret.parent))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "link.jsonl").symlink_to(secret)
    kwargs = {"data_files": name.format(root=tmp_path).replace("~", str(secret.parent))}
    with pytest.raises((TaskError, DataError), match="lies outside of the folders of the task and its data"):
        load(dataset_kwargs=kwargs)
    assert len(load(dataset_kwargs=kwargs, allow=(secret.parent,))) == 1


@pytest.mark.parametrize(
    "keys",
    [
        {"dataset_path": "text", "dataset_kwargs": {"data_files": "{root}/private/key.txt"}},
        {"dataset_path": "text", "dataset_kwargs": {"data_files": {"test": ["../private/key.txt"]}}},
        {"dataset_path": "text", "dataset_kwargs": {"data_files": "file://{root}/private/key.txt"}},
        {"dataset_path": "text", "dataset_kwargs": {"data_files": "key.txt"}},
        {"dataset_path": "owner/name", "dataset_kwargs": {"data_files": "{root}/private/key.txt"}},
        {"dataset_path": "imagefolder", "dataset_kwargs": {"data_dir": "{root}/private"}},
        {"dataset_path": "{root}/private"},
        {"dataset_path": "../private"},
    ],
)
def test_librarys_own_loaders_read_nothing_outside(tmp_path, write, load, keys: dict[str, Any], monkeypatch):
    monkeypatch.chdir(write("private/key.txt", "secret").parent)
    filled = eval(repr(keys).replace("{root}", str(tmp_path)))  # noqa: S307 - the literal above
    with pytest.raises(TaskError, match="lies outside of the folders of the task and its data"):
        load(**filled)


def test_image_that_a_row_of_a_parquet_file_names_outside_is_not_read(tmp_path: Path, write, load):
    secret = write("private/photo.png", "secret")
    inside = write("tasks/photo.png", "inside")
    images = [{"bytes": None, "path": str(path)} for path in (secret, inside)] + [{"bytes": b"own", "path": None}]
    table = pyarrow.table({"references": [["a"]] * 3, "image": images})
    pyarrow.parquet.write_table(table, tmp_path / "tasks" / "rows.parquet")
    keys = {
        "dataset_path": "parquet", "dataset_kwargs": {"data_files": "rows.parquet"}, "doc_to_pixels": "image",
        "doc_to_image": "image",
    }  # fmt: skip
    refused, *read = [row["image"] for row in load(**keys)]
    with pytest.raises(PermissionError, match="lies outside"):
        refused.read_bytes()
    assert [image.read_bytes() for image in read] == [b"inside", b"own"]
    assert load(**keys, allow=(secret.parent,))[0]["image"].read_bytes() == b"secret"


@pytest.mark.parametrize("folder", ["../private", "/private", ".", "mine/../../private"])
def test_card_names_a_folder_below_that_of_the_data_sets(write_task: Write, write_card: Write, folder: str):
    write_card(folder=folder)
    task, parsed = load_task(write_task(data_source="mine_source.yaml"))
    with pytest.raises(TaskError, match=r"is not the name of a folder below \$CAPBENCH_DATA"):
        load_source(task, parsed.path)


@pytest.mark.parametrize(
    "value",
    [
        "https://example.org/../creds.json",
        "zip://a.json::https://user@example.org/all.zip",
        {"train": ["rows.jsonl", "HTTP://EXAMPLE.ORG?x=1"]},
    ],
)
def test_address_of_a_server_is_refused_unless_it_is_allowed(tmp_path: Path, value: Any):
    with pytest.raises(TaskError, match=r"^mine\.yaml:3: the file names a server that is not allowed: ") as e:
        Boundary.of(tmp_path).require(value, "mine.yaml:3", tmp_path)
    assert e.value.hint.lower() == "--allow_server example.org allows it."
    with permit(Permissions(servers=("example.org",))):
        Boundary.of(tmp_path).require(value, "mine.yaml:3", tmp_path)
