"""PAC-S and PAC-S++ models: CLIP tuned on generated images and captions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import AdapterError
from ...paths import checkpoint_folder
from ..checkpoint_identity import checkpoint_digest, digest_of_files
from ..checkpoints import first_line
from ..lending import Alias
from .clip_tokens import clip_tokenizer
from .open_clip import OpenClipTowers
from .open_clip_transform import open_clip_transform
from .pac_checkpoint import PacCheckpoint, read_pac_checkpoint, write_pac
from .torch_encoder import Precision, Reading

if TYPE_CHECKING:
    import torch


class PacEncoder(OpenClipTowers):
    """A CLIP with the released weights of PAC-S or PAC-S++.

    The files hold all weights, so no other model is loaded and none can be the wrong one. What they do not
    say is the activation: PAC-S++ and PAC-S of ViT-B/32 are tuned from OpenAI's CLIP, which has QuickGELU,
    PAC-S of ViT-L/14 from OpenCLIP's (``laion2b_s32b_b82k``), which has GELU. Where LoRA weights are added is
    said by ``read_pac_checkpoint``. A plain CLIP with its weights under ``state_dict`` looks like a PAC-S.

    Args:
        checkpoint: The file; a name without a folder is also looked for in ``checkpoints`` in the cache folder
            (``BENCH_CACHE``).
        architecture: What the file must be, such as ``ViT-B-32``; any if left out.
        lora: Whether the file must have LoRA weights (PAC-S++) or must have none (PAC-S); any if left out.
        quick_gelu: Whether activations are QuickGELU; by default as above. Required for a PAC-S of another
            architecture.
        dtype: ``fp32``, as released, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved whenever the device's memory does not do.
        transform: ``exact``, OpenAI's own by Pillow; or ``fast``, in torch, nearly the same.
        workers: Threads or processes that read images; one a core by default.
        reading: ``threads`` or ``processes``; see ``TorchEncoder``.
        head_width: Width of the vision tower's attention heads, which the file does not say; 64 as released.
        tokenizer: A folder with the tokenizer that the weights were trained with, as transformers saves it; by
            default OpenAI's, as released.
        source: Where the file can be had, for the message if it is missing.
        name: How results call the model.

    Raises:
        AdapterError: The file is missing, or is not such a checkpoint; the tokenizer cannot be loaded, or has
            not as many tokens as the weights.
    """

    family = "pac"

    def __init__(
        self,
        checkpoint: str | Path,
        architecture: str | None = None,
        lora: bool | None = None,
        quick_gelu: bool | None = None,
        dtype: Precision = "fp32",
        device: str | None = None,
        batch_size: int | None = None,
        transform: Literal["exact", "fast"] = "exact",
        workers: int | None = None,
        reading: Reading | None = None,
        head_width: int = 64,
        tokenizer: str | Path | None = None,
        source: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(device, dtype, batch_size, workers, reading)
        self._file = _find(Path(checkpoint).expanduser(), source)
        self.name = name or self._file.stem
        read = read_pac_checkpoint(self._file, head_width)
        _check_kind(self._file, read, architecture, lora, source)
        self._architecture = read.architecture
        self._lora = read.lora
        self._quick_gelu = _quick_gelu(self._file, read) if quick_gelu is None else quick_gelu
        folder = None if tokenizer is None else Path(tokenizer).expanduser()
        self._unlike_released: dict[str, int | str] = {} if head_width == 64 else {"head_width": head_width}
        self._take(
            _build(read, self._quick_gelu, dtype, self._device),
            _load_tokenizer(self._file, read, folder),
            open_clip_transform({"size": read.config["vision_cfg"]["image_size"]}, transform, self._device),
        )
        self._head_width = head_width
        self._tokenizer_files = [] if folder is None else sorted(folder.glob("tokenizer*.json"))
        if folder is not None:
            self._unlike_released["words"] = f"sha256:{digest_of_files(self._tokenizer_files)}"

    def _write(self, folder: Path) -> Alias:
        folder.mkdir(parents=True)
        return write_pac(
            dict(self._model.state_dict()), {}, folder, self._head_width, self._quick_gelu, self._tokenizer_files
        )

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if the file is missing; see ``Model.check``."""
        _find(Path(arguments["checkpoint"]).expanduser(), arguments.get("source", ""))

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights, and how they are used."""
        return {
            **super().fingerprint(),
            "adapter": "pac",
            "architecture": self._architecture,
            "lora": "added to attention and patches" if self._lora else "none",
            "checkpoint": f"sha256:{checkpoint_digest(self._file)}",
            "activation": "QuickGELU" if self._quick_gelu else "GELU",
        } | self._unlike_released


def _find(path: Path, source: str) -> Path:
    in_cache = checkpoint_folder()
    if path.exists():
        return path
    if path.name == str(path) and (in_cache / path).exists():
        return in_cache / path
    raise AdapterError(
        f"checkpoint {path}: there is no such file" + (f", nor in {in_cache}." if path.name == str(path) else "."),
        f"It comes from {source or 'the list in the README of github.com/aimagelab/pacscore'}; put it into "
        f"{in_cache}, or name it with --model_args checkpoint=FILE.",
    )


def _check_kind(path: Path, read: PacCheckpoint, architecture: str | None, lora: bool | None, source: str) -> None:
    found = f"{_kind(read.lora)} {read.architecture}"
    wanted = f"{_kind(read.lora if lora is None else lora)} {(architecture or read.architecture).replace('/', '-')}"
    if found != wanted:
        raise AdapterError(
            f"checkpoint {path}: is a {found}, not a {wanted}.",
            f"A {wanted} comes from {source}." if source else "Name the model that it is of.",
        )


def _kind(lora: bool) -> str:
    return "PAC-S++" if lora else "PAC-S"


def _quick_gelu(path: Path, read: PacCheckpoint) -> bool:
    if read.lora or read.architecture == "ViT-B-32":
        return True
    if read.architecture == "ViT-L-14":
        return False
    raise AdapterError(
        f"checkpoint {path}: a PAC-S {read.architecture} was never released, and the file does not say "
        "which activation it was tuned with.",
        "Say quick_gelu=true if it was tuned from OpenAI's CLIP, quick_gelu=false if from OpenCLIP's.",
    )


def _load_tokenizer(path: Path, read: PacCheckpoint, folder: Path | None) -> Any:
    from open_clip.tokenizer import HFTokenizer

    text = read.config["text_cfg"]
    if folder is None:
        return clip_tokenizer(text["context_length"])
    try:
        tokenizer = HFTokenizer(str(folder), context_length=text["context_length"])
    except Exception as error:
        # transformers raises whatever it likes over a folder.
        raise AdapterError(
            f"tokenizer {folder}: {first_line(error)}", "Name a folder with a tokenizer.json."
        ) from error
    if (tokens := len(tokenizer.tokenizer)) != text["vocab_size"]:
        raise AdapterError(
            f"checkpoint {path}: knows {text['vocab_size']} tokens, and the tokenizer in {folder} has {tokens}.",
            "Name the tokenizer that the weights were trained with.",
        )
    return tokenizer


def _build(read: PacCheckpoint, quick_gelu: bool, dtype: str, device: torch.device) -> torch.nn.Module:
    from open_clip import CLIP
    from open_clip.model import convert_weights_to_lp, get_cast_dtype

    low = get_cast_dtype(dtype)
    model = CLIP(**read.config, quick_gelu=quick_gelu, cast_dtype=low)
    model.load_state_dict(read.state)
    model.to(device)
    if low is not None:
        convert_weights_to_lp(model, dtype=low)
    return model.eval().requires_grad_(False)
