"""The models of a call: which are named, what each of them does, and the same when loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...adapters import Adapter, Captioner, Encoder, Judge, adapters
from ...adapters.aliases import ModelSpec, resolve_model
from ...adapters.contracts import UNLIMITED
from ...errors import AdapterError, UsageError

_Model = TypeVar("_Model", Captioner, Encoder, Judge)

ROLES = ("captioner", "encoder", "judge")
"""What models do in a run."""
_DOES = {"encoder": "encode images and texts", "judge": "judge"}


@dataclass(frozen=True)
class NamedModels:
    """Models that were named but not loaded.

    Attributes:
        captioner: Writes captions.
        encoder: Encodes images and texts, for the metrics that need it.
        judge: Judges captions, for the metrics that need it.
    """

    captioner: ModelSpec | None = None
    encoder: ModelSpec | None = None
    judge: ModelSpec | None = None

    @classmethod
    def of(
        cls, model: ModelSpec | None, encoder: ModelSpec | None = None, judge: ModelSpec | None = None
    ) -> NamedModels:
        """Return what ``--model``, ``--encoder`` and ``--judge`` name; ``--model`` may name any of the three.

        Raises:
            UsageError: Two models for one thing, or something else where an encoder or judge should stand.
        """
        named = {"encoder": encoder, "judge": judge}
        for role, spec in named.items():
            if spec is not None and spec.role != role:
                hint = "'bench ls models' lists what there is."
                if role == "judge" and f"{spec.adapter}_judge" in adapters:
                    hint = f"Adapter '{spec.adapter}_judge' does."
                raise UsageError(f"--{role} {spec.name}: adapter '{spec.adapter}' does not {_DOES[role]}", hint)
        if model is None or model.role == "captioner":
            return cls(model, encoder, judge)
        if model.role not in ROLES:
            raise UsageError(
                f"--model {model.name}: adapter '{model.adapter}' is a {model.role}, which no task runs.",
                "Recipes name it; 'bench ls models' lists what there is.",
            )
        if (other := named[model.role]) is not None:
            raise UsageError(
                f"two {model.role}s were named: --model {model.name} and --{model.role} {other.name}",
                f"--{model.role} goes with a --model that does something else.",
            )
        named[model.role] = model
        return cls(None, named["encoder"], named["judge"])


@dataclass(frozen=True)
class Models:
    """Loaded models.

    Attributes:
        captioner: Writes captions.
        encoder: Encodes images and texts.
        judge: Judges captions.
    """

    captioner: Captioner | None = None
    encoder: Encoder | None = None
    judge: Judge | None = None


class LoadedWhenAsked:
    """Models that are loaded when one is asked for, by the name of its role.

    Args:
        named: The models, as they were named.
    """

    def __init__(self, named: NamedModels) -> None:
        self._named = named

    def __getattr__(self, role: str) -> Any:
        """Return the model of a role; None where that has none."""
        if role not in ROLES:
            raise AttributeError(role)
        model = getattr(load_models(self._named, (role,)), role)
        setattr(self, role, model)
        return model


AnyModels = Models | LoadedWhenAsked
"""Models, loaded or loaded when one is asked for."""


def load(spec: ModelSpec, kind: type[_Model]) -> _Model:
    """Load a model, or take the one that was given, and see that it does what it is wanted for.

    Raises:
        UsageError: It does something else, or its adapter does not take its arguments.
        BenchError: It could not be loaded.
    """
    model = spec.load()
    if not isinstance(model, kind):
        does = {Captioner: "writes captions", Encoder: "encodes images and texts", Judge: "judges"}[kind]
        raise UsageError(f"a model that {does} is needed; '{spec.name}' ({spec.adapter}) does not")
    return model


def load_models(named: NamedModels, roles: Collection[str] = ROLES) -> Models:
    """Load models, of some roles; see :func:`load`."""
    kinds: dict[str, Any] = {"captioner": Captioner, "encoder": Encoder, "judge": Judge}
    return Models(**{role: load(spec, kinds[role]) for role in roles if (spec := getattr(named, role)) is not None})


def named_or_given(model: str | Adapter | None, model_args: str | Mapping[str, Any]) -> ModelSpec | None:
    """Return a model that was named, or given itself; None where there is none.

    Raises:
        UsageError: The name is unknown, or it is neither a name nor an adapter.
    """
    if model is None:
        return None
    if isinstance(model, str):
        return resolve_model(model, model_args)
    if not isinstance(model, Adapter):
        raise UsageError(
            f"model is a name or an adapter, not {type(model).__name__}",
            "An adapter is a subclass of capbench.adapters.Captioner, Encoder or Judge.",
        )
    return ModelSpec(getattr(model, "name", type(model).__name__), type(model).__qualname__, given=model)


@dataclass(frozen=True)
class ModelFacts:
    """What a record says of a model that was used.

    Attributes:
        fingerprint: Everything that decides what it gives.
        usage: What it has cost.
        context_length: Tokens that a text may have, of an encoder; None where it cuts none.
    """

    fingerprint: Mapping[str, Any]
    usage: Mapping[str, float] = field(default_factory=dict)
    context_length: int | None = None

    def since(self, before: ModelFacts) -> ModelFacts:
        """Return the same with what it cost since then."""
        usage = {key: value - before.usage.get(key, 0) for key, value in self.usage.items()}
        return replace(self, usage=usage)


def added_up(found: Sequence[ModelFacts], role: str) -> ModelFacts:
    """Return what the units of one model say of it.

    Raises:
        AdapterError: They used different ones.
    """
    first = found[0]
    if any(one.fingerprint != first.fingerprint for one in found):
        raise AdapterError(
            f"workers loaded different models as {role}: their fingerprints differ",
            "Is it one checkpoint, and one version of the libraries, on all machines?",
        )
    usage: dict[str, float] = {}
    for one in found:
        usage = {key: usage.get(key, 0) + value for key, value in one.usage.items()}
    return replace(first, usage=usage)


def facts_of(model: Captioner | Encoder | Judge) -> ModelFacts:
    """Return what a record says of a model."""
    if isinstance(model, Encoder):
        limit = None if model.context_length == UNLIMITED else model.context_length
        return ModelFacts(model.fingerprint(), context_length=limit)
    return ModelFacts(model.fingerprint(), dict(model.usage()))


def model_facts(models: AnyModels, role: str) -> ModelFacts | None:
    """Return what a record says of the model of a role; None where that is none."""
    model = getattr(models, role, None)
    return None if model is None else facts_of(model)


def facts_of_loaded(models: Models) -> dict[str, ModelFacts]:
    """Return what a record says of the models that are loaded, by their role."""
    return {role: facts_of(model) for role in ROLES if (model := getattr(models, role)) is not None}
