"""Data-parallel training: each process encodes its part of a batch, and all have the features of the whole.

``accelerate launch -m capbench.cli.main train RECIPE`` starts them; a single process uses the same code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import UsageError

if TYPE_CHECKING:
    import torch

_T = TypeVar("_T")


class TrainingProcesses:
    """The processes of a training, as ``accelerate`` started them.

    Args:
        device: The device of this process; None takes a separate GPU, if there is one.

    Raises:
        UsageError: Several processes were started that do not know of each other.
    """

    def __init__(self, device: str | None) -> None:
        import torch
        from accelerate import PartialState

        started = int(os.environ.get("WORLD_SIZE", "1"))
        # Without a GPU accelerate takes each of several processes for the only one, unless it is told.
        on_cpu = device == "cpu" or (started > 1 and not torch.accelerator.is_available())
        # Other processes wait while the first makes data or evaluates; where one fails, its launcher ends the rest.
        self._state = PartialState(cpu=on_cpu, timeout=timedelta(days=30))
        if self._state.num_processes != started:
            raise UsageError(
                f"{started} processes were started, and each trains as one of {self._state.num_processes}: all would "
                "write the same folder.",
                "On processors add --device cpu; on GPUs start as many processes as there are.",
            )
        self.device: str = "cpu" if on_cpu else device or str(self._state.device)
        self.count: int = self._state.num_processes
        self.number: int = self._state.process_index
        self.is_first: bool = self._state.is_main_process

    def require_first_gpu(self, trainer: str) -> None:
        """Raise if one process is to train on another GPU than the first, which trainers of libraries take.

        Args:
            trainer: The trainer's name, for the message.

        Raises:
            UsageError: Says how to choose the GPU.
        """
        if self.count == 1 and self.device.startswith("cuda:") and self.device != "cuda:0":
            raise UsageError(
                f"--device {self.device}: trainer '{trainer}' takes the first GPU that it sees.",
                f"Remove --device, and set CUDA_VISIBLE_DEVICES={self.device[5:]}.",
            )

    def part(self, inputs: Sequence[_T]) -> list[_T]:
        """Return the inputs of this process; the last ones are repeated, so that all have the same number."""
        each = -(-len(inputs) // self.count)
        filled = [*inputs, *[inputs[-1]] * (each * self.count - len(inputs))]
        start = self.number * each
        return filled[start : start + each]

    def share(self, inputs: Sequence[_T]) -> list[_T]:
        """Return the inputs of this process; each input goes to exactly one process."""
        return list(inputs[self.number :: self.count])

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums over all processes."""
        if self.count == 1:
            return list(values)
        import torch
        from accelerate.utils import reduce

        summed: Any = reduce(torch.tensor(values, dtype=torch.float64, device=self.device), "sum")
        return summed.tolist()

    def whole(self, part: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of all inputs, gathered from all processes, and this process' part of them.

        The part is a leaf: its gradient is complete, as each process computes the loss of the whole batch.

        Args:
            part: ``[each, d]`` features of :meth:`part`.
            count: Total number of inputs.
        """
        import torch
        from accelerate.utils import gather

        own = part.detach().requires_grad_()
        if self.count == 1:
            return own, own
        each = len(part)
        gathered: Any = gather(own.detach())
        parts = list(gathered.split(each))
        parts[self.number] = own
        return torch.cat(parts)[:count], own

    def add_up(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace gradients by their sum over all processes."""
        if self.count == 1:
            return
        import torch
        from accelerate.utils import reduce

        held = list(parameters)
        # A parameter without a gradient in any process keeps none, as an optimiser leaves it alone then.
        there = self.total([tensor.grad is not None for tensor in held])
        held = [tensor for tensor, count in zip(held, there, strict=True) if count]
        gradients = [tensor.grad if tensor.grad is not None else torch.zeros_like(tensor) for tensor in held]
        # At once: a message for each parameter takes longer than its sum.
        summed: Any = reduce(torch.nn.utils.parameters_to_vector(gradients), "sum")
        torch.nn.utils.vector_to_parameters(summed, gradients)
        for parameter, gradient in zip(held, gradients, strict=True):
            parameter.grad = gradient

    def of_first(self, make: Callable[[], _T]) -> _T:
        """Return what the first process makes; the others wait for it."""
        if self.count == 1:
            return make()
        from accelerate.utils import broadcast_object_list

        values: list[Any] = [make() if self.is_first else None]
        broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Wait for all processes."""
        self._state.wait_for_everyone()
