"""A small registry: names to objects, resolved on first use."""

import importlib
import importlib.metadata
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar, cast

from .errors import BenchError, UsageError, did_you_mean

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Names of one kind (metrics, adapters, ...) and the objects behind them.

    A value is an object, or a string ``"module:attribute"`` that is imported on first use of the name.
    Packages that declare an entry point in the registry's group are known by its name.

    Args:
        kind: What the names stand for, in the singular; used in messages (``"metric"``).
        builtin: Names that capbench ships, as ``"module:attribute"``.
        entry_points: Entry point group that third-party packages use.
    """

    def __init__(self, kind: str, builtin: dict[str, str], entry_points: str) -> None:
        self.kind = kind
        self._builtin = builtin
        self._entry_point_group = entry_points

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an object under ``name``.

        Raises:
            UsageError: The name is taken.
        """

        def decorator(target: T) -> T:
            self.add(name, target)
            return target

        return decorator

    def add(self, name: str, target: T | str) -> None:
        """Register ``target`` (an object or ``"module:attribute"``) under ``name``.

        Raises:
            UsageError: The name is taken by something else.
        """
        known = self._entries.get(name)
        # A package may both declare an entry point and decorate the class that it points to.
        declared = known == f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
        if known is not None and known is not target and not declared:
            raise UsageError(
                f"{self.kind} '{name}' is registered already, as {self._entries[name]!r}.",
                "Register yours under another name.",
            )
        self._entries[name] = target

    def __getitem__(self, name: str) -> T:
        """Return the object called ``name``, importing it if need be.

        Raises:
            UsageError: The name is not known, or its module cannot be imported.
        """
        if name not in self._entries:
            raise UsageError(
                f"unknown {self.kind} '{name}'.{did_you_mean(name, self._entries)}",
                f"'bench ls {self.kind}s' lists them; yours is registered in Python, or by an installed package.",
            )
        entry = self._entries[name]
        if isinstance(entry, str):
            entry = self._entries[name] = self._resolve(name, entry)
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def _resolve(self, name: str, target: str) -> T:
        module, _, attribute = target.partition(":")
        try:
            return cast(T, operator.attrgetter(attribute)(importlib.import_module(module)))
        except BenchError:
            raise
        except Exception as error:
            # A package's module may fail in any way when it is imported.
            raise UsageError(
                f"{self.kind} '{name}' cannot be loaded from '{target}': {type(error).__name__}: {error}",
                "Install what the message names, or reinstall the package that declares it.",
            ) from error

    @cached_property
    def _entries(self) -> dict[str, T | str]:
        entries: dict[str, T | str] = dict(self._builtin)
        for point in importlib.metadata.entry_points(group=self._entry_point_group):
            target = f"{point.module}:{point.attr}"
            if entries.setdefault(point.name, target) != target:
                raise UsageError(
                    f"{self.kind} '{point.name}' of {point.dist and point.dist.name} "
                    f"is registered already, as {entries[point.name]!r}.",
                    "Uninstall one of the two packages, or ask its author for another name.",
                )
        return entries
