"""Style sheets and scripts of applications of pages: those that all share, and those of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .rendering import asset

if TYPE_CHECKING:
    from starlette.routing import Route

_SHARED = ("style.css", "app.css", "theme.js", "columns.js", "token.js")
_TYPES = {".css": "text/css", ".js": "text/javascript"}


@dataclass(frozen=True)
class Assets:
    """The style sheets and scripts of an application.

    Attributes:
        folder: Where its own lie.
        name: What they are called: ``NAME.css`` and ``NAME.js``.
    """

    folder: Path
    name: str

    def text(self, name: str) -> str | None:
        """Return a style sheet or script; None where the application has none of that name."""
        if name in _SHARED:
            return asset(name)
        if name in (f"{self.name}.css", f"{self.name}.js"):
            return (self.folder / name).read_text(encoding="utf-8")
        return None

    def route(self) -> Route:
        """Return what answers for them, below ``/assets``."""
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        def style_or_script(request: Request) -> Response:
            name = Path(request.path_params["name"])
            text = self.text(str(name))
            if text is None:
                return Response("there is no such file", 404, media_type="text/plain")
            kept = {"cache-control": "private, max-age=600"}
            return Response(text, media_type=_TYPES[name.suffix], headers=kept)

        return Route("/assets/{name}", style_or_script)
