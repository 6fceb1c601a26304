"""What generation_kwargs ask for."""

from pathlib import Path

import pytest
import yaml

from capbench.adapters.decoding.dbd import DifferentiatedBeams, FactPrompts
from capbench.adapters.decoding.generating import Generating, Sampling
from capbench.adapters.decoding.opera import Opera, OverTrust
from capbench.adapters.decoding.settings import decoder_of
from capbench.adapters.decoding.vcd import Contrastive
from capbench.errors import AdapterError, UsageError

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Generating(512)),
        ({"max_gen_toks": 64, "until": ["\n"], "num_beams": 1, "temperature": 0}, Generating(64)),
        ({"max_new_tokens": 9, "num_beams": 4, "do_sample": False}, Generating(9, num_beams=4)),
        ({"decoding": "beam"}, Generating(512, num_beams=5)),
        ({"do_sample": True, "temperature": 0}, Generating(512)),
        ({"do_sample": True}, Generating(512, sampling=Sampling())),
        ({"temperature": 0.2}, Generating(512, sampling=Sampling(temperature=0.2))),
        (
            {"decoding": "nucleus", "do_sample": False, "num_beams": 1, "top_p": 0.9, "seed": 3},
            Generating(512, sampling=Sampling(top_p=0.9, seed=3)),
        ),
        ({"decoding": "greedy", "num_beams": None, "repetition_penalty": 1.2},
         Generating(512, more={"repetition_penalty": 1.2})),
        ({"decoding": "vcd"}, Contrastive(512, alpha=1.0, beta=0.1, noise_step=500)),
        (
            {"decoding": "vcd", "do_sample": True, "temperature": 0.7, "vcd_alpha": 0.5, "seed": 1},
            Contrastive(512, sampling=Sampling(temperature=0.7, seed=1), alpha=0.5, seed=1),
        ),
        # The release's own settings.
        (
            {"decoding": "opera", "num_beams": 1},
            Opera(512, 5, OverTrust(scale=50, weight=1, threshold=15, candidates=5, window=512, precision="half")),
        ),
        (
            {"decoding": "opera", "opera_beams": 3, "opera_scale": 20, "opera_weight": 0.5, "opera_threshold": 25,
             "opera_candidates": 4, "opera_window": 99, "opera_precision": "log", "length_penalty": 0},
            Opera(
                512, 3, OverTrust(scale=20, weight=0.5, threshold=25, candidates=4, window=99, precision="log"),
                more={"length_penalty": 0},
            ),
        ),
        (
            {"decoding": "dbd", "num_beams": 1, "do_sample": False, "max_new_tokens": 300},
            DifferentiatedBeams(
                Generating(300), beams=5, top_k=6, alpha=10, alpha_steps=3, later_alpha=5, selection_alpha=5, facts=10
            ),
        ),
        (
            {"decoding": "dbd", "dbd_beams": 7, "dbd_alpha": 4, "dbd_later_alpha": 4, "dbd_prompts": "minigpt-4"},
            DifferentiatedBeams(
                Generating(512), beams=7, top_k=7, alpha=4, later_alpha=4, prompts=FactPrompts.named("minigpt-4")
            ),
        ),
        # Section 5.1: for MiniGPT-4 7 beams, of 7 tokens each, and a weight of 4 in all steps.
        (
            {"decoding": "dbd", "dbd_prompts": "minigpt-4"},
            DifferentiatedBeams(
                Generating(512), beams=7, top_k=7, alpha=4, alpha_steps=3, later_alpha=4, selection_alpha=5, facts=10,
                prompts=FactPrompts.named("minigpt-4"),
            ),
        ),
        (
            {"decoding": "dbd", "dbd_prompts": "minigpt-4", "dbd_beams": 3, "dbd_top_k": 2, "dbd_alpha": 9},
            DifferentiatedBeams(
                Generating(512), beams=3, top_k=2, alpha=9, later_alpha=4, prompts=FactPrompts.named("minigpt-4")
            ),
        ),
    ],
)  # fmt: skip
def test_settings_become_a_strategy(settings, expected):
    decoder = decoder_of(settings)
    assert type(decoder) is type(expected)
    assert decoder == expected


@pytest.mark.parametrize(("settings", "message"), REFUSED["senseless"])
def test_settings_that_make_no_sense_are_an_error_that_names_them(settings, message: str):
    with pytest.raises(UsageError) as caught:
        decoder_of(settings)
    assert message in caught.value.message


PASSED_ON = {
    "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_new_tokens": 0, "length_penalty": 1.0,
    "early_stopping": False,
}  # fmt: skip
NEUTRAL = {
    "do_sample": False, "temperature": 0.0, "top_p": 1.0, "top_k": 0, "num_beams": 1, "seed": 3, "until": ["\n"],
    "max_new_tokens": 512, "max_gen_toks": 512,
}  # fmt: skip


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize(
    ("strategy", "read"),
    [
        ("greedy", ()),
        ("beam", ("num_beams",)),
        ("nucleus", ("temperature", "seed")),
        ("vcd", ("seed",)),
        ("opera", ()),
        ("dbd", ()),
    ],
)
def test_values_that_ask_for_nothing_go_with_every_strategy(strategy: str, read: tuple[str, ...], do_sample: bool):
    settings = {**PASSED_ON, "decoding": strategy}
    neutral = {key: value for key, value in NEUTRAL.items() if key not in read}
    assert decoder_of(settings | neutral | {"do_sample": do_sample}) == decoder_of(settings)


@pytest.mark.parametrize(("settings", "key", "strategy", "remedy"), REFUSED["unread"])
def test_key_that_the_strategy_does_not_read_is_an_error_that_names_the_right_one(settings, key, strategy, remedy):
    with pytest.raises(UsageError) as caught:
        decoder_of({"max_new_tokens": 64, **settings})
    assert caught.value.message == (f"generation_kwargs: {key} has no effect with decoding={strategy}.")
    assert remedy in caught.value.hint
    assert f"{key.partition('=')[0]}=null removes the task's setting." in caught.value.hint


def test_whole_number_is_given_as_the_library_takes_it():
    decoder = decoder_of({"repetition_penalty": 2})
    assert isinstance(decoder, Generating)
    penalty = decoder.more["repetition_penalty"]
    assert (penalty, type(penalty)) == (2.0, float)


def test_unknown_prompts_are_an_error():
    with pytest.raises(AdapterError, match=r"dbd_prompts=minigpt is not known\. Did you mean 'minigpt-4'\?"):
        decoder_of({"decoding": "dbd", "dbd_prompts": "minigpt"})


def test_prompts_of_dbd_are_the_papers():
    default, minigpt = FactPrompts.named("default"), FactPrompts.named("minigpt-4")
    assert default.search == (
        "Please generate a random fact of the image. You can describe the main object, the background, the "
        "environment, or any other detail. Please make sure the choice of the fact is random. Do not only focus on "
        "the people or the main object."
    )
    assert default.summary.startswith("These are the image and the facts of the image. Please summarize them")
    assert minigpt.search == default.search + " Give me the fact directly without other words"
