"""Visual contrastive decoding against a loop that looks at every sequence anew."""

import math

import numpy as np
import pytest
import torch
from tiny_images import noise_image
from tiny_lvlm import continued

from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample
from capbench.adapters.decoding.generating import Generating, generator_of
from capbench.adapters.decoding.vcd import Contrastive, contrasted, kept_share, with_noisy_half
from capbench.errors import AdapterError

TOKENS = 10


def brute_force(host: HfCaptioner, sample: CaptionSample, decoder: Contrastive) -> list[int]:
    """Return the greedy caption: two forward passes a token, the contrast written out."""
    single = host.inputs([sample])
    pair = {**host.inputs([sample, sample])}
    noise = generator_of(decoder.seed, "noise", sample.id, sample.prompt)
    both = with_noisy_half(pair, [noise], decoder.noise_step)
    noisy = {**single, "pixel_values": both[len(both) // 2 :]}
    ids: list[int] = []
    while len(ids) < TOKENS:
        logits = []
        for inputs in (single, noisy):
            with torch.inference_mode():
                logits.append(host.model(**continued(inputs, ids), use_cache=False).logits[0, -1].double())
        contrast = (1 + decoder.alpha) * logits[0] - decoder.alpha * logits[1]
        probabilities = logits[0].softmax(-1)
        contrast[probabilities < decoder.beta * probabilities.max()] = -float("inf")
        token = int(contrast.argmax())
        if token in host.end_ids:
            break
        ids.append(token)
    return ids


@pytest.mark.parametrize("kind", ["llava", "qwen2_vl", "idefics3"])
def test_captions_are_those_of_two_passes_a_token(kind: str, request: pytest.FixtureRequest):
    host: HfCaptioner = request.getfixturevalue(kind)
    decoder = Contrastive(TOKENS, alpha=1.0, beta=0.1, noise_step=500)
    samples = [CaptionSample(str(n), ("the dog", "Describe this image.")[n % 2], noise_image(n)) for n in range(4)]
    expected = [brute_force(host, sample, decoder) for sample in samples]
    assert [written.ids for written in decoder.write(host, samples)] == expected
    assert expected != [written.ids for written in Generating(TOKENS).write(host, samples)]


def test_without_contrast_or_choice_captions_are_greedy(llava: HfCaptioner):
    samples = [CaptionSample(str(n), "the dog", noise_image(n)) for n in range(3)]
    greedy = Generating(TOKENS).write(llava, samples)
    assert Contrastive(TOKENS, alpha=0.0, beta=0.0).write(llava, samples) == greedy
    assert Contrastive(TOKENS, alpha=1.0, beta=1.0).write(llava, samples) == greedy


def test_noise_grows_with_the_step_as_in_the_diffusion():
    left, betas = 1.0, 1 / (1 + np.exp(-np.linspace(-6, 6, 1000))) * (0.5e-2 - 1e-5) + 1e-5
    shares = []
    for beta in betas:
        left *= 1 - beta
        shares.append(left)
    assert [kept_share(step) for step in (0, 500, 999)] == pytest.approx([shares[0], shares[500], shares[999]])
    assert kept_share(999) < kept_share(500) < kept_share(0) < 1


def test_noise_is_added_to_the_second_half_in_the_right_amount():
    pixels = torch.full((4, 3, 64, 64), 2.0)
    noises = [np.random.default_rng(number) for number in range(2)]
    noisy = with_noisy_half({"pixel_values": pixels}, noises, 500)
    assert torch.equal(noisy[:2], pixels[:2])
    share = kept_share(500)
    assert float(noisy[2:].mean()) == pytest.approx(2 * math.sqrt(share), abs=0.02)
    assert float(noisy[2:].var()) == pytest.approx(1 - share, rel=0.03)
    assert not torch.equal(noisy[2], noisy[3])


def test_tiles_that_fill_up_stay_empty():
    pixels = torch.ones(2, 3, 3, 4, 4)
    pixels[:, 1:] = 0
    noisy = with_noisy_half({"pixel_values": pixels}, [np.random.default_rng(0)], 999)
    assert noisy[1, 0].std() > 0
    assert not noisy[1, 1:].any()


def test_pixels_of_an_unknown_form_are_an_error():
    with pytest.raises(AdapterError, match=r"does not support pixel values of shape \[7, 3, 4, 4\]"):
        with_noisy_half({"pixel_values": torch.ones(7, 3, 4, 4)}, [np.random.default_rng(0)] * 3, 500)


def test_contrast_is_the_same_for_both_halves():
    logits = torch.tensor([[2.0, 1.0, -9.0], [0.0, 2.0, 9.0]])
    expected = torch.tensor([4.0, 0.0, -float("inf")])
    contrast = contrasted(logits, 1.0, 0.1)
    assert torch.equal(contrast, torch.stack([expected, expected]))
