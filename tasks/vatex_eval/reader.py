"""Reads the released files of VATEX-EVAL."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ...errors import DataError
from ...rows import BadRow, Row, parse_number
from .pickled_arrays import load_array

_HINT = "'bench data vatex_eval_noref' lists the files."
_RATERS = 3


def captions(folder: Path) -> Iterator[Row | BadRow]:
    """Yield each rated caption with its video, its references and three ratings.

    Source: the released EMScore code, ``VATEX-EVAL-demo.py``. Ratings are stored rater by rater: all of the
    first, all of the second, all of the third.
    """
    candidates, references, videos, ratings = (
        load_array(folder / name, _HINT)
        for name in ("candidates_list.pkl", "gts_list.pkl", "video_ids.pkl", "human_scores.pkl")
    )
    count = len(candidates)
    if len(references) != count or len(videos) != count or ratings.size != _RATERS * count:
        raise DataError(
            f"{folder}: {count} captions, {len(references)} sets of references, {len(videos)} videos and "
            f"{ratings.size} ratings, which should be {_RATERS} a caption.",
            "Are the files complete, and of one data set?",
        )
    by_caption = ratings.reshape(_RATERS, -1).T
    seen: Counter[str] = Counter()
    for number in range(count):
        video = str(videos[number])
        row: Row = {
            "id": f"{video}-{seen[video]}",
            "video": video,
            "candidate": _text(candidates[number]),
            "references": [_text(one) for one in np.asarray(references[number]).ravel().tolist()],
        }
        seen[video] += 1
        try:
            row["ratings"] = [_rating(one) for one in by_caption[number]]
        except (TypeError, ValueError, OverflowError) as error:
            yield BadRow(row["id"], f"has a rating that is no number: {error}")
            continue
        yield row


def _rating(value: object) -> float:
    # A rater who skipped the caption stands as NaN.
    return math.nan if isinstance(value, numbers.Real) and value != value else parse_number(value)


def _text(value: object) -> object:
    """Return a text as Python's own; what is none is left for the protocol to name."""
    return str(value) if isinstance(value, str) else value
