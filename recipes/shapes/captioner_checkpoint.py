"""The captioner's architecture and files: a LLaVA of transformers with a CLIP tower and a Llama."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .architecture import HEAD, IMAGE_SIZE, MEAN, PATCH, STD

if TYPE_CHECKING:
    from transformers import (
        CLIPVisionConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

_WIDTH = 128
"""Of the language model."""
_LAYERS = 3
_MOST_TOKENS = 1024
_START, _END, _PAD, _IMAGE = "<s>", "</s>", "<pad>", "<image>"
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
"""As LLaVA-1.5's."""


def make_processor(texts: Iterable[str]) -> LlavaProcessor:
    """Return the processor: pictures squashed to the tower's size, LLaVA's conversation, a tokenizer of the texts.

    Args:
        texts: Instructions and captions; each of their words becomes a token. All bytes are tokens too, so that
            none is unknown.
    """
    from transformers import CLIPImageProcessor, LlavaProcessor

    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    return LlavaProcessor(
        CLIPImageProcessor(size=side, do_center_crop=False, image_mean=MEAN, image_std=STD),
        _make_tokenizer(texts),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )


def _make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=[_START, _END, _PAD, _IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_START} $A", special_tokens=[(_START, tokenizer.token_to_id(_START))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_START,
        eos_token=_END,
        pad_token=_PAD,
        extra_special_tokens=[_IMAGE],
        model_max_length=_MOST_TOKENS,
    )


def make_captioner(
    processor: LlavaProcessor, vision: CLIPVisionConfig, seed: int
) -> LlavaForConditionalGeneration:
    """Return the model with random weights.

    Args:
        processor: Says how many tokens there are.
        vision: The tower's architecture.
        seed: Other seeds give other weights.
    """
    import torch
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed)
    tokenizer: Any = processor.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    text = LlamaConfig(
        hidden_size=_WIDTH,
        intermediate_size=3 * _WIDTH,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_WIDTH // HEAD,
        num_key_value_heads=_WIDTH // HEAD,
        vocab_size=len(tokenizer),
        max_position_embeddings=_MOST_TOKENS,
        **special,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(_IMAGE),
        # All of the tower's layers, where LLaVA-1.5 leaves out the last.
        vision_feature_layer=-1,
        image_seq_length=(IMAGE_SIZE // PATCH) ** 2,
    )
    model = LlavaForConditionalGeneration(config)
    for name, number in special.items():
        setattr(model.generation_config, name, number)
    return model


def write_captioner(model: LlavaForConditionalGeneration, processor: LlavaProcessor, folder: Path) -> None:
    """Write the model in half precision, and its processor.

    Args:
        model: The model; it is changed to half precision.
        processor: Its processor.
        folder: Made if it is not there.
    """
    model.half().save_pretrained(folder)
    processor.save_pretrained(folder)
