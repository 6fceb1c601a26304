"""Loads a dual encoder of transformers: from the hub, or from a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..checkpoints import tensor_shapes
from ..hf_checkpoint import WEIGHTS, HfSource, load_part, require_fit

if TYPE_CHECKING:
    import torch


def load_model(source: HfSource, dtype: torch.dtype) -> Any:
    """Return the model, with every one of its weights from the checkpoint.

    Raises:
        AdapterError: It cannot be loaded, is no dual encoder, or the checkpoint is another model's.
    """
    from transformers import AutoModel

    if source.folder is not None:
        for path in sorted(source.folder.iterdir()):
            if path.suffix in WEIGHTS:
                tensor_shapes(path)
    # Weights that do not fit are looked for below, where they can be named.
    model, found = source.load(AutoModel, dtype, source.remedy(), ignore_mismatched_sizes=True)
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise AdapterError(
            f"{source.path}: {type(model).__name__} does not encode both images and texts.",
            "It takes a dual encoder such as CLIP or SigLIP.",
        )
    foreign = [
        f"{name}: not in the architecture"
        for name in sorted(found["unexpected_keys"])
        if (name.startswith(("text_model.", "vision_model.")) and not name.endswith("position_ids")) or "lora_" in name
    ]
    require_fit(source, found, foreign)
    return model.eval().requires_grad_(False)


def load_tokenizer(source: HfSource) -> Any:
    """Return the library's tokenizer.

    Raises:
        AdapterError: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    return load_part(AutoTokenizer, source, "tokenizer")


def load_image_processor(source: HfSource) -> Any:
    """Return the library's image processor.

    Raises:
        AdapterError: It cannot be loaded.
    """
    from transformers import AutoImageProcessor

    return load_part(AutoImageProcessor, source, "image processor")
