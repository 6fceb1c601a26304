from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def test_suite_of_which_nothing_can_be_measured_fails_and_says_what_to_fetch(bench: Bench):
    ran = bench("run", "--suite", "dci_table2", "--output_path", "runs")
    assert ran.code == 1
    assert "dci_table2: 0 of " in ran.err
    block, _, _ = ran.err.partition("\n\n")
    assert block.startswith("missing here, and left out of the table:\n- the data set DCI")
    assert block.count("the data set DCI") == 1
    assert block.count("'hf download openai/clip-vit-base-patch32'") == 1
    assert "[1] the data set DCI" in ran.out and "openai/clip-vit-base-patch32: it is not in" in ran.out


def test_dry_run_of_a_suite_says_what_to_fetch_and_runs_nothing(bench: Bench, tmp_path: Path):
    ran = bench("run", "--suite", "dci_table2", "--dry_run", "--output_path", "runs")
    assert ran.code == 0
    assert ran.err.startswith("missing here, and left out of the table:\n- the data set DCI")
    assert not (tmp_path / "runs").exists()
