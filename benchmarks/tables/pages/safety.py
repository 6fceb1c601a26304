"""Lets in who has the token, from where it belongs, and nobody else."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Guard:
    """Stands before an application: what it does not let in never reaches it.

    A request needs the token, in its address or in the cookie that an answer to such an address sets. One that a page
    from elsewhere makes is refused, but for a person who follows a link that holds the token.

    Attributes:
        app: The application.
        token: The token.
        cookie: Name of the cookie.
        command: What printed the address.
        hosts: What requests may call this machine; empty for anything.
    """

    app: ASGIApp
    token: str
    cookie: str
    command: str
    hosts: tuple[str, ...] = LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        by_address = secrets.compare_digest(given.encode(), self.token.encode())
        reason = self._refusal(scope["method"], headers, by_address)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = {name.decode("latin-1").lower() for name, _ in message["headers"]}
                more = {name: value for name, value in _HEADERS.items() if name not in told}
                if by_address and not reason:
                    more["set-cookie"] = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in more.items()),
                ]
            await send(message)

        if reason:
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(f"capbench: {reason}\n", 403)(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Mapping[str, str], by_address: bool) -> str:
        """Return why a request is refused; empty where it is not."""
        host = headers.get("host", "")
        if self.hosts and _name(f"//{host}") not in self.hosts:
            return f"this server is not called '{host}'."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "the request comes from a page elsewhere."
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not (
            by_address and is_visit and method == "GET"
        ):
            return "the request comes from a page elsewhere; type or paste the address instead."
        if not by_address and not self._has_cookie(headers.get("cookie", "")):
            return f"open the address that '{self.command}' printed: it holds the token without which nothing is shown."
        return ""

    def _has_cookie(self, header: str) -> bool:
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(found.value.encode(), self.token.encode())


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
