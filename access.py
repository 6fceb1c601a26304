"""Requests of a file that need permission: servers, variables, folders, functions, remote code."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from .boundary import OUTSIDE, Boundary, exists, links_outside, local_paths
from .errors import UsageError
from .permissions import RUN_HINT, Code, is_installed, permitted, server_of

Kind = Literal["addresses", "variables", "folders", "functions", "remote code"]
_PROSE = frozenset(("choices", "citation", "description", "homepage", "licence", "note", "paper", "source", "terms"))
"""Keys whose values are read by people alone."""
_MODEL_FILES = ("model.yaml", "config.json", "open_clip_config.json", "adapter_config.json")
"""A folder that holds one of them is a model."""
_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".safetensors")
_OF_FILE = re.compile(r"[a-z_]+:(?!//)(.+)")
"""A model of an adapter and its file, such as ``captions:FILE``."""
_ARGUMENT = re.compile(r"\b(\w*key_env|trust_remote_code)[\"']?\s*[=:]\s*[\"']?([\w.-]+)")
"""An argument of a model in a text, as command lines have them."""
_ADDRESSES = re.compile(r"[=:]\s*[\"']?([a-z][a-z0-9+.-]*://[^\s,\]}\"']+)", re.IGNORECASE)
"""The same of addresses."""
HUB = "hub:"
"""Prefix of addresses on the hub, which are always allowed."""
_KINDS: Mapping[Kind, tuple[str, str]] = {
    "addresses": ("the file names a server that is not allowed", "--allow_server {} allows it."),
    "variables": (
        "the file names the environment variable of a key",
        "--model_args api_key_env={} allows it; else the adapter's own variable is read.",
    ),
    "folders": (OUTSIDE, "--allow_outside DIR lets files name those of a folder; do so for files that you trust."),
    "functions": ("is code, which runs only with permission", RUN_HINT),
    "remote code": (
        "the file asks to run code that comes with a model",
        "--trust_remote_code lets it run; do so for models that you trust as your own code.",
    ),
}
"""Each kind to what is wrong with such a request, and the option that allows it."""


@dataclass(frozen=True)
class Request:
    """A server, variable, folder or code that a file asks for.

    Attributes:
        kind: What it is.
        target: The server, variable, path, function or key.
        place: File and line of the request.
        path: Where a path leads.
    """

    kind: Kind
    target: str
    place: str
    path: Path | None = None

    @property
    def is_permitted(self) -> bool:
        """Whether the caller allows it."""
        permissions = permitted()
        if self.kind == "addresses":
            return self.target.startswith(HUB) or permissions.allow_server(self.target)
        if self.path is not None:
            return Boundary.around().holds(self.path)
        return {"functions": permissions.functions, "remote code": permissions.remote_code}.get(self.kind, False)

    @property
    def hint(self) -> str:
        """The option that allows it."""
        return _KINDS[self.kind][1].format(self.target)


def requests_of(
    values: Any, file: Path, where: Callable[..., str], typed: Iterable[tuple[str, ...]] = ()
) -> list[Request]:
    """Return the requests in the values of a file; none of an installed file.

    Args:
        values: What the file holds.
        file: The file; paths inside of its folder are its own.
        where: Returns the place of a path of keys.
        typed: Paths of keys that the user set on the command line.
    """
    if is_installed(file):
        return []
    boundary = Boundary.of(file)
    return [
        request
        for keys, value in _leaves(values, (), frozenset(typed))
        for request in _requests(keys[-1] if keys else "", value, file.parent, boundary, where(*keys))
    ]


def require_permitted(requests: Sequence[Request]) -> None:
    """Raise if a request is not permitted.

    Raises:
        UsageError: A line for each such request; the hint names the options that allow them.
    """
    refused = [request for request in requests if not request.is_permitted]
    if refused:
        faults = dict.fromkeys(f"{request.place}: {request.target}: {_KINDS[request.kind][0]}" for request in refused)
        raise UsageError("\n".join(faults), "\n".join(dict.fromkeys(request.hint for request in refused)))


def request_lines(requests: Sequence[Request]) -> Iterator[tuple[str, str]]:
    """Yield each kind with its requests, those that are not allowed marked."""
    for kind in get_args(Kind):
        asked = dict.fromkeys(
            request.target if request.is_permitted else f"{request.target} (not allowed)"
            for request in requests
            if request.kind == kind
        )
        yield kind, ", ".join(asked) or "nothing"


def _leaves(value: Any, keys: tuple[str, ...], typed: Set[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if keys in typed or (keys and keys[-1] in _PROSE):
        return
    if isinstance(value, Mapping | list | tuple):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(inner, (*keys, str(key)), typed)
    else:
        yield keys, value


def _requests(key: str, value: Any, folder: Path, boundary: Boundary, place: str) -> Iterator[Request]:
    if isinstance(value, Code):
        if not value.is_installed:
            yield Request("functions", str(value), place)
    elif key == "trust_remote_code" and value:
        yield Request("remote code", f"trust_remote_code: {value}", place)
    elif key.endswith("key_env") and value is not None:
        yield Request("variables", str(value), place)
    elif isinstance(value, str):
        yield from _requests_of_text(value, folder, boundary, place)


def linked_outside(folder: Path) -> Iterator[Request]:
    """Yield the links below a folder that lead out of it and are not allowed; none of an installed folder."""
    if not is_installed(folder):
        for path in links_outside(folder):
            yield Request("folders", str(path), "a link", path)


def _requests_of_text(text: str, folder: Path, boundary: Boundary, place: str) -> Iterator[Request]:
    if text.startswith("evaluate:"):
        yield Request("functions", text, place)
    for part in (*text.split("::"), *_ADDRESSES.findall(text)):
        if server := server_of(part):
            yield Request("addresses", server, place)
    for key, value in _ARGUMENT.findall(text):
        yield from _requests(key, yaml.safe_load(value), folder, boundary, place)
    for path in local_paths(text):
        # A model is looked for from where the program runs, too.
        is_model = (path.suffix in _WEIGHTS and exists(path)) or any(exists(path / name) for name in _MODEL_FILES)
        is_of_cwd = len(path.parts) > 1 or is_model
        yield from _outside(path, (folder, Path.cwd()) if is_of_cwd else (folder,), boundary, place)
    if named := _OF_FILE.match(text):
        yield from _outside(Path(named[1]).expanduser(), (folder, Path.cwd()), boundary, place)


def _outside(path: Path, starts: Iterable[Path], boundary: Boundary, place: str) -> Iterator[Request]:
    for start in starts:
        if boundary.leads_outside(path, start) and not is_installed(start / path):
            yield Request("folders", str(path), place, start / path)
            break
