from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from finished_runs import make_record

from capbench.benchmarks.leaderboard.board import Board, BoardRun, OmittedRun
from capbench.benchmarks.leaderboard.build import board_of
from capbench.benchmarks.leaderboard.formats import csv_file, json_file, latex_files, readme
from capbench.benchmarks.records.record import Record
from capbench.tasks.index import build_index

NASTY = 'm|x `y` <script>alert(1)</script> 50% a_b #1 {$z$} \\input{x} ~^ τ 中 & "q" *s* [l](u)'


def board(*records: dict[str, Any], left_out: tuple[OmittedRun, ...] = (), marks: tuple[str, ...] = ()) -> Board:
    runs = [BoardRun(f"run|{number}", Path("nowhere"), Record(record), marks) for number, record in enumerate(records)]
    return board_of(runs, left_out, build_index())


@pytest.fixture
def nasty() -> Board:
    """A leaderboard in which everything that a user names is full of markup."""
    captions = make_record(
        kind="generate_until", values={"cider": 0.4}, model=NASTY, alias=NASTY, description=f"{NASTY}\n\n# Head"
    )
    judged = make_record(
        "judged", values={"clip_s.kendall_b": 0.4, "cider.kendall_b": None}, model=NASTY, encoder=NASTY
    )
    return board(captions, judged, left_out=(OmittedRun(NASTY, NASTY),), marks=(NASTY,))


@pytest.fixture
def expert() -> Board:
    """A table with groups, published values beside measured ones and published rows."""
    beside = {"value": 0.389, "printed": "38.9", "scale": 100, "paper": "pacspp", "table": 1}
    return board(
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


def _page(made: Board) -> str:
    return readme(made)["README.md"].decode()


def _latex(made: Board) -> dict[str, str]:
    return {path: text.decode() for path, text in latex_files(made).items()}


def test_markdown_shows_value_interval_group_published_difference_and_n(expert: Board):
    lines = _page(expert).splitlines()
    head = lines.index("| # | Metric | τ-c | published | n |")
    assert lines[head + 2] == (
        "| 1 | CIDEr | **40.00** <sup>a</sup><br><sub>38.00 – 42.00</sub> | 38.9<br><sub>+1.10</sub> | 100 |"
    )
    assert lines[head + 3].startswith("| 2 | METEOR | 35.00 <sup>ab</sup>")
    assert "| SPICE | 44.9 |" in lines
    assert "Published: Sarto et al., PAC-S++, Table 1." in lines


def test_markdown_of_no_runs_says_so():
    assert "There are no runs yet." in _page(board())


def test_many_published_rows_are_folded_away():
    published = {"paper": "dci", "table": 10, "task": "sDCI", "metrics": {"SCM": "All SCM"}}
    page = _page(
        board(make_record("dci_full_all_scm", "matching", {"scm.accuracy": 0.4}, model="m", published=published))
    )
    measured, folded = page.split("published rows</summary>")
    assert "RN50 yfcc15m" not in measured and "RN50 yfcc15m" in folded


def test_markdown_tables_hold_as_many_cells_as_columns_whatever_names_hold(nasty: Board):
    page = _page(nasty)
    tables = re.findall(r"(?:^\|.*\|$\n?)+", page, re.MULTILINE)
    assert len(tables) >= 4
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


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
        if found := re.match(r"\\begin\{tabular\}\{(\w+)\}", line):
            in_table, columns = True, len(found[1])
            continue
        bare = re.sub(r"\\[a-zA-Z]+(\{\})?|\\[^a-zA-Z]", "", line)
        depth += bare.count("{") - bare.count("}")
        if depth < 0 or not line.isprintable():
            return f"unbalanced: {line}"
        if not in_table or line.startswith(("\\toprule", "\\midrule", "\\bottomrule", "\\end")):
            continue
        if len(re.findall(r"\$", bare)) % 2 or re.search(r"[#_^~]", bare):
            return f"special: {line}"
        if any(ord(one) > 255 for one in bare):
            return f"no letter: {line}"
        if not line.endswith(r" \\") or len(re.findall(r"(?<!\\)&", line)) != columns - 1:
            return f"cells: {line}"
    return "" if depth == 0 else "unbalanced"


def test_latex_has_ranks_groups_and_published_values(expert: Board):
    text = _latex(expert)["latex/flickr8k_expert-1-0.tex"]
    assert r"CIDEr & \best{40.00}\textsuperscript{a} & 38.9 \\" in text
    assert r"METEOR & \second{35.00}\textsuperscript{ab} &  \\" in text
    assert r"SPICE &  & 44.9 \\" in text
    assert r"$\tau$-c" in text
    suite = _latex(expert)["latex/suite-pacspp_table1.tex"]
    assert "40.00 (43.9)" in suite


def test_latex_is_balanced_whatever_names_hold(nasty: Board, expert: Board):
    files = {**_latex(nasty), **{f"expert {path}": text for path, text in _latex(expert).items()}}
    assert len(files) >= 4
    assert {path: _fault_of_latex(text) for path, text in files.items()} == dict.fromkeys(files, "")
    text = files["latex/tasty-1-0.tex"]
    assert r"50\% a\_b \#1 \{\$z\$\} \textbackslash{}input\{x\}" in text
    assert "[U+4E2D]" in text


def test_latex_files_of_tasks_with_like_names_are_told_apart():
    files = _latex(board(*(make_record(task) for task in ("a.b", "a-b", "A-B"))))
    assert len({path.casefold() for path in files}) == 3


def test_few_published_rows_stand_below_the_measured_ones():
    published = {"paper": "pacspp", "table": 4, "task": "FOIL 1 ref"}
    page = _page(board(make_record(kind="preference", values={"spice.accuracy": 0.4}, published=published)))
    assert "|  | *PAC-S++* |  |" in page and "published rows</summary>" not in page


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
    empty = list(csv.reader(io.StringIO(csv_file(board())["leaderboard.csv"].decode())))
    assert empty == [list(first)]


def test_csv_holds_no_formula_of_a_name():
    made = board(make_record(kind="generate_until", values={"cider": -0.4}, model="==1+1"))
    (row,) = csv.DictReader(io.StringIO(csv_file(made)["leaderboard.csv"].decode()))
    assert (row["name"], row["value"]) == ("'==1+1", "-0.4")
