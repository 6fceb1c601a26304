"""What a user may set for a run."""

from __future__ import annotations

from typing import Any

import pytest

from capbench.benchmarks.inputs.settings import RunSettings
from capbench.errors import UsageError


def test_intervals_are_made_in_one_of_the_ways_that_there_are():
    assert RunSettings().intervals == "auto"
    wrong: dict[str, Any] = {"intervals": "jackknife"}
    with pytest.raises(UsageError, match="intervals are one of auto, bootstrap, influence, not 'jackknife'"):
        RunSettings.from_arguments(wrong)


def test_records_say_how_intervals_are_made_where_that_was_set():
    # Records of earlier versions, which knew one way, stay what they are.
    assert "intervals" not in RunSettings().to_json()
    assert RunSettings(intervals="influence").to_json()["intervals"] == "influence"
