"""Files that metrics read and capbench does not bring, by their names in ``sources.yaml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from ..downloads import FileSource


@cache
def sources() -> dict[str, FileSource]:
    """Return where the files of metrics come from, by name."""
    values = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {name: FileSource.model_validate(source) for name, source in values.items()}
