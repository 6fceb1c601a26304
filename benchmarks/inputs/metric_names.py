"""Metrics as users name them: ``cider``, or with settings ``cider[variant=plain]``; and names that are taken."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from pydantic import ValidationError

from ...adapters.arguments import parse_arguments
from ...errors import UsageError
from ...tasks.schema import MetricEntry

_BETWEEN = re.compile(r",(?![^\[]*\])")
_NAMED = re.compile(r"(?P<metric>[^\[\]]+)(?:\[(?P<arguments>[^\[\]]*)\])?")


ColumnType = Literal["text", "texts", "numbers", "integer"]
NAMING_COLUMNS = ("id", "image", "system", "category", "failure")
"""Columns of texts that tell samples apart; all others are what the data set, or a model that saw it, says."""
COLUMNS: Mapping[str, ColumnType] = {
    **dict.fromkeys(NAMING_COLUMNS, "text"),
    "candidate": "text",
    **dict.fromkeys(("references", "candidates", "negatives"), "texts"),
    **dict.fromkeys(("ratings", "shares", "scores"), "numbers"),
    "systems": "texts",
    "preferred": "integer",
}
"""Columns whose type the values alone might not tell (``ratings.precision`` has that of ``ratings``).

No metric is called so, as its own name is that of its column.
"""


def split_metrics(names: str | Sequence[str]) -> list[str]:
    """Return the single names in texts that hold several, by comma; those inside of ``[...]`` divide nothing."""
    texts = [names] if isinstance(names, str) else names
    return [name.strip() for text in texts for name in _BETWEEN.split(text) if name.strip()]


@cache
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
