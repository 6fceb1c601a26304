"""Answers of a judge that were recorded elsewhere, so that its metrics can be computed again without it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ...errors import AdapterError
from ...rows import BadRow, parse_number, read_rows
from ..contracts import Judge, Judged, Judgement, JudgeRequest, JudgeToken
from ..images.file_digests import RecordedFile

_Key = tuple[str, str | None, float | None]
"""The digest of a prompt, that of an image and a seed; None serves any."""

_MISSING = "is not among the recorded responses"


class RecordedResponses(RecordedFile, Judge):
    """Serves responses from a file: jsonl or json.

    A row holds ``prompt``, or ``sha256`` of its UTF-8 bytes, and ``response``. It may hold ``image``, the
    ``ImageHandle.digest`` of the image that was looked at, and ``seed``, that of a request whose answers are drawn
    (DCScore's); a row without serves the prompt for any. A request's own system prompt stands before its prompt, with
    an empty line between; other decoding settings do not distinguish rows. For metrics that look at probabilities
    ``tokens`` lists a pair for each token of the response: its text, and candidate tokens to their probabilities.

    Args:
        path: The file.
        name: How the judge is called in results; the file's name unless given.

    Raises:
        AdapterError: A row has no such columns, or a prompt has two different responses.
        DataError: The file is missing or unreadable.
    """

    adapter = "responses"

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        super().__init__(path, name)
        self._answers: dict[_Key, Judgement] = {}
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                raise AdapterError(f"{self.path}: {row.place}: {row.reason}", "Correct or remove the row.")
            try:
                key, answer = _read(row)
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
                raise AdapterError(
                    f"{self.path}: row {number} cannot be read: {type(error).__name__}: {error}",
                    'A row is {"prompt": TEXT (or "sha256"), "response": TEXT}, with "image", "seed" or "tokens" '
                    "if need be.",
                ) from error
            if self._answers.setdefault(key, answer) != answer:
                raise AdapterError(f"{self.path}: row {number}: a second response to the same prompt")

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Give the recorded answers."""
        judgements: dict[int, Judgement] = {}
        failures: dict[int, str] = {}
        for at, request in enumerate(requests):
            sha256 = hashlib.sha256(asked(request).encode("utf-8", "surrogatepass")).hexdigest()
            image = request.image.digest() if request.image is not None else None
            keys = product((sha256,), (image, None), (request.decoding.get("seed"), None))
            answer = next((self._answers[key] for key in keys if key in self._answers), None)
            if answer is None:
                failures[at] = _MISSING
            else:
                judgements[at] = answer
        yield Judged(judgements, failures)


def asked(request: JudgeRequest) -> str:
    """Return what rows have as the prompt of a request."""
    return request.prompt if request.system is None else f"{request.system}\n\n{request.prompt}"


def _read(row: Mapping[str, Any]) -> tuple[_Key, Judgement]:
    """Return the key of a row, and its answer."""
    if "response" not in row:
        raise ValueError(f"it has no 'response'; it has: {', '.join(map(repr, row)) or 'nothing'}")
    prompt, response = row.get("prompt"), row["response"]
    if not isinstance(response, str):
        raise TypeError("'response' is not a text")
    sha256 = row["sha256"] if prompt is None else hashlib.sha256(prompt.encode("utf-8")).hexdigest()
    tokens = tuple(
        JudgeToken(str(text), {str(token): parse_number(p) for token, p in probabilities.items()})
        for text, probabilities in row.get("tokens") or ()
    )
    seed = None if row.get("seed") is None else parse_number(row["seed"])
    return (str(sha256).lower(), row.get("image"), seed), Judgement(response, tokens)
