"""The trainer that hands a captioner to TRL: what it is paid, that it resumes, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killed_training import untold
from safetensors.torch import load_file
from tiny_recipes import call_of

from capbench.adapters.aliases import resolve_model
from capbench.errors import TrainingError, UsageError
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened, run_recipe
from capbench.recipes.training.grpo import GrpoSettings
from capbench.recipes.training.history import StepReport, read_history
from capbench.recipes.training.rewards import RewardPart

pytestmark = pytest.mark.costly

Grpo = Callable[..., TrainingCall]
REWARD = [{"metric": "rouge_l", "weight": 10.0}, {"metric": "length", "weight": -0.5}]


@pytest.fixture
def grpo(call: Grpo, tiny_llava: Path) -> Grpo:
    """Return a function that gives what the trainer takes."""

    def make(**keys: Any) -> TrainingCall:
        objective = {"batch": 4, "captions": 2, "tokens": 6, "reward": REWARD, "piece": 2} | keys.pop("objective", {})
        model = {"name": "hf", "arguments": {"pretrained": str(tiny_llava)}}
        return call(trainer="grpo", objective=objective, **({"model": model} | keys))

    return make


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "weights" / "model.safetensors")


class Killed(Exception):  # noqa: N818 - what a test raises
    pass


def test_killed_training_goes_on_to_the_weights_and_history_of_an_unbroken_one(grpo: Grpo, tmp_path: Path):
    def kill(report: StepReport) -> None:
        if report.step == 3:
            raise Killed

    run_recipe(grpo(), tmp_path / "whole", untold, {}, judge=False)
    with pytest.raises(Killed):
        run_recipe(grpo(), tmp_path / "killed", kill, {}, judge=False)
    assert not (tmp_path / "killed" / "model.yaml").exists()
    with pytest.raises(TrainingError, match="another recipe or other data"):
        run_recipe(grpo(seed=1), tmp_path / "killed", untold, {}, judge=False)
    run_recipe(grpo(), tmp_path / "killed", untold, {}, judge=False)
    whole, killed = (read_history(tmp_path / name) for name in ("whole", "killed"))
    assert [line["step"] for line in whole] == [line["step"] for line in killed] == [1, 2, 3, 4]
    for line in (*whole, *killed):
        assert line.pop("seconds") > 0
    assert whole == killed
    assert all(line["reward"] == pytest.approx(10 * line["rouge_l"] - 0.5 * line["length"], abs=1e-4) for line in whole)
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all((first[name] == second[name]).all() for name in first)
    card = (tmp_path / "whole" / "README.md").read_text(encoding="utf-8")
    assert "- **Reward**: 10 × rouge_l + -0.5 × length." in card
    assert resolve_model(str(tmp_path / "whole")).on("cpu").load() is not None


@pytest.mark.usefixtures("one_thread")
def test_papers_recipe_is_tuned_by_its_reward_and_its_card_says_what_was_paid(tiny_llava: Path, tmp_path: Path):
    capture = "capture[parser=grammar,synonyms=false,soft=false]"
    changes = (
        f"model={{name: hf, arguments: {{pretrained: {tiny_llava}}}}}", "precision=fp32", "optimiser.rate=0.05",
        "data={task: shapes_detailcaps, arguments: {scenes: 8}}", "stop={steps: 12, every: 12}", "schedule={}",
        "objective={batch: 4, piece: 2, captions: 8, tokens: 8}",
        f"objective.reward=[{{metric: '{capture}'}}, {{metric: length}}]",
        "judge=[{task: shapes_captions, metrics: [length], limit: 4, generation_kwargs: {max_new_tokens: 8}}]",
    )  # fmt: skip
    out = tmp_path / "out"
    run_recipe(call_of("grpo_capture", changes), out, untold, {})
    before, after = load_file(tiny_llava / "model.safetensors"), weights(out)
    tuned = {name for name, value in after.items() if (value != before[name]).any()}
    assert tuned and all("language_model" in name and name.split(".")[-2] in ("q_proj", "v_proj") for name in tuned)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert f"- **Reward**: 1 × {capture} + 1 × length; judged by no task: {capture}." in card
    assert "| shapes_captions | length | mean |" in card and "| **the reward**, " in card
    lines = read_history(out)
    rewards = [line["reward"] for line in lines]
    assert rewards == pytest.approx([line[capture] + line["length"] for line in lines], abs=1e-4)
    assert sum(rewards[-4:]) > sum(rewards[:4]) + 0.5


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"objective": {"piece": 3}}, "4 is no multiple of 3 images at once times 1 process"),
        ({"objective": {"captions": 1}}, "captions"),
    ],
)
def test_settings_that_trl_cannot_carry_out_are_refused(grpo: Grpo, keys: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        opened(grpo(**keys))


def test_trl_is_told_of_dropout_and_device_and_keeps_two_checkpoints(grpo: Grpo, tmp_path: Path):
    dropped, kept = [opened(grpo(objective={"dropout": dropout}))._arguments(tmp_path) for dropout in (True, False)]
    assert [dropped.disable_dropout, kept.disable_dropout] == [False, True]
    assert (dropped.use_cpu, dropped.gradient_checkpointing, dropped.save_total_limit) == (True, False, 2)
    defaults = GrpoSettings(batch=4, reward=[RewardPart(metric="length")])
    assert (defaults.captions, defaults.dropout, defaults.kl, defaults.updates) == (8, True, 0, 1)


def test_captioner_with_an_encoder_and_a_decoder_is_refused_with_the_trainer_that_takes_it(grpo: Grpo, captioner: Path):
    with pytest.raises(UsageError, match=r"has an encoder and a decoder.*\n.*'scst'"):
        opened(grpo(model={"name": "hf", "arguments": {"pretrained": str(captioner)}}))
