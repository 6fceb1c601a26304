"""Reads ActivityNet-FOIL: true and foil paragraphs by sentence, with the references of each sentence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, load_json

_HINT = "'bench data activitynet_foil' lists the files."
_MIN_OVERLAP = 0.4


def sentences(folder: Path) -> Iterator[Row | BadRow]:
    """Yield each sentence of each paragraph with its foil.

    Times are those of annotation set 1, and the duration that of set 2, as released; references are the
    sentences of set 2 that it overlaps.
    Source: the released EMScore code, ``ActivityNet-FOIL_demo.py``.
    """
    true = load_json(folder / "final_right_video_sentences.json", _HINT)
    foil = load_json(folder / "final_foil_video_sentences.json", _HINT)
    times = load_json(folder / "anet_entities_test_1.json", _HINT)
    described = load_json(folder / "anet_entities_test_2.json", _HINT)
    try:
        true, foil = true["results"], foil["results"]
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder}: the files of paragraphs have no 'results'") from error
    for video, paragraph in true.items():
        try:
            yield from _paragraph(video, paragraph, foil[video], times[video], described[video])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            yield BadRow(video, f"is not as expected: {type(error).__name__}: {error}")


def _paragraph(video: str, true: Any, foil: Any, times: Any, described: Any) -> list[Row]:
    if len(true) != len(foil):
        raise ValueError(f"{len(true)} true and {len(foil)} foil sentences")
    return [
        {
            "id": f"{video}-{number}",
            "video": video,
            "span": [*times["timestamps"][number], described["duration"]],
            "captions": [right["sentence"], wrong["sentence"]],
            "references": _references(times["timestamps"][number], described),
            "preferred": 0,
        }
        for number, (right, wrong) in enumerate(zip(true, foil, strict=True))
    ]


def _references(span: list[float], described: Any) -> list[str]:
    """Return the sentences whose own span, in whole seconds, is covered by more than 0.4; if none is, all."""
    first, last = int(span[0]), int(span[1])
    covered = []
    for sentence, (start, end) in zip(described["sentences"], described["timestamps"], strict=True):
        begin, stop = int(start), int(end)
        shared = max(0, min(last, stop) - max(first, begin) + 1)
        if shared / (stop - begin + 1) > _MIN_OVERLAP:
            covered.append(sentence)
    return covered or list(described["sentences"])
