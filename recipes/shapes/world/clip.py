"""The dual encoder of the shapes world: a CLIP in the formats of open_clip, transformers and PAC-S++."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from open_clip import CLIP
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from torch.nn import functional
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

IMAGE_SIZE = 96
"""Side of its input in pixels; pictures are resized to it."""
PATCH = 12
TEXT_WIDTH = 64
HEAD = 32
"""Width of an attention head."""
CONTEXT = 77
START, END = "<|startoftext|>", "<|endoftext|>"
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""OpenAI's, which PAC-S++ files imply."""


@dataclass(frozen=True)
class TowerSizes:
    """Sizes of an encoder.

    Attributes:
        width: Of the vision tower.
        layers: Of the vision tower.
        text_layers: Of the text tower.
        dimension: Of the features.
    """

    width: int = 128
    layers: int = 4
    text_layers: int = 3
    dimension: int = 192


LARGE = TowerSizes()
"""Of ``shapes-clip``."""
SMALL = TowerSizes(64, 3, 2, 64)
"""Of ``shapes-clip-plain``."""


def architecture(vocabulary: int, sizes: TowerSizes = LARGE) -> dict[str, Any]:
    """Return the architecture as an open_clip config.

    Args:
        vocabulary: Number of tokens.
        sizes: Of the towers.
    """
    return {
        "embed_dim": sizes.dimension,
        "quick_gelu": False,
        "vision_cfg": {
            "image_size": IMAGE_SIZE,
            "layers": sizes.layers,
            "width": sizes.width,
            "head_width": HEAD,
            "patch_size": PATCH,
        },
        "text_cfg": {
            "context_length": CONTEXT,
            "vocab_size": vocabulary,
            "width": TEXT_WIDTH,
            "heads": 1,
            "layers": sizes.text_layers,
        },
    }


def build(vocabulary: int, seed: int, sizes: TowerSizes = LARGE) -> CLIP:
    """Return the model with open_clip's random initialisation.

    Args:
        vocabulary: Number of tokens.
        seed: The random seed.
        sizes: Of the towers.
    """
    torch.manual_seed(seed)
    return CLIP(**architecture(vocabulary, sizes))


def normalised(pictures: Sequence[np.ndarray]) -> torch.Tensor:
    """Return the model's input of pictures.

    Args:
        pictures: ``[side, side, 3]`` uint8 each, RGB.

    Returns:
        ``[b, 3, side, side]`` float32.
    """
    deviation = torch.tensor(STD)
    pixels = torch.from_numpy(np.stack(pictures)).float()
    return (pixels * (1 / (255 * deviation)) - torch.tensor(MEAN) / deviation).permute(0, 3, 1, 2)


def train_tokenizer(texts: Iterable[str], merges: int) -> CLIPTokenizer:
    """Return CLIP's tokenizer with another vocabulary: all bytes, alone and ending a word, and merges.

    As in CLIP, text is lowercased, the start token has the last id but one, and the end token, which also pads, the
    last, so that the largest id of a row marks the end of its text. With all bytes, no text is unknown.

    Args:
        texts: The training texts.
        merges: Maximum number of merged pairs, the most frequent first.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(f"{byte}</w>" for byte in alphabet)]
    empty = CLIPTokenizer(vocab={piece: n for n, piece in enumerate([*pieces, START, END])}, merges=[])
    backend: Any = empty.backend_tokenizer
    words: Counter[str] = Counter()
    for text in texts:
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text)):
            words[word] += 1
    pairs = _merges(words, merges)
    vocabulary = list(dict.fromkeys([*pieces, *("".join(pair) for pair in pairs), START, END]))
    ids = {piece: n for n, piece in enumerate(vocabulary)}
    # The library takes pairs, although its type hint is text.
    return CLIPTokenizer(vocab=ids, merges=cast("list[str]", pairs), model_max_length=CONTEXT)


def token_ids(tokenizer: CLIPTokenizer, texts: Sequence[str]) -> torch.Tensor:
    """Return ids ``[n, length]``, truncated to the context and padded with the end token."""
    return tokenizer(list(texts), padding="longest", truncation=True, max_length=CONTEXT, return_tensors="pt")[
        "input_ids"
    ]


def _merges(words: Counter[str], number: int) -> list[tuple[str, str]]:
    """Return the merges of byte-pair encoding; ties are in alphabetical order."""
    split = {word: [*word[:-1], f"{word[-1]}</w>"] for word in words}
    merges: list[tuple[str, str]] = []
    while len(merges) < number:
        counts: Counter[tuple[str, str]] = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        for parts in split.values():
            at = 0
            while at + 1 < len(parts):
                if (parts[at], parts[at + 1]) == best:
                    parts[at : at + 2] = ["".join(best)]
                at += 1
    return merges


def image_features(model: CLIP, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode pictures.

    Args:
        model: The model.
        pixels: ``[b, 3, side, side]``, normalised.

    Returns:
        ``[b, d]`` features, and ``[b, patches, width]`` the states of patches before the last layer.
    """
    visual: Any = model.visual
    size = visual.conv1.kernel_size[0]
    # As a matrix product, which has a faster gradient than the convolution.
    cut = pixels.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    patches = cut @ visual.conv1.weight.flatten(1).T
    first = visual.class_embedding.expand(len(pixels), 1, -1)
    states = visual.ln_pre(torch.cat([first, patches], dim=1) + visual.positional_embedding)
    *blocks, top = visual.transformer.resblocks
    for block in blocks:
        states = _layer(block, states, states)
    # Only the state of the class token is needed.
    last = _layer(top, states[:, :1], states)
    return visual.ln_post(last[:, 0]) @ visual.proj, states[:, 1:]


def text_features(model: CLIP, ids: torch.Tensor) -> torch.Tensor:
    """Encode texts.

    Args:
        model: The model.
        ids: ``[b, n]``; padding may be omitted.

    Returns:
        ``[b, d]`` features.
    """
    text: Any = model
    length = ids.shape[1]
    ends = ids.argmax(dim=1)
    states = text.token_embedding(ids) + text.positional_embedding[:length]
    *blocks, top = text.transformer.resblocks
    for block in blocks:
        states = _layer(block, states, states, text.attn_mask[:length, :length])
    after = torch.arange(length, device=ids.device) > ends[:, None]
    rows = torch.arange(len(ids), device=ids.device)
    hidden = torch.zeros(after.shape, device=ids.device).masked_fill(after, -math.inf)[:, None, None]
    last = _layer(top, states[rows, ends][:, None], states, hidden)
    return text.ln_final(last[:, 0]) @ text.text_projection


def _layer(block: Any, asked: torch.Tensor, states: torch.Tensor, mask: Any = 0.0) -> torch.Tensor:
    """Run a layer for some positions ``[b, m, width]`` that attend to ``states [b, n, width]``.

    Explicit matrix products in bfloat16 are twice as fast on a CPU as the library's attention.
    ``mask`` is added to the attention's logits ``[b, heads, m, n]``.
    """
    attention = block.attn
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    inputs = [block.ln_1(asked), *[block.ln_1(states)] * 2]
    query, key, value = (
        functional.linear(tensor, weight, bias).unflatten(2, (attention.num_heads, -1)).transpose(1, 2)
        for tensor, weight, bias in zip(inputs, weights, biases, strict=True)
    )
    logits = query @ key.transpose(2, 3) / math.sqrt(query.shape[3]) + mask
    attended = (logits.softmax(dim=3).to(value.dtype) @ value).transpose(1, 2).flatten(2)
    asked = asked + attention.out_proj(attended)
    return asked + block.mlp(block.ln_2(asked))


def write_encoder(
    state: Mapping[str, torch.Tensor], tokenizer: CLIPTokenizer, folder: Path, sizes: TowerSizes = LARGE
) -> None:
    """Write weights in half precision with config and tokenizer, for open_clip and transformers.

    Transformers reads ``config.json`` and ``model.safetensors``, open_clip the files of :func:`write_open_clip`; both
    read the tokenizer's files.

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
    """Write weights in half precision for open_clip.

    Files: ``open_clip_config.json``, ``open_clip_model.safetensors``, and those of the tokenizer.

    Args:
        state: Weights by OpenAI's names.
        tokenizer: What the text tower was trained with.
        folder: Made if it is not there.
        sizes: Of the towers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = architecture(len(tokenizer), sizes)
    # If a name is given, open_clip uses the folder's tokenizer; the name itself has no effect.
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
    clip.load_state_dict(transformers_weights(half))
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


_TRANSFORMERS_NAMES = {
    "visual.transformer.resblocks": "vision_model.encoder.layers",
    "transformer.resblocks": "text_model.encoder.layers",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.conv1": "vision_model.embeddings.patch_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "token_embedding": "text_model.embeddings.token_embedding",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "visual.ln_pre": "vision_model.pre_layrnorm",
    "visual.ln_post": "vision_model.post_layernorm",
    "ln_final": "text_model.final_layer_norm",
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
"""Parts of OpenAI's names of weights, in the order in which they are replaced."""


def transformers_weights(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Convert weights of a CLIP from OpenAI's names to those of transformers."""
    named = {
        "visual_projection.weight": state["visual.proj"].T.contiguous(),
        "text_projection.weight": state["text_projection"].T.contiguous(),
    }
    for name in state.keys() - {"visual.proj", "text_projection"}:
        target = name
        for part, replacement in _TRANSFORMERS_NAMES.items():
            target = target.replace(part, replacement)
        layer, is_input, kind = target.partition("attn.in_proj_")
        if is_input:
            parts = zip("qkv", state[name].chunk(3), strict=True)
            named |= {f"{layer}self_attn.{letter}_proj.{kind}": part.clone() for letter, part in parts}
        else:
            named[target] = state[name]
    return named
