"""Merges the caption of an image and the captions of its parts with a judge."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from ....adapters import JudgeRequest
from ....metrics.judging import fill
from ..asking import PROMPTS, Conversation, Language, NoUse, converse, first_of_use, language_fault, seed_of
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings


class MergeSettings(StageSettings):
    """Its keys."""

    overall: str
    """The value that holds the caption of the whole."""
    elements: str
    """The value that holds the captions of parts."""
    to: str
    """The value that is made."""
    prompt: str = PROMPTS["merge"]
    """With ``{overall}`` and ``{elements}``."""
    beams: Annotated[int, Field(gt=0)] = 3
    """Beam size; only without sampling."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """0: no sampling, and a single request, as the answer would be the same."""
    new_tokens: Annotated[int, Field(gt=0)] = 500
    """The most tokens of an answer."""
    tries: Annotated[int, Field(gt=0)] = 3
    """Maximum number of requests until an answer is usable, with sampling."""
    language: Language = "english"
    """``english``: an answer in another language is requested again."""


class Merge(Stage):
    """Combines captions with a judge. A row without captions of parts keeps the caption of the whole."""

    Settings = MergeSettings
    settings: MergeSettings
    roles = ("judge",)
    takes = ("{overall}", "{elements}")
    gives = ("{to}",)

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with its merged caption."""
        said = converse(models["judge"], [self._merged(row) for row in rows])
        for row, answer in zip(rows, said, strict=True):
            if answer.result is None:
                yield NotGenerated(answer.silent or answer.fault, passing=bool(answer.silent))
                continue
            about = {
                "model": models.name("judge"),
                "prompt": self.settings.prompt,
                "seed": self.seed,
                "requests": answer.asked,
                "parents": [self.settings.overall, self.settings.elements],
            }
            yield row.having(self.name, about, **{self.settings.to: answer.result})

    def _merged(self, row: PipelineRow) -> Conversation[str]:
        settings = self.settings
        overall, elements = row.values[settings.overall], row.values[settings.elements]
        if not elements:
            return overall
        parts = ". ".join(element.strip().rstrip(".") for element in elements)
        prompt = fill(settings.prompt, overall=overall, elements=parts)

        def ask(attempt: int) -> Conversation[str]:
            decoding: dict[str, float] = {"num_beams": settings.beams} if settings.beams > 1 else {}
            if settings.temperature:
                seed = seed_of(self.seed, self.name, row.id, attempt)
                decoding = {"temperature": settings.temperature, "seed": seed}
            answer = (yield JudgeRequest(prompt, max_tokens=settings.new_tokens, decoding=decoding)).strip()
            if not answer:
                raise NoUse("the judge said nothing")
            if fault := language_fault(answer, settings.language):
                raise NoUse(f"the answer {fault}")
            # A description is one paragraph, even if the answer has line breaks.
            return " ".join(answer.split())

        return (yield from first_of_use(settings.tries if settings.temperature else 1, ask))
