"""Dual encoders of the open_clip library: its tags, hub models, and local checkpoints."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import AdapterError
from ...hub import unreachable
from ..checkpoint_identity import checkpoint_digest
from ..checkpoints import differing, first_line, first_of, mismatch, tensor_shapes
from ..devices import torch_dtype
from ..lending import Alias
from ..peft_weights import merged_with_peft, peft_checkpoint
from ..pixels.transforms import ImageTransform
from .clip_tokens import CONTEXT, clip_token_ids, clip_token_rows, clip_tokenizer, reserved_positions
from .lora_checkpoint import holds_lora, merged_state
from .open_clip_source import DOWNLOAD, OpenClipSource, find_source, require_tag
from .open_clip_transform import open_clip_transform
from .torch_batches import Precision, Reading
from .torch_encoder import OwnParts, TorchEncoder

if TYPE_CHECKING:
    import torch

_POSITIONS = ("visual.positional_embedding", "positional_embedding", "text.positional_embedding")


class OpenClipTowers(TorchEncoder):
    """The towers of an open_clip model, wherever the weights are from."""

    name: str

    def fingerprint(self) -> dict[str, Any]:
        """Return what the towers are given, and how exactly they compute."""
        import open_clip
        import torch

        return {
            "dtype": self._dtype,
            "image": self._transform.fingerprint(),
            "tokenizer": f"{type(self._tokenizer).__name__} {self.context_length}",
            "open_clip": open_clip.__version__,
            "torch": ".".join(torch.__version__.split(".")[:2]),
        }

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; see ``Encoder.token_ids``."""
        tokenizer = self._tokenizer
        if self._is_clips_own:
            return clip_token_ids(tokenizer, texts)
        cleaned = [tokenizer.clean_fn(text) for text in texts]
        return tokenizer.tokenizer(cleaned, verbose=False)["input_ids"] if cleaned else []

    def _take(self, model: Any, tokenizer: Any, transform: ImageTransform) -> None:
        """Use a model, on its device, with what belongs to it."""
        self._model = model
        self._tokenizer = tokenizer
        self.context_length = int(tokenizer.context_length)
        self._image_transform = transform
        self._text_tower = getattr(model, "text", model)

    @property
    def _transform(self) -> ImageTransform:
        return self._image_transform

    @property
    def _is_clips_own(self) -> bool:
        """Whether the tokenizer is OpenAI's, which cuts a text by itself."""
        return hasattr(self._tokenizer, "encode") and getattr(self._tokenizer, "reduction_fn", None) is None

    @property
    def _is_causal(self) -> bool:
        """Whether what follows the end token cannot change a text's features."""
        tower = self._text_tower
        return (
            getattr(tower, "attn_mask", None) is not None
            and getattr(tower, "cls_emb", None) is None
            and self._pooled_at in ("argmax", "eos")
        )

    @property
    def _pooled_at(self) -> str:
        """What open_clip calls the position whose state stands for a text."""
        tower = self._text_tower
        return getattr(tower, "text_pool_type", getattr(tower, "pool_type", ""))

    def _text_inputs(self, texts: Sequence[str], ids: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        length = min(max(map(len, ids)), self.context_length) if self._is_causal else self.context_length
        if self._is_clips_own:
            return {"text": clip_token_rows(ids, length)}
        return {"text": self._tokenizer(list(texts))[:, :length]}

    def _image_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        pixels = inputs["pixel_values"].to(torch_dtype(self._dtype))
        return self._model.encode_image(pixels, normalize=False)

    def _text_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        from open_clip.transformer import text_global_pool

        text = inputs["text"]
        if not self._is_causal:
            return self._model.encode_text(text, normalize=False)
        states = self._states(text)
        tower = self._text_tower
        end = getattr(tower, "text_eos_id", getattr(tower, "eos_id", None))
        return self._projected(text_global_pool(states, text, self._pooled_at, eos_token_id=end))

    def _token_vectors(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        if not self._is_causal:
            raise AdapterError(
                f"{self.name}: its text tower has no projected token states.",
                "Metrics of tokens need a model such as CLIP, whose text tower is causal.",
            )
        return self._projected(self._states(inputs["text"]))

    def _states(self, text: torch.Tensor) -> torch.Tensor:
        """Return the text tower's last states ``[b, n, width]``; what follows a token does not change it."""
        tower, length = self._text_tower, text.shape[1]
        dtype = tower.transformer.get_cast_dtype()
        states = tower.token_embedding(text).to(dtype) + tower.positional_embedding[:length].to(dtype)
        return tower.ln_final(tower.transformer(states, attn_mask=tower.attn_mask[:length, :length]))

    def _projected(self, states: torch.Tensor) -> torch.Tensor:
        import torch

        projection = self._text_tower.text_projection
        if projection is None:
            return states
        return projection(states) if isinstance(projection, torch.nn.Linear) else states @ projection


class OpenClipEncoder(OpenClipTowers):
    """A model of open_clip: CLIP, SigLIP, CoCa, ConvNeXt and others.

    Args:
        pretrained: A tag of the architecture (``laion2b_s34b_b79k``), a checkpoint file, a folder with
            ``open_clip_config.json`` and weights, or a hub id (``hf-hub:org/name``).
        architecture: Such as ``ViT-B-32``, or a JSON file in open_clip's form; for tags and checkpoint files.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved whenever the device's memory does not do.
        transform: ``exact``, open_clip's own by Pillow; or ``fast``, in torch, nearly the same.
        workers: Threads or processes that read images; one a core by default.
        reading: ``threads`` or ``processes``; see ``TorchEncoder``.
        quick_gelu: Whether activations are QuickGELU. By default as the tag was trained, or else as the
            architecture says.
        peft: Folder of an adapter such as LoRA (needs peft), which is added to the weights.
        lora_alpha: What LoRA weights inside the checkpoint are scaled by, times their rank (DAC, SVLC: 1).
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or its checkpoint or adapter is not one of this architecture.
    """

    def __init__(
        self,
        pretrained: str,
        architecture: str | None = None,
        dtype: Precision = "fp32",
        device: str | None = None,
        batch_size: int | None = None,
        transform: Literal["exact", "fast"] = "exact",
        workers: int | None = None,
        reading: Reading | None = None,
        quick_gelu: bool | None = None,
        peft: str | None = None,
        lora_alpha: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(device, dtype, batch_size, workers, reading)
        self.name = name or pretrained
        self._source = find_source(str(pretrained), architecture)
        self._quick_gelu = self._source.quick_gelu if quick_gelu is None else quick_gelu
        self._tuned = {
            **({"peft": peft_checkpoint(str(peft))} if peft else {}),
            **({"lora_alpha": lora_alpha} if lora_alpha is not None else {}),
        }
        model = _load(self._source, dtype, self._device, self._quick_gelu, lora_alpha)
        if peft:
            # Added in single precision, whatever the model computes in.
            exact = _load(self._source, "fp32", self._device, self._quick_gelu, lora_alpha)
            model.load_state_dict(merged_with_peft(exact, str(peft)).state_dict())
        pixels = open_clip_transform(model.visual.preprocess_cfg, transform, self._device)
        self._take(model, _load_tokenizer(self._source, getattr(model, "text", None)), pixels)

    def _lent(self) -> OwnParts:
        return OwnParts(
            self._model,
            partial(_write, self._model, self._source, self._quick_gelu),
            _head_width(self._source.configuration),
            self._quick_gelu,
            _tokenizer_files(self._source),
        )

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and the hub does not answer; see ``Model.check``."""
        if unreachable():
            pretrained, architecture = str(arguments["pretrained"]), arguments.get("architecture")
            require_tag(pretrained, architecture, arguments.get("source", ""))
            find_source(pretrained, architecture)

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights, the architecture and all that was done with them."""
        return {
            **super().fingerprint(),
            "adapter": "open_clip",
            "architecture": dict(self._source.configuration),
            "pretrained": self._source.tag,
            "checkpoint": f"sha256:{checkpoint_digest(self._source.checkpoint)}",
            "activation": "QuickGELU" if self._quick_gelu else "GELU",
            **self._tuned,
        }


def _head_width(configuration: Mapping[str, Any]) -> int | None:
    """Return the width of the heads of a vision transformer of OpenAI's kind; None for other towers."""
    vision = configuration.get("vision_cfg", {})
    return int(vision.get("head_width", 64)) if isinstance(vision.get("layers"), int) else None


_TOKENIZER = "tokenizer*.json"


def _write(model: Any, source: OpenClipSource, quick_gelu: bool, folder: Path) -> Alias:
    """Write a model as a folder of open_clip: configuration, weights and, if it has its own, the tokenizer."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    configuration = {
        "model_cfg": {**source.configuration, "quick_gelu": quick_gelu},
        "preprocess_cfg": dict(model.visual.preprocess_cfg),
    }
    (folder / "open_clip_config.json").write_text(
        json.dumps(configuration, indent=2) + "\n", encoding="utf-8"
    )
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors", {"format": "pt"})
    for file in _tokenizer_files(source):
        shutil.copyfile(file, folder / file.name)
    return {"adapter": "open_clip", "pretrained": f"./{folder.name}"}


def _tokenizer_files(source: OpenClipSource) -> list[Path]:
    return [] if source.tag else sorted(source.checkpoint.parent.glob(_TOKENIZER))


def _load(
    source: OpenClipSource, dtype: str, device: torch.device, quick_gelu: bool, lora_alpha: float | None
) -> Any:
    import open_clip
    import torch

    shapes = tensor_shapes(source.checkpoint)
    state = None
    if holds_lora(shapes):
        state = merged_state(source.checkpoint, lora_alpha)
    elif lora_alpha is not None:
        raise AdapterError(
            f"lora_alpha={lora_alpha}: checkpoint {source.checkpoint} holds no LoRA weights.", "Leave it out."
        )
    try:
        with source.loading(), _weights_follow() if state is not None else nullcontext():
            model = open_clip.create_model(
                source.model_name,
                source.load if state is None else None,
                load_weights=state is None,
                precision=_precision(source, dtype),
                device=device,
                require_pretrained=state is None,
                force_quick_gelu=quick_gelu,
                quick_gelu=quick_gelu,
            )
        if state is not None:
            model.load_state_dict(state)
    except AssertionError as error:
        # So says open_clip that position embeddings have another width, and does not say which.
        with torch.device("meta"):
            empty = open_clip.create_model(source.model_name, load_weights=False, device="meta")
        ours = {name: tuple(value.shape) for name, value in empty.named_parameters()}
        raise _does_not_fit(source, first_of(differing(shapes, ours)) or str(error)) from error
    except Exception as error:
        # Whatever open_clip, timm and transformers raise over a configuration or a checkpoint.
        raise _does_not_fit(source, mismatch(str(error))) from error
    _check_positions(source, shapes, model)
    return model.eval().requires_grad_(False)


@contextmanager
def _weights_follow() -> Iterator[None]:
    """Keep open_clip from warning of random weights where those of the checkpoint are put in afterwards."""
    root = logging.getLogger()

    def other(record: logging.LogRecord) -> bool:
        return "initialized randomly" not in record.getMessage()

    root.addFilter(other)
    try:
        yield
    finally:
        root.removeFilter(other)


def _check_positions(source: OpenClipSource, shapes: Mapping[str, tuple[int, ...]], model: Any) -> None:
    """Raise where open_clip stretched position embeddings, so that another architecture seemed to fit.

    Raises:
        AdapterError: It did.
    """
    ours = {name: tuple(value.shape) for name, value in model.named_parameters() if name in _POSITIONS}
    theirs = {
        name: shapes.get(name) or shapes.get(name.removeprefix("text."), shape)
        for name, shape in ours.items()
    }
    if found := differing(theirs, ours):
        raise _does_not_fit(source, first_of(found))


def _does_not_fit(source: OpenClipSource, why: str) -> AdapterError:
    return AdapterError(
        f"checkpoint {source.checkpoint} does not fit architecture {source.name}: {why}",
        "Name the architecture that the weights were trained with.",
    )


def _precision(source: OpenClipSource, dtype: str) -> str:
    text = source.configuration.get("text_cfg", {})
    if dtype != "fp32" and ("hf_model_name" in text or text.get("embed_cls")):
        # Towers of transformers, and of CoCa, cannot keep a part of themselves in single precision.
        return f"pure_{dtype}"
    return dtype


def _load_tokenizer(source: OpenClipSource, text: Any) -> Any:
    """Return the tokenizer of a model, whose text tower ``text`` may be one of transformers with fewer places."""
    try:
        with source.loading():
            tokenizer = _tokenizer(source)
            if positions := getattr(getattr(text, "config", None), "max_position_embeddings", None):
                positions -= reserved_positions(text)
                if tokenizer.context_length > positions:
                    tokenizer = _tokenizer(source, positions)
    except Exception as error:
        # Hubs, sockets and files fail in many ways.
        raise AdapterError(f"the tokenizer of {source.name}: {first_line(error)}", DOWNLOAD) from error
    return tokenizer


def _tokenizer(source: OpenClipSource, context_length: int | None = None) -> Any:
    """Return a model's tokenizer, by default of the length that its architecture says."""
    import open_clip

    text = source.configuration.get("text_cfg", {})
    # Of these open_clip makes another one than OpenAI's.
    if text.keys() & {"hf_tokenizer_name", "tokenizer_kwargs"} or "siglip" in source.model_name.lower():
        # A configuration is data: it does not decide that code beside it runs.
        trusted: dict[str, Any] = {"trust_remote_code": False} if "hf_tokenizer_name" in text else {}
        return open_clip.get_tokenizer(source.model_name, context_length=context_length, **trusted)
    return clip_tokenizer(context_length or text.get("context_length", CONTEXT))
