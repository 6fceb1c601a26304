"""Makes the leaderboard's pages of its templates: each holds its style and scripts, and fetches nothing."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...tables.pages.rendering import asset, templates

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent


def rendered(template: str, **values: Any) -> bytes:
    """Return a page, which runs and fetches nothing but what is written in it.

    Args:
        template: A file of ``templates/``.
        values: What it shows.
    """
    page = _environment().get_template(template).render(values)
    # JSON may hold half of a surrogate pair, which UTF-8 does not.
    return page.encode("utf-8", "replace")


@cache
def _environment() -> jinja2.Environment:
    from markupsafe import Markup

    style, theme, columns = asset("style.css"), asset("theme.js"), asset("columns.js")
    tables = (_HERE / "tables.js").read_text(encoding="utf-8").strip()
    scripts = " ".join(map(_hash, (theme, columns, tables)))
    made = templates(_HERE / "templates")
    made.globals |= {
        "policy": Markup(  # noqa: S704 - no value of a run is in it
            f"default-src 'none'; style-src {_hash(style)}; script-src {scripts}; img-src data:; base-uri 'none'; "
            "form-action 'none'"
        ),
        # Files of capbench, and nobody else's text.
        "style": Markup(style),  # noqa: S704
        "theme": Markup(theme),  # noqa: S704
        "columns_script": Markup(columns),  # noqa: S704
        "tables_script": Markup(tables),  # noqa: S704
    }
    return made


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
