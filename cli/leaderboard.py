"""``bench leaderboard``: build the leaderboard of finished runs, check the existing one, compare two.

Unless --runs names another folder, it is made of the runs that are kept in results/runs; 'bench run' writes to runs.

examples:
  bench leaderboard build --runs runs --output leaderboard
  bench leaderboard diff main
  bench leaderboard add runs/iiw_400/iiw-p5b/20261127T065414-56bccd08

'bench leaderboard COMMAND --help' explains a command.
"""

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError, counted
from .options import PERMISSIONS, TASK, add_options, task_settings, tell

RUNS = Path("results/runs")
OUTPUT = Path("results/leaderboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their options."""
    actions = parser.add_subparsers(dest="action", metavar="COMMAND", required=True, title="commands")

    def add(action: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        about = inspect.getdoc(action) or ""
        summary = about.partition(".")[0]
        command = actions.add_parser(
            action.__name__.strip("_"),
            help=summary[:1].lower() + summary[1:],
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(act=action)
        return command

    build, check, diff, submit, review = map(add, (_build, _check, _diff, _add, _review))
    submit.add_argument("submitted", metavar="RUN", nargs="+", type=Path, help="folder of a finished run")
    review.add_argument("base", metavar="BASE", help="the revision that the change starts from")
    for command in (submit, review):
        add_options(command, *TASK, *PERMISSIONS)
    for command in (build, check, submit, review):
        command.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"folder of the runs ({RUNS})")
    for command in (build, check, review):
        command.add_argument(
            "--readme", type=Path, metavar="FILE", help="a Markdown file that shows the top rows between two marks, too"
        )
    diff.add_argument("base", metavar="BASE", help="what is compared with: a revision, a file or a folder")
    diff.add_argument("head", metavar="HEAD", nargs="?", help="the later one (default: that in --output)")
    for command in (build, check, diff, review):
        command.add_argument(
            "--output", type=Path, default=OUTPUT, metavar="DIR", help=f"folder of the leaderboard ({OUTPUT})"
        )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand."""
    # Without this check the leaderboard would be empty.
    if options.act in (_build, _check, _review) and not options.runs.exists():
        raise UsageError(
            f"{options.runs}: there is no such folder",
            "--runs names the folder of the runs; the default of 'bench run --output_path' is runs.",
        )
    return options.act(options)


def _build(options: argparse.Namespace) -> int:
    """Write the leaderboard of finished runs.

    README.md, index.html with a page a run, leaderboard.csv, leaderboard.json and LaTeX tables are made from the
    records of runs alone: the same runs give the same bytes on every machine. A record that is damaged, edited, of a
    newer capbench or a copy is left out and named.

    Rows are metrics, for tasks that compare metrics with human judgement, or models, for tasks that score captions or
    test encoders. Of several runs of one row the newest of those with the most documents counts; the others are
    listed as superseded. Two versions of a task are two tables. Each number is followed by its published value;
    published rows without a run here are shown as published only.

    Significance letters: of metrics, those of their run; of captioners, by paired t tests over the captions that all
    of them have a score for (Holm's correction, 5 %).

    Files of an earlier build that are no longer made are removed; files that are not the leaderboard's stay.
    """
    from ..benchmarks.leaderboard.build import build

    board = build(options.runs, options.output, options.readme)
    print(f"{counted(len(board.tables), 'table')} of {counted(len(board.runs), 'run')}, written to {options.output}")
    tell(*(f"left out: {entry.key}: {entry.reason}" for entry in board.left_out))
    return 0


def _check(options: argparse.Namespace) -> int:
    """Exit with 1 unless the leaderboard is up to date with the runs.

    What differs is listed, for CI, and nothing written. 'bench leaderboard build' updates the leaderboard.
    """
    from ..benchmarks.leaderboard.diff import differences

    lines = differences(options.runs, options.output, options.readme)
    if not lines:
        print(f"{options.output} is up to date with the runs in {options.runs}")
        return 0
    print("\n".join(lines))
    tell(
        f"bench: error: {options.output} is not up to date with the runs in {options.runs}\n"
        f"Update it with: bench leaderboard build --runs {options.runs} --output {options.output}"
        + (f" --readme {options.readme}" if options.readme else "")
    )
    return 1


def _diff(options: argparse.Namespace) -> int:
    """Print what changed since a git revision, or between two leaderboards.

    BASE and HEAD are each a git revision, a leaderboard.json or the folder of a leaderboard. Of a revision the
    leaderboard in the folder --output is read. Prints, as Markdown, new and removed rows, values that moved with
    their difference and change of rank, and runs that are left out since; 'No changes.' where nothing moved.
    """
    from ..benchmarks.leaderboard.diff import comment, read_leaderboard

    base, note = read_leaderboard(options.base, options.output)
    head, _ = read_leaderboard(options.head or str(options.output), options.output)
    print(comment(base, head, note))
    return 0


def _add(options: argparse.Namespace) -> int:
    """Check finished runs and copy them to the kept ones.

    A run is taken if it is intact (as 'bench verify' checks), covers all documents of the installed version of its
    task, holds nothing that the terms of its data do not allow to pass on, and has the same values when it is scored
    again. It is copied to --runs as TASK/MODEL/TIME-FINGERPRINT. What cannot be scored again here is told.
    """
    from ..benchmarks.leaderboard.submitting import add_run

    for folder in options.submitted:
        place, remark = add_run(folder, options.runs, **task_settings(options))
        print(place)
        tell(*([f"not scored again: {remark}"] if remark else []))
    tell("next: bench leaderboard build")
    return 0


def _review(options: argparse.Namespace) -> int:
    """Review a change that adds runs since a git revision.

    For the workflow of a repository of results (docs/leaderboard.md). Since BASE, runs may only be added: each is
    checked as 'add' does, and is at its place. Files of kept runs may not change, and the leaderboard has to be made
    of the runs. Prints, as Markdown, the verdict on each run and what moved. Exit code 1 where a run is refused.
    """
    from ..benchmarks.leaderboard.submitting import review

    text, accepted = review(options.base, options.runs, options.output, options.readme, **task_settings(options))
    print(text)
    return 0 if accepted else 1
