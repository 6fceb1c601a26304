"""What of a training's folder goes to the hub: card, weights and results, without paths of this machine or secrets."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from ...adapters.aliases import ALIAS_FILE
from ...boundary import Boundary
from ...errors import DataError
from ...paths import absolute_paths
from .contract import WEIGHTS
from .execution import CARD

_TOP = (".json", ".jsonl", ".md", ".svg", ".yaml")
"""Files next to the weights that are sent; checkpoints and their like are not."""
_TEXTS = (*_TOP, ".jinja", ".py", ".txt")
_VOCABULARIES = ("merges.txt", "tokenizer.json", "vocab.json", "vocab.txt")
"""Files whose words may look like paths."""
_SECRET = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bsk-[\w-]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bAKIA[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:api_?key|password|secret)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',}]{8,}",
    re.IGNORECASE,
)
_NAMES_A_SECRET = re.compile("KEY|PASSWORD|SECRET|TOKEN", re.IGNORECASE)
"""In the name of an environment variable."""


def files_for_hub(folder: Path) -> dict[str, Path | bytes]:
    """Return what a repository of the hub gets: its path there to a file, or to a content.

    Weights are at the top, where libraries look for them. ``model.yaml`` is changed accordingly, so that a copy of the
    repository is a model, too.

    Args:
        folder: What ``bench train`` wrote.

    Raises:
        DataError: The training has not finished, a link leads elsewhere, or a text holds an absolute path or a secret;
            each such place is named.
    """
    weights, alias = folder / WEIGHTS, folder / ALIAS_FILE
    for path in (folder / CARD, alias, weights):
        if not path.exists():
            raise DataError(
                f"{folder}: has no {path.name}",
                "Name the folder of a finished training: bench train RECIPE --output DIR.",
            )
    inside = (*sorted(folder.glob("runs/**/*")), *sorted(weights.rglob("*")))
    # The card is the folder's, whatever a library wrote with the weights.
    sent = [path for path in (*inside, *sorted(folder.iterdir())) if path.is_file()]
    files = {
        path.relative_to(weights if path.is_relative_to(weights) else folder).as_posix(): path
        for path in sent
        if path.parent != folder or path.suffix in _TOP
    }
    boundary = Boundary.of(folder)
    faults: list[str] = []
    for path in files.values():
        faults += _faults(path) if boundary.holds(path) else [f"{path}: is a link that leads out of the folder"]
    if faults:
        raise DataError("\n".join(faults), "Remove it, or train again; nothing was sent.")
    values = yaml.safe_load(alias.read_text(encoding="utf-8"))
    moved = {key: _at_the_top(value) for key, value in values.items()}
    return {**files, ALIAS_FILE: yaml.safe_dump(moved, sort_keys=False).encode()}


def _at_the_top(value: object) -> object:
    inside = f"./{WEIGHTS}"
    if not isinstance(value, str) or not (value == inside or value.startswith(f"{inside}/")):
        return value
    return f"./{value.removeprefix(inside).removeprefix('/')}"


def _faults(file: Path) -> Iterator[str]:
    """Yield what of a file is not for others, by line; a secret is not shown."""
    if file.suffix not in _TEXTS:
        return
    secrets = [value for name, value in os.environ.items() if _NAMES_A_SECRET.search(name) and len(value) >= 12]
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if _SECRET.search(line) or any(secret in line for secret in secrets):
            yield f"{file}:{number}: holds what looks like a secret"
        if file.name not in _VOCABULARIES:
            yield from (f"{file}:{number}: holds a path of a machine: {path}" for path in absolute_paths(line))
