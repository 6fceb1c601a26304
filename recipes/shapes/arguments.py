"""Reads a training's settings from the command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any, TypeVar

Settings = TypeVar("Settings")


def parse(parser: argparse.ArgumentParser, settings: type[Settings]) -> tuple[Settings, dict[str, Any]]:
    """Return the settings, each an option of its field's name with its default, and all options by name.

    Args:
        parser: Has the other options already.
        settings: A dataclass whose fields all have defaults.
    """
    known: Any = fields(settings)  # pyright: ignore[reportArgumentType] - a type variable cannot ask for a dataclass
    for field in known:
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    given = vars(parser.parse_args())
    return settings(**{field.name: given[field.name] for field in known}), given
