"""Fails if a page of the built site loads external resources."""

import re
import sys
from pathlib import Path

_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\s\"'>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*?\bhref=[\"']?((?:https?:)?//[^\s\"'>]+)"
)
_STYLED = re.compile(r"(?:@import\s*[\"']|url\([\"']?)((?:https?:)?//[^\s\"')]+)")


def outside(site: Path) -> list[str]:
    """Return the files of a site with their external resources, sorted by name."""
    lines = []
    for suffix, pattern in ((".html", _LOADED), (".css", _STYLED)):
        for file in sorted(site.rglob(f"*{suffix}")):
            text = file.read_text(encoding="utf-8")
            # One of the groups has the URL.
            lines += [
                f"{file.relative_to(site).as_posix()}: {''.join(match.groups(''))}" for match in pattern.finditer(text)
            ]
    return lines


if __name__ == "__main__":
    loaded = outside(Path(sys.argv[1]))
    sys.exit("\n".join(["these pages load external resources:", *loaded]) if loaded else 0)
