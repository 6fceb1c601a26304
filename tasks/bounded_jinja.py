"""Jinja for templates that somebody else wrote: they see the document alone, and always come to an end.

Steps are counted and sizes are summed while a template is rendered; what would go beyond the budget is not
begun. A document's template needs a thousandth of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_SOURCE = 20_000
"""Characters of a template."""
MAX_WORK = 1_000_000
"""What one rendering may use: characters and elements of all values that it makes, and ``_STEP`` for a step."""
_STEP = 10
_MAX_BITS = 10_000
_GROWING = frozenset(
    (
        "batch", "center", "expandtabs", "indent", "join", "ljust", "replace", "rjust", "round", "slice",
        "to_bytes", "tojson", "translate", "wordwrap", "zfill",
    )
)  # fmt: skip
"""Filters and methods whose result may be larger than what they are given, by as much as an argument says."""
_COUNTED = "counted steps"
_LARGE_FIELD = re.compile(r"\d{5}|\*|\{[^{}]*\{")
"""In a text that is a format: a width of five digits, or one that is an argument."""


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """An environment for one template. A name that the document lacks is an error; nothing is escaped."""

    # What is here is made by a method that counts, and not while the template is compiled, either.
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        # Captions are plain text, never HTML: escaping would change what is scored.
        super().__init__(
            undefined=jinja2.StrictUndefined, autoescape=False, optimized=False, finalize=_count_output
        )
        self._work = 0
        self._cost_of_step = _STEP
        self.globals.pop("lipsum")
        self.filters = {name: self._bounded(name, one) for name, one in self.filters.items()}
        self.filters[_COUNTED] = self._counted

    def compile_bounded(self, source: str) -> Callable[[Mapping[str, Any]], Any]:
        """Return the function of a document that a template stands for; one expression gives its value.

        Raises:
            ValueError: The template is too long.
            Exception: It is not valid Jinja; besides jinja2's own errors those of Python's compiler.
        """
        if len(source) > MAX_SOURCE:
            raise ValueError(f"it is longer than {MAX_SOURCE:,} characters")
        self._cost_of_step = _STEP * (1 + len(source) // 1000)
        tree = _Counting().visit(self.parse(source))
        expression = _only_expression(tree)
        if expression is None:
            template = self.from_string(tree)

            def render(document: Mapping[str, Any]) -> Any:
                self._work = 0
                return template.render(document)

            return render
        result = nodes.Name("result", "store", lineno=1)
        valued = self.from_string(nodes.Template([nodes.Assign(result, expression, lineno=1)], lineno=1))

        def value(document: Mapping[str, Any]) -> Any:
            self._work = 0
            context = valued.new_context(dict(document))
            for _ in valued.root_render_func(context):
                pass
            return _plain(context.vars["result"])

        return value

    def use(self, work: int) -> None:
        """Take from the budget of this rendering.

        Raises:
            RuntimeError: It is used up.
        """
        self._work += work
        if self._work > MAX_WORK:
            raise RuntimeError("it makes more, or goes on for longer, than a template may")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Carry out an operator whose result may be large."""
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "%" and isinstance(left, str | bytes):
            self._use_format(left)
        elif operator == "**" and whole:
            self._use_bits(left.bit_length() * abs(right))
        elif whole:
            self._use_bits(left.bit_length() + right.bit_length())
        elif operator == "*":
            repeated, times = (left, right) if isinstance(right, int) else (right, left)
            self.use(_size(repeated) * abs(times) if isinstance(times, int) else 0)
        else:
            self.use(_size(left) + _size(right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as jinja2 has it
        """Call a function, macro or method."""
        __self.use(__self._cost_of_step)
        method = getattr(__obj, "__wrapped__", __obj)
        __self._use_growth(
            getattr(method, "__name__", ""), getattr(method, "__self__", ""), args, kwargs.values()
        )
        return super().call(__context, __obj, *args, **kwargs)

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # A filter that is handed the environment or the context has it first.
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            before, (value, *others) = args[:skipped], args[skipped:]
            if isinstance(value, Iterator):
                value = list(value)
            self.use(_STEP)
            self._use_growth(name, value, others, kwargs.values())
            return function(*before, value, *others, **kwargs)

        return bounded

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.use(self._cost_of_step)
            yield value

    def _use_growth(self, name: str, value: Any, args: Iterable[Any], named: Iterable[Any]) -> None:
        if name in ("format", "format_map"):
            self._use_format(value)
        elif name in _GROWING:
            widths = [abs(one) if isinstance(one, int) else _size(one) for one in (*args, *named)]
            self.use((1 + _size(value)) * (1 + max(widths, default=0)))

    def _use_format(self, text: Any) -> None:
        if _LARGE_FIELD.search(text if isinstance(text, str) else str(text)):
            raise RuntimeError("a width in its format has more than four digits, or is not written out")

    def _use_bits(self, bits: int) -> None:
        if bits > _MAX_BITS:
            raise RuntimeError("a number that it makes is too large")


@jinja2.pass_context
def _count_output(context: Any, value: Any) -> Any:
    context.environment.use(_size(value))
    return value


class _Counting(NodeTransformer):
    """Has every step of a loop counted, and texts that are put together with ``~`` summed."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - named for the node
        if node.recursive:
            raise jinja2.TemplateSyntaxError("a loop may not be recursive", node.lineno)
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, _COUNTED, [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(
            nodes.List(node.nodes, lineno=node.lineno), "join", [], [], None, None, lineno=node.lineno
        )


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Return the expression that a template consists of; None if there is more to it."""
    if len(tree.body) != 1 or not isinstance(output := tree.body[0], nodes.Output):
        return None
    if len(output.nodes) != 1 or isinstance(expression := output.nodes[0], nodes.TemplateData):
        return None
    return expression


def _plain(value: Any) -> Any:
    """Return a value of an expression for those who know no Jinja."""
    if isinstance(value, jinja2.Undefined):
        # Its own way to say what is undefined.
        str(value)
    if isinstance(value, Iterator) or type(value) in (
        type({}.keys()),
        type({}.values()),
        type({}.items()),
        range,
    ):
        return list(value)
    return value


def _size(value: Any) -> int:
    """Return about how many characters a value has."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_size(key) + _size(one) + 1 for key, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(_size(one) + 1 for one in value)
    return value.bit_length() // 3 + 1 if isinstance(value, int) else 20
