"""ALOHa: how like the least likely object of a caption is to what its references name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np

from ..adapters import Judgement, JudgeRequest
from ..downloads import Resource
from ..errors import MetricError, require_all, require_counts
from .capture.parsers import RELEASED_ENCODER, choose_parser, named_parser, other_encoder
from .capture.phrases import PhraseEncoder
from .capture.scene_graphs import CaptionParser, Graph, read_items
from .contract import PARSEABLE, Context, Metric, Need, labelled, require_choice
from .items import Items, Scores
from .judging import PROMPTS, ask, fill, prompt_digest, quoted, read_prompt
from .vectors.checkpoints import Checkpoint
from .words.spacy_pipelines import load_pipeline, pipeline_identity

CANDIDATE, REFERENCES = PROMPTS["aloha"]["candidate"], PROMPTS["aloha"]["references"]

_LAST_WORD, _NO_ROOTS = "last_word", "none"
_RELEASED_ROOTS = "en_core_web_lg"
# Number of items whose name vectors are in memory at once.
_ITEMS_A_PIECE = 1_000

Alternatives = tuple[str, ...]
"""What a thing may be: mostly one name."""
Things = list[Alternatives]


@dataclass(eq=False, repr=False)
class Aloha(Metric):
    """The similarity of the caption's least likely object to an object of the references.

    A judge lists the objects that the caption names, and those that all references name together; or a parser of
    scene graphs finds them. Each object of the caption is matched with another one of the references so that their
    similarities add up to the most (Hungarian matching); the value is the least of these similarities. Where a thing
    may be one of several ("bus or tram"), the choice that scores most counts. In the references the root noun of an
    object is a separate object, too.

    ``Scores.parts``: ``objects [n]``, how many of the caption were matched or not; ``unmatched [n]``, for how many
    the references had none left; ``least [n]`` and ``mean [n]`` of the similarities, those without a match being 0;
    ``unknown_words [n]``, how many words of the caption and its references a parser passed over, as it does not know
    them (``grammar``).

    Args:
        objects: What finds objects: ``judge``, or a parser of ``capture`` (``factual``, ``spacy``, ``grammar``,
            ``recorded``), whose parses the metrics share.
        parser_model: The parser's checkpoint, pipeline or file, as of ``capture``.
        parser_revision: Branch, tag or commit of the parser's checkpoint.
        candidate_prompt: A file with the judge's prompt for a candidate, with ``{caption}``; ours unless given.
        references_prompt: A file with that for the references, with ``{captions}``.
        max_tokens: Tokens that an answer may have.
        root_nouns: What finds root nouns in the references: a pipeline of spaCy, ``last_word`` (before a preposition),
            or ``none``. By default en_core_web_lg, as released, of what a judge lists, and the last word of what a
            parser finds.
        encoder: The sentence encoder: a name on the hub or a folder.
        encoder_revision: Branch, tag or commit of the encoder.
        aggregate: The least similarity (``min``), or their ``mean``.
        unmatched: What an object counts for which the references have none left: nothing (``ignored``: released
            code adds its zeros to the numbers in place of the list), or 0 (``zero``, as the paper has it).
        empty: ``undefined``: an item of which one side has no object has no value (released code: -infinity);
            ``scored``: a caption that names nothing has 1, one whose references name nothing 0.
        detections: Whether the annotated objects of the image count in addition to those of the references.
        device: Where models run; by default the GPU if there is one.

    Raises:
        ValueError: A setting is out of range.
    """

    splits_words = True
    english_only = True
    longest_caption = PARSEABLE
    label = "ALOHa"
    range = (-1.0, 1.0)
    needs = frozenset({"references", "judge"})
    own_files = frozenset({"candidate_prompt", "references_prompt"})
    source = "Petryk et al., NAACL 2024; src/aloha/metrics/aloha.py of github.com/DavidMChan/aloha (7da6b90)"

    objects: Literal["judge", "factual", "spacy", "grammar", "recorded"] = "judge"
    parser_model: str | None = None
    parser_revision: str | None = None
    candidate_prompt: str | None = None
    references_prompt: str | None = None
    max_tokens: int = 512
    root_nouns: str | None = None
    encoder: str = RELEASED_ENCODER
    encoder_revision: str | None = None
    aggregate: Aggregate = "min"
    unmatched: Unmatched = "ignored"
    empty: Literal["undefined", "scored"] = "undefined"
    detections: bool = False
    device: str | None = None

    def __post_init__(self) -> None:
        require_choice("aggregate", self.aggregate, ("min", "mean"))
        require_choice("unmatched", self.unmatched, ("ignored", "zero"))
        require_choice("empty", self.empty, ("undefined", "scored"))
        require_counts(ValueError, max_tokens=self.max_tokens)
        self._parser: CaptionParser | None = None
        needs: set[Need] = {"references", *(("objects",) if self.detections else ())}
        variants: list[str] = []
        if self.objects == "judge":
            needs.add("judge")
        else:
            self._parser = choose_parser(self.objects, self.parser_model, self.parser_revision, device=self.device)
            variants = named_parser(self.objects, self.parser_model) or ["FACTUAL"]
        self.needs = frozenset(needs)
        self._roots = self.root_nouns or (_LAST_WORD if self._parser else _RELEASED_ROOTS)
        checkpoint = Checkpoint("ALOHa's text encoder", "encoder", self.encoder, self.encoder_revision)
        self._encoder = PhraseEncoder(checkpoint, self.device)
        variants += ["mean"] * (self.aggregate == "mean") + ["unmatched 0"] * (self.unmatched == "zero")
        self.label = labelled(self, [*variants, *other_encoder(self.encoder, RELEASED_ENCODER)])

    def check(self) -> None:
        """Raise if the parser or a prompt, what finds root nouns, or the encoder is missing."""
        require_all(
            self._texts_of_prompts if self._parser is None else self._parser.check, self._root, self._encoder.check
        )

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [*(self._parser.resources() if self._parser else ()), *self._encoder.resources()]

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what finds objects and root nouns and encodes."""
        if self._parser is None:
            prompts = [prompt_digest(prompt) for prompt in self._texts_of_prompts()]
            finder = {"prompts": prompts, "max_tokens": self.max_tokens}
        else:
            finder = self._parser.fingerprint()
        own = {name: getattr(self, name) for name in ("aggregate", "unmatched", "empty", "detections")}
        root_nouns = self._root()[1]
        return {"metric": type(self).__name__, **own, **finder, "root_nouns": root_nouns, **self._encoder.fingerprint()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: There is no judge, or the parser, the pipeline or the encoder cannot be used.
            AdapterError: The judge failed as a whole.
        """
        table = np.full((5, len(items)), np.nan)
        failures: dict[int, str] = {}
        usable, faults = self._sides(items, context)
        for item, (reason, worth) in faults.items():
            if worth is None or self.empty == "undefined":
                failures[item] = reason
            else:
                table[0, item] = worth
        for start in range(0, len(usable), _ITEMS_A_PIECE):
            piece = list(usable)[start : start + _ITEMS_A_PIECE]
            for item, matched in zip(piece, self._match([usable[item] for item in piece], context), strict=True):
                similarities = [match.similarity for match in matched.objects]
                unmatched = sum(match.reference is None for match in matched.objects)
                mean = sum(similarities) / len(similarities)
                table[:, item] = matched.value, len(similarities), unmatched, similarities[0], mean
        texts = zip(items.candidates, items.references, strict=True)
        unknown = np.array([len(self._unknown_words(*of_item)) for of_item in texts], np.float64)
        parts = dict(zip(("objects", "unmatched", "least", "mean"), table[1:].copy(), strict=True))
        return Scores(table[0].copy(), {**parts, "unknown_words": unknown}, failures)

    def review(self, shards: Iterable[tuple[Scores, Mapping[int, str]]]) -> list[str]:
        """Say how many words the parser passed over; see ``Metric.review``."""
        words = items = total = 0
        for scores, _ in shards:
            unknown = scores.parts["unknown_words"]
            words += int(np.nansum(unknown))
            items += int((unknown > 0).sum())
            total += int(np.isfinite(unknown).sum())
        if not words:
            return []
        return [
            f"passes over {words:,} words that its parser's list lacks, objects maybe among them, in {items:,} of "
            f"{total:,} items ('bench explain' shows the words, 'parser_model' names another list)"
        ]

    def explain(self, candidate: str, references: Sequence[str], context: Context | None = None) -> ObjectMatching:
        """Return how the objects of a candidate are matched, the least similar first: it may be made up.

        Args:
            candidate: The caption.
            references: Captions to compare it with.
            context: Cache, progress and judge.

        Raises:
            MetricError: A side has no object, something is missing, or objects marked in the image count, too.
        """
        if self.detections:
            raise MetricError(
                "ALOHa explains a score from captions alone; 'detections' also counts annotated objects of the image.",
                "Leave 'detections' out.",
            )
        context = context or Context()
        items = Items(["0"], [candidate], [tuple(references)], np.ones(1))
        usable, faults = self._sides(items, context)
        for reason, _ in faults.values():
            raise MetricError(f"ALOHa cannot explain this: {reason}.")
        (matched,) = self._match(list(usable.values()), context)
        return replace(matched, unknown=tuple(dict.fromkeys(self._unknown_words(candidate, references))))

    def _match(self, sides: Sequence[tuple[Things, Things]], context: Context) -> list[ObjectMatching]:
        names = [name for both in sides for things in both for thing in things for name in thing]
        vectors = self._encoder.vectors(names, context)
        return [best_match(*both, vectors, self.aggregate, self.unmatched) for both in sides]

    def _sides(
        self, items: Items, context: Context
    ) -> tuple[dict[int, tuple[Things, Things]], dict[int, tuple[str, float | None]]]:
        """Return the things of each item's candidate and references; and why some are not matched, and what they score.

        What an item scores all the same is None where its things are not known.
        """
        reference_sets, set_of_item = items.reference_sets
        candidates, of_sets = (self._listed if self._parser is None else self._parsed)(
            items.candidates, reference_sets, context
        )
        root, _ = self._root()
        usable: dict[int, tuple[Things, Things]] = {}
        faults: dict[int, tuple[str, float | None]] = {}
        for item, its_set in enumerate(set_of_item.tolist()):
            candidate, references = candidates[items.candidates[item]], of_sets[its_set]
            if isinstance(candidate, str):
                faults[item] = f"candidate: {candidate}", None
            elif isinstance(references, str):
                faults[item] = references, None
            else:
                seen = sorted(items.objects[item]) if self.detections else []
                references = [*with_roots(references, root), *((name.lower(),) for name in seen)]
                if fault := _fault(candidate, references):
                    faults[item] = fault
                else:
                    usable[item] = candidate, references
        return usable, faults

    def _listed(
        self, candidates: Sequence[str], reference_sets: Sequence[tuple[str, ...]], context: Context
    ) -> tuple[dict[str, Things | str], list[Things | str]]:
        """Return the judge's list for each candidate and each set of references."""
        prompt, of_references = self._texts_of_prompts()
        texts = [text for text in dict.fromkeys(candidates) if text.strip()]
        asked = [captions for captions in reference_sets if any(caption.strip() for caption in captions)]
        requests = [
            *(fill(prompt, caption=text) for text in texts),
            *(fill(of_references, captions="\n".join(f"- {caption}" for caption in captions)) for captions in asked),
        ]
        answers = ask([JudgeRequest(request, max_tokens=self.max_tokens) for request in requests], context)
        read = [_read(answer, certain=number < len(texts)) for number, answer in enumerate(answers)]
        of_text: dict[str, Things | str] = {caption: [] for caption in candidates}
        of_text |= zip(texts, read[: len(texts)], strict=True)
        named = (f"references: {things}" if isinstance(things, str) else things for things in read[len(texts) :])
        of_set = dict(zip(asked, named, strict=True))
        return of_text, [of_set.get(captions, []) for captions in reference_sets]

    def _parsed(
        self, candidates: Sequence[str], reference_sets: Sequence[tuple[str, ...]], context: Context
    ) -> tuple[dict[str, Things | str], list[Things | str]]:
        """Return the parser's objects of each candidate and each set of references."""
        assert self._parser is not None  # noqa: S101 - the caller looked

        def objects(graphs: Sequence[Graph]) -> Things:
            names = dict.fromkeys(name.lower() for graph in graphs for name in graph.objects if name.strip())
            return [(name,) for name in names]

        return read_items(self._parser, candidates, reference_sets, objects, context)

    def _unknown_words(self, candidate: str, references: Sequence[str]) -> list[str]:
        if self._parser is None:
            return []
        return [word for text in (candidate, *references) for word in self._parser.unknown(text)]

    def _texts_of_prompts(self) -> tuple[str, str]:
        of_candidate, of_references = self.candidate_prompt, self.references_prompt
        return (
            CANDIDATE if of_candidate is None else read_prompt(of_candidate, ("caption",)),
            REFERENCES if of_references is None else read_prompt(of_references, ("captions",)),
        )

    def _root(self) -> tuple[Callable[[str], str | None], str]:
        """Return what finds the root noun of a name, and its identity."""
        if self._roots == _NO_ROOTS:
            return lambda name: None, self._roots
        if self._roots == _LAST_WORD:
            return last_word, self._roots
        pipeline = load_pipeline(self._roots, "ALOHa", "the metric's 'root_nouns'")
        return partial(root_noun, pipeline), pipeline_identity(pipeline)


def _read(answer: Judgement | str, *, certain: bool) -> Things | str:
    """Return the things that an answer lists, or why there is none."""
    if isinstance(answer, str):
        return answer
    try:
        return read_objects(answer.text, certain=certain)
    except ValueError as error:
        return f"{error}: {quoted(answer.text)}"


def _fault(candidate: Things, references: Things) -> tuple[str, float | None] | None:
    """Return why objects cannot be matched, and what the item is worth all the same; None if they can."""
    if not candidate:
        return "the candidate names no object", 1.0
    if not references:
        return "the references name no object", 0.0
    if choices(candidate) * choices(references) > MOST_CHOICES:
        return f"its objects may be chosen in more than {MOST_CHOICES:,} ways", None
    return None


_SHORTEST = 3
_UNCERTAIN = "possibly"
# What may follow the root noun of a name: "man in a suit", "box of fruit".
_BEHIND = frozenset({"of", "in", "on", "at", "with", "without", "from", "for", "to", "by", "near", "under", "over"})


def read_objects(answer: str, *, certain: bool) -> list[Alternatives]:
    """Return the things that an answer lists, as released code reads it (aloha.py, ``_parse_objects_...``).

    A thing is a line of three characters or more that begins with "-"; what stands in parentheses is left out, and
    commas and "or" stand between what it may be. Lines in which nothing is left are passed over; released code
    also drops every thing behind such a line.

    Args:
        answer: The answer.
        certain: Whether things that are "possibly" there are left out, as of a candidate.

    Raises:
        ValueError: It is not empty, but none of its lines begins with "-": it is no list, not even an empty one.
    """
    things: list[Alternatives] = []
    lines = answer.strip().split("\n")
    if answer.strip() and not any(line.startswith("-") for line in lines):
        raise ValueError("the answer has no line that begins with '-'")
    for line in lines:
        if len(line) < _SHORTEST or line[0] != "-" or (certain and _UNCERTAIN in line):
            continue
        thing = line.replace(f"({_UNCERTAIN})", "").replace(_UNCERTAIN, "")[1:].split("(")[0].strip()
        names = (name for part in thing.split(",") for name in part.split(" or "))
        if alternatives := tuple(name.lower().strip() for name in names if name.strip()):
            things.append(alternatives)
    return things


def with_roots(things: Sequence[Alternatives], root: Callable[[str], str | None]) -> list[Alternatives]:
    """Return things with, behind each, the root nouns of what it may be, as released of references.

    Args:
        things: Things.
        root: Returns the root noun of a name, or None if it has none.
    """
    expanded: list[Alternatives] = []
    for thing in things:
        expanded.append(thing)
        if roots := tuple(noun for name in thing if (noun := root(name))):
            expanded.append(roots)
    return expanded


def last_word(name: str) -> str | None:
    """Return the last word of a name before any preposition: "top" of "black tank top", "box" of "box of fruit"."""
    words = name.split()
    end = next((number for number, word in enumerate(words) if number and word in _BEHIND), len(words))
    return words[end - 1] if words else None


def root_noun(pipeline: Any, name: str) -> str | None:
    """Return the word of a name that hangs on no other, as a pipeline of spaCy parses it."""
    return next((token.text.lower().strip() for token in pipeline(name) if token.head == token), None)


Aggregate = Literal["min", "mean"]
Unmatched = Literal["ignored", "zero"]

MOST_CHOICES = 10_000
"""Ways of choosing one name for each thing that are gone through for an item."""


@dataclass(frozen=True)
class ObjectMatch:
    """An object of the candidate.

    Attributes:
        name: Its name.
        reference: The reference's object that it is matched with; None where all are taken.
        similarity: Cosine of the two, -1 to 1; 0 without a match.
    """

    name: str
    reference: str | None
    similarity: float


@dataclass(frozen=True)
class ObjectMatching:
    """The matched objects of a candidate, and the scores.

    Attributes:
        value: The least similarity, or their mean.
        objects: The candidate's objects, the least similar first.
        unmatched: What those without a match count.
        unknown: Words of the captions that the parser does not know and passed over.
    """

    value: float
    objects: tuple[ObjectMatch, ...]
    unmatched: Unmatched
    unknown: tuple[str, ...] = ()


def choices(things: Sequence[Alternatives]) -> int:
    """Return in how many ways a name can be chosen for each thing."""
    return math.prod(len(thing) for thing in things)


def best_match(
    candidate: Sequence[Alternatives],
    references: Sequence[Alternatives],
    vectors: Mapping[str, np.ndarray],
    aggregate: Aggregate,
    unmatched: Unmatched,
) -> ObjectMatching:
    """Return the match of the choice of names that scores most, the first of equals; equal names count once.

    Args:
        candidate: The candidate's things, one or more.
        references: The references' things, one or more.
        vectors: Name to its unit vector ``[d]``.
        aggregate: The least similarity, or the mean.
        unmatched: What an object of the candidate counts for which the references have none left: nothing, as
            released, or 0.
    """
    sets, reference_sets = _sets(candidate), _sets(references)
    matchings = [_match(names, others, vectors, aggregate, unmatched) for names in sets for others in reference_sets]
    return max(matchings, key=lambda matching: matching.value)


def _sets(things: Sequence[Alternatives]) -> list[tuple[str, ...]]:
    """Return the different sets of names, each in the order of its letters."""
    return list(dict.fromkeys(tuple(sorted(set(names))) for names in product(*things)))


def _match(
    names: Sequence[str],
    others: Sequence[str],
    vectors: Mapping[str, np.ndarray],
    aggregate: Aggregate,
    unmatched: Unmatched,
) -> ObjectMatching:
    from scipy.optimize import linear_sum_assignment

    similarity = np.stack([vectors[name] for name in names]) @ np.stack([vectors[name] for name in others]).T
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    partner: dict[int, int] = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    objects = [
        ObjectMatch(name, others[partner[row]], float(similarity[row, partner[row]]))
        if row in partner
        else ObjectMatch(name, None, 0.0)
        for row, name in enumerate(names)
    ]
    counted = [match.similarity for match in objects if match.reference is not None or unmatched == "zero"]
    value = min(counted) if aggregate == "min" else sum(counted) / len(counted)
    return ObjectMatching(value, tuple(sorted(objects, key=lambda match: match.similarity)), unmatched)
