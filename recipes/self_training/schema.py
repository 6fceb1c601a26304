"""The keys of a self-training loop: pipeline, training recipe, number of turns and evaluation tasks."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from ...access import Request, requests_of
from ...boundary import HINT, OUTSIDE, Boundary
from ...errors import UsageError, did_you_mean
from ...permissions import is_installed
from ...tasks.yaml_files import ParsedFile
from ..data_synthesis.schema import LoadedPipeline
from ..training.schema import JudgeTask, Loaded, LoadedRecipe, Positive, RecipeDocument, Strict, change_value

FOLDER = Path(__file__).parent / "loops"
"""Loops that ship."""
_T = TypeVar("_T")


class SynthesisPart(Strict):
    """How a turn makes its data."""

    recipe: str
    """A pipeline that ships, or a file next to the loop's."""
    data: str
    """Input of each turn, as for ``bench make --data``; a path is relative to the loop's file."""
    limit: Positive | None = None
    """The maximum number of input rows."""
    set: list[str] = Field(default_factory=list)
    """A list of ``KEY=VALUE``, as for ``bench make --set``."""


class TrainingPart(Strict):
    """How a turn trains; each turn starts from the recipe's model."""

    recipe: str
    """A training recipe that ships, or a file next to the loop's; its data are replaced by the turn's."""
    set: list[str] = Field(default_factory=list)
    """A list of ``KEY=VALUE``, as for ``bench train --set``."""


class SelfLoop(RecipeDocument):
    """A loop: each of ``turns`` makes data with the previous turn's captioner and trains a captioner."""

    loop: str
    """Its name."""
    captioner: str
    """An alias, or a folder with a ``model.yaml``: the captioner of turn 0, which later turns are compared with."""
    make: SynthesisPart
    """How each turn makes its data."""
    train: TrainingPart
    """How each turn trains on them."""
    turns: Positive
    """The number of turns."""
    judge: Annotated[list[JudgeTask], Field(min_length=1)]
    """Tasks that evaluate the captioner of each turn; the figure shows the first metric of the first task."""


class LoadedLoop(Loaded[SelfLoop]):
    """A loop with its file, its pipeline and its training recipe; see :class:`Loaded`.

    Raises:
        UsageError: The pipeline or the recipe is missing or invalid.
    """

    kind = "loop"
    folder = FOLDER
    Document = SelfLoop

    def __init__(self, loop: SelfLoop, parsed: ParsedFile, changed: Mapping[str, str]) -> None:
        super().__init__(loop, parsed, changed)
        self.loop = loop
        self._pipeline = self._beside("make", "pipeline", LoadedPipeline.shipped())
        self._recipe = self._beside("train", "training recipe", LoadedRecipe.shipped())
        path = self.folder_of("make", "data") / Path(loop.make.data).expanduser()
        self.data = str(path) if path.exists() or "/" in loop.make.data else loop.make.data
        """Input of the pipeline: a path, or the name of a task."""
        pipeline = self._placed("make", LoadedPipeline.load, self._pipeline, loop.make.set)
        if "captioner" not in pipeline.pipeline.models:
            raise UsageError(
                f"{parsed.where('make', 'recipe')}: pipeline '{loop.make.recipe}' uses no captioner: all turns would "
                "make the same data.",
                "Name one with a stage 'caption', such as detailcaps_synthesis.",
            )
        self.recipe()

    @property
    def requests(self) -> list[Request]:
        """Permissions that the file, its pipeline and its training recipe request."""
        parsed, asked = self.parsed, super().requests
        for section, part in (("make", self.loop.make), ("train", self.loop.train)):
            if f"{section}.set" not in self.changed:
                place = parsed.where(section, "set")
                values: dict[str, Any] = {}
                for change in part.set:
                    change_value(values, change)
                asked += requests_of(values, parsed.path, lambda *keys, place=place: place)
        return [*asked, *self.pipeline(self.loop.captioner).requests, *self.recipe().requests]

    def pipeline(self, captioner: str) -> LoadedPipeline:
        """Return the pipeline of a turn, with its captioner.

        Raises:
            UsageError: Each fault of its file, with the line.
        """
        named = [f"models.captioner.name={json.dumps(captioner)}", f"seed={self.loop.seed}"]
        return self._placed("make", LoadedPipeline.load, self._pipeline, [*self.loop.make.set, *named])

    def recipe(self, rows: Path | None = None) -> LoadedRecipe:
        """Return the training recipe of a turn, with the evaluation tasks of the loop.

        Args:
            rows: The turn's data; None for what does not depend on them.

        Raises:
            UsageError: Each fault of its file, with the line.
        """
        changes = [*self.loop.train.set, f"seed={self.loop.seed}", "judge=[]", "probe=null"]
        if rows is not None:
            changes += ["data.task=null", "data.reader=null", "data.arguments={}"]
            changes += [f"data.file={json.dumps(str(rows.absolute()))}"]
        return self._placed("train", LoadedRecipe.load, self._recipe, changes)

    def fingerprint(self) -> str:
        """Return a hash of everything that determines the result of a turn and its evaluation, without their number."""
        loop = self.loop
        parts = [
            loop.captioner,
            self.pipeline(loop.captioner).pipeline.fingerprint(),
            self.data,
            loop.make.limit,
            self.recipe().recipe.fingerprint(),
            [judge.model_dump(mode="json") for judge in loop.judge],
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _beside(self, section: str, kind: str, shipped: Mapping[str, Path]) -> str:
        """Return a section's recipe: its name, or the path of a file next to the loop's."""
        named = getattr(self.loop, section).recipe
        path = self.folder_of(section, "recipe") / Path(named).expanduser()
        boundary = Boundary.around(self.parsed.path)
        if f"{section}.recipe" not in self.changed and not (boundary.holds(path) or is_installed(path)):
            raise UsageError(f"{self.parsed.where(section, 'recipe')}: {named} {OUTSIDE}", HINT)
        if named in shipped or path.is_file():
            return named if named in shipped else str(path)
        raise UsageError(
            f"{self.parsed.where(section, 'recipe')}: there is no {kind} '{named}'.{did_you_mean(named, shipped)}",
            f"Name a file next to the loop's, or one that ships: {', '.join(shipped)}.",
        )

    def _placed(self, section: str, load: Callable[[str, Sequence[str]], _T], named: str, changes: Sequence[str]) -> _T:
        """Load a recipe with changes; errors also name the section."""
        try:
            return load(named, changes)
        except UsageError as error:
            raise UsageError(f"{self.parsed.where(section)}: {error.message}", error.hint) from error


list_loops, load_loop = LoadedLoop.shipped, LoadedLoop.load
