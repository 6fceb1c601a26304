"""Loads models of transformers that look for regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..hf_checkpoint import HfSource, require_fit
from ..pixels.handles import ImageHandle
from ..pixels.reading import UnreadableImage

if TYPE_CHECKING:
    import torch


def require_kind(source: HfSource, kinds: tuple[str, ...], does: str) -> None:
    """Raise if a checkpoint is of another kind.

    Args:
        source: Where the model is.
        kinds: The kinds that the adapter takes, as configurations call them.
        does: What such a model does.

    Raises:
        AdapterError: It is of another kind.
    """
    if source.config.model_type not in kinds:
        raise AdapterError(
            f"{source.path}: a model of the kind '{source.config.model_type}' does not {does} here.",
            f"The adapter takes {', '.join(kinds)}.",
        )


def load_whole(source: HfSource, model_class: Any, dtype: torch.dtype) -> Any:
    """Return a model with every one of its weights from the checkpoint, to be asked only.

    Raises:
        AdapterError: It cannot be loaded, or weights are missing or of another shape.
    """
    # Weights that do not fit are looked for below, where they can be named.
    model, found = source.load(model_class, dtype, source.remedy(), ignore_mismatched_sizes=True)
    require_fit(source, found)
    return model.eval().requires_grad_(False)


@contextmanager
def preparing(image: ImageHandle) -> Iterator[None]:
    """Name an image of which a model's processor makes no inputs, such as one of a single row of pixels.

    Raises:
        UnreadableImage: Whatever the library raised.
    """
    try:
        yield
    except Exception as error:
        cause = str(error).strip().partition("\n")[0]
        raise UnreadableImage(f"{image.name}: the model's processor does not take it: {cause}") from error


def versions() -> dict[str, str]:
    """Return the versions of the libraries that can change what a model finds."""
    import torch
    import transformers

    return {"transformers": transformers.__version__, "torch": ".".join(torch.__version__.split(".")[:2])}
