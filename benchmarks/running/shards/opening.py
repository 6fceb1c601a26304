"""Opens the work of a run in any process, from what its call was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ....allocation import give_back_large_blocks
from ....metrics import Need
from ....tasks.documents import load_documents
from ...inputs.metric_names import read_metric
from ...inputs.models import ROLES, NamedModels
from ...store.objects.opening import open_objects
from ...store.store import Store
from ..plan import PlannedRun
from ..planned_metrics import plan_metric
from ..resolve import ResolvedCall, load_models, resolve_call, resolve_named_or_given
from ..units import WorkSpec
from .codec import Originals
from .folder_shelf import FolderShelf, ObjectShelf
from .models import LoadedWhenAsked
from .shelf import Shelf
from .work import RunWork

FACTORIES = (f"{__name__}:open_task", f"{__name__}:open_rows")
"""What opens the work of runs and of scores."""


@dataclass(frozen=True)
class Place:
    """Where the processes of a run meet.

    Attributes:
        folder: The folder of the run on this machine.
        objects: URL of shared results.
        identity: Identity of these, by which a worker knows that it came to the same place.
        store: The store of each machine, with what is known item by item.
    """

    folder: str
    store: str
    objects: str | None = None
    identity: str | None = None

    @property
    def shared_folder(self) -> str | None:
        """The folder that all machines must see; None where they share objects."""
        return self.folder if self.objects is None else None

    def shelf(self, originals: Originals) -> Shelf:
        """Open the shelf, for shard after shard."""
        give_back_large_blocks()
        here = FolderShelf(Path(self.folder), originals)
        if self.objects is None:
            return here
        return ObjectShelf(open_objects(self.objects, self.identity), here, originals)


def work_of_task(call: Mapping[str, Any], task: str, place: Place, batch_size: int | None) -> WorkSpec:
    """Return how a worker opens its work for one task of a call.

    Args:
        call: What :func:`~..resolve.resolve_call` was given, as JSON values.
        task: The task.
        place: Where the processes meet.
        batch_size: As of ``RunSettings``.
    """
    arguments = {"call": {**call, "tasks": [task]}, "place": vars(place), "batch_size": batch_size}
    return WorkSpec(FACTORIES[0], arguments, place.shared_folder)


def open_task(call: Mapping[str, Any], place: Mapping[str, Any], batch_size: int | None) -> RunWork:
    """Open the work of one task."""
    resolved = resolve_call(**call)
    (planned,) = resolved.plan
    meeting = Place(**place)
    return RunWork(
        planned.metrics,
        meeting.shelf(Originals(_documents(planned, resolved), planned.pixels)),
        _when_asked(resolved.models),
        Store(Path(meeting.store)),
        batch_size=batch_size,
    )


def work_of_rows(
    metrics: Sequence[str],
    place: Place,
    models: Mapping[str, tuple[str, str]],
) -> WorkSpec:
    """Return how a worker opens its work for captions outside any task.

    Args:
        metrics: Names of the metrics.
        place: Where the processes meet.
        models: Role to the name of a model and the arguments of its adapter.
    """
    arguments = {"metrics": list(metrics), "place": vars(place), "models": dict(models)}
    return WorkSpec(FACTORIES[1], arguments, place.shared_folder)


def open_rows(
    metrics: Sequence[str], place: Mapping[str, Any], models: Mapping[str, Sequence[str]]
) -> RunWork:
    """Open the work of captions outside any task."""
    offers: set[Need] = {"references", "objects", "image", "boxes"}
    offers.update(role for role in ("encoder", "judge") if role in models)
    planned = [plan_metric(read_metric(name), frozenset(offers)) for name in metrics]
    meeting = Place(**place)
    named = NamedModels(**{role: resolve_named_or_given(*one)[0] for role, one in models.items()})
    return RunWork(planned, meeting.shelf(Originals()), _when_asked(named), Store(Path(meeting.store)))


def _documents(planned: PlannedRun, resolved: ResolvedCall) -> Callable[[], Any]:
    @cache
    def rows() -> Any:
        return load_documents(planned.task, planned.path, resolved.locations).rows

    return rows


def _when_asked(named: NamedModels) -> LoadedWhenAsked:
    return LoadedWhenAsked(
        {
            role: lambda role=role: getattr(load_models(named, roles=(role,)), role)
            for role in ROLES
            if getattr(named, role) is not None
        }
    )
