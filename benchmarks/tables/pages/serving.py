"""Serves the pages on this machine, until it is interrupted."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import UsageError
from .safety import LOOPBACK, Guard

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def require_packages(command: str) -> None:
    """Raise unless what serves is installed.

    Args:
        command: The subcommand that needs it, and the extra that brings it.

    Raises:
        UsageError: A package is missing.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"'bench {command}' needs the package {error.name}, which is not installed", "pip install 'capbench[view]'"
        ) from error


def serve(
    application: ASGIApp,
    *,
    command: str,
    holds: str,
    host: str = LOOPBACK[0],
    port: int = 0,
    told: Callable[[str], None] = print,
) -> None:
    """Answer until the process is interrupted.

    Args:
        application: What answers those who are let in.
        command: The subcommand whose pages these are.
        holds: What the pages let those do who have the address: "sees the runs and their images".
        host: The address of this machine to listen at.
        port: The port; 0 for one that is free.
        told: Given the address to open, with its token.

    Raises:
        UsageError: The address cannot be listened at, or a package is missing.
    """
    require_packages(command)
    import uvicorn

    bound = _bind(host, port)
    port = bound.getsockname()[1]
    token = secrets.token_urlsafe(24)
    hosts = (*LOOPBACK, host) if host in LOOPBACK else ()
    if not hosts:
        print(
            f"bench {command}: listens at {host}, so other machines reach it: who has the address, with its token, "
            f"{holds}, and so does who listens on the way, as nothing is encrypted.",
            file=sys.stderr,
        )
    # Cookies do not tell ports apart.
    guard = Guard(application, token, f"capbench-{command}-{port}", f"bench {command}", hosts)
    shown = f"[{host}]" if ":" in host else host
    told(f"http://{shown}:{port}/?token={token}")
    config = uvicorn.Config(guard, log_level="warning", access_log=False, lifespan="off", server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        return
    finally:
        bound.close()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        # Who opens the address as soon as it is printed waits, and is not turned away.
        bound.listen()
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be listened at: {error.strerror or error}",
            "Name another port with --port, or none for one that is free.",
        ) from error
    return bound
