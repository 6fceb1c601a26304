"""``bench explain``: what CAPTURE matched between a caption and its references."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UsageError
from .options import add_boundary_option, add_store_option, add_task_options, write_text

if TYPE_CHECKING:
    from ...metrics.capture.metric import Capture
    from ..inputs.items import CaptionRow
    from ..running.planned_metrics import PlannedMetric
    from ..store.store import Store

_EPILOG = """\
examples:
  bench explain --candidate "A red car on a road." --reference "An automobile drives down the street."
  bench explain --task iiw_400 --model iiw-p5b --sample aar_test_04600 --html why.html
  bench explain --metric 'capture[parser=spacy]' --candidate ... --reference ..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("--candidate", metavar="TEXT", help="a caption")
    parser.add_argument(
        "--reference",
        metavar="TEXT",
        action="append",
        default=[],
        help="what it is held against (may be repeated)",
    )
    parser.add_argument("--task", metavar="NAME", help="a task, in place of --candidate and --reference")
    parser.add_argument("--sample", metavar="ID", help="which of the task's captions")
    parser.add_argument(
        "--model", metavar="NAME", help="whose caption, where the task scores those of a model"
    )
    parser.add_argument("--model_args", metavar="K=V,...", default="", help="arguments of its adapter")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        default="capture",
        help="capture, as the task sets it if it does; with settings as capture[key=value,...]",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page, in place of printing")
    add_task_options(parser)
    add_boundary_option(parser)
    add_store_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print the explanation, or write it as a page."""
    from ...metrics import Context
    from ...progress import bars
    from ..store.naming import parse_store
    from ..store.store import Store

    direct = options.candidate is not None or bool(options.reference)
    if direct == (options.task is not None):
        raise UsageError(
            "what to explain: --candidate and --reference, or --task and --sample.",
            "'bench explain --help' shows examples.",
        )
    if direct and (options.candidate is None or not options.reference):
        raise UsageError("--candidate TEXT goes with --reference TEXT")
    if not direct and options.sample is None:
        raise UsageError("--task goes with --sample ID")
    if options.html and not options.html.absolute().parent.is_dir():
        raise UsageError(f"--html {options.html}: its folder does not exist")
    with Store(parse_store(options.store).file) as store:
        if direct:
            metric, row = _built(options.metric), _given(options)
        else:
            metric, row = _of_task(options, store)
        context = Context(cache=store, progress=bars()(options.metric))
        explanations = metric.explain(row.candidate, row.references, context)
    if options.html:
        from ..explaining.as_html import as_html

        title = f"{options.task}, {row.id}" if options.task else ""
        write_text(options.html, as_html(row.candidate, row.references, explanations, title=title))
        print(f"written: {options.html}")
        return 0
    from ..explaining.as_text import as_text

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(as_text(row.candidate, row.references, explanations, colour=colour))
    return 0


def _built(name: str) -> Capture:
    from ..inputs.metric_names import read_metric
    from ..running.planned_metrics import plan_metric, require_one

    planned = plan_metric(read_metric(name), frozenset({"references"}))
    metric = _explainable(planned)
    require_one([planned])
    return metric


def _explainable(planned: PlannedMetric) -> Capture:
    from ...metrics.capture.metric import Capture

    if not isinstance(planned.metric, Capture):
        raise UsageError(
            f"metric '{planned.name}' cannot be explained", "CAPTURE can: --metric 'capture[key=value,...]'."
        )
    return planned.metric


def _given(options: argparse.Namespace) -> CaptionRow:
    from ..inputs.items import CaptionRow, candidate_fault, references_fault

    if fault := candidate_fault(options.candidate):
        raise UsageError(f"--candidate {fault}")
    if fault := references_fault(options.reference):
        raise UsageError(f"--reference: {fault}")
    return CaptionRow("candidate", "", options.candidate, tuple(options.reference))


def _of_task(options: argparse.Namespace, store: Store) -> tuple[Capture, CaptionRow]:
    from ...progress import bars
    from ...tasks.locate import parse_data_options
    from ..explaining.explanations import find_sample
    from ..running.resolve import resolve_call

    resolved = resolve_call(
        [options.task],
        model=options.model,
        model_args=options.model_args,
        metric_names=[options.metric],
        data=parse_data_options(options.data),
        include_path=options.include_path,
        allow_outside=options.allow_outside,
    )
    plan = resolved.plan
    if len(plan) != 1:
        raise UsageError(f"--task {options.task} is {len(plan)} tasks; name one of them")
    # As the task sets it, where it lists a metric of that name.
    metric = _explainable(plan[0].metrics[0])
    row = find_sample(
        plan[0],
        options.sample,
        resolved.load_models(),
        locations=resolved.locations,
        store=store,
        progress=bars(),
    )
    return metric, row
