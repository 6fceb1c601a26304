"""What captions of the shapes world name that is not there."""

import re
from collections.abc import Sequence

from .scene import COLOURS, SHAPES

_THING = re.compile(rf"\b(?:{'|'.join(COLOURS)}) (?:{'|'.join(SHAPES)})\b")


def share(candidate: str, references: Sequence[str]) -> float:
    """Return the share of the things that a caption names, counted with repeats, that is not there.

    A thing is a colour and a shape that follow each other. A caption that names none has 0, as with CHAIR.

    Args:
        candidate: The caption.
        references: ``colour shape`` of everything that is there.
    """
    named = _THING.findall(candidate.lower())
    return sum(thing not in references for thing in named) / max(len(named), 1)
