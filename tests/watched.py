"""Watches what this process does while code runs: files, addresses, processes, code. Of others it sees the start alone.

What compiled libraries do for themselves is not seen: files that pyarrow, safetensors or OpenCV open, above all.
"""

import ipaddress
import os
import sys
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple

from capbench.permissions import PACKAGE_ROOT

Kind = Literal["read", "write", "connect", "look up", "listen", "start", "import", "compile", "exec", "unpickle"]
ASKING: tuple[Kind, ...] = ("connect", "look up")
"""What asks other machines, or a server on this one."""


class Event(NamedTuple):
    """Something that was done.

    Attributes:
        kind: What.
        target: The file (links followed), address, program, module, file of the code, or class.
    """

    kind: Kind
    target: str


class Forbidden(OSError):  # noqa: N818 - named for what it says
    """Something that a test forbids was tried; code that has a way without it may go on."""


@contextmanager
def watched(forbid: Collection[Kind] = ()) -> Generator[list[Event]]:
    """Give the events, in their order, of all threads.

    Args:
        forbid: What is refused by :class:`Forbidden`, besides that it is an event.
    """
    if not _HOOKED:
        # A hook cannot be taken away again: it is there once, and idle where nobody watches.
        _HOOKED.append(True)
        sys.addaudithook(_heard)
    watcher = _Watcher([], frozenset(forbid))
    _WATCHERS.append(watcher)
    try:
        yield watcher.events
    finally:
        _WATCHERS.remove(watcher)


class _Watcher(NamedTuple):
    events: list[Event]
    forbidden: frozenset[Kind]


_HOOKED: list[bool] = []
_WATCHERS: list[_Watcher] = []
_INSIDE = threading.local()
_LIBRARIES = (f"{sys.prefix}{os.sep}", f"{sys.base_prefix}{os.sep}", str(PACKAGE_ROOT / "tasks") + os.sep)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHERS or (describe := _TOLD.get(event)) is None or getattr(_INSIDE, "busy", False):
        return
    # What is done here to say what it was is none of it.
    _INSIDE.busy = True
    try:
        noted = describe(*arguments)
    finally:
        _INSIDE.busy = False
    if noted is None:
        return
    for watcher in _WATCHERS:
        watcher.events.append(noted)
    if any(noted.kind in watcher.forbidden for watcher in _WATCHERS):
        raise Forbidden(f"{noted.kind} {noted.target}: forbidden here")


def _opened(path: Any, mode: str | None, flags: int) -> Event | None:
    if not isinstance(path, str | bytes | os.PathLike):
        # A number of a file that is open.
        return None
    writes = any(letter in mode for letter in "wax+") if mode else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return Event("write" if writes else "read", _real(path))


def _real(path: Any) -> str:
    name = os.fsdecode(path)
    return _real_of_a_library(name) if name.startswith(_LIBRARIES) else os.path.realpath(name)


@cache
def _real_of_a_library(name: str) -> str:
    """Follow the links of a file that no test changes: commands open hundreds of them."""
    return os.path.realpath(name)


def _changed(path: Any, *_: Any) -> Event | None:
    return None if isinstance(path, int) else Event("write", _real(path))


def _listed(path: Any = None, *_: Any) -> Event | None:
    return None if isinstance(path, int) else Event("read", _real(path or "."))


def _moved(_source: Any, target: Any, *_: Any) -> Event:
    return Event("write", _real(target))


def _connected(_socket: Any, address: Any) -> Event:
    return Event("connect", str(address))


def _listening(_socket: Any, address: Any) -> Event:
    return Event("listen", str(address))


def _looked_up(host: Any, *_: Any) -> Event | None:
    """Say which name is looked up; of an address in numbers nobody is asked."""
    name = os.fsdecode(host or "")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return Event("look up", name) if name else None
    return None


def _started(program: Any, *arguments: Any) -> Event:
    command = arguments[0] if arguments else program
    words = [command] if isinstance(command, str | bytes | os.PathLike) else command
    return Event("start", " ".join(os.fsdecode(word) for word in words))


def _ran(code: Any) -> Event:
    return Event("exec", getattr(code, "co_filename", str(code)))


def _compiled(_source: Any, filename: Any) -> Event:
    return Event("compile", str(filename))


def _imported(module: str, filename: str | None, *_: Any) -> Event:
    return Event("import", filename or module)


def _unpickled(module: str, name: str) -> Event:
    return Event("unpickle", f"{module}.{name}")


_TOLD: dict[str, Callable[..., Event | None]] = {
    "open": _opened,
    **dict.fromkeys(("os.listdir", "os.scandir"), _listed),
    **dict.fromkeys(("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"), _changed),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), _moved),
    "sqlite3.connect": _changed,
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), _connected),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _looked_up),
    "socket.bind": _listening,
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"), _started),
    "exec": _ran,
    "compile": _compiled,
    "import": _imported,
    "pickle.find_class": _unpickled,
}
"""What each event of Python's audit hooks says."""
