"""Asks a server of the OpenAI API, many requests at a time, and again where that helps."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ...errors import AdapterError
from ..pixels.reading import UnreadableImage
from .answers import ChatAnswer, UnusableAnswer, read_answer, server_message
from .finished_first import finished_first

if TYPE_CHECKING:
    import httpx2

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
"""Seconds before the second attempt and, doubled each time, at most before a later one."""
_LONGEST_ORDERED_WAIT = 600.0
"""Seconds for which a server's ``Retry-After`` is obeyed; one that asks for hours is out of quota."""
_CONNECT_TIMEOUT = 10.0
_LARGEST_ANSWER = 16 << 20
_REFUSALS = ("content_filter", "content_policy_violation")
"""Codes under which a request is refused for what it shows, or for what would be answered."""
_LOST_IN_A_ROW = 20
"""Requests that fail after all attempts, one after the other, before the server is taken for broken."""


@dataclass(frozen=True)
class ChatRequest:
    """What is asked of the server.

    Attributes:
        body: Makes the request's JSON; called when its turn comes, in a thread, as it may read an image.
        candidates: Tokens whose probabilities were asked for.
    """

    body: Callable[[], Mapping[str, Any]]
    candidates: Sequence[str] = ()


@dataclass(frozen=True)
class Failed:
    """A request without an answer.

    Attributes:
        reason: Why.
        of: What it lies with: the request's ``image``, the ``server``, or the model, which was ``silent``.
    """

    reason: str
    of: Literal["image", "server", "silent"] = "server"


@dataclass
class ChatClient:
    """Sends chat completions to one server.

    Attempts that break, time out, or meet a busy server (408, 409, 425, 429, 5xx) are repeated after a
    pause that doubles, or after the one that the server orders. What is wrong with one request (400, 413,
    415, 422) fails that request; what is wrong with all of them (401, 403, 404, an unreachable server)
    ends the run.

    Attributes:
        base_url: Address up to and with the version, such as ``http://localhost:8000/v1``.
        api_key_env: Environment variable that holds the key; without it none is sent.
        timeout: Seconds that one attempt may take as a whole.
        max_retries: Attempts after the first.
        spent: Tokens, requests and retries so far.

    Raises:
        AdapterError: The address is none, or holds a password.
    """

    base_url: str
    api_key_env: str
    timeout: float
    max_retries: int
    spent: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.username or parts.password or parts.query:
            # Not repeated in the message, and kept out of every record.
            raise AdapterError(
                "base_url holds a user name, a password or a query, which records would repeat",
                f"Give the key in the environment variable {self.api_key_env}.",
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AdapterError(
                f"base_url={self.base_url}: is no address of a server", "Such as http://localhost:8000/v1."
            )
        self._key = os.environ.get(self.api_key_env, "")
        self._quiet_until = 0.0

    def ask(
        self, requests: Sequence[ChatRequest], concurrency: int
    ) -> Iterator[tuple[int, ChatAnswer | Failed]]:
        """Yield the position and the outcome of each request, as soon as there is one.

        Args:
            requests: What is asked.
            concurrency: Requests under way at once.

        Raises:
            AdapterError: No request can succeed, or the httpx2 package is missing.
        """
        try:
            import httpx2
        except ImportError as error:
            raise AdapterError("the package httpx2 is missing", "pip install 'capbench[openai]'") from error

        async def work(give: Callable[[tuple[int, ChatAnswer | Failed]], None]) -> None:
            waiting = iter(range(len(requests)))
            lost = 0

            async def ask_in_turn(client: httpx2.AsyncClient) -> None:
                nonlocal lost
                for at in waiting:
                    try:
                        outcome = await self._outcome(client, requests[at])
                        lost = 0
                    except _Lost as error:
                        outcome, lost = Failed(str(error)), lost + 1
                    give((at, outcome))
                    if lost >= _LOST_IN_A_ROW:
                        raise AdapterError(
                            f"{lost} requests in a row failed after {self.max_retries + 1} attempts each; the "
                            f"last: {outcome.reason if isinstance(outcome, Failed) else ''}",
                            "What was answered is kept. Look at the server, and run again.",
                        )

            headers = {"Content-Type": "application/json"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            self._quiet_until = 0.0
            async with (
                httpx2.AsyncClient(
                    headers=headers,
                    timeout=httpx2.Timeout(self.timeout, connect=_CONNECT_TIMEOUT),
                    limits=httpx2.Limits(max_connections=concurrency),
                ) as client,
                asyncio.TaskGroup() as group,
            ):
                for _ in range(min(concurrency, len(requests))):
                    group.create_task(ask_in_turn(client))

        yield from finished_first(work)

    async def _outcome(self, client: httpx2.AsyncClient, request: ChatRequest) -> ChatAnswer | Failed:
        try:
            body = await asyncio.to_thread(lambda: json.dumps(request.body()).encode())
        except UnreadableImage as error:
            return Failed(str(error), "image")
        last = UnusableAnswer("was not asked", again=True)
        for attempt in range(self.max_retries + 1):
            if attempt:
                self.spent["retries"] += 1
                # Not all at the same moment.
                wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1))
                await asyncio.sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            try:
                return await self._attempt(client, body, request.candidates)
            except UnusableAnswer as error:
                last = error
                if not error.again:
                    return Failed(str(error), "silent" if error.silent else "server")
        if isinstance(last, _Unreachable):
            raise AdapterError(
                f"{self.base_url}: {last}",
                "Does the server run, and is base_url right? What was answered is kept: run again for the rest.",
            )
        raise _Lost(f"{last} ({self.max_retries + 1} attempts)")

    async def _attempt(
        self, client: httpx2.AsyncClient, body: bytes, candidates: Sequence[str]
    ) -> ChatAnswer:
        import httpx2

        # A pause that the server orders is for all requests.
        while (quiet := self._quiet_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(quiet)
        self.spent["requests"] += 1
        try:
            # httpx2's own limits are for each read, which a server that drips never meets.
            async with asyncio.timeout(self.timeout):
                response = await self._post(client, body)
        except TimeoutError:
            raise UnusableAnswer(f"no answer within {self.timeout:g} s", again=True) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise _Unreachable("the server cannot be reached", again=True) from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise UnusableAnswer(f"the connection broke ({type(error).__name__})", again=True) from None
        if response.status == 200:
            answer = read_answer(response.content, candidates)
            self.spent.update(answer.usage)
            return answer
        raise self._refusal(response)

    async def _post(self, client: httpx2.AsyncClient, body: bytes) -> _Response:
        content = bytearray()
        address = f"{self.base_url.rstrip('/')}/chat/completions"
        async with client.stream("POST", address, content=body) as response:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _LARGEST_ANSWER:
                    raise UnusableAnswer("the server's answer does not end", again=True)
            return _Response(response.status_code, response.headers.get("retry-after"), bytes(content))

    def _refusal(self, response: _Response) -> Exception:
        """Return what a status other than 200 means, for one request or for all."""
        status = response.status
        message, code = server_message(response.content)
        if self._key:
            # Some servers repeat the key that they refuse.
            message = message.replace(self._key, "***")
        said = f"HTTP {status}: {message}" if message else f"HTTP {status}"
        if status == 429 and code == "insufficient_quota":
            return AdapterError(f"{self.base_url}: {said}", "The account's quota is used up.")
        if status in (408, 409, 425, 429) or status >= 500:
            if (ordered := _seconds(response.retry_after)) > _LONGEST_ORDERED_WAIT:
                return AdapterError(
                    f"{self.base_url}: {said}; the server asks for a pause of {ordered:,.0f} s",
                    "What was answered is kept: run again after the pause.",
                )
            if ordered > 0:
                self._quiet_until = asyncio.get_running_loop().time() + ordered
            return UnusableAnswer(said, again=True)
        if status in (400, 413, 415, 422):
            # The services of OpenAI and Azure refuse with a status.
            return UnusableAnswer(said, again=False, silent=code in _REFUSALS)
        remedy = {
            401: f"Put a valid key into the environment variable {self.api_key_env}.",
            402: "The account has no credit left.",
            403: f"The key in {self.api_key_env} may not use this model.",
            404: "Is the model served under this name, and does base_url end in the version (/v1)?",
        }.get(status, "Is base_url the address of an OpenAI-compatible server?")
        return AdapterError(f"{self.base_url}: {said}", remedy)


@dataclass(frozen=True)
class _Response:
    status: int
    retry_after: str | None
    content: bytes


class _Unreachable(UnusableAnswer):
    """No connection could be made."""


class _Lost(Exception):  # noqa: N818 - told as a reason
    """A request that failed in every attempt."""


def _seconds(retry_after: str | None) -> float:
    """Return the pause that ``Retry-After`` orders, in seconds; 0 where it orders none, or not legibly."""
    if not retry_after:
        return 0.0
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
