"""Reads MSVD as distributed."""

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...rows import BadRow, Row

_HINT = "'bench data msvd_caption' lists the files."


def described(
    folder: Path, captions: str = "AllVideoDescriptions.txt", split: str = "test_list.txt"
) -> Iterator[Row | BadRow]:
    """Yield the videos of a split with all of their captions.

    Args:
        folder: Holds both files.
        captions: Lines of a video's id, a space and a caption; those that begin with ``#`` are comments.
        split: Lines of ids.

    Yields:
        ``video`` (its id) and ``references``, in the order of the split; a ``BadRow`` for a video without captions.

    Raises:
        DataError: A file is missing or not UTF-8.
    """
    of_video: dict[str, list[str]] = {}
    for line in _lines(folder / captions):
        video, _, caption = line.partition(" ")
        if not line.startswith("#") and caption.strip():
            of_video.setdefault(video, []).append(caption.strip())
    for line in _lines(folder / split):
        if video := line.strip():
            references = of_video.get(video)
            yield (
                {"video": video, "references": references}
                if references
                else BadRow(video, f"{captions}: has no caption of it")
            )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise DataError(f"{path}: cannot be read: {reason}", _HINT) from error
