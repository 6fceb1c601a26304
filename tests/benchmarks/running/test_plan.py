from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capbench.adapters import Captioner, Judge
from capbench.benchmarks.inputs.models import load_models
from capbench.benchmarks.running.plan import resolve_call
from capbench.errors import DataError, UsageError


class Own(Captioner):
    """A captioner of the user's own, which has no name."""

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "own"}


class OwnJudge(Judge):
    name = "fair"

    def fingerprint(self) -> dict[str, Any]:
        return {"adapter": "own judge"}


def test_model_that_was_given_is_called_by_its_class_and_not_loaded_again():
    captioner = Own()
    resolved = resolve_call("iiw_400", model=captioner, metric_names=["length"])
    [planned] = resolved.plan
    assert planned.captioner is not None
    assert (planned.captioner.name, planned.captioner.adapter) == ("Own", "Own")
    models = load_models(resolved.models)
    assert models.captioner is captioner
    assert (models.encoder, models.judge) == (None, None)


def test_each_model_that_was_given_goes_where_it_was_given():
    captioner, judge = Own(), OwnJudge()
    resolved = resolve_call(["iiw_400"], model=captioner, judge=judge, metric_names=["clair"])
    assert resolved.models.judge is not None
    assert resolved.models.judge.name == "fair"
    models = load_models(resolved.models)
    assert models.captioner is captioner
    assert models.judge is judge
    # A judge in the place of the model under test is still the judge.
    with pytest.raises(UsageError, match="two judges were named"):
        resolve_call(["iiw_400"], model=judge, judge=judge, metric_names=["clair"])


def test_nothing_is_loaded_of_what_is_named(tmp_path: Path):
    file = tmp_path / "captions.jsonl"
    resolved = resolve_call(" iiw_400, shapes_detailcaps ", model=f"captions:{file}", metric_names=["length"])
    assert [planned.task.task for planned in resolved.plan] == ["iiw_400", "shapes_detailcaps"]
    with pytest.raises(DataError, match=str(file)):
        load_models(resolved.models)


def test_model_that_no_metric_uses_is_refused():
    with pytest.raises(UsageError, match="none of the metrics of iiw_400 uses a model that judges"):
        resolve_call("iiw_400", model=Own(), judge=OwnJudge(), metric_names=["length"])


def test_what_is_neither_a_name_nor_an_adapter_is_refused():
    with pytest.raises(UsageError, match="a name or an adapter, not int"):
        resolve_call("iiw_400", model=3)  # pyright: ignore[reportArgumentType]
