"""Makes a tiny model of each family of captioners: its own configuration shrunk, its own processor, random weights.

``CAPTIONERS`` has one alias a family. Chat templates are of the usual kind, not the hub's own.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tiny_lvlm
import torch
import transformers
from tiny_lvlm import TOWER, save_tiny, text_config, tiny_tokenizer

Shrunk = tuple[dict[str, Any], Any]
"""A configuration's values, and a processor."""

_PATCHES = {**TOWER, "image_size": 32, "patch_size": 8}
_MROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
_QWEN3_5 = {
    "head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 2, "layer_types": ["linear_attention", "full_attention"],
    "rope_parameters": {**_MROPE, "mrope_interleaved": True, "partial_rotary_factor": 1.0},
}  # fmt: skip
_FEW_PIXELS = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
_QWEN = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>", "vision_start_token": "<|vision_start|>",
         "vision_end_token": "<|vision_end|>"}  # fmt: skip


class Parts:
    """What a family is made of: tokenizer and configuration.

    Args:
        special: Its special tokens by name.
        end: What ends a caption.
        bos: What begins a text.
    """

    def __init__(self, special: Mapping[str, str], end: str = "</s>", bos: str | None = "<s>") -> None:
        self.tokenizer = tiny_tokenizer(end, "<pad>", dict(special), bos=bos)
        self.text = text_config(self.tokenizer)
        self.id = self.tokenizer.convert_tokens_to_ids


def _chat(image: str, thinks: bool = False) -> str:
    """Return a chat template in which a text stands for an image; one that thinks can be kept from it."""
    start = "{% if enable_thinking is false %}<think></think>{% else %}<think>{% endif %}" if thinks else ""
    return (
        "{% for message in messages %}{{ message['role'] }}: {% for content in message['content'] %}"
        "{% if content['type'] == 'image' %}" + image + "{% else %}{{ content['text'] }}{% endif %}{% endfor %}\n"
        "{% endfor %}{% if add_generation_prompt %}assistant: " + start + "{% endif %}"
    )


def _square(name: str, side: int = 32, **settings: Any) -> Any:
    size = {"height": side, "width": side}
    return getattr(transformers, name)(size=size, **settings)


def _blip() -> Shrunk:
    from transformers import BlipProcessor

    # A caption ends at the separator, which is not what the configuration calls its end.
    parts = Parts({"unused_token": "[unused1]"}, "[SEP]", "[DEC]")
    ends = {"sep_token_id": parts.id("[SEP]"), "eos_token_id": parts.id("[unused1]")}
    text = {**parts.text, **ends, "encoder_hidden_size": 32}
    return {"text_config": text, "vision_config": _PATCHES}, BlipProcessor(
        _square("BlipImageProcessor"), parts.tokenizer
    )


def _git() -> Shrunk:
    from transformers import GitProcessor

    parts = Parts({}, bos="[CLS]")
    images = _square("CLIPImageProcessor", crop_size={"height": 32, "width": 32})
    return {**parts.text, "vision_config": _PATCHES}, GitProcessor(images, parts.tokenizer)


def _instructblip(text: str) -> Shrunk:
    from transformers import InstructBlipProcessor

    parts, asking = Parts({}), Parts({})
    images = _square("BlipImageProcessor")
    processor = InstructBlipProcessor(images, parts.tokenizer, asking.tokenizer, num_query_tokens=4)
    config = {
        "vision_config": _PATCHES,
        "qformer_config": {**TOWER, "encoder_hidden_size": 32, "vocab_size": len(asking.tokenizer)},
        "text_config": {**parts.text, "model_type": "llama", "vocab_size": len(parts.tokenizer)},
        "num_query_tokens": 4,
        "image_token_index": parts.id("<image>"),
    }
    if text == "t5":
        ids = {name: parts.text[name] for name in ("eos_token_id", "pad_token_id")}
        config["text_config"] = {
            **ids, "model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2,
            "vocab_size": len(parts.tokenizer), "decoder_start_token_id": ids["pad_token_id"],
        }  # fmt: skip
    return config, processor


def _idefics2() -> Shrunk:
    from transformers import Idefics2ImageProcessor, Idefics2Processor

    parts = Parts({})
    images = Idefics2ImageProcessor(size={"shortest_edge": 32, "longest_edge": 64}, do_image_splitting=False)
    processor = Idefics2Processor(images, parts.tokenizer, image_seq_len=4, chat_template=_chat("<image>"))
    config = {
        "vision_config": _PATCHES,
        "text_config": {**parts.text, "model_type": "mistral", "vocab_size": len(parts.tokenizer)},
        "image_token_id": parts.id("<image>"),
        "perceiver_config": {"resampler_n_latents": 4, "resampler_depth": 1, "resampler_n_heads": 2,
                             "resampler_head_dim": 16, "num_key_value_heads": 2, "hidden_size": 32},
    }  # fmt: skip
    return config, processor


def _kosmos2() -> Shrunk:
    from transformers import Kosmos2Processor

    parts = Parts({"unk_token": "<unk>"})
    images = _square("CLIPImageProcessor", crop_size={"height": 32, "width": 32})
    processor = Kosmos2Processor(images, parts.tokenizer, num_patch_index_tokens=16)
    text = {"embed_dim": 32, "layers": 2, "ffn_dim": 64, "attention_heads": 2, "vocab_size": len(parts.tokenizer)}
    ids = {name: parts.text[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return {"text_config": {**text, **ids}, "vision_config": _PATCHES, "latent_query_num": 64}, processor


def _qwen(kind: str) -> Shrunk:
    parts = Parts(_QWEN, "<|im_end|>", None)
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64, "out_hidden_size": 32}
    text = {**parts.text, "rope_parameters": _MROPE}
    if kind == "qwen2_5_vl":
        vision |= {"patch_size": 14, "fullatt_block_indexes": [1], "window_size": 56}
        images, whole = transformers.Qwen2VLImageProcessor(size=_FEW_PIXELS), transformers.Qwen2_5_VLProcessor
        video = transformers.Qwen2VLVideoProcessor(size=_FEW_PIXELS)
    else:
        vision |= {"patch_size": 16, "num_position_embeddings": 64}
        settings = {"size": _FEW_PIXELS, "patch_size": 16}
        images, whole = transformers.Qwen2VLImageProcessor(**settings), transformers.Qwen3VLProcessor
        video = transformers.Qwen3VLVideoProcessor(**settings)
        text["head_dim"] = 16
    if kind.startswith("qwen3_vl"):
        vision["deepstack_visual_indexes"] = [0]
    if kind.startswith("qwen3_5"):
        text |= _QWEN3_5
    if kind.endswith("_moe"):
        text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        text |= {"shared_expert_intermediate_size": 16}
    ids = {f"{name}_id": parts.id(token) for name, token in _QWEN.items()}
    chat = _chat("<|vision_start|><|image_pad|><|vision_end|>", thinks=kind.startswith("qwen3_5"))
    return {"text_config": text, "vision_config": vision, **ids}, whole(
        images, parts.tokenizer, video, chat_template=chat
    )


def _gemma3() -> Shrunk:
    from transformers import Gemma3Processor

    special = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    parts = Parts(special, "<end_of_turn>", "<bos>")
    config = {
        "vision_config": {**_PATCHES, "model_type": "siglip_vision_model", "vision_use_head": False},
        "text_config": {**parts.text, "head_dim": 16},
        "mm_tokens_per_image": 4,
        "image_token_id": parts.id("<image_soft_token>"),
        "boi_token_id": parts.id("<start_of_image>"), "eoi_token_id": parts.id("<end_of_image>"),
    }  # fmt: skip
    images = _square("Gemma3ImageProcessor")
    chat = "<bos>" + _chat("<start_of_image>")
    return config, Gemma3Processor(images, parts.tokenizer, chat_template=chat, image_seq_length=4)


def _gemma4(prefix: str) -> Shrunk:
    special = {
        "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>",
        "audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>",
    }  # fmt: skip
    parts = Parts(special, "<turn|>", "<bos>")
    parts.tokenizer.add_special_tokens({"additional_special_tokens": ["<|video|>"]})
    few = {"patch_size": 8, "pooling_kernel_size": 2, "max_soft_tokens": 70}
    text = {**parts.text, "head_dim": 16, "vocab_size": len(parts.tokenizer)}
    if prefix == "Gemma4":
        vision = {**TOWER, "num_key_value_heads": 2, "head_dim": 16, "patch_size": 8, "pooling_kernel_size": 2,
                  "position_embedding_size": 128}  # fmt: skip
        text |= {"vocab_size_per_layer_input": len(parts.tokenizer), "hidden_size_per_layer_input": 8}
    else:
        vision = {"patch_size": 8, "pooling_kernel_size": 2, "mm_embed_dim": 32, "mm_posemb_size": 128,
                  "output_proj_dims": 32}  # fmt: skip
    text["layer_types"] = ["sliding_attention", "full_attention"]
    config = {
        "text_config": text, "vision_config": vision, "audio_config": None,
        **{f"{name}_id": parts.id(token) for name, token in special.items() if name != "eoa_token"},
        "eoa_token_index": parts.id("<audio|>"), "video_token_id": parts.id("<|video|>"),
    }  # fmt: skip
    processor = getattr(transformers, f"{prefix}Processor")(
        getattr(transformers, f"{prefix}AudioFeatureExtractor")(),
        getattr(transformers, f"{prefix}ImageProcessor")(**few),
        parts.tokenizer,
        getattr(transformers, f"{prefix}VideoProcessor")(**few),
        chat_template="<bos>" + _chat("<|image|>"),
    )
    return config, processor


def _glm(kind: str) -> Shrunk:
    special = {
        "image_token": "<|image|>", "video_token": "<|video|>", "image_start_token": "<|begin_of_image|>",
        "image_end_token": "<|end_of_image|>", "video_start_token": "<|begin_of_video|>",
        "video_end_token": "<|end_of_video|>",
    }  # fmt: skip
    parts = Parts(special, "<|user|>", None)
    parts.tokenizer.add_tokens(["</think>"])
    text = {
        **parts.text,
        "vocab_size": len(parts.tokenizer),
        "rope_parameters": {**_MROPE, "partial_rotary_factor": 1.0},
    }
    if kind == "glm4v_moe":
        text |= {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
        text |= {"first_k_dense_replace": 1, "head_dim": 16}
    vision = {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64, "out_hidden_size": 32,
              "image_size": 56, "patch_size": 14}  # fmt: skip
    config = {
        "text_config": text, "vision_config": vision,
        **{f"{name}_id": parts.id(token) for name, token in special.items()},
    }  # fmt: skip
    processor = transformers.Glm4vProcessor(
        transformers.Glm4vImageProcessor(size=_FEW_PIXELS),
        parts.tokenizer,
        transformers.Glm4vVideoProcessor(size=_FEW_PIXELS),
        chat_template=_chat("<|begin_of_image|><|image|><|end_of_image|>", thinks=kind == "glm4v_moe"),
    )
    return config, processor


def _molmo2() -> Shrunk:
    from transformers import Molmo2ImageProcessor, Molmo2Processor, Molmo2VideoProcessor

    names = ("im_start", "im_end", "im_patch", "im_col", "low_res_im_start", "frame_start", "frame_end", "im_low")
    special = {name: f"<{name}>" for name in names}
    parts = Parts({"image_token": "<|image|>", "video_token": "<|video|>", **special}, "<|im_end|>", None)
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    config = {
        "vision_config": {**TOWER, **heads, "image_size": [28, 28], "patch_size": 14, "num_position_embeddings": 4},
        "adapter_config": {
            **heads, "hidden_size": 32, "intermediate_size": 64, "text_hidden_size": 32,
            "vision_feature_layer": [-1, -2],
        },
        "text_config": {**parts.text, "head_dim": 16, "additional_vocab_size": 8},
        "image_start_token_id": parts.id("<im_start>"),
        "low_res_image_start_token_id": parts.id("<low_res_im_start>"),
        "image_end_token_id": parts.id("<im_end>"), "image_patch_id": parts.id("<im_patch>"),
        "frame_start_token_id": parts.id("<frame_start>"), "frame_end_token_id": parts.id("<frame_end>"),
    }  # fmt: skip
    images = Molmo2ImageProcessor(size={"height": 28, "width": 28}, max_crops=2, overlap_margins=[0, 0])
    video = Molmo2VideoProcessor(size={"height": 28, "width": 28})
    return config, Molmo2Processor(images, video, parts.tokenizer, chat_template=_chat("<|image|>"))


def _minicpm(version: str) -> Shrunk:
    special = {
        "image_token": "<|image_pad|>", "video_token": "<|video_pad|>", "image_start_token": "<image>",
        "image_end_token": "</image>", "slice_start_token": "<slice>", "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>",
    }  # fmt: skip
    parts = Parts(special, "<|im_end|>", None)
    config = {
        "text_config": {**parts.text, **_QWEN3_5, "model_type": "qwen3_5_text"},
        "vision_config": {**_PATCHES, "image_size": 64, "insert_layer_id": 0},
        "insert_layer_id": 0,
        "image_size": 64, "image_token_id": parts.id("<|image_pad|>"), "video_token_id": parts.id("<|video_pad|>"),
    }  # fmt: skip
    if version == "4_7":
        config |= {
            "image_start_id": parts.id("<image>"), "image_end_id": parts.id("</image>"),
            "slice_start_id": parts.id("<slice>"), "slice_end_id": parts.id("</slice>"), "newline_id": parts.id("Ċ"),
        }  # fmt: skip
    few = {"patch_size": 8, "scale_resolution": 64}
    processor = getattr(transformers, f"MiniCPMV{version}Processor")(
        transformers.MiniCPMV4_6ImageProcessor(**few),
        transformers.MiniCPMV4_6VideoProcessor(**few),
        parts.tokenizer,
        chat_template=_chat("<|image_pad|>\n", thinks=True),
    )
    return config, processor


def _phi4() -> Shrunk:
    from transformers import Phi4MultimodalFeatureExtractor, Phi4MultimodalImageProcessor, Phi4MultimodalProcessor

    parts = Parts({"image_token": "<|image|>", "audio_token": "<|audio|>"}, "<|end|>", None)
    config = {
        **parts.text,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        # The processor counts image tokens as those of this size alone.
        "vision_config": {**TOWER, "image_size": 448, "crop_size": 448, "patch_size": 14,
                          "image_token_id": parts.id("<|image|>")},
        "audio_config": {
            "hidden_size": 32, "intermediate_size": 64, "num_blocks": 1, "num_attention_heads": 2,
            "ext_pw_out_channel": 32, "depthwise_separable_out_channel": 32, "nemo_conv_channels": 32,
            "audio_token_id": parts.id("<|audio|>"),
        },
    }  # fmt: skip
    images = Phi4MultimodalImageProcessor(dynamic_hd=1)
    return config, Phi4MultimodalProcessor(
        images, Phi4MultimodalFeatureExtractor(), parts.tokenizer, chat_template=_chat("<|image|>")
    )


def _paligemma() -> Shrunk:
    from transformers import PaliGemmaProcessor

    parts = Parts({"image_token": "<image>"}, "<eos>", "<bos>")
    images = _square("SiglipImageProcessor")
    images.image_seq_length = 16
    processor = PaliGemmaProcessor(images, parts.tokenizer)
    vision = {**_PATCHES, "model_type": "siglip_vision_model", "projection_dim": 32, "vision_use_head": False}
    return {
        "vision_config": vision,
        "text_config": {**parts.text, "model_type": "gemma2", "head_dim": 16, "vocab_size": len(parts.tokenizer)},
        "image_token_index": parts.id("<image>"),
        "projection_dim": 32,
    }, processor


def _pixtral(merge: int) -> Shrunk:
    from transformers import PixtralImageProcessor, PixtralProcessor

    special = {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}
    parts = Parts(special)
    vision = {**TOWER, "model_type": "pixtral", "image_size": 64, "patch_size": 8, "head_dim": 16}
    config = {
        "vision_config": vision,
        "text_config": {**parts.text, "model_type": "mistral", "head_dim": 16},
        "image_token_index": parts.id("[IMG]"),
        "vision_feature_layer": -1,
    }
    config |= {"spatial_merge_size": 2} if merge == 2 else {"vision_feature_select_strategy": "full"}
    images = PixtralImageProcessor(size={"longest_edge": 64}, patch_size={"height": 8 * merge, "width": 8 * merge})
    return config, PixtralProcessor(
        images, parts.tokenizer, patch_size=8, spatial_merge_size=merge, chat_template="<s>" + _chat("[IMG]")
    )


def _llava_next() -> Shrunk:
    from transformers import LlavaNextProcessor

    parts = Parts({"image_token": "<image>"})
    config = {
        "vision_config": {**_PATCHES, "model_type": "clip_vision_model"},
        "text_config": {**parts.text, "model_type": "mistral", "head_dim": 16},
        "image_token_index": parts.id("<image>"),
        "image_grid_pinpoints": [[32, 32], [32, 64], [64, 32]],
    }
    images = _square(
        "LlavaNextImageProcessor", crop_size={"height": 32, "width": 32},
        image_grid_pinpoints=config["image_grid_pinpoints"],
    )  # fmt: skip
    processor = LlavaNextProcessor(
        images, parts.tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template="<s>" + _chat("<image>\n"),
    )  # fmt: skip
    return config, processor


def _make(kind: str, shrunk: Callable[[], Shrunk], folder: Path, seed: int = 0) -> Path:
    """Write a tiny model of a kind; return the folder."""
    from transformers import AutoModelForMultimodalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config, processor = shrunk()
    model = AutoModelForMultimodalLM.from_config(CONFIG_MAPPING[kind](**config))
    is_tied = getattr(model.config, "tie_word_embeddings", False)
    if kind == "glm4v":
        # Now and then it ends thinking; else it hardly ever would.
        model.generation_config.sequence_bias = [[[processor.tokenizer.get_vocab()["</think>"]], 7.0]]
    return save_tiny(model, processor, folder, seed, embedding=0.1 if is_tied else 1.0)


def _make_phi4(folder: Path, seed: int = 0) -> Path:
    """Write a Phi-4 with LoRA for images in a folder of its own; return the folder."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    _make("phi4_multimodal", _phi4, folder, seed)
    torch.manual_seed(seed)
    lora = LoraConfig(target_modules=["qkv_proj"], r=2, init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(folder), lora).save_pretrained(folder / "vision-lora")
    return folder


Make = Callable[..., Path]


def _families(kinds: Mapping[str, tuple[str, Callable[..., Shrunk]]]) -> dict[str, Make]:
    return {alias: partial(_make, kind, shrunk) for alias, (kind, shrunk) in kinds.items()}


CAPTIONERS: Mapping[str, Make] = {
    "llava-1.5": tiny_lvlm.make_tiny_llava,
    "qwen2-vl-2b": tiny_lvlm.make_tiny_qwen2_vl,
    "idefics-9b": tiny_lvlm.make_tiny_idefics,
    "smolvlm-256m": tiny_lvlm.make_tiny_idefics3,
    "smolvlm2-2.2b": tiny_lvlm.make_tiny_smolvlm,
    "llava-onevision-7b": tiny_lvlm.make_tiny_llava_onevision,
    "internvl3-1b": tiny_lvlm.make_tiny_internvl,
    "blip2-opt-2.7b": tiny_lvlm.make_tiny_blip2,
    "florence-2-base": tiny_lvlm.make_tiny_florence2,
    "phi-4-multimodal": _make_phi4,
    **_families({
        "blip-image-captioning-base": ("blip", _blip),
        "git-base-coco": ("git", _git),
        "instructblip-vicuna-7b": ("instructblip", partial(_instructblip, "llama")),
        "instructblip-flan-t5-xl": ("instructblip", partial(_instructblip, "t5")),
        "kosmos-2": ("kosmos-2", _kosmos2),
        "idefics2-8b": ("idefics2", _idefics2),
        "llava-next-mistral-7b": ("llava_next", _llava_next),
        "qwen2.5-vl-3b": ("qwen2_5_vl", partial(_qwen, "qwen2_5_vl")),
        "qwen3-vl-4b": ("qwen3_vl", partial(_qwen, "qwen3_vl")),
        "qwen3-vl-30b-a3b": ("qwen3_vl_moe", partial(_qwen, "qwen3_vl_moe")),
        "qwen3.5-27b": ("qwen3_5", partial(_qwen, "qwen3_5")),
        "qwen3.5-35b-a3b": ("qwen3_5_moe", partial(_qwen, "qwen3_5_moe")),
        "gemma-3-4b": ("gemma3", _gemma3),
        "gemma-4-e2b": ("gemma4", partial(_gemma4, "Gemma4")),
        "gemma-4-12b": ("gemma4_unified", partial(_gemma4, "Gemma4Unified")),
        "glm-4.1v-9b-thinking": ("glm4v", partial(_glm, "glm4v")),
        "glm-4.5v": ("glm4v_moe", partial(_glm, "glm4v_moe")),
        "molmo2-8b": ("molmo2", _molmo2),
        "minicpm-v-4.6": ("minicpmv4_6", partial(_minicpm, "4_6")),
        "minicpm-v-4.7-1b": ("minicpmv4_7", partial(_minicpm, "4_7")),
        "paligemma2-3b-mix-224": ("paligemma", _paligemma),
        "pixtral-12b": ("llava", partial(_pixtral, 1)),
        "mistral-small-3.1-24b": ("mistral3", partial(_pixtral, 2)),
    }),
}  # fmt: skip
"""One alias a family to what makes a tiny model of it in a folder."""


ENCODERS: Mapping[str, Mapping[str, Any]] = {
    "pe-core-t-16-384.meta": {},
    "eva02-b-16.merged2b_s8b_b131k": {"timm_model_name": "eva02_tiny_patch14_224"},
    "vitamin-s.datacomp1b": {},
    "mobileclip2-s0.dfndr2b": {},
    "vit-b-32-siglip2-256.webli": {"timm_model_name": "vit_tiny_patch16_224", "image_size": 224},
    "vit-h-14-worldwide-quickgelu.metaclip2_worldwide": {"layers": 2, "width": 32, "head_width": 16, "image_size": 56},
}
"""One alias a family of open_clip to what is shrunk in its vision tower; its text tower is shrunk, too."""


def ending_tokenizer() -> Any:
    """Return a tokenizer that ends a text with its end token."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = Parts({}).tokenizer
    ids = [("<s>", tokenizer.bos_token_id), ("</s>", tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("<s> $A </s>", special_tokens=ids)
    return tokenizer


def make_encoder(alias: str, folder: Path) -> Path:
    """Write a tiny model of open_clip as on the hub: configuration, weights, tokenizer if it has its own."""
    import json

    import open_clip
    from safetensors.torch import save_file

    from capbench.adapters.aliases import list_aliases

    named = list_aliases()[alias].arguments
    config = open_clip.get_model_config(named["architecture"])
    assert config is not None
    # As wide as the features of tiny towers, to which SigLIP's has no projection.
    config["embed_dim"] = 192
    config["vision_cfg"] |= ENCODERS[alias]
    config["text_cfg"] |= {"width": 32, "heads": 2, "layers": 1}
    folder.mkdir(exist_ok=True)
    if "hf_tokenizer_name" in config["text_cfg"]:
        tokenizer = ending_tokenizer()
        tokenizer.save_pretrained(folder)
        config["text_cfg"] |= {"vocab_size": len(tokenizer), "eos_id": tokenizer.eos_token_id}
    whole = {"model_cfg": config, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(whole))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    for name, value in model.named_parameters():
        # As initialised, all inputs have nearly the same features.
        if value.ndim > 1:
            torch.nn.init.normal_(value, std=value[0].numel() ** -0.5)
        elif "gamma" in name or ".ls" in name:
            torch.nn.init.ones_(value)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    _, _, file = open_clip.get_pretrained_cfg(named["architecture"], named["pretrained"])["hf_hub"].split("/")
    if file:
        torch.save(model.state_dict(), folder / file)
    return folder


def make_metaclip2(folder: Path) -> Path:
    """Write a MetaCLIP 2 of transformers; return the folder."""
    from transformers import MetaClip2Config, MetaClip2Model

    tokenizer = ending_tokenizer()
    tokenizer.model_max_length = 77
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = MetaClip2Config(
        projection_dim=32,
        text_config={**TOWER, **ids, "vocab_size": len(tokenizer), "max_position_embeddings": 77},
        vision_config=_PATCHES,
    )
    torch.manual_seed(0)
    MetaClip2Model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _square("CLIPImageProcessor", crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder
