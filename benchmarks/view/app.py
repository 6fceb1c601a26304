"""The pages as a web application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import BenchError
from .pages import ASSETS, Pages
from .sample_pages import picture
from .site import Site
from .state import NoSuchPageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


def application(site: Site) -> Starlette:
    """Return the application of a site.

    Args:
        site: What its pages are made with.
    """
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    pages = Pages(site)

    def page(request: Request) -> Response:
        status = 200
        try:
            text = pages.page(request.scope["path"], request.query_params)
        except BenchError as error:
            status = 404 if isinstance(error, NoSuchPageError) else 500
            heading = "No such page" if status == 404 else "This cannot be shown"
            text = site.render("message.html", heading=heading, message=error.message, hint=error.hint)
        # JSON may hold half of a surrogate pair, which UTF-8 does not.
        return Response(text.encode("utf-8", "replace"), status, media_type="text/html")

    def image(request: Request) -> Response:
        try:
            found = picture(site, request.path_params["key"], request.path_params["sample"])
        except BenchError as error:
            return Response(error.message.encode("utf-8", "replace"), 404, media_type="text/plain")
        kept = {"cache-control": "private, max-age=600"}
        return Response(found.content, media_type=found.media_type, headers=kept)

    return Starlette(
        routes=[ASSETS.route(), Route("/runs/{key}/pictures/{sample}", image), Route("/{path:path}", page)]
    )
