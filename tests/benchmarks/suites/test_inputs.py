"""What a user has for rows of a suite: scores and captions made elsewhere, and models."""

import json
from pathlib import Path
from typing import Any

import pytest
from rated_task import write_rated
from tiny_images import noise_image

from capbench.benchmarks.suites.inputs import NOTHING, read_inputs
from capbench.benchmarks.suites.places import (
    CAPTIONS,
    MODEL,
    SCORES,
    SCORES_OF_COLUMN,
    SCORES_OR_MODEL,
    RowModels,
    places,
)
from capbench.benchmarks.suites.read import Suite, list_suites, load_suite
from capbench.benchmarks.suites.run import render_suite, run_suite, suite_rows
from capbench.cli.main import main
from capbench.errors import TaskError, UsageError
from capbench.permissions import Permissions, permit


@pytest.fixture(autouse=True)
def own_folders(session_folder: Path):
    """Allow the folders of these tests, in which tables that tests share are links."""
    with permit(Permissions(folders=(session_folder,))):
        yield


RATED = [("a cat", 1), ("a dog", 2), ("a dog runs", 3), ("the dog runs fast", 4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of inputs that holds nothing else."""
    (folder := tmp_path / "given").mkdir()
    return folder


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Two tasks of the same data, and rows of which two are of one metric."""
    rows = [
        {"image": f"images/{n}.jpg", "candidate": text, "ratings": rating} for n, (text, rating) in enumerate(RATED)
    ]
    for name in ("small", "other"):
        write_rated(tmp_path, rows, task=name, doc_to_id=None, doc_to_target=None, statistics=["kendall_b"])
    return made_suite(
        columns=[
            {"task": "small", "printed": "Flickr8k-Expert", "statistics": ["kendall_b"]},
            {"task": "other", "printed": "Flickr8k-CF", "statistics": ["kendall_b"]},
        ],
        rows=[
            {"metric": "recorded", "printed": "TIGEr"},
            {"metric": "length"},
            {"metric": "clip_s", "printed": "CLIP-S", "printed_model": "ViT-B/32", "needs": "not released"},
            {"metric": "clip_s", "printed": "CLIP-S", "printed_model": "ViT-L/14", "needs": "not released"},
        ],
    )


@pytest.fixture
def captioning(tmp_path: Path) -> Suite:
    """A task for captioners, whose columns are metrics."""
    rows = [{"id": f"p{n}", "image": f"{n}.jpg", "references": [text]} for n, (text, _) in enumerate(RATED)]
    keys = dict.fromkeys(("doc_to_candidate", "doc_to_human", "statistics"))
    write_rated(tmp_path, rows, task="written", output_type="generate_until", doc_to_text="Say what you see.", **keys)
    column = {"task": "written", "printed": "CC3M val", "statistics": ["mean"]}
    return made_suite(
        table=11,
        columns=[
            {**column, "metric": "length", "head": "words"},
            {**column, "metric": "recorded", "printed_metric": "Polos", "head": "Polos"},
            {**column, "metric": "clip_s", "encoder": "nobodys", "head": "CLIP-S"},
        ],
        rows=[
            {"printed_model": "A / B"},
            {"printed_model": "mine", "needs": "of nobody"},
            {"printed_model": "people", "no_task": "their references are others"},
        ],
    )


def made_suite(**values: Any) -> Suite:
    return Suite.model_validate({"suite": "mine", "description": "", "paper": "pacspp", "table": 1, **values})


def put(folder: Path, task: str, name: str, sign: int = 1, rows: int = 4) -> Path:
    lines = [{"image": f"{n}.png", "caption": text, "score": sign * n} for n, (text, _) in enumerate(RATED[:rows])]
    put_lines(folder / task / f"{name}.jsonl", *lines)
    return folder


def put_lines(file: Path, *lines: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def put_models(folder: Path, text: str) -> None:
    (folder / "given").mkdir(exist_ok=True)
    (folder / "given/models.yaml").write_text(text)


def captions() -> list[dict[str, Any]]:
    return [{"id": f"p{n}", "caption": f"{text} here"} for n, (text, _) in enumerate(RATED)]


def needs(suite: Suite, *, inputs: Any = NOTHING) -> dict[tuple[str, str], str]:
    return {(suite.name(cell.row), cell.column.name or cell.column.task): cell.needs for cell in places(suite, inputs)}


def test_row_is_filled_where_a_file_is_called_after_it_and_task_and_the_rest_stays(tmp_path: Path, suite: Suite):
    scores = put(tmp_path / "scores", "small", "TIGEr")
    put(scores, "small", "CLIP-S (ViT-B-32)", -1)
    put(scores, "small", "CLIP-S (ViT-L-14)", rows=3)
    put(scores, "other", "length", -1)
    run = run_suite(suite, inputs=read_inputs(suite, scores), include_path=[tmp_path], resamples=0)
    value_of = {(cell.label, cell.head): cell.result and cell.result.value for cell in run.cells}
    assert value_of == {
        ("TIGEr", "Flickr8k-Expert τ-b"): 1,
        ("TIGEr", "Flickr8k-CF τ-b"): None,
        ("length", "Flickr8k-Expert τ-b"): pytest.approx(0.9129, abs=1e-4),
        ("length", "Flickr8k-CF τ-b"): -1,
        ("CLIP-S (ViT-B/32)", "Flickr8k-Expert τ-b"): -1,
        ("CLIP-S (ViT-B/32)", "Flickr8k-CF τ-b"): None,
        ("CLIP-S (ViT-L/14)", "Flickr8k-Expert τ-b"): None,
        ("CLIP-S (ViT-L/14)", "Flickr8k-CF τ-b"): None,
    }
    reasons = {(cell.label, cell.head[:11]): cell.reason for cell in run.cells}
    assert reasons["CLIP-S (ViT-L/14)", "Flickr8k-Ex"].startswith("3 of 4 rows have a score in CLIP-S (ViT-L-14).jsonl")
    assert reasons["TIGEr", "Flickr8k-CF"] == SCORES
    assert reasons["CLIP-S (ViT-B/32)", "Flickr8k-CF"] == f"not released: {SCORES_OR_MODEL}"
    table = render_suite(run)
    cells = [[word.strip() for word in line.split("|")] for line in table.splitlines() if line.startswith("|")]
    assert [line[1] for line in cells[2:]] == ["TIGEr", "length", "CLIP-S (ViT-B/32)", "CLIP-S (ViT-L/14)"]
    # What was recorded does not look like what was measured.
    assert [cells[2][2], *cells[3][2:4]] == ["1.00 [rec]", "0.91", "-1.00 [rec]"]
    assert "\n[rec] from scores of a file of --recorded, not computed here\n" in table
    assert sum(row["recorded"] for row in suite_rows(run)) == 3


def test_captions_fill_the_columns_of_a_row_and_scores_of_them_one(tmp_path: Path, captioning: Suite):
    recorded = tmp_path / "given"
    put_lines(recorded / "written/A - B.jsonl", *captions())
    put_lines(recorded / "written/A - B/Polos.jsonl", *({"id": f"p{n}", "score": n} for n in range(4)))
    put_lines(recorded / "written/mine/Polos.jsonl", *({"id": f"p{n}", "score": n} for n in range(4)))
    read = read_inputs(captioning, recorded)
    run = run_suite(captioning, inputs=read, include_path=[tmp_path], resamples=0)
    value_of = {(cell.label, cell.head): cell.result and cell.result.value for cell in run.cells}
    assert value_of["A / B", "words"] == pytest.approx((3 + 3 + 4 + 5) / 4)
    assert value_of["A / B", "Polos"] == pytest.approx(1.5)
    # Captions hold no scores: what is computed of them is measured.
    assert [(cell.label, cell.head) for cell in run.cells if cell.is_recorded] == [("A / B", "Polos")]
    assert value_of["mine", "words"] is None and value_of["mine", "Polos"] is None
    reasons = {(cell.label, cell.head): cell.reason for cell in run.cells}
    assert reasons["mine", "words"] == reasons["mine", "Polos"] == f"of nobody: {CAPTIONS}"
    # A column's encoder is its own.
    assert reasons["A / B", "CLIP-S"].startswith("unknown model 'nobodys'")
    assert reasons["people", "words"] == "their references are others"


def test_captions_without_scores_say_how_their_column_is_filled(tmp_path: Path, captioning: Suite):
    put_lines(tmp_path / "given/written/mine.jsonl", *captions())
    said = needs(captioning, inputs=read_inputs(captioning, tmp_path / "given"))
    assert said["mine", "words"] == said["mine", "CLIP-S"] == ""
    assert said["mine", "Polos"] == SCORES_OF_COLUMN
    assert said["A / B", "Polos"] == CAPTIONS


def test_model_of_a_file_stands_for_a_row_with_its_arguments(tmp_path: Path, suite: Suite, captioning: Suite):
    file = put_lines(tmp_path / "captions.jsonl", *captions())
    put_models(
        tmp_path,
        f'mine:\n  mine: "captions:{file}"\n  A - B: {{model: hf, model_args: {{pretrained: here}}, '
        "generation_kwargs: {num_beams: 2}}\n",
    )
    read = read_inputs(captioning, tmp_path / "given")
    by_row = {(place.row.printed_model, place.column.head): place.models for place in places(captioning, read)}
    assert by_row["mine", "words"] == RowModels(f"captions:{file}")
    assert by_row["A / B", "CLIP-S"] == RowModels(
        "hf", "nobodys", decoding={"num_beams": 2}, model_args={"pretrained": "here"}
    )
    put_models(tmp_path, f'mine: {{mine: "captions:{file}"}}')
    read = read_inputs(captioning, tmp_path / "given")
    run = run_suite(captioning, inputs=read, include_path=[tmp_path], resamples=0)
    value_of = {(cell.label, cell.head): cell.result and cell.result.value for cell in run.cells}
    assert value_of["mine", "words"] == pytest.approx((3 + 3 + 4 + 5) / 4)
    # A row of a metric takes what encodes or judges for it.
    put_models(tmp_path, "mine:\n  CLIP-S (ViT-B/32): clip-vit-base-patch32\n")
    said = {
        (suite.name(place.row), place.column.task): (place.models.model, place.needs)
        for place in places(suite, read_inputs(suite, tmp_path / "given"))
    }
    assert said["CLIP-S (ViT-B/32)", "small"] == ("clip-vit-base-patch32", "")
    assert said["CLIP-S (ViT-L/14)", "small"] == (None, f"not released: {SCORES_OR_MODEL}")


def test_model_fills_all_rows_of_a_name_which_have_other_metrics_for_videos(folder: Path):
    row = "PAC-S++ (r=4, lambda_v=0.5, lambda_t=0.001, visual=SDv1.5, textual=BLIP)"
    put_models(folder, f'pacspp_table7: {{"{row}": mine}}')
    ablation = load_suite("pacspp_table7")
    models = read_inputs(ablation, folder / "given").models
    assert [ablation.rows[number].metric for number in models] == ["pac_s", "pac_emscore"]
    assert {model.model for model in models.values()} == {"mine"}


def test_row_of_an_encoder_takes_a_model_or_scores_of_images_and_texts(folder: Path):
    suite = load_suite("dci_table7")
    row = "sDCI First LLM Rand"
    assert {place.needs for place in places(suite) if place.row.printed_model == row} == {
        f"weights of these settings were not released: {MODEL}"
    }
    (folder / "models.yaml").write_text(
        f"dci_table7:\n  {row}: {{model: clip-vit-base-patch32, model_args: {{peft: there}}}}\n"
    )
    taken = {place.models for place in places(suite, read_inputs(suite, folder)) if place.row.printed_model == row}
    assert taken == {RowModels("clip-vit-base-patch32", model_args={"peft": "there"})}
    file = put_lines(folder / f"dci_all_scm/{row}.jsonl")
    taken = {
        (place.column.task, place.models, place.needs)
        for place in places(suite, read_inputs(suite, folder))
        if place.row.printed_model == row and place.column.task in ("dci_all_scm", "dci_all_neg")
    }
    # The file is for its task; the others have the model.
    pairs = RowModels("pair_scores", model_args={"name": row, "path": str(file)})
    assert taken == {
        ("dci_all_scm", pairs, ""),
        ("dci_all_neg", RowModels("clip-vit-base-patch32", model_args={"peft": "there"}), ""),
    }


def test_scores_of_images_and_texts_fill_a_row_of_an_encoder(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    for number in range(4):
        noise_image(number).save(tmp_path / "photos" / f"{number}.png")
    rows = [{"file": f"{number}.png", "true": "a bus", "false": "a dog"} for number in range(4)]
    keys = {"doc_to_captions": "true", "doc_to_negatives": "false", "protocol": {"measure": "neg"}}
    left = ("doc_to_id", "doc_to_candidate", "doc_to_target", "doc_to_human", "statistics", "metric_list")
    keys |= {"doc_to_image": "file", "image_folder": "photos"} | dict.fromkeys(left)
    write_rated(tmp_path, rows, task="chosen", output_type="matching", **keys)
    suite = made_suite(
        paper="dci",
        table=3,
        columns=[{"task": "chosen", "printed": "ARO", "printed_metric": "VG-R", "statistics": ["accuracy"]}],
        rows=[{"printed_model": "X-VLM", "needs": "it is in no library"}, {"printed_model": "BLIP"}],
    )
    scores = [
        {"image": f"photos/{number}.png", "text": text, "score": score}
        for number in range(4)
        for text, score in (("a bus", 0.5), ("a dog", number / 5))
    ]
    put_lines(tmp_path / "given/chosen/X-VLM.jsonl", *scores)
    run = run_suite(suite, inputs=read_inputs(suite, tmp_path / "given"), include_path=[tmp_path], resamples=0)
    filled, empty = run.cells
    # 0.5 is above 0, 0.2 and 0.4, and not above 0.6.
    assert filled.result is not None and filled.result.value == 0.75
    assert run.runs[0].record.model_name == "X-VLM"
    assert (empty.result, empty.reason) == (None, MODEL)


# --- training images


def test_no_row_stands_under_a_column_that_holds_images_it_was_trained_on(folder: Path):
    seen = "the model was trained on images that this column is measured on: sdci_train, sdci_valid"
    suite = load_suite("dci_table2")
    best = [place for place in places(suite) if "best sDCI" in (place.row.printed_model or "")]
    full = [column.task for column in suite.columns if column.task.startswith("dci_full_")]
    assert [(place.column.task, place.needs == seen) for place in best] == [
        *((task, True) for task in full),
        ("dci_all_scm", False),
        ("dci_pick5_scm", False),
    ]
    printed = [suite.published(place.row, place.column, "accuracy", "") for place in best]
    assert [entry and entry.printed for entry in printed] == [None] * 6 + ["64.02", "31.60"]
    # A model that a user names may say so, too.
    (folder / "models.yaml").write_text(
        "dci_table2:\n  NegCLIP: {model: open_clip, trained_on: [sdci_train, sdci_valid]}\n"
    )
    inputs = read_inputs(suite, folder)
    assert {place.needs for place in places(suite, inputs) if place.row.printed_model == "NegCLIP"} == {seen}


# --- what is refused


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("smal/TIGEr", r"suite 'mine' has no task 'smal'\. Did you mean 'small'"),
        ("small/Tiger", r"suite 'mine' has no row 'Tiger'\. Did you mean 'TIGEr'"),
        ("small/CLIP-S", r"has no row 'CLIP-S'\. Did you mean 'CLIP-S \(ViT-B-32\)' or 'CLIP-S \(ViT-L-14\)'"),
        ("TIGEr", r"expected DIR/TASK/ROW\.jsonl or DIR/TASK/ROW/COLUMN\.jsonl"),
        ("small/TIGEr/length/x", "expected DIR/TASK/ROW"),
        ("small/TIGEr/length", r"suite 'mine' has no column 'length'"),
        # What is meant for another suite is held against that one.
        ("flickr8k_expert/TIGER", r"suite 'pacspp_table1' has no row 'TIGER'\. Did you mean 'TIGEr'"),
        ("flickr8k_expert/nobody", r"suite 'pacspp_table1' has no row 'nobody'\.\n"),
        ("flickr8k/TIGEr", r"suite 'mine' has no task 'flickr8k'\. Did you mean 'flickr8k_"),
    ],
)  # fmt: skip
def test_file_of_no_place_is_refused(tmp_path: Path, suite: Suite, file: str, message: str):
    put_lines(tmp_path / f"scores/{file}.jsonl")
    with pytest.raises(UsageError, match=message):
        read_inputs(suite, tmp_path / "scores")


def test_two_files_for_one_place_are_refused(tmp_path: Path, suite: Suite, captioning: Suite):
    put(tmp_path / "scores", "small", "TIGEr")
    put_lines(tmp_path / "scores/small/TIGEr.json")
    with pytest.raises(UsageError, match=r"TIGEr\.json and .*TIGEr\.jsonl fill the same cells"):
        read_inputs(suite, tmp_path / "scores")
    for name in ("mine/Polos.csv", "mine/Polos.jsonl"):
        put_lines(tmp_path / f"given/written/{name}")
    with pytest.raises(UsageError, match=r"Polos\.csv and .*Polos\.jsonl fill the same cells"):
        read_inputs(captioning, tmp_path / "given")


def test_row_that_no_task_measures_takes_nothing(tmp_path: Path, captioning: Suite):
    put_lines(tmp_path / "given/written/people.jsonl", *captions())
    with pytest.raises(UsageError, match="row 'people' of suite 'mine' cannot be filled: their references are"):
        read_inputs(captioning, tmp_path / "given")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min: {TIGEr: x}", r"models\.yaml:1: unknown suite 'min'"),
        ("mine: x", r"models\.yaml:1: expected ROW: \{model: NAME, \.\.\.\}"),
        ("mine: {TIGEr: x}", r"no model can compute the metric of this row"),
        ("mine: {length: {modl: x}}", r"unknown key 'modl'. Did you mean 'model'"),
        ("mine: {length: {}}", r"give a model or a judge"),
        ("mine: {lenght: x}", r"suite 'mine' has no row 'lenght'\. Did you mean 'length'"),
    ],
)
def test_faulty_models_file_is_refused(tmp_path: Path, suite: Suite, text: str, message: str):
    put_models(tmp_path, text)
    with pytest.raises((TaskError, UsageError), match=message):
        read_inputs(suite, tmp_path / "given")


def test_one_folder_serves_several_suites(folder: Path):
    put(folder, "flickr8k_expert", "TIGEr")
    put(folder, "flickr8k_expert", "Polos")
    first, fifth = load_suite("pacspp_table1"), load_suite("pacspp_table5")
    assert {file.stem for file in read_inputs(first, folder).files.values()} == {"TIGEr"}
    assert {file.stem for file in read_inputs(fifth, folder).files.values()} == {"Polos"}
    (folder / "models.yaml").write_text("dci_table2: {NegCLIP: x}")
    assert read_inputs(first, folder).models == {}


def test_folder_that_is_not_there_or_without_a_suite_is_refused(tmp_path, suite, capsys):
    with pytest.raises(UsageError, match="there is no such folder"):
        read_inputs(suite, tmp_path / "none")
    assert main(["run", "--task", "iiw_400", "--recorded", str(tmp_path)]) == 2
    assert "goes with --suite NAME" in capsys.readouterr().err


# --- every suite


@pytest.mark.parametrize("suite", list_suites(), ids=lambda suite: suite.suite)
@pytest.mark.parametrize("by", ["files", "models"])
def test_every_place_runs_or_says_what_fills_it(suite: Suite, folder: Path, by: str):
    fillable = [
        cell
        for cell in places(suite)
        if cell.needs and not (cell.column.needs or cell.row.no_task or {*cell.row.trained_on} & {*cell.column.images})
    ]  # fmt: skip
    assert all("--recorded DIR: docs/suites.md" in place.needs for place in fillable)
    assert "not a metric of capbench" not in "".join(place.needs for place in fillable)
    for place in fillable:
        called = suite.name(place.row).replace("/", "-")
        if MODEL in place.needs and by == "models":
            continue
        put_lines(folder / place.column.task / f"{called}.jsonl")
        if place.metric == "recorded" and place.column.metric:
            put_lines(folder / place.column.task / called / f"{place.column.name}.jsonl")
    named = [suite.name(place.row).replace("/", "-") for place in fillable if MODEL in place.needs]
    models = {name: {"model": "clip-vit-base-patch32"} for name in named}
    if by == "models":
        (folder / "models.yaml").write_text(json.dumps({suite.suite: models}))
    left = [(place.row, place.column, place.needs) for place in places(suite) if place.needs and place not in fillable]
    filled = places(suite, read_inputs(suite, folder))
    assert [(place.row, place.column, place.needs) for place in filled if place.needs] == left
