"""What CAPTURE matched, as rows for people, and the caption of a task that they are of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...errors import UsageError, did_you_mean
from ...metrics.capture.matching import Element, Kind, Matched
from ...metrics.capture.metric import Explanation
from ...metrics.capture.scene_graphs import Graph
from ...progress import Progress
from ...tasks.documents import load_documents
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..protocols.job import Job
from ..running.plan import PlannedRun
from ..store.store import Store

How = Literal["equal", "synonym", "similar", "unmatched", "left out"]
HOWS: Mapping[How, str] = {
    "equal": "equal words, counts 1",
    "synonym": "synonyms, counts 1",
    "similar": "left over, counts the cosine to the most similar one left over on the other side",
    "unmatched": "matched with nothing, counts 0",
    "left out": "not compared: a stop word, or no noun of the caption",
}

Side = Literal["candidate", "reference"]


@dataclass(frozen=True)
class Row:
    """One line of what was matched.

    Attributes:
        how: In which way.
        candidate: The candidate's element; empty where there is none.
        reference: The reference's.
        of: Whose element counts: both sides' where they are matched, else that of the side left over.
        similarity: Their cosine, where they are similar.
        remark: Why an element was left out.
    """

    how: How
    candidate: str
    reference: str
    of: Side | Literal["both"]
    similarity: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Span:
    """A part of a caption, and how what it names was matched; None for the text between."""

    text: str
    how: How | None


def rows(matched: Matched) -> list[Row]:
    """Return what was matched of one kind: one to one first, then what was left over on either side."""
    mine, theirs = matched.pairing.candidate, matched.pairing.reference
    found = [Row("equal", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.equal]
    found += [Row("synonym", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.synonymous]
    left_mine, left_theirs = matched.pairing.left_over()
    if matched.candidate_similar:
        for one in matched.candidate_similar:
            found.append(
                Row("similar", name(mine[one.element]), name(theirs[one.nearest]), "candidate", one.similarity)
            )  # fmt: skip
        for one in matched.reference_similar:
            found.append(
                Row("similar", name(mine[one.nearest]), name(theirs[one.element]), "reference", one.similarity)
            )  # fmt: skip
        return found
    found += [Row("unmatched", name(mine[a]), "", "candidate") for a in left_mine]
    return found + [Row("unmatched", "", name(theirs[b]), "reference") for b in left_theirs]


def left_out(explanation: Explanation) -> list[Row]:
    """Return the objects that the parser found and that were not compared."""
    return [
        Row("left out", one, "", "candidate", remark=why) for one, why in explanation.candidate.left_out
    ] + [Row("left out", "", one, "reference", remark=why) for one, why in explanation.reference.left_out]


def name(element: Element) -> str:
    """Return an element as people read it."""
    if element.owner:
        return f"{element.words[0]} ({element.owner})"
    return " – ".join(element.words)


def spans(text: str, explanation: Explanation, side: Side) -> list[Span]:
    """Return a caption in parts, with the words that name its objects and attributes marked.

    Graphs do not say where a word stood: an element is looked for by its letters, in singular or plural. The
    places serve the eye alone.
    """
    how = dict(_hows(explanation, side))
    if not how:
        return [Span(text, None)]
    longest_first = sorted(how, key=len, reverse=True)
    # One group a word, in singular or plural: which of them matched, says whose place it is.
    pattern = re.compile(rf"\b(?:{'|'.join(map(_forms, longest_first))})\b", flags=re.IGNORECASE)
    found: list[Span] = []
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            found.append(Span(text[end : match.start()], None))
        found.append(Span(match.group(), how[longest_first[(match.lastindex or 1) - 1]]))
        end = match.end()
    return [*found, Span(text[end:], None)] if end < len(text) else found


def _forms(word: str) -> str:
    """Return the pattern of a word and its plural, as one group."""
    if word.endswith("y") and not word.endswith(("ay", "ey", "oy", "uy")):
        return f"({re.escape(word[:-1])}(?:y|ies))"
    return f"({re.escape(word)}(?:e?s)?)"


def _hows(explanation: Explanation, side: Side) -> Iterator[tuple[str, How]]:
    """Yield words of a side and how they were matched; what comes later counts."""
    graph: Graph = getattr(explanation, side)
    for word, _ in graph.left_out:
        if word:
            yield word.lower(), "left out"
    kinds: tuple[Kind, ...] = ("attribute", "object")
    for kind in kinds:
        matched = explanation.matched[kind]
        its: tuple[Element, ...] = getattr(matched.pairing, side)
        number = 0 if side == "candidate" else 1
        similar = matched.candidate_similar or matched.reference_similar
        status: dict[int, How] = dict.fromkeys(range(len(its)), "similar" if similar else "unmatched")
        status |= {pair[number]: "synonym" for pair in matched.pairing.synonymous}
        status |= {pair[number]: "equal" for pair in matched.pairing.equal}
        for at, one in status.items():
            if its[at].words[0]:
                yield its[at].words[0].lower(), one


def find_sample(
    planned: PlannedRun,
    sample: str,
    models: Models,
    *,
    locations: DataLocations,
    store: Store,
    progress: Progress,
) -> CaptionRow:
    """Return the caption of a task that has an id, as its protocol would score it.

    Raises:
        UsageError: There is none.
        BenchError: The data or the model fails.
    """
    documents = load_documents(planned.task, planned.path, locations)
    failures = FailureLog(strict=False)
    job = Job(
        planned.task,
        documents,
        models,
        RunSettings(),
        store,
        progress,
        planned.pixels,
    )
    samples: list[str] = []
    for shard in planned.protocol.collect(job, failures):
        # Rows that are no single captions are made of items with ids of their own.
        single = "candidate" in shard.columns
        ids = list(shard.columns["id"] if single else shard.items.ids)
        if sample in ids:
            at = ids.index(sample)
            item = int(shard.item_of_sample[at]) if single else at
            its = shard.items
            return CaptionRow(
                sample,
                its.image_names[item] if its.image_names else "",
                its.candidates[item],
                its.references[item],
                pixels=its.images[item] if its.images else None,
            )
        samples += ids
    reasons = [f"{one.subject} {one.reason}" for one in failures.entries if one.sample == sample]
    if reasons:
        raise UsageError(f"task '{planned.task.task}': sample '{sample}' is not scored: {reasons[0]}")
    raise UsageError(
        f"task '{planned.task.task}' has no sample '{sample}'.{did_you_mean(sample, samples)}",
        f"There are {len(samples):,}; the first is '{samples[0] if samples else ''}'.",
    )
