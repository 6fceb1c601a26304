"""Units: what their keys say of them, and how they travel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capbench.benchmarks.running.units import Unit, WorkSpec

OTHER = Unit("c", "frequencies", "cider", 0, (0, 200), without=(50,))
UNIT = Unit("k", "score", "cider", 2, (40, 60), needs=("a", "b"), pool="clip", without=(41,))


@pytest.mark.parametrize(
    "unit", [UNIT, UNIT.leaving_out((40, 59)), UNIT.narrowed((50, 50)), UNIT.needing({"a": OTHER})]
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
        UNIT.leaving_out((40,)), UNIT.leaving_out((42,)), UNIT.narrowed((40, 50)), UNIT.needing({"a": OTHER}),
        UNIT.needing({"b": OTHER}),
    ]  # fmt: skip
    assert len({UNIT.key, *(one.key for one in others)}) == 6
    assert UNIT.leaving_out((40, 42)) == UNIT.leaving_out((42, 40))
    assert UNIT.needing({"x": OTHER}) is UNIT
    assert UNIT.needing({"a": OTHER}).needs == ("c", "b")


def test_document_that_was_left_out_of_what_a_unit_needs_is_left_out_of_it_where_it_is_the_same_document():
    same = Unit("c", "score", "cider", 2, (40, 60), without=(50, 55))
    assert UNIT.needing({"b": same}).without == (41, 50, 55)
    assert UNIT.needing({"a": OTHER, "b": replace(same, without=())}).without == (41,)
    others = replace(same, stage="encode"), replace(same, shard=1), replace(same, rows=(40, 61))
    assert [UNIT.needing({"b": one}).without for one in others] == [(41,)] * 3


def test_unit_names_itself():
    assert str(UNIT) == "unit 'score' of cider, documents 40 to 59"
