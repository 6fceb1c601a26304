"""The interface of pipeline stages: rows, models and the ``Stage`` base class."""

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
from ..training.schema import ModelChoice, Strict


class RowFile:
    """Rows in a file, which can be iterated several times.

    Attributes:
        path: The file.
        keys: Names of the values that every row has.
        have_images: Whether every row has an image.

    Args:
        path: Where the file is written; a temporary file of this process.
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
        """Return the number of rows."""
        return self._count

    def __iter__(self) -> Iterator[PipelineRow]:
        """Yield the rows, one at a time."""
        with self.path.open("rb") as lines:
            yield from map(PipelineRow.of_line, lines)


@dataclass(frozen=True)
class PipelineRow:
    """An image with its values.

    Attributes:
        id: Its name.
        image: Its file; None for rows with texts only.
        values: Values of the data and of stages.
        provenance: A record of each stage: ``stage``, ``model``, ``prompt``, ``seed``, ``removed``, …
        passing: Whether a model or its server failed temporarily; the row is not cached, and the next run retries.
        image_digest: Hash of the file's bytes, if they can be read.
    """

    id: str
    image: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    provenance: tuple[Mapping[str, Any], ...] = ()
    passing: bool = False
    image_digest: str = ""

    def having(self, stage: str, about: Mapping[str, Any], **values: Any) -> PipelineRow:
        """Return the row with the values of a stage.

        Args:
            stage: The stage.
            about: Its record for ``provenance``.
            **values: The values that it made.
        """
        return replace(self, values={**self.values, **values}, provenance=(*self.provenance, {"stage": stage, **about}))

    @property
    def file(self) -> Path:
        """The image's file.

        Raises:
            DataError: The row has no image.
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
        """Parse a line of a :class:`RowFile`."""
        identity, image, values, provenance, digest = json.loads(line)
        return cls(identity, None if image is None else Path(image), values, tuple(provenance), image_digest=digest)


@dataclass(frozen=True)
class NotGenerated:
    """A row for which a stage could not make anything.

    Attributes:
        reason: Why.
        passing: Whether a model or its server failed temporarily; it is not cached, and the next run retries.
    """

    reason: str
    passing: bool = False


Generated: TypeAlias = PipelineRow | NotGenerated


def key_of(row: PipelineRow) -> str:
    """Return the cache key of a row: all its content, without the location of its image."""
    return json.dumps([row.id, row.image_digest, row.values, list(row.provenance)], sort_keys=True, ensure_ascii=False)


def digest_of(*parts: object) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


ROLES: Mapping[str, Role] = {**{role: role for role in get_args(Role)}, "answerer": "captioner"}
"""Role in a pipeline to role of the model; an answerer answers prompts about an image."""


class PipelineModels:
    """The models of a pipeline, loaded on first use.

    Args:
        named: Role to the model.
        cache: The cache of encoder features.
    """

    def __init__(self, named: Mapping[str, ModelChoice], cache: Cache | None = None) -> None:
        self.choices = named
        self._loaded: dict[str, Any] = {}
        self.cache = NoCache() if cache is None else cache

    def __getitem__(self, role: str) -> Any:
        """Return the model of a role, loaded.

        Raises:
            UsageError: The pipeline names none, or one with another role.
            BenchError: It could not be loaded.
        """
        if role not in self._loaded:
            self._loaded[role] = self.spec(role).load()
        return self._loaded[role]

    def spec(self, role: str) -> ModelSpec:
        """Return the model of a role without loading it.

        Raises:
            UsageError: As above.
        """
        named = self.named(role)
        spec = resolve_model(named.name, named.arguments)
        if spec.role != ROLES[role]:
            raise UsageError(
                f"models.{role}: '{named.name}' has the role {spec.role}, not {ROLES[role]}",
                "'bench ls models' lists models.",
            )
        return spec

    def named(self, role: str) -> ModelChoice:
        """Return the model that the pipeline names for a role.

        Raises:
            UsageError: It names none.
        """
        if role not in self.choices:
            raise UsageError(
                f"models.{role}: a stage needs it, and the pipeline names none",
                f"Add 'models: {{{role}: {{name: NAME}}}}', or --set models.{role}.name=NAME.",
            )
        return self.choices[role]

    def name(self, role: str) -> str:
        """Return the model's name in the pipeline, and its weights if named, without loading it."""
        return self.named(role).label

    def release(self, role: str) -> None:
        """Drop a loaded model."""
        self._loaded.pop(role, None)


@dataclass
class StageFacts:
    """Statistics of a stage for the report.

    Attributes:
        name: Its name in the pipeline.
        given: The number of input rows.
        kept: Whether rows that failed went on unchanged.
        unmade: Id to the reason, of rows that failed.
        not_chosen: Reason to the number of rows that were filtered out.
        counts: Sums of the counts of its rows.
        left_out: Reason to the number of parts of rows that were left out.
        requests: The number of requests to a judge.
        reused: The number of rows from the cache.
    """

    name: str
    given: int
    kept: bool
    unmade: dict[str, str] = field(default_factory=dict[str, str])
    not_chosen: Counter[str] = field(default_factory=Counter[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    reused: int = 0

    @property
    def made(self) -> int:
        """The number of output rows without those that failed."""
        return self.given - len(self.unmade) - self.not_chosen.total()

    def counting(self, rows: Iterable[PipelineRow]) -> Iterator[PipelineRow]:
        """Yield rows unchanged, and add up the last stage's record of each."""
        for row in rows:
            for record in row.provenance[-1:]:
                self.counts.update(record.get("counts", {}))
                self.left_out.update(record.get("left_out", {}).values())
                self.requests += record.get("requests", 0)
            yield row

    def to_values(self) -> dict[str, Any]:
        """Return the facts as JSON values; they do not depend on the run."""
        names = ("name", "given", "made", "unmade", "kept", "not_chosen", "counts", "left_out", "requests")
        values = {name: getattr(self, name) for name in names}
        return values | {"left_out": dict(self.left_out.most_common())}


class StageSettings(Strict):
    """Keys of every stage."""

    on_failure: Literal["leave_out", "keep"] = "leave_out"
    """Whether a row that fails is left out or goes on unchanged; the report names and counts it."""


class Stage(ABC):
    """A step that adds values to rows.

    The result for a row depends on the settings, the models, the pipeline's seed and the row only, and is cached.

    Args:
        name: Its name in the pipeline.
        settings: Its keys.
        seed: The pipeline's.
    """

    Settings: ClassVar[type[StageSettings]] = StageSettings
    roles: ClassVar[tuple[str, ...]] = ()
    """Models that it uses: ``captioner``, ``encoder``, ``judge``, ``segmenter``, ``detector``, ``painter``."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Values that a row must have; ``{key}`` stands for the value that this setting names, if any."""
    gives: ClassVar[tuple[str, ...] | None] = None
    """Names of the values that it adds, with the same ``{key}``; None if they depend on the row."""
    shard: ClassVar[int] = 16
    """Rows per shard: processed and cached together."""
    chooses: ClassVar[bool] = False
    """Whether it filters its rows after all are made; see :meth:`left_out`."""
    version: ClassVar[int] = 1
    """To be raised when its results for the same rows change."""

    def __init__(self, name: str, settings: Any, seed: int) -> None:
        self.name = name
        self.settings = settings
        self.seed = seed

    def reads(self) -> Sequence[str]:
        """Return the names of the values that a row must have."""
        return self._named(self.takes)

    def makes(self) -> Sequence[str] | None:
        """Return the names of the values that it adds; None if they depend on the row."""
        return None if self.gives is None else self._named(self.gives)

    def _named(self, values: Sequence[str]) -> list[str]:
        keys = [getattr(self.settings, value[1:-1]) if value[0] == "{" else value for value in values]
        return [key for key in keys if key is not None]

    def check(self) -> None:  # noqa: B027 - most need nothing
        """Raise if a requirement other than its models is missing on this machine; nothing is loaded.

        Raises:
            BenchError: The hint tells how to install it.
        """

    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the stage's results: class, version, name, settings and seed."""
        return {
            "stage": type(self).__name__,
            "version": self.version,
            # A value's name is in the rows that it makes.
            "name": self.name,
            "settings": self.settings.model_dump(mode="json", exclude={"on_failure"}),
            "seed": self.seed,
        }

    @abstractmethod
    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterable[Generated]:
        """Return what is made of each row, in order.

        Raises:
            BenchError: The stage failed as a whole.
        """

    def left_out(self, rows: Iterable[PipelineRow]) -> Mapping[int, str]:
        """Return the rows to be filtered out: position to the reason.

        Args:
            rows: All rows that it made, as a stream.
        """
        return {}


class RowStage(Stage):
    """A stage that processes each row independently."""

    @abstractmethod
    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return the result for a row.

        Raises:
            UnreadableImage: Its image cannot be read.
        """

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield what is made of each row, in order."""
        for row in rows:
            try:
                yield self.make(row, models)
            except UnreadableImage as error:
                yield NotGenerated(f"image: {error}")


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
        "spacy_negatives": "capbench.recipes.data_synthesis.stages.spacy_negatives:SpacyNegatives",
    },
    entry_points="capbench.stages",
)
