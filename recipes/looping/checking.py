"""Looks before work starts whether each part of a loop can read what the one before it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...access import require_permitted
from ...adapters.aliases import resolve_model
from ...errors import AdapterError, BenchError, MetricError, UsageError, as_one
from ...permissions import Permissions, permit
from ..making import making
from ..making.contract import MakingRow
from ..making.schema import Maker
from ..making.sources import read_given
from ..training import carrying_out as training
from ..training.judging import require_judges
from .call import LoopCall

_DRY = "rows.jsonl"
_OF_ROWS = ("id", "image", "box", "group")
"""Keys of training rows that hold no texts."""


def dry_run(call: LoopCall) -> Iterator[tuple[str, str]]:
    """Check everything without making, training or judging, and yield what would be done: a label and a value each.

    The training recipe is held against rows as the maker writes them: as many as it is given, each with the columns
    that its output names. Models and data of tasks that cannot be had are named when all else is told.

    Raises:
        BenchError: A part of the loop does not do, or not with the part before it; or something cannot be had.
    """
    loaded, loop = call.loaded, call.loaded.loop
    require_permitted(loaded.requests)
    _require_captioners(call)
    making_call = call.making(loop.captioner, "turn-1")
    _require_data(call)
    maker = making_call.loaded.maker
    if maker.output.form != "rows":
        raise UsageError(
            f"{loaded.parsed.where('make', 'recipe')}: maker '{maker.maker}' writes a folder of the form "
            f"'{maker.output.form}', which no training recipe reads.",
            "Name a maker whose output has the form 'rows'.",
        )
    missing: list[BenchError] = []
    yield "loop", loop.loop
    yield "captioner", loop.captioner
    yield "turns", f"{loop.turns:,}"
    try:
        yield from ((f"make: {label}", value) for label, value in making.dry_run(making_call))
    except (AdapterError, MetricError) as error:
        missing += error.parts
    try:
        yield from ((f"train: {label}", value) for label, value in _trained(call, maker))
    except AdapterError as error:
        missing += error.parts
    yield "judged by", ", ".join(dict.fromkeys(judge.task for judge in loop.judge))
    try:
        require_judges(loop.judge, resolve_model(loop.captioner), None, (), call.judging())
    except BenchError as error:
        missing += error.parts
    if missing:
        raise as_one(list({one.message: one for one in missing}.values()))


def _trained(call: LoopCall, maker: Maker) -> Iterator[tuple[str, str]]:
    """Yield what the training recipe would do with as many rows as the maker is given."""
    loaded, loop = call.loaded, call.loaded.loop
    recipe = loaded.recipe().recipe
    try:
        resolve_model(recipe.model.name, recipe.model.arguments).check()
    except AdapterError:
        # Rows, steps and memory are told by the model that is opened.
        yield "recipe", recipe.recipe
        yield "model", recipe.model.name
        raise
    with TemporaryDirectory() as folder:
        given = list(call.making(loop.captioner, "turn-1").given(None).rows())
        image = _image(call, Path(folder))
        file = _write_rows(maker, given, image, Path(folder))
        try:
            # The rows name an image that the maker is allowed to read.
            with permit(Permissions(folders=(image.parent,) if image else ())):
                told = training.dry_run(call.training(file))
        except BenchError as error:
            columns = ", ".join(maker.output.columns) or "no column"
            raise UsageError(
                f"{loaded.parsed.where('train', 'recipe')}: recipe '{loop.train.recipe}', on what maker "
                f"'{maker.maker}' writes ({columns}): {error.message}",
                error.hint,
            ) from error
    yield from (one for one in told if one[0] != "judged by")


def _require_captioners(call: LoopCall) -> None:
    """Raise unless what is captioned with first, and what is trained, are captioners."""
    loaded = call.loaded
    trained = loaded.recipe().recipe.model
    for keys, name, arguments in (
        (("captioner",), loaded.loop.captioner, {}),
        (("train", "recipe"), trained.name, trained.arguments),
    ):
        role = resolve_model(name, arguments).role
        if role != "captioner":
            raise UsageError(
                f"{loaded.parsed.where(*keys)}: '{name}' is no captioner ({role}), and a loop asks and trains "
                "captioners.",
                "'bench ls models' lists what there is.",
            )


def _require_data(call: LoopCall) -> None:
    """Raise where a path leads to nothing; what is no path is the name of a task."""
    named, path = call.loaded.loop.make.data, Path(call.loaded.data)
    if "/" in named and not path.exists():
        raise UsageError(
            f"{call.loaded.parsed.where('make', 'data')}: there is no {path}",
            "Name a folder of images, a table or a task: --set make.data=DATA.",
        )


def _image(call: LoopCall, folder: Path) -> Path | None:
    """Return the file of the first row's image."""
    loaded = call.loaded
    given = read_given(loaded.data, folder, limit=1, include_path=call.include_path, allow_outside=call.allow_outside)
    return next(iter(given.rows())).image


def _write_rows(maker: Maker, given: list[MakingRow], image: Path | None, folder: Path) -> Path:
    """Write rows with a text of ours in each column, and return their file."""
    path = folder / _DRY
    columns: dict[str, Any] = {
        name: [str(image)] if name == "further_images" else ["A picture."]
        for name in maker.output.columns
        if name not in _OF_ROWS
    }
    lines = [json.dumps({"id": row.id, **({"image": str(image)} if image else {}), **columns}) for row in given]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
