"""What tells the models of a run from others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ...adapters.aliases import ModelSpec
from ...adapters.pixels.file_digests import file_digests
from ...paths import checkpoint_folder, is_file
from ..inputs.models import ROLES, AnyModels, NamedModels, model_facts
from ..records.environment import version

_LIBRARIES = ("capbench", "open_clip_torch", "peft", "pillow", "torch", "torchvision", "transformers", "vllm")
"""What runs models; other versions may give other numbers."""


def model_identities(named: NamedModels, models: AnyModels) -> dict[str, str]:
    """Return what tells the models of a run from others, by role.

    Of one that is loaded here it is the fingerprint, which is what decides its numbers. Of another it is how it is
    named, what the files hold that its arguments name (one that lies at the same place may have been trained anew), and
    the versions of what runs it. A file that is only there where workers are is known by its name.
    """
    found: dict[str, str] = {}
    for role in ROLES:
        if (spec := getattr(named, role)) is not None:
            facts = model_facts(models, role)
            identity = facts.fingerprint if facts else _named_identity(spec)
            found[role] = json.dumps(identity, sort_keys=True, default=str)
    return found


def _named_identity(spec: ModelSpec) -> dict[str, Any]:
    """Return what is known of a model without loading it."""
    named = {name: _files(one) for name, one in spec.arguments.items() if one and isinstance(one, str | Path)}
    return {
        "adapter": spec.adapter,
        "arguments": spec.arguments,
        "source": spec.source,
        "files": {
            name: [(file.name, str(digest)) for file, digest in zip(files, file_digests(files), strict=True)]
            for name, files in named.items()
        },
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def _files(name: str | Path) -> list[Path]:
    """Return the file that a name leads to, or those right in a folder; none where it is the name of no such thing."""
    for place in (Path(os.path.expanduser(name)), checkpoint_folder() / name):  # noqa: PTH111 - it may be any text
        if is_file(place):
            return [place]
        if os.path.isdir(place):  # noqa: PTH112 - as above
            return sorted(file for file in place.iterdir() if file.is_file())
    return []
