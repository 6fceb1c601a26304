"""PAC-S and PAC-S++ models: CLIP tuned on generated images and captions; their checkpoints, read and written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ...paths import checkpoint_folder
from ..checkpoint_identity import checkpoint_digest, digest_of_files
from ..checkpoints import differing, first_line, first_of, tensor_shapes
from ..contracts import Alias
from .clip_tokens import clip_tokenizer
from .open_clip import OpenClipTowers, merged_with_lora, weight_of_factor
from .open_clip_transform import open_clip_transform

if TYPE_CHECKING:
    import torch


LORA_ALPHA = 1
"""Factors are scaled by this over their rank: released code builds layers of any rank with it, and no file holds it."""

_SIZES = {768: "B", 1024: "L"}
_HINT = "Released files are listed in the README of github.com/aimagelab/pacscore."


@dataclass(frozen=True)
class PacCheckpoint:
    """The weights of a PAC-S or PAC-S++ model.

    Attributes:
        state: Weights by OpenAI's names, float32; what LoRA adds is in them.
        config: What ``open_clip.CLIP`` is built with, but for the activation.
        architecture: ``ViT-B-32``, ``ViT-L-14``, ...; sizes that have no letter are written as the width.
        lora: Whether the file has LoRA weights, as PAC-S++ does.
    """

    state: dict[str, torch.Tensor]
    config: dict[str, Any]
    architecture: str
    lora: bool


def read_pac_checkpoint(path: Path, head_width: int = 64) -> PacCheckpoint:
    """Read a checkpoint and add its LoRA weights to those that released code adds them to.

    PAC-S files hold all weights of a CLIP under ``state_dict``. PAC-S++ files hold LoRA weights, too; those released
    have rank 4. The effect of released code is kept, which builds the model, puts it into evaluation mode and
    only then loads the file: attention (both projections) and patch convolution add theirs, the MLP's
    layers believe to have added theirs already and use the stored weight alone
    (``models/custom_loralib/layers.py``, ``Linear.train``).

    Args:
        path: The file.
        head_width: Width of the vision tower's attention heads, which is not in the file.

    Raises:
        AdapterError: It is no such file: pickled objects, plain CLIP weights, LoRA of several ranks or not
            in all layers, other names or shapes.
    """
    import torch
    from open_clip import CLIP

    state = _read(path)
    lora = any("lora_" in name for name in state)
    config = _config(path, state, head_width)
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in CLIP(**config).state_dict().items()}
    downs = (value for name, value in state.items() if name.endswith(".in_proj_weight_lora_A") and value.ndim)
    rank = len(next(downs, ()))
    expected = shapes | (lora_shapes(shapes, rank) if lora else {})
    stored = {name: tuple(value.shape) for name, value in state.items()}
    unknown = [f"{name}: not in the architecture" for name in sorted(stored.keys() - expected.keys())]
    if faults := [*differing(stored, expected), *unknown]:
        kind = f"a PAC-S++ with LoRA of rank {rank} in every layer" if lora else "a PAC-S"
        raise AdapterError(f"{path}: not the weights of {kind}: {first_of(faults)}", _HINT)
    added = {name: value for name, value in state.items() if not (".mlp." in name and "lora_" in name)}
    merged = merged_with_lora(added, LORA_ALPHA, path) if lora else added
    plain = {name: value.float() for name, value in merged.items()}
    width, patch = config["vision_cfg"]["width"], config["vision_cfg"]["patch_size"]
    return PacCheckpoint(plain, config, f"ViT-{_SIZES.get(width, width)}-{patch}", lora)


def _read(path: Path) -> dict[str, torch.Tensor]:
    import torch

    tensor_shapes(path)
    content: Any = torch.load(path, map_location="cpu", weights_only=True)
    state = content.get("state_dict")
    if not (isinstance(state, Mapping) and state and all(isinstance(v, torch.Tensor) for v in state.values())):
        plain = "; its weights look like those of a plain CLIP" if "visual.proj" in content else ""
        raise AdapterError(f"{path}: has no weights under 'state_dict', as PAC-S and PAC-S++ do{plain}.", _HINT)
    return dict(state)


def _config(path: Path, state: Mapping[str, torch.Tensor], head_width: int) -> dict[str, Any]:
    """Return the sizes of the towers."""
    try:
        width, _, _, patch = state["visual.conv1.weight"].shape
        places = state["visual.positional_embedding"].shape[0]
        context_length, text_width = state["positional_embedding"].shape
        vocabulary = state["token_embedding.weight"].shape[0]
        embed_dim = state["text_projection"].shape[1]
    except (KeyError, ValueError, IndexError) as error:
        raise AdapterError(
            f"{path}: not the weights of a CLIP with a vision transformer: {error}",
            f"PAC-S and PAC-S++ are tuned from ViT-B/32 and ViT-L/14. {_HINT}",
        ) from error
    if width % 64 or text_width % 64:
        raise AdapterError(
            f"{path}: towers of width {width} and {text_width} are not CLIP's: its heads are 64 wide.", _HINT
        )
    return {
        "embed_dim": embed_dim,
        "vision_cfg": {
            "image_size": patch * round((places - 1) ** 0.5),
            "layers": _layers(state, "visual.transformer.resblocks."),
            "width": width,
            "head_width": head_width,
            "patch_size": patch,
        },
        "text_cfg": {
            "context_length": context_length,
            "vocab_size": vocabulary,
            "width": text_width,
            "heads": text_width // 64,
            "layers": _layers(state, "transformer.resblocks."),
        },
    }


def _layers(state: Mapping[str, torch.Tensor], prefix: str) -> int:
    return len({name.removeprefix(prefix).partition(".")[0] for name in state if name.startswith(prefix)})


def lora_shapes(plain: Mapping[str, tuple[int, ...]], rank: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each factor that PAC-S++ has, its A before its B, by its name.

    Args:
        plain: Shapes of a CLIP's weights by OpenAI's names.
        rank: Of the factors; those of the patch convolution have its kernel's size times as much.
    """
    added: dict[str, tuple[int, ...]] = {}
    for name, shape in plain.items():
        layer = name.removesuffix("weight")
        if name == "visual.conv1.weight":
            outputs, inputs, kernel, _ = shape
            added[f"{layer}lora_A"] = (rank * kernel, inputs * kernel)
            added[f"{layer}lora_B"] = (outputs * kernel, rank * kernel)
        elif name.endswith((".in_proj_weight", ".out_proj.weight", ".c_fc.weight", ".c_proj.weight")):
            layer = f"{name}_" if name.endswith("in_proj_weight") else layer
            added[f"{layer}lora_A"] = (rank, shape[1])
            added[f"{layer}lora_B"] = (shape[0], rank)
    return added


def write_pac(
    plain: Mapping[str, torch.Tensor],
    factors: Mapping[str, torch.Tensor],
    folder: Path,
    head_width: int,
    quick_gelu: bool,
    tokenizer_files: Sequence[Path],
) -> Alias:
    """Write a checkpoint that the released reader and ours read as the same model.

    What LoRA adds to the MLP is merged into its weights, since readers take these to be so; attention and patches
    stay as they are, since readers add theirs (``read_pac_checkpoint``).

    Args:
        plain: Weights of a CLIP by OpenAI's names, without what LoRA adds.
        factors: LoRA's by the names of PAC-S++, of one rank; none for a PAC-S.
        folder: Is there; gets the file and the tokenizer's.
        head_width: Width of the vision tower's attention heads.
        quick_gelu: Whether activations are QuickGELU.
        tokenizer_files: The files of the model's own tokenizer.

    Returns:
        The alias, as of a file in ``folder``.

    Raises:
        AdapterError: Weights or factors are not those of a PAC-S or PAC-S++.
    """
    import torch

    state = {name: value.detach().float().cpu() for name, value in {**plain, **factors}.items()}
    for name in factors:
        if ".mlp." in name and name.endswith("lora_A"):
            down, up = state[name], state[f"{name[:-1]}B"]
            state[weight_of_factor(name)] = state[weight_of_factor(name)] + up @ down * (LORA_ALPHA / len(down))
    file = folder / "pac.pth"
    torch.save({"state_dict": {name: value.contiguous() for name, value in state.items()}}, file)
    read_pac_checkpoint(file, head_width)
    for tokenizer_file in tokenizer_files:
        shutil.copyfile(tokenizer_file, folder / tokenizer_file.name)
    return {
        "adapter": "pac",
        "checkpoint": f"./{folder.name}/{file.name}",
        "lora": bool(factors),
        "quick_gelu": quick_gelu,
        "head_width": head_width,
        **({"tokenizer": f"./{folder.name}"} if tokenizer_files else {}),
    }


@dataclass(eq=False, repr=False)
class PacEncoder(OpenClipTowers):
    """A CLIP with the released weights of PAC-S or PAC-S++.

    The files hold all weights, so no other model is loaded and none can be the wrong one. What they do not
    say is the activation: PAC-S++ and PAC-S of ViT-B/32 are tuned from OpenAI's CLIP, which has QuickGELU,
    PAC-S of ViT-L/14 from OpenCLIP's (``laion2b_s32b_b82k``), which has GELU. Where LoRA weights are added is
    said by ``read_pac_checkpoint``. A plain CLIP with its weights under ``state_dict`` looks like a PAC-S.

    Args:
        checkpoint: The file; a name without a folder is also looked for in ``checkpoints`` in the cache folder
            (``BENCH_CACHE``).
        architecture: The required architecture, such as ``ViT-B-32``; any if left out.
        lora: Whether the file must have LoRA weights (PAC-S++) or must have none (PAC-S); any if left out.
        quick_gelu: Whether activations are QuickGELU; by default as above. Required for a PAC-S of another
            architecture.
        dtype: ``fp32``, as released, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved when the device runs out of memory.
        transform: ``exact``, OpenAI's own by Pillow; or ``fast``, in torch, nearly the same.
        workers: Threads or processes that read images; one a core by default.
        reading: ``threads`` or ``processes``; see ``TorchEncoder``.
        head_width: Width of the vision tower's attention heads, which is not in the file; 64 as released.
        tokenizer: A folder with the tokenizer that the weights were trained with, as transformers saves it; by
            default OpenAI's, as released.
        source: Where the file can be had, for the message if it is missing.
        name: How results call the model.

    Raises:
        AdapterError: The file is missing, or is not such a checkpoint; the tokenizer cannot be loaded, or has
            not as many tokens as the weights.
    """

    family = "pac"

    checkpoint: str | Path
    _: KW_ONLY
    architecture: str | None = None
    lora: bool | None = None
    quick_gelu: bool | None = None
    head_width: int = 64
    tokenizer: str | Path | None = None
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._file = _find(Path(self.checkpoint).expanduser(), self.source)
        self.name = self.name or self._file.stem
        read = read_pac_checkpoint(self._file, self.head_width)
        _check_kind(self._file, read, self.architecture, self.lora, self.source)
        self._architecture, self._has_lora = read.architecture, read.lora
        self._quick_gelu = quick_gelu_of(self._file, read) if self.quick_gelu is None else self.quick_gelu
        folder = None if self.tokenizer is None else Path(self.tokenizer).expanduser()
        self._unlike_released: dict[str, int | str] = {}
        if self.head_width != 64:
            self._unlike_released["head_width"] = self.head_width
        self._take(
            _build(read, self._quick_gelu, self.dtype, self._device),
            _load_tokenizer(self._file, read, folder),
            open_clip_transform({"size": read.config["vision_cfg"]["image_size"]}, self.transform, self._device),
        )
        self._head_width = self.head_width
        if folder is not None:
            self._tokenizer_files = sorted(folder.glob("tokenizer*.json"))
            self._unlike_released["words"] = f"sha256:{digest_of_files(self._tokenizer_files)}"

    def _write(self, folder: Path) -> Alias:
        folder.mkdir(parents=True)
        weights = dict(self._model.state_dict())
        return write_pac(weights, {}, folder, self.head_width, bool(self._quick_gelu), self._tokenizer_files)

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
            "lora": "added to attention and patches" if self._has_lora else "none",
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
        f"'bench fetch MODEL' fetches it; it comes from {source or 'the README of github.com/aimagelab/pacscore'}. Or "
        f"put it into {in_cache}, or name it: checkpoint=FILE in --encoder_args, or in --model_args where it is the "
        "--model.",
    )


def _check_kind(path: Path, read: PacCheckpoint, architecture: str | None, lora: bool | None, source: str) -> None:
    kinds = {True: "PAC-S++", False: "PAC-S"}
    actual = f"{kinds[read.lora]} {read.architecture}"
    wanted = f"{kinds[read.lora if lora is None else lora]} {(architecture or read.architecture).replace('/', '-')}"
    if actual != wanted:
        raise AdapterError(
            f"checkpoint {path}: is a {actual}, not a {wanted}.",
            f"A {wanted} comes from {source}." if source else "Select the model of this checkpoint.",
        )


def quick_gelu_of(path: Path, read: PacCheckpoint) -> bool:
    """Return whether a released model was tuned from one with QuickGELU.

    Raises:
        AdapterError: It is of another architecture than the released ones.
    """
    if read.lora or read.architecture == "ViT-B-32":
        return True
    if read.architecture == "ViT-L-14":
        return False
    raise AdapterError(
        f"checkpoint {path}: the file does not say which activation its PAC-S {read.architecture} has.",
        "Set quick_gelu=true if it was tuned from OpenAI's CLIP, false if from OpenCLIP's.",
    )


def _load_tokenizer(path: Path, read: PacCheckpoint, folder: Path | None) -> Any:
    from open_clip.tokenizer import HFTokenizer

    text = read.config["text_cfg"]
    if folder is None:
        return clip_tokenizer(text["context_length"])
    try:
        tokenizer = HFTokenizer(str(folder), context_length=text["context_length"])
    except Exception as error:
        # transformers raises errors of any type for a folder.
        raise AdapterError(
            f"tokenizer {folder}: {first_line(error)}", "Name a folder with a tokenizer.json."
        ) from error
    if (tokens := len(tokenizer.tokenizer)) != text["vocab_size"]:  # pyrefly: ignore[bad-argument-type]
        raise AdapterError(
            f"checkpoint {path}: has {text['vocab_size']} tokens, but the tokenizer in {folder} has {tokens}.",
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
