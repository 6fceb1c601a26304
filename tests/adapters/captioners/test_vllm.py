"""What can be seen of the vLLM adapter without the engine, which needs a GPU."""

from __future__ import annotations

import importlib.util

import pytest

from capbench.adapters.aliases import resolve_model
from capbench.errors import AdapterError


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_the_remedy_is_named_before_anything_is_loaded():
    spec = resolve_model("vllm", "pretrained=llava-hf/llava-1.5-7b-hf")
    assert spec.role == "captioner"
    with pytest.raises(AdapterError, match="the package vllm is missing") as error:
        spec.load()
    assert "--model openai" in error.value.hint
