import importlib.util

import pytest

from capbench.adapters import adapters
from capbench.adapters.aliases import resolve_model
from capbench.errors import AdapterError


@pytest.mark.skipif(importlib.util.find_spec("diffusers") is not None, reason="diffusers is installed")
def test_missing_diffusers_is_named_with_its_extra():
    spec = resolve_model("stable-diffusion-v1-5")
    assert spec.role == "painter"

    for ask in (spec.check, spec.load, lambda: adapters["diffusion"](pretrained="somewhere")):
        with pytest.raises(AdapterError, match="needs diffusers, which is not installed") as caught:
            ask()
        assert "capbench[paint]" in caught.value.hint


def test_precision_that_is_none_is_said():
    with pytest.raises(AdapterError, match="dtype=int8"):
        adapters["diffusion"](pretrained="somewhere", dtype="int8")
