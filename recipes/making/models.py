"""The models of a maker, by what they do; each is loaded when a stage first asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...adapters import ImageHandle
from ...adapters.aliases import ModelSpec, Role, resolve_model
from ...errors import UsageError
from ...metrics.contract import Cache, NoCache
from .schema import MakerModel

ROLES: Mapping[str, Role] = {
    "captioner": "captioner",
    "answerer": "captioner",
    "encoder": "encoder",
    "judge": "judge",
    "segmenter": "segmenter",
    "detector": "detector",
    "painter": "painter",
}
"""What stages call a model to what it does; an answerer writes what it is asked for of an image."""


class MakerModels:
    """Models that a maker names.

    Args:
        named: Role to the model.
        cache: What encoders' features are kept in.
    """

    def __init__(self, named: Mapping[str, MakerModel], cache: Cache | None = None) -> None:
        self._named = named
        self._loaded: dict[str, Any] = {}
        self.cache = NoCache() if cache is None else cache

    def __getitem__(self, role: str) -> Any:
        """Return the model of a role, loaded.

        Raises:
            UsageError: The maker names none, or one that does something else.
            BenchError: It could not be loaded.
        """
        if role not in self._loaded:
            self._loaded[role] = self._load(role)
        return self._loaded[role]

    def _load(self, role: str) -> Any:
        return self._spec(role).load()

    def _spec(self, role: str) -> ModelSpec:
        named = self.named(role)
        spec = resolve_model(named.name, named.arguments)
        if spec.role != ROLES[role]:
            raise UsageError(
                f"the maker's {role} '{named.name}' is a {spec.role}", "'bench ls models' lists what there is."
            )
        return spec

    def named(self, role: str) -> MakerModel:
        """Return the model that the maker names for a role.

        Raises:
            UsageError: It names none.
        """
        if role not in self._named:
            raise UsageError(
                f"the maker names no {role}",
                f"Add 'models: {{{role}: {{name: NAME}}}}', or --set models.{role}.name=NAME.",
            )
        return self._named[role]

    def check(self, role: str) -> None:
        """Raise if a model cannot be had, or does something else; nothing is loaded."""
        self._spec(role).check()

    def refuses(self, role: str, image: ImageHandle) -> str:
        """Return why a model can make nothing of an image, as far as that is known; nothing is loaded."""
        return self._spec(role).refuses(image)

    def name(self, role: str) -> str:
        """Return what the maker calls the model, and its weights where it names them; nothing is loaded."""
        return self.named(role).told

    def release(self, role: str) -> None:
        """Let go of a model."""
        self._loaded.pop(role, None)
