"""Reads what a server of the OpenAI API answers: the text, its tokens, what it cost; or what is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..contracts import JudgeToken

_LONGEST_MESSAGE = 300
"""Characters of a server's message that are passed on; some servers repeat the whole request."""


class UnusableAnswer(Exception):  # noqa: N818 - what the caller is told of is a reason, not an error
    """An answer that holds no text; its text says why.

    Args:
        reason: Why.
        again: Whether asking again may help.
        silent: Whether the model has answered, and said nothing: it refused, or its tokens were used up before.
    """

    def __init__(self, reason: str, again: bool, silent: bool = False) -> None:
        super().__init__(reason)
        self.again = again
        self.silent = silent


@dataclass(frozen=True)
class ChatAnswer:
    """One answer.

    Attributes:
        text: The text as it came.
        cut: Whether it ended because the allowed number of tokens was used up; None if the server does not tell.
        usage: Tokens of prompt and answer as the server counts them.
        tokens: The tokens with the probabilities of the candidates; empty where none were asked for.
    """

    text: str
    cut: bool | None
    usage: Mapping[str, int]
    tokens: tuple[JudgeToken, ...] = ()


def read_answer(content: bytes, candidates: Sequence[str] = ()) -> ChatAnswer:
    """Read the body of a chat completion.

    Args:
        content: The body.
        candidates: Tokens whose probabilities were asked for.

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
            raise UnusableAnswer("the server refused to answer", again=False, silent=True)
        if ended == "length":
            reason = "all allowed tokens were used up before the answer began"
            raise UnusableAnswer(reason, again=False, silent=True)
        raise UnusableAnswer("the server's answer holds no text", again=True)
    tokens = _tokens(choice, candidates) if candidates else ()
    return ChatAnswer(text, None if ended is None else ended == "length", _usage(body), tokens)


def server_message(content: bytes) -> tuple[str, str]:
    """Return what an error's body says, in one line, and its code (``insufficient_quota``)."""
    body = _json(content)
    found: Any = body
    if isinstance(body, dict):
        found = body.get("error") or body.get("message") or body.get("detail") or body
    code = ""
    if isinstance(found, dict):
        code = str(found.get("code") or found.get("type") or "")
        found = found.get("message") or found
    text = content.decode("utf-8", "replace") if found is None else str(found)
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
                    one["token"]: math.exp(one["logprob"])
                    for one in (place["top_logprobs"] if place["token"] in candidates else ())
                    if one["token"] in candidates
                },
            )
            for place in places
        )
    except (KeyError, TypeError) as error:
        raise UnusableAnswer("the server tells no probabilities of tokens (logprobs)", again=False) from error
