"""What docs/rate.md tells to type is done as it stands there: sessions are begun, rated, reported on and run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from capbench.benchmarks.rate.session import read_session
from capbench.cli.main import main

uvicorn = pytest.importorskip("uvicorn", reason="needs the extra view")

PAGE = (Path(__file__).parents[1] / "docs" / "rate.md").read_text(encoding="utf-8")


def rated_by(app: Any, address: str, rater: str, start: int) -> None:
    """Let a rater answer all that is asked, as a browser would send it."""
    from starlette.testclient import TestClient

    own, _, token = address.partition("/?token=")
    with TestClient(app, base_url=own) as client:
        page = client.get("/", params={"token": token, "name": rater}).text
        number = 0
        while 'id="answer"' in page:
            names = dict.fromkeys(re.findall(r'type="radio" name="(\w+)"', page))
            said = dict(re.findall(r'type="hidden" name="(captions)" value="(\w+)"', page))
            said |= {name: str((start + number) % 2 + (name != "choice")) for name in names}
            page = client.post(f"/raters/{rater}/answers", data={"number": str(number), **said}).text
            number += 1
        assert f"all {number} answers are saved" in page


@pytest.fixture
def raters(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two raters who sit at each server, and end it when they are done."""

    def run(server: uvicorn.Server, sockets: Any) -> None:
        address = re.findall(r"^Open (\S+)$", capsys.readouterr().out, flags=re.MULTILINE)[-1]
        for start, rater in enumerate(("ann", "bob")):
            rated_by(server.config.app, address, rater, start * (rater == "bob"))

    monkeypatch.setattr(uvicorn.Server, "run", run)


@pytest.mark.usefixtures("raters")
def test_every_command_of_the_page_does_what_it_says(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    # The report's intervals are looked at by tests/benchmarks/rate.
    monkeypatch.setattr("capbench.benchmarks.rate.report.RESAMPLES", 20)
    good, brief = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    questions, _ = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    for name, text in (("good.jsonl", good), ("brief.jsonl", brief), ("questions.yaml", questions)):
        Path(name).write_text(text, encoding="utf-8")
    blocks = re.findall(r"```\n(bench .*?)```", PAGE, flags=re.DOTALL)
    commands = [
        line
        for block in blocks
        for line in block.replace("\\\n", " ").splitlines()
        if "shapes" in line or "_rated" in line
    ]
    assert len(commands) == 7
    said = ""
    for command in commands:
        options = ["--bootstrap", "20"] if "bench run" in command else []
        assert main([*shlex.split(command)[1:], *options]) == 0, command
        said += capsys.readouterr().out
    assert said.count("alpha (ordinal)") >= 4
    assert "alpha (nominal)" in said
    assert "For ±0.1" in said
    assert "τ-b recall" in said
    assert "accuracy" in said
    asked = read_session(tmp_path / "ratings" / "asked").design
    assert asked.references
    assert asked.questions.aspects["precision"].words[3] == "about half"
    assert asked.questions.instructions.startswith("Look at the image first.")
