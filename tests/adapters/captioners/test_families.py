"""One alias a family of captioners, each with a tiny model of its own kind: as transformers itself captions."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_families import CAPTIONERS
from tiny_images import noise_image, noise_png

from capbench.adapters import CaptionRequest, ImageHandle
from capbench.adapters.aliases import list_aliases, resolve_model

pytestmark = pytest.mark.costly

PROMPTS = ("Describe this image in detail.", "the dog")
TOKENS = 6


@pytest.mark.parametrize("alias", CAPTIONERS)
def test_family_captions_as_transformers_does_whatever_the_batch(alias: str, made_once):
    folder = made_once(f"family_{alias}", CAPTIONERS[alias])
    # Of the image as it is, which the processor of the library takes.
    model = resolve_model(alias, {"pretrained": str(folder), "device": "cpu", "image": "processor"}).load()
    requests = [
        CaptionRequest(str(n), None, PROMPTS[n % 2], {"max_new_tokens": TOKENS}, pixels=ImageHandle(noise_png(n)))
        for n in range(4)
    ]
    alone, together = (written(model, requests, size) for size in (1, 3))
    assert alone == together
    assert len(set(alone)) > 1
    assert alone == plain_captions(alias, folder)


def written(model: Any, requests: list[CaptionRequest], batch_size: int) -> list[str]:
    captions: dict[int, str] = {}
    for batch in model.stream(requests, batch_size):
        assert not batch.failures
        assert not batch.unseen
        captions |= {at: caption.text for at, caption in batch.captions.items()}
    return [captions[at] for at in range(len(requests))]


def plain_captions(alias: str, folder: Path) -> list[str]:
    """Return what the library's own processor and model write of one image at a time."""
    from transformers import AutoModelForMultimodalLM, AutoProcessor

    arguments = list_aliases()[alias].arguments
    processor = AutoProcessor.from_pretrained(folder)
    # Without SDPA, in which Phi-4's vision is causal where nothing is masked.
    model = AutoModelForMultimodalLM.from_pretrained(folder, attn_implementation="eager").eval()
    if "peft" in arguments:
        model.load_adapter(str(folder), adapter_kwargs={"subfolder": arguments["peft"]})
    captions: list[str] = []
    for n in range(4):
        inputs = plain_inputs(processor, arguments.get("prompt_format", "chat"), noise_image(n), PROMPTS[n % 2])
        with torch.inference_mode():
            ids = model.generate(**inputs, do_sample=False, max_new_tokens=TOKENS)[0]
        text_config = model.config.get_text_config(decoder=True)
        if "input_ids" in inputs and not (text_config.is_encoder_decoder or model.config.is_encoder_decoder):
            ids = ids[inputs["input_ids"].shape[1] :]
        text = processor.tokenizer.decode(ids, skip_special_tokens=True)
        end = arguments.get("think_end_token")
        captions.append(text if end is None else text.rpartition(end)[2] if end in text else "")
    return captions


def plain_inputs(processor: Any, prompt_format: str, image: Any, prompt: str) -> Any:
    if prompt_format == "none":
        return processor(images=image, return_tensors="pt")
    if prompt_format != "chat":
        return processor(images=image, text=prompt_format.replace("{prompt}", prompt), return_tensors="pt")
    content = [{"type": "image", "image": image}, {"type": "text", "text": prompt}]
    template = processor.chat_template or processor.tokenizer.chat_template
    return processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True, return_dict=True,
        return_tensors="pt", chat_template=template,
        **({"enable_thinking": False} if "enable_thinking" in template else {}),
    )  # fmt: skip
