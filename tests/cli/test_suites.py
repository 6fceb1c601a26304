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
    ran = bench("run", "--suite", "dci_table2", "--output_path", "runs").failed(1, "dci_table2: 0 of ")
    block, _, _ = ran.err.partition("\n\n")
    assert block.startswith("missing here, and left out of the table:\n- the data set DCI")
    assert block.count("the data set DCI") == 1
    assert block.count("'hf download openai/clip-vit-base-patch32'") == 1
    assert "[1] the data set DCI" in ran.out and "openai/clip-vit-base-patch32: it is not in" in ran.out


def test_dry_run_of_a_suite_says_how_each_row_decodes(bench: Bench):
    ran = bench("run", "--suite", "dbd_table1", "--dry_run")
    assert [line for line in ran.out.splitlines() if line.startswith("LLaVA-1.5")] == [
        "LLaVA-1.5 + Greedy: llava-1.5 [decoding=greedy]",
        "LLaVA-1.5 + Beam: llava-1.5 [decoding=beam, num_beams=5]",
        "LLaVA-1.5 + VCD: llava-1.5 [decoding=vcd]",
        "LLaVA-1.5 + Opera: llava-1.5 [decoding=opera]",
        "LLaVA-1.5 + DBD: llava-1.5 [decoding=dbd]",
    ]


def test_dry_run_of_a_suite_says_what_to_fetch_and_runs_nothing(bench: Bench, tmp_path: Path):
    ran = bench("run", "--suite", "dci_table2", "--dry_run", "--output_path", "runs").succeeded()
    assert ran.err.startswith("missing here, and left out of the table:\n- the data set DCI")
    assert not (tmp_path / "runs").exists()


def test_dry_run_of_a_suite_names_the_file_of_recorded_scores(bench: Bench, tmp_path: Path):
    file = tmp_path / "mine/flickr8k_expert/CIDEr.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"image": "1.jpg", "caption": "a dog", "score": 1}\n')
    ran = bench("run", "--suite", "pacspp_table1", "--dry_run", "--recorded", "mine")
    said = [line for line in ran.out.splitlines() if line.startswith("CIDEr: ")]
    # Another task of the row is computed.
    assert said == [f"CIDEr: recorded scores, {Path('mine/flickr8k_expert/CIDEr.jsonl')}", "CIDEr: no model needed"]
