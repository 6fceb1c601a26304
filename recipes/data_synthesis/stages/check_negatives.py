"""Checks whether negatives are false, which the paper does not do."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ....adapters import ImageHandle, JudgeRequest
from ....metrics.capture.scene_graphs import Graph
from ....metrics.contract import Context
from ....metrics.vectors.features import image_features, text_features
from ....tasks.dci.mask_texts import BASE, entry_key
from ..asking import PROMPTS, Conversation, converse, says_yes
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings
from .elements import ParserChoice, element_set, graphs_of

_SCALE = 100.0
"""CLIP's own."""


class ClipScores(Stage):
    """Makes ``clip_scores`` of each entry: ``sum`` (the first summary) and ``KIND_NUMBER`` of each negative, in 100ths.

    They select the hardest negative, so that every model gets the same one.
    """

    Settings = StageSettings
    roles = ("encoder",)
    takes = ("mask_data", "summaries", "negatives")
    gives = ("clip_scores",)

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with its scores."""
        for row, similarity in zip(rows, similarities(rows, models), strict=True):
            if isinstance(similarity, str):
                yield NotGenerated(similarity)
                continue
            scores = {
                key: {name: _SCALE * similarity[key][text] for name, text in texts.items()}
                for key, texts in named_texts(row).items()
            }
            about = {"model": models.name("encoder"), "counts": {"entries": len(scores)}}
            yield row.having(self.name, about, clip_scores=scores)


def named_texts(row: PipelineRow) -> dict[str, dict[str, str]]:
    """Return the first summary (``sum``) and the negatives (``swaps_0``, …) of each entry, by DCI's names."""
    return {
        key: {
            "sum": row.values["summaries"][key][0],
            **{f"{kind}_{number}": text for kind, texts in kinds.items() for number, text in enumerate(texts)},
        }
        for key, kinds in row.values["negatives"].items()
    }


def similarities(rows: Sequence[PipelineRow], models: PipelineModels) -> list[dict[str, dict[str, float]] | str]:
    """Return for each row, by entry and text, the cosine of the crop and the text; or why its image cannot be read.

    A crop is the bounding box of the mask.

    Raises:
        AdapterError: The encoder failed as a whole.
    """
    context = Context(models.cache, encoder=models["encoder"])
    places = [
        (number, key, text)
        for number, row in enumerate(rows)
        for key, texts in named_texts(row).items()
        for text in texts.values()
    ]
    crops = [_crop(rows[number], key) for number, key, _ in places]
    images, texts = image_features(crops, context), text_features([text for *_, text in places], context)
    cosines = np.einsum("nd,nd->n", images.of_inputs().astype(np.float64), texts.of_inputs().astype(np.float64))
    results: list[dict[str, dict[str, float]] | str] = [{} for _ in rows]
    for at, (number, key, text) in enumerate(places):
        scores = results[number]
        if at in images.failures:
            results[number] = f"image: {images.failures[at]}"
        elif isinstance(scores, dict):
            scores.setdefault(key, {})[text] = float(cosines[at])
    return results


def _crop(row: PipelineRow, key: str) -> ImageHandle:
    if key == BASE:
        return row.pixels
    bounds = next(mask["bounds"] for mask in row.values["mask_data"].values() if entry_key(mask) == key)
    (left, top), (right, bottom) = ((bounds[corner]["x"], bounds[corner]["y"]) for corner in ("topLeft", "bottomRight"))
    return replace(row.pixels, box=(float(left), float(top), float(right), float(bottom)))


_WORDS = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_Pairs: TypeAlias = Sequence[tuple[int, str, str, str, str]]
"""The number of a row, the entry, the name of a negative, the summary and the negative."""


class CheckNegativesSettings(StageSettings):
    """Its keys."""

    by: tuple[Literal["encoder", "judge", "parser"], ...]
    """Who must distinguish a negative from the summary. ``encoder``: the summary is more similar to the crop.
    ``judge``: answers that the two cannot be of one image. ``parser``: their scene graphs differ."""
    parser: ParserChoice = ParserChoice()
    """The scene graph parser."""
    drop: bool = False
    """Whether to remove negatives that a checker cannot distinguish, and swaps that are not a permutation of the
    summary's words; the last of each kind stays, as an entry needs one."""


class CheckNegatives(Stage):
    """Counts negatives that are indistinguishable from the summary, and swaps with other words; may drop them.

    Provenance gets ``counts``, and ``removed``: the entry, the name of the negative, the text and the reason.
    """

    Settings = CheckNegativesSettings
    settings: CheckNegativesSettings
    takes = ("mask_data", "summaries", "negatives")
    gives = ("negatives",)

    def __init__(self, name: str, settings: CheckNegativesSettings, seed: int) -> None:
        super().__init__(name, settings, seed)
        self.roles = tuple(role for role in settings.by if role != "parser")  # pyrefly: ignore[read-only]

    def check(self) -> None:
        """Raise if a parser is asked that cannot be used here; see ``Stage.check``."""
        if "parser" in self.settings.by:
            self.settings.parser.build().check()

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with what is known of its negatives."""
        pairs = [
            (number, key, name, texts["sum"], text)
            for number, row in enumerate(rows)
            for key, texts in named_texts(row).items()
            for name, text in texts.items()
            if name != "sum"
        ]
        verdicts = {by: getattr(self, f"_by_{by}")(rows, pairs, models) for by in self.settings.by}
        for number, row in enumerate(rows):
            own = [(at, key, name) for at, (of, key, name, *_) in enumerate(pairs) if of == number]
            why = (answers[at] for answers in verdicts.values() for at, *_ in own if isinstance(answers[at], str))
            if fault := next(why, None):
                yield NotGenerated(fault)
                continue
            faults: dict[str, set[tuple[str, str]]] = {
                by: {(key, name) for at, key, name in own if answers[at]} for by, answers in verdicts.items()
            }
            yield self._row(row, faults, models)

    def _row(self, row: PipelineRow, faults: Mapping[str, set[tuple[str, str]]], models: PipelineModels) -> Generated:
        texts = named_texts(row)
        swaps = {
            (key, name)
            for key, named in texts.items()
            for name, text in named.items()
            if name.startswith("swaps_") and not is_permutation(named["sum"], text)
        }
        every = {**{f"not told by {by}": faulty for by, faulty in faults.items()}, "not a permutation": swaps}
        counts = {"negatives": sum(len(named) - 1 for named in texts.values())}
        counts["swaps"] = sum(name.startswith("swaps_") for named in texts.values() for name in named)
        counts |= {why: len(faulty) for why, faulty in every.items()}
        counts["not told by any"] = len(set.intersection(*map(set, faults.values()))) if faults else 0
        about: dict[str, Any] = {"models": {role: models.name(role) for role in self.roles}, "counts": counts}
        if not self.settings.drop:
            return row.having(self.name, about)
        negatives, removed = _without(row, every)
        return row.having(self.name, {**about, "removed": removed}, negatives=negatives)

    # Each returns for every pair whether it is indistinguishable, or why it could not be checked.

    def _by_encoder(self, rows: Sequence[PipelineRow], pairs: _Pairs, models: PipelineModels) -> list[bool | str]:
        scores = similarities(rows, models)
        return [
            of_row if isinstance(of_row := scores[number], str) else of_row[key][text] >= of_row[key][summary]
            for number, key, _, summary, text in pairs
        ]

    def _by_parser(self, rows: Sequence[PipelineRow], pairs: _Pairs, models: PipelineModels) -> list[bool | str]:
        every = [text for *_, summary, negative in pairs for text in (summary, negative)]
        graphs = graphs_of(every, self.settings.parser.build(), models.cache)

        def same(left: Graph | str, right: Graph | str) -> bool:
            # An unparsable text counts as indistinguishable.
            return not (isinstance(left, Graph) and isinstance(right, Graph)) or element_set(left) == element_set(right)

        return [same(graphs[summary], graphs[text]) for *_, summary, text in pairs]

    def _by_judge(self, rows: Sequence[PipelineRow], pairs: _Pairs, models: PipelineModels) -> list[bool | str]:
        said = converse(models["judge"], [_same_image(summary, text) for *_, summary, text in pairs])
        return [bool(answer.result) for answer in said]


def is_permutation(summary: str, swaps: str) -> bool:
    """Return whether two texts have the same words and counts, ignoring case and punctuation."""
    first, second = (Counter(word.lower() for word in _WORDS.findall(text)) for text in (summary, swaps))
    return first == second


def _same_image(caption: str, negative: str) -> Conversation[bool]:
    answer = yield JudgeRequest(PROMPTS["same image"].format(caption=caption, negative=negative), max_tokens=8)
    # An answer without yes or no counts as indistinguishable.
    return says_yes(answer) is not False


def _without(
    row: PipelineRow, faults: Mapping[str, set[tuple[str, str]]]
) -> tuple[dict[str, dict[str, list[str]]], list[dict[str, str]]]:
    """Return the negatives that stay, and those to remove with the reason."""
    kept: dict[str, dict[str, list[str]]] = {}
    removed: list[dict[str, str]] = []
    for key, kinds in row.values["negatives"].items():
        kept[key] = {}
        for kind, texts in kinds.items():
            why = {
                number: reason
                for number in range(len(texts))
                if (reason := ", ".join(by for by, faulty in faults.items() if (key, f"{kind}_{number}") in faulty))
            }
            gone = {number: reason for number, reason in why.items() if len(why) < len(texts) or number != 0}
            kept[key][kind] = [text for number, text in enumerate(texts) if number not in gone]
            removed += [
                {"entry": key, "negative": f"{kind}_{number}", "text": texts[number], "why": reason}
                for number, reason in gone.items()
            ]
    return kept, removed
