"""A server of pages, a browser that has opened the address that it printed, and what axe-core finds on a page."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from capbench.benchmarks.tables.pages.serving import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@contextmanager
def served(application: Any, command: str, port: int = 0) -> Iterator[str]:
    """Serve pages from a thread of this process, and give the address that the server prints."""
    import uvicorn

    addresses: queue.Queue[str] = queue.Queue()
    started: queue.Queue[uvicorn.Server] = queue.Queue()
    arguments = {"command": command, "holds": "sees all", "port": port, "announce": addresses.put}
    thread = threading.Thread(target=serve, args=(application,), kwargs=arguments)
    run = uvicorn.Server.run

    def note_own(server: uvicorn.Server, sockets: Any) -> None:
        # A server that was begun before may run only now.
        if threading.current_thread() is thread:
            started.put(server)
        run(server, sockets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.Server, "run", note_own)
        thread.start()
        yield addresses.get(timeout=60)
        started.get(timeout=60).should_exit = True
        thread.join(60)
    assert not thread.is_alive()


def open_browser(browser: Browser, address: str, said: list[str], own: str = "", **options: Any) -> BrowserContext:
    """Return a browser that has opened the printed address, and writes down what it should not meet."""
    context = browser.new_context(**options)
    own = own or address.partition("/?")[0]

    def watch(page: Page) -> None:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
        page.on("request", lambda request: None if request.url.startswith((own, "data:")) else said.append(request.url))

    context.on("page", watch)
    context.new_page().goto(address)
    return context


_NARROW, _WIDE = 390, 1400
WIDE = (_WIDE, ["light", "dark"])
WIDTHS = [(_NARROW, ["light"]), pytest.param(*WIDE, marks=pytest.mark.costly)]
"""How wide pages are looked at, and the themes in which they are."""
_COLOURS = ["color-contrast", "link-in-text-block"]
_WHOLE = {"rules": {rule: {"enabled": False} for rule in _COLOURS}}
_OF_COLOURS = {"runOnly": {"type": "rule", "values": _COLOURS}}
"""What axe-core looks at: a wide page shows whatever a narrow one does, and in the same colours; in the dark theme
nothing else differs. To look at colours takes most of the time: of elements that look alike, two are."""


def violations(page: Page, axe: str, width: int, themes: Sequence[str]) -> list[list[str]]:
    """Return what axe-core finds on a page: the theme, the rule, and the first element that breaks it.

    The page must fit the width, and nothing that a text of it would run may have run.
    """
    assert page.evaluate("document.documentElement.scrollWidth") == width, page.url
    assert page.evaluate("window.ran") is None
    # By the tester's hand, past the policy that lets nothing else in.
    page.evaluate(axe + "; null")
    faults = [["", *fault] for fault in page.evaluate(_RUN, _WHOLE)]
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (theme == "dark")
        if width == _WIDE:
            faults += [[theme, *fault] for fault in page.evaluate(_RUN_OF_COLOURS, _OF_COLOURS)]
    return faults


_RUN = """async (options) => {
  const run = await axe.run({ resultTypes: ["violations"], preload: false, ...options });
  return run.violations.map((one) => [one.id, one.nodes[0].html]);
}"""
_RUN_OF_COLOURS = Path(__file__).with_name("browser").joinpath("colours.js").read_text()
