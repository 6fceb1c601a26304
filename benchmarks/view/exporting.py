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
from ...errors import UsageError, writing
from ...progress import Reporter
from .app import ASSETS, shown_page
from .sample_pages import picture
from .site import Site

EXPORT_POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src 'self' file: data:; "
    "form-action 'none'; base-uri 'none'"
)
"""Browsers disagree on 'self' for local files, so ``file:`` allows files on disk."""
# Text of pages is escaped, so quotation marks only occur in markup.
_ADDRESS = re.compile(r'(href|src)="(/[^"]*)"')


def export(site: Site, folder: Path, progress: Reporter) -> tuple[int, int]:
    """Write the pages, and return the numbers of files and of their bytes.

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


def _write(site: Site, folder: Path, progress: Reporter) -> tuple[int, int]:
    names, sizes = {"/": "index.html"}, dict[str, int]()
    waiting = deque(["/"])

    def put(name: str, content: bytes) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        sizes[name] = len(content)

    def name_of(address: str) -> str:
        """Return the file of a URL; it is written, or will be if it is a page."""
        if address not in names:
            names[address], content = _file(site, address)
            if content is None:
                waiting.append(address)
            elif names[address] not in sizes:
                put(names[address], content)
        return names[address]

    while waiting:
        address = waiting.popleft()
        own = names[address]
        parts = urlsplit(address)
        _, page = shown_page(site, parts.path, dict(parse_qsl(parts.query)))

        def relative(match: re.Match[str], own: str = own) -> str:
            path, sharp, part = unescape(match[2]).partition("#")
            to = posixpath.relpath(name_of(path), posixpath.dirname(own) or ".")
            return f'{match[1]}="{escape(to + sharp + part)}"'

        put(own, _ADDRESS.sub(relative, page.decode()).encode())
        progress(len(sizes), len(sizes) + len(waiting))
    return len(sizes), sum(sizes.values())


def _file(site: Site, address: str) -> tuple[str, bytes | None]:
    """Return the file name for a URL, and the content if it is not a page; equal images share a file."""
    parts = urlsplit(address)
    path = [unquote(part) for part in parts.path.strip("/").split("/")]
    if path[0] == "assets":
        return f"assets/{path[1]}", (ASSETS.text(path[1]) or "").encode()
    if "pictures" in path:
        image = picture(site, path[1], path[3])
        digest = hashlib.sha256(image.content).hexdigest()[:32]
        return f"pictures/{digest}.{image.ending.removesuffix('+xml')}", image.content
    name = "/".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip(".") for part in path)
    if parts.query:
        query = re.sub(r"[^A-Za-z0-9]+", "-", parts.query)[:60].strip("-")
        name += f"--{query}-{hashlib.sha256(parts.query.encode()).hexdigest()[:8]}"
    return f"{name}.html", None
