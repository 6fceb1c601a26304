"""Tiny language models with random weights, in the real file formats."""

from collections.abc import Sequence
from pathlib import Path

import torch
import transformers

CHARACTERS = [" ", "\n", *"0123456789.,:!?-*()/<>'\"_", *map(chr, range(65, 91)), *map(chr, range(97, 123))]
_TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "initializer_range": 0.5}
"""Sizes of a tower of vision or text."""


def _tokenizer(*more: str, words: Sequence[str] = ()):
    """Return a tokenizer whose tokens are characters, as digits are in LLaMA's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<s>", "</s>", "<unk>", *more]
    vocabulary = {token: n for n, token in enumerate([*special, *CHARACTERS, *(f"{word} " for word in words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, additional_special_tokens=list(more), clean_up_tokenization_spaces=False, **names
    )
    fast.add_bos_token = False
    return fast


def _writing(model, tokenizer, words: Sequence[str]):
    """Return a model that writes words alone, where there are any, and ends after some."""
    if words:
        known = tokenizer.get_vocab()
        spoken = {known["</s>"], *(known[f"{word} "] for word in words)}
        model.generation_config.suppress_tokens = sorted(set(known.values()) - spoken)
        model.generation_config.exponential_decay_length_penalty = (6, 1.5)
    return model


def _text_config(vocabulary: int):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocabulary,
        **_TOWER,
        num_hidden_layers=1,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


def make_tiny_llama(folder: Path, words: Sequence[str] = (), chat_template: str | None = None) -> Path:
    """Write a LLaMA with one layer; its tokens are characters.

    Args:
        folder: Where to.
        words: Where there are any, it writes these alone, and not many.
        chat_template: Of the tokenizer; none is a base model's.
    """
    torch.manual_seed(0)
    tokenizer = _tokenizer(words=words)
    tokenizer.chat_template = chat_template
    _writing(transformers.LlamaForCausalLM(_text_config(len(tokenizer))), tokenizer, words).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_llava(folder: Path, words: Sequence[str] = ()) -> Path:
    """Write a LLaVA with one layer, images of 8 pixels and four patches.

    Args:
        folder: Where to.
        words: Where there are any, it writes these alone, and not many.
    """
    torch.manual_seed(0)
    tokenizer = _tokenizer("<image>", words=words)
    vision = transformers.CLIPVisionConfig(**_TOWER, num_hidden_layers=2, image_size=8, patch_size=4, projection_dim=16)
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=_text_config(len(tokenizer)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )
    _writing(transformers.LlavaForConditionalGeneration(config), tokenizer, words).save_pretrained(folder)
    transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}),
        tokenizer=tokenizer,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            "{% for message in messages %}{% if message['role'] == 'system' %}"
            "{{ message['content'][0]['text'] }} {% else %}USER: {% for part in message['content'] %}"
            "{{ '<image>\n' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %} ASSISTANT:{% endif %}"
        ),
    ).save_pretrained(folder)
    return folder


def make_tiny_roberta(folder: Path, vocabulary: int, layers: int, width: int, positions: int):
    """Write an untrained RoBERTa with a byte-level tokenizer, as save_pretrained writes it.

    Args:
        folder: Where to.
        vocabulary: How many tokens it knows.
        layers: How many.
        width: Of a token's state.
        positions: How many, of which RoBERTa leaves two unused.

    Returns:
        The model.
    """
    from tokenizers import ByteLevelBPETokenizer

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(["a dog runs", "the dog and dogs", "dog"] * 9, vocabulary, 2, special_tokens=special)
    learner.save_model(str(folder))
    transformers.RobertaTokenizer.from_pretrained(str(folder)).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=positions, bos_token_id=0, pad_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.RobertaModel(config)
    model.save_pretrained(folder)
    return model
