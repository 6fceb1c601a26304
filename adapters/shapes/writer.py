"""A judge of the shapes world that writes by rule what pipelines ask of language models."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from ...tasks.shapes.describing import PLACES, enumerated
from ...tasks.shapes.scene import SHAPES
from ..contracts import Judge, Judged, Judgement, JudgeRequest
from ..decoding.generating import generator_of
from .phrases import ByRule, Named, named_in

_OPENINGS = ("There is", "A picture of", "This shows", "One sees", "Here is")
_INSTRUCTIONS = {
    "summarize it into": "summary",
    "Summarize and rephrase": "shorter",
    "create a list of summarized descriptions": "several",
    "introducing enough significant differences": "basic",
    "alters the structure, layout, or content": "layout",
    "Selecting ONLY from the same words": "swaps",
}
"""Words that occur in only one of DCI's system prompts, to what it requests."""
_MERGE = re.compile(
    r"Overall description: (?P<overall>.*)\n\n Elements appearing in the image: (?P<elements>.*?)\. \n", re.DOTALL
)
_SAME = re.compile(r"Description A: (?P<first>.*)\nDescription B: (?P<second>.*)\n", re.DOTALL)


class ShapesWriter(ByRule, Judge):
    """Writes summaries, negatives and merged captions in the shapes world's language, each as it was asked to.

    It reads the things that a text names and lists them again. It answers nothing else.

    Args:
        name: How results call it.
    """

    adapter = "shapes_writer"

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Answer all requests."""
        yield Judged({at: Judgement(self._answer(request)) for at, request in enumerate(requests)})

    def _answer(self, request: JudgeRequest) -> str:
        rng = generator_of(int(request.decoding.get("seed", 0)), request.prompt)
        things, place = _things(request.prompt), _place(request.prompt)
        asked = next((kind for words, kind in _INSTRUCTIONS.items() if words in (request.system or "")), None)
        if asked == "summary":
            return listed(things, place)
        if asked == "shorter":
            return listed(things[:-1] or things, place if len(things) > 1 else None)
        if asked == "several":
            return "\n".join(f"{number}. {text}" for number, text in enumerate(_several(things, place, rng), 1))
        if asked:
            return _negative(asked, request.prompt, things, place, rng)
        if match := _MERGE.search(request.prompt):
            return merged(match["overall"], match["elements"])
        if match := _SAME.search(request.prompt):
            return "yes" if _told(match["first"]) == _told(match["second"]) else "no"
        return ""


def listed(things: Sequence[str], place: str | None, opening: str = _OPENINGS[0]) -> str:
    """Return a sentence that lists things.

    Args:
        things: Such as ``small red star``.
        place: Words for the background, or None.
        opening: What stands first.
    """
    names = [f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}" for thing in things] or ["nothing"]
    return " ".join(filter(None, (opening, enumerated(names), place))) + "."


def merged(overall: str, elements: str) -> str:
    """Return a caption with a sentence more for each thing that the elements name and it does not.

    Something named with fewer words than before is no other thing. Sentences that name nothing, as a filter leaves
    them, go.
    """
    known = [thing for thing in named_in(overall) if thing.is_thing]
    sentences = [f"{sentence.strip()}." for sentence in overall.split(".") if named_in(sentence)]
    for thing in named_in(elements):
        if thing.is_thing and not any(_is_of(thing, other) for other in known):
            known.append(thing)
            sentences.append(listed([_words(thing)], None, "There is also"))
    return " ".join(sentences)


def _is_of(thing: Named, other: Named) -> bool:
    return thing.noun == other.noun and set(thing.attributes) <= set(other.attributes)


def _words(thing: Named) -> str:
    return " ".join([*thing.attributes, thing.noun])


def _things(text: str) -> list[str]:
    """Return the things that a text names, in order, each by its fullest words."""
    things: list[Named] = []
    for thing in (thing for thing in named_in(text) if thing.is_thing):
        if any(_is_of(thing, other) for other in things):
            continue
        things = [other for other in things if not _is_of(other, thing)] + [thing]
    return [_words(thing) for thing in things]


def _place(text: str) -> str | None:
    """Return the words for the background that a text names last, or None."""
    names = [name for named in named_in(text) if not named.is_thing for name in named.places()]
    return PLACES[names[-1]] if names else None


def _told(text: str) -> tuple[list[str], str | None]:
    return sorted(_things(text)), _place(text)


def _several(things: list[str], place: str | None, rng: np.random.Generator) -> list[str]:
    texts: list[str] = []
    for number in range(5):
        order = [things[at] for at in rng.permutation(len(things))]
        kept = order[: max(1, len(order) - number % 2)]
        texts.append(listed(kept, place if number < 3 else None, _OPENINGS[(number + rng.integers(5)) % 5]))
    return texts


def _negative(kind: str, text: str, things: list[str], place: str | None, rng: np.random.Generator) -> str:
    if kind == "swaps":
        return _swapped(text, things, place, rng)
    if kind == "layout":
        others = [where for where in PLACES.values() if where != place]
        return listed(things, others[rng.integers(len(others))])
    nouns = {thing.split()[-1] for thing in things}
    others = [shape for shape in SHAPES if shape not in nouns]
    at = int(rng.integers(max(len(things), 1)))
    changed = list(things) or ["star"]
    changed[at] = " ".join([*changed[at].split()[:-1], others[rng.integers(len(others))]])
    return listed(changed, place)


def _swapped(text: str, things: list[str], place: str | None, rng: np.random.Generator) -> str:
    """Return the words of a text in another order: nouns change places, or where that changes nothing, all do."""
    nouns = [thing.split()[-1] for thing in things]
    for _ in range(8):
        order = rng.permutation(len(things))
        changed = [" ".join([*thing.split()[:-1], nouns[at]]) for thing, at in zip(things, order, strict=True)]
        swapped = listed(changed, place)
        if sorted(changed) != sorted(things) and sorted(swapped.split()) == sorted(text.split()):
            return swapped
    words = text.rstrip(".").split()
    return " ".join(words[at] for at in rng.permutation(len(words))).capitalize() + "."
