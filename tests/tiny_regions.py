"""Makes tiny models that look for regions, in the real file formats, so that real loading code meets real files."""

from pathlib import Path

import torch
import transformers

SIDE = 64
"""Pixels a side of what they look at."""
_DECODER = {"mlp_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "iou_head_hidden_dim": 16}
"""Sizes of SAM's decoder of masks."""


def make_tiny_sam(folder: Path) -> Path:
    """Write a tiny SAM with its processor, and return the folder."""
    torch.manual_seed(0)
    config = transformers.SamConfig(
        vision_config={
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE, "patch_size": 8,
            "output_channels": 16, "mlp_dim": 32, "global_attn_indexes": [1], "window_size": 4, "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": SIDE, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={**_DECODER, "hidden_size": 16},
    )  # fmt: skip
    _spread(transformers.SamModel(config)).save_pretrained(folder)
    square = {"height": SIDE, "width": SIDE}
    transformers.SamProcessor(
        transformers.SamImageProcessor(size={"longest_edge": SIDE}, pad_size=square)
    ).save_pretrained(folder)
    return folder


def make_tiny_sam2(folder: Path) -> Path:
    """Write a tiny SAM 2 with its processor, and return the folder."""
    torch.manual_seed(0)
    config = transformers.Sam2Config(
        vision_config={
            "backbone_config": {
                "model_type": "sam2_hiera_det_model", "hidden_size": 8, "image_size": [SIDE, SIDE],
                "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [8, 16, 32, 64],
                "num_attention_heads_per_stage": [1, 1, 2, 2], "window_size_per_stage": [4, 4, 4, 2],
                "global_attention_blocks": [3], "window_positional_embedding_background_size": [4, 4],
            },
            "backbone_channel_list": [64, 32, 16, 8], "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            "fpn_hidden_size": 32,
        },
        prompt_encoder_config={"hidden_size": 32, "image_size": SIDE, "patch_size": 16, "mask_input_channels": 4},
        mask_decoder_config={**_DECODER, "hidden_size": 32},
    )  # fmt: skip
    _spread(transformers.Sam2Model(config)).save_pretrained(folder)
    square = {"height": SIDE, "width": SIDE}
    transformers.Sam2Processor(transformers.Sam2ImageProcessor(size=square), target_size=SIDE).save_pretrained(folder)
    return folder


def make_tiny_owlv2(folder: Path, tokenizer_folder: Path) -> Path:
    """Write a tiny OWLv2 with its processor, and return the folder.

    Args:
        folder: Where to.
        tokenizer_folder: A folder with CLIP's tokenizer.
    """
    torch.manual_seed(0)
    tokenizer = transformers.CLIPTokenizer.from_pretrained(tokenizer_folder, model_max_length=16)
    config = transformers.Owlv2Config(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 16, "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": tokenizer.bos_token_id,
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": SIDE, "patch_size": 16,
        },
        projection_dim=32,
    )  # fmt: skip
    _spread(transformers.Owlv2ForObjectDetection(config)).save_pretrained(folder)
    images = transformers.Owlv2ImageProcessor(size={"height": SIDE, "width": SIDE})
    transformers.Owlv2Processor(images, tokenizer).save_pretrained(folder)
    return folder


def make_tiny_grounding_dino(folder: Path) -> Path:
    """Write a tiny Grounding DINO with its processor, which takes 24 tokens, and return the folder."""
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "a", "red", "blue", "star", "circle", "##s"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary)
    config = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            image_size=SIDE, patch_size=4, embed_dim=8, depths=[1, 1, 1], num_heads=[1, 2, 2], window_size=4,
            out_features=["stage2", "stage3"],
        ),
        text_config=transformers.BertConfig(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        ),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        encoder_attention_heads=2, decoder_attention_heads=2, num_queries=12, num_feature_levels=3, max_text_len=24,
        encoder_n_points=2, decoder_n_points=2,
    )  # fmt: skip
    _spread(transformers.GroundingDinoForObjectDetection(config)).save_pretrained(folder)
    images = transformers.GroundingDinoImageProcessor(size={"shortest_edge": SIDE, "longest_edge": 2 * SIDE})
    transformers.GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def make_tiny_painter(folder: Path, tokenizer_folder: Path) -> Path:
    """Write a tiny Stable Diffusion, and return the folder.

    Args:
        folder: Where to.
        tokenizer_folder: A folder with CLIP's tokenizer.
    """
    from diffusers import AutoencoderKL, PNDMScheduler, StableDiffusionPipeline, UNet2DConditionModel

    torch.manual_seed(0)
    tokenizer = transformers.CLIPTokenizer.from_pretrained(tokenizer_folder, model_max_length=16)
    text = transformers.CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=16, eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    sees = UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
    )  # fmt: skip
    draws = AutoencoderKL(
        block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=4, sample_size=16,
    )  # fmt: skip
    StableDiffusionPipeline(
        vae=draws, text_encoder=_spread(transformers.CLIPTextModel(text)), tokenizer=tokenizer, unet=_spread(sees),
        scheduler=PNDMScheduler(skip_prk_steps=True, steps_offset=1), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def _spread(model):
    """Return a model whose matrices are large enough for its outputs to differ from place to place."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim > 1 and "embed" not in name:
                weights.normal_(0, 1.5 * weights[0].numel() ** -0.5)
    return model
