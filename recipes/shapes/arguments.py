"""Reads a training's settings and places from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any


def run(description: str, settings: type, train: Callable[..., None], **places: str) -> None:
    """Train as the arguments say.

    Args:
        description: Of the command.
        settings: A dataclass whose fields all have defaults; each is an option of its name.
        train: Is given the settings, then each place.
        places: Names of options that are required, each the path of a file or folder, with what it is.
    """
    parser = argparse.ArgumentParser(description=description)
    for name, told in places.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=told)
    known: Any = fields(settings)
    for field in known:
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    given = vars(parser.parse_args())
    train(settings(**{field.name: given[field.name] for field in known}), *(given[name] for name in places))
