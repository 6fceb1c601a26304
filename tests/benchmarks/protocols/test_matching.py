"""Matching crops and captions of DCI: the released numbers, what is encoded, grouped, dropped and recorded."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_dci import ENTRIES, edit

import capbench
from capbench.adapters import Encoded, ImageHandle, aliases
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.leaderboard.build import board_of
from capbench.benchmarks.leaderboard.collect import collect
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import Run
from capbench.errors import DataError, TaskError, UsageError
from capbench.tasks.index import build_index

pytestmark = pytest.mark.costly

RELEASED = {
    "dci_all_scm": "1001000000001000110000001",
    "dci_all_neg": "0111010111011111011010010",
    "dci_pick5_scm": "00000000000001000001000",
    "dci_pick5_neg": "01110000101011001000000",
    "dci_base_neg": "011111",
    "dci_hard_neg": "1101001111001101010111010",
}
"""Each entry's hit as facebookresearch/DCI 8326c97 has it, with the tiny checkpoint's transformers folder on
``make_tiny_dci``: ``run_dense_cap_on_model(model, processor)`` of ``run_clip_dense_cap_eval.py``, where
``get_clip_processor`` gave the folder's processor and ``is_test`` was set, so that Pick5 takes the first five."""


@pytest.fixture
def folder(dci: Path, tmp_path: Path) -> Path:
    return shutil.copytree(dci, tmp_path / "dci")


def hits(run: TaskRun) -> str:
    samples = run.samples.to_pylist()
    return "".join(str(int(row["hit"])) for row in samples if row["failure"] is None)


def evaluate(model: Any, folder: Path, task: str = "dci", **settings: Any) -> Run:
    settings = {"data": {task: folder}, "skip_checks": True, "resamples": 0} | settings
    return capbench.evaluate(model, task, **settings)


@pytest.fixture(scope="module")
def released_processing(dci: Path, tiny_clip, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All six tasks, with the image and text processing of the released code."""
    arguments = f"pretrained={tiny_clip.hf_folder},device=cpu,preprocess=transformers"
    store = tmp_path_factory.mktemp("store") / "store.sqlite"
    return evaluate("hf_clip", dci, model_args=arguments, store=store)


@pytest.fixture
def task_file(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a task which is a shipped one but for the keys given."""

    def write(include: str = "dci_all_scm", **keys: Any) -> Path:
        shipped = build_index().entries[include].path
        content = {"include": str(shipped), "task": "mine", "checks": {}, **keys}
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / "mine.yaml").write_text(yaml.safe_dump(content))
        return tmp_path / "tasks"

    return write


@pytest.mark.parametrize("task", RELEASED)
def test_every_entry_is_what_the_released_code_makes_of_it(released_processing: Run, task: str):
    run = released_processing[task]
    assert hits(run) == RELEASED[task]
    (result,) = run.results
    assert result.value == RELEASED[task].count("1") / len(RELEASED[task])
    assert result.n == len(RELEASED[task])


def test_entries_are_named_in_the_order_of_their_blocks_and_a_caption_that_equals_its_negative_is_no_hit(
    released_processing: Run,
):
    ids = [row["id"] for row in released_processing["dci_all_scm"].samples.to_pylist() if row["image"]]
    assert ids == [f"{image}|{key}" for image, keys in ENTRIES.items() for key in keys]
    first = released_processing["dci_all_neg"].samples.to_pylist()[0]
    assert first["candidates"] == first["negatives"]
    assert first["own"] == first["rival"]
    assert first["hit"] == 0


def test_adapters_of_two_libraries_agree_on_every_entry(dci: Path, tiny_clip, tiny_encoder, tmp_path: Path):
    by_transformers = evaluate("hf_clip", dci, model_args=f"pretrained={tiny_clip.hf_folder},device=cpu")
    by_open_clip = evaluate(tiny_encoder, dci)
    for task in RELEASED:
        assert hits(by_transformers[task]) == hits(by_open_clip[task])


def test_two_models_are_compared_by_their_hits_and_have_one_column_of_the_leaderboard(
    dci: Path, tiny_clip, tiny_encoder, tmp_path: Path
):
    other = {"preprocess": "transformers", "device": "cpu", "pretrained": str(tiny_clip.hf_folder)}
    runs = [
        evaluate(model, dci, "dci_all_neg", model_args=arguments, output_path=tmp_path / "runs")["dci_all_neg"]
        for model, arguments in (("hf_clip", other), (tiny_encoder, ""))
    ]
    folders = [run.folder for run in runs if run.folder]
    (comparison,) = compare_runs(folders, CompareSettings(resamples=50))
    assert (comparison.metric_label, comparison.subject, comparison.n, comparison.images) == ("Neg", "model", 25, 5)
    shares = {run.record.model_name: hits(run).count("1") / 25 for run in runs}
    assert {entry.name: entry.value for entry in comparison.compared} == shares
    (table,) = board_of(*collect(tmp_path / "runs", build_index()), build_index()).tables
    assert [column.label for column in table.columns] == ["Neg"]
    measured = [row for row in table.rows if row.kind == "measured"]
    assert {row.name: row.cells[0] and row.cells[0].value for row in measured} == shares


class Counting(OpenClipEncoder):
    """An encoder that remembers what it was asked to encode."""

    seen: list[Any]

    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        self.seen += images
        return super().images(images)

    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        self.seen += texts
        return super().texts(texts)


@pytest.fixture
def counting(tiny_clip) -> Counting:
    encoder = Counting(str(tiny_clip.checkpoint), str(tiny_clip.architecture), device="cpu")
    encoder.seen = []
    return encoder


def test_second_run_encodes_nothing_and_gives_the_same(counting: Counting, dci: Path):
    first = evaluate(counting, dci, "dci_all_neg")
    counting.seen.clear()
    second = evaluate(counting, dci, "dci_all_neg")
    assert counting.seen == []
    assert second["dci_all_neg"].record.store["computed"] == 0
    assert second["dci_all_neg"].samples == first["dci_all_neg"].samples
    assert second["dci_all_neg"].record.fingerprint == first["dci_all_neg"].record.fingerprint


def test_strict_stops_at_an_image_that_cannot_be_read(tiny_encoder, folder: Path):
    (folder / "splits.json").write_text(json.dumps({"test": ["sa_1.json", "sa_2.json"]}))
    (folder / "photos" / "sa_2.png").write_bytes((folder / "photos" / "sa_2.png").read_bytes()[:20_000])
    with pytest.raises(DataError, match="sa_2: image"):
        evaluate(tiny_encoder, folder, "dci_all_scm", strict=True)


def test_nothing_that_can_be_read_is_an_error_that_says_why(tiny_encoder, folder: Path):
    for photo in (folder / "photos").iterdir():
        photo.write_bytes(photo.read_bytes()[:20_000])
    with pytest.raises(DataError, match=r"no image can be matched.*\n.*\.png"):
        evaluate(tiny_encoder, folder, "dci_all_scm")


def test_wrong_copy_fails_its_checks_before_anything_is_encoded(counting: Counting, dci: Path):
    with pytest.raises(DataError, match="rows: expected 1,462, found 25"):
        evaluate(counting, dci, "dci_all_scm", skip_checks=False)
    assert counting.seen == []


def test_entries_with_too_few_captions_are_left_out_and_counted(released_processing: Run):
    failures = released_processing["dci_pick5_scm"].record.failures
    assert [(failure["reason"], failure["samples"]) for failure in failures if failure["stage"] == "candidate"] == [
        ("has 4 of the 5 captions that the task needs", ["sa_3|m-2-sc"]),
        ("has 1 of the 5 captions that the task needs", ["sa_3|m-5-sc"]),
    ]


def test_captions_compete_within_their_image_where_the_task_says_so(tiny_encoder, folder, task_file):
    include = task_file(protocol={"measure": "scm", "grouping": "per_image"})
    by_image = evaluate(tiny_encoder, folder, "mine", include_path=[include])["mine"].samples.to_pylist()
    with_image = [row for row in by_image if row["image"]]
    assert len(with_image) == 25
    # In a run of its own an image of at most eight entries is one block.
    for image in ("sa_1", "sa_2", "sa_5"):
        (folder / "splits.json").write_text(json.dumps({"test": [f"{image}.json"]}))
        alone = evaluate(tiny_encoder, folder, "dci_all_scm")["dci_all_scm"].samples.to_pylist()
        assert [row for row in with_image if row["image"] == f"{image}.png"] == alone


@pytest.mark.parametrize(("size", "rivals"), [(1, 0), (24, 24), (25, 25)])
def test_block_size_says_how_many_captions_compete(tiny_encoder, dci, task_file, size: int, rivals: int):
    include = task_file(protocol={"measure": "scm", "block_size": size})
    rows = evaluate(tiny_encoder, dci, "mine", include_path=[include])["mine"].samples.to_pylist()
    assert sum(row["rival"] is not None for row in rows) == rivals
    assert all(row["hit"] == 1 for row in rows if row["image"] and row["rival"] is None)


def picked(tiny_encoder, folder: Path, include: Path, **settings: Any) -> dict[str, list[str]]:
    run = evaluate(tiny_encoder, folder, "mine", include_path=[include], **settings)["mine"]
    return {row["id"]: row["candidates"] for row in run.samples.to_pylist() if row["failure"] is None}


def test_captions_are_drawn_by_seed_and_entry(tiny_encoder, dci: Path, task_file: Callable[..., Path]):
    drawing = {"measure": "neg", "captions": 2, "pick": "random"}
    first = picked(tiny_encoder, dci, task_file(protocol=drawing))
    assert all(len(captions) == 2 for captions in first.values())
    again = picked(tiny_encoder, dci, task_file(protocol=drawing), limit=2)
    assert again == {name: captions for name, captions in first.items() if name in again}
    assert first != picked(tiny_encoder, dci, task_file(protocol={**drawing, "pick_seed": 1}))
    in_order = picked(tiny_encoder, dci, task_file(protocol={**drawing, "pick": "first"}))
    assert first != in_order
    # Entries of five equal captions aside, no caption is drawn twice.
    assert all(len(set(captions)) == 2 for name, captions in first.items() if len(set(in_order[name])) == 2)


def test_text_longer_than_the_context_is_cut_and_counted(tiny_encoder, folder: Path):
    summaries = json.loads((folder / "complete" / "sa_2.json").read_text())["summaries"]
    edit(folder, "sa_2", summaries={**summaries, "base": ["boat " * 90]})
    record = evaluate(tiny_encoder, folder, "dci_all_neg")["dci_all_neg"].record
    assert record.values["truncation"] == {"neg": {"captions": 50, "cut": 1, "share": 0.02, "context_length": 77}}


def test_interval_by_influence_is_over_images(tiny_encoder, folder: Path):
    by_resamples, by_influence = (
        evaluate(tiny_encoder, folder, "dci_all_neg", resamples=500, intervals=way)
        for way in ("bootstrap", "influence")
    )
    interval, other = (run["dci_all_neg"].results[0].interval for run in (by_influence, by_resamples))
    assert (interval.resamples, other.resamples) == (0, 500)
    assert 0.9 < interval.stderr / other.stderr < 1.6


def test_fingerprint_changes_with_what_is_matched(tiny_encoder, folder: Path):
    def data_hash() -> str:
        return evaluate(tiny_encoder, folder, "dci_all_neg")["dci_all_neg"].record.data_hash

    before = data_hash()
    negatives = json.loads((folder / "complete" / "sa_2.json").read_text())["negatives"]
    negatives["base"]["swaps"][0] = "Another text."
    edit(folder, "sa_2", negatives=negatives)
    after = data_hash()
    assert before != after
    masks = json.loads((folder / "complete" / "sa_1.json").read_text())["mask_data"]
    masks["10"]["bounds"]["bottomRight"]["x"] += 7
    edit(folder, "sa_1", mask_data=masks)
    assert data_hash() != after


@pytest.mark.parametrize(
    ("task", "names", "printed"),
    [
        ("dci_full_all_scm", ["CLIP baseline", "ViT-B-32 openai"], "40.12"),
        ("dci_full_hard_neg", ["ViT-B-32 openai"], "41.29"),
        ("mine", ["ViT-B-32 openai", "CLIP baseline"], "37.82"),
        ("mine", "a model that no paper has", None),
    ],
)
def test_number_is_put_beside_the_published_one_of_the_same_model(
    dci: Path, tiny_clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    task_file: Callable[..., Path], task: str, names: Any, printed: str | None,
):  # fmt: skip
    alias = {
        "adapter": "open_clip", "pretrained": str(tiny_clip.checkpoint), "device": "cpu",
        "architecture": str(tiny_clip.architecture), "published_as": {"dci": names},
    }  # fmt: skip
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(alias))
    monkeypatch.setattr(aliases, "ALIAS_FOLDER", tmp_path)
    run = evaluate("small", dci, task, include_path=[task_file()])
    published = run[task].record.published
    assert [entry.printed for entry in published.values()] == ([printed] if printed else [])
    assert (printed or "SCM") in run.table()


def test_run_without_a_model_that_encodes_is_refused(dci: Path):
    with pytest.raises(UsageError, match="needs a model that encodes images and texts, but none was named"):
        evaluate(None, dci, "dci_all_scm")


def test_metrics_are_refused(tiny_encoder, dci: Path):
    with pytest.raises(UsageError, match="--metrics length: protocol 'matching' tests the model itself") as raised:
        evaluate(tiny_encoder, dci, "dci_all_scm", metrics="length")
    assert "docs/rated_sets.md has a task" in raised.value.hint


def test_published_table_that_is_not_there_is_found_before_work_starts(counting, dci, task_file):
    include = task_file(published={"paper": "dci", "table": 4, "task": "sDCI!", "metrics": {"SCM": "All SCM"}})
    with pytest.raises(TaskError, match="has no task 'sDCI!'"):
        evaluate(counting, dci, "mine", include_path=[include])
    assert counting.seen == []
