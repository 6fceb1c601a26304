"""The pages as a web application."""

from collections.abc import Mapping
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...errors import BenchError
from ..inputs.task_images import NoPicture, Picture
from ..tables.pages.serving import assets
from .compare_pages import compare_page
from .exporting import exported
from .sample_list import samples_page
from .sample_pages import picture, sample_page, scatter_page
from .site import NoSuchPageError, Site, about_page, index_page, run_page, suite_page, suites_page

NOTHING = Picture(
    b'<svg xmlns="http://www.w3.org/2000/svg" width="220" height="120" viewBox="0 0 220 120"><rect width="220" '
    b'height="120" fill="#777" fill-opacity=".15"/><text x="110" y="65" text-anchor="middle" fill="#808080" '
    b'font-family="sans-serif" font-size="14">No image here</text></svg>',
    "image/svg+xml",
)
"""Where there is no image."""


def application(site: Site) -> Starlette:
    """Return the web application.

    Args:
        site: Renders its pages.
    """

    def page(request: Request) -> Response:
        status, content = shown_page(site, request.scope["path"], request.query_params)
        return Response(content, status, media_type="text/html")

    def image(request: Request) -> Response:
        try:
            image = picture(site, request.path_params["key"], request.path_params["sample"])
        except BenchError as error:
            return Response(error.message.encode("utf-8", "replace"), 404, media_type="text/plain")
        kept = {"cache-control": "private, max-age=600"}
        image = NOTHING if isinstance(image, NoPicture) else image
        return Response(image.content, media_type=image.media_type, headers=kept)

    return Starlette(routes=[assets(), Route("/runs/{key}/pictures/{sample}", image), Route("/{path:path}", page)])


def shown_page(site: Site, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
    """Return the HTTP status and the HTML of a page, or of the reason why there is none.

    Args:
        site: Renders its pages.
        path: Path of the URL.
        query: Query parameters of the URL.
    """
    status = 200
    try:
        text = _page(site, path, query)
    except BenchError as error:
        status = 404 if isinstance(error, NoSuchPageError) else 500
        heading = "No such page" if status == 404 else "This cannot be shown"
        text = site.render("message.html", heading=heading, message=error.message, hint=error.hint)
    # JSON may contain unpaired surrogates, which UTF-8 cannot encode.
    return status, text.encode("utf-8", "replace")


def _page(site: Site, path: str, query: Mapping[str, str]) -> str:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case [""]:
            return index_page(site, query)
        case ["runs", key]:
            return run_page(site, key)
        case ["runs", key, "about"]:
            return about_page(site, key)
        case ["runs", key, "export"]:
            return exported(site, site.run(key))
        case ["runs", key, "samples"]:
            return samples_page(site, key, query)
        case ["runs", key, "samples", sample]:
            return sample_page(site, key, sample, query)
        case ["runs", key, "scatter"]:
            return scatter_page(site, key, query)
        case ["compare"]:
            return compare_page(site, query)
        case ["suites"]:
            return suites_page(site)
        case ["suites", name]:
            return suite_page(site, name)
        case _:
            raise NoSuchPageError(f"page {path} does not exist", "The first page lists all runs.")
