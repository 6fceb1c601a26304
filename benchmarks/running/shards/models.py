"""The models of a run in one process, and what its record says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ....adapters import Captioner, Encoder, Judge
from ...inputs.models import ROLES, ModelFacts, Models, NamedModels, facts_of


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
    """Return what tells the models of a run from others, by role: of one that is not loaded here, how it is named."""
    found: dict[str, str] = {}
    for role in ROLES:
        if (spec := getattr(named, role)) is not None:
            facts = model_facts(models, role)
            found[role] = json.dumps(facts.fingerprint if facts else vars(spec), sort_keys=True, default=str)
    return found
