"""Makes tiny BLIP and FLAVA checkpoints in the real formats, with random weights.

A test imports this module (``from tiny_pairwise import make_tiny_blip``). The same call always makes the same files.
"""

from pathlib import Path
from typing import Any

import torch

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
_IMAGE = {**_TOWER, "image_size": 32, "patch_size": 16}


def make_tiny_blip(folder: Path, **text: Any) -> Path:
    """Write a BLIP with a match head, whose tokenizer knows letters; [DEC] and [ENC] stand behind its vocabulary.

    Args:
        folder: Where it goes.
        **text: Keys of its text configuration.
    """
    from transformers import BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor

    tokenizer = _letters(folder)
    torch.manual_seed(0)
    known = {
        "vocab_size": len(tokenizer) + 2, "max_position_embeddings": 64, "encoder_hidden_size": 32, "sep_token_id": 3,
        "bos_token_id": len(tokenizer), "pad_token_id": 0, "projection_dim": 16,
    }  # fmt: skip
    config = BlipConfig(
        text_config=_TOWER | known | text, vision_config=_IMAGE, image_text_hidden_size=16, projection_dim=16
    )
    _scaled(BlipForImageTextRetrieval(config)).save_pretrained(folder)
    BlipImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def make_tiny_flava(folder: Path, places: int = 96) -> Path:
    """Write a FLAVA without a codebook, whose tokenizer knows letters.

    Args:
        folder: Where it goes.
        places: Tokens that a text may have.
    """
    from transformers import FlavaConfig, FlavaForPreTraining, FlavaImageProcessor

    tokenizer = _letters(folder)
    torch.manual_seed(0)
    config = FlavaConfig(
        text_config={**_TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": places},
        image_config={**_IMAGE, "vocab_size": 16},
        multimodal_config=_TOWER,
        hidden_size=32,
        projection_dim=16,
        init_codebook=False,
    )
    _scaled(FlavaForPreTraining(config)).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    FlavaImageProcessor(size=size, crop_size=size).save_pretrained(folder)
    return folder


def _letters(folder: Path) -> Any:
    """Write a BERT tokenizer of single letters."""
    import string

    from transformers import BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    letters = (*string.ascii_lowercase, *string.digits, ".", ",")
    vocabulary = [*WORDS, *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = BertTokenizerFast(vocab={token: number for number, token in enumerate(vocabulary)})
    tokenizer.save_pretrained(folder)
    return tokenizer


def _scaled(model: Any) -> Any:
    """Return a model with weights so large that scores differ clearly."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
    return model.eval()
