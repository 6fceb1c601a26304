"""What a bucket's errors mean, whichever library they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum


class Meaning(Enum):
    """What an error says of a request."""

    THERE = "an object is there already"
    MISSING = "there is no such object"
    NO_PLACE = "there is no such bucket"
    DENIED = "the request was not allowed"
    PASSING = "it may pass"
    LASTING = "it will not pass"


_OF_STATUS = {401: Meaning.DENIED, 403: Meaning.DENIED, 404: Meaning.MISSING, 412: Meaning.THERE}
# 409: others write or delete the same object at this moment; S3 asks for the request again, and answers 412 then.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
# Connections that break, as botocore, aiohttp, Azure's and Google's libraries call them; none of these has a status.
_BROKEN = frozenset(
    {
        "ConnectionError",
        "HTTPClientError",
        "IncompleteReadError",
        "ResponseParserError",
        "ResponseStreamingError",
    }
    | {"ClientConnectionError", "ClientPayloadError"}
    | {"ServiceRequestError", "ServiceResponseError", "TransportError"}
)


def meaning_of(error: Exception) -> Meaning:
    """Return what an error of s3fs, gcsfs, adlfs or of what they stand on means."""
    if _response(error).get("Error", {}).get("Code") == "NoSuchBucket":
        return Meaning.NO_PLACE
    # Credentials that cannot be found have no status.
    if isinstance(error, PermissionError) or "Credential" in type(error).__name__:
        return Meaning.DENIED
    if isinstance(error, TimeoutError):
        return Meaning.PASSING
    if isinstance(error, FileExistsError):
        return Meaning.THERE
    if isinstance(error, FileNotFoundError):
        return Meaning.MISSING
    status = _status(error)
    if status is None:
        is_broken = isinstance(error, OSError) or _BROKEN & {kind.__name__ for kind in type(error).__mro__}
        return Meaning.PASSING if is_broken else Meaning.LASTING
    return Meaning.PASSING if status in _PASSING else _OF_STATUS.get(status, Meaning.LASTING)


def words_of(error: Exception) -> str:
    """Return what an error says, in a line and without what may be signed in an address."""
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    said = " ".join(told.split()) or type(error).__name__
    status = _status(error)
    return re.sub(r"\?[^\s'\"]*", "?...", said)[:300] + (f" ({status})" if status else "")


def _response(error: Exception) -> dict[str, dict]:
    """Return the answer as botocore keeps it, empty where there is none."""
    return next(
        (found for one in _chain(error) if isinstance(found := getattr(one, "response", None), dict)), {}
    )


def _status(error: Exception) -> int | None:
    found = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    if found is not None:
        return found
    of_others = (
        getattr(one, name, None) for one in _chain(error) for name in ("status_code", "status", "code")
    )
    return next((one for one in of_others if isinstance(one, int)), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
