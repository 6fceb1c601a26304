"""The models of a call by role: named, and loaded."""

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
"""The roles of models in a run."""
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
            UsageError: Two models have one role, or a model does not fit its role.
        """
        named = {"encoder": encoder, "judge": judge}
        for role, spec in named.items():
            if spec is not None and spec.role != role:
                hint = "'bench ls models' lists the models."
                if role == "judge" and f"{spec.adapter}_judge" in adapters:
                    hint = f"Use adapter '{spec.adapter}_judge'."
                raise UsageError(f"--{role} {spec.name}: adapter '{spec.adapter}' does not {_DOES[role]}", hint)
        if model is None or model.role == "captioner":
            return cls(model, encoder, judge)
        if model.role not in ROLES:
            raise UsageError(
                f"--model {model.name}: adapter '{model.adapter}' is a {model.role}, which no task runs.",
                "Name it in a recipe; 'bench ls models' lists the models.",
            )
        if (other := named[model.role]) is not None:
            raise UsageError(
                f"two {model.role}s were named: --model {model.name} and --{model.role} {other.name}",
                f"Leave one out: --{model.role} goes with a --model of another role.",
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
    """Models that are loaded on first use, by role.

    Args:
        named: The names of the models.
    """

    def __init__(self, named: NamedModels) -> None:
        self._named = named

    def __getattr__(self, role: str) -> Any:
        """Return the model of a role, or None."""
        if role not in ROLES:
            raise AttributeError(role)
        model = getattr(load_models(self._named, (role,)), role)
        setattr(self, role, model)
        return model


AnyModels = Models | LoadedWhenAsked
"""Models, loaded now or on first use."""


def load(spec: ModelSpec, kind: type[_Model]) -> _Model:
    """Load a model, or take the given object, and check that it fits its role.

    Raises:
        UsageError: It does not fit the role, or its adapter does not take its arguments.
        BenchError: It could not be loaded.
    """
    model = spec.load()
    if not isinstance(model, kind):
        does = {Captioner: "writes captions", Encoder: "encodes images and texts", Judge: "judges"}[kind]
        raise UsageError(f"the run needs a model that {does}; '{spec.name}' (adapter {spec.adapter}) does not")
    return model


def load_models(named: NamedModels, roles: Collection[str] = ROLES) -> Models:
    """Load the models of some roles; see :func:`load`."""
    kinds: dict[str, Any] = {"captioner": Captioner, "encoder": Encoder, "judge": Judge}
    return Models(**{role: load(spec, kinds[role]) for role in roles if (spec := getattr(named, role)) is not None})


def named_or_given(model: str | Adapter | None, model_args: str | Mapping[str, Any]) -> ModelSpec | None:
    """Return the spec of a model by name or of a given object; None for None.

    Raises:
        UsageError: The name is unknown, or it is neither a name nor an adapter.
    """
    if model is None:
        return None
    if isinstance(model, str):
        return resolve_model(model, model_args)
    if not isinstance(model, Adapter):
        raise UsageError(
            f"model must be a name or an adapter, not {type(model).__name__}",
            "An adapter is a subclass of capbench.adapters.Captioner, Encoder or Judge.",
        )
    return ModelSpec(getattr(model, "name", type(model).__name__), type(model).__qualname__, instance=model)


@dataclass(frozen=True)
class ModelFacts:
    """What a record holds of a model that was used.

    Attributes:
        fingerprint: Everything that decides its output.
        usage: Its usage, such as requests and tokens.
        context_length: Of an encoder: the most tokens of a text; None where it does not truncate.
    """

    fingerprint: Mapping[str, Any]
    usage: Mapping[str, float] = field(default_factory=dict)
    context_length: int | None = None

    def since(self, before: ModelFacts) -> ModelFacts:
        """Return the same with the usage since then."""
        usage = {key: value - before.usage.get(key, 0) for key, value in self.usage.items()}
        return replace(self, usage=usage)


def added_up(facts: Sequence[ModelFacts], role: str) -> ModelFacts:
    """Return the facts of all copies of one model as one.

    Raises:
        AdapterError: Their fingerprints differ.
    """
    first = facts[0]
    if any(fact.fingerprint != first.fingerprint for fact in facts):
        raise AdapterError(
            f"workers loaded different models as {role}: their fingerprints differ",
            "Use the same checkpoint and the same versions of the libraries on all machines.",
        )
    usage: dict[str, float] = {}
    for fact in facts:
        usage = {key: usage.get(key, 0) + value for key, value in fact.usage.items()}
    return replace(first, usage=usage)


def model_facts(models: AnyModels, role: str) -> ModelFacts | None:
    """Return what a record holds of the model of a role; None where there is none."""
    model = getattr(models, role)
    if isinstance(model, Encoder):
        limit = None if model.context_length == UNLIMITED else model.context_length
        return ModelFacts(model.fingerprint(), context_length=limit)
    return model and ModelFacts(model.fingerprint(), dict(model.usage()))


def facts_of_loaded(models: Models) -> dict[str, ModelFacts]:
    """Return what a record holds of the loaded models, by role."""
    return {role: facts for role in ROLES if (facts := model_facts(models, role))}
