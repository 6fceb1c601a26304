"""The notebooks of the documents run from beginning to end, and hold the outputs that they then have.

``python tests/test_notebooks.py`` stores the outputs anew.
"""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

Outputs = list[Any]
FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
AFRESH = """
get_ipython().reset(new_session=False)
import os
os.mkdir("../{0}")
os.chdir("../{0}")
del os
"""
"""Nothing is left of the notebook before but the libraries that it imported, which take seconds."""
BAR = """
import capbench.progress
capbench.progress._DELAY_SECONDS = 0
report = capbench.progress.by_place()("a step of the notebook")
report(1, 2)
report(2, 2)
"""


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


COLUMNS = "100"
"""Width of printed tables, whatever terminal the tests run in."""


@pytest.fixture
def carry_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], dict[str, Outputs]]:
    monkeypatch.setenv("COLUMNS", COLUMNS)
    for variable in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))

    def carry_out(book: Any) -> dict[str, Outputs]:
        """Return what each cell showed, by its id."""
        work = tmp_path / "work"
        work.mkdir()
        client = nbclient.NotebookClient(
            book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(work)}}
        )
        client.execute()
        return {cell["id"]: cell["outputs"] for cell in book.cells if cell["cell_type"] == "code"}

    return carry_out


def shown(outputs: Outputs, kind: str) -> str:
    """Return what a cell showed of a kind: of a MIME type, or what it printed on a stream."""
    return "".join(
        output.get("data", {}).get(kind, output.get("text", "") if output.get("name") == kind else "")
        for output in outputs
    )


def stored(outputs: Outputs) -> Outputs:
    """Return what a notebook holds of the outputs of a cell: what the site shows, in one form each."""
    kept = []
    for output in outputs:
        if output.get("name") == "stdout":
            kept.append(nbformat.v4.new_output("stream", name="stdout", text=output["text"]))
        kinds = [kind for kind in ("text/html", "image/jpeg", "text/plain") if kind in output.get("data", {})]
        for kind in kinds[:1]:
            text = re.sub(r"<style.*?</style>|\n\s*(?=<)", "", output["data"][kind], flags=re.DOTALL)
            text = (
                re.sub(r' (border|class|style)="[^"]*"', "", text).replace("<th></th>", "<td></td>")
                if kind == "text/html"
                else text
            )
            kept.append(nbformat.v4.new_output("display_data", {kind: text}))
    return kept


def in_words(outputs: Outputs) -> tuple[str, list[float]]:
    """Return the text of outputs without its numbers, and these; of a picture, that it is there."""
    whole = shown(outputs, "stdout") + shown(outputs, "text/html") + shown(outputs, "text/plain")
    # Columns of a printed table are as wide as their numbers.
    text = re.sub(r"[\s-]+", " ", _NUMBER.sub("", whole)) + ("a picture" if shown(outputs, "image/jpeg") else "")
    return text, [float(number) for number in _NUMBER.findall(whole)]


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def test_every_notebook_is_known_and_holds_outputs_without_paths_and_times():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(SHOWN)
    for name in SHOWN:
        cells = read(name).cells
        assert cells[0]["cell_type"] == "markdown"
        assert cells[0]["source"].startswith("# ")
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert not any(cell.get("execution_count") for cell in code)
        assert all(cell["outputs"] == stored(cell["outputs"]) for cell in code)
        text = "".join(in_words(cell["outputs"])[0] for cell in code)
        assert not re.search(r"/tmp|/home|\.venv|seconds|<\w+ object at", text)


def captions_are_scored(outputs: dict[str, Outputs]):
    html = shown(outputs["score_captions-2"], "text/html")
    assert "<td" in html
    assert "RefCLIP-S" in html
    assert shown(outputs["score_captions-1"], "image/png")
    # The captions of other scenes are among the worst.
    worst = shown(outputs["score_captions-4"], "text/plain")
    assert {"6", "7"} <= {line.split()[0] for line in worst.splitlines()[1:]}
    # Both are shown with four digits or more, and are the same.
    batches, whole = shown(outputs["score_captions-6"], "text/plain").removeprefix("(tensor(").split(", dtype")
    assert float(whole.split(", ")[-1].rstrip(")")) == pytest.approx(float(batches), abs=1e-4)


def metric_is_judged_and_compared(outputs: dict[str, Outputs]):
    html = shown(outputs["judge_a_metric-1"], "text/html")
    assert "shared words" in html
    assert "Group: metrics with a letter in common" in html
    assert "cider - length: +0." in shown(outputs["judge_a_metric-3"], "stdout")
    assert "rating" in shown(outputs["judge_a_metric-5"], "text/html")


def two_captioners_are_compared(outputs: dict[str, Outputs]):
    for place in (1, 2):
        assert "ImageInWords-400" in shown(outputs[f"compare_two_captioners-{place}"], "text/html")
    assert "iiw-p5b - short" in shown(outputs["compare_two_captioners-4"], "stdout")
    assert "candidate_short" in shown(outputs["compare_two_captioners-6"], "text/html")


def captioner_is_trained_and_billed(outputs: dict[str, Outputs]):
    right, wrong = map(float, re.findall(r"[\d.]+", shown(outputs["train_by_a_metric-3"], "text/plain")))
    assert right > 1 > wrong
    bill = shown(outputs["train_by_a_metric-7"], "stdout")
    for better, worse in (("tuned", "shapes-llava"), ("shapes-llava", "tuned")):
        assert f"| {better} - {worse} |" in bill


SHOWN = {
    "score_captions": captions_are_scored,
    "judge_a_metric": metric_is_judged_and_compared,
    "compare_two_captioners": two_captioners_are_compared,
    "train_by_a_metric": captioner_is_trained_and_billed,
}
"""Each notebook with what looks at what its cells showed."""
SAMPLED = {"train_by_a_metric-5", "train_by_a_metric-7"}
"""Cells whose numbers come of sampled captions, which processors round apart."""


@pytest.mark.costly
def test_notebooks_show_what_they_say_and_bars(carry_out, subtests: pytest.Subtests):
    book = nbformat.v4.new_notebook()
    for name in SHOWN:
        book.cells += [nbformat.v4.new_code_cell(AFRESH.format(name)), *read(name).cells]
    book.cells.append(nbformat.v4.new_code_cell(BAR, id="bar"))
    outputs = carry_out(book)
    for name, look in SHOWN.items():
        with subtests.test(name):
            look(outputs)
            for cell in read(name).cells:
                if cell["cell_type"] == "code":
                    text, numbers = in_words(cell["outputs"])
                    text_now, numbers_now = in_words(stored(outputs[cell["id"]]))
                    assert text_now == text
                    assert cell["id"] in SAMPLED or numbers_now == pytest.approx(numbers, rel=1e-3, abs=1e-3)
    assert "a step of the notebook" in shown(outputs["bar"], "stderr")


if __name__ == "__main__":
    os.environ["COLUMNS"] = COLUMNS
    for path in FOLDER.glob("*.ipynb"):
        book = read(path.stem)
        with tempfile.TemporaryDirectory() as work:
            nbclient.NotebookClient(book, kernel_name="python3", resources={"metadata": {"path": work}}).execute()
        for cell in book.cells:
            cell["metadata"] = {}
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = stored(cell["outputs"]), None
        book["metadata"] = read(path.stem)["metadata"]
        nbformat.write(book, path)
