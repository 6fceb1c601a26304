"""The stages of a maker, built and checked before any of them works."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...errors import BenchError, DataError, UsageError, as_one, did_you_mean, require_all
from ..training.schema import Strict
from .contract import Stage, stages
from .models import ROLES, MakerModels
from .rows import MakingRow
from .schema import LoadedMaker, Maker, settings_of
from .writing import OF_DCI


class StageHead(Strict):
    """The keys that say which stage it is."""

    stage: str
    name: str = ""


def build_stages(loaded: LoadedMaker) -> list[Stage]:
    """Return the stages of a maker.

    Raises:
        UsageError: A stage is not known, two have one name, a key is nobody's, a model is missing or not asked.
    """
    maker, parsed = loaded.maker, loaded.parsed
    built: list[Stage] = []
    for number, given in enumerate(maker.stages):
        head, keys = _parted(given)
        named = settings_of(head, StageHead, parsed, number)
        kind = stages[named.stage]
        settings = settings_of(keys, kind.Settings, parsed, number)
        built.append(kind(named.name or named.stage, settings, maker.seed))
    names = [one.name for one in built]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"{parsed.where('stages')}: two stages are called '{twice}'", "Give one of them another 'name'."
        )
    asked = {role for one in built for role in one.roles}
    for role in maker.models:
        if role not in ROLES:
            raise UsageError(f"{parsed.where('models', role)}: unknown role '{role}'", f"Known: {', '.join(ROLES)}.")
        if role not in asked and not (role == "encoder" and maker.judged):
            raise UsageError(f"{parsed.where('models', role)}: no stage asks the {role}", "Leave it out.")
    return built


def stages_of(maker: Maker) -> list[Stage]:
    """Return the stages of a maker that was checked elsewhere."""
    built: list[Stage] = []
    for given in maker.stages:
        head, keys = _parted(given)
        kind = stages[head["stage"]]
        built.append(kind(head.get("name") or head["stage"], kind.Settings.model_validate(keys), maker.seed))
    return built


def require_models(built: Sequence[Stage], models: MakerModels) -> None:
    """Raise if a model that a stage asks is not named, or it or what else a stage needs cannot be had.

    Nothing is loaded.

    Raises:
        BenchError: One error for all of them; several stages may need the same.
    """
    roles = list(dict.fromkeys(role for one in built for role in one.roles))
    try:
        require_all(*(lambda role=role: models.check(role) for role in roles), *(one.check for one in built))
    except BenchError as error:
        raise as_one(list({one.message: one for one in error.parts}.values())) from error


def require_seen(built: Sequence[Stage], models: MakerModels, rows: Iterable[MakingRow]) -> None:
    """Raise if a model that a stage asks can make nothing of any row's image; nothing is loaded.

    Args:
        built: The stages.
        models: What they ask.
        rows: What is begun with; looked at as far as a model refuses the images.

    Raises:
        DataError: It names the stage, the model and the first image.
    """
    for stage in built:
        for role in stage.roles if stage.settings.on_failure == "leave_out" else ():
            first = ""
            for row in rows:
                why = "" if row.image is None else models.refuses(role, row.pixels)
                if not why:
                    break
                first = first or f"{row.id}: {why}"
            else:
                raise DataError(
                    f"stage '{stage.name}' could make nothing of any row, as the {role} {models.name(role)} takes "
                    f"none of the images; {first}",
                    f"Give others with --data, or another model with --set models.{role}.name=NAME.",
                )


def require_values(built: Sequence[Stage], loaded: LoadedMaker, given: Collection[str]) -> None:
    """Raise if a stage reads, or the output or its judges want, what the data do not hold and no stage makes.

    Args:
        built: The stages.
        loaded: The maker.
        given: The values that every row of the data has.

    Raises:
        DataError: It names the value and who wants it.
    """
    known = set(given)

    def require(who: str, *wanted: str) -> None:
        for value in wanted:
            if value not in known:
                raise DataError(
                    f"{who} '{value}', which no stage before makes and not every row has; "
                    f"there is: {', '.join(sorted(known)) or 'an image each'}.{did_you_mean(value, known)}",
                    "A stage before it makes that, or the data hold it.",
                )

    for stage in built:
        require(f"stage '{stage.name}' reads", *stage.reads())
        if (made := stage.makes()) is None:
            return
        known.update(made)
    output, judged = loaded.maker.output, loaded.maker.judged
    # Of "summaries.base" only the row can say whether it has the second.
    require("the output holds", *(key.partition(".")[0] for key in output.columns.values()))
    require("the output holds", *(OF_DCI if output.form == "dci" else ()))
    require("'judged' looks at", *(key.partition(".")[0] for key in (judged.texts.values() if judged else ())))


def _parted(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    head = {key: value for key, value in given.items() if key in StageHead.model_fields}
    return head, {key: value for key, value in given.items() if key not in head}
