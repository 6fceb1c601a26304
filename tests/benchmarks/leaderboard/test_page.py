"""The leaderboard's pages as files: size, text that stays text, what may be passed on, colours."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from synthetic_board import HOSTILE, METRICS, PICTURE, make_board

from capbench.benchmarks.leaderboard.board import (
    TOP_ROWS,
    Board,
    BoardRun,
    Cell,
    Column,
    Printed,
    RankTable,
    Row,
    TaskTable,
)
from capbench.benchmarks.leaderboard.formats.markdown import readme
from capbench.benchmarks.leaderboard.html.markup import number, run_pages
from capbench.benchmarks.leaderboard.html.ranks import rank_section
from capbench.benchmarks.leaderboard.html.samples import ends_of_run
from capbench.benchmarks.leaderboard.html.task_tables import Span, task_section
from capbench.benchmarks.leaderboard.page import pages as pages_one_by_one
from capbench.benchmarks.records.record import Record

MEGABYTES_OF_A_THOUSAND_RUNS = 5


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return make_board(tmp_path_factory.mktemp("runs"))


def pages(board: Board) -> dict[str, bytes]:
    return dict(pages_one_by_one(board))


def with_record(run: BoardRun, **changes: Any) -> BoardRun:
    return replace(run, record=Record({**run.record.values, **changes}))


def test_the_same_board_gives_the_same_bytes(board: Board) -> None:
    made = pages(board)
    assert made == pages(board)
    assert sorted(made) == sorted(["index.html", *run_pages(board.runs).values()])


def test_a_thousand_runs_fit_the_first_page(tmp_path: Path) -> None:
    large = make_board(tmp_path, tasks=21, models=50)
    assert len(large.runs) == 1001
    assert len(pages(large)["index.html"]) < MEGABYTES_OF_A_THOUSAND_RUNS * 2**20


def test_large_leaderboard_shows_the_top_of_each_table_first_and_all_of_it_on_a_page_a_task(
    tmp_path: Path,
) -> None:
    large = make_board(tmp_path, tasks=11, models=130)
    made = pages(large)
    index, tasks = made["index.html"].decode(), [path for path in made if path.startswith("tasks/")]
    assert len(tasks) == len(large.tables) == 11
    assert index.count('<tr><th scope="row" data-s=') == 10 * TOP_ROWS + len(large.tables[0].rows) - 1
    address = "tasks/captions_03-1-0.html"
    assert f'<a href="{address}">All 130 rows, of which these are the first 10, and their runs</a>' in index
    page = made[address].decode()
    runs = [run for run in large.runs if run.record.task == "captions_03"]
    assert all(page.count(f'href="../{path}"') == 2 for path in run_pages(runs).values())
    assert page.count("<tr") == 130 + 1 + 130 + 1
    assert (
        f"{len(large.runs):,} runs: each task" in index
        and "runs/captions_03" not in index.split('id="runs"')[1]
    )
    assert len(index) < 2**20 > len(page)
    text = readme(large)["README.md"].decode()
    assert text.count("The first 10 of 130 rows; leaderboard.csv holds all.") == 10
    assert len(text) < 2**17 and "captions_03/model-07" not in text


def test_an_empty_leaderboard_has_a_page() -> None:
    made = pages(Board((), (), (), (), ()))
    assert list(made) == ["index.html"]
    assert b"No run is shown yet" in made["index.html"]


def test_no_page_holds_text_of_a_run_as_markup(board: Board) -> None:
    for content in pages(board).values():
        page = content.decode()
        assert not [text for text in HOSTILE if text.rstrip("\u2028") in page]
        assert "<img src=x" not in page
        # The page's own scripts and style, and no other.
        assert page.count("<script") == page.count("</script>") <= 2
        assert page.count("<style") == page.count("</style>") == 1


def test_no_page_fetches_anything_or_styles_by_attribute(board: Board) -> None:
    for content in pages(board).values():
        page = content.decode()
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
        assert policy is not None
        assert "unsafe" not in policy[1]
        assert "default-src 'none'" in policy[1]
        assert not re.search(r'<[a-z][^>]*\s(?:style|on[a-z]+)="', re.sub(r"&[a-z#0-9]+;", "", page))
        assert not re.search(r"https?://|url\(|@import", page)


def test_half_a_surrogate_pair_costs_no_page(board: Board) -> None:
    run = with_record(board.runs[1], model_name="model \ud83d")
    made = pages(replace(board, runs=(run,)))
    assert all("model ?" in content.decode() for content in made.values())


def test_pages_of_runs_have_names_that_every_file_system_keeps_apart() -> None:
    keys = [
        "a/b/c",
        "a/B/c",
        "a--b/c",
        "a/b c",
        "a/b\u00e9c",
        "../../up",
        ".hidden",
        "x" * 300,
        "x" * 301,
        "\ud83d",
    ]
    runs = [BoardRun(key, Path(), Record({})) for key in keys]
    names = list(run_pages(runs).values())
    assert names[0] == "runs/a--b--c.html"
    assert len({name.lower() for name in names}) == len(keys)
    assert all(re.fullmatch(r"runs/[A-Za-z0-9_][A-Za-z0-9._-]{0,170}\.html", name) for name in names)


def test_numbers_have_a_true_minus_and_no_minus_zero() -> None:
    assert number(-0.004, 2, sign=True) == "+0.00"
    assert number(-0.004, 2) == "0.00"
    assert number(-1.006, 2) == "−1.01"
    assert number(0.25, 1, sign=True) == "+0.2"


def a_table(*cells: Cell | None) -> TaskTable:
    column = Column("kendall_c", "τ-c", 100.0, 2, True)
    rows = tuple(Row(f"row {place}", "", "measured", "", (cell,)) for place, cell in enumerate(cells))
    return TaskTable("task", "Task", "1.0", "", "metric", (column,), rows)


def test_a_cell_shows_value_interval_letters_and_the_printed_value() -> None:
    cell = Cell(0.4389, 0.4176, 0.459, 16992, Printed(0.439, "43.9", "PAC-S++", 1), "ab", 1)
    page = task_section(a_table(cell), {})
    for shown in ("<strong>43.89</strong><sup>ab</sup>", "[41.76, 45.90]", "<b>43.9</b> (−0.01)", "16,992"):
        assert shown in page
    assert "PAC-S++, Table 1" in page


def test_second_ranks_are_underlined_and_empty_cells_lead_to_their_reason() -> None:
    page = task_section(a_table(Cell(0.4, rank=2), Cell(None, reason="SPICE needs CoreNLP"), None), {})
    assert "<u>40.00</u>" in page
    note = re.search(r'href="#(task-task-1-0-n1)"', page)
    assert note is not None
    assert f'<li id="{note[1]}">SPICE needs CoreNLP</li>' in page


def test_bars_of_a_column_share_one_range() -> None:
    page = task_section(a_table(Cell(0.1), Cell(0.3), Cell(0.2, 0.05, 0.35)), {})
    assert re.findall(r'cx="([\d.]+)"', page) == ["18.7", "81.3", "50"]
    assert "bars 5.00 to 35.00" in page
    assert Span(0.2, 0.2).at(0.2) == "50"


def test_the_ends_of_the_samples_are_the_highest_and_lowest_scores(board: Board) -> None:
    import pyarrow.parquet

    run = board.runs[0]
    table = pyarrow.parquet.read_table(run.folder / "samples.parquet")
    scored = [
        pair
        for pair in zip(table["cider"].to_pylist(), table["id"].to_pylist(), strict=True)
        if pair[0] is not None
    ]
    ends = ends_of_run(run)
    assert list(ends) == list(METRICS)
    assert [(one.score, one.id) for one in ends["cider"].lowest] == sorted(scored)[:5]
    assert [(one.score, one.id) for one in ends["cider"].highest] == sorted(scored, reverse=True)[:5]
    captions = dict(zip(table["id"].to_pylist(), table["candidate"].to_pylist(), strict=True))
    assert [one.captions["candidate"] for one in ends["cider"].highest] == [
        [captions[one.id]] for one in ends["cider"].highest
    ]


@pytest.mark.parametrize(
    "changes", [{"redistribution": "scores"}, {"samples": "scores"}, {"samples": "none"}, {"samples": None}]
)
def test_captions_and_pictures_that_may_not_be_passed_on_are_not(
    board: Board, changes: dict[str, Any]
) -> None:
    run = with_record(board.runs[0], **changes)
    page = pages(replace(board, runs=(run,)))[next(iter(run_pages([run]).values()))].decode()
    assert "<code>sample " in page
    samples = page.split('id="samples"')[1]
    assert " caption " not in samples
    assert "reference" not in samples.split('id="failures"')[0]
    assert "data:image" not in samples


def pictured(run: BoardRun, name: str) -> bool:
    """Return whether a picture of that name is shown for any sample."""
    pictures = {f"sample {place}": name for place in range(100)}
    ends = ends_of_run(with_record(run, pictures=pictures))
    return any(one.picture for end in ends.values() for one in (*end.highest, *end.lowest))


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
    for name in (
        f"{up}/../secret.jpg",
        str(tmp_path / "secret.jpg"),
        "pictures/link.jpg",
        "pictures/text.jpg",
        "pictures/large.jpg",
        "pictures/0.svg",
        "pictures/none.jpg",
        "pictures/\0.jpg",
    ):
        assert not pictured(run, name), name


def test_name_that_turns_its_text_around_is_shown_as_it_is_written(board: Board) -> None:
    run = with_record(board.runs[0], model_name="safe\u202egpj.exe")
    shown = pages(replace(board, runs=(run, *board.runs[1:])))
    assert not any("\u202e" in page.decode() for page in shown.values())
    assert "safe[U+202E]gpj.exe" in shown[run_pages([run])[run.key]].decode()


@pytest.mark.parametrize(("name", "changed"), [(PICTURE, False), ("samples.parquet", False), (PICTURE, True)])
def test_samples_and_pictures_that_were_changed_are_not_shown(
    tmp_path: Path, name: str, changed: bool
) -> None:
    run = make_board(tmp_path / "runs").runs[0]
    sums = {
        one: hashlib.sha256((run.folder / one).read_bytes()).hexdigest()
        for one in (PICTURE, "samples.parquet")
    }
    sealed = with_record(run, files=sums | ({name: "0" * 64} if changed else {}))
    assert pictured(sealed, PICTURE) is not changed
    if not changed:
        (run.folder / name).write_bytes((run.folder / name).read_bytes() + bytes(1))
        assert not pictured(sealed, PICTURE)


@pytest.mark.parametrize("content", [b"", b"PAR1 but not a parquet file"])
def test_samples_that_cannot_be_read_cost_only_their_section(tmp_path: Path, content: bytes) -> None:
    made = make_board(tmp_path)
    (made.runs[0].folder / "samples.parquet").write_bytes(content)
    page = pages(made)[run_pages(made.runs)[made.runs[0].key]].decode()
    assert 'id="samples"' not in page
    assert 'id="results"' in page


@pytest.mark.parametrize(
    "broken",
    [
        {"edges": [0, 1], "counts": []},
        {"edges": [1, 0], "counts": [1]},
        {"edges": [0, 1], "counts": ["<b>"]},
        {"edges": [0, 1], "counts": [-1]},
        {"edges": [0, 1e999], "counts": [1]},
        {"edges": [0, 1], "counts": [1], "by_rating": {"ratings": [1, 2], "counts": [[1]]}},
        "none",
        None,
    ],
)
def test_a_histogram_of_another_shape_is_left_out_and_costs_no_other(broken: Any) -> None:
    good = {"edges": [0, 0.5, 1], "counts": [2, 1]}
    assert list(Record({"histograms": {"broken": broken, "good": good}}).histograms) == ["good"]


def test_charts_have_circles_by_count_and_a_table_that_says_the_same(board: Board) -> None:
    one = {
        "edges": [0, 0.5, 1],
        "counts": [5, 5],
        "by_rating": {"ratings": [1, 2], "counts": [[4, 1], [1, 4]]},
    }
    run = with_record(board.runs[0], histograms={"cider": one})
    index = pages(replace(board, runs=(run, *board.runs[1:])))["index.html"].decode()
    radii = [
        float(radius)
        for radius in re.findall(
            r'<circle cx="[\d.]+" cy="[\d.]+" r="([\d.]+)"/>', index.split('class="dot"')[1]
        )
    ][:4]
    assert radii[0] == pytest.approx(2 * radii[1], rel=0.02)
    assert radii == [radii[0], radii[1], radii[1], radii[0]]
    assert '<th scope="row">1</th><td class="number">5</td><td class="number">0.35</td>' in index


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_controls_stand_out_from_what_is_behind_them(theme: int) -> None:
    style = (files("capbench.benchmarks.tables.pages") / "style.css").read_text(encoding="utf-8")
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", style)
    colours = {name: both[theme] for name, *both in found}
    # Every colour is a variable, so that none escapes this test.
    assert re.findall(r"#[0-9a-f]{3,8}\b", re.sub(r"--[\w-]+: light-dark\([^)]*\)", "", style)) == []
    texts = [(ink, paper) for ink in ("ink", "muted", "accent", "paper") for paper in ("page", "panel")]
    texts += [("warn-ink", "warn")]
    texts += [("ink", name) for name in colours if name.startswith("heat-") or name == "cold"]
    assert [
        (pair, contrast(*(colours[one] for one in pair)))
        for pair in texts
        if contrast(*(colours[one] for one in pair)) < 4.5
    ] == []
    # Borders of controls, focus rings and drawn marks (WCAG 1.4.11).
    shapes = [("control", "page"), ("accent", "page"), ("paper", "page"), ("paper", "panel")]
    assert [pair for pair in shapes if contrast(*(colours[one] for one in pair)) < 3] == []


def test_ranks_are_drawn_and_tabled_with_tau_between_tasks() -> None:
    ranks = {"b": (2, 1, 1), "a": (1, 2, None), "c": (3, 3, 2)}
    tau = {(0, 1): 0.333, (1, 2): -1.0, (0, 2): None}
    table = RankTable("metric", (("One", "τ-c"), ("Two", "τ-c"), ("Three", "accuracy")), ranks, tau)
    page = rank_section(table)
    rows = re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', page)
    assert rows[:3] == [
        ("b", '<td class="h1">2</td><td class="h0">1</td><td class="h0">1</td>'),
        ("a", '<td class="h0">1</td><td class="h1">2</td><td class="empty">–</td>'),
        ("c", '<td class="h3">3</td><td class="h3">3</td><td class="h1">2</td>'),
    ]
    assert [name for name, _ in rows[3:]] == ["One", "Two", "Three"]
    assert rows[4][1] == '<td class="h3">0.33</td><td class="empty">·</td><td class="cold">−1.00</td>'
    assert re.findall(r'class="rank"[^>]*>(\d)<', page) == ["1", "2", "2", "1", "1", "3", "3", "2"]
    many = {f"metric {place}": (place + 1, place + 1) for place in range(40)}
    assert "<svg" not in rank_section(RankTable("metric", table.tasks[:2], many, {(0, 1): 1.0}))
