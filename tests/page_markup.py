"""What of a page runs, loads or leads somewhere."""

from collections.abc import Iterable
from html.parser import HTMLParser


class Markup(HTMLParser):
    """A page that was read.

    Attributes:
        scripts: Addresses of scripts; None for one that stands in the page.
        faults: Elements and attributes that no page of ours has.
        links: Where the page leads, and what it loads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.faults: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "script":
            self.scripts.append(attributes.get("src"))
        if tag in ("style", "iframe", "object", "embed", "base"):
            self.faults.append(tag)
        self.faults += [name for name in attributes if name.startswith("on") or name == "style"]
        self.links += [str(attributes[name]) for name in ("href", "src", "action") if name in attributes]


def markup(text: str) -> Markup:
    """Return what a page holds."""
    parsed = Markup()
    parsed.feed(text)
    return parsed


def require_texts(pages: Iterable[str], own: str) -> None:
    """Require that pages show hostile texts as texts, run an application's own scripts, and lead nowhere else."""
    shown = ""
    for page in pages:
        parsed = markup(page)
        assert parsed.scripts == [f"/assets/{name}.js" for name in ("theme", "token", "columns", own)]
        assert parsed.faults == []
        assert [link for link in parsed.links if not link.startswith(("/", "#", "data:,"))] == []
        shown += page
    # Texts are shown, and not left out.
    for text in ("&lt;img src=x onerror=", "&lt;/script&gt;&lt;script&gt;", "&lt;svg onload=", "&lt;/title&gt;"):
        assert text in shown
