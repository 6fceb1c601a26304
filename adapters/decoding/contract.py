"""The input and output of a decoding strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from ..images.video import SampledVideo


_NOT_INPUTS = ("logits_processor", "stopping_criteria", "generation_config", "synced_gpus", "streamer")
PLAIN_REMEDY = "Use decoding=greedy, beam or nucleus with this model."


@dataclass(frozen=True)
class CaptionSample:
    """A caption to write.

    Attributes:
        id: The document's id; random numbers are drawn by it.
        prompt: The instruction.
        image: The pixels, RGB; or frames of a video.
        remark: An unusual step in reading the image; empty for none.
    """

    id: str
    prompt: str
    image: Image.Image | SampledVideo
    remark: str = ""


@dataclass(frozen=True)
class Written:
    """The output for one sample.

    Attributes:
        ids: The tokens, the end token left out.
        cut: Whether the allowed tokens were used up before an end token came.
        fault: Why there is no caption; empty if there is one.
    """

    ids: list[int]
    cut: bool
    fault: str = ""


Host = Any
"""The captioner that decodes, an ``HfCaptioner``."""


class Decoder(ABC):
    """A decoding strategy with its settings."""

    rows: int = 1
    """Sequences that are computed at once for one sample."""
    takes_inputs: bool = True
    """Whether the inputs of a batch can be made ahead, as ``host.inputs(self.samples(...))``."""

    def samples(self, samples: Sequence[CaptionSample]) -> Sequence[CaptionSample]:
        """Return the samples whose inputs ``write`` takes."""
        return samples

    @abstractmethod
    def write(
        self, host: Host, samples: Sequence[CaptionSample], inputs: Mapping[str, torch.Tensor] | None = None
    ) -> list[Written]:
        """Write one caption a sample, in order; what a sample gets does not depend on the others.

        Args:
            host: The model.
            samples: What to write.
            inputs: The inputs of ``self.samples(samples)``, if they have been made already.

        Raises:
            RuntimeError: The batch is too large for the device (``adapters.devices.is_out_of_memory``).
        """


def first_pass(model: Any, input_ids: torch.Tensor, settings: Mapping[str, Any]) -> tuple[Any, torch.Tensor | None]:
    """Return the model's output for an instruction, and the token positions where they are passed to it.

    Args:
        model: The model of transformers.
        input_ids: ``[1, prompt]``.
        settings: The inputs that ``generate`` prepared for a custom loop.
    """
    inputs = {name: value for name, value in settings.items() if name not in _NOT_INPUTS}
    prepared = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **inputs)
    return model(**prepared, return_dict=True), inputs.get("position_ids")
