"""Where the units of a run are carried out: in this process, or by an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ....adapters import Captioned, CaptionRequest
from ....adapters.pixels.handles import digests
from ....errors import EngineError
from ....metrics import Items
from ....progress import Progress, silent
from ...inputs.encoding import EncodedItems
from ...inputs.models import ModelFacts, Models, added_up, facts_of_loaded
from ..units import Unit, WorkSpec
from .shelf import Shelf, derived
from .work import RunWork, facts_key


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
            BenchError: As of :class:`Hands`; or they are handed to a queue, and not done.
        """
        report = self.progress(step)
        folder = self.folder and self.folder / step
        outcome = self.engine.carry_out(
            self.spec, units, report=lambda advance: report(advance.done, advance.units), folder=folder
        )
        if outcome.waiting:
            raise EngineError(
                f"{outcome.waiting:,} units wait for the queue: sh {folder}/submit.sh submits them",
                f"'bench status {folder}' says how far they are; the same command again goes on from there.",
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
class Captions:
    """Has a captioner asked by units.

    Attributes:
        hands: Carries them out.
        shelf: Where they find what they ask, and leave the answers.
        captioner: What produces the captions: part of the units' keys.
    """

    hands: Hands
    shelf: Shelf
    captioner: str
    units: Sequence[Unit] = ()

    def __call__(self, requests: Iterable[Sequence[CaptionRequest]]) -> Iterator[Captioned]:
        """Yield the answers to requests, shard by shard, once all are asked."""
        units = (self._unit(number, some) for number, some in enumerate(requests))
        self.units = self.hands.carry_out(units, "captions")
        for unit in self.units:
            given = self.shelf.captions(unit.key)
            if given.failures:
                # The next run asks again.
                self.shelf.drop(unit.key)
            yield given

    def _unit(self, number: int, some: Sequence[CaptionRequest]) -> Unit:
        given = self.shelf.add(list(some))
        key = derived("caption", self.captioner, given)
        return Unit(key, "caption", "captions", number, (0, len(some)), pool="captioner", inputs=(given,))


@dataclass
class Encodings:
    """Has items encoded by units.

    Attributes:
        hands: Carries them out.
        shelf: Where they find what they encode, and leave the features.
        encoder: What produces the features: part of the units' keys.
    """

    hands: Hands
    shelf: Shelf
    encoder: str
    units: Sequence[Unit] = ()

    def __call__(self, shards: Iterable[Items]) -> Iterator[EncodedItems]:
        """Yield the features of items, shard by shard, once all are encoded."""
        units = (self._unit(number, items) for number, items in enumerate(shards))
        # Not where the units that score are written: a queue takes the two for one another.
        self.units = self.hands.carry_out(units, "features")
        for unit in self.units:
            made = EncodedItems.of_arrays(self.shelf.arrays(unit.key))
            if made.images.failures or made.texts.failures:
                # The next run tries again.
                self.shelf.drop(unit.key)
            yield made

    def _unit(self, number: int, items: Items) -> Unit:
        given = self.shelf.add(items)
        # What a file holds may change, while its name does not.
        key = derived("encode", self.encoder, given, *map(str, digests(items.images)))
        return Unit(key, "encode", "features", number, (0, len(items)), pool="encoder", inputs=(given,))
