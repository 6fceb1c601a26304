"""What models of transformers that look for regions share, and its detectors: OWLv2 and Grounding DINO."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...batches import grouped
from ..devices import PRECISIONS, find_device, placed, require_known, torch_dtype
from ..hf_checkpoint import HfModel
from ..images.handles import Box, ImageHandle
from ..images.reading import UnreadableImage, read_bytes, read_image
from .contracts import Detections, Detector

if TYPE_CHECKING:
    import torch


@dataclass(eq=False, repr=False)
class HfRegionModel(HfModel):
    """A model of transformers that looks for regions; a subclass loads it into ``_model``."""

    _model: Any = field(init=False)

    pretrained: str
    revision: str | None = None
    _: KW_ONLY
    dtype: str = "fp32"
    device: str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        require_known(PRECISIONS, dtype=self.dtype)
        self._settings: dict[str, Any] = {}
        self._device = find_device(self.device)
        self._find(self.pretrained, self.revision)

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return self._identity(self._model, dtype=self.dtype, **self._settings)


@contextmanager
def preparing(image: ImageHandle) -> Iterator[None]:
    """Name an image of which a model's processor makes no inputs, such as one of a single row of pixels.

    Raises:
        UnreadableImage: The library raised an error of any type.
    """
    try:
        yield
    except Exception as error:
        cause = str(error).strip().partition("\n")[0]
        raise UnreadableImage(f"{image.name}: the model's processor does not take it: {cause}") from error


class HfDetector(HfRegionModel, Detector):
    """A detector of transformers; a subclass names its class, and reads boxes and scores off its output.

    Args:
        pretrained: A hub id, or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or is of another kind.
    """

    model_class: ClassVar[str]
    """The class of transformers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model = self._source.load_whole(self.model_class, torch_dtype(self.dtype)).to(self._device)
        self._processor: Any = self._source.part("AutoProcessor", "processor")
        self._seen: tuple[tuple[bytes, Box | None], tuple[int, int], Any] | None = None

    def detect(self, image: ImageHandle, phrases: Sequence[str]) -> Detections:
        """Return every box of an image with a score for each phrase; see ``Detector.detect``.

        The output for the last image is cached.
        """
        import numpy as np
        import torch

        with torch.inference_mode():
            size, seen = self._look(image)
            if not phrases:
                return Detections(np.zeros((0, 4)), np.zeros((0, 0)))
            centred, scores = self._found(seen, list(phrases))
        x, y, width, height = centred.double().unbind(-1)
        across, down = self._scale(size)
        edges = ((x - width / 2) * across, (y - height / 2) * down, (x + width / 2) * across, (y + height / 2) * down)
        return Detections(torch.stack(edges, dim=-1).cpu().numpy(), scores.double().cpu().numpy())

    def _look(self, image: ImageHandle) -> tuple[tuple[int, int], Any]:
        """Return an image's width and height in pixels, and the model's output for it, which depends on no phrase."""
        encoded = read_bytes(image)
        if self._seen is None or self._seen[0] != (encoded, image.box):
            picture = read_image(image, encoded).image.convert("RGB")
            with preparing(image):
                pixels = self._processor.image_processor(images=picture, return_tensors="pt")
            self._seen = ((encoded, image.box), picture.size, self._seen_in(self._on_device(pixels)))
        return self._seen[1:]

    def _seen_in(self, pixels: dict[str, torch.Tensor]) -> Any:
        """Return the model's output for a picture before any phrase."""
        return pixels

    @abstractmethod
    def _found(self, seen: Any, phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes as centre, width and height in shares of the model's picture, and a score for each phrase."""

    def _scale(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return width and height in pixels of what the model takes for the picture."""
        return size

    def _on_device(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return placed(inputs, self._device, torch_dtype(self.dtype))


class Owlv2Detector(HfDetector):
    """OWLv2 of transformers: each phrase is a separate query, unchanged (no ``a photo of``).

    A phrase is cut to the 16 tokens that the model takes. A score is the sigmoid of a box's logit for a phrase, the
    same for any set of phrases. See ``HfDetector`` for the arguments.

    Source: Minderer et al., Scaling Open-Vocabulary Object Detection (2023).
    """

    kinds = ("owlv2",)
    adapter = "owlv2"
    model_class = "Owlv2ForObjectDetection"

    def _seen_in(self, pixels: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        places, _ = self._model.image_embedder(**pixels)
        features = places.flatten(1, 2)
        return features, self._model.box_predictor(features, places)[0]

    def _found(self, seen: tuple[torch.Tensor, torch.Tensor], phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        features, boxes = seen
        texts = self._on_device(self._processor(text=[phrases], truncation=True, return_tensors="pt"))
        both = self._model.owlv2
        asked = both.text_projection(both.text_model(**texts).pooler_output)
        asked = asked / asked.norm(dim=-1, keepdim=True)
        # A phrase that begins with the token 0 is padding to the model, and found nowhere.
        logits, _ = self._model.class_predictor(features, asked[None], texts["input_ids"][None, :, 0] > 0)
        return boxes, logits[0].sigmoid()

    def _scale(self, size: tuple[int, int]) -> tuple[int, int]:
        # It pads to a square, on the right and at the bottom.
        return max(size), max(size)


class GroundingDinoDetector(HfDetector):
    """Grounding DINO of transformers: phrases form one query, ``first. second.``, in lower case.

    The score of a phrase in a box is the highest of its tokens', as sigmoids of their logits. Boxes depend on all
    phrases. Phrases with more tokens together than the model takes are split into several queries, and score 0 in the
    boxes of other queries. See ``HfDetector`` for the arguments.

    Source: Liu et al., Grounding DINO (2023).
    """

    kinds = ("grounding-dino", "mm-grounding-dino")
    adapter = "grounding_dino"
    model_class = "AutoModelForZeroShotObjectDetection"

    def _found(self, seen: dict[str, torch.Tensor], phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        tokens = [self._tokens(phrase) for phrase in phrases]
        boxes, scores = [], []
        for lot in grouped(range(len(tokens)), lambda number: len(tokens[number]) + 1, self._room):
            ids, places = self._asked([tokens[number] for number in lot])
            texts = {
                "input_ids": torch.tensor([ids]),
                "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
                "token_type_ids": torch.zeros(1, len(ids), dtype=torch.long),
            }
            # Image and phrases pass through the model together.
            outputs = self._model(**seen, **self._on_device(texts))
            of_tokens = outputs.logits[0].sigmoid()
            of_phrases = of_tokens.new_zeros(len(of_tokens), len(phrases))
            for number, (start, end) in zip(lot, places, strict=True):
                if start < end:
                    of_phrases[:, number] = of_tokens[:, start:end].max(dim=1).values
            boxes.append(outputs.pred_boxes[0])
            scores.append(of_phrases)
        return torch.cat(boxes), torch.cat(scores)

    def _tokens(self, phrase: str) -> list[int]:
        """Return the tokens of a phrase; a dot or a question mark would end it, so that these are left out."""
        plain = phrase.lower().replace(".", " ").replace("?", " ")
        ids = self._processor.tokenizer(plain, add_special_tokens=False)["input_ids"]
        return ids[: self._room - 1]

    @property
    def _room(self) -> int:
        """Tokens that all phrases may have together, with a dot behind each."""
        return self._model.config.max_text_len - 2

    def _asked(self, tokens: list[list[int]]) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of phrases in one text, and where each stands in it."""
        tokenizer = self._processor.tokenizer
        (dot,) = tokenizer(".", add_special_tokens=False)["input_ids"]
        ids, places = [tokenizer.cls_token_id], []
        for phrase in tokens:
            places.append((len(ids), len(ids) + len(phrase)))
            ids += [*phrase, dot]
        return [*ids, tokenizer.sep_token_id], places
