"""The leaderboard's pages as files: size, text that stays text, what may be passed on, colours."""

import csv
import hashlib
import html
import io
import json
import re
from dataclasses import replace
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from finished_runs import make_record
from synthetic_board import HOSTILE, METRICS, PICTURE, label, make_board

from capbench.benchmarks.leaderboard.board import (
    TOP_ROWS,
    Board,
    BoardRow,
    BoardRun,
    Cell,
    Column,
    OmittedRun,
    PrintedValue,
    RankTable,
    TaskTable,
)
from capbench.benchmarks.leaderboard.build import board_of
from capbench.benchmarks.leaderboard.build import pages as pages_one_by_one
from capbench.benchmarks.leaderboard.formats import csv_file, json_file, latex_files, readme
from capbench.benchmarks.leaderboard.html.index import FIRST_ROWS
from capbench.benchmarks.leaderboard.html.rendering import assets, run_pages
from capbench.benchmarks.leaderboard.html.run import ends_of_run
from capbench.benchmarks.published.values import load
from capbench.benchmarks.records.histograms import CountsByRating, Histogram
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.tables.pages.charts import bubbles, score_histogram
from capbench.tasks.index import build_index


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return make_board(tmp_path_factory.mktemp("runs"))


def pages(board: Board) -> dict[str, bytes]:
    return dict(pages_one_by_one(board))


def but_for_runs(board: Board) -> dict[str, bytes]:
    """Return the pages but for those of runs, which come last and, of a thousand runs, take seconds."""
    return dict(takewhile(lambda page: not page[0].startswith("runs/"), pages_one_by_one(board)))


def first_page(tables: tuple[TaskTable, ...] = (), ranks: tuple[RankTable, ...] = ()) -> str:
    return pages(Board(tables, (), ranks, (), ()))["index.html"].decode()


def with_record(run: BoardRun, **changes: Any) -> BoardRun:
    return replace(run, record=Record({**run.record.values, **changes}))


def page_of(run: BoardRun, board: Board) -> str:
    return pages(replace(board, runs=(run, *board.runs[1:])))[run_pages([run])[run.key]].decode()


def test_large_leaderboard_shows_the_top_of_each_table_first_and_all_of_it_on_a_page_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = make_board(tmp_path, tasks=4, models=30)
    # A thousand runs fit one page of 5 MB.
    assert len(but_for_runs(large)["index.html"]) < 5_000 * len(large.runs) + 100_000
    monkeypatch.setattr("capbench.benchmarks.leaderboard.board.MOST_ROWS", 150)
    files = but_for_runs(large)
    index, tasks = files["index.html"].decode(), [path for path in files if path.startswith("tasks/")]
    assert len(tasks) == len(large.tables) == 4
    of_tasks = index.split('id="tasks"')[1]
    assert of_tasks.count('<tr><th scope="row" data-s=') == 3 * TOP_ROWS + len(large.tables[0].rows) - 1
    address = "tasks/captions_03-1-0.html"
    assert f'<a href="{address}">All 30 rows (first 10 shown) and their runs</a>' in index
    page = files[address].decode()
    runs = [run for run in large.runs if run.record.task == "captions_03"]
    assert all(page.count(f'href="../{path}"') == 2 for path in run_pages(runs).values())
    assert page.count("<tr") == 30 + 1 + 30 + 1
    assert f"{len(large.runs):,} runs: each task" in index and "runs/captions_03" not in index.split('id="runs"')[1]
    of_overview = index.split('id="tasks"')[0]
    assert of_overview.count('<tr><th scope="row" data-s=') == FIRST_ROWS
    assert '<a href="overview.html#overview-model">All 30 models (first 25 shown), and a choice' in of_overview
    whole = files["overview.html"].decode()
    assert whole.count('<tr><th scope="row" data-s=') == 30
    assert 'href="index.html#task-captions_03-1-0"' in whole and 'href="runs/captions_03--model-07' in whole
    text = readme(large)["README.md"].decode()
    assert text.count("The first 10 of 30 rows; leaderboard.csv has all.") == 3
    assert "captions_03/model-07" not in text


def test_no_page_holds_text_of_a_run_as_markup_fetches_anything_or_styles_by_attribute(board: Board) -> None:
    for name, content in pages(board).items():
        page, up = content.decode(), "../" * name.count("/")
        assert not [text for text in HOSTILE if text.rstrip("\u2028") in page]
        assert "<img src=x" not in page
        # The leaderboard's own scripts and style, and no other.
        loaded = re.findall(r'<(?:script src|link rel="stylesheet" href)="([^"]+)"', page.replace('"./', '"'))
        assert loaded == [f"{up}{asset}" for asset in assets()]
        assert page.count("<script") == page.count("</script>") == 3
        assert "<style" not in page
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
        assert "unsafe" not in policy[1]
        assert html.unescape(policy[1]).startswith("default-src 'none'; ")
        assert not re.search(r'<[a-z][^>]*\s(?:style|on[a-z]+)="', re.sub(r"&[a-z#0-9]+;", "", page))
        assert not re.search(r"https?://|url\(|@import", page)


@pytest.mark.parametrize(("name", "shown"), [("model \ud83d", "model ?"), ("a\u202egpj.exe", "a[U+202E]gpj.exe")])
def test_half_a_surrogate_pair_and_what_turns_a_text_around_cost_no_page(board: Board, name: str, shown: str) -> None:
    files = pages(replace(board, runs=(with_record(board.runs[1], model_name=name),)))
    del files["overview.html"]
    assert all(shown in content.decode() and "\u202e" not in content.decode() for content in files.values())


def test_pages_of_runs_have_names_that_every_file_system_keeps_apart() -> None:
    keys = ["a/b/c", "a/B/c", "a--b/c", "a/b c", "a/b\u00e9c", "../../up", ".hidden", "x" * 300, "x" * 301, "\ud83d"]
    runs = [BoardRun(key, Path(), Record(make_record())) for key in keys]
    names = list(run_pages(runs).values())
    assert names[0] == "runs/a--b--c.html"
    assert len({name.lower() for name in names}) == len(keys)
    assert all(re.fullmatch(r"runs/[A-Za-z0-9_][A-Za-z0-9._-]{0,170}\.html", name) for name in names)


def a_table(*cells: Cell | None) -> TaskTable:
    column = Column("kendall_c", "τ-c", 100.0, 2, True)
    rows = tuple(BoardRow(f"row {place}", "", "measured", "", (cell,)) for place, cell in enumerate(cells))
    return TaskTable("task", "Task", "1.0", "", "metric", (column,), rows)


def test_a_cell_shows_value_interval_letters_and_the_printed_value() -> None:
    cell = Cell(0.4389, 0.4176, 0.459, 16992, PrintedValue(0.439, "43.9", "PAC-S++", 1), "ab", 1)
    page = first_page((a_table(cell, None),))
    for shown in ("<strong>43.89</strong><sup>ab</sup>", "[41.76, 45.90]", "<b>43.9</b> (−0.01)", "16,992"):
        assert shown in page
    assert "PAC-S++, Table 1" in page


def test_the_ends_of_the_samples_are_the_highest_and_lowest_scores(board: Board) -> None:
    import pyarrow.parquet

    run = board.runs[0]
    table = pyarrow.parquet.read_table(run.folder / "samples.parquet")
    scored = [
        pair for pair in zip(table["cider"].to_pylist(), table["id"].to_pylist(), strict=True) if pair[0] is not None
    ]
    captions = dict(zip(table["id"].to_pylist(), table["candidate"].to_pylist(), strict=True))
    for end, samples in ends_of_run(run).items():
        best_first = sorted(scored, reverse=end == "Highest")
        by_cider = {(dict(sample.scores)["CIDEr"], sample.id) for sample in samples if "CIDEr" in dict(sample.scores)}
        assert by_cider == {(f"{score:.4f}", name) for score, name in best_first[:5]}
        assert {label for sample in samples for label, _ in sample.scores} == {label(metric) for metric in METRICS}
        assert [sample.captions["candidate"] for sample in samples] == [[captions[sample.id]] for sample in samples]


@pytest.mark.parametrize("changes", [{"redistribution": "scores"}, {"samples": "scores"}, {"samples": "none"}])
def test_captions_and_pictures_that_may_not_be_passed_on_are_not(board: Board, changes: dict[str, Any]) -> None:
    run = with_record(board.runs[0], **changes)
    page = page_of(run, board)
    assert "<code>sample " in page
    samples = page.split('id="samples"')[1]
    assert " caption " not in samples
    assert "reference" not in samples.split('id="failures"')[0]
    assert "data:image" not in samples


def pictured(run: BoardRun, name: str) -> bool:
    """Return whether a picture of that name is shown for any sample."""
    pictures = {f"sample {place}": name for place in range(100)}
    ends = ends_of_run(replace(run, record=run.record.model_copy(update={"pictures": pictures})))
    return any(sample.picture for samples in ends.values() for sample in samples)


def test_only_small_jpeg_files_inside_the_runs_folder_are_shown(tmp_path: Path) -> None:
    run = make_board(tmp_path / "runs").runs[0]
    folder = run.folder / "pictures"
    good = (run.folder / PICTURE).read_bytes()
    assert pictured(run, PICTURE)
    (tmp_path / "secret.jpg").write_bytes(good)
    (folder / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (folder / "text.jpg").write_text("root:x:0:0")
    (folder / "large.jpg").write_bytes(good[:-2] + bytes(200_000) + good[-2:])
    (folder / "0.svg").write_bytes(good)
    up = "/".join([".."] * len(run.key.split("/")))
    beside = [f"pictures/{name}" for name in ("link.jpg", "text.jpg", "large.jpg", "0.svg", "none.jpg", "\0.jpg")]
    for name in (f"{up}/../secret.jpg", str(tmp_path / "secret.jpg"), *beside):
        assert not pictured(run, name), name


@pytest.mark.parametrize(("name", "changed"), [(PICTURE, False), ("samples.parquet", False), (PICTURE, True)])
def test_samples_and_pictures_that_were_changed_are_not_shown(tmp_path: Path, name: str, changed: bool) -> None:
    run = make_board(tmp_path / "runs").runs[0]
    sums = {name: hashlib.sha256((run.folder / name).read_bytes()).hexdigest() for name in (PICTURE, "samples.parquet")}
    sealed = with_record(run, files=sums | ({name: "0" * 64} if changed else {}))
    assert pictured(sealed, PICTURE) is not changed
    if not changed:
        (run.folder / name).write_bytes((run.folder / name).read_bytes() + bytes(1))
        assert not pictured(sealed, PICTURE)


def test_results_of_a_run_stand_beside_letters_and_printed_values(board: Board) -> None:
    record = board.runs[0].record
    page = re.sub("</?span.*?>", "", page_of(board.runs[0], board)).split('id="results"')[1].split("</section>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in page.split("</tr>")[1:-1]]
    value = record.results["bleu_4.kendall_b"].value
    shown, paper = [f"{100 * number:.2f}" for number in (value, value - 0.02, value + 0.02)], load("pacspp").citation
    gap = f"{100 * (value - 0.4):+.2f}".replace("-", "−")
    assert rows[0] == [
        "BLEU-4", "τ-b", shown[0], f"[{shown[1]}, {shown[2]}]", "a", "40.0", gap,
        f"{paper}, Table 1", "16,992",
    ]  # fmt: skip
    tested = "τ-b: metrics with a letter in common are not significantly different"
    assert f"{tested} (p ≥ 0.05; 1,000 paired resamples, seed 1234, Holm)." in page
    results = {"ratings": {**record.values["results"]["ratings"], "bleu_4.kendall_b,none": None}}
    run = with_record(board.runs[0], results=results, significance={}, published={})
    page = re.sub("</?span.*?>", "", page_of(run, board)).split('id="results"')[1].split("</section>")[0]
    assert '<th scope="row">BLEU-4</th><td>τ-b</td><td class="number">–</td>' in page
    assert not any(name in page for name in ("Group", "Published", "letter in common"))


def test_drawings_have_columns_by_count_and_numbers_beside_their_axes() -> None:
    histogram = Histogram(
        edges=[0.0, 0.5, 1.0],
        counts=[2, 1],
        by_rating=CountsByRating(ratings=[1.0, 1.05, 3.0], counts=[[1, 0], [0, 0], [0, 2]]),
    )
    drawn = score_histogram("CIDEr", histogram, "score-1")
    assert (drawn["id"], drawn["columns"]) == ("score-1", "M62.5 192V12.0H196.5V192zM197.5 192V102.0H331.5V192z")
    assert [(tick.label, tick.x, tick.y) for tick in drawn["ticks"]] == [
        ("0", 62, 207), ("0.5", 197, 207), ("1", 332, 207), ("2", 56, 16),
    ]  # fmt: skip
    assert drawn["rows"] == [("0 to 0.5", "2"), ("0.5 to 1", "1")]
    for count, tick in ((12_345, "12k"), (1, "1")):
        assert score_histogram("CIDEr", Histogram(edges=[0.0, 1.0], counts=[count]), "")["ticks"][-1].label == tick
    over = bubbles("CIDEr", histogram, "rating")
    # Room for two numbers is not between 1 and 1.05; a rating that nobody gave has no mean.
    assert [tick.label for tick in over["ticks"]] == ["0", "0.5", "1", "1", "3"]
    assert [tick.y for tick in over["ticks"]] == [192, 106, 20, 207, 207]
    assert over["knots"] == [("95.8", "147.0"), ("298.2", "57.0")]
    assert bubbles("CIDEr", histogram.model_copy(update={"edges": [1.0, 2.0, 3.0]}), "rating")["knots"] == over["knots"]
    assert over["mean"] == "M" + "L".join(" ".join(knot) for knot in over["knots"])
    assert over["heads"] == ("Human rating", "0.25", "0.75")
    assert over["rows"] == [("1", "1", "0"), ("1.05", "0", "0"), ("3", "0", "2")]
    assert over["summary"].endswith("mean score about 0.25 at the lowest, 0.75 at the highest")


def test_table_of_one_row_is_a_line(board: Board) -> None:
    table = replace(a_table(Cell(0.4189, 0.40, 0.43, 100, PrintedValue(0.415, "41.5", "A", 1))), about="<b>")
    page = first_page((table, a_table(Cell(0.1), Cell(0.2)))).split('id="tasks"')[1].split('id="runs"')[0]
    assert page.count("<table") == 1
    line = page.split("<table")[0]
    assert (
        '<dt>τ-c</dt><dd>41.89 <small>[40.00, 43.00]</small> <small class="p"><b>41.5</b> (+0.39)</small></dd>' in line
    )
    assert "<dt>n</dt><dd>100</dd>" in line


def test_overview_shades_places_that_tests_tell_apart_and_nothing_that_has_no_rival() -> None:
    first = a_table(
        Cell(0.5, rank=1, group="a"), Cell(0.4, rank=2, group="ab"), Cell(0.3, rank=3, group="b"), Cell(0.2)
    )
    alone = replace(first, task="other", rows=(replace(first.rows[0], cells=(Cell(0.7, rank=1),)),))
    older = replace(alone, version="0.9", rows=(replace(first.rows[1], cells=(Cell(0.9, rank=1),)),))
    alike = replace(a_table(*(Cell(0.9 - n / 10, rank=n + 1, rank_range=(1, 6)) for n in range(6))), task="alike")
    six = replace(a_table(*(Cell(0.9 - n / 10, rank=n + 1) for n in range(6))), task="six")

    def shades(*tables: TaskTable) -> list[tuple[str, ...]]:
        page = first_page(tables).split("<tbody>")[1].split("</tbody>")[0]
        return [tuple(re.findall(r'<td class="(h\d|alone|unranked)"', row)) for row in page.split("</tr>")[:-1]]

    # Row 1 is not significantly different from the best, row 2 is; row 3 has no rank.
    assert shades(first, alone, older) == [("h0", "alone"), ("h0",), ("h1",), ("unranked",)]
    # Six that are not significantly different are told apart by nothing, six others by the first four places.
    assert shades(alike, six) == [("alone", shade) for shade in ("h0", "h1", "h2", "h3", "alone", "alone")]


def test_overview_is_in_the_order_of_mean_ranks_with_facts_of_aliases_and_a_checklist_is_one_column(board) -> None:
    cells = [(1, 3), (2, None), (3, 1), (None, 2)]
    tables = [
        replace(
            a_table(*(Cell(rank / 10, rank=rank) if rank else None for rank in ranks)), task=f"t{n}", subject="model"
        )
        for n, ranks in enumerate(zip(*cells, strict=True))
    ]
    rules = replace(tables[0].columns[0], key="rules"), replace(tables[0].columns[0], key="falls.object")
    checklist = replace(tables[1], columns=rules, rows=tuple(replace(r, cells=r.cells * 2) for r in tables[1].rows))
    runs = (with_record(board.runs[0], model_name="qwen2-vl-7b"),)
    named = [
        replace(table, rows=(replace(table.rows[0], run=runs[0].key), *table.rows[1:]))
        for table in (tables[0], checklist)
    ]
    page = pages(Board((named[0], replace(named[1], by_rule=True)), (), (), runs, ()))["overview.html"].decode()
    assert page.count('data-metric="τ-c"') == 2 + 1
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in page.split("<tbody>")[1].split("</tr>")[:-1]]
    assert [row[:3] for row in rows] == [
        ["row", "0", "2.0"], ["row", "2", "2.0"], ["row", "1", "2.0"], ["row", "3", "2.0"],
    ]  # fmt: skip
    assert rows[0][3:6] == ["7B", "Apache-2.0", "2024-08"] and rows[2][3:5] == ["of", "1"]


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    light, dark = sorted((luminance(colour), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_controls_stand_out_from_what_is_behind_them(theme: int) -> None:
    style = (files("capbench.benchmarks.tables.pages") / "style.css").read_text(encoding="utf-8")
    palette = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", style)
    colours = {name: both[theme] for name, *both in palette}
    # Every colour is a variable, so that none escapes this test.
    assert re.findall(r"#[0-9a-f]{3,8}\b", re.sub(r"--[\w-]+: light-dark\([^)]*\)", "", style)) == []
    texts = [(ink, paper) for ink in ("ink", "muted", "accent", "paper") for paper in ("page", "panel")]
    texts += [("warn-ink", "warn")]
    texts += [("ink", name) for name in colours if name.startswith("heat-") or name == "cold"]
    assert [
        (pair, contrast(*(colours[colour] for colour in pair)))
        for pair in texts
        if contrast(*(colours[colour] for colour in pair)) < 4.5
    ] == []
    # Borders of controls, focus rings and drawn marks (WCAG 1.4.11).
    shapes = [("control", "page"), ("accent", "page"), ("paper", "page"), ("paper", "panel")]
    assert [pair for pair in shapes if contrast(*(colours[colour] for colour in pair)) < 3] == []


def test_ranks_are_tabled_with_tau_between_tasks() -> None:
    ranks = {"b": (2, 1, 1), "a": (1, 2, None), "c": (3, 3, 2)}
    tau = {(0, 1): 0.333, (1, 2): -1.0, (0, 2): None}
    table = RankTable("metric", (("One", "τ-c"), ("Two", "τ-c"), ("Three", "accuracy")), ranks, tau)
    page = first_page(ranks=(table,)).split('id="ranks"')[1]
    rows = re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', page)
    assert rows[:3] == [
        ("b", '<td class="h1">2</td><td class="h0">1</td><td class="h0">1</td>'),
        ("a", '<td class="h0">1</td><td class="h1">2</td><td class="empty">–</td>'),
        ("c", '<td class="h3">3</td><td class="h3">3</td><td class="h1">2</td>'),
    ]
    assert [name for name, _ in rows[3:]] == ["One", "Two", "Three"]
    assert rows[4][1] == '<td class="h3">0.33</td><td class="empty">·</td><td class="cold">−1.00</td>'


# -- the other formats


NASTY = 'm|x `y` <script>alert(1)</script> 50% a_b #1 {$z$} \\input{x} ~^ τ 中 & "q" *s* [l](u)'


def board_of_records(
    *records: dict[str, Any], left_out: tuple[OmittedRun, ...] = (), marks: tuple[str, ...] = ()
) -> Board:
    runs = [BoardRun(f"run|{number}", Path("nowhere"), Record(record), marks) for number, record in enumerate(records)]
    return board_of(runs, left_out, build_index())


@pytest.fixture
def nasty() -> Board:
    """A leaderboard in which everything that a user names is full of markup."""
    captions = make_record(
        kind="generate_until", values={"cider": 0.4}, model=NASTY, alias=NASTY, description=f"{NASTY}\n\n# Head"
    )
    nasty = make_record("judged", values={"clip_s.kendall_b": 0.4, "cider.kendall_b": None}, model=NASTY, encoder=NASTY)
    return board_of_records(captions, nasty, left_out=(OmittedRun(NASTY, NASTY),), marks=(NASTY,))


@pytest.fixture
def expert() -> Board:
    """A table with groups, published values beside measured ones and published rows."""
    beside = {"value": 0.389, "printed": "38.9", "scale": 100, "paper": "pacspp", "table": 1}
    return board_of_records(
        make_record(
            "flickr8k_expert",
            values={"cider.kendall_c": 0.4, "bleu_1.kendall_c": 0.3, "meteor.kendall_c": 0.35},
            published={"paper": "pacspp", "table": 1, "task": "Flickr8k-Expert"},
            beside={"cider.kendall_c": beside},
            significance={
                "kendall_c": {
                    "alpha": 0.05,
                    "resamples": 100,
                    "seed": 1,
                    "groups": {"cider": "a", "meteor": "ab", "bleu_1": "b"},
                }
            },
            alias="Flickr8k-Expert",
        )
    )


def _page(board: Board) -> str:
    return readme(board)["README.md"].decode()


def _latex(board: Board) -> dict[str, str]:
    return {path: text.decode() for path, text in latex_files(board).items()}


def test_markdown_shows_value_interval_group_published_difference_and_n(expert: Board):
    lines = _page(expert).splitlines()
    head = lines.index("| # | Metric | τ-c | published | n |")
    assert lines[head + 2] == (
        "| 1 | CIDEr | **40.00** <sup>a</sup><br><sub>38.00 – 42.00</sub> | 38.9<br><sub>+1.10</sub> | 100 |"
    )
    assert lines[head + 3].startswith("| 2 | METEOR | 35.00 <sup>ab</sup>")
    assert "| SPICE | 44.9 |" in lines
    assert "Published: Sarto et al., PAC-S++, Table 1." in lines


def test_many_published_rows_are_folded_away():
    published = {"paper": "dci", "table": 10, "task": "sDCI", "metrics": {"SCM": "All SCM"}}
    page = _page(
        board_of_records(
            make_record("dci_full_all_scm", "matching", {"scm.accuracy": 0.4}, model="m", published=published)
        )
    )
    measured, folded = page.split("published rows</summary>")
    assert "RN50 yfcc15m" not in measured and "RN50 yfcc15m" in folded


def test_markdown_leaves_no_markup_of_names_alive(nasty: Board):
    page = _page(nasty)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert not re.search(r"(?<!\\)`y", page)
    assert not re.search(r"(?<!\\)\]\(u\)", page)
    assert not re.search(r"(?<!\\)\$z", page)
    assert "\n# Head" not in page


def _fault_of_latex(text: str) -> str:
    """Return what would stop LaTeX: braces, characters that mean something, cells of a line; else nothing."""
    depth = 0
    in_table, columns = False, 0
    for line in text.splitlines():
        line = re.sub(r"(?<!\\)%.*", "", line)
        if match := re.match(r"\\begin\{tabular\}\{(\w+)\}", line):
            in_table, columns = True, len(match[1])
            continue
        bare = re.sub(r"\\[a-zA-Z]+(\{\})?|\\[^a-zA-Z]", "", line)
        depth += bare.count("{") - bare.count("}")
        if depth < 0 or not line.isprintable():
            return f"unbalanced: {line}"
        if not in_table or line.startswith(("\\toprule", "\\midrule", "\\bottomrule", "\\end")):
            continue
        if len(re.findall(r"\$", bare)) % 2 or re.search(r"[#_^~]", bare):
            return f"special: {line}"
        if any(ord(char) > 255 for char in bare):
            return f"no letter: {line}"
        if not line.endswith(r" \\") or len(re.findall(r"(?<!\\)&", line)) != columns - 1:
            return f"cells: {line}"
    return "" if depth == 0 else "unbalanced"


def test_latex_is_balanced_whatever_names_hold(nasty: Board, expert: Board):
    files = {**_latex(nasty), **{f"expert {path}": text for path, text in _latex(expert).items()}}
    assert len(files) >= 4
    assert {path: _fault_of_latex(text) for path, text in files.items()} == dict.fromkeys(files, "")
    text = files["latex/tasty-1-0.tex"]
    assert r"50\% a\_b \#1 \{\$z\$\} \textbackslash{}input\{x\}" in text
    assert "[U+4E2D]" in text


def test_latex_files_of_tasks_with_like_names_are_told_apart():
    files = _latex(board_of_records(*(make_record(task) for task in ("a.b", "a-b", "A-B"))))
    assert len({path.casefold() for path in files}) == 3


def test_json_holds_the_whole_board_and_what_is_known_of_runs(nasty: Board):
    loaded = json.loads(json_file(nasty, ["README.md"]))
    assert loaded["schema_version"] == 1 and loaded["files"] == ["README.md"]
    assert {table["task"] for table in loaded["tables"]} == {"tasty", "judged"}
    assert loaded["tables"][0]["rows"][0]["cells"]
    (first, second) = loaded["runs"]
    assert set(first) == {"key", "task", "model", "fingerprint", "date", "marks"}
    assert (first["model"], second["marks"]) == (NASTY, [NASTY])
    assert loaded["left_out"] == [{"key": NASTY, "reason": NASTY}]


def test_csv_has_a_row_a_number_and_plain_values(expert: Board, nasty: Board):
    rows = list(csv.DictReader(io.StringIO(csv_file(expert)["leaderboard.csv"].decode())))
    first = rows[0]
    assert (first["name"], first["value"], first["rank"], first["printed"]) == ("CIDEr", "0.4", "1", "38.9")
    assert {row["kind"] for row in rows} == {"measured", "published"}
    named = list(csv.DictReader(io.StringIO(csv_file(nasty)["leaderboard.csv"].decode())))
    assert NASTY in {row["name"] for row in named} and NASTY in {row["model"] for row in named}
    empty = list(csv.reader(io.StringIO(csv_file(board_of_records())["leaderboard.csv"].decode())))
    assert empty == [list(first)]
