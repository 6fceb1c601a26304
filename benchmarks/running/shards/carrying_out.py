"""Where the units of a run are carried out: in this process, or by an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ....adapters import Captioned, CaptionRequest, ImageHandle, VideoHandle
from ....adapters.pixels.handles import digests
from ....errors import UnitsLeftError, counted
from ....metrics import Items
from ....progress import Progress, silent
from ...inputs.encoding import AnyEncoded, encoded_of_arrays
from ...inputs.models import ModelFacts, Models, added_up, facts_of_loaded
from ..units import Stage, Unit, WorkSpec
from .shelf import Shelf, derived
from .work import RunWork, facts_key

_Given = TypeVar("_Given", Sequence[CaptionRequest], Items)
_Made = TypeVar("_Made")


class CarriedOut(Protocol):
    """What an engine says of a unit."""

    @property
    def unit(self) -> Unit:
        """The unit as it was carried out: perhaps without some documents."""
        ...


class OutcomeOfUnits(Protocol):
    """What an engine says of all units."""

    @property
    def units(self) -> Mapping[str, CarriedOut]:
        """What became of each, by the key that was asked for."""
        ...

    @property
    def waiting(self) -> int:
        """How many are handed to a queue, and not done."""
        ...


class UnitEngine(Protocol):
    """Carries out units on workers that open their own work; ``engines/`` has them."""

    def carry_out(
        self,
        spec: WorkSpec,
        units: Iterable[Unit],
        *,
        report: Callable[[Any], object] = ...,
        folder: Path | None = ...,
    ) -> OutcomeOfUnits:
        """Carry out units, each after those that it needs."""
        ...


class Hands(Protocol):
    """Carries out the units of one run."""

    def carry_out(self, units: Iterable[Unit], step: str = "units") -> list[Unit]:
        """Carry out units; return each as it was in the end.

        Raises:
            BenchError: One cannot be carried out.
        """
        ...

    def facts(self, units: Sequence[Unit]) -> dict[str, ModelFacts]:
        """Return what is known of the models that units used, by their role."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Carries out units at once, in this process."""

    work: RunWork
    models: Models

    def carry_out(self, units: Iterable[Unit], step: str = "units") -> list[Unit]:
        """Carry out each unit as it comes."""
        done: list[Unit] = []
        for unit in units:
            self.work.run_unit(unit)
            done.append(unit)
        return done

    def facts(self, units: Sequence[Unit]) -> dict[str, ModelFacts]:
        """Return what is known of the models of this process."""
        return facts_of_loaded(self.models)


@dataclass(frozen=True)
class Elsewhere:
    """Carries out units by an engine.

    Attributes:
        engine: The engine.
        spec: How its workers open their work.
        shelf: Where they leave what they made.
        models: Models of this process besides: recorded captions, which cost nothing to have again.
        folder: Where the engine writes how far it is; None: nowhere.
        progress: Gives a reporter for a step.
    """

    engine: UnitEngine
    spec: WorkSpec
    shelf: Shelf
    models: Models
    folder: Path | None = None
    progress: Progress = silent

    def carry_out(self, units: Iterable[Unit], step: str = "units") -> list[Unit]:
        """Hand units to the engine.

        Raises:
            BenchError: As of :class:`Hands`.
            UnitsLeftError: They are handed to a queue, and not done.
        """
        report = self.progress(step)
        folder = self.folder and self.folder / step
        outcome = self.engine.carry_out(
            self.spec, units, report=lambda advance: report(advance.done, advance.units), folder=folder
        )
        if outcome.waiting:
            raise UnitsLeftError(
                f"{counted(outcome.waiting, 'unit')} left for the queue; what submits the jobs: sh {folder}/submit.sh",
                f"'bench status {folder}' says how far they are; when they are through, the same command goes on.",
            )
        return [one.unit for one in outcome.units.values()]

    def facts(self, units: Sequence[Unit]) -> dict[str, ModelFacts]:
        """Return what the units say of their models."""
        found: dict[str, list[ModelFacts]] = {}
        for unit in units:
            if self.shelf.has(facts_key(unit)):
                facts = ModelFacts.of_array(self.shelf.arrays(facts_key(unit))["facts"])
                found.setdefault(unit.pool, []).append(facts)
        own = facts_of_loaded(self.models)
        return {**own, **{role: added_up(facts, role) for role, facts in found.items()}}


@dataclass
class ModelAsked(ABC, Generic[_Given, _Made]):
    """Has a model work on shards by units.

    Attributes:
        hands: Carries them out.
        shelf: Where they find what they are given, and leave what they made.
        model: What tells the model from others: part of the units' keys.
        units: Those that were carried out.
    """

    hands: Hands
    shelf: Shelf
    model: str
    units: Sequence[Unit] = ()

    stage: ClassVar[Stage]
    pool: ClassVar[str]
    step: ClassVar[str]
    """What people call it. Units that score are of another: a queue would take the two for one another."""

    def __call__(self, shards: Iterable[_Given]) -> Iterator[_Made]:
        """Yield what the model made of each shard, in order, once it has done all."""
        units = (self._unit(number, given) for number, given in enumerate(shards))
        self.units = self.hands.carry_out(units, self.step)
        for unit in self.units:
            made, is_whole = self.made(unit.key)
            if not is_whole:
                # The next run tries again.
                self.shelf.drop(unit.key)
            yield made

    def _unit(self, number: int, given: _Given) -> Unit:
        inputs = (self.shelf.add(given),)
        # What a file holds may change, while its name does not. It is looked at when the unit is taken up.
        key = derived(self.stage, self.model, *inputs, *map(str, digests(self.pixels(given))))
        return Unit(key, self.stage, self.step, number, (0, len(given)), pool=self.pool, inputs=inputs)

    @abstractmethod
    def pixels(self, given: _Given) -> Sequence[ImageHandle | VideoHandle]:
        """Return what the model looks at."""

    @abstractmethod
    def made(self, key: str) -> tuple[_Made, bool]:
        """Return what a unit made, and whether nothing failed that another go might mend."""


class Captions(ModelAsked[Sequence[CaptionRequest], Captioned]):
    """Has a captioner asked by units."""

    stage, pool, step = "caption", "captioner", "captions"

    def pixels(self, given: Sequence[CaptionRequest]) -> Sequence[ImageHandle | VideoHandle]:
        """Return the images of requests."""
        return [one.pixels for one in given if one.pixels is not None]

    def made(self, key: str) -> tuple[Captioned, bool]:
        """Return the answers."""
        captioned = self.shelf.captions(key)
        return captioned, not captioned.failures


class Encodings(ModelAsked[Items, AnyEncoded]):
    """Has items encoded by units."""

    stage, pool, step = "encode", "encoder", "features"

    def pixels(self, given: Items) -> Sequence[ImageHandle | VideoHandle]:
        """Return the images of items."""
        return given.images

    def made(self, key: str) -> tuple[AnyEncoded, bool]:
        """Return the features, or scores of pairs."""
        encoded = encoded_of_arrays(self.shelf.arrays(key))
        return encoded, encoded.is_whole
