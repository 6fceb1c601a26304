r"""``bench rate``: people rate captions in a browser, and their ratings become a task.

TASK gives images and references, FILE the captions: rows of id and caption, as '--model captions:FILE' reads them.
Raters open the printed address and enter their name; docs/rate.md shows the pages. The same command resumes a session.
Ctrl-C ends it, writes the ratings as rows and a task, and prints the agreement of raters, as --report does.

what is asked:
  --aspect NAME=LOW-HIGH    a number from LOW to HIGH (0 to 9) of each caption; may be repeated. Words behind a colon,
                            between |, are of both ends, or of each number
  --better [QUESTION]       which caption of an image is better; "no difference" and "cannot tell" are answers, too
  --best_worst [QUESTION]   the best and the worst of three to nine captions
  --ranking [QUESTION]      a rank of each of two to nine captions
  --battle [QUESTION]       the better of two captions; of any number of systems, pairs whose outcome is uncertain
  --spans CATEGORY,...      errors, marked in the caption, each with a category and a severity (minor, major)
  --questions FILE          the same as YAML, with questions and instructions: docs/rate.md

examples:
  bench rate iiw_400 --captions a.jsonl b.jsonl --better --sample 100
  bench rate iiw_400 --captions A=a/captions.jsonl B=b/captions.jsonl \
      --aspect 'precision=1-5: nothing is right | all is right' --aspect recall=1-5
  bench rate iiw_400 --report          who rated how much, agreement, what ±0.05 would need; writes the task
  bench run --include_path ratings/iiw_400 --task iiw_400_rated

Keys: digits answer, arrows choose, Enter keeps, u takes the last answer back. Needs packages:
pip install 'capbench[view]'
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, counted, did_you_mean
from .options import READING, SERVER, TASK, add_options, locations_of, not_negative, positive, serve_pages, share, tell

if TYPE_CHECKING:
    from ..benchmarks.rate.questions import Questionnaire
    from ..benchmarks.rate.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("task", metavar="TASK", help="task that gives images and references")
    parser.add_argument(
        "--captions", nargs="+", metavar="[NAME=]FILE", default=[], help="captions of each system, recorded"
    )
    asked = parser.add_argument_group("what is asked").add_mutually_exclusive_group()
    asked.add_argument(
        "--aspect", action="append", default=[], metavar="NAME=LOW-HIGH[: WORDS | WORDS]", help="a scale"
    )
    asked.add_argument("--better", nargs="?", const="", metavar="QUESTION", help="which caption is better")
    asked.add_argument("--best_worst", nargs="?", const="", metavar="QUESTION", help="the best and the worst caption")
    asked.add_argument("--ranking", nargs="?", const="", metavar="QUESTION", help="a rank of each caption")
    asked.add_argument("--battle", nargs="?", const="", metavar="QUESTION", help="pairs of many systems")
    asked.add_argument("--spans", type=lambda text: text.split(","), metavar="CATEGORY,...", help="errors to mark")
    asked.add_argument("--questions", type=Path, metavar="FILE", help="either, from a YAML file")
    parser.add_argument("--references", action="store_true", default=None, help="show raters the references, too")
    parser.add_argument("--sample", type=positive, metavar="N", help="rate N images, drawn by the seed (all)")
    parser.add_argument(
        "--subset", action="store_true", default=None, help="captions are of a part of the task: rate that part"
    )
    parser.add_argument(
        "--seed", type=not_negative, metavar="N", help="decides the order of images and captions (1234)"
    )
    parser.add_argument("--raters", nargs="+", metavar="NAME", help="the raters, of which each gets a link")
    parser.add_argument("--per_item", type=positive, metavar="K", help="of --raters, K rate each image (all)")
    parser.add_argument("--repeats", type=not_negative, metavar="N", help="ask each rater N questions again (0)")
    parser.add_argument(
        "--known", type=Path, metavar="FILE", help="JSON lines of known answers, to compare raters with"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder of the session (ratings/TASK)")
    parser.add_argument(
        "--report", action="store_true", help="print state and agreement, and write the task; serve nothing"
    )
    parser.add_argument(
        "--interval", type=share, default=0.05, metavar="W",
        help="print how many more answers intervals of ±W need (0.05)",
    )  # fmt: skip
    add_options(parser, "--format", help="how the report is printed")
    add_options(parser, *SERVER, *TASK, *READING)


def run(options: argparse.Namespace) -> int:
    """Begin a session or go on with one, and serve it until interrupted; or report on it."""
    from ..benchmarks.rate.session import is_session, locked, read_session, require_same

    folder: Path = options.output or Path("ratings") / options.task
    if options.report:
        _report(read_session(folder), options)
        return 0
    from ..benchmarks.tables.pages.serving import require_packages

    require_packages("rate")
    if is_session(folder):
        session = read_session(folder)
        require_same(session, {"task": options.task, **_said(options)})
    else:
        session = _begun(folder, options)
    from ..benchmarks.rate.app import application
    from ..benchmarks.rate.session import RatingQueue

    with locked(folder):
        serve_pages(
            application(RatingQueue(session)),
            options,
            "sees the images and captions and answers under any name",
            {name: f"raters/{link}" for link, name in session.links().items()},
        )
        _report(session, options)
    return 0


def _report(session: Session, options: argparse.Namespace) -> None:
    from ..benchmarks.rate.made_task import write_task
    from ..benchmarks.rate.report import report

    ratings = {rater: session.answers(rater).current for rater in session.raters()}
    ratings = {rater: answers for rater, answers in ratings.items() if answers}
    written = write_task(session, ratings)
    print(report(session, ratings, options.interval, options.format))
    if written is None:
        tell(f"{'no rater could judge' if ratings else 'no ratings yet'}: no task is written")
        return
    path, rows, unsaid = written
    if unsaid:
        tell(f"left out: {counted(unsaid, 'row')} in which no rater could judge")
    tell(f"{path}: {rows:,} rows")
    tell(f"next: bench run --include_path {session.folder} --task {path.stem}")


def _asked(options: argparse.Namespace) -> Questionnaire | None:
    """Return the questions that the command line gives; None where it gives none."""
    from ..benchmarks.rate.questions import DEFAULTS, questions_of, read_questions

    if options.questions:
        return read_questions(options.questions)
    for form, question in DEFAULTS.items():
        if (asked := getattr(options, form)) is not None:
            return questions_of(**{form: asked or question})
    if options.spans:
        return questions_of(spans={"categories": [name.strip() for name in options.spans]})
    return questions_of(options.aspect) if options.aspect else None


def _said(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keys of a design that the command line sets, as in its JSON."""
    from ..benchmarks.rate.collecting import read_known, recorded
    from ..benchmarks.rate.session import rater_name

    asked = _asked(options)
    captions = recorded(options.captions)
    said = {
        "questions": asked and asked.model_dump(mode="json", exclude_defaults=True),
        "systems": [captioner.name for captioner in captions] or None,
        "captions": [captioner.fingerprint()["sha256"] for captioner in captions] or None,
        "seed": options.seed,
        "sample": options.sample,
        "subset": options.subset,
        "references": options.references,
        "raters": options.raters and [rater_name(name) for name in options.raters],
        "per_item": options.per_item,
        "repeats": options.repeats,
        "known": options.known and read_known(options.known),
    }
    return {name: value for name, value in said.items() if value is not None}


def _begun(folder: Path, options: argparse.Namespace) -> Session:
    from ..benchmarks.inputs.failures import describe, summarise
    from ..benchmarks.inputs.task_images import Picture, TaskImages
    from ..benchmarks.rate.collecting import collect, recorded
    from ..benchmarks.rate.forms import is_answer
    from ..benchmarks.rate.items import Design
    from ..benchmarks.rate.session import begin, rater_name
    from ..tasks.index import build_index
    from ..tasks.schema import load_task

    asked = _asked(options)
    if asked is None or not options.captions:
        raise UsageError(
            f"{folder}: no session to resume; a new one needs --captions and questions",
            f"bench rate {options.task} --captions FILE ... with --better, --aspect NAME=1-5 or another form",
        )
    captions = recorded(options.captions)
    needed = asked.captions_needed
    if len(captions) not in needed:
        many = f"{needed.start} to {needed.stop - 1:,}"
        raise UsageError(
            f"--{asked.form} compares {many} captions of an image, not {len(captions)}",
            "--battle takes any number of systems, and shows two captions at a time.",
        )
    names = [*filter(None, map(rater_name, options.raters or ()))]
    if len(set(names)) < len(options.raters or ()):
        raise UsageError("--raters: names are 1 to 40 letters and digits, each another")
    if (options.per_item or 0) > len(names):
        raise UsageError(f"--per_item {options.per_item}: needs as many --raters; there are {len(names)}")
    index = build_index(options.include_path)
    entry = index.entries.get(options.task)
    if entry is None or entry.kind != "task":
        raise UsageError(f"there is no task '{options.task}'.{did_you_mean(options.task, index.entries)}")
    locations = locations_of(options)
    task = load_task(entry.path)[0]
    items, failures = collect(task, entry.path, locations, captions, subset=bool(options.subset))
    images = TaskImages(task, entry.path, locations)
    usual = {"seed": 1234, "sample": None, "subset": False, "references": False}
    named = {"task": task.task, "version": str(task.version)}
    design = Design.model_validate({**named, **usual, **_said(options)})
    by_id, known_systems = {item.id: item for item in items}, (None,) if asked.together else design.systems
    for known in design.known:
        of_session = known.id in by_id and known.system in known_systems
        if not of_session or not is_answer(asked, by_id[known.id], known.answer):
            raise UsageError(
                f"--known: {known.id}{f', {known.system}' if known.system else ''} is no question of this session, or "
                f"{known.answer!r:.60} is no answer to it",
                "Rows have the id, the answer and, with one caption a page, the system as files of answers have them.",
            )
    if not any(isinstance(images.read(item.id, item.image), Picture) for item in items) and images.outside:
        raise images.outside
    session = begin(folder, design, items, lambda item: images.read(item.id, item.image), failures)
    if images.outside:
        tell(images.outside.in_one_line)
    tell(*(f"left out: {describe(failure)}" for failure in summarise(failures.entries)))
    if options.sample and len(session.items) < options.sample:
        tell(f"--sample {options.sample:,}: there are {len(session.items):,} to rate")
    counts = sorted({len(session.asked(name)) for name in session.design.raters or ("",)})
    asked = f"{counts[0]:,}" + (f" to {counts[-1]:,}" if counts[1:] else "")
    print(f"{folder}: {len(session.items):,} images of {task.task}, {asked} answers asked of each rater")
    return session
