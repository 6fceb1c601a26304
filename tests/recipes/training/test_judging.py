"""What is said of a captioner before and after it was tuned, and of the metrics that it was paid by."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from huggingface_hub import ModelCard

import capbench
from capbench.adapters.aliases import resolve_model
from capbench.errors import BenchError
from capbench.recipes.training.checkpoints import TrainingState
from capbench.recipes.training.judging import (
    JudgedRun,
    Row,
    compared,
    judged,
    model_card,
    require_judges,
    sensitivities,
)
from capbench.recipes.training.rewards import RewardPart
from capbench.recipes.training.schema import JudgeTask, LoadedRecipe, load_recipe
from capbench.tasks.shapes import reader

JUDGE = JudgeTask(task="shapes_captions", metrics=["cider", "length", "rep_1", "bleu_4"], limit=12)
REWARD = [RewardPart(metric="cider"), RewardPart(metric="bleu_4", weight=0.5), RewardPart(metric="clip_s", encoder="x")]


def card_of(
    loaded: LoadedRecipe, name: str = "x", scores: Sequence[Row] = (), notes: Sequence[Row] = (), rewarded: Any = ()
) -> str:
    parameters = {"w": torch.nn.Parameter(torch.ones(3))}
    rows = SimpleNamespace(counts=lambda: {"rows": 12}, digest=lambda: "0" * 64)
    trainer: Any = SimpleNamespace(name="m", parameters=parameters, rows=rows, rewarded=rewarded)
    return model_card(loaded, Path(name), trainer, TrainingState("f"), 1.0, scores, notes)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[JudgedRun]]:
    """Runs of a captioner that says the same of all, and of one that repeats a reference."""
    folder, verdicts = tmp_path_factory.mktemp("judged"), {}
    scenes = list(reader.briefly_described(12))
    texts = {
        "before": ["A red circle."] * 12,
        "after": [f"{row['references'][0]} {row['references'][0]}" for row in scenes],
    }
    for when, captions in texts.items():
        file = folder / f"{when}.jsonl"
        lines = [json.dumps({"id": row["id"], "caption": text}) for row, text in zip(scenes, captions, strict=True)]
        file.write_text("\n".join(lines), encoding="utf-8")
        verdicts[when] = judged([JUDGE], resolve_model(f"captions:{file}"), folder / when, {})
    return verdicts


def test_rows_say_what_the_training_was_paid_for_and_where_metrics_went(both: dict[str, list[JudgedRun]]):
    rows = {row["metric"]: row for row in compared(both["before"], both["after"], REWARD)}
    assert {name: row["rewarded"] for name, row in rows.items() if row["rewarded"]} == {
        "cider": ["cider"],
        "bleu_4": ["bleu_4"],
    }
    assert rows["rep_1"]["higher_is_better"] is False
    assert rows["length"]["difference"]["value"] == pytest.approx(
        rows["length"]["after"]["value"] - rows["length"]["before"]["value"]
    )
    notes = [
        {"metric": "cider", "rule": "end cut: falls", "value": 0.9, "low": 0.8, "high": 1.0, "n": 7},
        {"metric": "rouge_l", "rule": "end cut: falls", "value": 0.5, "low": None, "high": None, "n": 8},
        {"metric": "rouge_l", "rule": "case: stays", "value": None, "low": None, "high": None, "n": 8},
    ]
    changed = load_recipe("shapes_scst_cider", ("stop={steps: 3, every: 3}", "seed=1"))
    card = card_of(changed, "tuned", list(rows.values()), notes, REWARD)
    assert "- **Reward**: 1 × cider + 0.5 × bleu_4 + 1 × clip_s (x); judged by no task: clip_s (x).\n" in card
    # As a shell takes it.
    assert "bench train shapes_scst_cider --set 'stop={steps: 3, every: 3}' --set seed=1\n" in card
    lines = {line.split(" | ")[1]: line for line in card.splitlines() if line.startswith("| shapes_captions")}
    assert "**the reward**, " in lines["cider"]
    assert lines["length"].endswith("| higher |")
    assert lines["rep_1"].endswith("| higher (worse) |")
    assert lines["bleu_4"].endswith("| **the reward**, higher |")
    assert "| end cut: falls | 0.900 [0.800, 1.000] | 0.500 | 8 |" in card
    assert "| case: stays | – | – | 8 |" in card


def test_change_of_a_corpus_value_is_the_jackknifes_over_documents(both: dict[str, list[JudgedRun]]):
    (change,) = [row["difference"] for row in compared(both["before"], both["after"], []) if row["metric"] == "bleu_4"]
    texts = [[(row["candidate"], row["references"]) for row in both[when][0].run.samples.to_pylist()] for when in both]

    def bleu(rows: list[tuple[str, list[str]]]) -> float:
        captions, references = map(list, zip(*rows, strict=True))
        return capbench.score(predictions=captions, references=references, metrics="bleu_4").system["bleu_4"]

    before, after = texts
    without = [bleu(after[:n] + after[n + 1 :]) - bleu(before[:n] + before[n + 1 :]) for n in range(12)]
    stderr = np.sqrt(11 / 12 * ((without - np.mean(without)) ** 2).sum())
    assert change["value"] == pytest.approx(bleu(after) - bleu(before), abs=1e-9)
    half = (change["high"] - change["low"]) / 2
    assert half == pytest.approx(scipy.stats.t.ppf(0.975, 11) * stderr, rel=0.15)


def test_change_of_an_encoder_is_paired_by_the_statistics_of_the_task_and_categories_have_none(tmp_path: Path):
    judges = [JudgeTask(task=task, metrics=["clip_s"], limit=60) for task in ("shapes_expert_shapes", "shapes_foil")]
    judges.append(JudgeTask(task="shapes_dci_all_scm", limit=60))
    before, after = (
        judged(judges, resolve_model(name), tmp_path / name, {}) for name in ("shapes-clip-plain", "shapes-clip")
    )
    rows = compared(before, after, [])
    assert {row["statistic"] for row in rows} == {"kendall_b", "kendall_c", "accuracy"}
    for row in rows:
        change = row["difference"]
        assert change["value"] == pytest.approx(row["after"]["value"] - row["before"]["value"])
        # Both models see the same images, whose common effect cancels.
        width = sum((row[when]["high"] - row[when]["low"]) ** 2 for when in ("before", "after")) ** 0.5
        assert 0 < change["high"] - change["low"] < 1.2 * width


def test_card_of_a_recipe_of_ones_own_names_its_file_and_a_missing_choice_is_told_with_its_values(tmp_path):
    file = tmp_path / "of mine.yaml"
    text = (
        "recipe: mine\ndata: {file: rows.jsonl}\nmodel: {name: shapes-clip-plain}\n"
        "optimiser: {rate: 1.0e-3}\nstop: {epochs: 1}\n"
    )
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BenchError, match=r"key 'lora' is missing; write 'lora: none' or 'lora: \{kind: pac, "):
        load_recipe(str(file))
    file.write_text(text + "lora: none\n", encoding="utf-8")
    card = card_of(load_recipe(str(file)))
    head = "---\nmodel_name: x\ntags:\n- capbench\n- mine\n---\n\n# x\n\n"
    hub = ModelCard(card_of(load_recipe("sdci_pick1", ("model.name=openai-clip-vit-b-32",)))).data
    assert (hub.license, hub.datasets, hub.tags) == ("mit", ["dci_all_neg"], ["capbench", "sdci_pick1"])
    assert card.startswith(f"{head}    bench train 'of mine.yaml'\n    bench run --model x ")


def test_card_of_an_encoder_has_no_changes_and_one_without_judges_says_so(both: dict[str, list[JudgedRun]]):
    rows = compared(both["before"], both["after"], [])
    assert not any(row["rewarded"] for row in rows)
    bare = [row | {"difference": None} for row in rows]
    cards = [card_of(load_recipe("shapes_scst_cider"), scores=scores) for scores in (bare, [])]
    assert "| task | metric | statistic | before | after |\n" in cards[0]
    assert "paired bootstrap" not in cards[0]
    assert "No evaluation." in cards[1]


@pytest.mark.parametrize(
    ("low", "high", "higher_is_better", "said"),
    [
        (0.1, 0.3, True, "higher"),
        (0.1, 0.3, False, "higher (worse)"),
        (-0.3, -0.1, True, "lower"),
        (-0.3, -0.1, False, "lower (better)"),
        (0.1, 0.3, None, "higher"),
        (0.0, 0.3, True, "neither higher nor lower"),
        (-0.3, 0.0, False, "neither higher nor lower"),
        (None, None, True, "change undefined"),
    ],
)
@pytest.mark.parametrize("rewarded", [False, True])
def test_card_says_where_a_metric_went_unless_the_interval_leaves_it_open(low, high, higher_is_better, said, rewarded):
    value = {"value": 1.0, "low": 0.9, "high": 1.1}
    row = {
        "task": "t", "metric": "m", "statistic": "mean", "before": value, "after": value, "n": 9,
        "difference": {"value": 0.2, "low": low, "high": high}, "rewarded": ["m"] * rewarded,
        "higher_is_better": higher_is_better,
    }  # fmt: skip
    card = card_of(load_recipe("shapes_scst_cider"), scores=[row])
    (line,) = [line for line in card.splitlines() if line.startswith("| t |")]
    # Of other metrics only a direction is told.
    told_of_all = said if rewarded or said.startswith(("higher", "lower")) else ""
    assert line.endswith(f"| {', '.join(filter(None, ['**the reward**' * rewarded, told_of_all]))} |")
    assert ("[" in line.split("|")[6]) == (low is not None)


def test_metrics_of_a_reward_are_held_against_captions_that_rules_changed(tmp_path: Path):
    parts = [RewardPart(metric="rouge_l"), RewardPart(metric="clip_s", encoder="shapes-clip")]
    rows = sensitivities("checklist_shapes", parts, tmp_path, {"limit": 6, "resamples": 0})
    by_metric = {(row["metric"], row["rule"]): row["value"] for row in rows}
    assert len(by_metric) == len(rows)
    assert by_metric["rouge_l", "case: stays"] == 1.0
    assert by_metric["clip_s", "attribute replaced: falls"] > 0.6
    # What a caption that is said four times is paid, by what it is paid once.
    assert by_metric["rouge_l", "caption repeated 4 times: × clean mean"] < 0.7
    assert not any("change in SD" in rule or "rises" in rule for _, rule in by_metric)


def test_what_cannot_be_judged_is_said_before_anything_is_trained():
    model = resolve_model("shapes-captioner")
    require_judges([JUDGE], model, "checklist_shapes", [RewardPart(metric="cider")], {})
    clip = RewardPart(metric="clip_s", encoder="shapes-clip")
    for judges, probe, said in (
        ([JudgeTask(task="shapes_caption")], None, "Did you mean 'shapes_captions'"),
        ([JudgeTask(task="shapes_captions", metrics=["clip_s"])], None, "needs a model that encodes"),
        ([JUDGE], "checklist_shape", "Did you mean 'checklist_shapes'"),
    ):
        with pytest.raises(BenchError, match=said):
            require_judges(judges, model, probe, [clip], {})
