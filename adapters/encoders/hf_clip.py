"""Dual encoders of the transformers library: CLIP, SigLIP, SigLIP 2, ALIGN and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import AdapterError
from ..checkpoints import tensor_shapes
from ..contracts import Alias
from ..devices import require_known, torch_dtype
from ..hf_checkpoint import WEIGHTS, HfModel, HfSource, require_fit
from ..images.transforms import ExactTransform, ImageTransform, PixelSpec
from ..peft_weights import merged_with_peft, peft_checkpoint
from .clip_tokens import clip_token_ids, clip_token_rows, clip_tokenizer, reserved_positions
from .torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

_CLIP_VOCABULARY = 49408
_SIGLIP = ("siglip", "siglip2")


@dataclass(eq=False, repr=False)
class HfClipEncoder(HfModel, TorchEncoder):
    """A model of transformers with ``get_image_features`` and ``get_text_features``.

    For CLIP the library's image processor and tokenizer are not quite OpenAI's: the crop may begin a pixel
    earlier, palettes become RGB before the resize, and texts are not cleaned of broken Unicode and HTML
    entities. ``preprocess`` says whose are used.

    Args:
        pretrained: A hub id (``openai/clip-vit-base-patch32``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16``, ``bf16``, or ``released``: ``fp16`` on a GPU, else ``fp32``, as OpenAI's
            ``clip.load`` has it.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved when the device runs out of memory.
        transform: ``exact``; or for CLIP ``fast``: in torch, nearly the same.
        workers: Threads or processes that read images; one a core by default.
        reading: ``threads`` or ``processes``; see ``TorchEncoder``.
        preprocess: ``official`` (the transform and the tokenizer that CLIP was trained with; the default for
            CLIP) or ``transformers`` (the default for all others).
        peft: Folder of an adapter such as LoRA (needs peft), which is added to the weights.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, is no dual encoder, or the adapter is another model's.
    """

    pretrained: str
    revision: str | None = None
    _: KW_ONLY
    preprocess: Literal["official", "transformers"] | None = None
    peft: str | None = None
    adapter = "hf_clip"
    takes_released = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._find(self.pretrained, self.revision)
        self._kind: str = self._source.config.model_type
        text = self._source.config.get_text_config()
        is_clip = self._kind == "clip" and text.vocab_size == _CLIP_VOCABULARY
        self.preprocess = self.preprocess or ("official" if is_clip else "transformers")
        require_known(("official", "transformers"), preprocess=self.preprocess)
        if self.preprocess == "official" and not is_clip:
            raise AdapterError(
                f"preprocess=official is for CLIP; {self.name} has model_type '{self._kind}'.", "Leave it out."
            )
        self._tuned = {"peft": peft_checkpoint(self.peft)} if self.peft else {}
        self._model = self._load_model().to(self._device)
        self._tokenizer = self._load_tokenizer(text)
        self._processor = self._source.part("AutoImageProcessor", "image processor")
        self._transform = self._load_transform()

    def _write(self, folder: Path) -> Alias:
        """Write the model as ``save_pretrained`` does, with what makes its inputs."""
        self._model.save_pretrained(folder)
        self._processor.save_pretrained(folder)
        if self.preprocess == "transformers":
            self._tokenizer.save_pretrained(folder)
        return {"adapter": "hf_clip", "pretrained": f"./{folder.name}", "preprocess": self.preprocess}

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        used = {
            "dtype": self.dtype,
            "preprocess": self.preprocess,
            "image": self._transform.fingerprint(),
            "tokenizer": f"{type(self._tokenizer).__name__} {self.context_length}",
        }
        return self._identity(self._model, **used) | self._tuned

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; see ``Encoder.token_ids``."""
        if self.preprocess == "official":
            return clip_token_ids(self._tokenizer, texts)
        if not texts:
            return []
        return self._tokenizer(self._spelled(texts), verbose=False)["input_ids"]

    def _load_model(self) -> Any:
        dtype = torch_dtype(self.dtype)
        if not self.peft:
            return _load(self._source, dtype)
        # Added in single precision, regardless of the model's precision.
        exact = _load(self._source, torch_dtype("fp32"))
        return merged_with_peft(exact, self.peft).to(dtype).eval().requires_grad_(False)

    def _load_tokenizer(self, text: Any) -> Any:
        stated = getattr(text, "max_position_embeddings", None) or 512
        positions = stated - reserved_positions(self._model)
        if self.preprocess == "official":
            self.context_length = int(positions)
            return clip_tokenizer(self.context_length)
        tokenizer = self._source.part("AutoTokenizer", "tokenizer")
        # Some tokenizers state no limit, as 1e30.
        self.context_length = int(min(positions, tokenizer.model_max_length))
        return tokenizer

    def _load_transform(self) -> ImageTransform:
        if self.preprocess == "official":
            from .open_clip_transform import open_clip_transform

            spec = self._spec()
            fields = {"size": spec.size, "mean": spec.mean, "std": spec.std, "interpolation": spec.interpolation}
            return open_clip_transform({**fields, "resize_mode": spec.resize}, self.transform, self._device)
        if self.transform == "fast":
            raise AdapterError(
                "transform=fast stands for CLIP's own transform, not those of transformers.",
                "Set transform=exact, or load the model by the adapter open_clip.",
            )
        has_shorter = "shortest_edge" in (self._processor.size or {})
        resized = self._spec().resized if has_shorter else None
        return ExactTransform.of_processor(self._processor, self._device, resized)

    def _spec(self) -> PixelSpec:
        from PIL.Image import Resampling

        processor, size = self._processor, dict(self._processor.size or {})
        bilinear = processor.resample == Resampling.BILINEAR
        return PixelSpec(
            size.get("shortest_edge") or size["height"],
            "shortest",
            "bilinear" if bilinear else "bicubic",
            tuple(processor.image_mean),
            tuple(processor.image_std),
        )

    def _spelled(self, texts: Sequence[str]) -> list[str]:
        # SigLIP was trained on lower case; not every one of its tokenizers makes it.
        return [text.lower() for text in texts] if self._kind in _SIGLIP else list(texts)

    def _text_inputs(self, texts: Sequence[str], ids: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        if self.preprocess == "official":
            return {"input_ids": clip_token_rows(ids, min(max(map(len, ids)), self.context_length))}
        # SigLIP pools the last position, even padding, and was trained without a mask.
        is_siglip = self._kind in _SIGLIP
        encoded = self._tokenizer(
            self._spelled(texts),
            padding="max_length" if is_siglip else "longest",
            max_length=self.context_length,
            truncation=True,
            return_tensors="pt",
        )
        return {"input_ids": encoded["input_ids"]} if is_siglip else dict(encoded)

    def _image_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        pixels = inputs["pixel_values"].to(torch_dtype(self.dtype))
        return self._pooled(self._model.get_image_features(**{**inputs, "pixel_values": pixels}))

    def _text_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self._pooled(self._model.get_text_features(**inputs))

    def _token_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._kind != "clip":
            raise AdapterError(
                f"{self.name}: model_type '{self._kind}' has no projected token states.",
                "Metrics of tokens need a CLIP.",
            )
        return self._model.text_projection(self._model.text_model(**inputs).last_hidden_state)

    def _pooled(self, output: Any) -> torch.Tensor:
        vectors = getattr(output, "pooler_output", output)
        if getattr(vectors, "ndim", 0) != 2:
            raise AdapterError(
                f"{self.name}: {type(self._model).__name__} does not return one vector for each input.",
                "Use a dual encoder such as CLIP or SigLIP.",
            )
        return vectors


def _load(source: HfSource, dtype: torch.dtype) -> Any:
    """Return the model, with every one of its weights from the checkpoint.

    Raises:
        AdapterError: It cannot be loaded, is no dual encoder, or the checkpoint is another model's.
    """
    if source.folder is not None:
        for path in sorted(source.folder.iterdir()):
            if path.suffix in WEIGHTS:
                tensor_shapes(path)
    # Weights that do not fit are looked for below, where they can be named.
    model, info = source.load("AutoModel", dtype, ignore_mismatched_sizes=True)
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise AdapterError(
            f"{source.path}: {type(model).__name__} does not encode both images and texts.",
            "Use a dual encoder such as CLIP or SigLIP.",
        )
    foreign = [
        f"{name}: not in the architecture"
        for name in sorted(info["unexpected_keys"])
        if (name.startswith(("text_model.", "vision_model.")) and not name.endswith("position_ids")) or "lora_" in name
    ]
    require_fit(source, info, foreign)
    return model.eval().requires_grad_(False)
