"""Resolves what a call names: its tasks and metrics, its models, where its data is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...adapters import Adapter, Captioner, Encoder, Judge, adapters
from ...adapters.aliases import ModelSpec, resolve_model
from ...errors import UsageError
from ...tasks.index import build_index
from ...tasks.locate import DataLocations
from ..inputs.models import ROLES, Models, NamedModels, load
from .plan import PlannedRun, make_plan

_Model = TypeVar("_Model", Captioner, Encoder, Judge)


@dataclass(frozen=True)
class ResolvedCall:
    """What a call will do.

    Attributes:
        plan: Its runs.
        models: The models that were named or given.
        locations: Where local copies of data may be.
        given: Models that were given, not named, each with what it is called.
        call: What :func:`resolve_call` was given, as JSON values, for other processes; None where a model was given,
            which is an object of this one.
    """

    plan: list[PlannedRun]
    models: NamedModels
    locations: DataLocations
    given: Sequence[tuple[ModelSpec, Adapter]] = ()
    call: Mapping[str, Any] | None = None

    @property
    def roles_here(self) -> tuple[str, ...]:
        """The models that are loaded in this process even if others do the work: captions that cost nothing to have."""
        spec = self.models.captioner
        build = None if spec is None else spec.built or adapters[spec.adapter]
        keeps = getattr(build, "keep", True)
        return () if keeps else ("captioner",)

    def load_models(self, roles: Collection[str] = ROLES) -> Models:
        """Load the models; each is one that some run needs, as the plan has no other.

        Args:
            roles: Which of them.

        Raises:
            UsageError: A model does something else, or its adapter does not take its arguments.
            BenchError: It could not be loaded.
        """
        return load_models(self.models, self.given, roles)


def load_models(
    named: NamedModels, given: Sequence[tuple[ModelSpec, Adapter]] = (), roles: Collection[str] = ROLES
) -> Models:
    """Load models.

    Args:
        named: The models.
        given: Those of them that were given, not named, each with what it is called.
        roles: Which of them.

    Raises:
        UsageError: A model does something else, or its adapter does not take its arguments.
        BenchError: It could not be loaded.
    """

    def loaded(spec: ModelSpec | None, kind: type[_Model]) -> _Model | None:
        if spec is None:
            return None
        return load(spec, kind, next((model for one, model in given if one is spec), None))

    return Models(
        loaded(named.captioner, Captioner) if "captioner" in roles else None,
        loaded(named.encoder, Encoder) if "encoder" in roles else None,
        loaded(named.judge, Judge) if "judge" in roles else None,
    )


def resolve_call(
    tasks: str | Sequence[str],
    *,
    model: str | Adapter | None = None,
    model_args: str | Mapping[str, Any] = "",
    encoder: str | Adapter | None = None,
    encoder_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    metric_names: Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    include_path: Sequence[str | Path] = (),
    allow_outside: Sequence[str | Path] = (),
) -> ResolvedCall:
    """Return what a call will do, everything checked that can be checked before models are loaded.

    Args:
        tasks: Names of tasks, groups or tags.
        model: As :func:`capbench.evaluate` takes it, and so the five that follow.
        model_args: Arguments of its adapter.
        encoder: The model that encodes for the metrics.
        encoder_args: Arguments of its adapter.
        judge: The model that judges for the metrics.
        judge_args: Arguments of its adapter.
        metric_names: Metrics in place of those of the tasks.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.

    Raises:
        BenchError: A name is unknown, or something that every metric of a task needs is missing.
    """
    index = build_index(include_path)
    paths = {name: Path(path) for name, path in (data or {}).items()}
    locations = DataLocations.from_environment(index.expand_names(paths), allow_outside)
    resolved = [
        resolve_named_or_given(*one) for one in ((model, model_args), (encoder, encoder_args), (judge, judge_args))
    ]
    models = NamedModels.of(*(spec for spec, _ in resolved))
    names = [name.strip() for name in tasks.split(",")] if isinstance(tasks, str) else list(tasks)
    plan = make_plan(index, names, models=models, metric_names=metric_names, locations=locations)
    given = [(spec, adapter) for spec, adapter in resolved if spec is not None and adapter is not None]
    call = {
        "tasks": names,
        "model": model,
        "model_args": model_args,
        "encoder": encoder,
        "encoder_args": encoder_args,
        "judge": judge,
        "judge_args": judge_args,
        "metric_names": list(metric_names),
        "data": {name: str(path.absolute()) for name, path in paths.items()},
        "include_path": [str(Path(one).absolute()) for one in include_path],
        "allow_outside": [str(Path(one).absolute()) for one in allow_outside],
    }
    return ResolvedCall(plan, models, locations, given, None if given else call)


def resolve_named_or_given(
    model: str | Adapter | None, model_args: str | Mapping[str, Any]
) -> tuple[ModelSpec | None, Adapter | None]:
    """Return what a model is called, and the model itself if it was given.

    Raises:
        UsageError: The name is unknown, or it is neither a name nor an adapter.
    """
    if model is None:
        return None, None
    if isinstance(model, str):
        return resolve_model(model, model_args), None
    if not isinstance(model, Adapter):
        raise UsageError(
            f"model is a name or an adapter, not {type(model).__name__}",
            "An adapter is a subclass of capbench.adapters.Captioner, Encoder or Judge.",
        )
    name = getattr(model, "name", type(model).__name__)
    return ModelSpec(name, type(model).__qualname__, built=type(model)), model
