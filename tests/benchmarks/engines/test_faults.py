"""Errors of workers come to the driver as they were raised."""

from __future__ import annotations

import json

import pytest

from capbench.benchmarks.engines.faults import DIED, Fault
from capbench.benchmarks.store.sqlite_file import DamagedStoreError
from capbench.errors import AdapterError, BenchError, DataError, MetricError, StoreError, TaskError


def sent(fault: Fault) -> Fault:
    return Fault.from_values(json.loads(json.dumps(fault.to_values())))


@pytest.mark.parametrize("kind", [DataError, MetricError, TaskError, AdapterError, BenchError])
def test_error_of_the_user_survives_json_with_its_hint_and_parts(kind: type[BenchError]):
    error = kind("two things", "Mend both.", [DataError("one", "Mend it."), MetricError("other")])
    found = sent(Fault.of(error)).as_error()

    assert (type(found), found.message, found.hint) == (kind, "two things", "Mend both.")
    assert [(type(part), part.message, part.hint) for part in found.parts] == [
        (DataError, "one", "Mend it."), (MetricError, "other", ""),
    ]  # fmt: skip


def test_error_that_is_one_thing_is_its_own_part():
    (part,) = sent(Fault.of(DataError("gone"))).as_error().parts
    assert (type(part), part.message) == (DataError, "gone")


def test_kind_of_another_module_is_told_as_the_kind_that_it_is():
    assert type(sent(Fault.of(DamagedStoreError("torn"))).as_error()) is StoreError


def test_error_is_itself_where_it_was_raised():
    error = DamagedStoreError("torn")
    assert Fault.of(error).as_error() is error


def test_what_another_worker_may_not_have_is_told_from_what_all_have():
    kinds = (StoreError, AdapterError, DamagedStoreError, DataError, MetricError, TaskError)
    assert [Fault.of(kind("x")).is_of_the_place for kind in kinds] == [True, True, True, False, False, False]
    assert not Fault.of(OSError("x")).is_of_the_place


def test_fault_is_said_in_one_line_and_keeps_the_end_of_its_trace():
    def deep(depth: int) -> None:
        raise ValueError("no\n such") if not depth else deep(depth - 1)  # type: ignore[misc]

    with pytest.raises(ValueError, match="no") as raised:
        [deep(0) for _ in range(1)]
    fault = sent(Fault.of(raised.value))

    assert fault.in_one_line == "ValueError: no such"
    assert fault.trace.splitlines()[-2] == "ValueError: no"
    assert len(fault.trace.splitlines()) <= 12
    assert not fault.is_bench
    assert Fault.of(DataError("gone")).in_one_line == "gone"
    assert Fault(DIED, "its process ended").in_one_line == "its process ended"
