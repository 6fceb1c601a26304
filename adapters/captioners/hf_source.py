"""Loads a model of transformers that writes captions: from the hub, or from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..aliases import OWN_CODE
from ..devices import require_known
from ..hf_checkpoint import HfSource, require_fit
from ..peft_weights import with_peft

if TYPE_CHECKING:
    import torch

_AS_LANGUAGE_MODELS = ("phi4_multimodal",)
"""Kinds that take images, but that the library lists with its language models."""


def find_captioner(pretrained: str, revision: str | None, trust_remote_code: bool) -> HfSource:
    """Return where a model is; nothing but its configuration is downloaded.

    Raises:
        AdapterError: There is no such folder or hub id, it writes no captions, or it comes with code that may
            not be run.
    """
    source = HfSource.named(pretrained, revision, parts="model and processor")
    with source.reading():
        from transformers import AutoConfig, PreTrainedConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

        values, _ = PreTrainedConfig.get_config_dict(source.path, revision=source.revision)
    kind = values.get("model_type")
    if kind == "vision-encoder-decoder":
        from . import grid_encoder  # noqa: F401 - which makes its encoder known
    native = kind in (*MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, *_AS_LANGUAGE_MODELS)
    if not native and not values.get("auto_map"):
        raise AdapterError(
            f"{pretrained}: model_type '{kind}' cannot caption images.",
            f"For a dual encoder such as CLIP or SigLIP, use --model hf_clip. {OWN_CODE}",
        )
    if not native and not trust_remote_code:
        raise AdapterError(
            f"{pretrained}: transformers has no class for '{kind}'; its repository has its own code, which was "
            "not run.",
            OWN_CODE,
        )
    with source.reading():
        # Where the library has a class, the repository's code is not needed.
        config: Any = AutoConfig.from_pretrained(
            source.path, revision=source.revision, trust_remote_code=trust_remote_code and not native
        )
    return replace(source, config=config)


def load_captioner(
    source: HfSource,
    dtype: torch.dtype,
    device: torch.device,
    *,
    device_map: str | None,
    quantization: str | None,
    peft: str | None,
    trust_remote_code: bool,
) -> Any:
    """Return the model, with every one of its weights from the checkpoint.

    Raises:
        AdapterError: It cannot be loaded, a package is missing, or the checkpoint is another model's.
    """
    settings: dict[str, Any] = {}
    if quantization is not None:
        settings["quantization_config"] = _quantization(quantization, dtype)
    if device_map is not None or quantization is not None:
        settings["device_map"] = device_map or {"": device}
    model, info = source.load(_model_class(source), dtype, trust_remote_code=trust_remote_code, **settings)
    require_fit(source, info)
    if not hasattr(model, "generate"):
        raise AdapterError(f"{source.path}: {type(model).__name__} does not generate.", OWN_CODE)
    for module in model.modules():
        # Its attention is causal wherever the library drops a mask that hides nothing: in images without padding that
        # are written alone.
        if type(module).__name__ == "Phi4MultimodalVisionAttention":
            module.is_causal = False
    if "device_map" not in settings:
        model = model.to(device)
    return (with_peft(model, peft) if peft else model).eval().requires_grad_(False)


class SideBySide:
    """An image processor and a tokenizer that no processor joins: the model is shown the image, and asked nothing.

    Args:
        image_processor: Makes the model's inputs.
        tokenizer: Decodes its output.
    """

    takes_text = False

    def __init__(self, image_processor: Any, tokenizer: Any) -> None:
        self.image_processor = image_processor
        self.tokenizer = tokenizer

    def __call__(self, images: Sequence[Any], return_tensors: str) -> Any:
        """Return the model's inputs for images."""
        return self.image_processor(images=images, return_tensors=return_tensors)

    def save_pretrained(self, folder: Path) -> None:
        """Write both into a folder."""
        self.image_processor.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _side_by_side(source: HfSource) -> SideBySide:
    label = "image processor and tokenizer"
    return SideBySide(source.part("AutoImageProcessor", label), source.part("AutoTokenizer", label))


def load_processor(source: HfSource, trust_remote_code: bool, *, min_pixels: int | None, max_pixels: int | None) -> Any:
    """Return the processor: tokenizer, image processor and, if there is one, chat template.

    Encoder-decoders such as ViT-GPT2 have no processor for both, but one for each: see :class:`SideBySide`.

    Args:
        source: Where the model is.
        trust_remote_code: Whether code that comes with it may run.
        min_pixels: Images with fewer are enlarged; None leaves it to the processor.
        max_pixels: Images with more are made smaller.

    Raises:
        AdapterError: It cannot be loaded, takes no images, or has no limits of pixels.
    """
    if getattr(getattr(source.config, "encoder", None), "model_type", None) == "vision-encoder-encoder":
        # Its tokenizer is CLIP's, which says that a processor of CLIP's goes with it.
        return _side_by_side(source)
    processor = source.part("AutoProcessor", "processor", trust_remote_code=trust_remote_code)
    if not (hasattr(processor, "image_processor") and hasattr(processor, "tokenizer")):
        # Other models need the missing part to combine the instruction with the image.
        if source.config.model_type != "vision-encoder-decoder":
            raise AdapterError(
                f"{source.path}: {type(processor).__name__} does not take both images and texts.", source.remedy()
            )
        processor = _side_by_side(source)
    limits = {"shortest_edge": min_pixels, "longest_edge": max_pixels}
    if chosen := {name: limit for name, limit in limits.items() if limit is not None}:
        images = processor.image_processor
        # Only there do these two count pixels.
        if "max_pixels" not in getattr(getattr(images, "valid_kwargs", None), "__annotations__", {}):
            raise AdapterError(
                f"{source.path}: {type(images).__name__} takes no min_pixels and max_pixels.", "Leave them out."
            )
        images.size = {**dict(images.size), **chosen}
    return processor


def _quantization(quantization: str, dtype: torch.dtype) -> Any:
    require_known(("4bit", "8bit"), quantization=quantization)
    from transformers import BitsAndBytesConfig

    if quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def _model_class(source: HfSource) -> str:
    """Return the library's class for the model, or the one that its own code registers."""
    import transformers

    named = getattr(source.config, "auto_map", None) or {}
    if source.config.__module__.startswith("transformers_modules"):
        for auto in ("AutoModelForImageTextToText", "AutoModelForVision2Seq", "AutoModelForCausalLM", "AutoModel"):
            if auto in named and hasattr(transformers, auto):
                return auto
    listed_apart = source.config.model_type in _AS_LANGUAGE_MODELS
    return "AutoModelForCausalLM" if listed_apart else "AutoModelForImageTextToText"
