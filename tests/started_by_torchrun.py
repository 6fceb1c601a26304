"""Work that two processes share, as those that torchrun starts."""

import os
import socket
from collections.abc import Callable

import torch
from accelerate.state import AcceleratorState
from torch.multiprocessing.spawn import start_processes


def _one_of_two(rank: int, port: str, work: Callable[[], object]) -> None:
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }  # fmt: skip
    torch.set_num_threads(1)
    # What the process that this one was forked from knows of itself.
    AcceleratorState._reset_state(reset_partial_state=True)
    work()


def in_two(work: Callable[[], object]) -> None:
    """Carry out work in two processes on this machine's processor.

    Raises:
        torch.multiprocessing.ProcessExitedException: One of them ended by a signal.
        torch.multiprocessing.ProcessRaisedException: One of them raised.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    start_processes(_one_of_two, (port, work), 2, start_method="fork")
