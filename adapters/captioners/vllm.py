"""Captions by vLLM's offline engine.

Written against the interface of vLLM 0.33 (``LLM.chat``, ``SamplingParams``), which has been the same since 0.10.
The engine itself is not part of the tests, which run without a GPU: there transformers answers by the same interface.
"""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from ...errors import AdapterError
from ..chat.messages import chat_messages, image_of, sampling_settings
from ..checkpoint_identity import PretrainedModel, checkpoint_identity
from ..checkpoints import first_line
from ..contracts import Caption, Captioned, Captioner, CaptionRequest, stream_in_pieces

_OF_THE_ENGINE = (
    *("dtype", "quantization", "tensor_parallel_size"),
    *("gpu_memory_utilization", "max_model_len", "seed", "trust_remote_code"),
)
"""Arguments that the engine takes under the same name."""
_NOT_THINKING = {"enable_thinking": False}
"""A caption is an answer without thoughts before it; the engine leaves out what a template does not read."""


@dataclass(eq=False, repr=False)
class VllmCaptioner(PretrainedModel, Captioner):
    """Captions by a model that vLLM runs in this process.

    The engine forms its own batches, so requests go to it in large pieces; a run's ``batch_size`` is the
    size of a piece. Each piece is kept when it is done. Prompts go through the model's chat template, which is
    asked not to think.

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

    pretrained: str
    revision: str | None = None
    system: str | None = None
    dtype: str = "auto"
    quantization: str | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    max_model_len: int | None = None
    seed: int = 0
    trust_remote_code: bool = False
    name: str = ""

    batch_size = 1024

    def __post_init__(self) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise AdapterError(
                "package vllm is not installed",
                "pip install 'capbench[vllm]' on a machine with a GPU, or ask a running server with --model openai.",
            )
        self.name = self.name or self.pretrained
        self._identity = checkpoint_identity(self.pretrained, self.revision)
        self._engine: Any = None

    def fingerprint(self) -> dict[str, Any]:
        """Return checkpoint, settings and the version of vLLM."""
        return {
            "adapter": "vllm",
            **self._identity,
            **{key: getattr(self, key) for key in ("dtype", "quantization", "max_model_len", "seed")},
            "system": self.system,
            **_NOT_THINKING,
            "vllm": version("vllm"),
        }

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write the captions of all requests, piece by piece."""
        settings = [sampling_settings(request.generation_kwargs) for request in requests]
        if requests and self._engine is None:
            self._engine = self._load()

        def ask(request: CaptionRequest) -> tuple[list[dict[str, Any]], str]:
            image = image_of(request)
            return chat_messages(request.prompt, [] if image is None else [image], self.system)

        write = partial(self._captions, settings)
        return stream_in_pieces(requests, batch_size or self.batch_size, ask, write, "vLLM")

    def _captions(
        self, settings: Sequence[Mapping[str, Any]], messages: Mapping[int, Any], asked: Sequence[int]
    ) -> list[Caption]:
        vllm: Any = importlib.import_module("vllm")
        # vLLM's own default ends after 16 tokens.
        sampling = [vllm.SamplingParams(**{"max_tokens": None, **settings[at]}) for at in asked]
        outputs = self._engine.chat(
            [messages[at] for at in asked], sampling_params=sampling, use_tqdm=False, chat_template_kwargs=_NOT_THINKING
        )
        finished = [output.outputs[0] for output in outputs]
        return [Caption(end.text, len(end.token_ids), end.finish_reason == "length") for end in finished]

    def _load(self) -> Any:
        try:
            vllm: Any = importlib.import_module("vllm")
            settings = {name: getattr(self, name) for name in _OF_THE_ENGINE}
            settings["revision"] = self._identity.get("commit")
            return vllm.LLM(model=self.pretrained, limit_mm_per_prompt={"image": 1}, **settings)
        except Exception as error:
            # The engine raises errors of any type: no GPU, too little memory, an unknown architecture.
            raise AdapterError(
                f"vLLM cannot run '{self.name}': {first_line(error)}",
                "Less memory: gpu_memory_utilization, max_model_len; more GPUs: tensor_parallel_size.",
            ) from error
