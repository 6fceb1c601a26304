"""Captions of images, or of parts of them, by a captioner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field, model_validator

from ....adapters import CaptionRequest, ImageHandle
from ....adapters.encoders.clip_tokens import clip_tokens
from ....benchmarks.inputs.asking import merged
from ..asking import Language, language_fault, seed_of
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings


class CaptionSettings(StageSettings):
    """Its keys."""

    prompt: str
    """The prompt."""
    to: str
    """The value that is made: a caption, or a list of them."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings, as in tasks. With sampling, each caption has its own seed."""
    boxes: str | None = None
    """The value that holds boxes (left, top, right, bottom): a caption of each."""
    dilate: Annotated[float, Field(ge=0)] = 0.0
    """Boxes grow by this fraction of the image's width and height on each side."""
    least_side: Annotated[float, Field(ge=0)] = 2.0
    """Pixels; boxes with a side of at most this length are left out."""
    count: Annotated[int, Field(gt=0)] | None = None
    """Number of distinct captions per image; needs sampling."""
    most_tokens: Annotated[int, Field(gt=2)] | None = None
    """Maximum number of CLIP tokens; a longer caption is requested again."""
    tries: Annotated[int, Field(gt=0)] = 1
    """Maximum number of requests per caption; more than one needs sampling."""
    language: Language = "any"
    """``english``: a caption in another language is requested again."""

    @model_validator(mode="after")
    def _fits(self) -> CaptionSettings:
        drawn = bool(self.generation_kwargs.get("do_sample"))
        if (self.tries > 1 or (self.count or 1) > 1) and not drawn:
            raise ValueError("'tries' and 'count' above 1 need sampling: set 'do_sample: true' in 'generation_kwargs'")
        if self.boxes is not None and self.count is not None:
            raise ValueError("set 'count' (captions of the whole image) or 'boxes' (a caption per box), not both")
        return self


@dataclass
class _Wanted:
    """A requested caption and its outcome."""

    row: PipelineRow
    place: int
    pixels: ImageHandle
    box: Sequence[float] = ()
    text: str | None = None
    fault: str = ""
    passing: bool = False


class CaptionStage(Stage):
    """Has a captioner write a caption of each image, of each of its boxes, or several of each image."""

    Settings = CaptionSettings
    settings: CaptionSettings
    roles = ("captioner",)
    shard = 50
    takes = ("{boxes}",)
    gives = ("{to}",)

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[Generated]:
        """Return each row with its captions."""
        every = [self._wanted(row) for row in rows]
        for attempt in range(self.settings.tries):
            captions = (caption for wanted in every if isinstance(wanted, list) for caption in wanted)
            if left := [caption for caption in captions if caption.text is None]:
                self._ask(left, attempt, models)
        return [
            self._row(row, wanted, models) if isinstance(wanted, list) else wanted
            for row, wanted in zip(rows, every, strict=True)
        ]

    def _wanted(self, row: PipelineRow) -> list[_Wanted] | NotGenerated:
        """Return the captions to request: ``count`` of the whole image, or one of each dilated box."""
        settings = self.settings
        if settings.boxes is None:
            return [_Wanted(row, place, row.pixels) for place in range(settings.count or 1)]
        from PIL import Image

        try:
            with Image.open(row.file) as image:
                width, height = image.size
        except OSError as error:
            return NotGenerated(f"image cannot be read: {error.strerror or error}")
        beside, above = width * settings.dilate, height * settings.dilate
        wanted: list[_Wanted] = []
        for edges in row.values[settings.boxes]:
            left, top, right, bottom = edges
            wider = (left - beside, top - above, right + beside, bottom + above)
            box = (max(wider[0], 0.0), max(wider[1], 0.0), min(wider[2], width), min(wider[3], height))
            if box[2] - box[0] > settings.least_side and box[3] - box[1] > settings.least_side:
                wanted.append(_Wanted(row, len(wanted), replace(row.pixels, box=box), edges))
        return wanted

    def _ask(self, wanted: Sequence[_Wanted], attempt: int, models: PipelineModels) -> None:
        requests: list[CaptionRequest] = []
        for caption in wanted:
            name, kwargs = caption.row.id, dict(self.settings.generation_kwargs)
            if kwargs.get("do_sample"):
                kwargs["seed"] = seed_of(self.seed, self.name, name, caption.place, attempt)
            requests.append(CaptionRequest(name, name, self.settings.prompt, kwargs, pixels=caption.pixels))
        written = merged(models["captioner"].stream(requests))
        for at, caption in enumerate(wanted):
            caption.passing = False
            if at in written.captions:
                caption.text = written.captions[at].text.strip()
                caption.fault = self._fault(caption.text)
                caption.text = None if caption.fault else caption.text
            elif at in written.unseen:
                caption.fault = f"image: {written.unseen[at]}"
            elif at in written.absent:
                caption.fault = "no caption was recorded"
            else:
                caption.fault, caption.passing = written.failures.get(at, "was not given by the model"), True

    def _fault(self, text: str) -> str:
        """Return why a caption is unusable; empty if it is usable."""
        if not text:
            return "the caption is empty"
        most = self.settings.most_tokens
        if most is not None and (count := clip_tokens(text)) > most:
            return f"the caption has {count} tokens, and {most} is the most"
        return f"the caption {fault}" if (fault := language_fault(text, self.settings.language)) else ""

    def _row(self, row: PipelineRow, wanted: Sequence[_Wanted], models: PipelineModels) -> Generated:
        settings = self.settings
        good = [caption for caption in wanted if caption.text is not None]
        faults = {str(caption.place): caption.fault for caption in wanted if caption.text is None}
        passing = any(caption.passing for caption in wanted)
        if not good and (settings.boxes is None or wanted):
            return NotGenerated(next(iter(faults.values())), passing)
        values: dict[str, Any] = {settings.to: [caption.text for caption in good]}
        if settings.boxes is not None:
            values[settings.boxes] = [list(caption.box) for caption in good]
        elif settings.count is None:
            values[settings.to] = good[0].text
        else:
            values[settings.to] = list(dict.fromkeys(values[settings.to]))
        about: Mapping[str, Any] = {
            "model": models.name("captioner"),
            **settings.model_dump(include={"prompt", "generation_kwargs"}),
            "seed": self.seed,
            "counts": {"captions": len(good), "left out": len(faults)},
            **({"left_out": faults} if faults else {}),
        }
        return replace(row.having(self.name, about, **values), passing=passing)
