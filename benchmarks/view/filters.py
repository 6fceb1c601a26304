"""Filters of samples: comparisons of columns with numbers and texts, joined by ``and``, ``or``, ``not``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import BenchError, did_you_mean

if TYPE_CHECKING:
    from .samples import RunSamples

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<text>"[^"]*"|'[^']*')
    |(?P<name>[^\W\d](?:[\w.]|-(?=\w))*(?:\[[^\]]*\])?|`[^`]+`)|(?P<sign><=|>=|==|!=|[<>=])|(?P<bracket>[()]))""",
    re.VERBOSE,
)
_SIGNS: Mapping[str, Callable[[Any, float], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
_WORDS = ("and", "or", "not", "contains")
TITLES = {
    "candidate": "Caption", "caption": "Caption", "candidates": "Captions", "references": "References",
    "negatives": "Negatives", "rival_caption": "Nearest rival", "unchanged": "Caption before the change",
}  # fmt: skip
"""Columns of texts, and what pages call them."""
METRICS_DISAGREE, MODELS_DISAGREE = "metrics_disagree", "models_disagree"
DISAGREEMENT = {METRICS_DISAGREE: "disagreement of metrics", MODELS_DISAGREE: "disagreement of models"}
"""Columns that are computed when they are asked for, and what pages call them."""
FLAGS = ("failure", "empty")
"""Names that need no comparison: samples with a failure, and captions that were counted as empty."""
_LONGEST, _DEEPEST = 1_000, 20


ExtraColumns = Mapping[str, Callable[[], np.ndarray]]
"""Columns of numbers that are computed when a filter or an order names them."""


class FilterError(BenchError):
    """A filter cannot be read, or names what a run does not have."""


def column_name(name: str) -> str:
    """Return a column's name as filters have it: in backticks unless it is a plain word."""
    token = _TOKEN.fullmatch(name)
    return name if token and token["name"] and name not in _WORDS else f"`{name}`"


def is_text(query: str) -> bool:
    """Return whether a filter is one text, which is looked for in all columns of texts."""
    token = _TOKEN.fullmatch(query)
    return token is not None and token.lastgroup in ("text", "name") and query not in FLAGS


def select(query: str, samples: RunSamples, extra: ExtraColumns) -> np.ndarray:
    """Return ``[n]`` whether each sample fits a filter.

    Args:
        query: The filter, such as ``cider < 0.1 and (length > 20 or "a dog")``.
        samples: The samples.
        extra: Further columns of numbers: name to what returns ``[n]`` values.

    Raises:
        FilterError: It cannot be read; the message names the place.
    """
    reader = _Reader(query, samples, extra)
    selected = reader.any_of(0)
    if reader.kind:
        raise reader.fault("'and', 'or' or the end")
    return selected


class _Reader:
    """Reads a filter from left to right: ``kind``, ``word`` and ``at`` are those of the next token."""

    def __init__(self, query: str, samples: RunSamples, extra: ExtraColumns) -> None:
        if len(query) > _LONGEST:
            raise FilterError(f"the filter has {len(query):,} characters; at most {_LONGEST:,} are read")
        self._query, self._samples, self._extra = query, samples, extra
        self._numbers = [*samples.sortable, *extra]
        self._end = 0
        self._step()

    def _step(self) -> str:
        """Move to the next token, and return this one."""
        token = getattr(self, "word", "")
        rest = self._query[self._end :]
        self.at = self._end + len(rest) - len(rest.lstrip())
        match = _TOKEN.match(self._query, self._end)
        if match is None and rest.strip():
            self.word = re.findall(r"[\w.-]+|\S", rest)[0]
            raise self.fault("a column, a number or a text in quotation marks")
        self.kind = (match.lastgroup or "") if match else ""
        self.word = match[self.kind] if match else ""
        self._end = match.end() if match else len(self._query)
        return token

    def fault(self, expected: str) -> FilterError:
        """Return the error that something else was expected at this place."""
        actual = f"'{self.word}'" if self.word else "the end"
        hint = f'A text or an id stands in quotation marks: "{self.word}".' if self.word[:1].isalnum() else ""
        return FilterError(
            f"the filter cannot be read at character {self.at + 1}: expected {expected}, found {actual}", hint
        )

    def _takes(self, token: str) -> bool:
        if self.word != token:
            return False
        self._step()
        return True

    def _text(self) -> str:
        return self._step()[1:-1] if self.kind == "text" else self._step().strip("`")

    def any_of(self, depth: int) -> np.ndarray:
        """Read what ``or`` joins."""
        selected = self._all_of(depth)
        while self._takes("or"):
            selected = selected | self._all_of(depth)
        return selected

    def _all_of(self, depth: int) -> np.ndarray:
        selected = self._term(depth)
        while self._takes("and"):
            selected = selected & self._term(depth)
        return selected

    def _term(self, depth: int) -> np.ndarray:
        if depth > _DEEPEST:
            raise self.fault(f"at most {_DEEPEST} levels of brackets")
        if self._takes("not"):
            return ~self._term(depth + 1)
        if self._takes("("):
            selected = self.any_of(depth + 1)
            if not self._takes(")"):
                raise self.fault("')'")
            return selected
        if self.kind == "text":
            return self._samples.containing(self._text())
        if self.kind != "name" or self.word in _WORDS:
            raise self.fault("a column, or a text in quotation marks")
        return self._comparison()

    def _comparison(self) -> np.ndarray:
        at, name = self.at, self._step().strip("`")
        known, called = [*self._numbers, *self._samples.names, *FLAGS], self._samples.called
        # A label of several words.
        while self.kind == "name" and any(label.startswith(f"{name} {self.word}".lower()) for label in called):
            name = f"{name} {self._step()}"
        if name not in known:
            name = called.get(name.lower(), name)
        if self.kind == "sign" and name in self._numbers:
            compare = _SIGNS[self._step()]
            if self.kind != "number":
                raise self.fault(f"a number, as '{name}' holds numbers")
            values = self._extra[name]() if name in self._extra else self._samples.numbers(name)
            return compare(values, float(self._step())) & np.isfinite(values)
        if name in self._samples.names and (self.word in ("=", "==", "!=") or self.word == "contains"):
            sign = self._step()
            if self.kind not in ("text", "name", "number"):
                raise self.fault("a text in quotation marks")
            text = self._text()
            if sign == "contains":
                return self._samples.containing(text, name)
            return self._samples.equal(name, text, differs=sign == "!=")
        if name in FLAGS and self.kind != "sign" and self.word != "contains":
            if name == "empty" and "candidate" not in self._samples.names:
                raise FilterError(f"the filter names 'empty' at character {at + 1}, but the run recorded no captions")
            return self._samples.failed() if name == "failure" else self._samples.empty()
        if name in known:
            signs = "'<', '<=', '>', '>=', '=' or '!='" if name in self._numbers else "'=', '!=' or 'contains'"
            raise self.fault(f"{signs} after '{name}'")
        if self.kind != "sign" and self.word != "contains":
            return self._samples.containing(name)
        raise FilterError(
            f"the filter cannot be read at character {at + 1}: the samples have no column '{name}'."
            f"{did_you_mean(name, [*called, *known])}",
            f'Columns: {", ".join(dict.fromkeys(known))}. A text or an id stands in quotation marks: "{name}".',
        )
