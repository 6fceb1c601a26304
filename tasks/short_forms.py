"""What may be written in place of a longer value in a task file."""

from __future__ import annotations

from typing import Any

from .yaml_files import FunctionReference


def as_list(value: Any) -> Any:
    """Take one text for a list of one."""
    return [value] if isinstance(value, str) else value


def as_statistic(value: Any) -> Any:
    """Take the name of a statistic for its entry."""
    return {"statistic": value} if isinstance(value, str | FunctionReference) else value


def as_metric(value: Any) -> Any:
    """Take the name of a metric for its entry."""
    return {"metric": value} if isinstance(value, str | FunctionReference) else value


def as_joins(value: Any) -> Any:
    """Take one file for a list of one."""
    return [value] if isinstance(value, dict) else value


def as_pairs(value: Any) -> Any:
    """Take a name, or a list, of columns that are called alike for pairs."""
    names = as_list(value)
    return {name: name for name in names} if isinstance(names, list) else names
