"""Jinja for untrusted templates: they see the document alone, and the size of their output is limited."""

import json
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SOURCE = 20_000
"""Characters of a template."""
MAX_OUTPUT = 1_000_000
"""Characters, elements or bits of what a template makes."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """A name that the document lacks is an error; nothing is escaped; results of ``*`` and ``**`` are limited."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator whose result may be large."""
        size = 0
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            size = left.bit_length() * abs(right)
        elif operator == "*":
            value, times = (left, right) if isinstance(right, int) else (right, left)
            size = len(value) * times if isinstance(value, Sized) and isinstance(times, int) else 0
        if size > MAX_OUTPUT:
            raise ValueError(f"'{operator}' would make more than a template may")
        return super().call_binop(context, operator, left, right)


def compile_source(source: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function of a document that a template stands for; one expression gives its value.

    Raises:
        ValueError: The template is too long.
        Exception: It is not valid Jinja: errors of jinja2 and of Python's compiler.
    """
    if len(source) > MAX_SOURCE:
        raise ValueError(f"it is longer than {MAX_SOURCE:,} characters")
    # Captions are plain text, never HTML: escaping would change what is scored.
    environment = _Sandbox(undefined=jinja2.StrictUndefined, autoescape=False, optimized=False)
    environment.globals.pop("lipsum")
    environment.filters["tojson"] = json.dumps  # jinja2's own escapes HTML
    tree = environment.parse(source)
    if (expression := _only_expression(tree)) is None:
        template = environment.from_string(tree)
        return lambda document: "".join(_bounded(template.generate(document)))
    result = nodes.Name("result", "store", lineno=1)
    valued = environment.from_string(nodes.Template([nodes.Assign(result, expression, lineno=1)], lineno=1))

    def value(document: Mapping[str, Any]) -> Any:
        context = valued.new_context(dict(document))
        for _ in valued.root_render_func(context):
            pass
        return _plain(context.vars["result"])

    return value


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_OUTPUT:
            raise ValueError(f"it makes more than {MAX_OUTPUT:,} characters")
        yield piece


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
        # Raises jinja2's error with the undefined name.
        str(value)
    views = (type({}.keys()), type({}.values()), type({}.items()), range)
    return list(value) if isinstance(value, Iterator) or type(value) in views else value
