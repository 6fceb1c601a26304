from __future__ import annotations

import json
from pathlib import Path

from finished_runs import make_record, write_record

from capbench.benchmarks.leaderboard.formats import BEGIN, END

from .conftest import Bench


def test_leaderboard_of_real_runs_is_built_checked_and_compared(run_small: Bench, bench: Bench, tmp_path: Path):
    run_small("--metrics", "length,bleu_1").succeeded()
    places = ("--runs", tmp_path / "runs", "--output", tmp_path / "board")
    built = bench("leaderboard", "build", *places)
    assert (built.code, built.err) == (0, "")
    assert built.out == f"1 table of 1 run, written to {tmp_path / 'board'}\n"
    page = (tmp_path / "board/README.md").read_text(encoding="utf-8")
    assert "## small" in page and "BLEU-1" in page
    bench("leaderboard", "check", *places).succeeded("is up to date with the runs")
    bench("leaderboard", "diff", tmp_path / "board", tmp_path / "board/leaderboard.json").succeeded("No changes.")


def test_letters_are_said_to_be_of_the_tests_that_made_them(bench: Bench, tmp_path: Path):
    assert "of captioners, by paired t tests" in bench("leaderboard", "build", "--help").out
    (tmp_path / "runs").mkdir()
    assert bench("leaderboard", "build", "--runs", "runs", "--output", "board").code == 0
    assert "captioners by paired t tests" in (tmp_path / "board/README.md").read_text(encoding="utf-8")


def test_check_of_the_default_folders_fails_with_what_moved_and_what_mends_it(bench: Bench, tmp_path: Path):
    folder = write_record(tmp_path / "results/runs", "one", make_record())
    assert bench("leaderboard", "build").code == 0
    assert (tmp_path / "results/leaderboard/README.md").is_file()
    values = {"cider.kendall_b": 0.45, "bleu_1.kendall_b": 0.3}
    (folder / "run.json").write_text(json.dumps(make_record(values=values)))
    checked = bench("leaderboard", "check").failed(1, "Update it with: bench leaderboard build --runs results/runs")
    assert "| CIDEr | τ-b | 40.00 | 45.00 | +5.00 |" in checked.out
    assert bench("leaderboard", "build").code == 0
    assert bench("leaderboard", "check").code == 0


def test_wrong_use_is_refused(bench: Bench, tmp_path: Path):
    assert bench("leaderboard").code == 2
    assert bench("leaderboard", "nonsense").code == 2
    assert bench("leaderboard", "diff").code == 2
    (tmp_path / "file").write_text("")
    bench("leaderboard", "build", "--runs", tmp_path / "file").failed(2, "is not a folder")
    bench("leaderboard", "diff", "nosuch").failed(2, "nor a git revision")
    # A folder that is not there is named with where runs are written.
    for action in ("build", "check"):
        bench("leaderboard", action).failed(
            2, "results/runs: there is no such folder", "the default of 'bench run --output_path' is runs"
        )
    assert not (tmp_path / "results").exists()


def test_readme_shows_the_top_rows_between_its_marks_and_check_looks_at_it(bench: Bench, tmp_path: Path):
    folder = write_record(tmp_path / "results/runs", "one", make_record())
    readme = tmp_path / "README.md"
    readme.write_text(f"# Ours\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    assert bench("leaderboard", "build", "--readme", "README.md").code == 0
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"# Ours\n\n{BEGIN}\n| Task | By | 1 | 2 | 3 |\n") and text.endswith(f"{END}\n\nThe end.\n")
    assert "CIDEr 40.00" in text and "old" not in text
    assert bench("leaderboard", "check", "--readme", "README.md").code == 0
    readme.write_text(text.replace("40.00", "50.00"))
    checked = bench("leaderboard", "check", "--readme", "README.md")
    assert checked.code == 1 and "differs: README.md" in checked.out
    (folder / "run.json").unlink()
    assert bench("leaderboard", "build", "--readme", "README.md").code == 0
    assert "There are no runs yet." in readme.read_text(encoding="utf-8")


def test_readme_without_marks_is_refused_before_anything_is_written(bench: Bench, tmp_path: Path):
    write_record(tmp_path / "results/runs", "one", make_record())
    (tmp_path / "README.md").write_text("# Ours\n")
    bench("leaderboard", "build", "--readme", "README.md").failed(1, BEGIN)
    assert not (tmp_path / "results/leaderboard").exists()
