"""The headline command from an empty cache."""

from __future__ import annotations

import pytest
from hub_runs import Bench
from hub_server import Hub

pytestmark = pytest.mark.costly

HEADLINE = ("run", "--model", "llava-1.5", "--task", "detailcaps", "--limit", "4", "--output_path", "runs")


def test_headline_command_runs_from_an_empty_cache(bench: Bench, headline: Hub):
    record = bench(*HEADLINE).record
    assert {"capture,none", "meteor,none", "cider,none"} <= set(record["results"]["detailcaps"])
