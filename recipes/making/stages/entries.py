"""What stages have in common that ask a judge about each entry of an image: the whole, and its masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ....adapters.encoders.clip_tokens import CONTEXT
from ....tasks.dci.mask_texts import BASE
from ..asking import Conversation, NoUse, converse
from ..contract import Stage
from ..language import clip_tokens, cut_to_tokens
from ..mask_texts import MaskTree
from ..models import MakerModels
from ..rows import Made, MakingRow, Unmade
from ..summaries import FULL_IMAGE, NEGATIVES, SEVERAL, SUBMASK, Asker, AskingSettings, numbered_lines, reduced


@dataclass
class EntryResults:
    """What became of the entries of a row.

    Attributes:
        results: Entry to what was made.
        faults: Entry to the reason, where nothing was.
        asked: Requests that were made.
        silent: Why the judge gave no answer, of the entries where nothing was made.
    """

    results: dict[str, Any] = field(default_factory=dict[str, Any])
    faults: dict[str, str] = field(default_factory=dict[str, str])
    asked: int = 0
    silent: str = ""


class EntryStage(Stage):
    """Asks a judge about each entry."""

    roles = ("judge",)
    settings: AskingSettings

    def asker(self, row: MakingRow, *names: str) -> Asker:
        """Return what asks for one text of a row."""
        return Asker(self.settings, self.seed, (self.name, row.id, *names))

    def ask(
        self, rows: Sequence[MakingRow], models: MakerModels, conversations: Sequence[Mapping[str, Conversation[Any]]]
    ) -> list[EntryResults]:
        """Return what became of the conversations about each row, by entry; all go on together."""
        flat = [(number, key, one) for number, its in enumerate(conversations) for key, one in its.items()]
        told = [EntryResults() for _ in rows]
        for (number, key, _), said in zip(flat, converse(models["judge"], [one for *_, one in flat]), strict=True):
            its = told[number]
            its.asked += said.asked
            if said.result is None:
                its.silent = said.silent or its.silent
                its.faults[key] = said.silent or said.fault
            else:
                its.results[key] = said.result
        return told

    def unmade(self, told: EntryResults) -> str | None:
        """Return why nothing can be made of a row, or None if something was."""
        return None

    def row(
        self, row: MakingRow, told: EntryResults, models: MakerModels, prompts: Mapping[str, str], **values: Any
    ) -> Made:
        """Return a row with what was made, and where it came from; unmade where that is of no use."""
        if (fault := self.unmade(told)) is not None:
            return Unmade(fault, passing=bool(told.silent))
        about = {
            "model": models.name("judge"),
            "prompts": dict(prompts),
            "seed": self.seed,
            "requests": told.asked,
            "counts": {"entries": len(told.results), "left out": len(told.faults)},
            **({"left_out": told.faults} if told.faults else {}),
        }
        return replace(row.having(self.name, about, **values), passing=bool(told.silent))


class NegativesSettings(AskingSettings):
    """Its keys."""

    of_image: Annotated[int, Field(gt=0)] = 3
    """Of each kind."""
    of_mask: Annotated[int, Field(gt=0)] = 1
    """Of each kind, of a caption of a part."""
    shorter: Annotated[int, Field(ge=0)] = 15
    """Tokens that one may be shorter than the summary; others are asked for again."""
    longer: Annotated[int, Field(ge=0)] = 50
    """Tokens that an answer may be longer …"""
    reduced_to: Annotated[int, Field(ge=0)] = 5
    """… before it is reduced to so many more than the summary, and never more than CLIP's context."""
    new_tokens: Annotated[int, Field(gt=0)] = 150
    """Of the judge's own."""


class Negatives(EntryStage):
    """Makes ``negatives`` of each entry: by kind (basic, layout, swaps), so many of each."""

    Settings = NegativesSettings
    settings: NegativesSettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("summaries",)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("negatives",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with negatives; an entry that lacks one of a kind loses its summaries, too."""
        conversations = [
            {
                f"{key} {kind} {number}": self._negative(its[0], kind, self.asker(row, key, kind, str(number)))
                for key, its in row.values["summaries"].items()
                for kind in NEGATIVES
                for number in range(self.settings.of_image if key == BASE else self.settings.of_mask)
            }
            for row in rows
        ]
        made: list[Made] = []
        for row, told in zip(rows, self.ask(rows, models, conversations), strict=True):
            by_entry = _by_entry(row.values["summaries"], told)
            summaries = {key: row.values["summaries"][key] for key in by_entry}
            told.results = by_entry
            made.append(self.row(row, told, models, NEGATIVES, negatives=by_entry, summaries=summaries))
        return made

    def unmade(self, told: EntryResults) -> str | None:
        """Return why the row is of no use."""
        if BASE in told.results:
            return None
        reason = next((why for key, why in told.faults.items() if key.startswith(f"{BASE} ")), "")
        return f"the whole image lacks negatives: {reason}"

    def _negative(self, summary: str, kind: str, asker: Asker) -> Conversation[str]:
        settings, own = self.settings, clip_tokens(summary)
        fault: NoUse | None = None
        for attempt in range(asker.tries):
            try:
                request = asker.request(summary, NEGATIVES[kind], settings.new_tokens, attempt)
                answer = asker.line((yield request))
                if not own - settings.shorter <= clip_tokens(answer) <= own + settings.longer:
                    raise NoUse("the answer is much shorter or longer than the summary")
                if answer == summary:
                    raise NoUse("the answer is the summary itself")
                most = min(own + settings.reduced_to, CONTEXT)
                return (yield from reduced(answer, most, asker, settings.new_tokens, attempt))
            except NoUse as found:
                fault = found
        raise fault or NoUse("was not asked for")


def _by_entry(summaries: Sequence[str], told: EntryResults) -> dict[str, dict[str, list[str]]]:
    """Return entry to kind to texts, of the entries that have some of every kind."""
    found: dict[str, dict[str, list[str]]] = {key: {kind: [] for kind in NEGATIVES} for key in summaries}
    for name, text in told.results.items():
        key, kind, _ = name.rsplit(" ", 2)
        found[key][kind].append(text)
    return {key: kinds for key, kinds in found.items() if all(kinds.values())}


_AT_ONCE = 5


class MoreSummariesSettings(AskingSettings):
    """Its keys."""

    input_tokens: Annotated[int, Field(gt=2)] = 1_000
    """A text has so many of CLIP's tokens: the last lines of an image's are left out, the deepest of a mask's."""
    new_tokens: Annotated[int, Field(gt=0)] = 1_400
    """Of the judge's own."""
    of_image: Annotated[int, Field(ge=0)] = 8
    """It is asked until there are more than so many of an image."""
    of_mask: Annotated[int, Field(ge=0)] = 4
    """The same of a mask, or the logarithm of its tokens where that is more."""


class MoreSummaries(EntryStage):
    """Adds to the ``summaries`` of each entry, five at a time; those over the context are left out.

    What is there after the last try is kept: an entry has its first summary in any case.
    """

    Settings = MoreSummariesSettings
    settings: MoreSummariesSettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("mask_data", "summaries")

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("summaries",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with further summaries."""
        conversations = []
        for row in rows:
            texts = MaskTree(row.values).entries(self.settings.input_tokens)
            first = row.values["summaries"]
            conversations.append(
                {key: self._further(texts[key], its, key, self.asker(row, key)) for key, its in first.items()}
            )
        made = self.ask(rows, models, conversations)
        return [
            self.row(row, told, models, {"several": SEVERAL}, summaries={**row.values["summaries"], **told.results})
            for row, told in zip(rows, made, strict=True)
        ]

    def _further(self, text: str, first: Sequence[str], key: str, asker: Asker) -> Conversation[list[str]]:
        import math

        settings = self.settings
        wanted = settings.of_image if key == BASE else max(settings.of_mask, math.log(clip_tokens(text)))
        # In the order in which they came, each once.
        found = dict.fromkeys(first)
        fault = NoUse("nothing new was said")
        for attempt in range(asker.tries):
            if len(found) > wanted:
                break
            prompt = f"Full description: {text}\n\nSummaries:"
            try:
                answer = yield asker.request(prompt, SEVERAL, settings.new_tokens, attempt)
                lines = numbered_lines(answer, _AT_ONCE, asker)
            except NoUse as reason:
                fault = reason
                continue
            found |= dict.fromkeys(line for line in lines if clip_tokens(line) < CONTEXT)
        if len(found) == len(first):
            raise fault
        return list(found)


class FirstSummarySettings(AskingSettings):
    """Its keys."""

    least_area: int = 5_000
    """Pixels; smaller masks, and what they are made of, are left out."""
    prompts: Literal["released", "by_part"] = "released"
    """Which texts are said to be of a part of an image: of the released code, those that are short enough already; or
    those of masks."""
    input_tokens: Annotated[int, Field(gt=2)] = 2_000
    """A text is cut to so many of CLIP's tokens."""
    most_tokens: Annotated[int, Field(gt=2)] = 139
    """An answer of more is asked for again."""
    tokens: Annotated[int, Field(gt=2)] = 75
    """A summary is reduced to so many."""
    new_tokens: Annotated[int, Field(gt=0)] = 250
    """Of the judge's own."""


class FirstSummary(EntryStage):
    """Summarises the text of each entry in CLIP's tokens: ``summaries``, a list of one each."""

    Settings = FirstSummarySettings
    settings: FirstSummarySettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("mask_data",)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("summaries",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its summaries; one whose whole image has none is unmade."""
        texts = [MaskTree(row.values, self.settings.least_area).entries() for row in rows]
        made = self.ask(
            rows,
            models,
            [
                {key: self._summary(text, key, self.asker(row, key)) for key, text in its.items() if text}
                for row, its in zip(rows, texts, strict=True)
            ],
        )
        prompts = {"full image": FULL_IMAGE, "submask": SUBMASK}
        return [
            self.row(row, told, models, prompts, summaries={key: [text] for key, text in told.results.items()})
            for row, told in zip(rows, made, strict=True)
        ]

    def unmade(self, told: EntryResults) -> str | None:
        """Return why the row is of no use."""
        if BASE in told.results:
            return None
        return f"the whole image has no summary: {told.faults.get(BASE, 'nothing is said of it')}"

    def _summary(self, text: str, key: str, asker: Asker) -> Conversation[str]:
        settings = self.settings
        text = cut_to_tokens(text, settings.input_tokens)
        is_part = clip_tokens(text) <= settings.tokens if settings.prompts == "released" else key != BASE
        fault: NoUse | None = None
        for attempt in range(asker.tries):
            system = SUBMASK if is_part else FULL_IMAGE
            try:
                answer = asker.line((yield asker.request(text, system, settings.new_tokens, attempt)))
                if clip_tokens(answer) > settings.most_tokens:
                    raise NoUse(f"the answer has more than {settings.most_tokens} tokens")
                return (yield from reduced(answer, settings.tokens, asker, settings.new_tokens, attempt))
            except NoUse as found:
                fault = found
        raise fault or NoUse("was not asked for")
