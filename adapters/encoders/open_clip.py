"""Dual encoders of the open_clip library: its tags, hub models, and local checkpoints."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...boundary import Boundary
from ...downloads import Repository, Resource
from ...errors import AdapterError, UsageError, did_you_mean
from ...hub import NotInCache, asked_once, commit_of, keep_commit, refusal, unreachable
from ...rows import load_json
from ..arguments import RANDOM, random_name
from ..checkpoint_identity import checkpoint_digest
from ..checkpoints import differing, first_line, first_of, mismatch, remedy_of_folder, tensor_shapes
from ..contracts import Alias
from ..devices import torch_dtype, torch_version
from ..hf_checkpoint import ask_nobody_about_code
from ..images.transforms import ImageTransform
from ..peft_weights import merged_with_peft, peft_checkpoint
from .clip_tokens import CONTEXT, clip_token_ids, clip_token_rows, clip_tokenizer, reserved_positions
from .open_clip_transform import open_clip_transform
from .torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

_WEIGHTS = "open_clip_model.safetensors"
_DOWN = ("_lora_A", ".lora_A")


def weight_of_factor(name: str) -> str:
    """Return the weight that a factor of LoRA belongs to."""
    layer = name.removesuffix("lora_A").removesuffix("lora_B")
    return f"{layer}weight" if layer.endswith(".") else layer.removesuffix("_")


def merged_with_lora(state: Mapping[str, torch.Tensor], alpha: float | None, path: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint with LoRA's added: ``W + B·A alpha / r``.

    A weight ``attn.in_proj_weight`` has ``attn.in_proj_weight_lora_A [r, in]`` and ``_lora_B [out, r]``, that of a
    layer ``mlp.c_fc`` has ``mlp.c_fc.lora_A`` and ``mlp.c_fc.lora_B``; a convolution of ``k × k`` has ``[r k, in k]``
    and ``[out k, r k]``. So does DAC, which adds all of them with alpha 1 (github.com/SivanDoveh/DAC,
    ``src/open_clip/loralib/layers.py`` and ``model.py``), and SVLC by the same files (github.com/SivanDoveh/TSVLC).

    Args:
        state: The weights by name, LoRA's included.
        alpha: Their scale times their rank; it is not in the file.
        path: The checkpoint, for messages.

    Raises:
        AdapterError: ``alpha`` is not given, or a weight lacks its LoRA weights, or they it.
    """
    lora = {name: value for name, value in state.items() if "lora_" in name}
    if foreign := [name for name in lora if not name.endswith((*_DOWN, "_lora_B", ".lora_B"))]:
        raise AdapterError(
            f"checkpoint {path}: LoRA weights are not named as in loralib: {foreign[0]}",
            "For a model of peft, write the adapter alone (save_pretrained) and set peft=FOLDER.",
        )
    if alpha is None:
        raise AdapterError(
            f"checkpoint {path}: holds LoRA weights ({next(iter(lora))}, …) but not their scale.",
            "Set lora_alpha: it is 1 for checkpoints of DAC and SVLC. Read those of PAC-S++, which adds only some of "
            "them, with --model pac --model_args checkpoint=FILE.",
        )
    merged = {name: value for name, value in state.items() if name not in lora}
    for name in sorted(name for name in lora if name.endswith(_DOWN)):
        down, up = lora.pop(name).float(), lora.pop(f"{name[:-1]}B", None)
        weight = weight_of_factor(name)
        if up is None or weight not in merged:
            raise AdapterError(f"checkpoint {path}: {name} has no {weight if up is not None else name[:-1] + 'B'}.")
        own = merged[weight]
        rank = len(down) // (own.shape[-1] if own.ndim == 4 else 1)
        added = up.float() @ down
        if not rank or added.numel() != own.numel():
            shapes = f"{list(down.shape)} and {list(up.shape)}"
            raise AdapterError(f"checkpoint {path}: {name}: {shapes} do not fit {weight}: {list(own.shape)}.")
        merged[weight] = own.float() + added.view(own.shape) * (alpha / rank)
    if lora:
        raise AdapterError(f"checkpoint {path}: {next(iter(lora))} has no lora_A.")
    return merged


_ELSEWHERE = "or name a checkpoint file, or a folder with open_clip_config.json and the weights, in 'pretrained'."
_DOWNLOAD = f"Where the hub can be reached it is downloaded on first use; {_ELSEWHERE}"
_HUB = "hf-hub:"
_CONFIGURATION = "open_clip_config.json"


@dataclass(frozen=True)
class OpenClipSource:
    """Where a model is.

    Attributes:
        model_name: The model name for open_clip.
        load: The tag or file for open_clip to load; None where ``model_name`` is enough.
        name: Of the architecture, for messages.
        configuration: The architecture.
        checkpoint: The file with the weights; None where these are random.
        tag: The tag or hub id that it was known by; none for files.
        quick_tag: Whether the tag was trained with QuickGELU, of which open_clip itself only warns.
        transform: What open_clip knows of the tag's image transform.
    """

    model_name: str
    load: str | None
    name: str
    configuration: Mapping[str, Any]
    checkpoint: Path | None
    tag: str = ""
    quick_tag: bool = False
    transform: Mapping[str, Any] = field(default_factory=dict)

    @property
    def quick_gelu(self) -> bool:
        """Whether the weights were trained with QuickGELU, by the tag or the configuration."""
        return self.quick_tag or bool(self.configuration.get("quick_gelu", False))

    @property
    def folder(self) -> str:
        """The folder with its configuration; empty where open_clip has it."""
        return self.model_name.partition("local-dir:")[2]

    def loading(self) -> AbstractContextManager[None]:
        """Return what to load in: where a part of it is on a hub that does not answer, that is asked once."""
        ask_nobody_about_code()
        text = self.configuration.get("text_cfg", {})
        on_hub = text.get("hf_model_name") or text.get("hf_tokenizer_name")
        return asked_once(on_hub) if on_hub else nullcontext()


def find_source(pretrained: str, architecture: str | None) -> OpenClipSource:
    """Return where a model is, downloaded if need be.

    Raises:
        AdapterError: There is no such model, or it cannot be downloaded.
    """
    path = Path(pretrained).expanduser()
    if pretrained.startswith(_HUB) or (path.is_dir() and pretrained != RANDOM):
        if architecture is not None:
            raise UsageError(
                f"architecture={architecture}: {pretrained} has its own, in {_CONFIGURATION}.",
                "Leave 'architecture' out.",
            )
        return _find_on_hub(pretrained) if pretrained.startswith(_HUB) else _find_in_folder(path)
    if architecture is None:
        kind = "is a file and" if path.is_file() else "is not a file, folder or hub id; a tag"
        raise UsageError(
            f"pretrained={pretrained} {kind} needs an 'architecture'.",
            "Set it, as in architecture=ViT-B-32,pretrained=laion2b_s34b_b79k.",
        )
    name, configuration = _architecture(architecture)
    if pretrained == RANDOM:
        return OpenClipSource(name, None, name, configuration, None)
    if path.is_file():
        return OpenClipSource(name, str(path), name, configuration, path)
    return _find_tag(name, configuration, pretrained)


def require_tag(tag: str, architecture: str | None, repository: str) -> None:
    """Raise where a tag's weights are nowhere; to ask open_clip itself takes seconds.

    Args:
        tag: A tag; any other ``pretrained`` passes.
        architecture: Its architecture.
        repository: The tag's repository on the hub, if it is known.

    Raises:
        AdapterError: The hub does not answer, and its cache has nothing of the repository.
    """
    if architecture is None or tag == RANDOM or Path(tag).expanduser().exists():
        return
    try:
        if repository:
            commit_of(repository)
    except NotInCache as error:
        name = architecture.replace("/", "-")
        raise AdapterError(f"open_clip {name}, {tag}: {first_line(error)}", _remedy(repository)) from error


def _find_tag(name: str, configuration: Mapping[str, Any], tag: str) -> OpenClipSource:
    import open_clip

    known = open_clip.list_pretrained_tags_by_model(name)
    entry = open_clip.get_pretrained_cfg(name, tag)
    if not entry:
        if "/" in tag or "." in tag:
            raise UsageError(f"checkpoint {tag}: no such file.", f"Or name a tag of {name}: {', '.join(known)}.")
        raise UsageError(
            f"pretrained={tag} is neither a tag of architecture {name} nor a file.{did_you_mean(tag, known)}",
            f"Its tags: {', '.join(known) or 'none'}.",
        )
    repository, _, file = str(entry.get("hf_hub", "")).rpartition("/")
    try:
        checkpoint = _fetched(repository, file) if repository else Path(open_clip.download_pretrained(entry))
    except Exception as error:
        # Hubs, sockets and files fail in many ways.
        why, remedy = refusal(error) or (first_line(error), _remedy(repository) if repository else _DOWNLOAD)
        raise AdapterError(f"open_clip {name}, {tag}: {why}", remedy) from error
    is_quick = bool(entry.get("quick_gelu", False))
    return OpenClipSource(name, str(checkpoint), name, configuration, checkpoint, tag, is_quick, entry)


def _fetched(repository: str, file: str = "") -> Path:
    """Return the file with the weights of a repository, of the commit that its branch stands for."""
    from open_clip.pretrained import download_pretrained_from_hf

    commit = commit_of(repository)
    with asked_once(repository):
        checkpoint = Path(download_pretrained_from_hf(repository, file or None, commit))
    keep_commit(repository, commit)
    return checkpoint


def _find_on_hub(pretrained: str) -> OpenClipSource:
    model = pretrained.removeprefix(_HUB)
    try:
        from huggingface_hub import hf_hub_download

        commit = commit_of(model)
        with asked_once(model):
            folder = Path(hf_hub_download(model, _CONFIGURATION, revision=commit)).parent
        _fetched(model)
    except Exception as error:
        # Hubs, sockets and files fail in many ways.
        why, remedy = refusal(error) or (first_line(error), _remedy(model))
        raise AdapterError(f"open_clip {pretrained}: {why}", remedy) from error
    return replace(_find_in_folder(folder), name=model, tag=pretrained)


def _remedy(name: str) -> str:
    return f"Where the hub can be reached, 'hf download {name}' fetches it into the cache (HF_HOME); {_ELSEWHERE}"


def _find_in_folder(folder: Path) -> OpenClipSource:
    from open_clip.factory import _find_checkpoint_in_dir

    configuration = folder / _CONFIGURATION
    if not configuration.is_file():
        hint = "Name the checkpoint file and its architecture, or add the configuration."
        raise AdapterError(f"{folder}: holds no {_CONFIGURATION}.", remedy_of_folder(folder) or hint)
    content = load_json(configuration)
    model = content.get("model_cfg") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise AdapterError(f"{configuration}: has no 'model_cfg'.", "It holds 'model_cfg' and 'preprocess_cfg'.")
    # A part of it may be of the hub, and of a folder below this one.
    Boundary.around(folder).require(model, str(configuration), folder)
    checkpoint = _find_checkpoint_in_dir(folder)
    if checkpoint is None:
        raise AdapterError(
            f"{folder}: holds no checkpoint.", "Add open_clip_model.safetensors or open_clip_pytorch_model.bin."
        )
    return OpenClipSource(f"local-dir:{folder}", None, str(folder), model, Path(checkpoint))


def _architecture(architecture: str) -> tuple[str, dict[str, Any]]:
    """Return the name by which open_clip knows an architecture, and its configuration.

    Raises:
        AdapterError: There is none.
    """
    import open_clip

    path = Path(architecture).expanduser()
    if path.suffix == ".json":
        wanted = load_json(path)
        if path.stem not in open_clip.list_models():
            open_clip.add_model_config(path)
        if open_clip.get_model_config(path.stem) != wanted:
            raise AdapterError(
                f"{path}: open_clip has another '{path.stem}', or the file describes no architecture.",
                "Rename the file; it holds 'embed_dim', 'vision_cfg' and 'text_cfg'.",
            )
    name = path.stem if path.suffix == ".json" else architecture.replace("/", "-")
    configuration = open_clip.get_model_config(name)
    if configuration is None:
        known = open_clip.list_models()
        raise UsageError(
            f"open_clip has no architecture '{architecture}'.{did_you_mean(architecture, known)}",
            "open_clip.list_models() lists them; a JSON file of that form adds another.",
        )
    return name, configuration


_POSITIONS = ("visual.positional_embedding", "positional_embedding", "text.positional_embedding")


class OpenClipTowers(TorchEncoder):
    """The towers of an open_clip model, wherever the weights are from."""

    def fingerprint(self) -> dict[str, Any]:
        """Return the precision, the transform, the tokenizer and the versions."""
        import open_clip

        return {
            "dtype": self.dtype,
            "image": self._transform.fingerprint(),
            "tokenizer": f"{type(self._tokenizer).__name__} {self.context_length}",
            "open_clip": open_clip.__version__,
            "torch": torch_version(),
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
        self._transform = transform
        self._text_tower = getattr(model, "text", model)

    @property
    def _is_clips_own(self) -> bool:
        """Whether the tokenizer is OpenAI's, which truncates texts."""
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
        pixels = inputs["pixel_values"].to(torch_dtype(self.dtype))
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


@dataclass(eq=False, repr=False)
class OpenClipEncoder(OpenClipTowers):
    """A model of open_clip: CLIP, SigLIP, CoCa, ConvNeXt and others.

    Args:
        pretrained: A tag of the architecture (``laion2b_s34b_b79k``), a checkpoint file, a folder with
            ``open_clip_config.json`` and weights, a hub id (``hf-hub:org/name``), or ``random``: weights as open_clip
            draws them, a baseline that knows nothing, which its name and record say.
        architecture: Such as ``ViT-B-32``, or a JSON file in open_clip's form; for tags and checkpoint files.
        dtype: ``fp32``, ``fp16``, ``bf16``, or ``released``: ``fp16`` on a GPU, else ``fp32``, as OpenAI's
            ``clip.load`` has it.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved when the device runs out of memory.
        transform: ``exact``, open_clip's own by Pillow; or ``fast``, in torch, nearly the same.
        workers: Threads or processes that read images; one a core by default.
        reading: ``threads`` or ``processes``; see ``TorchEncoder``.
        quick_gelu: Whether activations are QuickGELU. By default as the tag was trained, or else as the
            architecture says.
        peft: Folder of an adapter such as LoRA (needs peft), which is added to the weights.
        seed: Of weights that are ``random``.
        lora_alpha: What LoRA weights inside the checkpoint are scaled by, times their rank (DAC, SVLC: 1).
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or its checkpoint or adapter is not one of this architecture.
    """

    pretrained: str
    architecture: str | None = None
    _: KW_ONLY
    quick_gelu: bool | None = None
    peft: str | None = None
    lora_alpha: float | None = None
    seed: int = 0
    takes_released = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pretrained == RANDOM:
            if not isinstance(self.seed, int) or self.seed < 0:
                raise AdapterError(f"seed={self.seed} is not a whole number, 0 or above.")
            self.name = random_name(self.name or str(self.architecture), self.seed)
        elif self.seed:
            raise AdapterError(f"seed={self.seed}: the weights of {self.pretrained} are not random.", "Leave it out.")
        self.name = self.name or self.pretrained
        self._source = find_source(str(self.pretrained), self.architecture)
        self._quick_gelu = self._source.quick_gelu if self.quick_gelu is None else self.quick_gelu
        vision = self._source.configuration.get("vision_cfg", {})
        if isinstance(vision.get("layers"), int):
            # A vision transformer of OpenAI's kind; other towers have no such number.
            self._head_width = int(vision.get("head_width", 64))
        if not self._source.tag and self._source.checkpoint:
            self._tokenizer_files = sorted(self._source.checkpoint.parent.glob("tokenizer*.json"))
        self._tuned = {
            **({"peft": peft_checkpoint(self.peft)} if self.peft else {}),
            **({"lora_alpha": self.lora_alpha} if self.lora_alpha is not None else {}),
        }
        settings = (self._device, self._quick_gelu, self.lora_alpha, self.seed)
        model = _load(self._source, self.dtype, *settings)
        if self.peft:
            # Added in single precision, regardless of the model's precision.
            exact = _load(self._source, "fp32", *settings)
            model.load_state_dict(merged_with_peft(exact, self.peft).state_dict())
        pixels = open_clip_transform(model.visual.preprocess_cfg, self.transform, self._device)
        self._take(model, _load_tokenizer(self._source, getattr(model, "text", None)), pixels)

    def _write(self, folder: Path) -> Alias:
        """Write the model as a folder of open_clip: configuration, weights and, if it has its own, the tokenizer."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True)
        configuration = {
            "model_cfg": {**self._source.configuration, "quick_gelu": self._quick_gelu},
            "preprocess_cfg": dict(self._model.visual.preprocess_cfg),
        }
        (folder / _CONFIGURATION).write_text(json.dumps(configuration, indent=2) + "\n", encoding="utf-8")
        weights = {name: value.detach().cpu().contiguous() for name, value in self._model.state_dict().items()}
        save_file(weights, folder / _WEIGHTS, {"format": "pt"})
        for file in self._tokenizer_files:
            shutil.copyfile(file, folder / file.name)
        return {"adapter": "open_clip", "pretrained": f"./{folder.name}"}

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and cannot be had from the hub; see ``Model.check``."""
        pretrained, architecture = str(arguments["pretrained"]), arguments.get("architecture")
        repository = arguments.get("source", "")
        require_tag(pretrained, architecture, repository)
        if unreachable(repository):
            find_source(pretrained, architecture)

    @classmethod
    def resources(cls, arguments: Mapping[str, Any]) -> Sequence[Resource]:
        """Return the repository of its weights on the hub, and that of its tokenizer; see ``Model.resources``."""
        import open_clip

        pretrained, architecture = str(arguments["pretrained"]), arguments.get("architecture")
        if Path(pretrained).expanduser().exists():
            return []
        name, text = pretrained.removeprefix(_HUB), dict[str, Any]()
        if architecture is not None:
            architecture, configuration = _architecture(architecture)
            text = configuration.get("text_cfg", {})
            name = str(open_clip.get_pretrained_cfg(architecture, pretrained).get("hf_hub", "")).rpartition("/")[0]
        weights = [Repository(name, weights=(_WEIGHTS, "open_clip_pytorch_model.bin"))] if name else []
        others = {str(text[key]) for key in ("hf_tokenizer_name", "hf_model_name") if text.get(key)} - {name}
        return [*weights, *(Repository(other, weights=()) for other in sorted(others))]

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights, the architecture and all that was done with them."""
        checkpoint = self._source.checkpoint
        return {
            **super().fingerprint(),
            "adapter": "open_clip",
            "architecture": dict(self._source.configuration),
            "pretrained": self._source.tag,
            "checkpoint": f"sha256:{checkpoint_digest(checkpoint)}" if checkpoint else f"random, seed {self.seed}",
            "activation": "QuickGELU" if self._quick_gelu else "GELU",
            **self._tuned,
        }


def _load(
    source: OpenClipSource, dtype: str, device: torch.device, quick_gelu: bool, lora_alpha: float | None, seed: int
) -> Any:
    import open_clip
    import torch
    from open_clip.factory import load_state_dict

    shapes = tensor_shapes(source.checkpoint) if source.checkpoint else {}
    text = source.configuration.get("text_cfg", {})
    # Towers of transformers, and of CoCa, cannot keep a part of themselves in single precision.
    is_pure = dtype != "fp32" and ("hf_model_name" in text or text.get("embed_cls"))
    state = None
    if source.checkpoint and any("lora_" in name for name in shapes):
        loaded: Any = load_state_dict(str(source.checkpoint), weights_only=True)
        state = merged_with_lora(loaded, lora_alpha, source.checkpoint)
    elif lora_alpha is not None:
        raise AdapterError(
            f"lora_alpha={lora_alpha}: checkpoint {source.checkpoint or RANDOM} holds no LoRA weights.", "Leave it out."
        )
    is_drawn = source.checkpoint is None or state is not None
    disabled = logging.root.manager.disable
    try:
        if is_drawn:
            # open_clip warns of random weights: these are asked for, or those of the checkpoint are put in their place.
            logging.disable(logging.WARNING)
        with source.loading(), torch.random.fork_rng(devices=[], enabled=source.checkpoint is None):
            if source.checkpoint is None:
                torch.default_generator.manual_seed(seed)
            model = open_clip.create_model(
                source.model_name,
                None if is_drawn else source.load,
                load_weights=not is_drawn,
                precision=f"pure_{dtype}" if is_pure else dtype,
                device=device,
                require_pretrained=not is_drawn,
                pretrained_text=source.checkpoint is not None,
                force_quick_gelu=quick_gelu,
                quick_gelu=quick_gelu,
                force_preprocess_cfg=dict(source.transform),
            )
        if state is not None:
            model.load_state_dict(state)
    except Exception as error:
        # open_clip, timm and transformers raise errors of any type for a configuration or a checkpoint; open_clip one
        # without a word where position embeddings have another width.
        if source.checkpoint is None:
            raise AdapterError(f"open_clip {source.name}: {first_line(error)}", _DOWNLOAD) from error
        why = mismatch(str(error)) or "its position embeddings have another width"
        raise _does_not_fit(source, why) from error
    finally:
        logging.disable(disabled)
    # open_clip stretches position embeddings, so that another architecture seems to fit.
    expected = {name: tuple(value.shape) for name, value in model.named_parameters() if name in _POSITIONS}
    stored = {
        name: shapes.get(name) or shapes.get(name.removeprefix("text."), shape) for name, shape in expected.items()
    }
    if differences := differing(stored, expected):
        raise _does_not_fit(source, first_of(differences))
    return model.eval().requires_grad_(False)


def _does_not_fit(source: OpenClipSource, why: str) -> AdapterError:
    return AdapterError(
        f"checkpoint {source.checkpoint} does not fit architecture {source.name}: {why}",
        "Name the architecture that the weights were trained with.",
    )


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
        raise AdapterError(f"the tokenizer of {source.name}: {first_line(error)}", _DOWNLOAD) from error
    return tokenizer


def _tokenizer(source: OpenClipSource, context_length: int | None = None) -> Any:
    """Return a model's tokenizer, by default of the length that its architecture says."""
    import open_clip

    text = source.configuration.get("text_cfg", {})
    if name := text.get("hf_tokenizer_name"):
        # A configuration is data: it does not decide that code in its folder runs.
        settings: dict[str, Any] = {
            "context_length": context_length or text.get("context_length", CONTEXT),
            **text.get("tokenizer_kwargs", {}),
            "trust_remote_code": False,
        }
        # A folder has its own.
        place = name if source.tag else source.folder or name
        revision = None if Path(place).is_dir() else commit_of(place)
        return open_clip.tokenizer.HFTokenizer(
            place, tokenizer_mode=text.get("tokenizer_mode"), revision=revision, **settings
        )
    # Of these open_clip makes another one than OpenAI's.
    if "tokenizer_kwargs" in text or "siglip" in source.model_name.lower():
        return open_clip.get_tokenizer(source.model_name, context_length=context_length)
    return clip_tokenizer(context_length or text.get("context_length", CONTEXT))
