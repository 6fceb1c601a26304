"""Reads Urban1k as distributed: a text file for each image."""

from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...rows import BadRow, Row


def captioned(folder: Path) -> Iterator[Row | BadRow]:
    """Yield ``image`` (its file's name) and ``caption``, which is the first line of a file, in the order of names.

    Source: beichenzbc/Long-CLIP, ``eval/retrieval/Urban1k.py``.

    Args:
        folder: Holds the folders ``caption`` and ``image``.

    Raises:
        DataError: There are no captions.
    """
    files = sorted((folder / "caption").glob("*.txt"))
    if not files:
        raise DataError(f"{folder}: holds no caption/*.txt", "'bench data urban1k_retrieval' lists the files.")
    for file in files:
        try:
            caption = file.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            yield BadRow(f"caption/{file.name}", f"cannot be read: {error}")
        else:
            yield {"image": f"{file.stem}.jpg", "caption": caption}
