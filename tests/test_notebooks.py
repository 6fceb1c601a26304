"""The notebooks of the documents run from beginning to end, and hold no outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = ["score_captions", "judge_a_metric", "compare_two_captioners"]
BAR = """
import capbench.progress
capbench.progress._DELAY_SECONDS = 0
report = capbench.progress.by_place()("a step of the notebook")
report(1, 2)
report(2, 2)
"""


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@pytest.fixture
def carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))

    def carry_out(book: Any) -> dict[str, list[Any]]:
        """Return what each cell showed, by its id."""
        work = tmp_path / "work"
        work.mkdir()
        client = nbclient.NotebookClient(
            book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(work)}}
        )
        client.execute()
        return {cell["id"]: cell["outputs"] for cell in book.cells if cell["cell_type"] == "code"}

    return carry_out


def shown(outputs: list[Any], kind: str) -> str:
    """Return what a cell showed of a kind: of a MIME type, or what it printed on a stream."""
    return "".join(
        one.get("data", {}).get(kind, one.get("text", "") if one.get("name") == kind else "")
        for one in outputs
    )


def test_every_notebook_is_known_and_holds_no_outputs():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)
    for name in NAMES:
        cells = read(name).cells
        assert cells[0]["cell_type"] == "markdown"
        assert cells[0]["source"].startswith("# ")
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_captions_are_scored_and_bars_are_shown(carried_out):
    book = read("score_captions")
    book.cells.append(nbformat.v4.new_code_cell(BAR, id="bar"))
    outputs = carried_out(book)
    html = shown(outputs["score_captions-2"], "text/html")
    assert "<td" in html
    assert "RefCLIP-S" in html
    assert shown(outputs["score_captions-1"], "image/png")
    # The captions of other scenes are among the worst.
    worst = shown(outputs["score_captions-4"], "text/plain")
    assert {"6", "7"} <= {line.split()[0] for line in worst.splitlines()[1:]}
    # Both are shown with four digits or more, and are the same.
    batches, whole = (
        shown(outputs["score_captions-6"], "text/plain").removeprefix("(tensor(").split(", dtype")
    )
    assert float(whole.split(", ")[-1].rstrip(")")) == pytest.approx(float(batches), abs=1e-4)
    assert "a step of the notebook" in shown(outputs["bar"], "stderr")


def test_metric_is_judged_and_compared(carried_out):
    outputs = carried_out(read("judge_a_metric"))
    html = shown(outputs["judge_a_metric-1"], "text/html")
    assert "shared words" in html
    assert "Group: metrics of a task" in html
    assert "cider - length: +0." in shown(outputs["judge_a_metric-3"], "stdout")
    assert "rating" in shown(outputs["judge_a_metric-5"], "text/html")


def test_two_captioners_are_compared(carried_out):
    outputs = carried_out(read("compare_two_captioners"))
    for place in (1, 2):
        assert "ImageInWords-400" in shown(outputs[f"compare_two_captioners-{place}"], "text/html")
    assert "iiw-p5b - short" in shown(outputs["compare_two_captioners-4"], "stdout")
    assert "candidate_short" in shown(outputs["compare_two_captioners-6"], "text/html")
