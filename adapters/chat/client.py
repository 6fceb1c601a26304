"""Asks a server of the OpenAI API, many requests at a time, and again where that helps."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from ...errors import AdapterError, extra
from ..contracts import JudgeToken
from ..images.reading import UnreadableImage

if TYPE_CHECKING:
    import httpx2

_LONGEST_MESSAGE = 300
"""Characters of a server's message that are passed on; some servers repeat the whole request."""


@dataclass(eq=False)
class UnusableAnswer(Exception):  # noqa: N818 - callers handle it as a reason, not as an error
    """Why a request has no answer that holds text.

    Attributes:
        reason: In words.
        again: Whether asking again may help.
        of: The cause: the request's ``image``; the ``server``, which answers no attempt where it is ``lost``, and to
            which no connection could be made where it is ``unreachable``; or the model, which was ``silent``: it
            refused, or used up its tokens first.
    """

    reason: str
    again: bool = False
    of: Literal["image", "server", "lost", "unreachable", "silent"] = "server"


@dataclass(frozen=True)
class ChatAnswer:
    """One answer.

    Attributes:
        text: The text as it came.
        cut: Whether it ended because the allowed number of tokens was used up; None if the server does not report it.
        usage: Tokens of prompt and answer as the server counts them.
        tokens: The tokens with the probabilities of the candidates; empty where none were requested.
        remark: An unusual step in reading the request's image; empty for none.
    """

    text: str
    cut: bool | None
    usage: Mapping[str, int]
    tokens: tuple[JudgeToken, ...] = ()
    remark: str = ""


Outcome = ChatAnswer | UnusableAnswer


def read_answer(content: bytes, candidates: Sequence[str] = ()) -> ChatAnswer:
    """Read the body of a chat completion.

    Args:
        content: The body.
        candidates: Tokens whose probabilities are requested.

    Raises:
        UnusableAnswer: It is not JSON, not of the API's form, or holds no text.
    """
    body = _json(content)
    if body is None:
        raise UnusableAnswer("the server's answer is not JSON", again=True)
    if isinstance(body, dict) and body.get("error"):
        # Some gateways pass on a failure under the status of success.
        raise UnusableAnswer(f"the server answers with an error: {server_message(content)[0]}", again=True)
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = message.get("content")
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise UnusableAnswer("the server's answer has no choices", again=True) from error
    ended = choice.get("finish_reason")
    if isinstance(text, list):
        # Some servers answer in parts, of which a caption is made by those that are text.
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    if not isinstance(text, str):
        if ended == "content_filter" or message.get("refusal"):
            raise UnusableAnswer("the server refused to answer", of="silent")
        if ended == "length":
            raise UnusableAnswer("all allowed tokens were used up before the answer began", of="silent")
        raise UnusableAnswer("the server's answer holds no text", again=True)
    tokens = _tokens(choice, candidates) if candidates else ()
    return ChatAnswer(text, None if ended is None else ended == "length", _usage(body), tokens)


def server_message(content: bytes) -> tuple[str, str]:
    """Return the message of an error's body, in one line, and its code (``insufficient_quota``)."""
    body = _json(content)
    error: Any = body
    if isinstance(body, dict):
        error = body.get("error") or body.get("message") or body.get("detail") or body
    code = ""
    if isinstance(error, dict):
        code = str(error.get("code") or error.get("type") or "")
        error = error.get("message") or error
    text = content.decode("utf-8", "replace") if error is None else str(error)
    line = " ".join(text.split())
    return (line[:_LONGEST_MESSAGE] + ("..." if len(line) > _LONGEST_MESSAGE else "")), code


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _usage(body: Mapping[str, Any]) -> dict[str, int]:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return {}
    names = ("prompt_tokens", "completion_tokens")
    return {name: usage[name] for name in names if isinstance(usage.get(name), int)}


def _tokens(choice: Mapping[str, Any], candidates: Sequence[str]) -> tuple[JudgeToken, ...]:
    try:
        places = choice["logprobs"]["content"]
        return tuple(
            JudgeToken(
                str(place["token"]),
                {
                    choice["token"]: math.exp(choice["logprob"])
                    for choice in (place["top_logprobs"] if place["token"] in candidates else ())
                    if choice["token"] in candidates
                },
            )
            for place in places
        )
    except (KeyError, TypeError) as error:
        raise UnusableAnswer("the server returned no token probabilities (logprobs)") from error


_Result = TypeVar("_Result")


def finished_first(work: Callable[[Callable[[_Result], None]], Awaitable[None]]) -> Iterator[_Result]:
    """Run a coroutine in a separate thread, and yield its results as they arrive.

    The thread goes on while the caller is busy with a result, and works inside notebooks, whose own loop
    runs already. If the caller stops early, the work is cancelled.

    Args:
        work: Makes the coroutine; it calls its argument with each result.

    Raises:
        Exception: Any error of the coroutine; all results before it are yielded first.
    """
    from anyio.from_thread import start_blocking_portal

    results: SimpleQueue[_Result | None] = SimpleQueue()
    with start_blocking_portal() as portal:
        task = portal.start_task_soon(work, results.put)
        task.add_done_callback(lambda _: results.put(None))
        try:
            while (result := results.get()) is not None:
                yield result
            task.result()
        except ExceptionGroup as group:
            # One error is enough where several tasks fail.
            raise group.exceptions[0] from None
        finally:
            task.cancel()


_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0
"""Seconds before the second attempt and, doubled each time, at most before a later one."""
_LONGEST_ORDERED_WAIT = 600.0
"""Seconds for which a server's ``Retry-After`` is obeyed; one that asks for hours is out of quota."""
_CONNECT_TIMEOUT = 10.0
_LARGEST_ANSWER = 16 << 20
_REFUSALS = ("content_filter", "content_policy_violation")
"""Codes of refusals because of a request's content, or of its answer."""
_LOST_IN_A_ROW = 20
"""Requests that fail after all attempts, one after the other, before the server is taken for broken."""


@dataclass(frozen=True)
class ChatRequest:
    """A request to the server.

    Attributes:
        body: Makes the request's JSON, and a remark on its image; called when its turn comes, in a thread, as it may
            read an image.
        candidates: Tokens whose probabilities are requested.
    """

    body: Callable[[], tuple[Mapping[str, Any], str]]
    candidates: Sequence[str] = ()


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
                f"base_url={self.base_url} is not the address of a server", "Set one such as http://localhost:8000/v1."
            )
        self._key = os.environ.get(self.api_key_env, "")
        self._quiet_until = 0.0

    def ask(self, requests: Sequence[ChatRequest], concurrency: int) -> Iterator[tuple[int, Outcome]]:
        """Yield the position and the outcome of each request, as soon as there is one.

        Args:
            requests: The requests.
            concurrency: Requests under way at once.

        Raises:
            AdapterError: No request can succeed, or the httpx2 package is missing.
        """
        with extra("openai", "a server of models needs the package httpx2", AdapterError):
            import httpx2

        async def work(give: Callable[[tuple[int, Outcome]], None]) -> None:
            waiting = iter(range(len(requests)))
            lost = 0

            async def ask_in_turn(client: httpx2.AsyncClient) -> None:
                nonlocal lost
                for at in waiting:
                    outcome = await self._outcome(client, requests[at])
                    give((at, outcome))
                    if isinstance(outcome, ChatAnswer) or outcome.of != "lost":
                        lost = 0
                        continue
                    lost += 1
                    if lost >= _LOST_IN_A_ROW:
                        raise AdapterError(
                            f"{lost} requests in a row failed after {self.max_retries + 1} attempts each; the "
                            f"last: {outcome.reason}",
                            "Answers so far are stored. Check the server, and run again.",
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

    async def _outcome(self, client: httpx2.AsyncClient, request: ChatRequest) -> Outcome:
        try:
            body, remark = await asyncio.to_thread(request.body)
        except UnreadableImage as error:
            return UnusableAnswer(str(error), of="image")
        encoded = json.dumps(body).encode()
        last = UnusableAnswer("was not asked", again=True)
        for attempt in range(self.max_retries + 1):
            if attempt:
                self.spent["retries"] += 1
                # Not all at the same moment.
                wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1))
                await asyncio.sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            try:
                return replace(await self._attempt(client, encoded, request.candidates), remark=remark)
            except UnusableAnswer as error:
                last = error
                if not error.again:
                    return error
        if last.of == "unreachable":
            raise AdapterError(
                f"{self.base_url}: {last.reason}",
                "Check the server and base_url. Answers so far are stored: run again for the rest.",
            )
        return UnusableAnswer(f"{last.reason} ({self.max_retries + 1} attempts)", of="lost")

    async def _attempt(self, client: httpx2.AsyncClient, body: bytes, candidates: Sequence[str]) -> ChatAnswer:
        import httpx2

        # A pause that the server orders is for all requests.
        while (quiet := self._quiet_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(quiet)
        self.spent["requests"] += 1
        address = f"{self.base_url.rstrip('/')}/chat/completions"
        content = bytearray()
        try:
            # httpx2's own limits are for each read, which a server that drips never meets.
            async with asyncio.timeout(self.timeout), client.stream("POST", address, content=body) as response:
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > _LARGEST_ANSWER:
                        raise UnusableAnswer("the server's answer does not end", again=True)
        except TimeoutError:
            raise UnusableAnswer(f"no answer within {self.timeout:g} s", again=True) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise UnusableAnswer("the server cannot be reached", True, "unreachable") from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise UnusableAnswer(f"the connection broke ({type(error).__name__})", again=True) from None
        if response.status_code != 200:
            raise self._refusal(response.status_code, bytes(content), response.headers.get("retry-after"))
        answer = read_answer(bytes(content), candidates)
        self.spent.update(answer.usage)
        return answer

    def _refusal(self, status: int, content: bytes, retry_after: str | None) -> Exception:
        """Return the error of a status other than 200, for one request or for all."""
        message, code = server_message(content)
        if self._key:
            # Some servers repeat the key that they refuse.
            message = message.replace(self._key, "***")
        said = f"HTTP {status}: {message}" if message else f"HTTP {status}"
        if status == 429 and code == "insufficient_quota":
            return AdapterError(f"{self.base_url}: {said}", "The account's quota is used up.")
        if status in (408, 409, 425, 429) or status >= 500:
            if (ordered := _seconds(retry_after)) > _LONGEST_ORDERED_WAIT:
                return AdapterError(
                    f"{self.base_url}: {said}; the server asks for a pause of {ordered:,.0f} s",
                    "Answers so far are stored: run again after the pause.",
                )
            if ordered > 0:
                self._quiet_until = asyncio.get_running_loop().time() + ordered
            return UnusableAnswer(said, again=True)
        if status in (400, 413, 415, 422):
            # The services of OpenAI and Azure refuse with a status.
            return UnusableAnswer(said, of="silent" if code in _REFUSALS else "server")
        remedy = {
            401: f"Put a valid key into the environment variable {self.api_key_env}.",
            402: "The account has no credit left.",
            403: f"The key in {self.api_key_env} may not use this model.",
            404: "Check the model's name, and that base_url ends in the version (/v1).",
        }.get(status, "Check that base_url is the address of an OpenAI-compatible server.")
        return AdapterError(f"{self.base_url}: {said}", remedy)


def _seconds(retry_after: str | None) -> float:
    """Return the pause that ``Retry-After`` orders, in seconds; 0 where it orders none, or a date."""
    return float(retry_after) if retry_after and retry_after.strip().isdecimal() else 0.0
