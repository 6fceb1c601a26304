"""Writes the dual encoder for open_clip and for transformers, into one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .architecture import CONTEXT, HEAD, IMAGE_SIZE, LARGE, MEAN, STD, TowerSizes, architecture

if TYPE_CHECKING:
    import torch
    from transformers import CLIPTokenizer

_NORMS = {
    "visual.ln_pre": "vision_model.pre_layrnorm",
    "visual.ln_post": "vision_model.post_layernorm",
    "ln_final": "text_model.final_layer_norm",
}
_LAYER = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


def write_encoder(
    state: Mapping[str, torch.Tensor], tokenizer: CLIPTokenizer, folder: Path, sizes: TowerSizes = LARGE
) -> None:
    """Write weights in half precision with all that belongs to them, for open_clip and for transformers.

    Transformers reads ``config.json`` and ``model.safetensors``, open_clip what :func:`write_open_clip` writes, both
    the tokenizer's files.

    Args:
        state: Weights by OpenAI's names.
        tokenizer: What the text tower was trained with.
        folder: Made if it is not there.
        sizes: Of the towers.
    """
    write_open_clip(state, tokenizer, folder, sizes)
    _write_transformers(_half(state), tokenizer, folder, architecture(len(tokenizer), sizes))


def write_open_clip(
    state: Mapping[str, torch.Tensor], tokenizer: CLIPTokenizer, folder: Path, sizes: TowerSizes = LARGE
) -> None:
    """Write weights in half precision for open_clip alone.

    They are ``open_clip_config.json`` and ``open_clip_model.safetensors``, beside the tokenizer's files.

    Args:
        state: Weights by OpenAI's names.
        tokenizer: What the text tower was trained with.
        folder: Made if it is not there.
        sizes: Of the towers.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model = architecture(len(tokenizer), sizes)
    # open_clip takes the folder's own tokenizer where this is named, whatever the name.
    model["text_cfg"]["hf_tokenizer_name"] = "."
    preprocess = {
        "size": IMAGE_SIZE, "mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "squash"
    }  # fmt: skip
    configuration = {"model_cfg": model, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(configuration, indent=2) + "\n", encoding="utf-8")
    save_file(_half(state), folder / "open_clip_model.safetensors", {"format": "pt"})
    tokenizer.save_pretrained(folder)


def _half(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().half().contiguous() for name, value in state.items()}


def _write_transformers(
    half: Mapping[str, torch.Tensor], tokenizer: CLIPTokenizer, folder: Path, model: Mapping[str, Any]
) -> None:
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    vision, text = model["vision_cfg"], model["text_cfg"]
    config = CLIPConfig(
        projection_dim=model["embed_dim"],
        text_config=_tower(text, text["heads"]) | {
            "vocab_size": text["vocab_size"],
            "max_position_embeddings": CONTEXT,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config=_tower(vision, vision["width"] // HEAD) | {
            "image_size": IMAGE_SIZE,
            "patch_size": vision["patch_size"],
        },
    )  # fmt: skip
    clip = CLIPModel(config).half()
    clip.load_state_dict(_renamed(half, vision["layers"], text["layers"]))
    clip.save_pretrained(folder)
    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    pixels = CLIPImageProcessor(size=side, do_center_crop=False, image_mean=MEAN, image_std=STD)
    CLIPProcessor(image_processor=pixels, tokenizer=tokenizer).save_pretrained(folder)


def _tower(sizes: Mapping[str, int], heads: int) -> dict[str, Any]:
    return {
        "hidden_size": sizes["width"],
        "intermediate_size": 4 * sizes["width"],
        "num_attention_heads": heads,
        "num_hidden_layers": sizes["layers"],
        "hidden_act": "gelu",
    }


def _renamed(state: Mapping[str, torch.Tensor], vision_layers: int, text_layers: int) -> dict[str, Any]:
    """Return weights of open_clip's CLIP by transformers' names."""
    named: dict[str, Any] = {
        "logit_scale": state["logit_scale"],
        "visual_projection.weight": state["visual.proj"].T.contiguous(),
        "text_projection.weight": state["text_projection"].T.contiguous(),
        "vision_model.embeddings.class_embedding": state["visual.class_embedding"],
        "vision_model.embeddings.patch_embedding.weight": state["visual.conv1.weight"],
        "vision_model.embeddings.position_embedding.weight": state["visual.positional_embedding"],
        "text_model.embeddings.token_embedding.weight": state["token_embedding.weight"],
        "text_model.embeddings.position_embedding.weight": state["positional_embedding"],
    }
    kinds = ("weight", "bias")
    for ours, theirs in _NORMS.items():
        named |= {f"{theirs}.{kind}": state[f"{ours}.{kind}"] for kind in kinds}
    for tower, ours, layers in (("vision", "visual.", vision_layers), ("text", "", text_layers)):
        for layer in range(layers):
            block = f"{ours}transformer.resblocks.{layer}"
            target = f"{tower}_model.encoder.layers.{layer}"
            for kind in kinds:
                parts = state[f"{block}.attn.in_proj_{kind}"].chunk(3)
                for letter, part in zip("qkv", parts, strict=True):
                    named[f"{target}.self_attn.{letter}_proj.{kind}"] = part.clone()
                for name, theirs in _LAYER.items():
                    named[f"{target}.{theirs}.{kind}"] = state[f"{block}.{name}.{kind}"]
    return named
