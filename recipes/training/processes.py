"""Several processes that train as one: each encodes its part of a batch, and all know the whole.

``accelerate launch -m capbench.cli.main train RECIPE`` starts them; one process is the same path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

_T = TypeVar("_T")


class TrainingProcesses:
    """The processes of a training, as ``accelerate`` started them.

    Args:
        device: Where this one computes; None takes a GPU of its own, where there is one.
    """

    def __init__(self, device: str | None) -> None:
        from accelerate import PartialState

        self._state = PartialState(cpu=device == "cpu")
        self.device: str = device or str(self._state.device)
        self.count: int = self._state.num_processes
        self.number: int = self._state.process_index
        self.is_first: bool = self._state.is_main_process

    def part(self, inputs: Sequence[_T]) -> list[_T]:
        """Return the inputs of this process; the last ones are repeated so that all have equally many."""
        each = -(-len(inputs) // self.count)
        filled = [*inputs, *[inputs[-1]] * (each * self.count - len(inputs))]
        start = self.number * each
        return filled[start : start + each]

    def share(self, inputs: Sequence[_T]) -> list[_T]:
        """Return the inputs of this process; those of all together are the inputs, each once."""
        return list(inputs[self.number :: self.count])

    def total(self, values: Sequence[float]) -> list[float]:
        """Return the sums of all processes' numbers."""
        if self.count == 1:
            return list(values)
        import torch
        from accelerate.utils import reduce

        summed: Any = reduce(torch.tensor(values, dtype=torch.float64, device=self.device), "sum")
        return summed.tolist()

    def whole(self, part: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features of all inputs, made of each process' part, and this one's part of them.

        The part is a leaf: what a loss of the whole says of it is all there is to say, as each process computes the
        loss of the whole.

        Args:
            part: ``[each, d]`` features of :meth:`part`.
            count: Inputs in all.
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
        """Put the sum of all processes' gradients in place of each one's."""
        if self.count == 1:
            return
        import torch
        from accelerate.utils import reduce

        for one in parameters:
            gradient = one.grad if one.grad is not None else torch.zeros_like(one)
            summed: Any = reduce(gradient, "sum")
            one.grad = summed

    def wait(self) -> None:
        """Wait until all have come this far."""
        self._state.wait_for_everyone()
