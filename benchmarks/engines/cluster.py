"""Cluster files: where units run, and what workers take there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...access import Request, requests_of, require_permitted
from ...errors import TaskError
from ...permissions import is_installed, server_of
from ...tasks.faults import faults_of
from ...tasks.yaml_files import ParsedFile, parse
from .contract import Pool

_UNITS = {"": 1, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(value: Any) -> Any:
    if isinstance(value, int):
        return value
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", str(value))):
        raise ValueError("expected bytes, such as 16 GB")
    number, unit = found.groups()
    return int(float(number) * (1 << _UNITS[unit] if unit else 1))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PoolSettings(_Strict):
    """What a worker of a pool takes."""

    replicas: int | None = Field(default=None, ge=1)
    """How many workers load the model, at most; slots of a queue."""
    cpus: float = Field(default=1, gt=0)
    """Cores of a worker."""
    gpus: float = Field(default=0, ge=0)
    """GPUs of a worker; with more than 1, of one machine."""
    memory: Annotated[int, BeforeValidator(_bytes)] = Field(default=0, ge=0)
    """Bytes, or a text such as 16 GB."""


class PoolsSettings(_Strict):
    """The pools that units of a run can be of."""

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
    """Workers of makers that find regions."""
    detector: PoolSettings = PoolSettings()
    """Workers of makers that find what a phrase names."""
    painter: PoolSettings = PoolSettings()
    """Workers of makers that paint."""


class SlurmSettings(_Strict):
    """What a job of Slurm asks for beside what its pools take."""

    slots: int = Field(default=8, ge=1)
    """Jobs of the array, where a pool does not say how many replicas it has."""
    options: list[Annotated[str, Field(pattern=r"^--?[a-z][^\r\n]*$")]] = Field(default_factory=list)
    """Options of sbatch, such as --partition=gpu or --time=04:00:00."""


class ClusterFile(_Strict):
    """Where units run."""

    engine: Literal["local", "ray", "slurm"] = "ray"
    """What carries out units."""
    address: str = "auto"
    """Of a cluster of ray: auto, local or HOST:PORT."""
    processes: int = Field(default=1, ge=1)
    """Of the local engine."""
    store: str | None = None
    """Folder or bucket that all workers reach, which holds the results of units."""
    pools: PoolsSettings = PoolsSettings()
    """By the role of a model, or cpu."""
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    """What jobs of Slurm ask for."""

    def make_pools(self) -> list[Pool]:
        """Return the pools that the file names."""
        return [Pool(name, **dict(one)) for name, one in self.pools if name in self.pools.model_fields_set]


def _requests(parsed: ParsedFile) -> list[Request]:
    """Return what a cluster file asks for: the head of ray's cluster, and where results are stored, call servers."""
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
        UsageError: It names servers or folders that nobody allowed.
        TaskError: It cannot be read, or has keys or values that it may not have; each with its line.
    """
    parsed = parse(path)
    try:
        cluster = ClusterFile.model_validate(parsed.values)
    except ValidationError as error:
        raise TaskError("\n".join(faults_of(error, parsed, ClusterFile))) from error
    require_permitted(_requests(parsed))
    return cluster
