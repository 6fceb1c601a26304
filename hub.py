"""The Hugging Face hub: whether it is reachable, and use of its cache alone if it is not."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

_TIMEOUT_SECONDS = 5
_REMEMBERED_SECONDS = 60
_ANSWERS: dict[str, tuple[float, str]] = {}
"""Address of a hub to the time of the last request, and why it failed."""

_ASKS_NOBODY = ContextVar("asks_nobody", default=False)


class NotInCache(ConnectionError):  # noqa: N818 - named for what is wrong
    """The hub does not answer, and its cache on this machine lacks the model or data set."""


@contextmanager
def asking_nobody() -> Iterator[None]:
    """Send no requests inside, for commands that only read: what this machine lacks is assumed to be on the hub."""
    before = _ASKS_NOBODY.set(True)
    try:
        yield
    finally:
        _ASKS_NOBODY.reset(before)


def asks_nobody() -> bool:
    """Return whether requests and downloads are off (:func:`asking_nobody`)."""
    return _ASKS_NOBODY.get()


def unreachable() -> str:
    """Return why the hub is unreachable; empty if it is reachable, or requests are off.

    The answer is cached for a minute.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if asks_nobody():
        return ""
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


def _nothing_is_fetched() -> str:
    """Return why nothing is fetched from the hub; an empty string where it is."""
    return unreachable() or ("this command fetches nothing" if asks_nobody() else "")


def require_repository(name: str, kind: Literal["model", "dataset"] = "model") -> None:
    """Raise if the hub does not answer and no cache of this machine has a repository.

    The check imports none of the libraries that would load it, which takes seconds.

    Args:
        name: Owner and repository, ``owner/name``. Other names are not checked.
        kind: What it holds.

    Raises:
        NotInCache: It is nowhere.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or Path(name).exists() or not (reason := _nothing_is_fetched()):
        return
    if not any(folder.is_dir() for folder in _folders_of(name, kind)):
        raise NotInCache(_not_in_cache(reason))


def _folders_of(name: str, kind: str) -> Iterator[Path]:
    """Yield where caches keep a repository: the hub's, and that of prepared data sets."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    yield Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type=kind))
    if kind == "dataset":
        loaded: Any = sys.modules.get("datasets.config")
        prepared = os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME, "datasets")
        yield Path(loaded.HF_DATASETS_CACHE if loaded else prepared, name.replace("/", "___"))


def _not_in_cache(reason: str) -> str:
    return f"it is not in the hub's cache, and {reason}"


@contextmanager
def asked_once(name: str) -> Iterator[None]:
    """Restrict the hub's libraries to its cache if the hub does not answer.

    Otherwise they retry six times, 23 seconds long, for each file.

    Args:
        name: What is loaded. A folder on this machine needs no request.

    Raises:
        NotInCache: The hub does not answer, and the model or data set is not in the cache.
    """
    if Path(name).is_dir() or not (reason := _nothing_is_fetched()):
        yield
        return
    try:
        with _offline():
            yield
    except Exception as error:
        if _is_for_want_of_the_hub(error):
            raise NotInCache(_not_in_cache(reason)) from error
        raise


@contextmanager
def _offline() -> Iterator[None]:
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    copied: bool = getattr(sys.modules.get("datasets.config"), "HF_HUB_OFFLINE", before)

    def set_offline(hub: bool, of_datasets: bool) -> None:
        constants.HF_HUB_OFFLINE = hub
        # The library of data sets copies the setting when it is imported, which may be in here.
        if config := sys.modules.get("datasets.config"):
            config.HF_HUB_OFFLINE = of_datasets  # pyright: ignore[reportAttributeAccessIssue]

    set_offline(True, True)
    try:
        yield
    finally:
        set_offline(before, copied)


def _is_for_want_of_the_hub(error: BaseException | None) -> bool:
    from huggingface_hub.errors import LocalEntryNotFoundError

    while error is not None:
        if isinstance(error, LocalEntryNotFoundError | ConnectionError):
            return True
        error = error.__cause__ or error.__context__
    return False
