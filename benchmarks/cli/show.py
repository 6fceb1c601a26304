"""``bench show``: a task in words, with every choice that moves a number."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap

from .options import REDISTRIBUTION, add_task_options

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
    ("measure", "scm"): (
        "subcrop-caption matching: an entry is right if its image, of all entries of its group, is most similar "
        "to its own captions; every other entry stands with its best caption, the entry itself with its worst; "
        "of equal entries the first is found; images look for captions, never captions for images"
    ),
    ("measure", "neg"): (
        "an entry is right if its image is more similar to the worst of its own captions than to its negative; "
        "equal counts as wrong"
    ),
    ("grouping", "blocks"): (
        "consecutive entries over the borders of images, as in the released code; the last block is smaller, "
        "and an entry alone in it is right"
    ),
    ("grouping", "per_image"): "all entries of one image, as the paper's text has it",
    ("pick", "first"): (
        "the first in the data, so that every run sees the same; the released code draws them without a seed"
    ),
    ("pick", "random"): "drawn by pick_seed and the entry's name, without repetition",
}
_MEANINGS = {
    "captions": "so many captions of an entry are used; entries with fewer are left out",
    "block_size": "entries of a block",
}
_MATCHING = """\
Every entry is an image or a crop of one, with captions and a negative; similarity is the cosine of the \
model's features, in float32. An image of which a crop cannot be read is left out with all of its entries. \
Accuracy is the share of entries that are right; its interval draws images with the hits of their entries, \
and does not group anew. Texts longer than the model takes are cut, and counted in run.json."""


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
    lines.append(f"             runs: {REDISTRIBUTION[source.redistribution if source else 'full']}")
    if task.custom_dataset:
        lines.append(f"             read by {task.custom_dataset}")
        lines += _reader_settings(task)
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
    if task.metric_list:
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
    "matching": ("measure", "grouping", "block_size", "captions", "pick", "pick_seed"),
}


def _reader_settings(task) -> list[str]:
    """Return the reader's settings, each with what its docstring says of it."""
    reader = task.custom_dataset.resolve()
    meanings = _documented_arguments(inspect.getdoc(reader) or "")
    parameters = inspect.signature(reader).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    settings = defaults | task.dataset_kwargs
    return [line for name in settings for line in _setting(name, settings[name], meanings.get(name, ""))]


def _documented_arguments(doc: str) -> dict[str, str]:
    """Return what the section ``Args`` of a docstring says of each argument."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?)+)", doc, flags=re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section[1] if section else "", flags=re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for name, text in entries}


def _setting(name: str, value: object, meaning: str) -> list[str]:
    """Return a setting and its meaning, folded, in the column of the protocol."""
    text = f"{name}: {value}" + (f" ({meaning})" if meaning else "")
    return textwrap.wrap(text, 105, initial_indent=" " * 13, subsequent_indent=" " * 15)


def _protocol_settings(task) -> list[str]:
    """Return the settings that the task's protocol looks at; those of an unknown protocol, if the task sets them."""
    settings = task.protocol
    lines = []
    if task.output_type == "matching":
        lines += textwrap.wrap(_MATCHING, 105, initial_indent=" " * 13, subsequent_indent=" " * 13)
    for key in _SETTINGS.get(task.output_type, sorted(settings.model_fields_set)):
        if _has_no_say(key, settings, task.output_type):
            continue
        value = getattr(settings, key)
        meaning = _CHOICES.get((key, value)) if isinstance(value, str) else _MEANINGS.get(key)
        if key == "human_range" and value is not None:
            value = "ratings of {:g} to {:g} become 0 to 1".format(*value)
        if value is not None:
            lines += _setting(key, value, meaning or "")
    return lines


def _has_no_say(key: str, settings, output_type: str) -> bool:
    """Tell whether a setting of a matching task changes nothing, given the others."""
    if output_type != "matching":
        return False
    unused = {
        "grouping": settings.measure != "scm",
        "block_size": settings.measure != "scm" or settings.grouping != "blocks",
        "pick": settings.captions == 1 and settings.pick == "first",
        "pick_seed": settings.pick != "random",
    }
    return unused.get(key, False)


def _published(task) -> list[str]:
    """Return the paper's title and, for each metric of the task, the values that it prints."""
    from ...metrics import build_metric
    from ..published_values import find_in, load

    table = task.published
    lines = [f"published    {load(table.paper).title}, table {table.table}, {table.task}"]
    for label, printed in table.metrics.items():
        lines.append(
            f"             {label}: beside '{printed}' of the model of the run, where the table has it"
        )
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
