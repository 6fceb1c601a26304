"""Makers that ship, killed within or behind each of their stages: nothing kept is made twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import forked
import killed_makers
import pytest
import torch

pytestmark = pytest.mark.costly

MAKERS = {"shapes_detailcaps_synthesis": "shapes_detailcaps", "shapes_sdci": "shapes_clip_f1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the makers made at one go, and by processes that were killed."""
    folder = tmp_path_factory.mktemp("killed")
    # A forked process has one thread, and sums are those of one.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert forked.carried_out(lambda: killed_makers.make_and_cut(folder, MAKERS)) == 0
    finally:
        torch.set_num_threads(before)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("maker", MAKERS)
def test_killed_at_each_stage_no_row_is_made_twice_and_the_bytes_are_the_same(made: Path, maker: str):
    whole, cut = made / maker / "whole", made / maker / "cut"
    report = json.loads((whole / "data" / "report.json").read_text(encoding="utf-8"))
    stages = [one["name"] for one in report["stages"]]
    assert len(stages) > 6
    ways = ("within", "behind")
    expected = {name: ways[number % 2] for number, name in enumerate(stages)}
    killed = {one.name.removeprefix("killed "): one.read_text() for one in cut.glob("killed *")}
    assert killed == {**expected, killed_makers.OUTPUT: "behind"}
    rows = Counter((cut / "made").read_text(encoding="utf-8").splitlines())
    assert rows == Counter(f"{name} {row}" for name in stages for row in range(killed_makers.ROWS))
    assert files(cut / "data") == files(whole / "data")
