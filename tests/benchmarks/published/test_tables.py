"""Runs over the raw data sets give the numbers that the papers print.

Expected: table 1 of the PAC-S++ paper, printed to one decimal, so a value may differ by 0.05 and still
round to it; and the three decimals that the readme of the released PAC-S code prints for Flickr8k. Two
printed values are not what the released files give (METEOR on CF 22.3 here and in the released code, 22.2
in the table; ROUGE on Composite 30.1 here, 30.0 in the table), as noted beside them.
"""

import json
from pathlib import Path

import pytest
import yaml

import capbench
from capbench.benchmarks.published.values import find
from capbench.cli.main import main

ROUNDING = 0.05 + 1e-9
THREE_DECIMALS = 0.0005 + 1e-9
NEAR_TIES = {
    ("flickr8k_expert", "bleu_1", "kendall_b"): 0.001,
    ("flickr8k_expert", "bleu_1", "kendall_c"): 0.003,
    ("flickr8k_expert", "meteor", "kendall_b"): 0.001,
    ("flickr8k_cf", "rouge_l", "kendall_b"): 0.001,
}
"""By how much values move as scores that differ in their last bits alone tie; for the released code they do not."""

TABLE_1 = yaml.safe_load(Path(__file__).with_name("table_1.yaml").read_text())
RELEASED_LABELS = {"bleu_1": "BLEU-1", "bleu_4": "BLEU-4", "rouge_l": "ROUGE-L", "meteor": "METEOR", "cider": "CIDEr"}


@pytest.mark.data
@pytest.mark.costly
@pytest.mark.parametrize("task", TABLE_1)
def test_bench_run_prints_table_1_of_the_pac_s_plus_plus_paper_and_needs_no_java(
    task: str,
    data_folder,
    session_folder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path,
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    folder = data_folder(task.partition("_")[0])
    command = ["run", "--task", task, "--data", f"{task}={folder}", "--output_path", str(tmp_path)]
    # CF shares captions with Expert, so one store serves both.
    command += ["--store", str(session_folder / "published.sqlite"), "--bootstrap", "0", "--format", "json"]
    assert main(command) == 0
    row_of = {(row["metric"], row["statistic"]): row for row in json.loads(capsys.readouterr().out)}
    for metric, (tau_b, tau_c) in TABLE_1[task].items():
        for statistic, expected in (("kendall_b", tau_b), ("kendall_c", tau_c)):
            row = row_of[metric, statistic]
            assert 100 * row["value"] == pytest.approx(expected, abs=ROUNDING), (metric, statistic)
            assert row["published"] is not None
    if task == "composite":
        return
    name = {"flickr8k_expert": "Flickr8k-Expert", "flickr8k_cf": "Flickr8k-CF"}[task]
    for metric, label in RELEASED_LABELS.items():
        for statistic in ("kendall_b", "kendall_c"):
            printed = find("code_outputs", "pacscore_readme", name, label, statistic)
            moved = NEAR_TIES.get((task, metric, statistic), 0.0)
            value = 100 * row_of[metric, statistic]["value"]
            assert value == pytest.approx(printed.value, abs=THREE_DECIMALS + moved)


@pytest.mark.data
@pytest.mark.parametrize(
    ("task", "model", "printed_model", "cells"),
    [
        ("coco_caption_5ref", "captions:{}/m2_transformer.json", "M2 Transformer", ("bleu_4", "meteor", "cider")),
        ("coco_caption_5ref", "captions:{}/blip2_results_xe.json", "BLIP-2", ("bleu_4", "meteor", "cider")),
        ("coco_humans", "data-captions", "Humans", ("meteor", "cider")),
    ],
)
def test_captions_that_the_authors_released_give_table_6_of_the_pac_s_plus_plus_paper(
    task: str, model: str, printed_model: str, cells: tuple[str, ...], data_folder
):
    folder = data_folder("coco_captioners")
    done = capbench.evaluate(model.format(folder), [task], metrics=cells, data={task: folder}, resamples=0)[task]
    # Other draws of the human caption (seeds 0 to 2, drawn otherwise) gave METEOR 24.0 to 24.4, CIDEr 87.1 to 88.5.
    room = {"meteor": 0.4, "cider": 1.4} if task == "coco_humans" else dict.fromkeys(cells, ROUNDING)
    for result in done.results:
        label = RELEASED_LABELS[result.metric]
        printed = find("pacspp", 6, "COCO Karpathy test, system level", label, "mean", printed_model)
        assert 100 * result.value == pytest.approx(printed.value, abs=room[result.metric]), label
