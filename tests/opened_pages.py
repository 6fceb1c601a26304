"""A browser that has opened the address that a server of pages printed, and what axe-core finds on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


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
WIDTHS = [(_NARROW, ["light"]), (_WIDE, ["light", "dark"])]
"""How wide pages are looked at, and the themes in which they are."""
_COLOURS = ["color-contrast", "link-in-text-block"]
_OPTIONS = {
    (_NARROW, "light"): {"rules": {rule: {"enabled": False} for rule in _COLOURS}},
    (_WIDE, "light"): {},
    (_WIDE, "dark"): {"runOnly": {"type": "rule", "values": _COLOURS}},
}
"""What axe-core looks at: a wide page shows whatever a narrow one does, and in the same colours; in the dark theme
nothing else differs. To look at colours takes most of the time."""


def violations(page: Page, axe: str, width: int, themes: Sequence[str]) -> list[list[str]]:
    """Return what axe-core finds on a page: the theme, the rule, and the first element that breaks it.

    The page must fit the width, and nothing that a text of it would run may have run.
    """
    assert page.evaluate("document.documentElement.scrollWidth") == width, page.url
    assert page.evaluate("window.ran") is None
    # By the tester's hand, past the policy that lets nothing else in.
    page.evaluate(axe + "; null")
    found = []
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (theme == "dark")
        found += [[theme, *one] for one in page.evaluate(_RUN, _OPTIONS[width, theme])]
    return found


_RUN = """async (options) => {
  const run = await axe.run({ resultTypes: ["violations"], ...options });
  return run.violations.map((one) => [one.id, one.nodes[0].html]);
}"""
