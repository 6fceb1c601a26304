"""OPERA against what its released code printed, and its pass over candidates against plain passes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_images import noise_image
from tiny_lvlm import continued, spoiled
from toy_llama import END, toy_llama, toy_prompt
from transformers import DynamicCache
from transformers.cache_utils import DynamicSlidingWindowLayer

import capbench
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample, Written
from capbench.adapters.decoding.generating import Generating
from capbench.adapters.decoding.opera import (
    Completed,
    Opera,
    OperaSearch,
    OverTrust,
    TokenTree,
    TreeOutput,
    searching,
    watching,
)
from capbench.errors import AdapterError
from capbench.tasks.shapes.drawing import draw
from capbench.tasks.shapes.sampling import sample_scene

RELEASED = json.loads((Path(__file__).parent / "opera_released.json").read_text(encoding="utf-8"))["searches"]
SHAPES_LLAVA = Path(capbench.__file__).parent / "adapters" / "models" / "shapes-llava"
_WEIGHTS = ("seed", "sharp", "loud", "end")


def searched(case: dict[str, Any], precision: str = "half") -> tuple[Written, OperaSearch]:
    """Return what is written with the settings of a released search, and the search itself."""
    settings = dict(case["settings"])
    beams = settings.pop("beams")
    strategy = Opera(case["tokens"], beams, OverTrust(**settings, precision=precision), case["more"])
    model = toy_llama(**{name: case[name] for name in _WEIGHTS}).double()

    def loop(model: Any, input_ids: torch.Tensor, **prepared: Any) -> tuple[Written, OperaSearch]:
        with searching(strategy, model, input_ids, prepared, {END}) as search:
            return search.run(case["tokens"]), search

    others = {key: value for key, value in case["more"].items() if key == "repetition_penalty"}
    with torch.inference_mode():
        return model.generate(
            input_ids=toy_prompt(case), max_new_tokens=case["tokens"], do_sample=False, custom_generate=loop, **others
        )


ALIKE = {130, 878, 588, 64, 614, 609, 196}
"""Seeds of searches each of whose settings another one has too: more captions of the same kind."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case["seed"]), marks=[pytest.mark.costly] if case["seed"] in ALIKE else [])
        for case in RELEASED
    ],
)
def test_search_is_that_of_released_code(case: dict[str, Any]):
    written, search = searched(case)
    assert written == Written(case["ids"], case["cut"])
    assert {str(step): place for step, place in search.returns.items()} == case["returns"]
    assert [location.tolist() for location in search.locations] == case["locations"]
    assert len(search.penalties) == len(case["penalties"])
    for penalty, printed in zip(search.penalties, case["penalties"], strict=True):
        expected = torch.tensor(printed)
        if penalty.dtype == torch.half:
            # 16 bits: a number beside a boundary may fall to either side of it.
            expected, relative, absolute = expected.half(), 1e-3, 6e-8
        else:
            relative, absolute = 1e-5, 0.0
        assert np.allclose(penalty.float().numpy(), expected.float().numpy(), rtol=relative, atol=absolute)


IN_RANGE = [RELEASED[number] for number in (5, 12, 16)]
"""Searches whose trust 16 bits can hold."""


@pytest.mark.parametrize("case", IN_RANGE, ids=lambda case: str(case["seed"]))
def test_log_space_finds_the_same_trust_where_16_bits_can_hold_it(case: dict[str, Any]):
    written, search = searched(case, "log")
    assert written.ids == case["ids"]
    assert [location.tolist() for location in search.locations] == case["locations"]
    for penalty, printed in zip(search.penalties, case["penalties"], strict=True):
        assert np.allclose(penalty.numpy(), np.array(printed), rtol=1e-5, atol=0.0)


def grouped() -> tuple[Any, dict[str, torch.Tensor]]:
    """Return a Llama whose heads share keys, and an instruction."""
    model = toy_llama(0, 1.5, 3.0, 0.3, groups=2)
    ids = toy_prompt({"seed": 0, "before": 3, "image": 4, "after": 2})
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def asked(host: HfCaptioner) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return a captioner's model, and what it is asked of an image."""
    return host.model, host.inputs([CaptionSample("0", "the dog", noise_image(0))])


@pytest.mark.parametrize("kind", ["grouped", "llava", "qwen2_vl", "idefics3"])
def test_what_is_read_together_is_what_each_is_alone(kind: str, request: pytest.FixtureRequest):
    model, inputs = grouped() if kind == "grouped" else asked(request.getfixturevalue(kind))
    first = torch.tensor([[20, 21], [22, 23], [24, 25]])
    second = torch.tensor([[30, 31, 32], [33, 34, 35]])
    # Of the first, 25 and 22 stay, in this order; then 30 and 31 of the one, in two beams that share it.
    paths = [[[25, 30], [25, 31], [25, 32]], [[22, 33], [22, 34], [22, 35]]]
    third = torch.tensor([[36], [37]])

    def loop(model: Any, input_ids: torch.Tensor, **settings: Any) -> list[TreeOutput]:
        with watching(model) as watch:
            tree = TokenTree(model, input_ids, settings, watch)
            nothing = torch.zeros(3, 0, dtype=torch.long)
            seen = [tree.read(first, nothing)]
            tree.keep(torch.tensor([5, 2]), 6)
            past = torch.tensor([[0], [1]])
            seen.append(tree.read(second, past))
            tree.keep(torch.tensor([0, 1]), 6)
            past = torch.tensor([[0, 2], [0, 3]])
            seen.append(tree.read(third, past))
            # Back to what stood before, which is read once more.
            tree.drop(2)
            return [*seen, tree.read(second, past[:, :1] + torch.tensor([[0], [1]]))]

    with torch.inference_mode():
        generated = model.generate(**inputs, custom_generate=loop, max_new_tokens=4)
        expected = [[[[20], [21]], [[22], [23]], [[24], [25]]], paths, [[[25, 30, 36]], [[25, 31, 37]]], paths]
        images = inputs["input_ids"][0] == model.config.image_token_id
        model.set_attn_implementation("eager")
        try:
            for seen, beams in zip(generated, expected, strict=True):
                for beam, branch in np.ndindex(seen.images.shape):
                    ids = beams[beam][branch]
                    plain = model(**continued(inputs, ids), output_attentions=True, use_cache=False)
                    row = plain.attentions[-1][0, :, -1].amax(0)
                    row = row / row.sum()
                    assert torch.allclose(seen.logits[beam, branch], plain.logits[0, -1], atol=1e-4)
                    assert torch.allclose(seen.rows[beam, branch], row[-len(ids) :], rtol=1e-4, atol=1e-7)
                    assert float(seen.images[beam, branch]) == pytest.approx(
                        float(row[: len(images)][images].sum()), rel=1e-4
                    )
        finally:
            model.set_attn_implementation("sdpa")


def test_captions_do_not_depend_on_each_other_and_the_model_is_left_as_it_was(llava: HfCaptioner):
    samples = [CaptionSample(str(number), "the dog", noise_image(number)) for number in range(2)]
    least = {"min_new_tokens": 6}
    before = Generating(8, more=least).write(llava, samples)
    attention = llava.model.model.language_model.layers[-1].self_attn
    config = attention.config
    opera = Opera(8, more=least)
    together = opera.write(llava, samples)
    assert all(len(caption.ids) >= 6 for caption in together)
    assert [opera.write(llava, [sample])[0] for sample in samples] == together
    assert attention.config is config
    assert not hasattr(attention, "watch")
    assert Generating(8, more=least).write(llava, samples) == before


def test_trained_captioner_still_tells_what_there_is():
    captioner = HfCaptioner(str(SHAPES_LLAVA), device="cpu")
    scenes = [sample_scene(70_000)]
    samples = [CaptionSample(str(scene.seed), "Describe this image in detail.", draw(scene)) for scene in scenes]
    # Attention of so small a model is peaked: 50 times as much is too much of it.
    written = Opera(96, trust=OverTrust(scale=20.0)).write(captioner, samples)
    for scene, caption in zip(scenes, written, strict=True):
        text = captioner.text(caption.ids)
        assert all(f"{thing.colour} {thing.shape}" in text for thing in scene.things), text


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("tiny_florence2", "decoding=opera cannot find the last layer's attention in Florence2"),
        ("tiny_blip2", "decoding=opera cannot find the image tokens of OPT"),
    ],
)
def test_model_that_cannot_be_watched_is_refused(folder: str, message: str, request: pytest.FixtureRequest):
    host = HfCaptioner(str(request.getfixturevalue(folder)), device="cpu", prompt_format="Q: {prompt} A:")
    with pytest.raises(AdapterError) as caught:
        Opera(4).write(host, [CaptionSample("0", "the dog", noise_image(0))])
    assert message in caught.value.message


def test_search_whose_cache_forgets_is_refused():
    model, inputs = grouped()
    cache = DynamicCache()
    cache.layers.extend(DynamicSlidingWindowLayer(sliding_window=4) for _ in range(2))

    def loop(model: Any, input_ids: torch.Tensor, **settings: Any) -> None:
        with watching(model) as watch:
            TokenTree(model, input_ids, settings, watch)

    with pytest.raises(AdapterError, match="LlamaForCausalLM drops its beginning"):
        model.generate(**inputs, past_key_values=cache, custom_generate=loop, max_new_tokens=4)


def test_attention_that_is_not_the_librarys_is_refused():
    model, inputs = grouped()
    attention = model.model.layers[-1].self_attn
    attend = attention.forward
    plain = model.config

    def own(*arguments: Any, **settings: Any) -> Any:
        attention.config = plain
        return attend(*arguments, **settings)

    attention.forward = own
    with pytest.raises(AdapterError, match="cannot read LlamaForCausalLM's attention"):
        model.generate(
            **inputs,
            max_new_tokens=4,
            custom_generate=lambda model, input_ids, **settings: _first_step(model, input_ids, settings),
        )


def _first_step(model: Any, input_ids: torch.Tensor, settings: dict[str, Any]) -> None:
    with searching(Opera(4, 2), model, input_ids, settings, {END}) as search:
        search.run(4)


def test_penalties_that_overflow_16_bits_are_a_fault_where_they_are_no_number():
    # Of two columns one is beyond any number and then nothing: 0 times infinity.
    trust = OverTrust(scale=1.0)
    products = trust.extended(torch.tensor([[float("inf")]]), torch.tensor([[0.0, 1.0]]))
    assert products.isnan().tolist() == [[True, False]]
    # Attention so sharp that much of it is exactly 0.
    case = {
        **RELEASED[0],
        "seed": 1,
        "sharp": 60.0,
        "settings": {"beams": 2, "candidates": 2, "scale": 1e30},
        "tokens": 16,
    }
    written, _ = searched(case)
    assert written.fault.startswith("the over-trust penalty is no number in half precision")
    written, _ = searched(case, "log")
    assert len(written.ids) == 16


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_sample_whose_logits_are_not_finite_fails_alone(llava: HfCaptioner, broken: float):
    decoder = Opera(6, 2)
    samples = [CaptionSample(str(n), "the dog", noise_image(n)) for n in range(2)]
    good = decoder.write(llava, samples)
    # As early as a search can be under way, whatever this CPU makes of near ties.
    with spoiled(llava.model, slice(None), broken):
        written = decoder.write(llava, samples)
    assert written[0].fault == "the model's logits are not finite"
    assert written[1] == good[1]


def test_in_log_space_what_candidates_have_in_common_changes_nothing():
    trust = OverTrust(precision="log", weight=2.0)
    logits = torch.tensor([[3.0, 1.0], [3.0, 1.0], [3.0, 1.0]])
    penalties = torch.tensor([[1e200, 1e200], [0.5, 0.0], [1e200, 0.0]], dtype=torch.float64)
    assert trust.penalised(logits, penalties).tolist() == [[0, -2], [0, -1], [-900, 0]]


def test_of_equal_captions_the_first_stays_and_the_last_is_best():
    completed = Completed(beams=2, asked=0, length_penalty=0.0)
    for total, token in ((-2.0, 7), (-1.0, 8), (-2.0, 9)):
        completed.add(total, [token], cut=False)
    assert [caption.ids for _, caption in completed.captions] == [[7], [8]]
    completed.add(-1.0, [5], cut=False)
    assert completed.best().ids == [5]
