"""Serves the pages on this machine, until it is interrupted."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ....errors import UsageError, extra
from .rendering import ASSETS, asset

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TYPES = {".css": "text/css", ".js": "text/javascript"}


def require_packages(command: str) -> None:
    """Raise unless the packages for serving are installed.

    Args:
        command: The subcommand that needs them, for the message.

    Raises:
        UsageError: A package is missing.
    """
    with extra("view", f"'bench {command}' needs a web server"):
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401


def serve(
    application: ASGIApp,
    *,
    command: str,
    holds: str,
    host: str = LOOPBACK[0],
    port: int = 0,
    token: str = "",
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until the process is interrupted.

    Args:
        application: The application, behind a :class:`Guard`.
        command: The subcommand of the pages.
        holds: What a visitor with the address can do, for a warning: "sees the runs and their images".
        host: The address of this machine to listen at.
        port: The port; 0 for a free one.
        token: The token; empty for a random one.
        announce: Called with the address to open, with its token.

    Raises:
        UsageError: The address cannot be listened at, or a package is missing.
    """
    require_packages(command)
    import uvicorn

    bound = _bind(host, port)
    port = bound.getsockname()[1]
    token = token or secrets.token_urlsafe(24)
    hosts = (*LOOPBACK, host) if host in LOOPBACK else ()
    if not hosts:
        print(
            f"bench {command}: listens at {host}, for other machines too, without encryption: "
            f"anyone with the address and its token {holds}.",
            file=sys.stderr,
        )
    # Cookies are shared by all ports of a host.
    guard = Guard(application, token, f"capbench-{command}-{port}", f"bench {command}", hosts)
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{port}/?token={token}")
    config = uvicorn.Config(guard, log_level="warning", access_log=False, lifespan="off", server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[bound])
    except KeyboardInterrupt:
        return
    finally:
        bound.close()


def kept_token(file: Path) -> str:
    """Return the token in a file, which is made for this user alone if it is not there; empty if it cannot be read."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            file.touch(0o600, exist_ok=False)
            file.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        if file.stat().st_mode & 0o077 == 0:
            return file.read_text(encoding="utf-8").strip()
    return ""


def _bind(host: str, port: int) -> socket.socket:
    try:
        # A request right after the address is printed waits, and is not refused.
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            "Name another port with --port, or none for a free one.",
        ) from error


def assets() -> Route:
    """Return the route of style sheets and scripts, below ``/assets``."""
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    def style_or_script(request: Request) -> Response:
        file = ASSETS.get(request.path_params["name"])
        if file is None:
            return Response("no such file", 404, media_type="text/plain")
        kept = {"cache-control": "private, max-age=600"}
        return Response(asset(file.name), media_type=_TYPES[file.suffix], headers=kept)

    return Route("/assets/{name}", style_or_script)


@dataclass(frozen=True)
class Guard:
    """ASGI middleware that refuses requests without the token, and cross-site requests.

    A request needs the token: in its address, in the cookie that the response to such an address sets, or in the header
    ``authorization: Bearer TOKEN``. Cross-site requests are refused, except a visit by a link with the token.

    Attributes:
        app: The application.
        token: The token.
        cookie: Name of the cookie.
        command: The command that printed the address.
        hosts: Allowed names of this machine in requests; empty for any.
    """

    app: ASGIApp
    token: str
    cookie: str
    command: str
    hosts: tuple[str, ...] = LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application."""
        from starlette.datastructures import MutableHeaders
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        request = Request(scope)
        by_address = self._is_token(request.query_params.get("token", ""))
        reason = self._refusal(request.method, request.headers, by_address, request.cookies.get(self.cookie, ""))

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if by_address and not reason:
                    headers.append("set-cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        answer = PlainTextResponse(f"capbench: {reason}\n", 403) if reason else self.app
        await answer(scope, receive, send_guarded)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.token.encode())

    def _refusal(self, method: str, headers: Mapping[str, str], by_address: bool, cookie: str) -> str:
        """Return why a request is refused; empty where it is not."""
        host = headers.get("host", "")
        if self.hosts and _name(f"//{host}") not in self.hosts:
            return f"unknown host name '{host}'."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "the request comes from another site."
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not (
            by_address and is_visit and method == "GET"
        ):
            return "the request comes from another site; type or paste the address instead."
        of_program = headers.get("authorization", "").removeprefix("Bearer ")
        if not (by_address or self._is_token(cookie) or self._is_token(of_program)):
            return f"open the address that '{self.command}' printed: it has the required token."
        return ""


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
