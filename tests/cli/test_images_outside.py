"""Images behind a link that leads out of the task's folders: said first, once, with the option that helps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_entries import own_entries
from PIL import Image

import capbench
from capbench.adapters import ImageHandle
from capbench.adapters.images.reading import UnreadableImage, read_image
from capbench.benchmarks.inputs.task_images import Picture, TaskImages
from capbench.metrics import Context, Items, Metric, Scores, metrics
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task

from .conftest import run_below

NONE_OF = ("doc_to_candidate", "doc_to_human", "statistics", "metric_list", "doc_to_target")
SCORED: dict[str, Any] = {"metric_list": ["length", "clip_s"]}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "matching": {"doc_to_captions": "caption", "doc_to_negatives": "negative", "protocol": {"measure": "neg"}},
    "preference": {"doc_to_candidates": ["caption", "negative"], "doc_to_preferred": "first", **SCORED},
    "agreement": {
        "doc_to_candidate": "caption", "doc_to_human": "rating", "statistics": ["kendall_b"], **SCORED,
    },
    "checklist": {"doc_to_target": "references", **SCORED},
    "generate_until": {"doc_to_text": "Describe.", "doc_to_target": "references", **SCORED},
    "yes_no": {"doc_to_text": "question", "doc_to_target": "answer"},
}  # fmt: skip
IMAGES = 4


@pytest.fixture(params=["a link to their folder", "a folder of links"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of the images; the task has a link to it, or to each of them."""
    folder, photos = tmp_path / "away", tmp_path / "tasks" / "photos"
    folder.mkdir()
    for number in range(IMAGES):
        Image.new("RGB", (32, 32), (60 * number, 0, 0)).save(folder / f"{number}.png")
    photos.parent.mkdir(exist_ok=True)
    if request.param == "a link to their folder":
        photos.symlink_to(folder)
    else:
        photos.mkdir()
        for file in folder.iterdir():
            (photos / file.name).symlink_to(file)
    return folder


@pytest.fixture
def write(write_task):
    """Return a function that writes a task of a protocol over the images."""

    def write(protocol: str) -> Path:
        keys = {**dict.fromkeys(NONE_OF), "image_folder": "photos", "output_type": protocol}
        folder = write_task(**(keys | PROTOCOLS[protocol]))
        rows = [
            {
                "id": f"r{n}", "image": f"{n}.png", "caption": f"a red thing and {n} dogs", "negative": "a cat",
                "first": 0, "rating": n, "references": [f"a red square {n}", "it is red", "one thing"],
                "question": "Is there a dog?", "answer": "no",
            }
            for n in range(IMAGES)
        ]  # fmt: skip
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return folder

    return write


def assert_said_first_and_once(said: str, away: Path) -> None:
    first, hint = said.splitlines()[:2]
    assert first.endswith(f"4 images lie outside of the folders of the task and its data, in {away}")
    assert hint.strip().startswith(f"--allow_outside {away} lets the task read them")
    assert said.count("outside of the folders") == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_validate_calls_no_document_usable_whose_image_may_not_be_read(bench, write, away: Path, protocol: str):
    asked = ("validate", "small", "--include_path", write(protocol))
    done = bench(*asked).failed(1)
    verdict, _, said = done.out.partition("\n")
    assert verdict == "faulty   small"
    assert_said_first_and_once(said, away)
    assert "0 of 4 documents usable" in said
    done = bench(*asked, "--allow_outside", away)
    assert (done.code, done.out.splitlines()[:2]) == (0, ["ok       small", "         4 of 4 documents usable"])


@pytest.mark.parametrize(
    ("protocol", "models"),
    [
        *((name, ("--model", "shapes-clip")) for name in ("matching", "preference", "agreement", "checklist")),
        ("generate_until", ("--model", "shapes-captioner")),
        ("yes_no", ("--model", "shapes-answers")),
    ],
)
def test_run_says_it_first_and_scores_nothing(bench, write, away, tmp_path, protocol: str, models: tuple[str, ...]):
    options = ("--include_path", write(protocol), "--output_path", tmp_path / "runs", "--bootstrap", 0)
    done = bench("run", "--task", "small", *models, *options).failed(1)
    assert_said_first_and_once(done.err.partition("bench: error: ")[2], away)
    assert not list(tmp_path.rglob("run.json"))


def test_run_that_looks_at_no_image_says_nothing_of_them(bench, write, away: Path, tmp_path: Path):
    done = bench("run", "--task", "small", "--include_path", write("preference"), "--bootstrap", 0).succeeded()
    assert "outside" not in done.err


def test_images_that_may_be_read_are_scored_and_the_others_said_first_and_once(bench, write, away, tmp_path: Path):
    folder = write("preference")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    rows[2]["image"] = "own.png"
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    photos = folder / "photos"
    if photos.is_symlink():
        (folder / "own").mkdir()
        (folder / "small.yaml").write_text((folder / "small.yaml").read_text().replace('"photos"', '["photos", "own"]'))
        photos = folder / "own"
    Image.new("RGB", (32, 32)).save(photos / "own.png")
    done = bench("run", "--task", "small", "--model", "shapes-clip", "--include_path", folder, "--bootstrap", 0)
    first, *others = done.err.splitlines()
    assert f"3 images lie outside of the folders of the task and its data, in {away}. --allow_outside {away}" in first
    assert not any("outside" in line for line in others)
    done = bench("validate", "small", "--include_path", folder).succeeded("4 of 4 documents usable")
    assert "3 images lie outside" in done.out.splitlines()[1]


def test_rating_session_says_it_in_place_of_that_there_are_no_images(bench, write, away: Path, tmp_path: Path):
    folder = write("generate_until")
    captions = tmp_path / "a.jsonl"
    captions.write_text("\n".join(json.dumps({"id": f"r{n}", "caption": "a dog"}) for n in range(IMAGES)))
    asked = ("rate", "small", "--captions", f"A={captions}", "--aspect", "fit=1-5", "--include_path", folder)
    done = bench(*asked, "--output", tmp_path / "session").failed(1)
    assert_said_first_and_once(done.err.partition("bench: error: ")[2], away)
    task, path = load_task(folder / "small.yaml")[0], folder / "small.yaml"
    images = TaskImages(task, path, DataLocations(allowed=(away,)))
    assert all(isinstance(images.read(f"r{n}", f"{n}.png"), Picture) for n in range(IMAGES))
    assert images.outside is None


def test_image_that_another_thread_asks_for_meanwhile_breaks_no_error(write, away: Path, monkeypatch):
    path = write("generate_until") / "small.yaml"
    images = TaskImages(load_task(path)[0], path, DataLocations())
    images.read("r0", "0.png")
    left, resolve = list(range(1, IMAGES)), Path.resolve

    def resolve_while_others_ask(file: Path, strict: bool = False) -> Path:
        if left and file.suffix == ".png":
            images.read(f"r{left[0]}", f"{left.pop(0)}.png")
        return resolve(file, strict)

    monkeypatch.setattr(Path, "resolve", resolve_while_others_ask)
    assert f"1 image lies outside of the folders of the task and its data, in {away}" in str(images.outside)
    assert f"{IMAGES} images lie outside" in str(images.outside)


# -- Somebody else's task, or file of captions, names what is private: it is not read, and is named


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


_width = own_entries(metrics, width=Width)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder beside that of the tasks, with a photograph and a prompt with a secret."""
    folder = tmp_path / "private"
    folder.mkdir()
    Image.new("RGB", (7, 7)).save(folder / "photo.png")
    (folder / "creds.json").write_text('{"key": "s3cret"} {references} {candidates}')
    return folder


@pytest.fixture
def tasks(write_task, private: Path) -> Path:
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


def test_images_outside_are_refused_and_named_and_nothing_of_them_is_kept(run_small, tasks: Path, tmp_path: Path):
    done = run_small()
    first, *others = done.err.splitlines()
    assert f"3 images lie outside of the folders of the task and its data, in {tmp_path / 'private'}" in first
    assert f"--allow_outside {tmp_path / 'private'} lets the task read them" in first
    assert not any("outside of the folders" in line for line in others)
    assert len(list((tmp_path / "runs").rglob("pictures/*.jpg"))) == 1
    assert "allow_outside" not in run_below(tmp_path / "runs")[1]["config"]


def test_evaluate_takes_allowed_folders(tasks: Path, private: Path):
    def widths(**more: Any) -> list[float | None]:
        run = capbench.evaluate(tasks="small", include_path=[tasks], resamples=0, **more)
        return [width and int(width) for width in run["small"].samples.to_pandas()["width"].fillna(0)]

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
