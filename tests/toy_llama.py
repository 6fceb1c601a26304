"""A Llama of two layers whose weights numpy draws: every version of transformers builds the same."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

IMAGE, END = 3, 1


def toy_llama(seed: int, sharp: float, loud: float, end: float, groups: int = 4) -> Any:
    """Return the model.

    Args:
        seed: Of the weights.
        sharp: What the weights of queries and keys are multiplied by.
        loud: What those of the logits are multiplied by.
        end: What those of the end token are multiplied by besides.
        groups: Heads of keys and values; there are 4 of queries.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 512}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": groups}
    names = {"bos_token_id": 0, "eos_token_id": END, "pad_token_id": 2, "tie_word_embeddings": False}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, **names, rms_norm_eps=1e-6))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                continue
            drawn = np.random.default_rng([seed, zlib.crc32(name.encode())])
            values = drawn.standard_normal(tuple(weight.shape))
            if "embed" not in name:
                values /= np.sqrt(weight.shape[1])
            if "q_proj" in name or "k_proj" in name:
                values *= sharp
            if "lm_head" in name:
                values *= loud
                values[END] *= end
            weight.copy_(torch.from_numpy(values))
    model.config.image_token_id = IMAGE
    return model.eval()


def toy_prompt(case: Mapping[str, Any]) -> torch.Tensor:
    """Return ``[1, prompt]`` token ids: ``before`` of a text, ``image`` of an image, ``after`` of a text."""
    drawn = np.random.default_rng([case["seed"], 7])
    ids = drawn.integers(4, 48, case["before"] + 1 + case["after"])
    ids[0] = 0
    image = [IMAGE] * case["image"]
    return torch.from_numpy(np.concatenate([ids[: case["before"]], image, ids[case["before"] + 1 :]])[None])
