"""What ``bench show`` says of a metric, a statistic, a model or an adapter: its docstring, and each setting."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

_WIDTH = 105


def describe_registered(name: str) -> str | None:
    """Return what is registered under a name in words; None where nothing is."""
    from ...adapters import adapters
    from ...adapters.aliases import list_aliases
    from ...metrics import metrics
    from ..statistics import statistics

    if name in metrics:
        metric = metrics[name]
        facts = {
            "needs": ", ".join(sorted(metric.needs)) or "the caption alone",
            "range": "{:g} to {:g}".format(*metric.range),
            "better": ("more" if metric.higher_is_better else "less") if metric.has_direction else "neither",
            "source": metric.source,
        }
        return _described(f"{name}  (metric, {metric.label})", metric, facts, {})
    if name in statistics:
        statistic = statistics[name]
        better = "more" if statistic.higher_is_better else "less"
        return _described(f"{name}  (statistic, {statistic.label})", statistic, {"better": better}, {})
    if (model := list_aliases().get(name)) is not None:
        facts = {"model": model.description, "size": model.size, "source": model.source}
        return _described(
            f"{name}  (model, adapter {model.adapter})", adapters[model.adapter], facts, model.arguments
        )
    return _described(f"{name}  (adapter)", adapters[name], {}, {}) if name in adapters else None


def _described(
    heading: str, thing: Callable[..., Any], facts: Mapping[str, str], given: Mapping[str, Any]
) -> str:
    lines = [heading]
    for paragraph in _text(thing).split("\n\n"):
        lines += ["", *textwrap.wrap(" ".join(paragraph.split()), _WIDTH)]
    lines.append("")
    for key, value in facts.items():
        if value:
            lines += textwrap.wrap(f"{key:<13}{value}", _WIDTH, subsequent_indent=" " * 13)
    for number, line in enumerate(settings_of(thing, given)):
        lines.append(line if number else f"{'settings':<13}{line.strip()}")
    return "\n".join(lines)


def settings_of(function: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """Return the settings, each with its value, or that it is required, and what the docstring says of it.

    Args:
        function: A function or class.
        given: Values in place of defaults, or beside them.
    """
    meanings = documented_arguments(inspect.getdoc(function) or "")
    parameters = inspect.signature(function).parameters.values()
    defaults = {
        one.name: "required" if one.default is one.empty else one.default
        for one in parameters
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    settings = {**defaults, **given}
    return [line for name in settings for line in setting(name, settings[name], meanings.get(name, ""))]


def documented_arguments(doc: str) -> dict[str, str]:
    """Return what the section ``Args`` of a docstring says of each argument."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?)+)", doc, flags=re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section[1] if section else "", flags=re.MULTILINE)
    return {name: _plain(" ".join(text.split()).rstrip(".")) for name, text in entries}


def setting(name: str, value: object, meaning: str) -> list[str]:
    """Return a setting and its meaning, folded, in the column of the protocol."""
    text = f"{name}: {value}" + (f" ({meaning})" if meaning else "")
    return textwrap.wrap(text, _WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 15)


def _text(thing: Callable[..., Any]) -> str:
    """Return what a docstring says before its sections."""
    return _plain(
        re.split(r"\n(?:Args|Raises|Attributes|Returns):\n", inspect.getdoc(thing) or "")[0].strip()
    )


def _plain(text: str) -> str:
    """Return a text without the marks of code and of references."""
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", text).replace("``", "")
