"""Environment of a run: versions, machine, commit."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from ...permissions import PACKAGE_ROOT
from ..inputs.recorded import RecordEntry

_LIBRARIES = (
    "datasets", "evaluate", "numpy", "open_clip_torch", "pandas", "pyarrow", "pycocoevalcap", "rapidfuzz", "scipy",
    "torch", "transformers",
)  # fmt: skip


class Environment(RecordEntry):
    """Environment of a run: the machine, and versions of capbench and of the libraries that numbers depend on."""

    capbench: str | None
    python: str
    platform: str
    cpus: int | None = None
    libraries: dict[str, str]

    @property
    def machine(self) -> dict[str, Any]:
        """The environment without the libraries."""
        return self.model_dump(exclude={"libraries"}, exclude_unset=True)


@cache
def environment() -> Mapping[str, Any]:
    """Return the versions of Python, capbench and the libraries that numbers depend on, and the machine.

    They are those of the first call: later installations do not change imported modules.
    """
    return {
        "capbench": version("capbench"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "libraries": {name: release for name in _LIBRARIES if (release := version(name))},
    }


def version(distribution: str) -> str | None:
    """Return the version of a distribution, or None where it is not installed."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return None


@cache
def git_hash() -> str | None:
    """Return the commit of the checkout that capbench runs from, at the first call; None for an installed package."""
    if not (PACKAGE_ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(PACKAGE_ROOT), "describe", "--always", "--dirty"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return None
