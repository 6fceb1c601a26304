"""PAC-S and RefPAC-S against the released code on tiny weights."""

from typing import Any

import numpy as np
import pytest
from clip_golden import GOLDEN, assert_golden, assert_same_weights, drawn_items, flickr8k_items
from tiny_clip import tiny_state_dict

from capbench.adapters.encoders.pac import PacEncoder
from capbench.metrics import Context, build_metric
from capbench.metrics.clip_s import ClipS, RefClipS
from capbench.metrics.golden.tiny_inputs import save_checkpoint, tiny_lora_state_dict
from capbench.metrics.pac_s import PacS, RefPacS


def tuned_state_dict() -> dict[str, Any]:
    return {name: value for name, value in tiny_state_dict(1).items() if name != "attn_mask"}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PacEncoder]:
    """PAC-S in both activations, and PAC-S++."""
    folder = tmp_path_factory.mktemp("pac")
    tuned = save_checkpoint(tuned_state_dict(), folder / "pac.pth")
    lora = save_checkpoint(tiny_lora_state_dict(2), folder / "pac++.pth")
    place: dict[str, Any] = {"device": "cpu", "dtype": "fp32"}
    quick = PacEncoder(checkpoint=tuned, quick_gelu=True, **place)
    return {
        "pac": quick,
        "pac_w3": quick,
        "pac_gelu": PacEncoder(checkpoint=tuned, quick_gelu=False, **place),
        "pac_lora": PacEncoder(checkpoint=lora, **place),
    }


def test_the_tiny_weights_are_those_of_the_golden_values():
    assert_same_weights(tuned_state_dict(), "pac")
    assert_same_weights(tiny_lora_state_dict(2), "pac_lora")


@pytest.mark.parametrize(("run", "settings"), [("pac", {}), ("pac_w3", {"w": 3.0}), ("pac_gelu", {}), ("pac_lora", {})])
@pytest.mark.parametrize(("metric", "value"), [(PacS, "image"), (RefPacS, "harmonic_mean")])
def test_drawn_pictures_have_the_values_of_pacscore(metric, value, run, settings, encoders, tmp_path):
    scores = metric(**settings).score(drawn_items(tmp_path), Context(encoder=encoders[run]))
    assert_golden(scores, GOLDEN["drawn"][run], value)


@pytest.mark.data
@pytest.mark.parametrize("run", ["pac", "pac_gelu", "pac_lora"])
def test_flickr8k_has_the_values_of_pacscore(run, encoders, data_folder):
    scores = RefPacS().score(flickr8k_items(data_folder), Context(encoder=encoders[run]))
    assert_golden(scores, GOLDEN["flickr8k_expert"][run], "harmonic_mean")


def test_the_golden_runs_differ():
    """So that a mistake in the activation, in w or in LoRA shows."""
    values = [GOLDEN["drawn"][run]["harmonic_mean"] for run in ("pac", "pac_w3", "pac_gelu", "pac_lora")]
    gaps = [np.abs(np.subtract(a, b)).max() for n, a in enumerate(values) for b in values[:n]]
    assert min(gaps) > 1e-3


def test_it_is_clip_s_with_w_2_and_a_pac_model(encoders: dict[str, PacEncoder], tmp_path):
    context = Context(encoder=encoders["pac"])
    items = drawn_items(tmp_path)
    for name, same in (("pac_s", ClipS(w=2.0)), ("refpac_s", RefClipS(w=2.0))):
        metric = build_metric(name, {})
        np.testing.assert_array_equal(metric.score(items, context).values, same.score(items, context).values)
        assert metric.encoder_family == "pac" == PacEncoder.family
        assert same.encoder_family == "clip"
        assert metric.fingerprint() != same.fingerprint()
