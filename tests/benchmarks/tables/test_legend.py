"""What stands under a table: only what is in it, in the figures of the table."""

from __future__ import annotations

from pathlib import Path

import capbench
from capbench.benchmarks.tables.results import legend, render

HC = "HC: both captions are true, one says more"


def test_agreement_has_arrows_at_statistics_and_a_ratio_of_errors_as_computed(tmp_path: Path):
    run = capbench.evaluate(
        tasks="shapes_detailcaps_agreement", metrics=["length", "bleu_4"], resamples=20, output_path=tmp_path
    )
    (one,) = run.tasks
    by_statistic = {result.statistic: result for result in one.results if result.metric == "bleu_4"}
    assert by_statistic["one_minus_r2"].scale == 1
    assert by_statistic["pearson"].scale == 100
    table = run.table()
    # Of BLEU-4, whose scores scatter as much as the ratings, it is below 1; times 100 it would be 25.
    (row,) = (line for line in table.splitlines() if "1-R² ↓" in line and "0.25" in line)
    assert "BLEU" not in row
    assert "PCC ↑" in table
    assert "length ↑" not in table
    assert "↑" not in run.table("latex") + run.table("csv")
    lines = legend(run.tasks)
    assert lines[:3] == [
        "↑ more is better; ↓ less is better",
        "values are shown × 100; csv, json and records hold them as computed",
        "1-R²: no upper end, shown as computed",
    ]
    assert "95% CI: a resample draws whole images" in lines
    assert any(line.startswith("Group: metrics of a task that share a letter do not differ") for line in lines)
    assert one.folder is not None
    again = capbench.load_run(one.folder)
    assert again.table() == table
    assert legend(again.tasks) == lines


def test_captioner_has_arrows_at_metrics_and_ceilings_as_shown(tmp_path: Path):
    run = capbench.evaluate("iiw-p5b", "iiw_400", metrics=["cider", "length", "bleu_1"], limit=5, resamples=0)
    assert [line.split("|")[3].strip() for line in run.table().splitlines()[2:]] == ["CIDEr ↑", "length", "BLEU-1 ↑"]
    assert legend(run.tasks) == [
        "↑ more is better",
        "values are shown × 100; csv, json and records hold them as computed",
        "CIDEr: up to 1,000 as shown",
        "length: no upper end, shown as computed",
    ]


def test_length_alone_has_no_arrow_and_none_is_explained(tmp_path: Path):
    run = capbench.evaluate("iiw-p5b", "iiw_400", metrics="length", limit=3, resamples=0, output_path=tmp_path)
    again = capbench.load_run(next(tmp_path.rglob("run.json")).parent)
    for one in (run, again):
        assert one.tasks[0].results[0].higher_is_better is None
        assert "↑" not in one.table()
        assert legend(one.tasks) == ["length: no upper end, shown as computed"]
    # bench compare puts the longer captions first, and lm-eval knows no metric without a direction.
    assert again.tasks[0].record.higher_is_better("length") is True


def test_categories_measures_and_what_n_counts_are_told_where_they_occur():
    pairs = capbench.evaluate(tasks="shapes_pascal", metrics=["length"], resamples=0)
    lines = legend(pairs.tasks)
    assert HC in lines
    assert [line[:2] for line in lines[lines.index(HC) :][:4]] == ["HC", "HI", "HM", "MM"]
    assert lines[-1] == "n: choices between captions; Shapes-Pascal has 800 documents"
    assert not any(line.startswith(("95% CI", "Group", "Published")) for line in lines)
    matched = capbench.evaluate("shapes-clip", "shapes_dci_all_scm", limit=3, resamples=0)
    told = legend(matched.tasks)
    assert any(line.startswith("SCM: subcrop-caption matching") for line in told)
    assert not any(line.startswith(("Neg: ", "HC: ")) for line in told)
    (result,) = matched.tasks[0].results
    assert result.n != 3
    assert told[-1].startswith("n: entries")
    assert told[-1].endswith(" has 3 documents")


def test_tables_of_rules_and_of_nothing_need_no_legend():
    assert legend([]) == []
    assert render([]) == ""
