"""Units: what their keys say of them, and how they travel."""

from __future__ import annotations

import pytest

from capbench.benchmarks.running.units import Unit, WorkSpec

UNIT = Unit("k", "score", "cider", 2, (40, 60), needs=("a", "b"), pool="clip", without=(41,))


@pytest.mark.parametrize(
    "unit", [UNIT, UNIT.leaving_out((40, 59)), UNIT.narrowed((50, 50)), UNIT.needing({"a": "c"})]
)
def test_unit_survives_json(unit: Unit):
    assert Unit.from_json(unit.to_json()) == unit


def test_work_survives_json():
    spec = WorkSpec("module:name", {"store": "s3://b", "numbers": [1]})
    assert WorkSpec.from_json(spec.to_json()) == spec


def test_documents_are_those_of_the_rows_that_are_not_left_out():
    assert UNIT.documents == (40, *range(42, 60))
    assert UNIT.leaving_out((59, 40)).documents == tuple(range(42, 59))
    assert UNIT.narrowed((50, 50)).documents == ()


def test_what_gives_another_result_has_another_key_and_what_does_not_the_same():
    others = [
        UNIT.leaving_out((40,)), UNIT.leaving_out((42,)), UNIT.narrowed((40, 50)), UNIT.needing({"a": "c"}),
        UNIT.needing({"b": "c"}),
    ]  # fmt: skip
    assert len({UNIT.key, *(one.key for one in others)}) == 6
    assert UNIT.leaving_out((40, 42)) == UNIT.leaving_out((42, 40))
    assert UNIT.needing({"x": "y"}) is UNIT
    assert UNIT.needing({"a": "c"}).needs == ("c", "b")


def test_unit_names_itself():
    assert str(UNIT) == "unit 'score' of cider, documents 40 to 59"
