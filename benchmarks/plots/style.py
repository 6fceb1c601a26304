"""Style of figures: column widths, fonts, colours; it changes no global settings."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import escape

from ...atomic_files import write_whole
from ...errors import UsageError, did_you_mean, extra, writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Width = Literal["single", "double"]

WIDTHS: dict[Width, float] = {"single": 3.3, "double": 6.9}
"""Inches of one and of two columns of a page."""

BLUE, ORANGE, BLACK, GREY, PALE = "#0072B2", "#D55E00", "#000000", "#767676", "#CFE3F1"
"""Okabe and Ito's colours, of different lightness; marks differ in shape, too."""

_STYLE = Path(__file__).with_name("capbench.mplstyle")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Apply capbench's settings instead of the user's, inside the block.

    Raises:
        UsageError: matplotlib is not installed.
    """
    with extra("plot", "plots need the package matplotlib"):
        import matplotlib
    settings: Any = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    own = matplotlib.rc_params_from_file(_STYLE, use_default_template=False)
    with matplotlib.rc_context(settings | dict(own)):
        yield


def new_figure(width: Width, height: float) -> Figure:
    """Return an empty figure, without global state.

    Args:
        width: One column or two.
        height: In inches.

    Raises:
        UsageError: Unknown width.
    """
    from matplotlib.figure import Figure

    if width not in WIDTHS:
        raise UsageError(f"unknown width '{width}'", f"Known: {', '.join(WIDTHS)}.")
    return Figure(figsize=(WIDTHS[width], height), facecolor="white")


def describe(figure: Figure, title: str, sentences: Sequence[str]) -> None:
    """Store a title and a text description as the figure's label, for accessibility."""
    figure.set_label("\n".join([title, *sentences]))


def folded(text: str, width: int, lines: int = 2) -> str:
    """Return a name wrapped after signs to a few lines, ended by ``…`` if it is too long.

    Args:
        text: The name, of a metric or a task.
        width: Characters in a line.
        lines: Most lines.
    """
    if len(text) <= width:
        return text
    # textwrap cuts at spaces only; a mark that is in no name makes it cut after other signs, too.
    spaced = "".join(f"{sign}\0 " if sign in ",_/=[" else sign for sign in text)
    wrapped = textwrap.wrap(spaced, width, break_on_hyphens=True, max_lines=lines, placeholder="…")
    return "\n".join(line.replace("\0 ", "").replace("\0", "") for line in wrapped)


def number(value: float, digits: int = 3) -> str:
    """Return a number as text with at most ``digits`` digits, or as a whole number below a million."""
    whole = 10**digits <= abs(value) < 1e6
    text = f"{value:,.0f}" if whole else f"{value:,.{digits}g}"
    return "0" if value == 0 else text.replace("-", "−")


def distinct_numbers(values: Sequence[float]) -> list[str]:
    """Return numbers as distinct texts."""
    texts = [[number(value, digits) for value in values] for digits in range(3, 18)]
    return next((labels for labels in texts if len(set(labels)) == len(values)), texts[-1])


FORMATS = ("png", "svg", "pdf")


def require_writable(path: Path) -> str:
    """Return the format of a file by its ending, before any work is done for it.

    Raises:
        UsageError: The format is unknown, or the folder is missing.
    """
    fmt = path.suffix.lower().removeprefix(".")
    if fmt not in FORMATS:
        raise UsageError(
            f"{path}: plots cannot be written in format '{fmt}'.{did_you_mean(fmt, FORMATS)}",
            f"Give a file name that ends with .{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}.",
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: folder {path.parent} does not exist", f"Create it: mkdir -p {path.parent}")
    return fmt


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG (300 dpi), SVG (texts stay texts) or PDF (fonts embedded), by the file's ending.

    The file has the description of the figure: ``<title>`` and ``<desc>`` in SVG, metadata in PNG and PDF. It has no
    date.

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
        # For screen readers the drawing is one image, with its title and description.
        head = f"<title>{escape(title)}</title>"
        named = f'<title id="title">{escape(title)}</title>\n <desc id="description">{escape(text)}</desc>'
        marked = '<svg role="img" aria-labelledby="title description" '
        content = content.replace(head.encode(), named.encode(), 1).replace(b"<svg ", marked.encode(), 1)
    with writing(path):
        write_whole(path, content)
