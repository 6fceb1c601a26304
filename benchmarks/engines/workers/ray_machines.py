"""The machines of a cluster of ray: whether each sees what this one writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....errors import UsageError, counted
from .ray_actors import alive_nodes, resources_of

_ANSWER_SECONDS = 60.0
"""For a node to answer; one that says nothing for so long is none that the run can count on."""


def require_shared(folder: Path) -> None:
    """Write a file into a folder of this machine, and ask the others of the cluster whether they see it.

    Nodes of one address are of one machine: a cluster that is one machine's is not asked. No cores are taken, so that
    nodes answer whose cores are all in use.

    Args:
        folder: The folder; it is there.

    Raises:
        UsageError: A machine does not see it.
    """
    import ray

    others = other_machines(alive_nodes(), ray.get_runtime_context().get_node_id())
    if not others:
        return
    mark = folder / f".seen-{uuid.uuid4().hex}"
    mark.touch()
    try:
        blind = [address for address, node in others.items() if not _sees(node, str(mark))]
    finally:
        mark.unlink()
    if blind:
        raise UsageError(
            f"{counted(len(blind), 'machine')} of the cluster ({', '.join(blind[:5])}) cannot see {folder}, "
            "where workers find what they are given and leave what they make",
            "Name a folder that all machines see with --run_folder, or results that they share: --store s3://BUCKET/....",
        )


def other_machines(nodes: Sequence[Mapping[str, Any]], own: str) -> dict[str, str]:
    """Return a node that has cores, of each machine but one, by the machine's address.

    Args:
        nodes: As ray describes them.
        own: Id of a node of the machine that is left out.
    """
    here = next((node["NodeManagerAddress"] for node in nodes if node["NodeID"] == own), None)
    works = [node for node in nodes if resources_of(node)[0] > 0]
    found = {node["NodeManagerAddress"]: node["NodeID"] for node in works}
    return {address: node for address, node in found.items() if address != here}


def _sees(node: str, file: str) -> bool:
    """Return whether a node sees a file; one that is lost meanwhile is not in the way of the others."""
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(node, soft=False)
    asked = ray.remote(num_cpus=0, max_retries=0)(_asker()).options(scheduling_strategy=place).remote(file)
    try:
        return ray.get(asked, timeout=_ANSWER_SECONDS)
    except RayError:
        return True


def _asker() -> Callable[[str], bool]:
    """Return what a node runs; it needs nothing of capbench to receive it."""

    def sees(file: str) -> bool:
        import os

        return os.path.exists(file)  # noqa: PTH110 - what is imported on another machine is kept small

    return sees
