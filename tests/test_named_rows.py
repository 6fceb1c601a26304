"""Values by name, and names that occurred, in little memory."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from capbench import named_rows
from capbench.named_rows import NamedRows, SeenNames


def test_values_are_found_by_name_whatever_they_are():
    values: list[Any] = [
        "a caption",
        None,
        3,
        2.5,
        True,
        [1, {"a": "b"}],
        "half a \ud800",
        datetime.date(2026, 1, 2),
        b"x",
    ]
    rows = NamedRows()
    assert all(rows.add(f"name {number}", value) for number, value in enumerate(values))

    found = rows.find(["name 3", None, "another", *(f"name {number}" for number in range(len(values)))])
    assert found.tolist() == [3, -1, -1, *range(len(values))]
    assert [rows.value(row) for row in range(len(values))] == values
    assert type(rows.value(4)) is bool and type(rows.value(2)) is int
    assert [rows.name(row) for row in (0, 8)] == ["name 0", "name 8"]
    assert len(rows) == len(values)


def test_values_are_found_in_any_order_however_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_rows, "_RECENT", 40)
    values: list[Any] = [[f"caption {number}", None] for number in range(150)]
    values[70] = datetime.date(2026, 1, 2)
    rows = NamedRows()
    assert all(rows.add(f"name {number}", value) for number, value in enumerate(values))
    assert not rows.add("name 3", "another")
    for row in (0, 149, 70, 71, 16, 15, 48, 149):
        assert (rows.name(row), rows.value(row)) == (f"name {row}", values[row])
    assert rows.find(f"name {number}" for number in range(150)).tolist() == list(range(150))


def test_name_keeps_its_first_value():
    rows = NamedRows()
    assert rows.add("one", 1)
    assert not rows.add("one", 2)
    assert rows.value(int(rows.find(["one"])[0])) == 1
    assert len(rows) == 1


def test_nothing_is_found_among_nothing():
    assert NamedRows().find(["a", None]).tolist() == [-1, -1]
    assert NamedRows().find([]).tolist() == []


@pytest.mark.parametrize("count", [1, 19_999, 20_000, 50_000])
def test_names_that_occurred_are_known_however_many(count: int):
    seen = SeenNames()
    for number in range(count):
        assert str(number) not in seen
        seen.add(str(number))
    assert all(str(number) in seen for number in np.linspace(0, count - 1, 200).astype(int).tolist())
    assert str(count) not in seen


def test_names_that_occurred_are_looked_up_in_few_places(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(named_rows, "_RECENT", 4)
    seen = SeenNames()
    for number in range(1000):
        seen.add(str(number))
        assert len(seen._runs) <= 9
        assert str(number) in seen and str(number // 2) in seen and str(number + 1) not in seen
    assert sum(map(len, seen._runs)) == 1000
