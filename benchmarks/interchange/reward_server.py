"""The web application of ``bench serve``: scores and rewards for trainers on other machines."""

import asyncio
import base64
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ...boundary import Boundary
from ...errors import BenchError, DataError, UsageError, did_you_mean
from ...rows import parse_json
from .as_reward import COLUMNS, RewardFunction
from .remote_reward import LONGEST_BODY, MOST_ROWS

_COLUMNS = tuple(chain.from_iterable(COLUMNS.values()))
_KEYS = ("completions", "rows", *_COLUMNS)
_KEYS_OF_ROWS = ("id", "candidate", "caption", *COLUMNS)
_URI = "data:"


def application(reward: RewardFunction, folders: Sequence[Path]) -> Starlette:
    """Return the web application.

    ``GET /metrics`` gives ``name`` and ``needs``. ``POST /score`` takes ``completions`` with columns, or ``rows``, and
    gives ``rewards``, the values of all ``metrics``, and the ``reasons`` of rows without a value, which is null.

    Args:
        reward: Scores the rows.
        folders: The folders whose images requests may name by path.
    """
    boundary = Boundary.of(*folders)
    # Models score one request at a time.
    worker = ThreadPoolExecutor(1)

    async def metrics(_: Request) -> JSONResponse:
        return JSONResponse({"name": reward.__name__, "needs": sorted(reward.needs)})

    async def score(request: Request) -> JSONResponse:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                return _refused(413, f"the request is larger than {LONGEST_BODY >> 20} MB", "Send fewer rows.")
        try:
            loop = asyncio.get_running_loop()
            return JSONResponse(await loop.run_in_executor(worker, _answer, reward, boundary, bytes(body)))
        except (UsageError, DataError) as error:
            return _refused(422, error.message, error.hint)
        except BenchError as error:
            return _refused(500, error.message, error.hint)

    return Starlette(routes=[Route("/metrics", metrics), Route("/score", score, methods=["POST"])])


def _refused(status: int, message: str, hint: str) -> JSONResponse:
    answer = {"error": message, "hint": hint}
    return JSONResponse({key: text.encode("utf-8", "replace").decode() for key, text in answer.items()}, status)


def _answer(reward: RewardFunction, boundary: Boundary, body: bytes) -> dict[str, Any]:
    rows = _rows(reward, body)
    for number, row in enumerate(rows):
        if row.get("image") is not None:
            row["image"] = _image(row["image"], number, boundary)
    scores = reward.scores(rows)
    return {
        "rewards": _numbers(scores.total.tolist()),
        "metrics": {name: _numbers(values.tolist()) for name, values in scores.values.items()},
        "reasons": {
            str(row): reason.encode("utf-8", "replace").decode() for row, reason in sorted(scores.reasons.items())
        },
    }


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _rows(reward: RewardFunction, body: bytes) -> list[dict[str, Any]]:
    """Return the rows of a request.

    Raises:
        UsageError: It is not JSON of the form, or has too many rows.
    """
    try:
        content = parse_json(body.decode())
    except ValueError as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    hint = f"It has 'completions' with columns, or 'rows': {', '.join(_KEYS)}."
    if not isinstance(content, dict) or ("rows" in content) == ("completions" in content):
        raise UsageError("the request has neither or both of 'completions' and 'rows'", hint)
    for key, column in content.items():
        if key not in _KEYS or ("rows" in content and key != "rows"):
            raise UsageError(f"the request has an unknown key '{key}'.{did_you_mean(key, _KEYS)}", hint)
        if not isinstance(column, list):
            raise UsageError(f"'{key}' is not a list but {type(column).__name__}", hint)
        if len(column) > MOST_ROWS:
            raise UsageError(f"'{key}' has {len(column):,} rows", f"Send at most {MOST_ROWS:,} in a request.")
    if "completions" in content:
        completions = content.pop("completions")
        for number, text in enumerate(completions):
            if not isinstance(text, str):
                raise UsageError(f"completion {number} is not a text but {type(text).__name__}")
        return reward.rows(completions, content)
    for number, row in enumerate(content["rows"]):
        if not isinstance(row, dict):
            raise UsageError(f"row {number} is not an object but {type(row).__name__}")
        if unknown := next((key for key in row if key not in _KEYS_OF_ROWS), None):
            known = f"Rows have {', '.join(_KEYS_OF_ROWS)}."
            raise UsageError(f"row {number}: unknown key '{unknown}'.{did_you_mean(unknown, _KEYS_OF_ROWS)}", known)
    # Answers are in the order of the rows.
    return [{key: value for key, value in row.items() if key != "id"} for row in content["rows"]]


def _image(image: Any, number: int, boundary: Boundary) -> bytes | Path:
    """Return the bytes of a data URI, or a path that lies inside.

    Raises:
        DataError: It is neither.
    """
    if not isinstance(image, str):
        raise DataError(f"row {number}: its image is not a text but {type(image).__name__}", "Send a path or data URI.")
    if image.startswith(_URI):
        kind, _, data = image.partition(",")
        try:
            if not kind.endswith(";base64"):
                raise ValueError("it is not base64")
            return base64.b64decode(data, validate=True)
        except ValueError as error:
            raise DataError(f"row {number}: its image is no valid data URI: {error}") from error
    if not boundary.folders or "\0" in image or not boundary.holds(Path(image)):
        raise DataError(
            f"row {number}: image {image:.200} lies outside of the folders that the server may read.",
            "Send 'data:image/png;base64,...', or start 'bench serve' with --allow_outside DIR.",
        )
    return Path(image)
