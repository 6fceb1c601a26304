"""Greedy, beam and nucleus search on tiny models."""

import numpy as np
import pytest
import torch
from tiny_images import noise_image
from tiny_lvlm import spoiled

from capbench.adapters.decoding.contract import CaptionSample
from capbench.adapters.decoding.generating import Generating, Sampling, SeededChoice, generator_of


def samples(count: int) -> list[CaptionSample]:
    return [
        CaptionSample(str(n), ("the dog", "Describe this image in detail.")[n % 2], noise_image(n))
        for n in range(count)
    ]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_captions_are_those_of_the_library(llava, num_beams: int):
    for sample in samples(4):
        inputs = llava.inputs([sample])
        with torch.inference_mode():
            ids = llava.model.generate(**inputs, max_new_tokens=12, num_beams=num_beams, do_sample=False)
        ids = ids[0, inputs["input_ids"].shape[1] :].tolist()
        end = next((place for place, token in enumerate(ids) if token in llava.end_ids), None)
        (written,) = Generating(12, num_beams=num_beams).write(llava, [sample])
        assert written.ids == ids[:end]
        assert written.cut == (end is None)


def test_seeds_give_captions_that_do_not_depend_on_the_batch(llava):
    first = Generating(12, sampling=Sampling(seed=1))
    together = first.write(llava, samples(6))
    assert first.write(llava, samples(6)[::-1])[::-1] == together
    assert [first.write(llava, [sample])[0] for sample in samples(6)] == together
    assert Generating(12, sampling=Sampling(seed=2)).write(llava, samples(6)) != together


@pytest.mark.parametrize("sampling", [Sampling(top_k=1), Sampling(top_p=1e-6), Sampling(temperature=1e-4)])
def test_sampling_from_one_token_is_greedy(llava, sampling: Sampling):
    assert Generating(12, sampling=sampling).write(llava, samples(3)) == Generating(12).write(llava, samples(3))


def test_tokens_are_drawn_as_often_as_they_are_probable():
    probabilities = np.array([0.5, 0.0, 0.3, 0.2])
    scores = torch.from_numpy(np.log(np.maximum(probabilities, 1e-300))).expand(4000, 4).clone()
    scores[:, 1] = -float("inf")
    drawn = SeededChoice(generator_of(0, "rows").random((4000, 1)))(torch.zeros(4000, 1), scores).argmax(-1)
    shares = np.bincount(drawn.numpy(), minlength=4) / 4000
    assert shares == pytest.approx(probabilities, abs=0.03)
    assert shares[1] == 0


def test_last_of_the_random_numbers_draws_a_token_that_is_possible():
    scores = torch.tensor([[0.0, 1.0, -float("inf")]])
    assert int(SeededChoice(np.array([[np.nextafter(1, 0)]]))(torch.zeros(1, 1), scores).argmax()) == 1
    assert int(SeededChoice(np.array([[0.0]]))(torch.zeros(1, 1), scores).argmax()) == 0


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("num_beams", [1, 2])
def test_sample_whose_logits_are_not_finite_fails_alone(llava, broken: float, num_beams: int):
    decoder = Generating(8, num_beams=num_beams)
    good = decoder.write(llava, samples(3))
    # After the first tokens, when the rows of all beams are there.
    with spoiled(llava.model, num_beams, broken):
        written = decoder.write(llava, samples(3))
    assert written[1].fault == "the model's logits are not finite"
    assert [written[0], written[2]] == [good[0], good[2]]
