"""What every stage of a pipeline has in common: the rows that pass through it, and the models that it may ask."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from ...adapters import ImageHandle
from ...adapters.aliases import ModelSpec, Role, resolve_model
from ...adapters.images.reading import UnreadableImage
from ...errors import DataError, UsageError
from ...metrics.contract import Cache, NoCache
from ...registry import Registry
from ..training.schema import Strict
from .schema import PipelineModel


class RowFile:
    """Rows that were written to a file, and are read from its start as often as they are wanted.

    Attributes:
        path: The file.
        keys: The values that every row has.
        have_images: Whether every row has an image.

    Args:
        path: Where the file is written; the draft of one process, which goes with it.
        rows: The rows, in order; their values are JSON.
    """

    def __init__(self, path: Path, rows: Iterable[PipelineRow]) -> None:
        self.path = path
        self.keys: frozenset[str] = frozenset()
        self.have_images = True
        self._count = 0
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                image = None if row.image is None else str(row.image)
                file.write(json.dumps([row.id, image, row.values, row.provenance, row.image_digest]) + "\n")
                self.keys = self.keys.intersection(row.values) if self._count else frozenset(row.values)
                self.have_images &= row.image is not None
                self._count += 1

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._count

    def __iter__(self) -> Iterator[PipelineRow]:
        """Yield the rows, one at a time."""
        with self.path.open("rb") as lines:
            yield from map(PipelineRow.of_line, lines)

    def remove(self) -> None:
        """Remove the file; nobody reads the rows again."""
        self.path.unlink()


@dataclass(frozen=True)
class PipelineRow:
    """An image with what is known of it.

    Attributes:
        id: Its name.
        image: Its file; None for rows of texts alone.
        values: What was given, and what stages made.
        provenance: What each stage says of what it made: ``stage``, ``model``, ``prompt``, ``seed``, ``removed``, …
        passing: Whether another run may make more of it, as a model or its server failed; it is not kept then.
        image_digest: Tells the image from others: of the file's bytes, where they can be read.
    """

    id: str
    image: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    provenance: tuple[Mapping[str, Any], ...] = ()
    passing: bool = False
    image_digest: str = ""

    def having(self, stage: str, told: Mapping[str, Any], **values: Any) -> PipelineRow:
        """Return the row with what a stage made.

        Args:
            stage: The stage.
            told: What it says of where that came from.
            **values: What it made.
        """
        return replace(self, values={**self.values, **values}, provenance=(*self.provenance, {"stage": stage, **told}))

    @property
    def file(self) -> Path:
        """The image's file.

        Raises:
            DataError: There is none.
        """
        if self.image is None:
            raise DataError(f"row {self.id} has no image", "Give images with --data, or leave the stage out.")
        return self.image

    @property
    def pixels(self) -> ImageHandle:
        """The image; see ``file``."""
        return ImageHandle(self.file)

    @classmethod
    def of_line(cls, line: bytes) -> PipelineRow:
        """Return the row that a line of a :class:`RowFile` holds."""
        identity, image, values, provenance, digest = json.loads(line)
        return cls(identity, None if image is None else Path(image), values, tuple(provenance), image_digest=digest)


@dataclass(frozen=True)
class NotGenerated:
    """What a stage could not make of a row.

    Attributes:
        reason: Why, in words.
        passing: Whether another run may make it, as a model or its server failed; it is not kept then.
    """

    reason: str
    passing: bool = False


Generated: TypeAlias = PipelineRow | NotGenerated


def key_of(row: PipelineRow) -> str:
    """Return a text that changes with everything that a stage can see of a row; not with where its image lies."""
    return json.dumps([row.id, row.image_digest, row.values, list(row.provenance)], sort_keys=True, ensure_ascii=False)


def digest_of(*parts: object) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


ROLES: Mapping[str, Role] = {**{role: role for role in get_args(Role)}, "answerer": "captioner"}
"""What stages call a model to what it does; an answerer writes what it is asked for of an image."""


class PipelineModels:
    """Models that a pipeline names.

    Args:
        named: Role to the model.
        cache: What encoders' features are kept in.
    """

    def __init__(self, named: Mapping[str, PipelineModel], cache: Cache | None = None) -> None:
        self.choices = named
        self._loaded: dict[str, Any] = {}
        self.cache = NoCache() if cache is None else cache

    def __getitem__(self, role: str) -> Any:
        """Return the model of a role, loaded.

        Raises:
            UsageError: The pipeline names none, or one that does something else.
            BenchError: It could not be loaded.
        """
        if role not in self._loaded:
            self._loaded[role] = self.spec(role).load()
        return self._loaded[role]

    def spec(self, role: str) -> ModelSpec:
        """Return the model of a role; nothing is loaded.

        Raises:
            UsageError: As above.
        """
        named = self.named(role)
        spec = resolve_model(named.name, named.arguments)
        if spec.role != ROLES[role]:
            raise UsageError(
                f"the pipeline's {role} '{named.name}' is a {spec.role}", "'bench ls models' lists what there is."
            )
        return spec

    def named(self, role: str) -> PipelineModel:
        """Return the model that the pipeline names for a role.

        Raises:
            UsageError: It names none.
        """
        if role not in self.choices:
            raise UsageError(
                f"the pipeline names no {role}",
                f"Add 'models: {{{role}: {{name: NAME}}}}', or --set models.{role}.name=NAME.",
            )
        return self.choices[role]

    def name(self, role: str) -> str:
        """Return what the pipeline calls the model, and its weights where it names them; nothing is loaded."""
        return self.named(role).told

    def release(self, role: str) -> None:
        """Let go of a model."""
        self._loaded.pop(role, None)


@dataclass
class StageFacts:
    """What a report says of a stage.

    Attributes:
        name: What the pipeline calls it.
        given: Rows that it was given.
        kept: Whether rows that it made nothing of went on as they came.
        unmade: Id to the reason, of these.
        not_chosen: Reasons for which rows that it made were left out, with how many.
        counts: What its rows count, added up.
        left_out: Reasons for which parts of rows were left out, with how many.
        requests: Requests to a judge.
        found: Rows that had been made before.
    """

    name: str
    given: int
    kept: bool
    unmade: dict[str, str] = field(default_factory=dict[str, str])
    not_chosen: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    found: int = 0

    @property
    def made(self) -> int:
        """Rows that it made something of, and that were chosen."""
        return self.given - len(self.unmade) - self.not_chosen.total()

    def counting(self, rows: Iterable[PipelineRow]) -> Iterator[PipelineRow]:
        """Yield rows as they are, and count what the last stage says of each."""
        for row in rows:
            for told in row.provenance[-1:]:
                self.counts.update(told.get("counts", {}))
                self.left_out.update(told.get("left_out", {}).values())
                self.requests += told.get("requests", 0)
            yield row

    def to_values(self) -> dict[str, Any]:
        """Return the facts as JSON values; nothing in them is of one run, so that they are the same again."""
        names = ("name", "given", "made", "unmade", "kept", "not_chosen", "counts", "left_out", "requests")
        values = {name: getattr(self, name) for name in names}
        return values | {"left_out": dict(self.left_out.most_common())}


class StageSettings(Strict):
    """Keys that each stage has."""

    on_failure: Literal["leave_out", "keep"] = "leave_out"
    """A row that a stage can make nothing of is left out, or goes on as it came; it is named and counted anyway."""


class Stage(ABC):
    """Makes something of rows.

    What it makes of a row follows from its settings, its models, the pipeline's seed and the row alone, and is kept.

    Args:
        name: What the recipe calls it.
        settings: Its keys.
        seed: The pipeline's.
    """

    Settings: ClassVar[type[StageSettings]] = StageSettings
    roles: ClassVar[tuple[str, ...]] = ()
    """The models that it asks: ``captioner``, ``encoder``, ``judge``, ``segmenter``, ``detector``, ``painter``."""
    takes: ClassVar[tuple[str, ...]] = ()
    """The values that a row must have; ``{key}`` is the one that this key of the settings names, where it names one."""
    gives: ClassVar[tuple[str, ...] | None] = None
    """The values that a row has then besides those that it had, named alike; None where only the row can say."""
    shard: ClassVar[int] = 16
    """Rows that are made at once, and kept together."""
    chooses: ClassVar[bool] = False
    """Whether it looks at all rows that it made, and leaves some of them out; see :meth:`left_out`."""
    version: ClassVar[int] = 1
    """Raised when it makes something else of the same rows."""

    def __init__(self, name: str, settings: Any, seed: int) -> None:
        self.name = name
        self.settings = settings
        self.seed = seed

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return self._named(self.takes)

    def makes(self) -> Sequence[str] | None:
        """Return the values that a row has then, besides those that it had; None where only the row can say."""
        return None if self.gives is None else self._named(self.gives)

    def _named(self, values: Sequence[str]) -> list[str]:
        keys = [getattr(self.settings, one[1:-1]) if one[0] == "{" else one for one in values]
        return [key for key in keys if key is not None]

    def check(self) -> None:  # noqa: B027 - most need nothing
        """Raise if something that it needs beside its models is not on this machine; nothing is loaded.

        Raises:
            BenchError: The hint says how to get it.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Return what of the stage itself decides what it makes."""
        return {
            "stage": type(self).__name__,
            "version": self.version,
            # A value's name is in the rows that it makes.
            "name": self.name,
            "settings": self.settings.model_dump(mode="json", exclude={"on_failure"}),
            "seed": self.seed,
        }

    @abstractmethod
    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[Generated]:
        """Return what is made of each row, in order.

        Raises:
            BenchError: The stage failed as a whole.
        """

    def left_out(self, rows: Iterable[PipelineRow]) -> Mapping[int, str]:
        """Return why some of the rows that it made do not go on, by their number among all; of a stage that chooses.

        Args:
            rows: All that it made, to be looked at one after the other.
        """
        return {}


class RowStage(Stage):
    """A stage that makes something of each row by itself."""

    @abstractmethod
    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return what is made of a row.

        Raises:
            UnreadableImage: Nothing is made of it, as its image cannot be read.
        """

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[Generated]:
        """Return what is made of each row, in order."""
        made: list[Generated] = []
        for row in rows:
            try:
                made.append(self.make(row, models))
            except UnreadableImage as error:
                made.append(NotGenerated(f"image: {error}"))
        return made


stages: Registry[type[Stage]] = Registry(
    "stage",
    {
        "boxes": "capbench.recipes.data_synthesis.stages.masks:Boxes",
        "caption": "capbench.recipes.data_synthesis.stages.caption:CaptionStage",
        "check_negatives": "capbench.recipes.data_synthesis.stages.check_negatives:CheckNegatives",
        "clip_scores": "capbench.recipes.data_synthesis.stages.check_negatives:ClipScores",
        "describe_masks": "capbench.recipes.data_synthesis.stages.masks:DescribeMasks",
        "first_summary": "capbench.recipes.data_synthesis.stages.entries:FirstSummary",
        "further_images": "capbench.recipes.data_synthesis.stages.further_images:FurtherImages",
        "masks": "capbench.recipes.data_synthesis.stages.masks:Masks",
        "merge": "capbench.recipes.data_synthesis.stages.merge:Merge",
        "more_summaries": "capbench.recipes.data_synthesis.stages.entries:MoreSummaries",
        "negatives": "capbench.recipes.data_synthesis.stages.entries:Negatives",
        "phrase_filter": "capbench.recipes.data_synthesis.stages.phrase_filter:PhraseFilter",
        "select": "capbench.recipes.data_synthesis.stages.elements:Select",
    },
    entry_points="capbench.stages",
)

register_stage = stages.register
