"""Summaries and negatives of DCI: a judge writes them for each entry of an image, the whole and its masks.

Source: Urbanek et al. 2024, appendix 7 (the prompts), and facebookresearch/DCI, ``prepare/`` and
``dataset/dense_image.py`` (the rules).
"""

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ....adapters import JudgeRequest
from ....adapters.encoders.clip_tokens import CONTEXT, clip_tokens
from ....tasks.dci.mask_texts import BASE, MaskTexts
from .. import asking
from ..asking import PROMPTS, Conversation, NoUse
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings


class MaskTree(MaskTexts):
    """Texts of an image and of its masks, whole or truncated; arguments as of ``MaskTexts``."""

    def cut_whole(self, most: int) -> str:
        """Return the text of the whole image, without its last lines.

        Args:
            most: Tokens that it may have.
        """
        said, lines = self._whole()
        while lines and clip_tokens(said + "\n".join(lines)) > most:
            lines.pop()
        return asking.cut_to_tokens(said + "\n".join(lines), most)

    def cut_part(self, number: str, most: int) -> str:
        """Return the text of a mask, without what is deepest in the tree.

        Args:
            number: The mask.
            most: Tokens that it may have.
        """
        depths = dict(self._below(number))
        while depths and clip_tokens(self._part(number, depths)) > most:
            deepest = max(depths.values())
            depths = {key: depth for key, depth in depths.items() if depth < deepest}
        return asking.cut_to_tokens(self._part(number, depths), most)

    def cut_entries(self, most: int) -> dict[str, str]:
        """Return the truncated text of each entry.

        Args:
            most: Tokens that a text may have.
        """
        parts = {key: self.cut_part(number, most) for key, number in self.said_of().items()}
        return {BASE: self.cut_whole(most)} | parts


NEGATIVES: dict[str, str] = PROMPTS["negatives"]
_PREFACE = 100
"""Maximum length of a preface ("Sure! Here is …") in characters."""
_FEW_TOKENS = 9
_REDUCTIONS = 3
"""Number of answers that may fail (no shorter, or several lines) before a text is given up."""
_NUMBERED = re.compile(r"^\s*(\d+)[.)]\s*(.*\S)\s*$")


class AskingSettings(StageSettings):
    """Keys of stages that use a judge."""

    temperature: Annotated[float, Field(ge=0)] = 0.72
    """0: a single request per text, as the answer would be the same."""
    tries: Annotated[int, Field(gt=0)] = 5
    """Maximum number of requests until an answer is usable."""
    language: asking.Language = "english"
    """``english``: an answer in another language is requested again."""


@dataclass(frozen=True)
class Asker:
    """Creates the requests for one text, each with another seed.

    Attributes:
        settings: The judge's settings.
        seed: The pipeline's.
        names: Identifies the text: row, entry, kind.
    """

    settings: AskingSettings
    seed: int
    names: tuple[str, ...]

    @property
    def tries(self) -> int:
        """Number of requests that can give different answers."""
        return self.settings.tries if self.settings.temperature else 1

    def request(self, prompt: str, system: str, tokens: int, attempt: object) -> JudgeRequest:
        """Return the request of an attempt."""
        drawn = self.settings.temperature > 0
        seed = asking.seed_of(self.seed, *self.names, attempt)
        decoding = {"temperature": self.settings.temperature, "seed": seed} if drawn else {}
        return JudgeRequest(prompt, max_tokens=tokens, system=system, decoding=decoding)

    def line(self, answer: str) -> str:
        """Return the one line of an answer, without a preface.

        Raises:
            NoUse: It has none, several, or one in another language.
        """
        answer = answer.strip()
        if answer.rfind("\n") > _PREFACE:
            raise NoUse("the answer has several lines")
        line = answer.rpartition("\n")[2].strip().strip('"“”').strip()
        if not line:
            raise NoUse("the judge said nothing")
        if fault := asking.language_fault(line, self.settings.language):
            raise NoUse(f"the answer {fault}")
        return line


def reduced(text: str, most: int, asker: Asker, tokens: int, attempt: object) -> Conversation[str]:
    """Shorten a text to ``most`` tokens by asking; a text that is short enough is returned unchanged.

    Raises:
        NoUse: Answers were not shorter.
    """
    failures = step = 0
    while (count := clip_tokens(text)) > most:
        system = PROMPTS["few words shorter" if count - most <= _FEW_TOKENS else "shorter"]
        step += 1
        try:
            shorter = asker.line((yield asker.request(text, system, tokens, f"reduce {attempt} {step}")))
            if clip_tokens(shorter) >= count:
                raise NoUse("the answer is no shorter than the text")
            text = shorter
        except NoUse as fault:
            failures += 1
            if failures > _REDUCTIONS or asker.tries == 1:
                raise NoUse(f"cannot be reduced to {most} tokens: {fault}") from fault
    return text


def numbered_lines(answer: str, count: int, asker: Asker) -> list[str]:
    """Return the texts of a numbered list.

    Raises:
        NoUse: It does not have ``count`` lines numbered from 1, or one is in another language.
    """
    matches = [match for line in answer.splitlines() if (match := _NUMBERED.match(line))]
    if [int(match[1]) for match in matches] != list(range(1, count + 1)):
        raise NoUse(f"the answer has no {count} numbered lines")
    return [asker.line(match[2]) for match in matches]


@dataclass
class EntryResults:
    """The outcome for the entries of a row.

    Attributes:
        results: Entry to its result.
        faults: Entry to the reason for which it failed.
        asked: The number of requests.
        silent: Why the judge gave no answer, of the entries that failed.
    """

    results: dict[str, Any] = field(default_factory=dict[str, Any])
    faults: dict[str, str] = field(default_factory=dict[str, str])
    asked: int = 0
    silent: str = ""


class EntryStage(Stage):
    """A stage with judge requests for each entry."""

    roles = ("judge",)
    settings: AskingSettings
    asks: ClassVar[Mapping[str, str]]
    """What the judge is asked, by name."""
    lacking: ClassVar[str] = ""
    """Reason for a row whose whole image failed; empty if the row is usable anyway."""

    @abstractmethod
    def conversations(self, row: PipelineRow) -> Mapping[str, Conversation[Any]]:
        """Return the conversations on a row, by entry."""

    @abstractmethod
    def values(self, row: PipelineRow, reply: EntryResults) -> dict[str, Any]:
        """Return the values that a row gets; what its provenance is to count are the results of ``reply``."""

    def asker(self, row: PipelineRow, *names: str) -> Asker:
        """Return the requests for one text of a row."""
        return Asker(self.settings, self.seed, (self.name, row.id, *names))

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with its results, for which all conversations are held together."""
        flat = [(number, *entry) for number, row in enumerate(rows) for entry in self.conversations(row).items()]
        replies = [EntryResults() for _ in rows]
        outcomes = asking.converse(models["judge"], [conversation for *_, conversation in flat])
        for (number, key, _), said in zip(flat, outcomes, strict=True):
            reply = replies[number]
            reply.asked += said.asked
            if said.result is None:
                reply.silent = said.silent or reply.silent
                reply.faults[key] = said.silent or said.fault
            else:
                reply.results[key] = said.result
        for row, reply in zip(rows, replies, strict=True):
            yield self._row(row, reply, self.values(row, reply), models)

    def _row(
        self, row: PipelineRow, reply: EntryResults, values: Mapping[str, Any], models: PipelineModels
    ) -> Generated:
        """Return a row with its results and provenance; it fails if ``lacking`` is set and the whole image failed."""
        if self.lacking and BASE not in reply.results:
            whys = (why for key, why in reply.faults.items() if key.partition(" ")[0] == BASE)
            return NotGenerated(f"{self.lacking}: {next(whys, 'nothing is said of it')}", passing=bool(reply.silent))
        about = {
            "model": models.name("judge"),
            "prompts": dict(self.asks),
            "seed": self.seed,
            "requests": reply.asked,
            "counts": {"entries": len(reply.results), "left out": len(reply.faults)},
            **({"left_out": reply.faults} if reply.faults else {}),
        }
        return replace(row.having(self.name, about, **values), passing=bool(reply.silent))


class NegativesSettings(AskingSettings):
    """Its keys."""

    of_image: Annotated[int, Field(gt=0)] = 3
    """Of each kind."""
    of_mask: Annotated[int, Field(gt=0)] = 1
    """Of each kind, of a caption of a part."""
    shorter: Annotated[int, Field(ge=0)] = 15
    """Maximum number of tokens by which it may be shorter than the summary; otherwise it is requested again."""
    longer: Annotated[int, Field(ge=0)] = 50
    """Maximum number of tokens by which an answer may be longer …"""
    reduced_to: Annotated[int, Field(ge=0)] = 5
    """… before it is shortened to this number more than the summary's, at most CLIP's context."""
    new_tokens: Annotated[int, Field(gt=0)] = 150
    """Of the judge's own."""


class Negatives(EntryStage):
    """Makes ``negatives`` of each entry, by kind: basic, layout, swaps."""

    Settings = NegativesSettings
    settings: NegativesSettings  # pyrefly: ignore[bad-override-mutable-attribute]
    takes = ("summaries",)
    gives = ("negatives",)
    asks = NEGATIVES
    lacking = "the whole image lacks negatives"

    def conversations(self, row: PipelineRow) -> Mapping[str, Conversation[Any]]:
        """Return the conversations on a row, by entry, kind and number."""
        return {
            f"{key} {kind} {number}": self._negative(texts[0], kind, self.asker(row, key, kind, str(number)))
            for key, texts in row.values["summaries"].items()
            for kind in NEGATIVES
            for number in range(self.settings.of_image if key == BASE else self.settings.of_mask)
        }

    def values(self, row: PipelineRow, reply: EntryResults) -> dict[str, Any]:
        """Return the negatives; an entry without one of a kind loses its summaries, too."""
        summaries = row.values["summaries"]
        by_entry: dict[str, dict[str, list[str]]] = {key: {kind: [] for kind in NEGATIVES} for key in summaries}
        for name, text in reply.results.items():
            key, kind, _ = name.rsplit(" ", 2)
            by_entry[key][kind].append(text)
        reply.results = {key: kinds for key, kinds in by_entry.items() if all(kinds.values())}
        return {"negatives": reply.results, "summaries": {key: summaries[key] for key in reply.results}}

    def _negative(self, summary: str, kind: str, asker: Asker) -> Conversation[str]:
        settings, own = self.settings, clip_tokens(summary)

        def ask(attempt: int) -> Conversation[str]:
            request = asker.request(summary, NEGATIVES[kind], settings.new_tokens, attempt)
            answer = asker.line((yield request))
            if not own - settings.shorter <= clip_tokens(answer) <= own + settings.longer:
                raise NoUse("the answer is much shorter or longer than the summary")
            if answer == summary:
                raise NoUse("the answer is the summary itself")
            most = min(own + settings.reduced_to, CONTEXT)
            return (yield from reduced(answer, most, asker, settings.new_tokens, attempt))

        return asking.first_of_use(asker.tries, ask)


_AT_ONCE = 5


class MoreSummariesSettings(AskingSettings):
    """Its keys."""

    input_tokens: Annotated[int, Field(gt=2)] = 1_000
    """Maximum number of CLIP tokens of a text; an image's loses its last lines, a mask's the deepest of its tree."""
    new_tokens: Annotated[int, Field(gt=0)] = 1_400
    """Of the judge's own."""
    of_image: Annotated[int, Field(ge=0)] = 8
    """The judge is asked until an image has more summaries than this."""
    of_mask: Annotated[int, Field(ge=0)] = 4
    """The same for a mask, or the logarithm of its tokens if that is larger."""


class MoreSummaries(EntryStage):
    """Adds to the ``summaries`` of each entry, five at a time; those over the context are left out.

    Summaries so far are kept after the last try: an entry has its first summary in any case.
    """

    Settings = MoreSummariesSettings
    settings: MoreSummariesSettings  # pyrefly: ignore[bad-override-mutable-attribute]
    takes = ("mask_data", "summaries")
    gives = ("summaries",)
    asks: ClassVar = {"several": PROMPTS["several"]}

    def conversations(self, row: PipelineRow) -> Mapping[str, Conversation[Any]]:
        """Return a conversation on each entry."""
        texts = MaskTree(row.values).cut_entries(self.settings.input_tokens)
        first = row.values["summaries"]
        return {key: self._further(texts[key], known, key, self.asker(row, key)) for key, known in first.items()}

    def values(self, row: PipelineRow, reply: EntryResults) -> dict[str, Any]:
        """Return the summaries with those that were added."""
        return {"summaries": {**row.values["summaries"], **reply.results}}

    def _further(self, text: str, first: Sequence[str], key: str, asker: Asker) -> Conversation[list[str]]:
        settings = self.settings
        wanted = settings.of_image if key == BASE else max(settings.of_mask, math.log(clip_tokens(text)))
        # In the order in which they came, each once.
        summaries = dict.fromkeys(first)
        fault = NoUse("nothing new was said")
        for attempt in range(asker.tries):
            if len(summaries) > wanted:
                break
            prompt = f"Full description: {text}\n\nSummaries:"
            try:
                answer = yield asker.request(prompt, PROMPTS["several"], settings.new_tokens, attempt)
                lines = numbered_lines(answer, _AT_ONCE, asker)
            except NoUse as reason:
                fault = reason
                continue
            summaries |= dict.fromkeys(line for line in lines if clip_tokens(line) < CONTEXT)
        if len(summaries) == len(first):
            raise fault
        return list(summaries)


class FirstSummarySettings(AskingSettings):
    """Its keys."""

    least_area: int = 5_000
    """Pixels; smaller masks, and what they are made of, are left out."""
    prompts: Literal["released", "by_part"] = "released"
    """Which texts count as texts of a part of an image: in the released code, those that are short enough already; or
    those of masks."""
    input_tokens: Annotated[int, Field(gt=2)] = 2_000
    """Number of CLIP tokens to which a text is truncated."""
    most_tokens: Annotated[int, Field(gt=2)] = 139
    """Maximum number of tokens of an answer; a longer one is requested again."""
    tokens: Annotated[int, Field(gt=2)] = 75
    """Number of tokens to which a summary is shortened."""
    new_tokens: Annotated[int, Field(gt=0)] = 250
    """Of the judge's own."""


class FirstSummary(EntryStage):
    """Summarises the text of each entry in CLIP's tokens: ``summaries``, a list of one each."""

    Settings = FirstSummarySettings
    settings: FirstSummarySettings  # pyrefly: ignore[bad-override-mutable-attribute]
    takes = ("mask_data",)
    gives = ("summaries",)
    lacking = "the whole image has no summary"
    asks: ClassVar = {name: PROMPTS[name] for name in ("full image", "submask")}

    def conversations(self, row: PipelineRow) -> Mapping[str, Conversation[Any]]:
        """Return a conversation on each entry with a text."""
        entries = MaskTexts(row.values, self.settings.least_area).entries()
        return {key: self._summary(text, key, self.asker(row, key)) for key, text in entries.items() if text}

    def values(self, row: PipelineRow, reply: EntryResults) -> dict[str, Any]:
        """Return the summaries."""
        return {"summaries": {key: [text] for key, text in reply.results.items()}}

    def _summary(self, text: str, key: str, asker: Asker) -> Conversation[str]:
        settings = self.settings
        text = asking.cut_to_tokens(text, settings.input_tokens)
        is_part = clip_tokens(text) <= settings.tokens if settings.prompts == "released" else key != BASE
        system = PROMPTS["submask" if is_part else "full image"]

        def ask(attempt: int) -> Conversation[str]:
            answer = asker.line((yield asker.request(text, system, settings.new_tokens, attempt)))
            if clip_tokens(answer) > settings.most_tokens:
                raise NoUse(f"the answer has more than {settings.most_tokens} tokens")
            return (yield from reduced(answer, settings.tokens, asker, settings.new_tokens, attempt))

        return asking.first_of_use(asker.tries, ask)
