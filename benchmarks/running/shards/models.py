"""The models of a run in one process, and what its record says of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ....adapters import Captioner, Encoder, Judge
from ....adapters.aliases import ModelSpec
from ....adapters.pixels.file_digests import file_digests
from ....paths import checkpoint_folder, is_file
from ...inputs.models import ROLES, ModelFacts, Models, NamedModels, facts_of
from ...records.environment import version

_LIBRARIES = ("capbench", "open_clip_torch", "peft", "pillow", "torch", "torchvision", "transformers", "vllm")
"""What runs models; other versions may give other numbers."""


class LoadedWhenAsked:
    """Models that are loaded when the first unit needs them.

    Args:
        load: Loads each, by its role; a role that is not there has no model.
    """

    def __init__(self, load: Mapping[str, Callable[[], Any]]) -> None:
        self._load = load

    @cached_property
    def captioner(self) -> Captioner | None:
        """Writes captions."""
        return self._loaded("captioner")

    @cached_property
    def encoder(self) -> Encoder | None:
        """Encodes images and texts."""
        return self._loaded("encoder")

    @cached_property
    def judge(self) -> Judge | None:
        """Judges captions."""
        return self._loaded("judge")

    def _loaded(self, role: str) -> Any:
        return self._load[role]() if role in self._load else None

    def release(self, role: str) -> None:
        """Let go of a model; the next unit that needs it loads it again."""
        vars(self).pop(role, None)


AnyModels = Models | LoadedWhenAsked
"""Models, loaded or loaded when one is asked for."""


def model_facts(models: AnyModels, role: str) -> ModelFacts | None:
    """Return what a record says of the model of a role; None where that is none."""
    model = getattr(models, role, None)
    return None if model is None else facts_of(model)


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
