"""Turns ``doc_to_*`` keys into functions of a document."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from ..errors import TaskError, did_you_mean
from .schema import TaskConfig, Template
from .yaml_files import FunctionReference

Document = Mapping[str, Any]
Getter = Callable[[Document], Any]


class DocumentError(Exception):
    """A document lacks what a template asks for; the message is the reason."""


def compile_template(task: TaskConfig, key: str, columns: Collection[str]) -> Getter:
    """Return the function that a ``doc_to_*`` key stands for.

    A name of a column gives the column; text with ``{{`` or ``{%`` is Jinja over the columns, which gives a
    text, or where it is one expression (``{{ refs[:5] }}``) the value of that; a ``!function`` is called with
    the document; ``doc_to_text`` may be plain text. A list gives a list, a mapping of names a mapping.

    Args:
        task: The task.
        key: Which key (``"doc_to_text"``); the task gives it.
        columns: The columns that documents have.

    Returns:
        A function of a document; it raises ``DocumentError`` where the document lacks a column.

    Raises:
        TaskError: Not a column, or not valid Jinja.
    """
    template = task.templates[key]
    if isinstance(template, list):
        getters = [_compile(task, key, element, columns) for element in template]
        return lambda document: [get(document) for get in getters]
    if isinstance(template, dict):
        named = {name: _compile(task, key, element, columns) for name, element in template.items()}
        return lambda document: {name: get(document) for name, get in named.items()}
    return _compile(task, key, template, columns)


def _compile(task: TaskConfig, key: str, template: Template, columns: Collection[str]) -> Getter:
    if isinstance(template, FunctionReference):
        return partial(_called, template.resolve(), f"{key} ({template})")
    if template in columns:
        return partial(_column, template)
    if "{{" in template or "{%" in template:
        return _compile_jinja(task, key, template)
    if key == "doc_to_text":
        return lambda document: template
    raise TaskError(
        f"task '{task.task}': {key}: documents have no column '{template}'.{did_you_mean(template, columns)}",
        f"Columns: {', '.join(sorted(columns))}. Jinja, such as '{{{{column}}}}', and !function work too.",
    )


def _called(function: Getter, name: str, document: Document) -> Any:
    try:
        return function(document)
    except Exception as error:
        raise DocumentError(f"{name} failed: {type(error).__name__}: {error}") from error


def _column(name: str, document: Document) -> Any:
    try:
        return document[name]
    except KeyError:
        raise DocumentError(f"has no column '{name}'") from None


def _compile_jinja(task: TaskConfig, key: str, source: str) -> Getter:
    from .jinja_sandbox import compile_source

    try:
        value_of = compile_source(source)
    except Exception as error:
        # Errors of jinja2 and of Python's compiler: RecursionError, SyntaxError, MemoryError.
        raise TaskError(f"task '{task.task}': {key}: not valid Jinja: {error}") from error

    def render(document: Document) -> Any:
        try:
            value = value_of(document)
        except Exception as error:
            # Errors of jinja2 and of the expressions: {{ 1 / number }}, {{ text + 1 }}.
            raise DocumentError(f"{key} cannot be rendered: {error}") from error
        # An image that is called by its number has a name, as in "{{number}}.jpg".
        return str(value) if key == "doc_to_image" and isinstance(value, int) else value

    return render
