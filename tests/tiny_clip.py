"""Makes tiny dual encoders in the real file formats, so that real loading code meets real files.

A test takes the fixtures ``tiny_clip``, ``tiny_siglip`` and ``tiny_siglip2`` of ``tests/conftest.py``; what
needs a checkpoint of its own imports this module (``from tiny_clip import make_tiny_clip``).
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from capbench.metrics.golden import tiny_inputs
from capbench.metrics.golden.tiny_inputs import ARCHITECTURE, EMBED_DIM, IMAGE_SIZE


@cache
def _drawn(seed: int, lora: bool) -> Mapping[str, Any]:
    return tiny_inputs.tiny_lora_state_dict(seed) if lora else tiny_inputs.tiny_state_dict(seed)


def tiny_state_dict(seed: int = 0) -> dict[str, Any]:
    """Return the weights of a tiny CLIP, drawn once a process: their tensors are not to be changed."""
    return dict(_drawn(seed, False))


def tiny_lora_state_dict(seed: int = 0) -> dict[str, Any]:
    """Return the weights of a tiny CLIP with LoRA, drawn once a process: their tensors are not to be changed."""
    return dict(_drawn(seed, True))


FEW_WORDS = {**ARCHITECTURE, "text_cfg": {**ARCHITECTURE["text_cfg"], "vocab_size": 9}}
"""The architecture of ``few_words``."""


def few_words(state: dict[str, Any]) -> dict[str, Any]:
    """Return a tiny CLIP's weights without most words: read in a moment, for tests that encode no text."""
    return {**state, "token_embedding.weight": state["token_embedding.weight"][:9].clone()}


@dataclass(frozen=True)
class TinyClip:
    """The same weights in four formats.

    Attributes:
        architecture: open_clip's architecture file; its name is the architecture's.
        checkpoint: The state dict, as open_clip trains it (``.pt``).
        open_clip_folder: A folder for ``local-dir:``: configuration and safetensors.
        hf_folder: A folder that transformers reads: ``CLIPModel`` with its processor.
        openai_state_dict: The state dict in half precision, as ``build_model`` of openai/CLIP takes it.
    """

    architecture: Path
    checkpoint: Path
    open_clip_folder: Path
    hf_folder: Path
    openai_state_dict: Path

    @classmethod
    def of(cls, folder: Path) -> TinyClip:
        """Return the tiny CLIP that was made in a folder."""
        return cls(
            architecture=folder / "tiny-clip.json",
            checkpoint=folder / "open_clip_checkpoint.pt",
            open_clip_folder=folder / "open_clip",
            hf_folder=folder / "transformers",
            openai_state_dict=folder / "openai.pt",
        )


def make_tiny_clip(folder: Path, seed: int = 0) -> TinyClip:
    """Write a tiny CLIP in every format.

    Args:
        folder: An existing folder.
        seed: Other seeds give other weights.
    """
    import torch
    from safetensors.torch import save_file

    tiny = TinyClip.of(folder)
    state = tiny_state_dict(seed)
    tiny.architecture.write_text(json.dumps(ARCHITECTURE), encoding="utf-8")
    torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, tiny.checkpoint)
    tiny.open_clip_folder.mkdir()
    configuration = {"model_cfg": ARCHITECTURE, "preprocess_cfg": {"mean": _MEAN, "std": _STD}}
    (tiny.open_clip_folder / "open_clip_config.json").write_text(json.dumps(configuration), encoding="utf-8")
    save_file(state, tiny.open_clip_folder / "open_clip_model.safetensors")
    torch.save({name: value.half() for name, value in state.items()}, tiny.openai_state_dict)
    _save_for_transformers(state, tiny.hf_folder)
    return tiny


def make_tiny_siglip(folder: Path, seed: int = 0) -> Path:
    """Write a tiny SigLIP that transformers reads, with a tokenizer of single characters.

    Returns:
        The folder.
    """
    import torch
    from transformers import PreTrainedTokenizerFast, SiglipConfig, SiglipImageProcessor, SiglipModel

    torch.manual_seed(seed)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_character_tokenizer(), pad_token="</s>", eos_token="</s>", unk_token="<unk>",
        model_max_length=64,
    )  # fmt: skip
    config = SiglipConfig(
        text_config={**_TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 64, **_SPECIAL},
        vision_config={**_TOWER, "image_size": IMAGE_SIZE, "patch_size": 8},
    )
    _scaled(SiglipModel(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    SiglipImageProcessor(size={"height": IMAGE_SIZE, "width": IMAGE_SIZE}).save_pretrained(folder)
    return folder


def make_tiny_siglip2(folder: Path, seed: int = 0) -> Path:
    """Write a tiny SigLIP 2 of the NaFlex kind (any aspect ratio) that transformers reads.

    Returns:
        The folder.
    """
    import torch
    from transformers import Siglip2Config, Siglip2ImageProcessor, Siglip2Model, Siglip2Tokenizer

    torch.manual_seed(seed)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    vocabulary = {token: n for n, token in enumerate([*special, "▁", *string.ascii_lowercase, *string.digits])}
    tokenizer = Siglip2Tokenizer(vocab=vocabulary, model_max_length=64, padding_side="right")
    config = Siglip2Config(
        text_config={**_TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 64, **_SPECIAL2},
        vision_config={**_TOWER, "patch_size": 8, "num_patches": 16},
    )
    _scaled(Siglip2Model(config)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Siglip2ImageProcessor(patch_size=8, max_num_patches=16).save_pretrained(folder)
    return folder


_MEAN = [0.48145466, 0.4578275, 0.40821073]
_STD = [0.26862954, 0.26130258, 0.27577711]
_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
_SPECIAL = {"pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 0}
_SPECIAL2 = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}


def _save_for_transformers(state: dict[str, Any], folder: Path) -> None:
    from open_clip import SimpleTokenizer
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    from capbench.recipes.shapes.world.clip import transformers_weights

    vision, text = ARCHITECTURE["vision_cfg"], ARCHITECTURE["text_cfg"]
    config = CLIPConfig(
        projection_dim=EMBED_DIM,
        text_config={
            "hidden_size": text["width"], "intermediate_size": 4 * text["width"], "num_attention_heads": 1,
            "num_hidden_layers": text["layers"], "bos_token_id": 49406, "eos_token_id": 49407,
            "pad_token_id": 1, "vocab_size": text["vocab_size"],
        },
        vision_config={
            "hidden_size": vision["width"], "intermediate_size": 4 * vision["width"], "num_attention_heads": 1,
            "num_hidden_layers": vision["layers"], "image_size": IMAGE_SIZE, "patch_size": vision["patch_size"],
        },
    )  # fmt: skip
    model = CLIPModel(config)
    model.load_state_dict(transformers_weights(state))
    model.save_pretrained(folder)
    words = SimpleTokenizer()
    vocabulary = dict(words.encoder)
    vocabulary["<|startoftext|>"] = vocabulary.pop("<start_of_text>")
    vocabulary["<|endoftext|>"] = vocabulary.pop("<end_of_text>")
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=list(words.bpe_ranks), model_max_length=77)
    processor = CLIPImageProcessor(
        size={"shortest_edge": IMAGE_SIZE}, crop_size={"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    )
    CLIPProcessor(image_processor=processor, tokenizer=tokenizer).save_pretrained(folder)


def _scaled(model: Any) -> Any:
    """Scale the weights up in place: as initialised, all inputs have nearly the same features."""
    import torch

    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim > 1 and "norm" not in name:
                value.copy_(torch.randn_like(value) * (0.5 if "embedding" in name else 1.5 * value.shape[-1] ** -0.5))
    return model.eval()


def _character_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {token: n for n, token in enumerate(["</s>", "<unk>", " ", *string.ascii_lowercase, *string.digits])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 0)])
    return tokenizer
