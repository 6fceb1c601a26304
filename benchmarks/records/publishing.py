"""What of a run may be redistributed: no folders of the machine, and scores alone where the data may not be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from ...errors import UsageError

if TYPE_CHECKING:
    from ..inputs.failures import Failure

SampleContent = Literal["full", "scores", "none"]
"""What ``samples.parquet`` holds: all; no texts, ratings or references; or there is none."""

# A path inside of a text ends at the first space; one that is the whole text may hold spaces.
_PART = r"[^\s/\\'\"`,;:()\[\]{}<>|]"
_PATH = re.compile(rf"(?:file://|(?<![\w/.}})\]~-]))(?:/|[A-Za-z]:[\\/])(?:{_PART}+[\\/])+{_PART}*")
_WHOLE = re.compile(r"(?:/[^/\n]+|[A-Za-z]:[\\/])[^\n,;]*")
_QUOTED = re.compile(r"'[^\n]*'|\"[^\n]*\"|`[^\n]*`|(?<=\s)['\"`][^\n]*")


def sample_content(log_samples: bool | str) -> SampleContent:
    """Return the content that ``--log_samples`` selects; True is ``full``, False is ``none``.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(log_samples, bool):
        return "full" if log_samples else "none"
    known = get_args(SampleContent)
    if log_samples not in known:
        raise UsageError(f"log_samples must be {', '.join(known)}, True or False, not {log_samples!r}")
    return cast("SampleContent", log_samples)


def without_folders(value: Any, *, distinct: bool = False) -> Any:
    """Return a JSON value in which the last part stands for every absolute path.

    Args:
        value: The value; keys of mappings are treated like texts.
        distinct: Add a short hash of the whole path, so that two that differ stay different.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        keys = {key: without_folders(key) for key in mapping}
        if len(set(keys.values())) < len(keys):
            keys = {key: without_folders(key, distinct=True) for key in mapping}
        return {keys[key]: without_folders(element, distinct=distinct) for key, element in mapping.items()}
    if isinstance(value, list | tuple):
        return [without_folders(element, distinct=distinct) for element in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value) and _PATH.match(value):
        return _last_part(value, distinct)
    return _PATH.sub(lambda match: _last_part(match[0], distinct), value)


def _last_part(path: str, distinct: bool) -> str:
    known = (PureWindowsPath if re.match("[A-Za-z]:", path) else PurePosixPath)(path)
    return f"{known.name}#{hashlib.sha256(path.encode()).hexdigest()[:8]}" if distinct else known.name


def unquoted(reason: str, stage: str = "") -> str:
    """Return a reason without quotes of the data: the text up to the first colon, without quoted parts.

    Reasons are the only part of a record that may quote the data: a rating that is no number, an unknown object,
    the answer of a judge.

    Args:
        reason: Why something could not be used.
        stage: The step; reasons of step ``metric`` begin with the metric's name, which is kept.
    """
    name, colon, rest = reason.partition(": ") if stage == "metric" else ("", "", reason)
    return f"{name}{colon}{_QUOTED.sub('…', rest.partition(chr(10))[0]).partition(': ')[0]}"


def unquoted_failures(failures: Iterable[Failure]) -> list[Failure]:
    """Return failures with :func:`unquoted` reasons."""
    return [replace(failure, reason=unquoted(failure.reason, failure.stage)) for failure in failures]


def origin_name(origin: str) -> str:
    """Return where documents came from: the names of files for paths, a hub id as it is."""
    parts = re.split(r", (?=/|[A-Za-z]:[\\/])", origin)
    return ", ".join(Path(part).name if Path(part).is_absolute() or Path(part).exists() else part for part in parts)


def unquoted_row(failure: str) -> str:
    """Return a sample's failure, ``STAGE REASON`` or ``metric NAME: REASON; metric NAME: REASON``, unquoted."""
    if not failure.startswith("metric "):
        return unquoted(failure)
    return "; ".join(unquoted(part, "metric") for part in re.split(r"; (?=metric )", failure))
