"""Text-to-image models by diffusers."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...downloads import Repository, Resource
from ...errors import AdapterError, extra
from ...hub import asked_once, keep_commit
from ..checkpoint_identity import checkpoint_digest, hub_commit
from ..checkpoints import first_line
from ..devices import PRECISIONS, find_device, require_known, torch_dtype, torch_version
from ..images.handles import ImageHandle
from .contracts import Painter

_REMEDY = "Name a text-to-image model of diffusers: a hub id, or a folder that save_pretrained of a pipeline wrote."


@dataclass(eq=False, repr=False)
class DiffusionPainter(Painter):
    """A text-to-image pipeline of diffusers.

    Args:
        pretrained: A hub id, or a folder that ``save_pretrained`` of a pipeline wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        steps: Denoising steps; the pipeline's own by default.
        guidance: Weight of the text; the pipeline's own by default.
        side: Width and height in pixels; the pipeline's own by default.
        name: How results call the model.

    Raises:
        AdapterError: diffusers is not installed, or the model cannot be loaded.
    """

    pretrained: str
    revision: str | None = None
    dtype: str = "fp32"
    device: str | None = None
    steps: int | None = None
    guidance: float | None = None
    side: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        require_known(PRECISIONS, dtype=self.dtype)
        diffusers = _library()
        self.name = self.name or self.pretrained
        self._device = find_device(self.device)
        sides = {"height": self.side, "width": self.side}
        settings = {"num_inference_steps": self.steps, "guidance_scale": self.guidance, **sides}
        self._settings = {key: value for key, value in settings.items() if value is not None}
        self._commit = None
        if not Path(self.pretrained).expanduser().is_dir():
            self._commit = hub_commit(self.pretrained, self.revision)
        try:
            with asked_once(self.pretrained):
                pipeline = diffusers.AutoPipelineForText2Image.from_pretrained(
                    self.pretrained, revision=self._commit, torch_dtype=torch_dtype(self.dtype)
                )
        except Exception as error:
            # The library raises errors of any type: no network, no such model, a damaged file.
            raise AdapterError(f"{self.pretrained}: {first_line(error)}", _REMEDY) from error
        if self._commit:
            keep_commit(self.pretrained, self._commit)
        pipeline.set_progress_bar_config(disable=True)
        self._pipeline = pipeline.to(self._device)

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if diffusers is not installed; see ``Model.check``."""
        _library()

    @classmethod
    def resources(cls, arguments: Mapping[str, Any]) -> Sequence[Resource]:
        """Return its repository on the hub; see ``Model.resources``."""
        parts = {"weights": ("*/*model.safetensors", "*/*model.bin"), "folders": ("*",)}
        return [replace(each, **parts) for each in super().resources(arguments) if isinstance(each, Repository)]

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return {
            "adapter": "diffusion",
            "checkpoint": self._checkpoint(),
            "pipeline": type(self._pipeline).__name__,
            "dtype": self.dtype,
            **self._settings,
            "diffusers": _library().__version__,
            "torch": torch_version(),
        }

    def paint(self, texts: Sequence[str], *, seed: int) -> list[ImageHandle]:
        """Return an image of each text as PNG; see ``Painter.paint``."""
        import torch

        painted = []
        for text in texts:
            # One by one, each with its own random numbers: so an image does not depend on its neighbours.
            numbers = torch.Generator(self._device).manual_seed(seed)
            (image,) = self._pipeline(text, generator=numbers, **self._settings).images
            encoded = io.BytesIO()
            image.save(encoded, "PNG")
            painted.append(ImageHandle(encoded.getvalue()))
        return painted

    def _checkpoint(self) -> str:
        if self._commit:
            return f"{self.pretrained}@{self._commit}"
        folder = Path(self.pretrained).expanduser()
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return "; ".join(f"{path.relative_to(folder)} {checkpoint_digest(path)}" for path in files)


def _library() -> Any:
    with extra("paint", "painting images needs diffusers", AdapterError):
        import diffusers
    return diffusers
