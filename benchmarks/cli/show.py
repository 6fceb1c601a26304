"""``bench show``: a task in words, with every choice that moves a number."""

from __future__ import annotations

import argparse
import textwrap

from .options import add_task_options

_CHOICES = {
    ("raters", "flatten"): "each rating of a caption is a row of its own",
    ("raters", "mean"): "the ratings of a caption are averaged before correlating",
    ("raters", "per_rater_mean"): "one correlation per rater, then their mean",
    ("rated_reference", "keep"): "a rated caption that is also a reference stays both",
    ("rated_reference", "drop_pair"): "a rated caption that is one of its image's references is left out",
    ("rated_reference", "drop_for_image"): "a rated caption is nobody's reference for its image",
    ("rated_reference", "drop_cumulative"): (
        "a rated caption is nobody's reference for its image; of two equal references one stays"
    ),
    ("ties", "half"): "equal scores count a half",
    ("ties", "wrong"): "equal scores count as wrong",
    ("ties", "right"): "equal scores count as right",
    ("reference_match", "exact"): "a caption is a reference if the texts are equal",
    (
        "reference_match",
        "letters_and_digits",
    ): "a caption is a reference if lower-cased letters and digits are equal",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("task", help="a task, group or tag ('bench ls tasks')")
    add_task_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the explanation of each task."""
    from ...tasks.index import build_index

    entries = build_index(options.include_path).resolve([options.task])
    print("\n\n".join(_explain(entry.path) for entry in entries))
    return 0


def _explain(path) -> str:
    from ...tasks.schema import load_task
    from ...tasks.sources import load_source
    from ...tasks.yaml_files import display_path

    task, _ = load_task(path)
    source = load_source(task, path)
    lines = [f"{task.task}  (version {task.version}, {display_path(path)})"]
    if task.description:
        lines += textwrap.wrap(task.description, 100)
    lines += ["", f"data         {source.title if source else task.dataset_path}"]
    if task.custom_dataset:
        lines.append(f"             read by {task.custom_dataset}")
    elif task.dataset_path:
        lines.append(f"             dataset_path {task.dataset_path}, split {task.test_split}")
    if task.process_docs:
        lines.append(f"             documents made by {task.process_docs}")
    lines.append(f"protocol     {task.output_type}")
    for key in (k for k in type(task).model_fields if k.startswith("doc_to_") or k.endswith("_folder")):
        if value := getattr(task, key):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            lines.append(f"             {key}: {shown}")
    if task.output_type == "generate_until":
        lines.append(f"             generation_kwargs: {task.generation_kwargs}")
    else:
        lines += _protocol_settings(task)
    lines.append("metrics      " + "; ".join(_metric(entry) for entry in task.metric_list))
    if task.statistics:
        lines.append(
            "statistics   " + "; ".join(_named(e.name or e.statistic, e.arguments) for e in task.statistics)
        )
    checks = task.checks.model_dump(exclude_none=True)
    if checks:
        lines.append("checks       " + ", ".join(f"{name} = {value:g}" for name, value in checks.items()))
    if task.published:
        lines += _published(task)
    lines.append(f"shown        × {task.scale:g}" if task.scale != 1 else "shown        as computed")
    return "\n".join(lines)


_SETTINGS = {
    "agreement": (
        "raters",
        "rated_reference",
        "reference_match",
        "first_references",
        "human_range",
        "round_scores",
    ),
    "preference": ("ties", "first_references", "drawn_references", "draws", "draw_seed"),
}


def _protocol_settings(task) -> list[str]:
    """Return the settings that the task's protocol looks at; those of an unknown protocol, if the task sets them."""
    settings = task.protocol
    lines = []
    for key in _SETTINGS.get(task.output_type, sorted(settings.model_fields_set)):
        value = getattr(settings, key)
        meaning = _CHOICES.get((key, value)) if isinstance(value, str) else None
        if key == "human_range" and value is not None:
            value = "ratings of {:g} to {:g} become 0 to 1".format(*value)
        if value is not None:
            lines.append(f"             {key}: {value}" + (f" ({meaning})" if meaning else ""))
    return lines


def _published(task) -> list[str]:
    """Return the paper's title and, for each metric of the task, the values that it prints."""
    from ...metrics import build_metric
    from ..published_values import find_in, load

    table = task.published
    lines = [f"published    {load(table.paper).title}, table {table.table}, {table.task}"]
    for entry in task.metric_list:
        label = build_metric(entry.metric, entry.arguments).label
        values = []
        names = [one.name or one.statistic for one in task.statistics] or ["accuracy"]
        for name in names:
            for category in [*(table.categories or []), "mean"]:
                if printed := find_in(table, label, name, category):
                    values.append(f"{category if table.categories else name} {printed.printed}")
        lines.append(f"             {label}: {', '.join(values) or 'not printed there'}")
    return lines


def _metric(entry) -> str:
    from ...metrics import build_metric

    return _named(f"{build_metric(entry.metric, entry.arguments).label} ({entry.metric})", entry.arguments)


def _named(name: str, arguments: dict[str, object]) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name} with {settings}" if settings else name
