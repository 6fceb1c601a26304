"""What every stage of a maker has in common: rows go in, and as many rows or reasons come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ...registry import Registry
from ..training.schema import Strict
from .models import MakerModels
from .rows import Made, MakingRow


@dataclass
class StageFacts:
    """What a report says of a stage.

    Attributes:
        name: What the maker calls it.
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

    def counting(self, rows: Iterable[MakingRow]) -> Iterator[MakingRow]:
        """Yield rows as they are, and count what the last stage says of each."""
        for row in rows:
            for told in row.provenance[-1:]:
                self.counts.update(told.get("counts", {}))
                self.left_out.update(told.get("left_out", {}).values())
                self.requests += told.get("requests", 0)
            yield row

    def to_values(self) -> dict[str, Any]:
        """Return the facts as JSON values; nothing in them is of one run, so that they are the same again."""
        return {
            "name": self.name,
            "given": self.given,
            "made": self.made,
            "unmade": self.unmade,
            "kept": self.kept,
            "not_chosen": dict(self.not_chosen),
            "counts": dict(self.counts),
            "left_out": dict(self.left_out.most_common()),
            "requests": self.requests,
        }


class StageSettings(Strict):
    """Keys that each stage has."""

    on_failure: Literal["leave_out", "keep"] = "leave_out"
    """A row that a stage can make nothing of is left out, or goes on as it came; it is named and counted anyway."""


class Stage(ABC):
    """Makes something of rows.

    What it makes of a row follows from its settings, its models, the maker's seed and the row alone, so that it can be
    kept.

    Args:
        name: What the recipe calls it.
        settings: Its keys.
        seed: The maker's.
    """

    Settings: ClassVar[type[StageSettings]] = StageSettings
    roles: ClassVar[tuple[str, ...]] = ()
    """The models that it asks: ``captioner``, ``encoder``, ``judge``, ``segmenter``, ``detector``, ``painter``."""
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
        return ()

    def makes(self) -> Sequence[str] | None:
        """Return the values that a row has then, besides those that it had; None where only the row can say."""
        return None

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
    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return what is made of each row, in order.

        Raises:
            BenchError: The stage failed as a whole.
        """

    def left_out(self, rows: Iterable[MakingRow]) -> Mapping[int, str]:
        """Return why some of the rows that it made do not go on, by their number among all; of a stage that chooses.

        Args:
            rows: All that it made, to be looked at one after the other.
        """
        return {}


stages: Registry[type[Stage]] = Registry(
    "stage",
    {
        "boxes": "capbench.recipes.making.stages.masks:Boxes",
        "caption": "capbench.recipes.making.stages.caption:CaptionStage",
        "check_negatives": "capbench.recipes.making.stages.check_negatives:CheckNegatives",
        "clip_scores": "capbench.recipes.making.stages.check_negatives:ClipScores",
        "describe_masks": "capbench.recipes.making.stages.masks:DescribeMasks",
        "first_summary": "capbench.recipes.making.stages.entries:FirstSummary",
        "further_images": "capbench.recipes.making.stages.further_images:FurtherImages",
        "masks": "capbench.recipes.making.stages.masks:Masks",
        "merge": "capbench.recipes.making.stages.merge:Merge",
        "more_summaries": "capbench.recipes.making.stages.entries:MoreSummaries",
        "negatives": "capbench.recipes.making.stages.entries:Negatives",
        "phrase_filter": "capbench.recipes.making.stages.phrase_filter:PhraseFilter",
        "select": "capbench.recipes.making.stages.select:Select",
    },
    entry_points="capbench.stages",
)

register_stage = stages.register
