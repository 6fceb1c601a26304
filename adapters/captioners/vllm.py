"""Captions by vLLM's offline engine.

Written against the interface of vLLM 0.33 (``LLM.chat``, ``SamplingParams``), which has been the same since 0.10.
The engine itself is not part of the tests, which run without a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from ...errors import AdapterError
from ...hub import unreachable
from ..chat.messages import chat_messages, image_of, sampling_settings
from ..checkpoint_identity import checkpoint_identity
from ..checkpoints import first_line
from ..contracts import Caption, Captioned, Captioner, CaptionRequest
from ..images.reading import UnreadableImage


class VllmCaptioner(Captioner):
    """Captions by a model that vLLM runs in this process.

    The engine forms its own batches, so requests go to it in large pieces; a run's ``batch_size`` is the
    size of a piece. Each piece is kept when it is done. Prompts go through the model's chat template.

    Args:
        pretrained: A folder, or a name on the hub.
        revision: Branch, tag or commit on the hub.
        system: Goes before every request.
        dtype: ``auto``, ``float16``, ``bfloat16`` or ``float32``.
        quantization: As vLLM names it (``awq``, ``fp8``); None if the checkpoint says.
        tensor_parallel_size: GPUs that share the model.
        gpu_memory_utilization: Share of each GPU's memory that the engine takes.
        max_model_len: Tokens of prompt and caption together; the model's own unless given.
        seed: Seed of the engine.
        trust_remote_code: Whether code that comes with the checkpoint may run.
        name: How results call it; ``pretrained`` unless given.

    Raises:
        AdapterError: vLLM is not installed, or the checkpoint cannot be had.
    """

    batch_size = 1024

    def __init__(
        self,
        pretrained: str,
        revision: str | None = None,
        system: str | None = None,
        dtype: str = "auto",
        quantization: str | None = None,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
        seed: int = 0,
        trust_remote_code: bool = False,
        name: str | None = None,
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise AdapterError(
                "the package vllm is missing",
                "pip install 'capbench[vllm]' on a machine with a GPU, or ask a running server by --model openai.",
            )
        self.name = name or pretrained
        self._system = system
        self._engine_settings = {
            "model": pretrained,
            "revision": revision,
            "dtype": dtype,
            "quantization": quantization,
            "tensor_parallel_size": tensor_parallel_size,
            "gpu_memory_utilization": gpu_memory_utilization,
            "max_model_len": max_model_len,
            "seed": seed,
            "trust_remote_code": trust_remote_code,
            "limit_mm_per_prompt": {"image": 1},
        }
        self._identity = checkpoint_identity(pretrained, revision)
        self._engine: Any = None

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and the hub does not answer; see ``Model.check``."""
        if unreachable():
            checkpoint_identity(arguments["pretrained"], arguments.get("revision"))

    def fingerprint(self) -> dict[str, Any]:
        """Return checkpoint, settings and the version of vLLM."""
        changing = ("dtype", "quantization", "max_model_len", "seed")
        return {
            "adapter": "vllm",
            **self._identity,
            **{key: self._engine_settings[key] for key in changing},
            "system": self._system,
            "vllm": version("vllm"),
        }

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write the captions of all requests, piece by piece."""
        settings = [sampling_settings(request.generation_kwargs) for request in requests]
        if requests and self._engine is None:
            self._engine = self._load()
        size = batch_size or self.batch_size
        for start in range(0, len(requests), size):
            asked: dict[int, list[dict[str, Any]]] = {}
            unseen: dict[int, str] = {}
            remarks: dict[int, str] = {}
            for at, request in enumerate(requests[start : start + size], start):
                try:
                    asked[at], remarks[at] = chat_messages(request.prompt, image_of(request), self._system)
                except UnreadableImage as error:
                    unseen[at] = str(error)
            captions, failures = self._captions(asked, settings)
            remarked = {at: replace(caption, remark=remarks[at]) for at, caption in captions.items()}
            yield Captioned(remarked, failures, unseen)

    def _captions(
        self, asked: Mapping[int, list[dict[str, Any]]], settings: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[int, Caption], dict[int, str]]:
        """Return captions or failures; requests of a piece that is refused are tried one by one."""
        if not asked:
            return {}, {}
        vllm: Any = importlib.import_module("vllm")
        # vLLM's own default ends after 16 tokens.
        sampling = [vllm.SamplingParams(**{"max_tokens": None, **settings[at]}) for at in asked]
        try:
            outputs = self._engine.chat(list(asked.values()), sampling_params=sampling, use_tqdm=False)
        except Exception as error:
            # The type differs by version, and the message does not say whose prompt is too long.
            reason = first_line(error)[:300]
            if len(asked) == 1:
                return {}, dict.fromkeys(asked, reason)
            alone = [self._captions({at: messages}, settings) for at, messages in asked.items()]
            captions = {at: caption for written, _ in alone for at, caption in written.items()}
            failures = {at: reason for _, failed in alone for at, reason in failed.items()}
            if not captions:
                raise AdapterError(f"vLLM writes no caption: {reason}") from error
            return captions, failures
        finished = [output.outputs[0] for output in outputs]
        return {
            at: Caption(completion.text, len(completion.token_ids), completion.finish_reason == "length")
            for at, completion in zip(asked, finished, strict=True)
        }, {}

    def _load(self) -> Any:
        try:
            vllm: Any = importlib.import_module("vllm")
            return vllm.LLM(**self._engine_settings)
        except Exception as error:
            # The engine raises errors of any type: no GPU, too little memory, an unknown architecture.
            raise AdapterError(
                f"vLLM cannot run '{self.name}': {first_line(error)}",
                "Less memory: gpu_memory_utilization, max_model_len; more GPUs: tensor_parallel_size.",
            ) from error
