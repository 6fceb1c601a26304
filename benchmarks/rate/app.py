"""The web application for raters; it does not reveal which model wrote a caption."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from ...errors import BenchError
from ..records.hashes import hash_of_json
from ..tables.pages.rendering import templates
from ..tables.pages.serving import POLICY, assets
from .forms import CANNOT_TELL, answer_of, spoken
from .items import Step
from .session import RatingQueue, rater_name

_WORD = re.compile(r"\S+")
_LONGEST_BODY = 16_384
_KEPT = "This page already has an answer; the first one is kept."
_OTHERS = "The answer is not saved, as it does not name these captions (was the server restarted?). Answer again."
_HEADERS = {
    # Browsers send the origin of a form only if the referrer policy allows it; forms go only to this server.
    "referrer-policy": "same-origin",
    "content-security-policy": f"{POLICY}; connect-src 'self'",
}


_SHOWN = {"own": "rate", "policy": "", "spoken": spoken, "cannot_tell": CANNOT_TELL, "words_of": _WORD.finditer}
"""What all templates know."""


class _Pages:
    """The pages of a session.

    Args:
        desk: The queue of questions.
    """

    def __init__(self, desk: RatingQueue) -> None:
        self._desk, self._session, self._links = desk, desk.session, desk.session.links()
        self._templates = templates(Path(__file__).parent / "templates", **_SHOWN)

    def _html(self, template: str, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render(**values)
        return Response(text.encode("utf-8", "replace"), status, _HEADERS, "text/html")

    def _message(self, status: int, heading: str, message: str, hint: str = "") -> Response:
        return self._html("message.html", status, heading=heading, message=message, hint=hint)

    def _next(self, request: Request, rater: str, *, kept: bool = False) -> Response:
        """Respond with the next question: as a redirect, or as a page if our script sent the request."""
        if request.headers.get("x-requested-with") == "fetch":
            return self._step(rater, _KEPT if kept else "")
        return _redirect(f"/raters/{self._link_of(rater)}" + ("?note=kept" if kept else ""))

    def first(self, request: Request) -> Response:
        """Respond with the sign-in page, or redirect a signed-in rater to the current question."""
        typed = None if self._links else request.query_params.get("name")
        name = rater_name(typed or "")
        like = self._session.taken(name) if name else ""
        if name and not like:
            return _redirect(f"/raters/{name}")
        raters = [] if self._links else self._desk.raters()
        status = 200 if typed is None else 400
        return self._html("first.html", status, session=self._session, raters=raters, typed=typed, like=like)

    def _rater(self, request: Request) -> str:
        """Return the rater from the URL.

        Raises:
            HTTPException: The name is invalid, or no rater has this link.
        """
        link: str = request.path_params["rater"]
        name = self._links.get(link, "") if self._links else link
        if name != rater_name(name) or not name:
            raise HTTPException(404)
        return name

    def _link_of(self, rater: str) -> str:
        return next((link for link, name in self._links.items() if name == rater), rater)

    def step(self, request: Request) -> Response:
        """Respond with the current question of a rater."""
        return self._step(self._rater(request), _KEPT if request.query_params.get("note") == "kept" else "")

    def _step(self, rater: str, note: str = "", status: int = 200) -> Response:
        session, place = self._session, self._desk.place(rater)
        values = {"rater": rater, "link": self._link_of(rater), "place": place, "note": note}
        if place.step is None:
            return self._html("done.html", status, **values)
        item = session.items[place.step.item]
        values |= {"item": item, "captions": [item.texts[number] for number in place.step.shown]}
        return self._html("step.html", status, **values, checksum=self._checksum(place.step), design=session.design)

    def _checksum(self, step: Step) -> str:
        """Return what tells the captions of a page from others: a restarted server may draw another battle."""
        texts = self._session.items[step.item].texts
        return hash_of_json({"captions": [texts[number] for number in step.shown]})

    def answer(self, request: Request, form: dict[str, str]) -> Response:
        """Save an answer, and respond with the next question."""
        rater = self._rater(request)
        place = self._desk.place(rater, shown=False)
        if place.step is None or form.get("number") != str(place.number):
            return self._next(request, rater, kept=True)
        if form.get("captions") != self._checksum(place.step):
            return self._step(rater, _OTHERS, 409)
        session = self._session
        answer = answer_of(session.design.questions, session.items[place.step.item], place.step, form)
        if isinstance(answer, ValueError):
            return self._step(rater, str(answer), 400)
        remark = " ".join(form.get("remark", "").split())
        return self._next(request, rater, kept=not self._desk.answer(rater, place.number, answer, remark))

    def undo(self, request: Request, form: dict[str, str]) -> Response:
        """Undo the last answer, and respond with its question."""
        rater = self._rater(request)
        place = self._desk.place(rater)
        if form.get("number") == str(place.number):
            self._desk.undo(rater)
        return self._next(request, rater)

    def picture(self, request: Request) -> Response:
        """Respond with the image of an item."""
        number = request.path_params["number"]
        image = self._session.picture(number) if number < len(self._session.items) else None
        if image is None:
            return Response("no such image", 404, media_type="text/plain")
        return Response(image.content, headers={"cache-control": "private, max-age=600"}, media_type=image.media_type)

    def nowhere(self, request: Request, error: Exception | None = None) -> Response:
        """Respond with 404."""
        return self._message(404, "No such page", "Start from the first page.")

    def not_kept(self, request: Request, error: OSError) -> Response:
        """Respond with 500: an answer could not be saved."""
        message = f"The answer could not be saved: {error.strerror or error}. Go back and send it again."
        return self._message(500, "Not saved", message)

    def fault(self, request: Request, error: BenchError) -> Response:
        """Respond with 500: the files of the session have an error."""
        return self._message(500, "This cannot be shown", error.message, error.hint)


def _redirect(path: str) -> Response:
    return RedirectResponse(path, 303, _HEADERS)


def application(desk: RatingQueue) -> Starlette:
    """Return the web application of a session.

    Args:
        desk: The queue of questions.
    """
    pages = _Pages(desk)

    def posted(answer: Any) -> Any:
        async def respond(request: Request) -> Response:
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_BODY:
                    return PlainTextResponse("request too large", 413)
            form = dict(parse_qsl(body.decode("latin-1")))
            return await run_in_threadpool(answer, request, form)

        return respond

    return Starlette(
        routes=[
            assets(),
            Route("/", pages.first),
            Route("/pictures/{number:int}", pages.picture),
            Route("/raters/{rater}", pages.step),
            Route("/raters/{rater}/answers", posted(pages.answer), methods=["POST"]),
            Route("/raters/{rater}/undo", posted(pages.undo), methods=["POST"]),
            Route("/{path:path}", pages.nowhere),
        ],
        exception_handlers={404: pages.nowhere, OSError: pages.not_kept, BenchError: pages.fault},  # type: ignore[dict-item]
    )
