from collections.abc import Callable, Sequence

import pytest
import torch
from full_memory import FULL_MEMORY, fill_cpu
from hypothesis import given
from hypothesis import strategies as st

from capbench.adapters.devices import (
    DTYPES,
    PRECISIONS,
    BatchSize,
    find_device,
    is_out_of_memory,
    require_known,
    torch_dtype,
)
from capbench.errors import AdapterError, MetricError, require_counts


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


@pytest.mark.parametrize(("dtype", "expected"), [("fp16", torch.float16), ("bfloat16", torch.bfloat16)])
def test_precisions_have_a_short_name_and_torch_s(dtype: str, expected: torch.dtype):
    require_known(DTYPES, dtype=dtype)
    assert torch_dtype(dtype) == expected


def test_precision_that_an_adapter_does_not_know_is_an_error_that_lists_those_that_it_does():
    require_known(DTYPES, dtype="auto")
    with pytest.raises(AdapterError, match=r"^dtype=float64 is not known") as caught:
        require_known(DTYPES, dtype="float64")
    assert caught.value.hint == "Known are auto, fp32, fp16, bf16, float32, float16, bfloat16, float, half."
    with pytest.raises(AdapterError, match=r"\nKnown are fp32, fp16, bf16.$"):
        require_known(PRECISIONS, dtype="auto")


class Memory:
    """Holds so many things, or tokens, at a time; records what was tried."""

    def __init__(self, holds: int, fill: Callable[[], None] = fill_cpu) -> None:
        self.holds, self.fill = holds, fill
        self.tried: list[list[int]] = []

    def things(self, batch: Sequence[int]) -> list[int]:
        return self._hold(batch, len(batch))

    def tokens(self, batch: Sequence[int]) -> list[int]:
        return self._hold(batch, len(batch) * max(batch))

    def _hold(self, batch: Sequence[int], size: int) -> list[int]:
        self.tried.append(list(batch))
        if size > self.holds:
            self.fill()
        return [-thing for thing in batch]


@pytest.mark.parametrize("fill", FULL_MEMORY.values(), ids=FULL_MEMORY)
def test_batch_is_halved_until_it_fits_and_the_size_is_kept_to(fill: Callable[[], None]):
    memory, size = Memory(2, fill), BatchSize(5)
    batches = list(size.batches([1, 2, 3, 4, 5, 6, 7], memory.things))
    assert batches == [([1, 2], [-1, -2]), ([3, 4], [-3, -4]), ([5, 6], [-5, -6]), ([7], [-7])]
    assert [len(batch) for batch in memory.tried] == [5, 2, 2, 2, 1]
    assert size.now == 2


def test_thing_that_does_not_fit_by_itself_is_given_out_with_nothing_made():
    assert list(BatchSize(2).batches([1, 2, 3], Memory(0).things)) == [([1], None), ([2], None), ([3], None)]


def test_things_of_lengths_are_counted_with_their_padding():
    memory = Memory(1000)
    # 3 × 9 is above 20 and 2 × 9 is not; then 4 × 5 is not.
    batches = [batch for batch, _ in BatchSize(20).batches([9, 8, 5, 4, 4, 4, 1], memory.tokens, length=int)]
    assert batches == [[9, 8], [5, 4, 4, 4], [1]]
    # A longer one that comes later widens all before it: 3 × 7 is above 20.
    assert [batch for batch, _ in BatchSize(20).batches([2, 2, 7, 2], memory.tokens, length=int)] == [[2, 2], [7, 2]]


def test_size_of_things_of_lengths_is_halved_from_what_did_not_fit():
    memory, size = Memory(10), BatchSize(1000)
    batches = [batch for batch, _ in size.batches([6, 5, 4, 3, 2, 2, 1], memory.tokens, length=int)]
    # 7 × 6 = 42 does not fit, nor do 21 // 6 = 3 of them; then 18 // 2 = 9.
    assert memory.tried[:3] == [[6, 5, 4, 3, 2, 2, 1], [6, 5, 4], [6]]
    assert batches == [[6], [5], [4, 3], [2, 2, 1]]
    assert size.now == 9


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 60), st.integers(0, 80))
def test_all_things_come_once_in_order_whatever_fits(lengths: list[int], now: int, holds: int):
    lengths = sorted(lengths, reverse=True)
    batches = list(BatchSize(now).batches(range(len(lengths)), lambda batch: _held(batch, lengths, holds),
                                        length=lengths.__getitem__))  # fmt: skip
    assert [thing for batch, _ in batches for thing in batch] == list(range(len(lengths)))
    for batch, results in batches:
        if results is None:
            assert len(batch) == 1
            assert lengths[batch[0]] > holds
        else:
            assert results == list(batch)


def _held(batch: Sequence[int], lengths: list[int], holds: int) -> list[int]:
    if len(batch) * max(lengths[thing] for thing in batch) > holds:
        raise MemoryError
    return list(batch)


def test_other_faults_are_raised_and_change_no_size():
    def broken(batch: Sequence[int]) -> list[int]:
        raise RuntimeError("illegal memory access")

    size = BatchSize(8)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        list(size.batches([1, 2], broken))
    assert size.now == 8


def test_memory_runs_out_on_gpu_and_cpu_and_in_python():
    with pytest.raises(RuntimeError) as caught:
        fill_cpu()
    assert not isinstance(caught.value, torch.OutOfMemoryError)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("number", [0, -1, 2.0, True, "4"])
def test_count_is_a_whole_number_above_0(number: object):
    require_counts(AdapterError, batch_size=1, workers=None)
    with pytest.raises(AdapterError, match=r"^'workers' must be a whole number above 0"):
        require_counts(AdapterError, batch_size=4, workers=number)
