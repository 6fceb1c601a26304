from __future__ import annotations

import pytest
import torch

from capbench.adapters.devices import PRECISIONS, find_device, require_dtype, torch_dtype
from capbench.errors import AdapterError, MetricError


def test_device_is_what_was_named_or_the_gpu_if_there_is_one():
    assert find_device("cpu") == torch.device("cpu")
    assert find_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["tpu", "cuda:99"])
def test_device_that_is_not_there_is_an_error_of_who_asked(device: str):
    with pytest.raises(AdapterError, match=f"^device={device}: .") as caught:
        find_device(device)
    assert caught.value.hint == "Name one such as cpu, cuda or cuda:1."
    assert "\n" not in caught.value.message
    with pytest.raises(MetricError, match=f"^device={device}: ."):
        find_device(device, MetricError)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16),
        ("float32", torch.float32), ("float16", torch.float16), ("bfloat16", torch.bfloat16),
    ],
)  # fmt: skip
def test_precisions_have_a_short_name_and_torch_s(dtype: str, expected: torch.dtype):
    require_dtype(dtype)
    assert torch_dtype(dtype) == expected


def test_precision_that_an_adapter_does_not_know_is_an_error_that_lists_those_that_it_does():
    require_dtype("auto")
    with pytest.raises(AdapterError, match=r"^dtype=float64 is not known") as caught:
        require_dtype("float64")
    assert caught.value.hint == "Known are auto, fp32, fp16, bf16, float32, float16, bfloat16."
    with pytest.raises(AdapterError) as caught:
        require_dtype("auto", PRECISIONS)
    assert caught.value.hint == "Known are fp32, fp16, bf16."
