"""The towers of a CLIP while they are trained: as open_clip's, without what their results do not need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from open_clip import CLIP


def image_features(model: CLIP, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode pictures.

    Args:
        model: The model.
        pixels: ``[b, 3, side, side]``, normalised.

    Returns:
        ``[b, d]`` features, and ``[b, patches, width]`` the states of patches that the last layer looks at.
    """
    import torch

    visual: Any = model.visual
    size = visual.conv1.kernel_size[0]
    # As a product of matrices, which has a faster gradient than the convolution.
    cut = pixels.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    patches = cut @ visual.conv1.weight.flatten(1).T
    first = visual.class_embedding.expand(len(pixels), 1, -1)
    states = visual.ln_pre(torch.cat([first, patches], dim=1) + visual.positional_embedding)
    *blocks, top = visual.transformer.resblocks
    for block in blocks:
        states = _layer(block, states, states)
    # Only the state of the class token is asked for.
    last = _layer(top, states[:, :1], states)
    return visual.ln_post(last[:, 0]) @ visual.proj, states[:, 1:]


def text_features(model: CLIP, ids: torch.Tensor) -> torch.Tensor:
    """Encode texts.

    Args:
        model: The model.
        ids: ``[b, n]``; padding may be cut off.

    Returns:
        ``[b, d]`` features.
    """
    import torch

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
    """Run a layer for some positions ``[b, m, width]`` that look at ``states [b, n, width]``.

    Written out, since products of matrices in bfloat16 are twice as fast on a CPU as the library's attention.
    ``mask`` is added to the attention's logits ``[b, heads, m, n]``.
    """
    from torch.nn import functional

    attention = block.attn
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    inputs = [block.ln_1(asked), *[block.ln_1(states)] * 2]
    query, key, value = (
        functional.linear(one, weight, bias).unflatten(2, (attention.num_heads, -1)).transpose(1, 2)
        for one, weight, bias in zip(inputs, weights, biases, strict=True)
    )
    logits = query @ key.transpose(2, 3) / math.sqrt(query.shape[3]) + mask
    found = (logits.softmax(dim=3).to(value.dtype) @ value).transpose(1, 2).flatten(2)
    asked = asked + attention.out_proj(found)
    return asked + block.mlp(block.ln_2(asked))
