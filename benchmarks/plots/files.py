"""Figures as files that are the same, byte by byte, for the same runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from ...drafts import write_whole
from ...errors import UsageError, did_you_mean
from .style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


def require_writable(path: Path) -> str:
    """Return the format that a file's name stands for, before any work is done for it.

    Raises:
        UsageError: It is none of ours, or the folder is not there.
    """
    fmt = path.suffix.lower().removeprefix(".")
    if fmt not in FORMATS:
        raise UsageError(
            f"{path}: plots are not written as {path.suffix or 'a file without an ending'}."
            f"{did_you_mean(fmt, FORMATS)}",
            f"Name a file that ends with .{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}.",
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}", f"Make it first: mkdir -p {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder", "Name a file.")
    return fmt


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG (300 dpi), SVG (texts stay texts) or PDF (fonts embedded), by the file's ending.

    What the figure shows goes in as text too, for those who cannot see it: ``<title>`` and ``<desc>`` in SVG,
    metadata in PNG and PDF. There is no date in it.

    Args:
        figure: From one of the functions of this package, whose label describes it, or any other.
        path: The file; replaced if it is there.

    Raises:
        UsageError: Another ending, or the file cannot be written.
    """
    fmt = require_writable(path)
    title, _, text = str(figure.get_label()).partition("\n")
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Title": title, "Description": text, "Software": "capbench"},
        "svg": {"Title": title, "Description": text, "Creator": "capbench", "Date": None},
        "pdf": {"Title": title, "Subject": text, "Creator": "capbench", "CreationDate": None},
    }
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=fmt, metadata=metadata[fmt])
    content = buffer.getvalue()
    if fmt == "svg":
        content = _accessible(content, title, text)
    try:
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _accessible(svg: bytes, title: str, text: str) -> bytes:
    """Say to screen readers that the drawing is one image, named by its title and its description."""
    head = f"<title>{escape(title)}</title>"
    named = f'<title id="title">{escape(title)}</title>\n <desc id="description">{escape(text)}</desc>'
    marked = '<svg role="img" aria-labelledby="title description" '
    return svg.replace(head.encode(), named.encode(), 1).replace(b"<svg ", marked.encode(), 1)
