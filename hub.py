"""The Hugging Face hub: whether it answers, and asking it once where it does not."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 5
_REMEMBERED_SECONDS = 60
_ANSWERS: dict[str, tuple[float, str]] = {}
"""Address of a hub to when it was asked, and why it could not be."""


class NotInCache(ConnectionError):  # noqa: N818 - named for what is wrong
    """The hub does not answer, and its cache on this machine has not what was asked for."""


def unreachable() -> str:
    """Return why the hub cannot be asked; an empty string where it can.

    It is asked once a minute at most.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    endpoint = constants.ENDPOINT
    asked, reason = _ANSWERS.get(endpoint, (-math.inf, ""))
    if time.monotonic() - asked >= _REMEMBERED_SECONDS:
        reason = _ask(endpoint)
        _ANSWERS[endpoint] = time.monotonic(), reason
    return reason


def _ask(endpoint: str) -> str:
    from huggingface_hub import get_session

    try:
        # The library's own session knows of proxies and certificates; any answer will do.
        get_session().head(endpoint, timeout=_TIMEOUT_SECONDS)
    except Exception as error:  # noqa: BLE001 - what it raises depends on its version
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        return f"{endpoint} does not answer: {said}"
    return ""


@contextmanager
def asked_once(name: str) -> Iterator[None]:
    """Have the hub's libraries look in its cache alone where the hub does not answer.

    Left alone they ask it six times, 23 seconds long, for each file.

    Args:
        name: What is loaded. For a folder on this machine nobody is asked.

    Raises:
        NotInCache: The hub does not answer, and what was asked for is not in the cache.
    """
    if Path(name).is_dir() or not (reason := unreachable()):
        yield
        return
    try:
        with _offline():
            yield
    except Exception as error:
        if _is_for_want_of_the_hub(error):
            raise NotInCache(f"it is not in the hub's cache, and {reason}") from error
        raise


@contextmanager
def _offline() -> Iterator[None]:
    from huggingface_hub import constants

    # The library of data sets copies the setting when it is imported, which may be in here.
    before = constants.HF_HUB_OFFLINE
    copied = _setting_of_datasets(before)
    constants.HF_HUB_OFFLINE = True
    _set_datasets(True)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        _set_datasets(copied)


def _setting_of_datasets(otherwise: bool) -> bool:
    config: Any = sys.modules.get("datasets.config")
    return otherwise if config is None else config.HF_HUB_OFFLINE


def _set_datasets(offline: bool) -> None:
    config: Any = sys.modules.get("datasets.config")
    if config is not None:
        config.HF_HUB_OFFLINE = offline


def _is_for_want_of_the_hub(error: BaseException | None) -> bool:
    from huggingface_hub.errors import LocalEntryNotFoundError

    while error is not None:
        if isinstance(error, LocalEntryNotFoundError | ConnectionError):
            return True
        error = error.__cause__ or error.__context__
    return False
