"""Files that metrics read and capbench does not bring, by their names in ``sources.yaml``."""

from functools import cache
from pathlib import Path

from ..downloads import FileSource
from ..rows import load_yaml


@cache
def sources() -> dict[str, FileSource]:
    """Return where the files of metrics come from, by name."""
    values = load_yaml(Path(__file__).with_suffix(".yaml"))
    return {name: FileSource.model_validate(source) for name, source in values.items()}
