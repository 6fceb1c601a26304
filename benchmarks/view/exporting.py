"""Writes the pages as files, following links from the first page."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shutil
from collections import deque
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ...atomic_files import draft_beside
from ...errors import BenchError, UsageError, writing
from ...progress import Reporter
from .app import ASSETS, page_of_address
from .finding import NOTHING
from .sample_pages import picture
from .site import Site

EXPORT_POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src 'self' file: data:; "
    "form-action 'none'; base-uri 'none'"
)
"""Browsers disagree on 'self' for local files, so ``file:`` allows files on disk."""
# Text of pages is escaped, so quotation marks only occur in markup.
_ADDRESS = re.compile(r'(href|src)="(/[^"]*)"')


def export(site: Site, folder: Path, progress: Reporter) -> int:
    """Write the pages, and return the number of files.

    Args:
        site: Renders the pages, with a policy.
        folder: The output folder; it must not exist.
        progress: Called with (pages written, pages found).

    Raises:
        UsageError: The folder exists or cannot be written.
    """
    if folder.exists():
        raise UsageError(f"--export {folder}: already exists", "Choose a new folder, or remove this one.")
    draft = draft_beside(folder)
    try:
        with writing(f"--export {folder}"):
            draft.mkdir(parents=True)
            written = _write(site, draft, progress)
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return written


def _write(site: Site, folder: Path, progress: Reporter) -> int:
    names = {"/": "index.html"}
    waiting, done = deque(["/"]), set[str]()

    def name_of(address: str) -> str:
        """Return the file of a URL; unknown URLs give the first page."""
        if address not in names:
            try:
                names[address], content = _file(site, address)
            except BenchError:
                names[address], content = "index.html", None
            if content is None:
                waiting.append(address)
            elif names[address] not in done:
                _put(folder / names[address], content)
                done.add(names[address])
        return names[address]

    while waiting:
        address = waiting.popleft()
        if names[address] in done:
            continue
        done.add(names[address])
        parts = urlsplit(address)
        text = page_of_address(site, parts.path, dict(parse_qsl(parts.query)))
        own = names[address]

        def relative(match: re.Match[str], own: str = own) -> str:
            path, sharp, part = unescape(match[2]).partition("#")
            to = posixpath.relpath(name_of(path), posixpath.dirname(own) or ".")
            return f'{match[1]}="{escape(to + sharp + part)}"'

        _put(folder / own, _ADDRESS.sub(relative, text).encode("utf-8", "replace"))
        progress(len(done), len(set(names.values())))
    return len(done)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _file(site: Site, address: str) -> tuple[str, bytes | None]:
    """Return the file name for a URL, and the content if it is not a page."""
    parts = urlsplit(address)
    path = [unquote(part) for part in parts.path.strip("/").split("/")]
    if path[0] == "assets":
        return f"assets/{path[1]}", (ASSETS.text(path[1]) or "").encode()
    if "pictures" in path:
        image = picture(site, path[1], path[3])
        if image == NOTHING:
            return "assets/no-image.svg", image.content
        return f"runs/{path[1]}/pictures/{path[3]}.{image.ending}", image.content
    name = "/".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip(".") for part in path)
    if parts.query:
        query = re.sub(r"[^A-Za-z0-9]+", "-", parts.query)[:60].strip("-")
        name += f"--{query}-{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}"
    return f"{name}.html", None
