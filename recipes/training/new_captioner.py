"""Makes an untrained captioner on the vision tower of a CLIP: the start model of PAC-S++.

``python -m capbench.recipes.training.new_captioner --encoder openai/clip-vit-large-patch14 --output captioner``
"""

import argparse
from pathlib import Path
from typing import Any

PAD = "<|pad|>"
"""As in the released captioners of the same group; CLIP's tokenizer would pad with the end token."""


def write_new_captioner(
    encoder: str, folder: Path, seed: int = 0, *,
    layers: int = 3, width: int = 512, heads: int = 8, inner: int = 2048, positions: int = 128,
) -> None:  # fmt: skip
    """Write a captioner with random weights on CLIP's vision tower, in the format of ``save_pretrained``.

    Args:
        encoder: A hub id or a folder of a transformers CLIP.
        folder: The output folder; created if missing.
        seed: The random seed.
        layers: Layers of the encoder, and of the decoder; all defaults are the paper's.
        width: Width of both.
        heads: Attention heads per layer.
        inner: Hidden width of each layer's MLP.
        positions: Maximum length of a caption in tokens.
    """
    import torch
    import transformers

    from ...adapters.captioners.grid_encoder import GridEncoderConfig

    torch.manual_seed(seed)
    tower: Any = transformers.CLIPModel.from_pretrained(encoder, dtype=torch.float32).vision_model
    tokenizer: Any = transformers.CLIPTokenizer.from_pretrained(encoder)
    tokenizer.add_special_tokens({"pad_token": PAD})
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    patches = (tower.config.image_size // tower.config.patch_size) ** 2
    # The encoder reads no tokens, so its embedding table needs one row only.
    reader = transformers.BertConfig(
        vocab_size=1,
        pad_token_id=0,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=patches + 1,
    )
    writer = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=positions,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=inner,
        **special,
    )
    looks = GridEncoderConfig(vision_encoder=tower.config.to_dict(), encoder=reader.to_dict())
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(looks, writer)
    start = {"decoder_start_token_id": special["bos_token_id"], **special}
    config.update(start)
    model: Any = transformers.VisionEncoderDecoderModel(config)
    model.generation_config.update(**start)
    model.encoder.vision_encoder.load_state_dict(tower.state_dict())
    model.save_pretrained(folder)
    transformers.CLIPImageProcessor.from_pretrained(encoder).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Make a captioner with random weights on a CLIP's vision tower.")
    parser.add_argument("--encoder", required=True, help="hub id or folder of a transformers CLIP")
    parser.add_argument("--output", type=Path, required=True, help="output folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write_new_captioner(options.encoder, options.output, options.seed)


if __name__ == "__main__":
    main()
