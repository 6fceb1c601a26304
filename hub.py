"""The Hugging Face hub: the commit that a name stands for, why it refuses, and its cache where it does not answer."""

import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from .errors import DataError

Kind = Literal["model", "dataset"]

_REMEMBERED_SECONDS = 60
_SILENT: dict[tuple[str, str], tuple[float, str]] = {}
"""Address of a hub, and a repository or none for all, to the time of a request that failed, and why."""
_COMMITS: dict[tuple[str, str, Kind, str, str], str] = {}
"""Address, cache, kind, repository and revision to the commit that this process loads, even if the branch moves."""
_MAIN = "main"
_COMMIT = re.compile("[0-9a-f]{40}")
_CONVERSION = "DISABLE_SAFETENSORS_CONVERSION"

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


def unreachable(name: str = "") -> str:
    """Return why nothing can be had from the hub; empty where nothing is known against it. No request is sent.

    Args:
        name: A repository, of which the last request may have failed while others did not.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    failed = (_SILENT.get((constants.ENDPOINT, key), (-math.inf, "")) for key in ("", name))
    return next((reason for since, reason in failed if time.monotonic() - since < _REMEMBERED_SECONDS), "")


def commit_of(name: str, revision: str | None = None, kind: Kind = "model") -> str:
    """Return the commit that a branch or tag stands for.

    The hub is asked once a process, so that all parts are of one commit. Where it does not answer, its cache on
    this machine tells which commit was loaded last.

    Args:
        name: Owner and repository.
        revision: Branch, tag or commit; ``main`` by default.
        kind: What the repository holds.

    Raises:
        NotInCache: The hub does not answer, and its cache does not know the revision.
        Exception: The hub refuses, as its library says it; :func:`refusal` explains it.
    """
    from huggingface_hub import constants

    revision = revision or _MAIN
    key = constants.ENDPOINT, constants.HF_HUB_CACHE, kind, name, revision
    if key in _COMMITS:
        return _COMMITS[key]
    commit = None if unreachable(name) or asks_nobody() else _asked(name, revision, kind)
    commit = commit or _cached_commit(name, revision, kind)
    if commit is None and (reason := unreachable(name)):
        raise NotInCache(_not_in_cache(reason, revision))
    if commit is None:
        # A command that asks nobody takes it that the hub has what this machine lacks.
        return revision
    return _COMMITS.setdefault(key, commit)


def _asked(name: str, revision: str, kind: Kind) -> str | None:
    """Return the commit of a revision as the hub tells it; None where it does not answer, which is remembered."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    endpoint = constants.ENDPOINT
    try:
        info = HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        if info.gated:
            # Anyone is told of it; who may have its files is another question.
            HfApi().auth_check(name, repo_type=kind)
        return info.sha
    except HfHubHTTPError as error:
        if not _is_passing(error.response.status_code):
            raise
        _SILENT[endpoint, name] = time.monotonic(), _status(error.response)
    except ValueError:
        # It is not the name of a repository.
        raise
    except Exception as error:  # noqa: BLE001 - what it raises depends on its version
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        # A hub that is slow with one repository may have the others at hand.
        alone = name if "ReadTimeout" in type(error).__name__ else ""
        _SILENT[endpoint, alone] = time.monotonic(), f"{endpoint} does not answer: {said}"
    return None


def _is_passing(status: int) -> bool:
    return status == 429 or status >= 500


def _status(answer: Any) -> str:
    from huggingface_hub import constants

    wait = answer.headers.get("Retry-After", "")
    later = f", to be asked again after {wait} s" if wait.isdecimal() else ""
    return f"{constants.ENDPOINT} answered {answer.status_code} {answer.reason_phrase}{later}"


def refusal(error: BaseException | None) -> tuple[str, str] | None:
    """Return why the hub refused, and what to do; None for an error that is no answer of the hub.

    Args:
        error: What a library of the hub raised, or what was raised because of it.
    """
    from huggingface_hub import constants, get_token
    from huggingface_hub.errors import HfHubHTTPError

    while error is not None and not isinstance(error, HfHubHTTPError):
        if type(error).__name__ == "RemoteProtocolError":
            broken = f"the download from {constants.ENDPOINT} broke off: {error}"
            return broken, "Run the same command again: it goes on from there."
        error = error.__cause__ or error.__context__
    if not isinstance(error, HfHubHTTPError):
        return None
    answer, has_token = error.response, bool(get_token())
    status, code = answer.status_code, answer.headers.get("X-Error-Code")
    path = answer.request.url.path.removeprefix("/api").removeprefix("/models")
    page = constants.ENDPOINT + "/".join(path.split("/")[: 4 if path.startswith("/datasets/") else 3])
    log_in = "Log in ('hf auth login') or set HF_TOKEN"
    if code == "GatedRepo":
        whose = "your token has no access" if has_token else "you are not logged in"
        then = " with the account of your token" if has_token else f". {log_in}"
        return f"it is gated, and {whose}", f"Accept its terms at {page}{then}."
    if code == "RepoNotFound":
        return f"{constants.ENDPOINT} has no such repository", f"Check its name. For a private one: {log_in}."
    if code == "RevisionNotFound":
        revision = re.search("/(?:revision|resolve|tree)/([^/]+)", path)
        said = f"revision '{unquote(revision[1])}'" if revision else "such revision"
        return f"{page} has no {said}", "Name a branch, tag or commit of it."
    if status == 401:
        asks = "does not know your token" if has_token else "asks for a token"
        return f"{constants.ENDPOINT} {asks} (401)", f"{log_in}."
    if status == 403:
        return "your token has no access to it (403)", f"{log_in}, with a token that may read {page}."
    return (_status(answer), "Run the same command again later.") if _is_passing(status) else None


def upload(repository: str, kind: Kind, files: Mapping[str, Path | bytes], private: bool, message: str) -> str:
    """Commit files to a repository, which is made if it does not exist, and return the address of the commit.

    The token is that of ``hf auth login`` or ``HF_TOKEN``.

    Args:
        repository: ``OWNER/NAME``.
        kind: What it holds.
        files: Path in the repository to a file or a content.
        private: Whether a new repository is private; does not affect an existing one.
        message: Of the commit.

    Raises:
        DataError: There is no token, or the hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token

    if get_token() is None:
        raise DataError(
            f"{repository}: no token of the Hugging Face hub was found",
            "Run 'hf auth login', or set HF_TOKEN to a token that may write.",
        )
    try:
        api = HfApi()
        api.create_repo(repository, repo_type=kind, private=private, exist_ok=True)
        operations = [CommitOperationAdd(path, content) for path, content in files.items()]
        commit = api.create_commit(repository, operations, repo_type=kind, commit_message=message)
    except Exception as error:
        # The client has no common base class for its errors: refusals, timeouts, offline mode, invalid names.
        raise DataError(
            f"{repository}: {type(error).__name__}: {error}",
            "Check that the hub is reachable (HF_ENDPOINT, HF_HUB_OFFLINE) and that the token may write.",
        ) from error
    return str(commit.commit_url)


def repository_folder(name: str, kind: Kind) -> Path:
    """Return where the hub's cache keeps a repository."""
    from huggingface_hub import constants

    # As its library names it, which refuses names that are none of a repository.
    return Path(constants.HF_HUB_CACHE, f"{kind}s--{name.replace('/', '--')}")


def _cached_commit(name: str, revision: str, kind: Kind) -> str | None:
    """Return the commit of a revision that the hub's cache holds, or None."""
    folder = repository_folder(name, kind)
    if _COMMIT.fullmatch(revision):
        return revision if (folder / "snapshots" / revision).is_dir() else None
    ref = folder / "refs" / revision
    return ref.read_text(encoding="utf-8").strip() if ref.is_file() else None


def keep_commit(name: str, commit: str, kind: Kind = "model", is_whole: bool = True) -> None:
    """Note in the hub's cache what a branch stands for, as the libraries do not that are asked for a commit.

    Where the hub does not answer later, this is what is loaded.

    Args:
        name: Owner and repository.
        commit: The commit.
        kind: What the repository holds.
        is_whole: Whether all of it that is needed lies there. A part does not replace what was noted before.
    """
    folder = repository_folder(name, kind)
    for (_, _, *known, revision), of_revision in _COMMITS.items():
        ref = folder / "refs" / revision
        is_its_own = [*known, of_revision] == [kind, name, commit] and not _COMMIT.fullmatch(revision)
        if is_its_own and (folder / "snapshots" / commit).is_dir() and (is_whole or not ref.exists()):
            # A cache that others share may not be written to.
            with suppress(OSError):
                ref.parent.mkdir(parents=True, exist_ok=True)
                ref.write_text(commit, encoding="utf-8")


def _not_in_cache(reason: str, revision: str = _MAIN) -> str:
    subject = "it" if revision == _MAIN else f"its revision {revision}"
    return f"{subject} is not in the hub's cache, and {reason}"


@contextmanager
def asked_once(name: str) -> Iterator[None]:
    """Load something of a repository: from the hub's cache alone where it did not answer :func:`commit_of`.

    Its libraries would ask six times, 23 seconds long, for each file. Nor does transformers ask for a conversion of the
    weights to safetensors, which nothing here waits for.

    Args:
        name: What is loaded. A folder on this machine needs no request.

    Raises:
        NotInCache: The hub does not answer, and the model or data set is not in the cache.
    """
    if Path(name).is_dir():
        yield
        return
    reason = unreachable(name) or ("this command fetches nothing" if asks_nobody() else "")
    try:
        with _offline() if reason else nullcontext(), _without_conversion():
            yield
    except Exception as error:
        if reason and _is_for_want_of_the_hub(error):
            raise NotInCache(_not_in_cache(reason)) from error
        raise


@contextmanager
def _without_conversion() -> Iterator[None]:
    before = os.environ.get(_CONVERSION)
    os.environ[_CONVERSION] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CONVERSION]
        else:
            os.environ[_CONVERSION] = before


@contextmanager
def _offline() -> Iterator[None]:
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    copied: bool = getattr(sys.modules.get("datasets.config"), "HF_HUB_OFFLINE", before)

    def set_offline(hub: bool, of_datasets: bool) -> None:
        constants.HF_HUB_OFFLINE = hub
        # The library of data sets copies the setting when it is imported, which may be in here.
        if config := sys.modules.get("datasets.config"):
            config.HF_HUB_OFFLINE = of_datasets  # pyrefly: ignore[missing-attribute]

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
