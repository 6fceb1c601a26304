import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_runs import make_record, write_many, write_record

from capbench.benchmarks.leaderboard.board import Board, BoardRun, Cell, OmittedRun, TaskTable
from capbench.benchmarks.leaderboard.build import board_of, pages
from capbench.benchmarks.leaderboard.collect import collect
from capbench.benchmarks.leaderboard.diff import comment, read_leaderboard
from capbench.benchmarks.leaderboard.formats import csv_file, json_file, readme
from capbench.benchmarks.leaderboard.task_tables import main_column
from capbench.benchmarks.records.record import Record
from capbench.errors import DataError, UsageError
from capbench.tasks.index import TaskIndex, build_index

INDEX = build_index()


def board(*records: dict[str, Any]) -> Board:
    runs = [BoardRun(f"run-{number}", Path(f"run-{number}"), Record(record)) for number, record in enumerate(records)]
    return board_of(runs, [], INDEX)


def values(table: TaskTable) -> dict[tuple[str, str], list[float | None]]:
    return {
        (row.name, row.model): [cell.value if cell else None for cell in row.cells]
        for row in table.rows
        if row.kind == "measured"
    }


def cell(table: TaskTable, name: str, column: str) -> Cell:
    place = [column.key for column in table.columns].index(column)
    return next(row for row in table.rows if row.name == name).cells[place]


def marks_of(board: Board) -> dict[str, tuple[str, ...]]:
    return {run.key: run.marks for run in board.runs}


def judged(**changes: Any) -> Callable[..., dict[str, Any]]:
    """Return what makes a record of values by metric of one statistic."""
    return lambda **values: make_record(values={f"{name}.kendall_b": values[name] for name in values}, **changes)


def captioning(model: str, **values: float) -> dict[str, Any]:
    return make_record(kind="generate_until", values=values, model=model)


def standing(*records: dict[str, Any]) -> dict[str, tuple[int | None, tuple[str, ...]]]:
    """Return rank in the first column, and marks, of each row of the only table, in its order."""
    (table,) = board(*records).tables
    return {row.name: (row.cells[0].rank, row.marks) for row in table.rows if row.cells[0]}


LETTERS = {"alpha": 0.05, "resamples": 100, "seed": 1, "groups": {"cider": "a", "bleu_1": "ab"}}
OTHER = ("other data than most rows",)


def test_rows_of_a_task_that_judges_metrics_are_metrics_best_first():
    leaderboard = board(make_record(values={"bleu_1.kendall_b": 0.3, "bleu_1.kendall_c": 0.5, "cider.kendall_b": 0.4}))
    (table,) = leaderboard.tables
    assert table.subject == "metric"
    assert [(column.key, column.label, column.scale, column.decimals) for column in table.columns] == [
        ("kendall_b", "τ-b", 100, 2),
        ("kendall_c", "τ-c", 100, 2),
    ]
    assert values(table) == {("CIDEr", ""): [0.4, None], ("BLEU-1", ""): [0.3, 0.5]}
    assert list(values(table)) == [("CIDEr", ""), ("BLEU-1", "")]
    assert [row.cells[0].rank for row in table.rows if row.cells[0]] == [1, 2]


def test_of_two_runs_of_a_row_the_newest_with_the_most_documents_counts():
    scores = {"cider.kendall_b": 0.1}
    leaderboard = board(
        make_record(values=scores, date=1.0),
        make_record(values={"cider.kendall_b": 0.2}, date=2.0),
        make_record(values={"cider.kendall_b": 0.3}, date=3.0, effective=50),
        make_record(values={"cider.kendall_b": 0.4}, date=4.0, limit=10, effective=200),
    )
    assert values(leaderboard.tables[0]) == {("CIDEr", ""): [0.2]}
    assert marks_of(leaderboard) == {
        "run-0": ("superseded by run-1",), "run-1": (), "run-2": ("superseded by run-1",),
        "run-3": ("superseded by run-1",),
    }  # fmt: skip


def test_equal_values_share_a_rank_and_lower_can_be_better():
    records = [captioning(model, rep_1=value) for model, value in (("a", 0.3), ("b", 0.1), ("c", 0.1), ("d", 0.2))]
    for record in records:
        record["higher_is_better"] = {"tasty": {"rep_1": False}}
    assert list(standing(*records).items()) == [("b", (1, ())), ("c", (1, ())), ("d", (3, ())), ("a", (4, ()))]


def test_count_of_words_is_no_percentage_and_ranks_nobody():
    leaderboard = board(
        *(
            captioning(model, length=words, cider=cider)
            for model, words, cider in (("a", 33.0, 0.1), ("b", 10.0, 0.3), ("c", 20.0, 0.2))
        )
    )
    (table,) = leaderboard.tables
    length, cider = table.columns
    assert (length.scale, length.higher_is_better, length.lower_is_better) == (1.0, None, False)
    # The task is ranked by the first metric that ranks.
    assert main_column("model", table.columns) is cider
    ranks = [(row.name, *(cell.rank for cell in row.cells if cell)) for row in table.rows]
    assert ranks == [("b", None, 1), ("c", None, 2), ("a", None, 3)]
    shown = readme(leaderboard)["README.md"].decode()
    assert "| 33.00<br>" in shown and "**33.00" not in shown
    alone = standing(captioning("two", length=2.0), captioning("three", length=3.0))
    assert list(alone.items()) == [("three", (None, ())), ("two", (None, ()))]


def test_checklist_is_the_mean_of_its_rules_on_the_scale_of_the_rest_with_the_rules_behind_it():
    values = {"falls.object": 0.5, "rises.object": 0.1, "falls.number": 0.7, "equal.case": 0.9, "pays.glued": 1.4}
    shares = {"cider.falls.object": True, "cider.falls.number": True, "cider.equal.case": True}
    record = make_record(kind="checklist", values={f"cider.{key}": value for key, value in values.items()})
    record["higher_is_better"]["tasty"] |= dict.fromkeys(record["higher_is_better"]["tasty"], False) | shares
    (table,) = board(record).tables
    assert main_column("metric", table.columns) == table.columns[0] and table.by_rule
    assert [(column.key, column.scale) for column in table.columns[:3]] == [
        ("rules", 100), ("falls.object", 100), ("falls.number", 100),
    ]  # fmt: skip
    # Games are no shares, and 'rises' is not what a rule is for.
    mean, *of_rules = table.rows[0].cells
    assert (mean.value, mean.n) == (pytest.approx((0.5 + 0.7 + 0.9) / 3), 300)
    assert [cell.value for cell in of_rules] == [0.5, 0.7, 0.9, 1.4]
    record["results"]["tasty"]["cider.falls.number,none"] = None
    unknown = board(record).tables[0].rows[0].cells[0]
    assert (unknown.value, unknown.reason) == (None, "no value of falls number")


def test_runs_of_another_choice_of_the_protocol_have_no_rank():
    other = judged()(bleu_1=0.5)
    other["fingerprint_parts"]["task"]["protocol"]["raters"] = "mean"
    ranks = standing(judged()(cider=0.4), judged()(meteor=0.3), other)
    assert ranks == {"CIDEr": (1, ()), "METEOR": (2, ()), "BLEU-1": (None, OTHER)}


def test_runs_of_a_part_of_the_data_and_of_other_data_have_no_rank():
    checks = [{"check": "rows", "expected": 3, "found": 2, "passed": False}]
    ranks = standing(
        judged()(cider=0.4),
        judged()(meteor=0.3),
        judged(limit=5)(bleu_1=0.9),
        judged(data_checks=checks)(bleu_4=0.8),
        judged(data="another")(rouge_l=0.7),
    )
    without = {"BLEU-1": (None, ()), "BLEU-4": (None, ()), "ROUGE-L": (None, OTHER)}
    assert ranks == {"CIDEr": (1, ()), "METEOR": (2, ())} | without
    assert list(ranks)[:2] == ["CIDEr", "METEOR"]


def test_versions_of_a_task_are_tables_of_their_own_the_newest_first():
    leaderboard = board(*(make_record(version=version) for version in (9, 10, "2.1")))
    assert [table.version for table in leaderboard.tables] == ["10", "9", "2.1"]
    assert len({table.anchor for table in leaderboard.tables}) == 3


def test_published_mean_of_other_categories_than_ours_is_not_shown():
    published = {"paper": "pacspp", "table": 3, "task": "Pascal-50S {category}", "categories": ["HC", "HI", "HM", "MM"]}
    some = {"cider.accuracy.HI": 0.9, "cider.accuracy": 0.9}
    all_four = {f"cider.accuracy.{category}": 0.9 for category in ("HC", "HI", "HM", "MM")} | {"cider.accuracy": 0.9}
    for measured, shown in ((some, False), (all_four, True)):
        (table,) = board(make_record(kind="preference", values=measured, published=published)).tables
        place = [column.key for column in table.columns].index("accuracy")
        assert any(row.cells[place] for row in table.rows if row.kind == "published") is shown


def test_unknown_paper_costs_nothing():
    (table,) = board(make_record(published={"paper": "nobody", "table": 1, "task": "x"})).tables
    assert [row.kind for row in table.rows] == ["measured", "measured"]


def groups(table: TaskTable, column: str = "kendall_b") -> dict[str, str]:
    return {row.name: cell(table, row.name, column).group for row in table.rows}


def test_groups_are_those_of_the_record_where_all_rows_are_of_one_run():
    record = make_record(significance={"kendall_b": LETTERS})
    (table,) = board(record).tables
    assert groups(table) == {"CIDEr": "a", "BLEU-1": "ab"}
    (table,) = board(record, judged()(meteor=0.5)).tables
    assert set(groups(table).values()) == {""}
    assert "several runs" in table.notes[-1]


def test_models_are_told_apart_by_their_settings_only_where_they_share_a_name():
    def run(**changes: Any) -> dict[str, Any]:
        return make_record(kind="generate_until", values={"cider": 0.4}, **changes)

    (table,) = board(
        run(model="llava", generation_kwargs={"num_beams": 5}),
        run(model="llava"),
        run(model="blip", generation_kwargs={"num_beams": 5}),
    ).tables
    assert {row.name for row in table.rows} == {"llava (num_beams=5)", "llava", "blip"}


def test_runs_of_the_same_captions_fill_one_row_and_others_do_not():
    def run(metric: str, date: float, data: str) -> dict[str, Any]:
        return make_record(kind="generate_until", values={metric: 0.4}, model="llava", date=date, data=data)

    (table,) = (leaderboard := board(run("cider", 1.0, "x"), run("meteor", 2.0, "x"), run("bleu_1", 0.5, "y"))).tables
    assert values(table) == {("llava", ""): [0.4, 0.4]}
    assert {column.key for column in table.columns} == {"cider", "meteor"}
    assert marks_of(leaderboard)["run-2"][-1].startswith("superseded by")


DOCUMENTS, PART, OTHER_PART = "d" * 64, "a" * 64, "b" * 64
FAILED = {"stage": "model", "reason": "HTTP 500", "count": 2, "samples": ["x"]}


def captioned(model: str, value: float, part: str = "", **changes: Any) -> dict[str, Any]:
    """Return a run of a captioner over 100 documents, or over 40 of them."""
    subset = {"documents": 40, "of": 100, "hash": part} if part else None
    usual = {"documents_hash": DOCUMENTS, "subset": subset, "effective": 40 if part else 100, "data": model}
    return make_record(kind="generate_until", values={"cider": value}, model=model, **{**usual, **changes})


def test_incomplete_runs_and_those_over_other_documents_have_no_rank():
    ranks = standing(
        captioned("one", 0.3),
        captioned("part", 0.9, PART),
        captioned("same part", 0.8, PART),
        captioned("elsewhere", 0.95, documents_hash="e" * 64, date=1.0),
        captioned("broken", 0.99, failures=[FAILED]),
    )
    others = dict.fromkeys(("part", "same part", "elsewhere"), (None, OTHER))
    assert ranks == {"one": (1, ()), "broken": (None, ()), **others}


def test_runs_of_one_part_are_ranked_among_themselves_where_none_is_of_all():
    ranks = standing(
        captioned("part", 0.7, PART), captioned("same part", 0.8, PART), captioned("other", 0.9, OTHER_PART)
    )
    assert [ranks[name][0] for name in ("part", "same part", "other")] == [2, 1, None]


def test_metric_of_captions_by_two_encoders_is_two_columns():
    record = {"kind": "generate_until", "values": {"clip_s": 0.4}, "model": "llava"}
    (table,) = board(*(make_record(**record, encoder=name) for name in ("one", "two"))).tables
    columns = {column.key: column.label for column in table.columns}
    assert columns == {"clip_s [one]": "CLIP-S (one)", "clip_s [two]": "CLIP-S (two)"}
    assert len(table.rows) == 1


def _captioners(root: Path, *shifts: float, aggregation: str = "mean", metric: str = "cider") -> list[BoardRun]:
    generator = np.random.default_rng(0)
    ids = [f"d{n}" for n in range(200)]
    scores = generator.random(200)
    runs = []
    for number, shift in enumerate(shifts):
        record = make_record(
            kind="generate_until",
            values={metric: float(scores.mean() + shift)},
            model=f"m{number}",
            metrics={metric: {"metric": metric.title(), "aggregation": aggregation}},
        )
        noise = generator.normal(0, 0.01, 200)
        order = generator.permutation(200)
        samples = {"id": [ids[n] for n in order], metric: (scores + shift + noise)[order]}
        runs.append(BoardRun(f"m{number}", write_record(root, f"m{number}", record, samples), Record(record)))
    return runs


def _letters(runs: list[BoardRun]) -> tuple[dict[str, str], tuple[str, ...]]:
    (table,) = board_of(runs, [], INDEX).tables
    return groups(table, "cider"), table.notes


def test_ranks_that_tests_leave_open_stand_beside_the_letters_in_every_form(tmp_path: Path):
    board = board_of(_captioners(tmp_path, 0.2, 0.0, 0.0005), [], INDEX)
    (table,) = board.tables
    ranks = {row.name: cell(table, row.name, "cider").rank_range for row in table.rows}
    assert ranks == {"m0": (1, 1), "m1": (2, 3), "m2": (2, 3)}
    assert b"; rank 2\xe2\x80\x933</sub>" in readme(board)["README.md"]
    assert csv_file(board)["leaderboard.csv"].decode().count("2–3") == 2
    cells = [row["cells"][0] for row in json.loads(json_file(board))["tables"][0]["rows"]]
    assert [tuple(cell["rank_range"]) for cell in cells] == [(1, 1), (2, 3), (2, 3)]
    assert b"rank 2\xe2\x80\x933</small>" in dict(pages(board))["index.html"]


def test_letters_tell_lengths_apart_that_have_no_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = _captioners(tmp_path, 0.0, 0.2, 0.0005, metric="length")
    (table,) = board_of(runs, [], INDEX).tables
    cells = {row.name: cell(table, row.name, "length") for row in table.rows}
    assert {name: cell.group for name, cell in cells.items()} == {"m1": "a", "m0": "b", "m2": "b"}
    assert {(cell.rank, cell.rank_range) for cell in cells.values()} == {(None, None)}
    monkeypatch.setattr("capbench.benchmarks.leaderboard.measured.LONGEST_LABEL", 0)
    (table,) = board_of(runs, [], INDEX).tables
    assert (cell(table, "m1", "length").group, table.notes) == ("", ())


def test_column_whose_letters_nobody_could_read_has_ranks_and_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("capbench.benchmarks.leaderboard.measured.LONGEST_LABEL", 1)
    runs = _captioners(tmp_path, 0.2, 0.0, 0.0005)
    assert _letters(runs)[0] == {"m0": "a", "m1": "b", "m2": "b"}
    monkeypatch.setattr("capbench.benchmarks.leaderboard.measured.LONGEST_LABEL", 0)
    letters, notes = _letters(runs)
    assert set(letters.values()) == {""} and notes[0].startswith("CIDEr: no letters")
    (table,) = board_of(runs, [], INDEX).tables
    assert cell(table, "m1", "cider").rank_range == (2, 3)


def test_captioners_without_samples_or_with_values_of_a_corpus_have_no_groups_and_a_note(tmp_path: Path):
    runs = _captioners(tmp_path / "a", 0.2, 0.0)
    (runs[0].folder / "samples.parquet").write_bytes(b"PAR1 broken")
    assert _letters(runs) == ({"m0": "", "m1": ""}, ("CIDEr: no groups, as samples of a run are missing.",))
    letters, notes = _letters(_captioners(tmp_path / "b", 0.2, 0.0, aggregation="corpus"))
    assert set(letters.values()) == {""} and "corpus-level values" in notes[0]


def test_metric_that_was_not_computed_alike_has_no_groups(tmp_path: Path):
    runs = _captioners(tmp_path, 0.2, 0.0)
    made_by: Any = runs[1].record.made_by
    made_by["cider"]["revision"] = 2
    assert "settings of the metric differ" in _letters(runs)[1][0]


def test_ranks_are_compared_over_tasks_that_share_three_rows():
    leaderboard = board(
        judged(task="one")(cider=0.4, meteor=0.3, bleu_1=0.2, spice=0.9),
        judged(task="two")(cider=0.1, meteor=0.3, bleu_1=0.2),
        judged(task="three")(cider=0.1, length=0.3),
    )
    (ranks,) = leaderboard.ranks
    assert ranks.subject == "metric"
    assert ranks.tasks == (("one", "τ-b"), ("two", "τ-b"))
    assert ranks.ranks == {"METEOR": (2, 1), "CIDEr": (1, 3), "BLEU-1": (3, 2)}
    assert ranks.tau == {(0, 1): pytest.approx(-1 / 3)}


def test_suite_is_filled_from_runs_of_the_installed_version():
    values = {"cider.kendall_b": 0.436, "cider.kendall_c": 0.44, "clip_s.kendall_c": 0.5}
    model = "openai-clip-vit-b-32"
    leaderboard = board(make_record("flickr8k_expert", values=values, model=model, encoder=model))
    table = next(suite for suite in leaderboard.suites if suite.suite == "pacspp_table1")
    rows = dict(table.rows)
    place = table.heads.index("Flickr8k-Expert τ-c")
    cider = rows["CIDEr"][place]
    assert (cider.measured, cider.printed, cider.difference, cider.run) == ("44.00", "43.9", "+0.10", "run-0")
    spice = rows["SPICE"][place]
    assert spice is not None and (spice.measured, spice.printed, spice.reason) == ("", "44.9", "not run")
    assert table.measured == 3
    assert board(make_record("flickr8k_expert", values=values, limit=5)).suites == ()
    assert board(make_record("flickr8k_expert", values=values, version=0.9)).suites == ()


def test_suite_row_that_decodes_otherwise_takes_no_other_run():
    def run(**kwargs: Any) -> Board:
        values = {"capture": 0.5}
        return board(make_record("detailcaps", "generate_until", values, model="llava-1.5", generation_kwargs=kwargs))

    assert [suite.suite for suite in run().suites] == [f"detailcaps_table{table}" for table in (4, 5, 6)]
    assert run(num_beams=5).suites == ()


def test_suite_row_takes_recorded_captions_that_are_called_as_it():
    def measured(name: str, adapter: str) -> list[str]:
        record = make_record("coco_caption_5ref", "generate_until", {"cider": 1.46}, model=name)
        record["config"]["model"] = adapter
        tables = [dict(table.rows)["BLIP-2"] for table in board(record).suites if table.suite == "pacspp_table6"]
        return [cell.measured for cells in tables for cell in cells if cell is not None and cell.measured]

    # The row's own model decodes with five beams, which captions of a file do not say.
    assert measured("BLIP-2", "captions") == ["146.00"]
    assert measured("BLIP-2", "hf") == measured("mine", "captions") == []


def test_suite_row_takes_runs_of_its_judge_alone():
    def measured(judge: str) -> str:
        values = {"fleur.kendall_c": 0.5, "bleu_4.kendall_c": 0.3}
        record = make_record("flickr8k_expert", values=values)
        record["config"]["judge"] = judge
        table = next(suite for suite in board(record).suites if suite.suite == "pacspp_table5")
        cell = dict(table.rows)["FLEUR (LLaVA v1.5-13B)"][table.heads.index("Flickr8k-Expert τ-c")]
        assert cell is not None and cell.printed == "53.0"
        return cell.measured

    assert measured("llava-1.5-13b-judge") == "50.00"
    assert measured("another") == ""


def test_board_does_not_depend_on_the_order_of_runs(tmp_path: Path):
    write_many(tmp_path / "runs", 30, documents=10)
    runs, left_out = collect(tmp_path / "runs", INDEX)
    assert left_out == [] and len(runs) == 30
    first = board_of(runs, left_out, INDEX)
    assert board_of([*runs[1::2], *runs[-2::-2]], left_out, INDEX) == first
    assert {table.subject for table in first.tables} == {"metric", "model"}


# -- what moves between two leaderboards


def as_json(*records: dict[str, Any], left_out: tuple[OmittedRun, ...] = ()) -> dict[str, Any]:
    runs = [BoardRun(f"run-{number}", Path("nowhere"), Record(record)) for number, record in enumerate(records)]
    return json.loads(json_file(board_of(runs, left_out, TaskIndex())))


def test_moved_values_have_their_difference_and_change_of_rank():
    text = comment(as_json(judged()(cider=0.4, meteor=0.3)), as_json(judged()(cider=0.2, meteor=0.3)))
    assert "| CIDEr | τ-b | 40.00 | 20.00 | -20.00 | 1 → 2 |" in text
    assert "| METEOR | τ-b | 30.00 | 30.00 |  | 2 → 1 |" in text


def test_difference_below_what_tables_print_is_shown():
    text = comment(as_json(judged()(cider=0.4)), as_json(judged()(cider=0.40001)))
    assert "| CIDEr | τ-b | 40.00 | 40.00 | +1.0e-03 |  |" in text


def test_new_and_removed_rows_and_tables_are_listed():
    base = as_json(judged()(cider=0.4, meteor=0.3))
    head = as_json(judged()(cider=0.4, bleu_1=0.3), make_record("second", values={"cider.kendall_b": 0.5}))
    text = comment(base, head)
    assert "| METEOR | τ-b | 30.00 | – |  | 2 → – |" in text
    assert "| BLEU-1 | τ-b | – | 30.00 |  | – → 2 |" in text
    assert "| CIDEr | τ-b | – | 50.00 |  | – → 1 |" in text[text.index("**second** (version 1.0)") :]


def test_runs_that_are_left_out_since_are_listed_and_escaped():
    left_out = OmittedRun("a|b", "was edited by <b>hand</b>")
    text = comment(as_json(), as_json(left_out=(left_out,)))
    assert r"- a\|b: was edited by &lt;b&gt;hand&lt;/b&gt;" in text


@pytest.fixture
def leaderboard_folder(tmp_path: Path) -> Path:
    """Return a folder in a git repository, in which a leaderboard is committed."""
    root = tmp_path / "repository"
    root.mkdir()

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "empty")
    git("tag", "start")
    folder = root / "results/leaderboard"
    folder.mkdir(parents=True)
    (folder / "leaderboard.json").write_text(json.dumps(as_json(judged()(cider=0.4))))
    git("add", ".")
    git("commit", "-q", "-m", "leaderboard")
    return folder


def test_leaderboard_of_a_revision_is_read_from_git(leaderboard_folder: Path):
    (leaderboard_folder / "leaderboard.json").write_text(json.dumps(as_json(judged()(cider=0.5))))
    base, note = read_leaderboard("main", leaderboard_folder)
    head, _ = read_leaderboard(str(leaderboard_folder), leaderboard_folder)
    assert note == "" and "| CIDEr | τ-b | 40.00 | 50.00 | +10.00 |  |" in comment(base, head)


def test_revision_without_a_leaderboard_is_an_empty_one_and_says_so(leaderboard_folder: Path):
    base, note = read_leaderboard("start", leaderboard_folder)
    head, _ = read_leaderboard(str(leaderboard_folder / "leaderboard.json"), leaderboard_folder)
    text = comment(base, head, note)
    assert "start has no leaderboard" in text and "| CIDEr | τ-b | – | 40.00 |" in text


@pytest.mark.parametrize("name", ["nosuch", "--help", "--output=x", ""])
def test_what_is_no_revision_and_no_file_is_refused(leaderboard_folder: Path, name: str):
    with pytest.raises(UsageError, match="nor a git revision"):
        read_leaderboard(name, leaderboard_folder)


@pytest.mark.parametrize("text", [
    "", "{}", "[]", '{"schema_version": 1, "tables": [3], "left_out": []}',
    '{"schema_version": 2, "tables": [], "left_out": []}',
])  # fmt: skip
def test_damaged_leaderboard_is_named(tmp_path: Path, text: str):
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(DataError, match=r"leaderboard\.json: is not a readable leaderboard"):
        read_leaderboard(str(tmp_path), tmp_path)
