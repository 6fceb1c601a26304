"""Renders files from templates; values of pages are escaped, unless a template marks them as HTML."""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..text import readable, show_difference, show_interval, show_number

if TYPE_CHECKING:
    import jinja2

    from ...statistics.contract import Interval

_HERE = Path(__file__).parent
_LONGEST_NAME = 150


ASSETS = {file.name: file for file in _HERE.iterdir() if file.suffix in (".css", ".js")}
"""The style sheets and scripts of all pages."""


@cache
def asset(name: str) -> str:
    """Return a style sheet or script by its name in :data:`ASSETS`."""
    return ASSETS[name].read_text(encoding="utf-8").strip()


def embedded(styles: Iterable[str], scripts: Iterable[str] = ()) -> dict[str, Any]:
    """Return template values of a page that embeds style sheets and scripts, and loads nothing: ``policy`` and both."""
    from markupsafe import Markup

    style, *sources = "\n".join(map(asset, styles)), *map(asset, scripts)
    digests = [b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, *sources)]
    of_style, *of_scripts = (f"'sha256-{digest}'" for digest in digests)
    # Without a source none is allowed.
    policy = (
        f"default-src 'none'; style-src {of_style}; script-src {' '.join(of_scripts)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # Only files of capbench, no text of users.
    return {"policy": Markup(policy), "style": Markup(style), "scripts": list(map(Markup, sources))}  # noqa: S704


@cache
def templates(folder: Path, **names: Any) -> jinja2.Environment:
    """Return the jinja2 environment for the templates of a folder.

    Every value is escaped, and is :func:`~..html_text.readable`; a name that a template misspells is an error. The
    filters ``number(decimals)``, ``score``, ``difference(decimals)``, ``ends(scale, decimals)`` are functions below.

    Args:
        folder: Folder of the templates, which may extend ``base.html`` and import macros of ``pieces.html`` from this
            module's folder.
        names: What all of them know by these names.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"number": number, "score": score, "difference": difference, "ends": ends}
    environment.globals.update(names)
    return environment


@cache
def text_templates(folder: Path, **filters: Callable[..., str]) -> jinja2.Environment:
    """Return the jinja2 environment for the templates of files that are no pages: nothing is escaped by itself."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - the output is Markdown, YAML or Python
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment


def page_name(key: str, taken: set[str], identity: str = "") -> str:
    """Return a name of a page, ASCII and without suffix, and add it to those that are taken.

    A name that does not contain the whole key, or would be taken on a case-insensitive disk, has a hash.

    Args:
        key: What the page is of; its parts are separated by ``/``.
        taken: Earlier names, in lower case.
        identity: What is hashed; the key unless given.
    """
    plain = key.replace("/", "--")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip(".-") or "page"
    if name != plain or name.lower() in taken or len(name) > _LONGEST_NAME:
        digest = hashlib.sha256((identity or key).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    taken.add(name.lower())
    return name


def _shown(value: Any) -> Any:
    if type(value) is str:
        # Most are, and pages of thousands of runs have millions.
        return value if value.isascii() else readable(value)
    return value if hasattr(value, "__html__") else readable(value)


def number(value: float | None, decimals: int = 4) -> str:
    """Return a number as tables print it, with a true minus sign; a dash for None."""
    return "–" if value is None else show_number(value, decimals).replace("-", "−")


def score(value: float, decimals: int = 4) -> str:
    """Return a score of a sample: as tables print it, or as ``2e−5`` where that would be 0; a dash if not finite."""
    if 0 < abs(value) < 0.5 / 10**decimals:
        return f"{value:.0e}".replace("e-0", "e-").replace("-", "−")
    return number(value if math.isfinite(value) else None, decimals)


def difference(value: float, decimals: int) -> str:
    """Return a difference as tables print it: with its sign, and a true minus."""
    return show_difference(value, decimals).replace("-", "−")


def ends(interval: Interval | None, scale: float, decimals: int) -> str:
    """Return the ends of an interval as tables print them, with true minus signs; a dash where it has none."""
    return show_interval(interval, scale, decimals, "–").replace("-", "−")
