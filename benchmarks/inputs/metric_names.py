"""Metrics as users name them: ``cider``, or with settings ``cider[variant=plain]``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import ValidationError

from ...adapters.arguments import parse_arguments
from ...errors import UsageError
from ...tasks.schema import MetricEntry

_BETWEEN = re.compile(r",(?![^\[]*\])")
_NAMED = re.compile(r"(?P<metric>[^\[\]]+)(?:\[(?P<arguments>[^\[\]]*)\])?")


def split_metrics(names: str | Sequence[str]) -> list[str]:
    """Return the single names in texts that hold several, by comma; those inside of ``[...]`` divide nothing."""
    texts = [names] if isinstance(names, str) else names
    return [name.strip() for text in texts for name in _BETWEEN.split(text) if name.strip()]


def read_metric(name: str) -> MetricEntry:
    """Return the metric and its settings that a name stands for.

    The result is called by its label where one is given, else by the whole name.

    Raises:
        UsageError: It is not of that form, or a setting that all metrics have is not what it must be.
    """
    found = _NAMED.fullmatch(name)
    if found is None:
        raise UsageError(f"metric '{name}': expected NAME, or NAME[key=value,key=value]")
    arguments = parse_arguments(found["arguments"] or "", f"metric '{name}'")
    try:
        called = {} if arguments.get("label") else {"name": name}
        return MetricEntry.model_validate({**called, **arguments, "metric": found["metric"]})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise UsageError(f"metric '{name}': {'; '.join(faults)}") from error
