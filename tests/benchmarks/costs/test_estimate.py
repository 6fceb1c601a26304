"""What a run costs, by figures of the tests' own."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_shards import LongestOf

from capbench.benchmarks.costs.estimate import Demand, Estimate, StageCost, Workers, estimate
from capbench.benchmarks.costs.table import SHIPPED, CostTable, read_costs
from capbench.benchmarks.inputs.metric_names import read_metric
from capbench.benchmarks.running.planned_metrics import PlannedMetric, plan_metric
from capbench.benchmarks.statistics import Intervals
from capbench.metrics import metrics as registered

TABLE = CostTable.model_validate(
    {
        "machine": "a machine",
        "note": "by hand",
        "references": 5,
        "parts": {"words": 0.25, "ngrams": 0.5},
        "metrics": {
            "length": {"seconds": 0.0625},
            "bleu_4": {"seconds": 1, "parts": ["words", "ngrams"]},
            "cider": {"seconds": 2, "parts": ["words", "ngrams"], "merge_seconds": 0.125},
        },
        "run": {
            "start_seconds": 3,
            "worker_seconds": 5,
            "row_seconds": 0.5,
            "resample_seconds": 0.25,
            "influence_seconds": 0.125,
            "driver_bytes": 1000,
            "driver_row_bytes": 2,
            "worker_bytes": 700,
            "stored_row_bytes": 30,
            "read_row_bytes": 40,
        },
        "captions_per_second": {"known": 4},
        "growth": [{"rows": 100, "core_seconds": 1, "wall_seconds": 1, "peak_bytes": 1}],
    }
)


def metrics(*names: str) -> list[PlannedMetric]:
    offers = frozenset({"references", "image", "encoder", "judge"})
    return [plan_metric(read_metric(name), offers) for name in names]  # type: ignore[arg-type]


def cost(rows: int, *names: str, **changes: Any) -> Estimate:
    return estimate(Demand(rows, metrics(*names), **{"shard": 10, **changes}), TABLE, "measured here")


def stage(found: Estimate, name: str, pool: str) -> StageCost:
    (one,) = (one for one in found.stages if (one.stage, one.pool) == (name, pool))
    return one


def test_what_metrics_share_is_made_once():
    found = cost(10, "bleu_4", "cider")

    assert stage(found, "score", "cpu").core_seconds == 10 * (0.25 + 0.5 + 1 + 2)
    assert [(one.stage, one.core_seconds) for one in found.stages if one.pool == "driver"] == [
        ("start", 3), ("documents", 5), ("intervals", 10 * 2 * 0.25),
    ]  # fmt: skip
    assert found.total("core_seconds") == found.total("wall_seconds") == 3 + 5 + 37.5 + 5
    assert found.units == 1


@pytest.mark.parametrize(
    ("rows", "ways", "seconds", "why"),
    [
        (999_999, {}, 2 * 0.25, "resamples of documents"),
        (1_000_000, {}, 2 * 0.125, "influence of documents"),
        (1_000_000, {"intervals": "bootstrap", "resamples": 500}, 2 * 0.125, "resamples of documents"),
        (10, {"intervals": "influence", "resamples": 500}, 2 * 0.125, "influence of documents"),
        (1_000_000, {"resamples": 0}, 0, "influence of documents"),
    ],
)
def test_intervals_are_made_as_a_run_makes_them(rows: int, ways: dict[str, Any], seconds: float, why: str):
    one = stage(cost(rows, "bleu_4", "cider", **ways), "intervals", "driver")
    assert (one.core_seconds, one.why) == (rows * seconds, why)


def test_what_no_sums_are_made_of_is_resampled_whatever_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registered._entries, "longest_of", LongestOf)
    one = stage(cost(10, "cider", "longest_of", intervals="influence"), "intervals", "driver")
    assert (one.core_seconds, one.why) == (10 * (0.125 + 0.25), "influence and resamples of documents")


def test_corpus_is_merged_in_twos_and_scored_afterwards():
    found = cost(40, "bleu_4", "cider", resamples=0)

    assert stage(found, "score", "cpu").core_seconds == 40 * (0.25 + 0.5 + 1)
    assert stage(found, "frequencies", "cpu").core_seconds == 40 * 0.125 * 2
    assert stage(found, "score, by the corpus", "cpu").core_seconds == 40 * 2
    assert found.units == 4 + 32 + 4
    assert stage(found, "intervals", "driver").core_seconds == 0


def test_metric_that_shares_nothing_pays_for_itself_alone():
    assert stage(cost(10, "length"), "score", "cpu").core_seconds == 10 * 0.0625


def test_workers_share_units_and_the_last_round_is_a_whole_one():
    workers = {"cpu": Workers(2)}
    found = cost(50, "bleu_4", workers=workers, is_elsewhere=True)

    # Five units of two workers take three rounds of a fifth.
    assert stage(found, "score", "cpu").wall_seconds == pytest.approx(50 * 1.75 * 3 / 5)
    assert stage(found, "workers", "all").core_seconds == 2 * 5
    assert stage(found, "workers", "all").wall_seconds == 5
    assert found.total("gpu_seconds") == stage(found, "workers", "all").units == 0 < found.units == 5
    assert (found.driver_bytes, found.worker_bytes) == (1000 + 50 * 2, 700)
    assert (found.stored_bytes, found.read_bytes) == (50 * 30, 50 * 40)
    assert cost(50, "bleu_4").worker_bytes == 0


def test_captioner_is_as_fast_as_is_known_or_given():
    workers = {"captioner": Workers(3, cpus=2, gpus=4)}
    known = stage(cost(60, "length", captioner="known", workers=workers), "caption", "captioner")
    given = cost(60, "length", captioner="other", captions_per_second=8, workers=workers)

    assert (known.units, known.core_seconds, known.gpu_seconds) == (6, 60 / 4 * 2, 60 / 4 * 4)
    assert known.wall_seconds == pytest.approx(60 / 4 / 3)
    assert known.basis == "measured here"
    assert stage(given, "caption", "captioner").gpu_seconds == 60 / 8 * 4
    assert stage(given, "caption", "captioner").basis == "given"


@pytest.mark.parametrize(
    ("names", "changes", "where", "why"),
    [
        (["length"], {"captioner": "new"}, ("caption", "captioner"), "new is was not measured: .*--captions_per"),
        (["clip_s"], {"encoder": "clip"}, ("score", "encoder"), "clip is was not measured: .*--images_per_sec"),
        (["clair"], {}, ("score", "judge"), "the judge is was not measured: .*--judgements_per_second"),
        (["rouge_l", "length"], {}, ("score", "cpu"), "not measured: rouge_l"),
        (["mid"], {"images_per_second": 1}, ("score, by the corpus", "encoder"), "not measured: mid"),
        (["mid"], {"images_per_second": 1}, ("frequencies", "cpu"), "not measured: mid"),
    ],
)  # fmt: skip
def test_what_nobody_measured_is_open_and_so_is_the_total(
    names: list[str], changes: dict[str, Any], where: tuple[str, str], why: str
):
    found = cost(40, *names, **changes)
    one = stage(found, *where)

    assert (one.core_seconds, one.wall_seconds, one.basis) == (None, None, "open")
    assert re.search(why, one.why)
    assert found.total("core_seconds") is None
    # What needs no model needs no GPU.
    assert one.gpu_seconds == (0 if where[1] == "cpu" else None)


def test_encoder_and_judge_are_asked_once_a_document():
    found = cost(40, "clip_s", "gpt4_eval", images_per_second=8, judgements_per_second=4, encoder="clip")

    assert stage(found, "score", "encoder").core_seconds == 40 / 8
    assert stage(found, "score", "judge").core_seconds == 40 / 4


def test_more_than_was_measured_is_modelled_and_so_are_other_references():
    assert {one.basis for one in cost(100, "length").stages} == {"measured here"}
    many = cost(101, "length")
    assert {one.stage: one.basis for one in many.stages} == {
        "start": "measured here", "documents": "modelled", "score": "modelled", "intervals": "modelled",
    }  # fmt: skip
    assert many.bytes_basis == "modelled"
    one = stage(cost(40, "length", references=2), "score", "cpu")
    assert (one.basis, one.core_seconds) == ("modelled", 40 * 0.0625 * 3 / 6)


def test_notebook_shows_a_row_a_stage_and_what_is_written_with_names_escaped():
    found = cost(2000, "length", captioner="<b>", is_elsewhere=True)
    html = found._repr_html_()

    assert html.startswith('<div class="tex2jax_ignore mathjax_ignore"><table><thead><tr>')
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in html.split("<tbody>")[1].split("</tr>")[:-1]]
    assert [row[0] for row in cells] == [*(one.stage for one in found.stages), "together"]
    assert cells[2] == [
        "caption", "captioner", "200", "open", "open", "open", "open",
        "how fast &lt;b&gt; is was not measured: name it with --captions_per_second",
    ]  # fmt: skip
    assert cells[4] == ["score", "cpu", "200", "125", "0", "125", "modelled", "length"]
    assert cells[-1][:4] == ["together", "", "400", "open"]
    assert 'text-align:left">stage</th>' in html
    assert 'text-align:right">core s</th>' in html
    assert (
        "<small>stored: 60 KB, read: 80 KB, memory of the driver: 5 KB, memory of a worker: 700 B "
        "(modelled; images not counted)<br>wall time: open</small>" in html
    )


@given(
    rows=st.integers(1, 10**9),
    names=st.sets(st.sampled_from(sorted(TABLE.metrics)), min_size=1),
    intervals=st.sampled_from(["bootstrap", "influence"]),
)
def test_costs_are_never_negative_and_grow_as_the_rows_do(rows: int, names: set[str], intervals: Intervals):
    shipped, _, origin = read_costs(SHIPPED)
    workers, asked = {"cpu": Workers(4)}, metrics(*sorted(names))
    one, two = (
        estimate(Demand(count, asked, workers=workers, intervals=intervals), shipped, origin)
        for count in (rows, 2 * rows)
    )
    for figure in ("core_seconds", "gpu_seconds", "wall_seconds"):
        few, many = one.total(figure), two.total(figure)
        assert few is not None
        assert many is not None
        assert 0 <= few <= many
    # But for what is merged once more, two rows cost what each of them does.
    merged = 2 * rows * sum(shipped.metrics[name].merge_seconds for name in names)
    start = shipped.run.start_seconds
    added = (two.total("core_seconds") or 0) - start - 2 * ((one.total("core_seconds") or 0) - start)
    assert -1e-6 * rows <= added <= merged * 1.001 + 1e-6
    assert two.stored_bytes == pytest.approx(2 * one.stored_bytes)


def test_shipped_figures_are_of_another_machine_until_this_one_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    assert read_costs()[1:] == (SHIPPED, "measured elsewhere")
    (tmp_path / "costs.yaml").write_text(SHIPPED.read_text())
    assert read_costs()[1:] == (tmp_path / "costs.yaml", "measured here")
