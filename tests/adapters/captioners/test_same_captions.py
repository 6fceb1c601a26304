"""A server, vLLM and ``hf`` write the same captions with the same weights: greedy, token for token."""

import base64
import io
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_images import noise_png

from capbench.adapters import CaptionRequest, ImageHandle
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.captioners.vllm import VllmCaptioner
from capbench.adapters.chat.openai import OpenAICaptioner

pytestmark = pytest.mark.costly

REQUESTS = [
    CaptionRequest(str(n), None, prompt, {"max_new_tokens": 12}, pixels=ImageHandle(noise_png(n)))
    for n, prompt in enumerate(["Describe this image in detail.", "the dog"] * 3)
]


def written(captioner: Any) -> list[tuple[str, bool]]:
    """Return the texts of all requests, and whether each was cut."""
    captions = {at: caption for batch in captioner.stream(REQUESTS) for at, caption in batch.captions.items()}
    return [(captions[at].text, captions[at].cut) for at in range(len(REQUESTS))]


@pytest.fixture(scope="module")
def own(tiny_llava: Path) -> list[tuple[str, bool]]:
    captions = written(HfCaptioner(str(tiny_llava), device="cpu"))
    assert len(set(captions)) > 3
    return captions


@contextmanager
def transformers_serve(folder: Path) -> Iterator[str]:
    """Run the library's own server of the OpenAI API; the block gets its address."""
    from transformers.cli.serve import Serve

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Serve(str(folder), device="cpu", dtype="float32", host="127.0.0.1", port=port, non_blocking=True)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill_server()


def test_server_writes_what_hf_writes(tiny_llava: Path, own: list[tuple[str, bool]]):
    with transformers_serve(tiny_llava) as address:
        served = written(OpenAICaptioner(str(tiny_llava), address, concurrency=1))
    # To the server a caption is cut, too, whose last allowed token ends it.
    assert [text for text, _ in served] == [text for text, _ in own]
    assert all(cut for (_, cut), (_, is_cut) in zip(served, own, strict=True) if is_cut)


@dataclass
class SamplingParams:
    """The fields of vLLM 0.33's that captions are asked for with."""

    temperature: float = 1.0
    max_tokens: int | None = 16


class LLM:
    """vLLM's ``LLM`` as its ``chat`` is documented, with transformers in place of its engine."""

    def __init__(
        self, model: str, *, trust_remote_code: bool = False, tensor_parallel_size: int = 1, dtype: str = "auto",
        quantization: str | None = None, revision: str | None = None, seed: int = 0,
        gpu_memory_utilization: float = 0.92, max_model_len: int | None = None,
        limit_mm_per_prompt: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self._processor = AutoProcessor.from_pretrained(model)
        self._model = AutoModelForImageTextToText.from_pretrained(model).eval()

    def chat(
        self, messages: Sequence[list[dict[str, Any]]], sampling_params: Sequence[SamplingParams],
        use_tqdm: bool = True, *, chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        assert len(messages) == len(sampling_params)
        assert chat_template_kwargs == {"enable_thinking": False}
        return [self._answer(*each) for each in zip(messages, sampling_params, strict=True)]

    def _answer(self, conversation: list[dict[str, Any]], sampling: SamplingParams) -> Any:
        assert sampling.temperature == 0
        for part in (part for message in conversation for part in message["content"]):
            if part["type"] == "image_url":
                encoded = base64.b64decode(part.pop("image_url")["url"].partition(",")[2])
                part |= {"type": "image", "image": Image.open(io.BytesIO(encoded))}
        inputs = self._processor.apply_chat_template(
            conversation, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        with torch.inference_mode():
            ids = self._model.generate(**inputs, do_sample=False, max_new_tokens=sampling.max_tokens)[0]
        ids = ids[inputs["input_ids"].shape[1] :]
        text = self._processor.tokenizer.decode(ids, skip_special_tokens=True)
        reason = "stop" if ids[-1] == self._processor.tokenizer.eos_token_id else "length"
        return SimpleNamespace(outputs=[SimpleNamespace(text=text, token_ids=ids.tolist(), finish_reason=reason)])


def test_vllm_is_asked_as_it_is_documented_and_writes_what_hf_writes(tiny_llava, own, monkeypatch):
    package = ModuleType("vllm")
    package.__spec__ = ModuleSpec("vllm", None)
    vars(package).update(LLM=LLM, SamplingParams=SamplingParams)
    monkeypatch.setitem(sys.modules, "vllm", package)
    assert written(VllmCaptioner(str(tiny_llava))) == own
