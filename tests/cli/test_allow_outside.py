"""Somebody else's task, or file of captions, names what is private: it is not read, and is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.pixels.reading import UnreadableImage, read_image
from capbench.metrics import Context, Items, Metric, Scores, metrics

OUTSIDE = "lies outside of the folders of the task and its data"


class Width(Metric):
    """The width of the image: what a metric, or a server that it asks, sees of a file."""

    label = "Width"
    source = "here"
    needs = frozenset({"image"})

    def score(self, items: Items, context: Context) -> Scores:
        values, failures = np.full(len(items), np.nan), {}
        for item, handle in enumerate(items.images):
            try:
                assert isinstance(handle, ImageHandle)
                values[item] = read_image(handle).image.width
            except UnreadableImage as error:
                failures[item] = str(error)
        return Scores(values, failures=failures)


@pytest.fixture(autouse=True)
def width() -> Iterator[None]:
    metrics.add("width", Width)
    yield
    del metrics._entries["width"]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder beside that of the tasks, with a photograph and a prompt with a secret."""
    folder = tmp_path / "private"
    folder.mkdir()
    Image.new("RGB", (7, 7)).save(folder / "photo.png")
    (folder / "creds.json").write_text('{"key": "s3cret"} {references} {candidates}')
    return folder


@pytest.fixture
def tasks(write_task: Callable[..., Path], private: Path) -> Path:
    """The folder of the small task, whose four images are inside, absolute, climbing and behind a link."""
    folder = write_task(metric_list=["width"])
    Image.new("RGB", (5, 5)).save(folder / "0.jpg")
    (folder / "link.png").symlink_to(private / "photo.png")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    names = ["0.jpg", str(private / "photo.png"), "../private/photo.png", "link.png"]
    for row, name in zip(rows, names, strict=True):
        row["image"] = name
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def record(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("run.json")
    return json.loads(path.read_text())


def test_images_outside_are_refused_and_named_and_nothing_of_them_is_kept(run_small, tasks: Path, tmp_path: Path):
    done = run_small()
    first, *others = done.err.splitlines()
    assert f"3 images lie outside of the folders of the task and its data, in {tmp_path / 'private'}" in first
    assert f"--allow_outside {tmp_path / 'private'} lets the task read them" in first
    assert not any("outside of the folders" in line for line in others)
    assert list((tmp_path / "runs").rglob("pictures/*.jpg")) != []
    assert len(list((tmp_path / "runs").rglob("pictures/*.jpg"))) == 1
    assert "allow_outside" not in record(tmp_path / "runs")["config"]


def test_images_of_an_allowed_folder_are_read_and_the_run_says_so(run_small, tasks, private, tmp_path: Path):
    done = run_small("--allow_outside", private, "--allow_outside", tmp_path / "tasks")
    assert OUTSIDE not in done.err
    kept = record(tmp_path / "runs")
    assert kept["config"]["allow_outside"] == ["private", "tasks"]
    assert kept["n-samples"]["small"]["effective"] == 4
    assert len(list((tmp_path / "runs").rglob("pictures/*.jpg"))) == 4


def test_evaluate_takes_allowed_folders(tasks: Path, private: Path):
    def widths(**more: Any) -> list[float | None]:
        run = capbench.evaluate(tasks="small", include_path=[tasks], resamples=0, **more)
        return [one and int(one) for one in run["small"].samples.to_pandas()["width"].fillna(0)]

    assert widths() == [5, 0, 0, 0]
    assert widths(allow_outside=[private]) == [5, 7, 7, 7]


def test_data_file_outside_is_faulty_to_validate_and_refused_by_run(bench, write_task, private: Path):
    (private / "rows.jsonl").write_text('{"id": 1, "candidate": "a dog", "rating": 1}\n' * 2)
    folder = write_task(dataset_kwargs={"data_files": str(private / "rows.jsonl")})
    for command in (["validate", "small"], ["run", "--task", "small"]):
        done = bench(*command, "--include_path", folder)
        assert done.code in (1, 2)
        assert OUTSIDE in done.out + done.err
    done = bench("validate", "small", "--include_path", folder, "--allow_outside", private)
    assert OUTSIDE not in done.out


@pytest.mark.parametrize("prompt", ["{private}/creds.json", "../private/creds.json", "private/creds.json"])
def test_metric_of_a_task_reads_no_prompt_from_outside(bench, write_task, private: Path, prompt: str):
    entry = {"metric": "gpt4_eval", "prompt": prompt.format(private=private)}
    folder = write_task(metric_list=["length", entry])
    bench("run", "--task", "small", "--include_path", folder, "--dry_run").failed(2, f"creds.json {OUTSIDE}")
    # What the user names is the user's.
    named = f"gpt4_eval[prompt={private}/creds.json]"
    (folder / "small.yaml").write_text((folder / "small.yaml").read_text().replace(json.dumps(entry), '"length"', 1))
    assert OUTSIDE not in bench("run", "--task", "small", "--include_path", folder, "--metrics", named).err


def test_module_of_evaluate_runs_from_no_folder_of_data(bench, write_task, tmp_path: Path):
    script = tmp_path / "data" / "evil.py"
    script.parent.mkdir()
    script.write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()")
    folder = write_task(metric_list=["length", {"metric": f"evaluate:{script}"}])
    (folder / "rows.jsonl").rename(tmp_path / "data" / "rows.jsonl")
    run = ("run", "--task", "small", "--include_path", folder, "--data", f"small={script.parent}")
    for more in ((), ("--run_functions",)):
        bench(*run, *more).failed(2, OUTSIDE)
    assert not script.with_name("ran").exists()


def test_explain_and_export_take_allowed_folders(bench, write_task, private: Path, tmp_path: Path):
    (private / "rows.jsonl").write_text((write_task() / "rows.jsonl").read_text())
    folder = write_task(dataset_kwargs={"data_files": str(private / "rows.jsonl")})
    explain = ("explain", "--task", "small", "--sample", "r0", "--include_path", folder)
    graphs = tmp_path / "graphs.jsonl"
    graphs.write_text('{"caption": "a dog", "objects": ["dog"]}\n')
    settings = f"capture[parser=recorded,parser_model={graphs},soft=false,synonyms=false]"
    assert OUTSIDE in bench(*explain, "--metric", settings).err
    assert OUTSIDE not in bench(*explain, "--metric", settings, "--allow_outside", private).err
    export = ("export", "lm-eval", "--tasks", "small", "--include_path", folder, "-o", tmp_path / "out")
    assert bench(*export, "--allow_outside", private).code == 0
    assert f"allow_outside=['{private}']" in (tmp_path / "out" / "capbench_small" / "utils.py").read_text()
    assert bench("export", "csv", tmp_path, "-o", tmp_path / "x.csv", "--allow_outside", private).code == 2


def test_rows_of_a_file_name_images_from_here_and_beside_it_alone(bench, private: Path, tmp_path: Path):
    (tmp_path / "here.png").write_bytes((private / "photo.png").read_bytes())
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "beside.png").write_bytes((private / "photo.png").read_bytes())
    away = tmp_path.parent / f"{tmp_path.name}-away"
    away.mkdir()
    (away / "photo.png").write_bytes((private / "photo.png").read_bytes())
    names = ["here.png", "beside.png", str(away / "photo.png"), f"../{away.name}/photo.png"]
    rows = tmp_path / "shared" / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"candidate": "a dog", "image": name}) for name in names))
    done = bench("score", rows, "--metrics", "width", "--format", "json")
    assert json.loads(done.out)[0]["n"] == 2
    assert done.err.count(OUTSIDE) == 2
    done = bench("score", rows, "--metrics", "width", "--format", "json", "--allow_outside", away)
    assert json.loads(done.out)[0]["n"] == 4


def test_path_as_an_object_is_the_callers_own(private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    photo = private / "photo.png"
    rows = [{"candidate": "a dog", "image": image} for image in (photo, str(photo), photo.read_bytes())]
    assert [row["width"] for row in capbench.score(rows, "width").rows] == [7, None, 7]
    allowed = capbench.score(rows, "width", allow_outside=[private])
    assert [row["width"] for row in allowed.rows] == [7, 7, 7]
