"""A reward that ``bench serve`` computes, on this machine or another."""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

from ...batches import grouped
from ...errors import AdapterError, UsageError
from .as_reward import OnError, RewardFunction, RewardScores

TOKEN = "CAPBENCH_TOKEN"  # noqa: S105 - the name of a variable
MOST_ROWS, LONGEST_BODY = 4096, 64 << 20
"""Limits of a request."""
_SECONDS = 600


class RemoteReward(RewardFunction):
    """The reward of a server.

    Images that are paths are sent as they are: the server reads them; others are sent with their bytes.

    Args:
        address: The server, ``http://HOST:PORT``. ``$CAPBENCH_TOKEN`` holds its token.
        on_error: What a completion without a reward gets.

    Raises:
        UsageError: The server refuses the token.
        AdapterError: It cannot be reached.
    """

    def __init__(self, address: str, on_error: OnError) -> None:
        self._arguments = (address, on_error)
        self._address = address.rstrip("/")
        served = self._asked("metrics")
        super().__init__(served["name"], frozenset(served["needs"]), on_error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process builds it anew."""
        return type(self), self._arguments

    def scores(self, rows: Sequence[Mapping[str, Any]]) -> RewardScores:
        """Return the scores of rows; see :meth:`RewardFunction.scores`."""
        total, values, reasons, first = list[float](), dict[str, list[float]](), dict[int, str](), 0
        for number, body in _bodies(rows):
            answer = self._asked("score", body)
            total += answer["rewards"]
            if len(total) != first + number:
                raise AdapterError(f"{self._address}: {len(answer['rewards'])} rewards for {number} rows")
            for name, of_metric in answer["metrics"].items():
                values.setdefault(name, []).extend(of_metric)
            reasons |= {first + int(row): reason for row, reason in answer["reasons"].items()}
            first += number
        arrays = {name: np.array(column, np.float64) for name, column in values.items()}
        return RewardScores(np.array(total, np.float64), arrays, reasons)

    def _asked(self, path: str, body: bytes | None = None) -> Any:
        headers = {"content-type": "application/json"}
        request = Request(f"{self._address}/{path}", body, headers)  # noqa: S310 - as the caller names it
        request.add_unredirected_header("authorization", f"Bearer {os.environ.get(TOKEN, '')}")
        try:
            with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as error:
            text = error.read().decode("utf-8", "replace")
            if error.code == 403:
                hint = f"Set ${TOKEN} to the token that 'bench serve' printed."
                raise UsageError(f"{self._address}: {text.strip()}", hint) from error
            try:
                said = json.loads(text)
                message, hint = said["error"], said["hint"]
            except (ValueError, LookupError, TypeError):
                raise AdapterError(f"{self._address}: status {error.code}: {text:.200}") from error
            raise (UsageError if error.code < 500 else AdapterError)(f"{self._address}: {message}", hint) from error
        except (OSError, ValueError) as error:
            raise AdapterError(
                f"{self._address}: {error}", "Start 'bench serve' there, or name its address."
            ) from error


def _bodies(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Yield requests within the limits, each with its number of rows."""
    most = LONGEST_BODY // 2
    sent = ({**row, "image": _sent(row["image"])} if "image" in row else row for row in rows)
    encoded = (json.dumps(row, default=lambda value: value.tolist()).encode() for row in sent)
    # As every row counts at least its share, no request has more rows than allowed.
    for group in grouped(encoded, lambda row: max(len(row), most // MOST_ROWS), most):
        yield len(group), b'{"rows": [%b]}' % b",".join(group)


def _sent(image: Any) -> Any:
    """Return an image as JSON: its path, or its bytes as a data URI."""
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, bytes):
        return f"data:application/octet-stream;base64,{base64.b64encode(image).decode()}"
    return str(image) if isinstance(image, Path) else image
