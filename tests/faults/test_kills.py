"""The script that kills runs: it says what differs and what is left behind."""

import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "speed"))

import kills

pytestmark = pytest.mark.costly


def test_leaderboard_whose_build_is_killed_is_made_by_the_next(capsys: pytest.CaptureFixture[str]):
    assert kills.main(["--kinds", "leaderboard", "--kills", "1", "--seed", "1"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["kind", "run", "kills", "KILL", "TERM"]
    match = re.fullmatch(r"leaderboard +[\d.]+s +1 +(\d) +(\d) +(\d) +(\d) +(\d) +(\d+) +0 +0", row)
    assert match is not None
    kill, term, before, during, after, values = map(int, match.groups())
    assert kill + term == before + during + after == 1
    assert values > 6


def test_value_that_differs_is_told(tmp_path: Path):
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "index.html").write_text("half")
    values = kills.values_of(tmp_path)[0]
    whole = kills.Undisturbed(tmp_path, 0, 0, 0, {**values, "board/index.html": "whole", "board/README.md": "x"})
    for finished, differing in ((True, 2), (False, 1)):
        outcome = kills.Outcome(signal.SIGKILL, "during")
        kills.compare(outcome, whole, tmp_path, {}, finished=finished)
        assert len(outcome.differing) == differing
    outcome = kills.Outcome(signal.SIGKILL, "during")
    kills.compare(outcome, whole, tmp_path, values, finished=False)
    assert outcome.differing == []


def test_run_that_made_nothing_is_told(tmp_path: Path):
    outcome = kills.Outcome(signal.SIGKILL, "before")
    kills.compare(outcome, kills.Undisturbed(tmp_path, 0, 0, 0, {}), tmp_path, {}, finished=True)
    assert outcome.differing == ["there is no result"]
