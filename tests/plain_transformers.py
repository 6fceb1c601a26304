"""Captions by transformers alone: reads a list of ``[folder, picture, prompt]``, prints a line of JSON for each.

The prompt is null for encoder-decoders, which are asked nothing.
"""

import json
import sys
from typing import Any

from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer


def caption_of(folder: str, picture: str, prompt: str | None) -> str:
    model: Any = AutoModelForImageTextToText.from_pretrained(folder, trust_remote_code=prompt is None)
    image, asked = Image.open(picture).convert("RGB"), {}
    if prompt is None:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        processor: Any = AutoImageProcessor.from_pretrained(folder)
    else:
        tokenizer = processor = AutoProcessor.from_pretrained(folder)
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        chat = [{"role": "user", "content": content}]
        asked["text"] = processor.apply_chat_template(chat, add_generation_prompt=True)
    inputs = processor(images=image, return_tensors="pt", **asked)
    (ids,) = model.generate(**inputs, max_new_tokens=8, do_sample=False, num_beams=1).tolist()
    start = 0 if prompt is None else inputs["input_ids"].shape[1]
    return tokenizer.decode(ids[start:], skip_special_tokens=True)


if __name__ == "__main__":
    for asked in json.load(sys.stdin):
        print(json.dumps(caption_of(*asked)), flush=True)
    assert "capbench" not in sys.modules
