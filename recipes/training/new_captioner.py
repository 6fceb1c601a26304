"""Makes a captioner that has learned nothing yet, on the vision tower of a CLIP: the one that PAC-S++ tunes.

``python -m capbench.recipes.training.new_captioner --encoder openai/clip-vit-large-patch14 --output captioner``
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAD = "<|pad|>"
"""As in the released captioners of the same group: CLIP's tokenizer pads with its end, which a caption has, too."""


@dataclass(frozen=True)
class CaptionerSizes:
    """What captioners differ in; those of the paper.

    Attributes:
        layers: Of the encoder, and of the decoder.
        width: Of both.
        heads: Of each layer.
        inner: Width between the two matrices of each layer's MLP.
        positions: Tokens that a caption may have.
    """

    layers: int = 3
    width: int = 512
    heads: int = 8
    inner: int = 2048
    positions: int = 128


def write_new_captioner(encoder: str, folder: Path, sizes: CaptionerSizes = CaptionerSizes(), seed: int = 0) -> None:
    """Write a captioner with random weights, and CLIP's own behind them, as ``save_pretrained`` does.

    Args:
        encoder: A hub id of a CLIP of transformers, or a folder of one.
        folder: Made if it is not there.
        sizes: Of what stands on the tower.
        seed: Other seeds give other weights.
    """
    import torch
    from transformers import (
        BertConfig,
        CLIPImageProcessor,
        CLIPModel,
        CLIPTokenizer,
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
    )

    from ...adapters.captioners.grid_encoder import GridEncoderConfig, register

    register()
    torch.manual_seed(seed)
    tower: Any = CLIPModel.from_pretrained(encoder, dtype=torch.float32).vision_model
    tokenizer: Any = CLIPTokenizer.from_pretrained(encoder)
    tokenizer.add_special_tokens({"pad_token": PAD})
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    patches = (tower.config.image_size // tower.config.patch_size) ** 2
    # It reads no words: of their table nothing is used but its first row's place.
    reader = BertConfig(
        vocab_size=1,
        pad_token_id=0,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.inner,
        max_position_embeddings=patches + 1,
    )
    writer = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=sizes.positions,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_inner=sizes.inner,
        **special,
    )
    looks = GridEncoderConfig(vision_encoder=tower.config.to_dict(), encoder=reader.to_dict())
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(looks, writer)
    start = {"decoder_start_token_id": special["bos_token_id"], **special}
    config.update(start)
    model: Any = VisionEncoderDecoderModel(config)
    model.generation_config.update(**start)
    model.encoder.vision_encoder.load_state_dict(tower.state_dict())
    model.save_pretrained(folder)
    CLIPImageProcessor.from_pretrained(encoder).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Make the captioner as the arguments say."""
    parser = argparse.ArgumentParser(description="Make a captioner with random weights on a CLIP's vision tower.")
    parser.add_argument("--encoder", required=True, help="a CLIP of transformers: a hub id, or a folder")
    parser.add_argument("--output", type=Path, required=True, help="the folder that its files go to")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_new_captioner(given.encoder, given.output, seed=given.seed)


if __name__ == "__main__":
    main()
