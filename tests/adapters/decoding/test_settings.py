"""What generation_kwargs ask for."""

from __future__ import annotations

from typing import Any

import pytest

from capbench.adapters.decoding import decoder_of
from capbench.adapters.decoding.dbd import DifferentiatedBeams, Prompts
from capbench.adapters.decoding.generating import Generating, Sampling
from capbench.adapters.decoding.vcd import Contrastive
from capbench.errors import AdapterError, UsageError


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
        ({"temperature": 0.2, "do_sample": False}, Generating(512)),
        (
            {"decoding": "nucleus", "do_sample": False, "num_beams": 1, "top_p": 0.9, "seed": 3},
            Generating(512, sampling=Sampling(top_p=0.9, seed=3)),
        ),
        ({"decoding": "greedy", "num_beams": 3, "repetition_penalty": 1.2},
         Generating(512, more={"repetition_penalty": 1.2})),
        ({"decoding": "vcd"}, Contrastive(512, alpha=1.0, beta=0.1, noise_step=500)),
        (
            {"decoding": "vcd", "do_sample": True, "temperature": 0.7, "vcd_alpha": 0.5, "seed": 1},
            Contrastive(512, sampling=Sampling(temperature=0.7, seed=1), alpha=0.5, seed=1),
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
                Generating(512), beams=7, top_k=7, alpha=4, later_alpha=4, prompts=Prompts.named("minigpt-4")
            ),
        ),
        # Section 5.1: for MiniGPT-4 7 beams, of 7 tokens each, and a weight of 4 in all steps.
        (
            {"decoding": "dbd", "dbd_prompts": "minigpt-4"},
            DifferentiatedBeams(
                Generating(512), beams=7, top_k=7, alpha=4, alpha_steps=3, later_alpha=4, selection_alpha=5, facts=10,
                prompts=Prompts.named("minigpt-4"),
            ),
        ),
        (
            {"decoding": "dbd", "dbd_prompts": "minigpt-4", "dbd_beams": 3, "dbd_top_k": 2, "dbd_alpha": 9},
            DifferentiatedBeams(
                Generating(512), beams=3, top_k=2, alpha=9, later_alpha=4, prompts=Prompts.named("minigpt-4")
            ),
        ),
    ],
)  # fmt: skip
def test_settings_become_a_strategy(settings: dict[str, Any], expected: Any):
    found = decoder_of(settings)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_new_token": 3}, "unknown key 'max_new_token'. Did you mean 'max_new_tokens'?"),
        ({"decoding": "bdb"}, "decoding=bdb is not known. Did you mean 'dbd'?"),
        ({"decoding": "beam", "num_beams": 1}, "decoding=beam contradicts num_beams=1"),
        ({"decoding": "nucleus", "temperature": 0}, "decoding=nucleus contradicts temperature=0"),
        ({"do_sample": True, "num_beams": 2}, "do_sample with num_beams above 1"),
        ({"max_new_tokens": 0}, "max_new_tokens=0 is not a whole number of at least 1"),
        ({"max_new_tokens": 2.5}, "max_new_tokens=2.5 is not a whole number"),
        ({"num_beams": True}, "num_beams=True is not a whole number"),
        ({"temperature": "hot"}, "temperature='hot' is not a number"),
        ({"temperature": float("nan")}, "temperature=nan is not a number"),
        ({"top_p": 1.5}, "top_p=1.5 is above 1"),
        ({"vcd_noise_step": 1000}, "vcd_noise_step=1000 is above 999"),
        ({"do_sample": "yes"}, "do_sample='yes' is neither true nor false"),
    ],
)
def test_settings_that_make_no_sense_are_an_error_that_names_them(settings: dict[str, Any], message: str):
    with pytest.raises(UsageError) as caught:
        decoder_of(settings)
    assert message in caught.value.message


def test_unknown_prompts_are_an_error():
    with pytest.raises(AdapterError, match=r"dbd_prompts=minigpt is not known\. Did you mean 'minigpt-4'\?"):
        decoder_of({"decoding": "dbd", "dbd_prompts": "minigpt"})


def test_prompts_of_dbd_are_the_papers():
    default, minigpt = Prompts.named("default"), Prompts.named("minigpt-4")
    assert default.search == (
        "Please generate a random fact of the image. You can describe the main object, the background, the "
        "environment, or any other detail. Please make sure the choice of the fact is random. Do not only focus on "
        "the people or the main object."
    )
    assert default.summary.startswith("These are the image and the facts of the image. Please summarize them")
    assert minigpt.search == default.search + " Give me the fact directly without other words"
