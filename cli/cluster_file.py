"""Cluster files: where the shards of a run are computed, and the resources of workers."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..access import Request, requests_of, require_permitted
from ..benchmarks.scale.executors import Resources
from ..errors import TaskError
from ..permissions import is_installed, server_of
from ..tasks.schema import faults_of
from ..tasks.yaml_files import ParsedFile, parse

_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(value: Any) -> Any:
    if isinstance(value, int):
        return value
    if not (match := re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", str(value))):
        raise ValueError("expected bytes, such as 16 GB")
    return int(float(match[1]) * (1 << _SHIFTS[match[2]]))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PoolSettings(_Strict):
    """What a worker of a pool takes."""

    replicas: int | None = Field(default=None, ge=1)
    """How many workers there are, at most."""
    cpus: float = Field(default=1, gt=0)
    """Cores of a worker."""
    gpus: float = Field(default=0, ge=0)
    """GPUs of a worker; with more than 1, of one machine."""
    memory: Annotated[int | None, BeforeValidator(_bytes)] = Field(default=None, ge=0)
    """Bytes, or a text such as 16 GB."""


class PoolsSettings(_Strict):
    """The pools of workers of a run."""

    cpu: PoolSettings = PoolSettings()
    """Workers that score by rules, without a model."""
    captioner: PoolSettings = PoolSettings()
    """Workers that write captions."""
    encoder: PoolSettings = PoolSettings()
    """Workers that encode images and texts."""
    judge: PoolSettings = PoolSettings()
    """Workers that ask a judge."""
    answerer: PoolSettings = PoolSettings()
    """Workers that answer questions."""
    segmenter: PoolSettings = PoolSettings()
    """Workers that find regions, for data."""
    detector: PoolSettings = PoolSettings()
    """Workers that find what a phrase names, for data."""
    painter: PoolSettings = PoolSettings()
    """Workers that paint, for data."""


class SlurmSettings(_Strict):
    """Settings of Slurm jobs, in addition to the resources of their pool."""

    slots: int = Field(default=8, ge=1)
    """Jobs of an array, for pools without ``replicas``."""
    options: list[Annotated[str, Field(pattern=r"^--[a-z][a-z-]*(=[^\r\n]*)?$")]] = Field(default_factory=list)
    """Options of sbatch, such as --partition=gpu or --time=04:00:00."""


class ClusterFile(_Strict):
    """Where the shards of a run are computed."""

    engine: Literal["local", "ray", "slurm"] = "ray"
    """The executor."""
    address: str = "auto"
    """Of a cluster of ray: auto, local or HOST:PORT."""
    processes: int = Field(default=1, ge=1)
    """Of the local engine."""
    run_folder: str | None = None
    """Folder or bucket that all workers reach, where the results of shards lie."""
    pools: PoolsSettings = PoolsSettings()
    """By the role of a model, or cpu."""
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    """What jobs of Slurm ask for."""

    def resources(self) -> dict[str, Resources]:
        """Return what workers take, for the pools that the file names."""
        return {
            name: Resources(pool.gpus, pool.memory, pool.cpus, "" if name == "cpu" else name, pool.replicas)
            for name, pool in self.pools
            if name in self.pools.model_fields_set
        }


def _requests(parsed: ParsedFile) -> list[Request]:
    """Return what a cluster file asks for: the head of ray's cluster and the folder of results may be servers."""
    asked = requests_of(parsed.values, parsed.path, parsed.where)
    address = str(parsed.values.get("address", "auto"))
    if address not in ("auto", "local") and not is_installed(parsed.path):
        asked.append(Request("addresses", server_of(address) or address, parsed.where("address")))
    slurm = parsed.values.get("slurm")
    options = slurm.get("options") if isinstance(slurm, dict) else None
    for option in options if isinstance(options, list) and not is_installed(parsed.path) else ():
        # Unlike other texts, these name files that are yet to be written.
        path = Path(str(option).partition("=")[2] or str(option).partition(" ")[2]).expanduser()
        if path.is_absolute() or ".." in path.parts:
            asked.append(Request("folders", str(path), parsed.where("slurm", "options"), path))
    return asked


def read_cluster(path: Path) -> ClusterFile:
    """Read a cluster file.

    Raises:
        UsageError: It names servers or folders that are not allowed.
        TaskError: It cannot be read, or has keys or values that it may not have; each with its line.
    """
    parsed = parse(path)
    try:
        cluster = ClusterFile.model_validate(parsed.values)
    except ValidationError as error:
        raise TaskError("\n".join(faults_of(error, parsed, ClusterFile))) from error
    require_permitted(_requests(parsed))
    return cluster
