import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from finished_runs import make_record, seal, write_record

from capbench.benchmarks.leaderboard.formats import BEGIN, END

from .conftest import Bench, run_below


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


@pytest.mark.costly
def test_runs_are_submitted_and_reviewed_and_what_is_no_honest_run_is_refused(run_small, bench, tmp_path):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    def commit(name: str) -> None:
        git("add", "results")
        git("commit", "-qm", name)

    def edit(file: Path, *, sealed: bool, **changes: Any) -> None:
        record = json.loads(file.read_text())
        record["results"]["small"]["length.kendall_b,none"] = 0.99
        file.write_text(json.dumps(record | changes))
        if sealed:
            seal(file.parent)

    options = ("--include_path", tmp_path / "tasks")
    git("init", "-q")
    write_record(tmp_path / "results/runs", "tasty/no-model/20231114T221320-00000000", make_record())
    bench("leaderboard", "build").succeeded()
    commit("base")
    run_small("--metrics", "length", "--output_path", "mine").succeeded()
    mine, _ = run_below(tmp_path / "mine")
    # An honest run is taken once, and the change shows what it moves.
    kept = bench("leaderboard", "add", mine, *options).succeeded("results/runs/small/no-model/").out.strip()
    bench("leaderboard", "add", mine, *options).failed(1, f"the same run is in {kept}")
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n")
    (tmp_path / "other.txt").write_text("")
    git("add", "results", "README.md", "other.txt")
    unbuilt = bench("leaderboard", "review", "HEAD", *options)
    assert unbuilt.out.count("the leaderboard is not made of the runs") == 1
    bench("leaderboard", "build", "--readme", "README.md").succeeded()
    git("add", "README.md")
    commit("honest")
    shown = bench("leaderboard", "review", "HEAD~1", *options, "--readme", "README.md")
    shown.succeeded(
        "1 run added", "the same when scored again", "| length | τ-b | – |", "- changes other.txt, which is"
    )
    assert "README.md" not in shown.out
    # Of a part of the captions, or without its samples, it is refused.
    part = shutil.copytree(mine, tmp_path / "lacking")
    edit(part / "run.json", sealed=True, subset={"documents": 3, "of": 4, "hash": 64 * "0"})
    bench("leaderboard", "add", part, *options).failed(1, "a subset: 3 of 4 documents")
    (part / "samples.parquet").unlink()
    bench("leaderboard", "add", part, *options).failed(1, "is refused: samples.parquet: is missing")
    # Another edits a value, makes the checksums anew, or goes past 'add'.
    edit(mine / "run.json", sealed=False)
    bench("leaderboard", "add", mine, *options, "--runs", "others").failed(1, "was edited by hand")
    edit(mine / "run.json", sealed=True)
    bench("leaderboard", "add", mine, *options, "--runs", "others").failed(1, "length comes out otherwise: by 0.")
    bench("leaderboard", "add", mine).failed(1, "task 'small' is not installed")
    run_small("--metrics", "length", "--limit", 3, "--output_path", "part").succeeded()
    bench("leaderboard", "add", run_below(tmp_path / "part")[0], *options).failed(
        1, "covers 3 of 4 documents (--limit)"
    )
    edit(tmp_path / kept / "run.json", sealed=True)
    (tmp_path / "results/runs/note.txt").write_text("")
    bench("leaderboard", "build").succeeded()
    commit("cheating")
    of_cheat = bench("leaderboard", "review", "HEAD~1", *options)
    assert of_cheat.code == 1 and of_cheat.out.count("- refused: ") == 2
    assert "run.json: is of a kept run, and is changed" in of_cheat.out and "note.txt: is no file of an" in of_cheat.out
    assert "length comes out otherwise" in bench("leaderboard", "review", "HEAD~2", *options).out
