"""Makes tiny models that write captions in the real file formats, so that real loading code meets real files.

Weights are random by a fixed seed; tokenizers, image processors and chat templates are of the real kinds. A test
takes the fixtures ``tiny_llava``, ``tiny_qwen2_vl`` and so on of ``tests/conftest.py``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TEXT = """\
a brown dog runs over the green grass beside the white house near the river
two children play with a red ball on the wide beach while the sun shines
an old man sits on a wooden bench in the park and reads a large newspaper
the photo shows a blue bus that stands in front of tall buildings at night
there are many people who walk along the street under a cloudy sky
Describe this image in detail. Please describe the image. These are the facts of the image.
USER: ASSISTANT: User: Assistant: system user assistant You are a helpful assistant.
"""
_END_BIAS = 1.5
"""How much more often than by chance a caption ends; else almost none would."""
TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
"""Sizes of a tower of vision or text."""

LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
QWEN2_VL_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IDEFICS3_TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


IMAGE_OR_VIDEO_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}{{ '<image>\n' }}{% elif content['type'] == 'video' %}{{ '<video>\n' }}"
    "{% else %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny_llava(folder: Path, seed: int = 0) -> Path:
    """Write a LLaVA-1.5: CLIP tower with a fixed size, Llama, and its processor; return the folder."""
    import transformers

    tokenizer = tiny_tokenizer("</s>", "<pad>", ["<image>"], bos="<s>")
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**TOWER, image_size=32, patch_size=8),
        text_config=transformers.LlamaConfig(**text_config(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    return save_tiny(transformers.LlavaForConditionalGeneration(config), processor, folder, seed)


def make_tiny_qwen2_vl(folder: Path, seed: int = 0) -> Path:
    """Write a Qwen2-VL: as many image tokens as the image is large, positions in three dimensions."""
    import transformers

    special = ["<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = tiny_tokenizer("<|im_end|>", "<|endoftext|>", special)
    ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("image_pad", "video_pad")}
    text = {
        **text_config(tokenizer),
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0},
    }
    config = transformers.Qwen2VLConfig(
        text_config=text,
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 14,
        },
        image_token_id=ids["image_pad"],
        video_token_id=ids["video_pad"],
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    size = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessor(size=size),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(size=size),
        chat_template=QWEN2_VL_TEMPLATE,
    )
    return save_tiny(transformers.Qwen2VLForConditionalGeneration(config), processor, folder, seed)


def make_tiny_idefics(folder: Path, seed: int = 0) -> Path:
    """Write an IDEFICS: no chat template, the image before the text, cross-attention in place of image tokens."""
    import transformers

    tokenizer = tiny_tokenizer(
        "</s>", "<pad>", ["<image>", "<fake_token_around_image>", "<end_of_utterance>"], bos="<s>"
    )
    text = {name: value for name, value in text_config(tokenizer).items() if name != "num_key_value_heads"}
    config = transformers.IdeficsConfig(
        **text, cross_layer_interval=1, vision_config={**TOWER, "image_size": 32, "patch_size": 8}
    )
    processor = transformers.IdeficsProcessor(
        transformers.IdeficsImageProcessor(image_size=32), tokenizer, image_size=32
    )
    return save_tiny(transformers.IdeficsForVisionText2Text(config), processor, folder, seed)


def _make_tiled(kind: str, special: list[str], folder: Path, seed: int, *video: Any) -> Path:
    """Write a model that splits images into tiles, as many as they are large."""
    import transformers

    part = {name: getattr(transformers, f"{kind}{name}") for name in ("Config", "ImageProcessor", "Processor")}
    special = ["<|im_start|>", "<fake_token_around_image>", "<global-img>", "<image>", *special]
    tokenizer = tiny_tokenizer("<end_of_utterance>", "<|im_end|>", special)
    config = part["Config"](
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_config={**TOWER, "image_size": 32, "patch_size": 8},
        text_config={"model_type": "llama", **text_config(tokenizer)},
        scale_factor=2,
        pad_token_id=tokenizer.pad_token_id,
    )
    images = part["ImageProcessor"](size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    processor = part["Processor"](images, tokenizer, *video, image_seq_len=4, chat_template=IDEFICS3_TEMPLATE)
    return save_tiny(getattr(transformers, f"{kind}ForConditionalGeneration")(config), processor, folder, seed)


def make_tiny_idefics3(folder: Path, seed: int = 0) -> Path:
    """Write an Idefics 3, which SmolVLM is."""
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    return _make_tiled("Idefics3", tiles, folder, seed)


def make_tiny_smolvlm(folder: Path, seed: int = 0) -> Path:
    """Write a SmolVLM2: an Idefics 3 that is shown frames of videos with their times, as in text."""
    import transformers

    sampling = {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": 64}}
    video = transformers.SmolVLMVideoProcessor(max_image_size={"longest_edge": 32}, video_sampling=sampling)
    return _make_tiled("SmolVLM", [], folder, seed, video)


def make_tiny_internvl(folder: Path, seed: int = 0) -> Path:
    """Write an InternVL 3: a video is its frames, each an image of one tile."""
    import transformers

    named = {
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }  # fmt: skip
    tokenizer = tiny_tokenizer("<|im_end|>", "<|endoftext|>", named)
    size = {"height": 32, "width": 32}
    config = transformers.InternVLConfig(
        vision_config={**TOWER, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config={"model_type": "qwen2", **text_config(tokenizer)},
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
    )
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=size),
        tokenizer,
        transformers.InternVLVideoProcessor(size=size),
        image_seq_length=4,
        chat_template=IMAGE_OR_VIDEO_TEMPLATE.replace("<image>", "<IMG_CONTEXT>"),
    )
    return save_tiny(transformers.InternVLForConditionalGeneration(config), processor, folder, seed)


def make_tiny_llava_onevision(folder: Path, seed: int = 0) -> Path:
    """Write a LLaVA-OneVision: SigLIP tower, Qwen 2; the features of a video's frames are pooled."""
    import transformers

    tokenizer = tiny_tokenizer("<|im_end|>", "<|endoftext|>", ["<image>", "<video>", "<|im_start|>"])
    size, pinpoints = {"height": 32, "width": 32}, [[32, 32], [32, 64], [64, 32]]
    config = transformers.LlavaOnevisionConfig(
        vision_config={"model_type": "siglip_vision_model", **TOWER, "image_size": 32, "patch_size": 8},
        text_config={"model_type": "qwen2", **text_config(tokenizer)},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-1,
    )
    processor = transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=pinpoints),
        tokenizer,
        transformers.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=IMAGE_OR_VIDEO_TEMPLATE,
    )
    return save_tiny(transformers.LlavaOnevisionForConditionalGeneration(config), processor, folder, seed)


def make_tiny_blip2(folder: Path, seed: int = 0) -> Path:
    """Write a BLIP-2 on OPT: it captions an image without being asked, and has no chat template."""
    import transformers

    tokenizer = tiny_tokenizer("</s>", "<pad>", ["<image>"], bos="<s>")
    text = {key: value for key, value in text_config(tokenizer).items() if "intermediate" not in key}
    config = transformers.Blip2Config(
        vision_config={**TOWER, "image_size": 32, "patch_size": 8},
        qformer_config={**TOWER, "encoder_hidden_size": 32, "vocab_size": 50},
        text_config={
            **text,
            "model_type": "opt",
            "ffn_dim": 64,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 64,
        },
        num_query_tokens=4,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    processor = transformers.Blip2Processor(
        transformers.BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer, num_query_tokens=4
    )
    return save_tiny(transformers.Blip2ForConditionalGeneration(config), processor, folder, seed)


def make_tiny_florence2(folder: Path, seed: int = 0) -> Path:
    """Write a Florence-2: encoder and decoder, asked by a task token."""
    import transformers

    tokenizer = tiny_tokenizer("</s>", "<pad>", {"image_token": "<image>"}, bos="<s>")
    text = {key: value for key, value in text_config(tokenizer).items() if key.endswith(("_id", "vocab_size"))}
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 64}
    halves = {f"{half}_{key}": size for half in ("encoder", "decoder") for key, size in sizes.items()}
    start = {"decoder_start_token_id": tokenizer.eos_token_id, "forced_eos_token_id": None}
    config = transformers.Florence2Config(
        text_config={**text, **halves, **start, "model_type": "bart", "d_model": 32, "max_position_embeddings": 256},
        vision_config={
            "embed_dim": [8] * 4, "num_heads": [2] * 4, "num_groups": [2] * 4, "depths": [1] * 4,
            "projection_dim": 32, "window_size": 4, "max_position_embeddings": 10,
        },
        image_token_id=tokenizer.image_token_id,
    )  # fmt: skip
    images = transformers.CLIPImageProcessor(size={"height": 64, "width": 64}, crop_size={"height": 64, "width": 64})
    images.image_seq_length = 5
    model = transformers.Florence2ForConditionalGeneration(config)
    model.generation_config.decoder_start_token_id = tokenizer.eos_token_id
    return save_tiny(model, transformers.Florence2Processor(images, tokenizer), folder, seed)


def make_tiny_vit_gpt2(folder: Path, seed: int = 0) -> Path:
    """Write a ViT-GPT2: an image processor and a tokenizer side by side, without a processor."""
    from types import SimpleNamespace

    import transformers

    end = "<|endoftext|>"
    tokenizer = tiny_tokenizer(end, "<pad>", [], bos=end)
    # As GPT-2's: the end token begins a text, too, and nothing pads.
    tokenizer.pad_token = None
    towers = {
        "encoder": transformers.ViTConfig(**TOWER, image_size=32, patch_size=8),
        "decoder": transformers.GPT2Config(
            vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=2, is_decoder=True,
            add_cross_attention=True, bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
        ),
    }  # fmt: skip
    config = transformers.VisionEncoderDecoderConfig(**{name: tower.to_dict() for name, tower in towers.items()})
    start = {"decoder_start_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.eos_token_id}
    config.update({**start, "eos_token_id": tokenizer.eos_token_id})
    images = transformers.ViTImageProcessor(size={"height": 32, "width": 32})

    def save_pretrained(place: Path) -> None:
        images.save_pretrained(place)
        tokenizer.save_pretrained(place)

    model = transformers.VisionEncoderDecoderModel(config)
    model.generation_config.update(**start)
    both = SimpleNamespace(tokenizer=tokenizer, save_pretrained=save_pretrained)
    return save_tiny(model, both, folder, seed)


def continued(inputs: Mapping[str, Any], ids: list[int]) -> dict[str, Any]:
    """Return the inputs of a single sample with tokens behind the instruction."""
    import torch

    whole = {**inputs, "input_ids": torch.cat([inputs["input_ids"], torch.tensor([ids], dtype=torch.long)], 1)}
    whole["attention_mask"] = torch.ones_like(whole["input_ids"])
    if "mm_token_type_ids" in inputs:
        kinds = inputs["mm_token_type_ids"]
        whole["mm_token_type_ids"] = torch.cat([kinds, kinds.new_zeros(1, len(ids))], 1)
    return whole


@contextmanager
def spoiled(model: Any, rows: int | slice, value: float) -> Iterator[None]:
    """Let the second pass of a model give some rows a logit that is no number, or not finite."""
    passes = 0

    def spoil(module: Any, inputs: object, logits: Any) -> Any:
        nonlocal passes
        passes += 1
        if passes == 2:
            logits = logits.clone()
            logits[rows, :, 5] = value
        return logits

    handle = model.lm_head.register_forward_hook(spoil)
    try:
        yield
    finally:
        handle.remove()


def tiny_tokenizer(end: str, pad: str, special: list[str] | dict[str, str], bos: str | None = None) -> Any:
    """Return a byte-level BPE, trained on a few sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    named = [*([bos] if bos else []), end, pad, *(special.values() if isinstance(special, dict) else special)]
    trainer = trainers.BpeTrainer(
        vocab_size=480 + len(named),
        special_tokens=named,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT.splitlines(), trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=bos,
        eos_token=end,
        pad_token=pad,
        extra_special_tokens=special,
        model_max_length=2048,
    )


def text_config(tokenizer: Any) -> dict[str, Any]:
    return {
        **TOWER,
        "num_key_value_heads": 2,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 2048,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
    }


def save_tiny(model: Any, processor: Any, folder: Path, seed: int, embedding: float = 1.0) -> Path:
    """Write a model with random weights and its processor.

    Args:
        model: The model.
        processor: Its processor.
        folder: Where to.
        seed: Other seeds give other weights.
        embedding: Scale of embeddings; a small one, where they are the head, too, keeps a token from repeating itself.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    tokenizer = processor.tokenizer
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                # Large weights, so that different images have clearly different captions.
                fan_in = weight[0].numel()
                scale = embedding if "embed" in name else 2.0 / fan_in**0.5
                weight.copy_(scale * torch.randn(weight.shape, generator=generator))
            elif name.endswith("A_log"):
                weight.fill_(2.0)
        head = getattr(model, "text_decoder", model).get_output_embeddings().weight
        head[tokenizer.eos_token_id] *= _END_BIAS
        # Special tokens but the end are never said.
        for token in set(tokenizer.all_special_ids) - {tokenizer.eos_token_id}:
            head[token] = 0
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
