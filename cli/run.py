"""``bench run``: tasks with a model, results as a table, records in a folder.

Metrics with a letter in common in the column Group are not significantly different (p ≥ 0.05), by the paired
bootstrap of 'bench compare' (docs/compare.md), with as many resamples as the intervals have.

On stderr, 'left out' and 'excluded' are samples that every run leaves out, because of the data or the task's rule.
'failed' is what a model or a metric did not do; it may succeed when run again.

A run is a folder with run.json, from which tables and plots can be made without the data, and samples.parquet.
'bench data TASK' shows whether the data's terms allow to pass the samples on; where they do not, run with
--log_samples scores before you publish a run (results/README.md).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BenchError, DataError, UsageError
from ..hub import asking_nobody
from .options import (
    ENGINE,
    JUDGE,
    PERMISSIONS,
    TASK,
    add_options,
    describe_model_folder,
    execution_of,
    locations_of,
    names,
    not_negative,
    number_or_auto,
    positive,
    refuse,
    task_settings,
    tell,
)

if TYPE_CHECKING:
    from ..access import Request
    from ..benchmarks.inputs.failures import FailureSummary
    from ..benchmarks.records.task_run import TaskRun
    from ..benchmarks.suites.places import TablePlace


_AFTER = {
    "incomplete": "; run again to ask for these alone",
    "the data failed its checks": "; published values do not apply, and the run is not ranked",
}
"""What follows from notes, by how they begin."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--task",
        "--tasks",
        dest="tasks",
        nargs="+",
        metavar="NAME",
        help="tasks, groups or tags, separated by commas or spaces ('bench ls tasks')",
    )
    parser.add_argument(
        "--suite", metavar="NAME", help="a published table, in place of --task and --model ('bench ls suites')"
    )
    parser.add_argument(
        "--recorded",
        metavar="DIR",
        help="what you have for rows of a --suite: scores or captions, DIR/TASK/ROW.jsonl, and DIR/models.yaml "
        "(docs/suites.md)",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="what writes the captions, or encodes images and texts or judges for the metrics: alias, "
        "adapter, or captions:FILE for captions recorded elsewhere ('bench ls models')",
    )
    add_options(parser, "--model_args")
    parser.add_argument("--device", help="device of --model, such as cpu; as device=... of --model_args")
    parser.add_argument(
        "--encoder", metavar="NAME", help="encoder of images and texts for the metrics, where --model writes captions"
    )
    parser.add_argument("--encoder_args", metavar="K=V,...", default="", help="arguments of its adapter")
    add_options(parser, *JUDGE)
    add_options(parser, "--metrics", help="metrics in place of the task's own; NAME[key=value,...] gives settings")
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N documents of each task")
    parser.add_argument(
        "--batch_size",
        type=number_or_auto,
        metavar="N",
        help="captions asked of the model at once; auto (the default): as many as its adapter says",
    )
    parser.add_argument("--gen_kwargs", metavar="K=V,...", default="", help="decoding settings, over those of the task")
    parser.add_argument(
        "--bootstrap",
        type=not_negative,
        default=1000,
        metavar="N",
        help="resamples behind each interval (1000); 0: none",
    )
    add_options(parser, "--intervals", "--seed")
    parser.add_argument("--strict", action="store_true", help="stop at the first sample that cannot be used")
    parser.add_argument("--skip_checks", action="store_true", help="go on with data that fails the task's checks")
    parser.add_argument(
        "--subset",
        action="store_true",
        help="recorded captions may cover a part of the documents: the run is of these alone, and is marked",
    )
    parser.add_argument(
        "--output_path",
        metavar="DIR",
        type=Path,
        default=Path("runs"),
        help="where runs are written, as DIR/TASK/MODEL/TIME (runs)",
    )
    parser.add_argument(
        "--log_samples",
        nargs="?",
        choices=("full", "scores", "none"),
        const="full",
        default="full",
        help="content of samples.parquet: full (the default), or scores: no texts, ratings or "
        "references, for runs over data that may not be passed on",
    )
    parser.add_argument(
        "--log_to",
        choices=("wandb", "trackio", "tensorboard"),
        help="also log settings, values and samples of each run there (docs/interchange.md)",
    )
    add_options(
        parser,
        "--format",
        help="of the table; csv and json hold plain values, the others are scaled as papers do (τ × 100)",
    )
    parser.add_argument("--dry_run", action="store_true", help="print what would be done, do nothing")
    add_options(parser, *TASK, *PERMISSIONS, "--store", *ENGINE)


def run(options: argparse.Namespace) -> int:
    """Run the tasks; exit code 1 if a metric failed, the model on a document, or --log_to."""
    from ..adapters.aliases import resolve_model
    from ..adapters.arguments import parse_arguments
    from ..benchmarks.api import evaluate
    from ..benchmarks.inputs.settings import split_metrics

    metric_names = split_metrics(options.metrics or [])
    recorded = f"--recorded {options.recorded} goes with --suite NAME"
    for_tasks = "For tasks, --metrics 'recorded[file=FILE,label=NAME]' reads scores computed elsewhere."
    no_metrics = options.metrics is not None and not metric_names
    refuse(
        (no_metrics, "--metrics: no metric was named", "'bench ls metrics' lists the metrics."),
        (options.recorded and not options.suite, recorded, for_tasks),
        (options.device and not options.model, "--device goes with --model"),
    )
    if names(options.tasks) == ["list"]:
        from .main import main

        return main(["ls", "tasks", *(word for folder in options.include_path for word in ("--include_path", folder))])
    arguments = parse_arguments(options.model_args, "--model_args")
    # Recorded captions and servers compute on no device of this machine.
    if options.device and "device" in resolve_model(options.model, arguments).on(options.device).arguments:
        options.model_args = json.dumps(arguments | {"device": options.device})
    options.batch_size = options.batch_size or None
    settings = _settings(options)
    if options.suite:
        return _run_suite(options, **settings)
    if not names(options.tasks):
        raise UsageError("no task was named", "--task NAME ('bench ls tasks'), or --suite NAME ('bench ls suites').")
    models = {
        key: getattr(options, key) for key in ("model", "model_args", "encoder", "encoder_args", "judge", "judge_args")
    }
    if options.dry_run:
        return _say_what_would_be_done(options, metric_names, settings["data"], models)
    from ..benchmarks.tables.results import legend, render

    finished: list[TaskRun] = []
    not_logged: list[TaskRun] = []
    finish = _finish(options.log_to, not_logged)

    def report(task_run: TaskRun) -> None:
        finished.append(task_run)
        finish(task_run)

    lines: list[str] = []
    try:
        done = evaluate(
            tasks=names(options.tasks),
            metrics=metric_names,
            on_finish=report,
            on_missing=tell,
            on_fetch=tell,
            **models,
            **settings,
        )
        lines += done.group_lines()
    finally:
        # When a later task fails, those before it are done, and are shown.
        if finished:
            print(render(finished, options.format), flush=True)
            # What is piped on is the table alone.
            tell(*lines)
            if options.format == "github" and (explained := legend(finished)):
                tell("", *explained)
    failed = any(result.record.metric_errors or not result.record.is_complete for result in finished)
    return 1 if failed or not_logged else 0


@asking_nobody()
def _say_what_would_be_done(
    options: argparse.Namespace, metric_names: list[str], data: dict[str, Path], models: dict[str, Any]
) -> int:
    from ..access import require_permitted
    from ..adapters.arguments import parse_arguments
    from ..benchmarks.running.plan import described, resolve_call
    from ..errors import CodeError
    from ..permissions import without_code
    from ..tasks.index import build_index
    from ..tasks.schema import load_task, requests_of_task

    for role in ("model", "encoder", "judge"):
        arguments = parse_arguments(models[f"{role}_args"], f"--{role}_args")
        if summary := describe_model_folder(models[role], arguments):
            print(summary, end="\n\n")
    entries = build_index(options.include_path).resolve(names(options.tasks))
    asked = {entry.name: requests_of_task(*load_task(entry.path)) for entry in entries}
    try:
        with without_code():
            resolved = resolve_call(
                names(options.tasks),
                metric_names=metric_names,
                data=data,
                include_path=options.include_path,
                allow_outside=options.allow_outside,
                **models,
            )
    except CodeError as error:
        for name, requests in asked.items():
            print(f"task:       {name}")
            _print_requests(requests)
        for requests in asked.values():
            require_permitted([request for request in requests if request.kind == "functions"])
        print(f"The rest of the plan is unknown, since a dry run runs no code: {error.message}")
        return 0
    for planned in resolved.plan:
        print(*(f"{f'{name}:':<12}{text}" for name, text in described(planned)), sep="\n")
        _print_requests(asked[planned.task.task])
    print(f"runs would be written below {options.output_path}")
    if fetched := resolved.fetched_first():
        print(fetched)
    if resolved.missing.errors:
        tell("", str(resolved.missing))
    return 1 if resolved.missing.errors else 0


def _print_requests(requests: Sequence[Request]) -> None:
    from ..access import request_lines

    print(*(f"{f'{kind}:':<13}{text}" for kind, text in request_lines(requests)), "", sep="\n")


_SETTINGS = (
    "output_path", "log_samples", "store", "limit", "intervals", "seed", "strict",
    "skip_checks", "subset", "batch_size",
)  # fmt: skip
"""Options that :func:`capbench.evaluate` takes by the same name."""


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return what runs and suites take alike."""
    from ..adapters.arguments import parse_arguments
    from ..progress import bars

    has_models = any((options.model, options.encoder, options.judge, options.suite))
    return task_settings(options, *_SETTINGS) | {
        "engine": execution_of(options, has_models=has_models),
        "progress": bars(),
        "resamples": options.bootstrap,
        "generation_kwargs": parse_arguments(options.gen_kwargs, "--gen_kwargs"),
    }


def _finish(tracker: str | None, not_logged: list[TaskRun]) -> Callable[[TaskRun], None]:
    """Return what tells of a finished run, and logs it to a tracker or adds it to those that are not."""
    if tracker is None:
        return _tell
    from ..benchmarks.interchange.trackers import log_run, require_tracker

    require_tracker(tracker)

    def finish(finished: TaskRun) -> None:
        _tell(finished)
        try:
            tell(f"{finished.record.task}: {log_run(finished, tracker)}")
        except DataError as error:
            # The run is written, and others are to come.
            not_logged.append(finished)
            tell(f"{finished.record.task}: {error.message}")

    return finish


def _tell(finished: TaskRun) -> None:
    """Print on stderr what a finished run left out, what failed, and where it was written."""
    from ..benchmarks.inputs.failures import describe, outcome
    from ..boundary import OUTSIDE

    record = finished.record
    counts = record.documents
    if finished.outside:
        tell(finished.outside)
    lines: list[str] = []
    if record.ruled_out:
        lines.append(f"excluded {record.ruled_out:,}: the candidate is one of its own references (rated_reference)")
    failures = _alike([row for row in finished.failures if not finished.outside or OUTSIDE not in row["reason"]])
    lines += [f"{outcome(failure)}: {describe(failure)}" for failure in failures[:8]]
    lines += [f"and {len(failures) - 8} more reasons in run.json"] if len(failures) > 8 else []
    lines += [f"counted as empty: {describe(empty)}" for empty in record.empty_captions[:8]]
    # The legend of the table has those on empty captions.
    for note in (note for note in record.notes if "counted as empty" not in note):
        lines.append(note + next((then for begins, then in _AFTER.items() if note.startswith(begins)), ""))
    lines += map(describe, record.remarks[:8])
    lines += [
        f"{metric}: {cut.cut:,} of {cut.captions:,} captions ({cut.share:.1%}) "
        f"are longer than the model's {cut.context_length} tokens and were cut"
        for metric, cut in record.truncation.items()
        if cut.cut
    ]
    lines += [f"not run: {line}" for line in _unused(record.metrics_left_out, has_model=bool(record.model_name))]
    lines += [f"metric {metric} failed: {reason}" for metric, reason in finished.record.metric_errors.items()]
    lines += [
        f"{result.metric} {result.label[1]}: no value: {result.reason}"
        for result in finished.results
        if result.value is None and result.metric not in finished.record.metric_errors
    ]
    where = f"; written to {finished.folder}" if finished.folder else ""
    lines.append(f"{counts.effective:,} of {counts.original:,} documents scored in {record.seconds:.1f} s{where}")
    tell(*(f"{record.task}: {line}" for line in lines))


def _alike(failures: Sequence[FailureSummary]) -> list[FailureSummary]:
    """Return failures, those of several metrics on the same samples for the same reason as one."""
    names: dict[tuple[str, ...], list[str]] = {}
    kept: dict[tuple[str, ...], FailureSummary] = {}
    for failure in failures:
        name, colon, reason = failure["reason"].partition(": ") if failure["stage"] == "metric" else ("", "", "")
        key = (failure["stage"], reason or failure["reason"], str(failure["count"]), *failure["samples"])
        names.setdefault(key, []).append(name)
        kept[key] = {**failure, "reason": f"{', '.join(names[key])}: {reason}" if colon else failure["reason"]}
    return list(kept.values())


def _unused(left_out: Mapping[str, str], *, has_model: bool) -> Iterator[str]:
    """Yield the metrics that a run went without, those of one reason in a line."""
    from ..benchmarks.running.planned_metrics import NEEDS_ENCODER, NEEDS_JUDGE

    option = "--encoder" if has_model else "--model"
    remedies = {NEEDS_ENCODER: f"an encoder with {option}", NEEDS_JUDGE: "a judge with --judge"}
    for reason in dict.fromkeys(left_out.values()):
        metrics = ", ".join(metric for metric, its_reason in left_out.items() if its_reason == reason)
        yield f"{metrics} (name {remedies[reason]})" if reason in remedies else f"{metrics}: it {reason}"


_NOT_WITH_SUITE = ("tasks", "model", "encoder", "judge", "metrics")
"""Options that do not go with a suite."""


def _run_suite(options: argparse.Namespace, data: dict[str, Path], **settings: Any) -> int:
    """Print what is missing, run what can be run, and print the table.

    The exit code is 1 if nothing was run, a metric failed, the model did on a document, or --log_to.

    Args:
        options: The command's.
        data: Task name to the path of its local data.
        **settings: As :func:`capbench.evaluate` takes them.
    """
    from ..access import request_lines
    from ..benchmarks.suites.inputs import NOTHING, read_inputs
    from ..benchmarks.suites.places import places
    from ..benchmarks.suites.plan import plan_suite
    from ..benchmarks.suites.read import load_suite
    from ..benchmarks.suites.run import render_suite, run_suite
    from ..permissions import without_code
    from ..tasks.index import build_index

    for option in _NOT_WITH_SUITE:
        if getattr(options, option):
            raise UsageError(
                f"--suite {options.suite} sets the tasks, models and metrics",
                f"Leave --{'task' if option == 'tasks' else option} out.",
            )
    suite = load_suite(options.suite)
    inputs = read_inputs(suite, Path(options.recorded)) if options.recorded else NOTHING
    if options.dry_run:
        for kind, text in request_lines(inputs.requests) if options.recorded else ():
            print(f"{kind}: {text}")
        with without_code(), asking_nobody():
            for name, about in dict.fromkeys((suite.name(place.row), _said(place)) for place in places(suite, inputs)):
                print(f"{name}: {about}")
            index = build_index(options.include_path)
            locations = locations_of(options, index)
            _say_what_is_missing(plan_suite(suite, index, locations, inputs).missing)
        return 0
    not_logged: list[TaskRun] = []
    settings |= {"inputs": inputs, "data": data, "on_finish": _finish(options.log_to, not_logged)}
    finished = run_suite(suite, on_missing=_say_what_is_missing, **settings)
    table = render_suite(finished, options.format)
    print(table)
    filled = sum(cell.result is not None for cell in finished.cells)
    recorded = sum(cell.is_recorded for cell in finished.cells)
    counts = f"{filled - recorded} of {len(finished.cells)} cells were measured"
    tell(f"{suite.suite}: {counts}{f', {recorded} recorded' if recorded else ''}")
    failed = any(result.record.metric_errors or not result.record.is_complete for result in finished.runs)
    return 1 if failed or not_logged or not filled else 0


def _said(place: TablePlace) -> str:
    """Return what fills a place, or what would."""
    from ..benchmarks.comparing.finished_runs import settings_text

    if place.recorded:
        return f"recorded scores, {place.recorded}"
    model, decoding = place.models.model, settings_text(place.models.decoding)
    named = f"{model} [{decoding}]" if model and decoding else model
    return place.needs or named or place.models.judge or "no model needed"


def _say_what_is_missing(missing: list[BenchError]) -> None:
    """Print on stderr what this machine lacks for the suite, and how to get it."""
    if not missing:
        return
    lines = ["missing here, and left out of the table:"]
    for need in missing:
        lines += [f"- {need.message}".replace("\n", "\n  "), *(f"    {line}" for line in need.hint.splitlines())]
    tell(*lines, "")
