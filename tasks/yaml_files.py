"""Reads task files: YAML with ``include`` and ``!function``, remembering the line of every key."""

import hashlib
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from ..boundary import HINT, OUTSIDE, Boundary
from ..errors import CodeError, TaskError, did_you_mean
from ..paths import is_file
from ..permissions import PACKAGE_ROOT, RUN_HINT, Code, is_installed, may_run

Place = tuple[Path, int]
State = tuple[int, int] | None
"""Size and time of a file; None where they do not tell whether it has changed."""

MAX_BYTES = 1_000_000
"""Of a task file."""
MAX_DEPTH = 40
"""Of mappings and lists in each other."""
MAX_NODES = 10_000
"""Keys and values of a file, those that an alias repeats among them."""
_SETTLED_NS = 2_000_000_000
"""After which a file that changes has another time on any file system."""
_SHORT = 1_000
"""Characters in which no stack overflows and no memory fills, unless by aliases."""
_MAX_INCLUDES = 40
"""Files of which each includes the next."""


@dataclass(frozen=True)
class FunctionReference(Code):
    """A ``!function module.name`` of a task file; the module is imported when it is resolved."""

    reference: str
    folder: Path

    def __str__(self) -> str:
        return f"!function {self.reference}"

    @property
    def function(self) -> str:
        """The function's own name."""
        return self.reference.rpartition(".")[2]

    @property
    def file(self) -> Path | None:
        """The Python file in the YAML file's folder that holds the function, if there is one."""
        file = self.folder / (self.reference.rpartition(".")[0].replace(".", "/") + ".py")
        return file if is_file(file) else None

    @property
    def may_run(self) -> bool:
        """Whether the function may run now: the user allows it, or it is installed."""
        return may_run(self.folder)

    @property
    def is_installed(self) -> bool:
        """Whether the file that names the function is part of what is installed."""
        return is_installed(self.folder)

    def resolve(self) -> Callable[..., Any]:
        """Import the module and return the function.

        Raises:
            CodeError: The function may not run.
            TaskError: The module or the function cannot be had.
        """
        if not self.may_run:
            raise CodeError(
                f"{self}: is code that a file in {display_path(self.folder)} names, and does not run by itself",
                RUN_HINT,
            )
        module_name, _, name = self.reference.rpartition(".")
        file = self.file
        try:
            module = _import_file(file) if file else importlib.import_module(module_name)
        except Exception as error:
            looked = file or f"looked for {module_name}.py in {self.folder}, then for an installed module"
            raise TaskError(
                f"{self}: cannot import '{module_name}' ({looked}): {type(error).__name__}: {error}"
            ) from error
        if not callable(function := getattr(module, name, None)):
            raise TaskError(f"{self}: {file or module_name} has no function '{name}'.{did_you_mean(name, dir(module))}")
        return function

    def fingerprint(self) -> str:
        """Return the reference with a hash of the file that it points into."""
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()[:16] if self.file else "installed"
        return f"{self.reference}@{digest}"


@dataclass(frozen=True)
class ParsedFile:
    """A task file with everything that it includes.

    Attributes:
        path: The file itself.
        values: Its keys, those of included files merged in (later wins, its own keys last).
        places: Path of keys (``("protocol", "raters")``) to the file and line where it stands.
        states: What the file and each that it includes were when they were read.
        changed: Path of keys to the option that set it, such as ``--set seed=1``.
    """

    path: Path
    values: dict[str, Any]
    places: dict[tuple[str, ...], Place]
    states: dict[Path, State]
    changed: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    @property
    def is_current(self) -> bool:
        """Whether the file, and each that it includes, is what it was when it was read."""
        return all(state is not None and state_of(path) == state for path, state in self.states.items())

    def where(self, *keys: str) -> str:
        """Return ``file:line`` of a key, or of its nearest parent that has a place; the option where one set it."""
        for end in range(len(keys), 0, -1):
            path = tuple(map(str, keys[:end]))
            if option := self.changed.get(path):
                return option
            if place := self.places.get(path):
                return f"{display_path(place[0])}:{place[1]}"
        return display_path(self.path)


def state_of(path: Path) -> State:
    """Return the state of a file, which a change alters; None if it is too new for that, or missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    # Within a tick of the file system's clock a file may change and keep its time.
    is_settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    return (status.st_size, status.st_mtime_ns) if is_settled else None


def display_path(path: Path) -> str:
    """Return a path as a reader of messages knows it: relative to the package or working folder."""
    for root in (PACKAGE_ROOT, Path.cwd()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)


def parse(
    path: Path,
    known: dict[Path, ParsedFile] | None = None,
    named: Mapping[str, Path] = MappingProxyType({}),
    _including: tuple[Path, ...] = (),
) -> ParsedFile:
    """Read a YAML file and, recursively, the files that it includes. No code of it is run.

    Args:
        path: The file.
        known: Files that were read before; those that are read now are added.
        named: Files that may be included by name, from any folder.

    Raises:
        TaskError: Not readable, not YAML, larger or nested deeper than a task file may be, a key given twice, or
            files that include each other.
    """
    path = path.expanduser().resolve()
    known = {} if known is None else known
    around = Boundary.around(_including[0] if _including else path)
    # What another root may include, this one may not: it is read again, and refused where it is included.
    if path in known and all(around.holds(file) or is_installed(file) for file in known[path].states if file != path):
        return known[path]
    if path in _including:
        chain = " -> ".join(display_path(p) for p in (*_including[_including.index(path) :], path))
        raise TaskError(f"{display_path(path)}: files include each other: {chain}")
    if len(_including) > _MAX_INCLUDES:
        raise TaskError(f"{display_path(path)}: is the end of a chain of more than {_MAX_INCLUDES} includes")
    states = {path: state_of(path)}
    own, places = _load(path)
    values: dict[str, Any] = {}
    merged: dict[tuple[str, ...], Place] = {}
    includes = own.get("include", [])
    for include in includes if isinstance(includes, list) else [includes]:
        if not isinstance(include, str) or not is_file(target := named.get(include, path.parent / include)):
            where = f"{display_path(path)}:{places[('include',)][1]}"
            if isinstance(include, str):
                nearest = did_you_mean(include, named)
                raise TaskError(
                    f"{where}: included file '{include}' is not in {path.parent}{nearest and f'.{nearest}'}"
                )
            raise TaskError(f"{where}: include: expected a file or a list of files, found {include!r}")
        if not (around.holds(target) or is_installed(target)):
            where = f"{display_path(path)}:{places[('include',)][1]}"
            raise TaskError(f"{where}: include: {include} {OUTSIDE}", HINT)
        included = parse(target, known, named, (*_including, path))
        merged = _without(merged, included.values) | included.places
        values |= included.values
        states |= included.states
    values |= {key: value for key, value in own.items() if key != "include"}
    known[path] = ParsedFile(path, values, _without(merged, own) | places, states)
    return known[path]


def _without(places: dict[tuple[str, ...], Place], keys: Iterable[Any]) -> dict[tuple[str, ...], Place]:
    """Return the places without those of keys that another file sets anew."""
    replaced = {str(key) for key in keys}
    return {place: where for place, where in places.items() if place[0] not in replaced}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    path: Path

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # To YAML 1.1 'on' is a truth value, as 'yes' and 'no' are; as a key it is a word.
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:bool":
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def _construct_function(loader: _Loader, node: yaml.ScalarNode) -> FunctionReference:
    reference = str(loader.construct_scalar(node))
    if "." not in reference or not all(part.isidentifier() for part in reference.split(".")):
        raise TaskError(
            f"{display_path(loader.path)}:{node.start_mark.line + 1}: "
            f"expected '!function module.name', found '!function {reference}'"
        )
    return FunctionReference(reference, loader.path.parent)


_Loader.add_constructor("!function", _construct_function)
# A version such as 2026-01-31 stays text: records are JSON, which has no dates.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_scalar)


def _load(path: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], Place]]:
    try:
        text = _read(path)
        if len(text) > _SHORT or "&" in text:
            _check_budget(text, path)
        loader = _Loader(text)
        loader.path = path
        node = loader.get_single_node()
        places: dict[tuple[str, ...], Place] = {}
        if isinstance(node, yaml.MappingNode):
            _collect_places(node, (), path, places)
        values = loader.construct_document(node) if node else None
    except OSError as error:
        raise TaskError(f"{display_path(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{display_path(path)}: is not UTF-8: {error}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TaskError(f"{display_path(path)}:{line}: not valid YAML: {error.problem}") from error
    except RecursionError as error:
        raise TaskError(f"{display_path(path)}: is nested more than {MAX_DEPTH} deep") from error
    except (yaml.YAMLError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        # The library's own errors have no line; of a value that is none of its tag Python's errors come through.
        raise TaskError(f"{display_path(path)}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise TaskError(f"{display_path(path)}:1: expected a mapping of keys, found {type(values).__name__}")
    return values, places


def _read(path: Path) -> str:
    if path.exists() and not is_file(path):
        raise TaskError(f"{display_path(path)}: cannot be read: is not a file")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise TaskError(f"{display_path(path)}: is larger than {MAX_BYTES:,} bytes, and no task file")
    return content.decode("utf-8")


def _check_budget(text: str, path: Path) -> None:
    """Raise if a text is nested too deep, or would be too large once its aliases stand for what they name.

    The parser's events are counted: to load the text first would take the memory and the stack that are at stake.
    """
    sizes: dict[str, int | None] = {}
    """Nodes behind an anchor; None while what it names is not at its end."""
    open_nodes: list[tuple[str | None, int]] = []
    """Anchor of each list and mapping that is not at its end, and how many nodes came before it."""
    nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(anchor, 0)  # pyrefly: ignore[no-matching-overload]
            if size is None:
                raise TaskError(f"{_place(path, event)}: alias '*{event.anchor}' contains itself")
            nodes += size
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes |= {anchor: nodes - before} if anchor else {}
            continue
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
        if anchor and not isinstance(event, yaml.AliasEvent):
            sizes[anchor] = 1 if isinstance(event, yaml.ScalarEvent) else None
        if len(open_nodes) > MAX_DEPTH:
            raise TaskError(f"{_place(path, event)}: is nested more than {MAX_DEPTH} deep")
        if nodes > MAX_NODES:
            raise TaskError(
                f"{_place(path, event)}: has more than {MAX_NODES:,} keys and values, its aliases among them"
            )


def _place(path: Path, event: yaml.Event) -> str:
    return f"{display_path(path)}:{event.start_mark.line + 1}"  # pyrefly: ignore[missing-attribute]


def _collect_places(
    node: yaml.MappingNode, prefix: tuple[str, ...], path: Path, places: dict[tuple[str, ...], Place]
) -> None:
    for key, value in node.value:
        keys = (*prefix, str(key.value))
        line = key.start_mark.line + 1
        if keys in places:
            first = places[keys][1]
            raise TaskError(f"{display_path(path)}:{line}: key '{key.value}' is given twice, first in line {first}")
        places[keys] = (path, line)
        if isinstance(value, yaml.MappingNode):
            _collect_places(value, keys, path, places)
        elif isinstance(value, yaml.SequenceNode):
            for index, element in enumerate(value.value):
                places[(*keys, str(index))] = (path, element.start_mark.line + 1)
                if isinstance(element, yaml.MappingNode):
                    _collect_places(element, (*keys, str(index)), path, places)


def _import_file(file: Path) -> Any:
    file = file.resolve()
    if file.is_relative_to(PACKAGE_ROOT):
        parts = file.relative_to(PACKAGE_ROOT).with_suffix("").parts
        # A virtual environment within the repository (.venv/lib/python3.11/...) is not part of the package.
        if all(part.isidentifier() for part in parts):
            return importlib.import_module(".".join(("capbench", *parts)))
    name = f"capbench_user_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is not a Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
