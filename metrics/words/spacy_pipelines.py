"""Pipelines of spaCy, loaded once a process."""

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...errors import MetricError

DEFAULT = "en_core_web_sm"
_NEEDED = ("parser", "tagger", "lemmatizer")


def load_pipeline(name: str, asking: str, setting: str, components: Sequence[str] = _NEEDED) -> Any:
    """Return an English pipeline; unless said, one that tags, parses and finds lemmas.

    Args:
        name: A package's name or a folder.
        asking: Who needs it, for messages.
        setting: What names another one, for messages.
        components: The components that it needs.

    Raises:
        MetricError: spaCy or the pipeline is missing, or lacks a component; the hint says what to install.
    """
    if importlib.util.find_spec("spacy") is None:
        raise MetricError(
            f"{asking} needs spaCy, which is not installed.",
            f"pip install 'capbench[spacy]' && python -m spacy download {name}",
        )
    try:
        loaded = _load(name)
    except (OSError, ValueError, ImportError) as error:
        raise MetricError(
            f"spaCy's pipeline '{name}' cannot be loaded: {str(error).strip().partition(chr(10))[0]}",
            f"'python -m spacy download {name}' fetches spaCy's own; {setting} takes an installed English pipeline or "
            "a folder.",
        ) from error
    if lacking := [pipe for pipe in components if pipe not in loaded.pipe_names]:
        raise MetricError(
            f"spaCy's pipeline '{name}' has no {' and no '.join(lacking)}.", f"Name a complete one, such as {DEFAULT}."
        )
    return loaded


def pipeline_identity(pipeline: Any) -> str:
    """Return the name and version of a pipeline."""
    return "{lang}_{name} {version}".format_map(pipeline.meta)


@lru_cache(maxsize=2)
def _load(name: str) -> Any:
    import spacy  # an extra

    return spacy.load(name)
