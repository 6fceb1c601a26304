"""Permissions of files: servers, folders and code need the caller's permission, on the command line or from Python.

A task, model, recipe, cluster file or run folder is untrusted. The caller decides which servers are called, what they
are sent, which code runs and which folders are read: by the command line, and by the options ``--allow_outside``,
``--allow_server``, ``--run_functions`` and ``--trust_remote_code``. What is installed with pip, including capbench's
own tasks and recipes, is trusted as the installation is.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import TaskError, UsageError

PACKAGE_ROOT = Path(__file__).resolve().parent
SERVERS_VARIABLE = "CAPBENCH_ALLOW_SERVERS"
_OWN_FOLDERS = tuple(PACKAGE_ROOT / name for name in ("adapters", "benchmarks", "recipes", "tasks"))
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/\s?#]*)", re.IGNORECASE)
_NO_SERVER = frozenset(
    ("blockcache", "dir", "file", "filecache", "hf", "libarchive", "local", "memory", "simplecache", "tar", "zip")
)
"""Schemes of addresses that call no server, or the hub alone."""


RUN_HINT = "--run_functions runs the functions that files name; do so for files that you have read."


class Code(ABC):
    """Base of values in a file that name code."""

    @property
    @abstractmethod
    def is_installed(self) -> bool:
        """Whether an installed file names it."""


@dataclass(frozen=True)
class Permissions:
    """Permissions of files.

    Attributes:
        folders: Additional folders whose files may be read, next to those of the file itself and of its data.
        servers: Servers that may be called, ``HOST`` or ``HOST:PORT``.
        functions: Whether functions and readers that a file names (``!function``) may run.
        remote_code: Whether code that comes with a checkpoint may run.
    """

    folders: tuple[Path, ...] = ()
    servers: tuple[str, ...] = ()
    functions: bool = False
    remote_code: bool = False

    @classmethod
    def of(
        cls,
        allow_outside: Sequence[str | Path] = (),
        allow_server: str | Sequence[str] = (),
        run_functions: bool = False,
        trust_remote_code: bool = False,
        include_path: Sequence[str | Path] = (),
    ) -> Permissions:
        """Return what options of these names allow; task files may include others of their ``include_path``.

        Raises:
            UsageError: A folder does not exist, or a server is no ``HOST`` or ``HOST:PORT``.
        """
        folders = tuple(map(Path.expanduser, map(Path, allow_outside)))
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"--allow_outside {folder}: there is no such folder")
        folders += tuple(filter(Path.is_dir, map(Path.expanduser, map(Path, include_path))))
        servers = (allow_server,) if isinstance(allow_server, str) else tuple(allow_server)
        for server in servers:
            if not server or {"/", "@", " "} & set(server):
                raise UsageError(f"--allow_server {server}: expected HOST or HOST:PORT, such as localhost:8000")
        return cls(folders, servers, run_functions, trust_remote_code)

    def __or__(self, other: Permissions) -> Permissions:
        """Return what either allows."""
        return Permissions(
            tuple(dict.fromkeys((*self.folders, *other.folders))),
            tuple(dict.fromkeys((*self.servers, *other.servers))),
            self.functions or other.functions,
            self.remote_code or other.remote_code,
        )

    def allow_server(self, server: str) -> bool:
        """Return whether a server may be called; an entry without a port allows each port of its host."""
        named = os.environ.get(SERVERS_VARIABLE, "").split(",")
        allowed = {entry.strip().lower() for entry in (*self.servers, *named)}
        return bool({server.lower(), server.lower().rpartition(":")[0] or server.lower()} & allowed)


_current: ContextVar[Permissions] = ContextVar("permissions", default=Permissions())  # noqa: B039 - frozen

_runs_code: ContextVar[bool] = ContextVar("runs_code", default=True)


def permitted() -> Permissions:
    """Return the permissions that are in effect."""
    return _current.get()


@contextmanager
def permit(permissions: Permissions) -> Generator[None]:
    """Add permissions within the block."""
    token = _current.set(_current.get() | permissions)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def without_code() -> Generator[None]:
    """Run no code of files within the block, even if it is allowed: for dry runs."""
    token = _runs_code.set(False)
    try:
        yield
    finally:
        _runs_code.reset(token)


def runs_code() -> bool:
    """Return whether code that is allowed runs now; in a dry run it does not."""
    return _runs_code.get()


def may_run(path: Path) -> bool:
    """Return whether functions that a file names may run now: it is installed, or they are allowed.

    Args:
        path: The file, or its folder.
    """
    return is_installed(path) or (permitted().functions and runs_code())


def server_of(text: str) -> str:
    """Return the ``HOST:PORT`` that an address leads to; empty for what is no address, a local file or the hub's."""
    # Libraries that read addresses pass these over.
    match = _ADDRESS.match(re.sub(r"[\t\r\n]|^[\x00-\x20]+", "", text))
    if match is None or match["scheme"].lower() in _NO_SERVER:
        return ""
    return match["host"].rpartition("@")[2] or match["scheme"]


def require_server(text: str, place: str) -> None:
    """Raise if a file names the address of a server that may not be called.

    Args:
        text: A value of the file; anything but an address passes.
        place: Where it stands.

    Raises:
        TaskError: The hint is the option that allows it.
    """
    if (server := server_of(text)) and not permitted().allow_server(server):
        raise TaskError(
            f"{place}: the file names a server that is not allowed: {server}", f"--allow_server {server} allows it."
        )


def is_installed(path: Path) -> bool:
    """Return whether a file or folder is part of capbench, or of an installed package that brings tasks."""
    path = path.resolve()
    return any(path.is_relative_to(folder) for folder in (*_OWN_FOLDERS, *map(Path.resolve, plugin_folders())))


def plugin_folders() -> Iterator[Path]:
    """Yield the folders of installed packages that bring tasks (entry points ``capbench.tasks``).

    Raises:
        TaskError: A package that is named cannot be found.
    """
    for point in _entry_points(tuple(sys.path)):
        try:
            spec = importlib.util.find_spec(point.module)
            if spec is None or not spec.submodule_search_locations:
                raise ImportError("it is not a package")
        except Exception as error:
            # The package that holds it is imported to find it, and may fail in any way.
            raise TaskError(
                f"entry point '{point.name}' of group capbench.tasks: cannot find '{point.module}': "
                f"{type(error).__name__}: {error}",
                "Reinstall or uninstall the package that declares it.",
            ) from error
        yield from map(Path, spec.submodule_search_locations)


@cache
def _entry_points(places: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    """Return those of all packages in some places, each of which has to be opened."""
    return importlib.metadata.entry_points(group="capbench.tasks")
