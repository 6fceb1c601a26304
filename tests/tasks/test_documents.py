import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import pytest
from PIL import Image

from capbench.errors import DataError, TaskError, UsageError
from capbench.paths import cache_folder
from capbench.tasks.documents import load_documents
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import TaskConfig

pytestmark = pytest.mark.usefixtures("functions_may_run")

Write = Callable[..., Path]
MakeTask = Callable[..., TaskConfig]


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Load the documents of a task whose file lies in the test's folder; what is prepared lies there, too."""
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")

    def documents(task: TaskConfig, **named: Path) -> Any:
        return load_documents(task, tmp_path / "mine.yaml", DataLocations.from_environment(named))

    return documents


# --- where the data is


def test_named_path_comes_before_the_data_folder_the_cache_and_the_yaml_files_folder(
    load, make_task, write, write_card, tmp_path, monkeypatch
):
    write_card()
    task = make_task(data_source="mine_source.yaml", dataset_kwargs={"data_files": "captions.jsonl"})
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "root"))
    named = write("named/other.jsonl", jsonl({"from": "named"}))
    root = write("root/mine/captions.jsonl", jsonl({"from": "root"}))
    cache = cache_folder() / "data" / "mine" / "captions.jsonl"
    cache.parent.mkdir(parents=True)
    cache.write_text(jsonl({"from": "cache"}))
    beside = write("captions.jsonl", jsonl({"from": "beside"}))

    documents = load(task, mine=named)
    assert (documents.rows, documents.origin) == ([{"from": "named"}], str(named))
    for path in (root, cache, beside):
        documents = load(task)
        assert documents.rows == [{"from": "beside" if path == beside else path.parts[-3].replace("data", "cache")}]
        assert documents.origin == str(path)
        path.unlink()
    with pytest.raises(DataError, match=r"is not on this machine(.|\n)*Put captions\.jsonl into a folder 'mine'"):
        load(task)


def test_what_a_broken_download_leaves_is_no_local_copy(load, make_task, write, write_card, tmp_path, monkeypatch):
    write_card()
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "root"))
    write("root/mine/captions.jsonl.part", "{")
    write("root/mine/.cache/huggingface/x", "")
    cache = cache_folder() / "data" / "mine" / "captions.jsonl"
    cache.parent.mkdir(parents=True)
    cache.write_text(jsonl({"from": "cache"}))
    assert load(make_task(data_source="mine_source.yaml")).origin == str(cache)


def test_reader_without_data_card_asks_for_the_path(load: Callable[..., Any], make_task: MakeTask, write: Write):
    write("reader.py", "def read(path): return []\n")
    task = make_task(dataset_path=None, tail="custom_dataset: !function reader.read\n")
    with pytest.raises(TaskError, match=r"reader\.read\): cannot be called with \(version=\).*\n.*--data mine=PATH"):
        load(task)


LM_EVAL = """
import datasets
def read(version, size=1, **kwargs):
    rows = [{"n": n, "version": version, **kwargs} for n in range(size)]
    return {"test": datasets.Dataset.from_list(rows), "train": None}
"""


def test_reader_without_a_path_is_called_as_lm_eval_calls_it(load, make_task, write):
    # lm_eval/api/task.py, ConfigurableTask.download: custom_dataset(**metadata, **dataset_kwargs), splits by name.
    write("reader.py", LM_EVAL)
    task = make_task(
        dataset_path=None,
        dataset_kwargs={"size": 2},
        metadata={"version": 2, "lengths": [1, 2]},
        tail="custom_dataset: !function reader.read\n",
    )
    documents = load(task)
    assert documents.rows == [{"n": n, "version": 2, "lengths": [1, 2]} for n in range(2)]
    assert documents.origin == "generated"


def test_path_that_a_task_names_for_its_reader_must_be_there_and_inside(load, make_task, write, tmp_path: Path):
    write("reader.py", "def read(path): return [{'name': path.name}]\n")
    tail = "custom_dataset: !function reader.read\n"
    with pytest.raises(DataError, match=r"mine\.yaml: dataset_path 'raw': there is no such file or folder") as raised:
        load(make_task(dataset_path="raw", tail=tail))
    assert "--data mine=PATH" in raised.value.hint
    with pytest.raises(UsageError, match=r"dataset_path: \.\. lies outside"):
        load(make_task(dataset_path="..", tail=tail))


def test_argument_that_a_reader_does_not_take_is_refused(load: Callable[..., Any], make_task: MakeTask, write: Write):
    write("reader.py", "def read(path): return []\ndef made(size): return []\n")
    write("raw/one.json", "1")
    task = make_task(dataset_path="raw", dataset_kwargs={"sise": 2}, tail="custom_dataset: !function reader.read\n")
    with pytest.raises(TaskError, match=r"reader\.read\): cannot be called with .*got an unexpected .* 'sise'"):
        load(task)
    task = make_task(dataset_path=None, dataset_kwargs={"size": 2}, tail="custom_dataset: !function reader.made\n")
    with pytest.raises(TaskError, match=r"cannot be called with \(version=, size=\): .* 'version'") as raised:
        load(task)
    assert "accept **kwargs" in raised.value.hint


def test_split_that_a_reader_does_not_return_is_refused(load: Callable[..., Any], make_task: MakeTask, write: Write):
    write("reader.py", LM_EVAL)
    task = make_task(dataset_path=None, test_split="val", tail="custom_dataset: !function reader.read\n")
    with pytest.raises(DataError, match="returned no split 'val', but test, train"):
        load(task)


# --- which files


@pytest.mark.parametrize(
    ("data_files", "expected"),
    [
        ("a.jsonl", ["a"]),
        (["a.jsonl", "b.csv"], ["a", "b"]),
        ({"test": "b.csv", "train": "a.jsonl"}, ["b"]),
        ({"test": ["b.csv", "a.jsonl"]}, ["b", "a"]),
    ],
)
def test_data_files_are_a_name_a_list_or_those_of_the_split(load, make_task, write, data_files, expected):
    write("a.jsonl", jsonl({"from": "a"}))
    write("b.csv", "from\nb\n")
    rows = load(make_task(dataset_kwargs={"data_files": data_files})).rows
    assert [row["from"] for row in rows] == expected


@pytest.mark.parametrize(
    ("data_files", "missing"),
    [
        (["a.jsonl", "b.jsonl"], "b.jsonl"),
        (["c.jsonl", "a.jsonl", "b.jsonl"], "c.jsonl, b.jsonl"),
        ("b.jsonl", "b.jsonl"),
        ({"train": "a.jsonl"}, "file ending in .jsonl"),
    ],
)
def test_declared_file_that_is_missing_is_an_error_even_if_others_are_there(
    load: Callable[..., Any], make_task: MakeTask, write: Write, tmp_path: Path, data_files: Any, missing: str
):
    write("a.jsonl", jsonl({"from": "a"}))
    task = make_task(dataset_kwargs={"data_files": data_files})
    with pytest.raises(DataError) as caught:
        load(task)
    assert f"task 'mine' ({tmp_path / 'mine.yaml'}): {tmp_path} has no {missing}" in caught.value.message
    assert "--data mine=PATH" in caught.value.hint


def test_data_files_may_be_a_pattern_and_rows_have_the_name_of_their_file(load, make_task, write, tmp_path: Path):
    write("data/b.json", json.dumps({"1": {"n": 2}}))
    write("data/a.json", json.dumps({"1": {"n": 1}, "3": {"n": 0}}))
    kwargs = {"data_files": ["data/*.json"], "key": "number", "file": "part"}
    assert load(make_task(dataset_kwargs=kwargs)).rows == [
        {"part": "data/a", "number": "1", "n": 1},
        {"part": "data/a", "number": "3", "n": 0},
        {"part": "data/b", "number": "1", "n": 2},
    ]
    kwargs["data_files"] = str(tmp_path / "d*" / "b.json")
    assert [row["part"] for row in load(make_task(dataset_kwargs=kwargs)).rows] == ["data/b"]
    kwargs = {"data_files": ["data/a.json", "none/*.json"], "key": "number"}
    with pytest.raises(DataError, match=r"has no none/\*\.json"):
        load(make_task(dataset_kwargs=kwargs))
    for name in ("x", "y"):
        datasets.Dataset.from_dict({"n": [name, name]}).to_parquet(tmp_path / f"{name}.parquet")
    kwargs = {"data_files": ["y.parquet", "x.parquet"], "file": "part"}
    rows = load(make_task(dataset_path="parquet", dataset_kwargs=kwargs)).rows
    assert isinstance(rows, datasets.Dataset)
    assert [(row["part"], row["n"]) for row in rows] == [("y", "y")] * 2 + [("x", "x")] * 2


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_column_of_the_files_name_must_be_free(load, make_task, write, tmp_path: Path, form: str):
    write("a.json", json.dumps([{"n": 1}]))
    datasets.Dataset.from_dict({"n": [1]}).to_parquet(tmp_path / "a.parquet")
    task = make_task(dataset_path=form, dataset_kwargs={"data_files": f"a.{form}", "file": "n"})
    with pytest.raises(DataError, match=rf"a\.{form}: has a column 'n', where the name of its file would stand") as e:
        load(task)
    assert "{file: NAME}" in e.value.hint


def test_folder_of_a_shipped_data_set_may_hold_images_alone(load, make_task, write, write_card, tmp_path, monkeypatch):
    write_card()
    task = make_task(data_source="mine_source.yaml", dataset_kwargs={"data_files": ["a.jsonl", "b.jsonl"]})
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "root"))
    write("root/mine/images/one.jpg", "pixels")
    write("root/mine/others.jsonl", jsonl({"from": "root"}))
    write("a.jsonl", jsonl({"from": "a"}))
    # Not all of it ships: what the folder has is its only data set.
    assert load(task).rows == [{"from": "root"}]
    write("b.jsonl", jsonl({"from": "b"}))
    assert load(task).rows == [{"from": "a"}, {"from": "b"}]
    # A folder that the user names holds what is meant, and so does one with a file of the data set.
    assert load(task, mine=tmp_path / "root/mine").rows == [{"from": "root"}]
    write("root/mine/a.jsonl", jsonl({"from": "root"}))
    with pytest.raises(DataError, match=r"mine has no b\.jsonl"):
        load(task)


def test_folder_without_any_data_file_is_an_error(load: Callable[..., Any], make_task: MakeTask, write: Write):
    folder = write("copy/README.md", "text").parent
    with pytest.raises(DataError, match=r"copy has no captions\.jsonl"):
        load(make_task(dataset_kwargs={"data_files": "captions.jsonl"}), mine=folder)


# --- what is read


def test_data_without_one_good_row_is_an_error_that_names_the_first_faults(load, make_task, write):
    write("a.jsonl", "{broken\n" * 9)
    with pytest.raises(DataError, match="no document could be read") as caught:
        load(make_task(dataset_kwargs={"data_files": "a.jsonl"}))
    assert "a.jsonl:1: not JSON" in caught.value.message
    assert "a.jsonl:5" in caught.value.message
    assert "a.jsonl:6" not in caught.value.message


def test_process_docs_that_keeps_nothing_is_an_error(load: Callable[..., Any], make_task: MakeTask, write: Write):
    write("a.jsonl", '{"n": 1}\n')
    write("reader.py", "def none(docs): return []\n")
    with pytest.raises(DataError, match="no document could be read"):
        load(make_task(dataset_kwargs={"data_files": "a.jsonl"}, tail="process_docs: !function reader.none\n"))


# --- datasets


def test_parquet_is_memory_mapped_and_its_images_stay_undecoded(load, make_task, tmp_path: Path):
    encoded = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(encoded, "PNG")
    rows = {"image": [{"bytes": encoded.getvalue(), "path": None}], "text": ["a red square"]}
    features = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string")})
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    documents = load(make_task(dataset_path="parquet", dataset_kwargs={"data_files": "a.parquet"}))
    assert isinstance(documents.rows, datasets.Dataset)
    assert documents.columns == {"image", "text"}
    assert documents.rows[0]["image"]["bytes"] == encoded.getvalue()
    assert documents.rows[0]["text"] == "a red square"


def test_truncated_parquet_is_an_error_that_names_it(load: Callable[..., Any], make_task: MakeTask, write: Write):
    path = write("a.parquet", b"PAR1 and then nothing")
    with pytest.raises(DataError, match=str(path)):
        load(make_task(dataset_path="parquet", dataset_kwargs={"data_files": "a.parquet"}))


def test_hub_data_set_that_cannot_be_fetched_says_why_and_what_to_do(load, make_task, write, write_card, monkeypatch):
    # Both libraries read HF_HUB_OFFLINE when they are imported, which was before this test.
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    write_card()
    with pytest.raises(DataError) as caught:
        load(make_task(dataset_path="nobody/no_such_data_set", data_source="mine_source.yaml"))
    assert "the data set Mine is not on this machine" in caught.value.message
    assert "The hub did not give it either: nobody/no_such_data_set" in caught.value.message
    assert "'bench data mine'" in caught.value.hint
