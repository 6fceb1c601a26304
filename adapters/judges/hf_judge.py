"""A judge that transformers runs: language models, and models that see images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import AdapterError, require_counts
from ..chat.messages import conversation
from ..checkpoint_identity import PretrainedModel, checkpoint_identity
from ..contracts import Judge, Judged, Judgement, JudgeRequest, JudgeToken
from ..decoding.generating import SeededChoice, generator_of
from ..devices import DTYPES, TOO_LARGE, BatchSize, find_device, require_known, torch_dtype
from ..hf_checkpoint import find_source
from ..images.reading import ReadImage, UnreadableImage, read_image

if TYPE_CHECKING:
    import torch


@dataclass(eq=False, repr=False)
class HfJudge(PretrainedModel, Judge):
    """Judgements by a model of transformers, with the exact probabilities of tokens.

    The configuration decides between models with images (``AutoModelForImageTextToText``) and without
    (``AutoModelForCausalLM``). Decoding is greedy unless a request says otherwise; tokens are drawn by each request's
    own random numbers, so that other requests of a batch change nothing.

    Args:
        pretrained: A folder, or a name on the hub.
        revision: Branch, tag or commit on the hub.
        system: Goes before every request.
        chat_template: ``model``: prompts go through the checkpoint's chat template, if it has one; ``none``: they go to
            the model as they are; or a file with a Jinja template.
        dtype: ``auto`` (as stored, on any device), ``fp32``, ``fp16``, ``bf16``, or torch's names of these.
        device: Where it runs (``cuda:1``); by default the GPU if there is one.
        batch_size: Requests at once to start with; halved when the device runs out of memory.
        trust_remote_code: Whether code that comes with the checkpoint may run.
        name: How results call it; ``pretrained`` unless given.

    Raises:
        AdapterError: The checkpoint cannot be had.
    """

    pretrained: str
    revision: str | None = None
    system: str | None = None
    chat_template: str = "model"
    dtype: str = "auto"
    device: str | None = None
    batch_size: int = 8
    trust_remote_code: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        require_known(DTYPES, dtype=self.dtype)
        require_counts(AdapterError, batch_size=self.batch_size)
        self.name = self.name or self.pretrained
        self._template = None
        if self.chat_template not in ("model", "none"):
            self._template = _read_template(Path(self.chat_template).expanduser())
        self._fits = BatchSize(self.batch_size)
        self._identity = checkpoint_identity(self.pretrained, self.revision)
        self._loaded: _Loaded | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return checkpoint, settings and the version of transformers."""
        return {
            "adapter": "hf_judge",
            **self._identity,
            "system": self.system,
            **({} if self.chat_template == "model" else {"chat_template": self._template}),
            "dtype": self.dtype,
            "transformers": version("transformers"),
        }

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Answer all requests, those of one kind in batches."""
        if not requests:
            return
        model = self._loaded = self._loaded or self._load()
        kinds: dict[Any, list[int]] = {}
        for at, request in enumerate(requests):
            _require_known(request.decoding)
            how = tuple(sorted((key, value) for key, value in request.decoding.items() if key != "seed"))
            kind = (request.image is not None, request.max_tokens, request.candidates, how)
            kinds.setdefault(kind, []).append(at)
        for positions in kinds.values():
            if requests[positions[0]].image is not None and not model.sees:
                raise AdapterError(f"judge '{self.name}' takes no images: a language model", "Use a judge that does.")
            for start in range(0, len(positions), self.batch_size):
                piece = positions[start : start + self.batch_size]
                yield self._judged(model, {at: requests[at] for at in piece})

    def _judged(self, model: _Loaded, requests: Mapping[int, JudgeRequest]) -> Judged:
        """Answer requests of one kind by position, as many at once as fit."""
        judgements: dict[int, Judgement] = {}
        failures: dict[int, str] = {}
        asked: dict[int, list[dict[str, Any]]] = {}
        remarks: dict[int, str] = {}
        for at, request in requests.items():
            try:
                read = read_image(request.image) if request.image is not None else None
                asked[at], remarks[at] = self._messages(request, read), read.remark if read else ""
            except UnreadableImage as error:
                failures[at] = str(error)

        def answer(batch: Sequence[int]) -> list[Judgement]:
            return self._answer(model, [asked[at] for at in batch], [requests[at] for at in batch])

        for batch, answers in self._fits.batches(list(asked), answer):
            if answers is None:
                failures[batch[0]] = TOO_LARGE
            else:
                answered = zip(batch, answers, strict=True)
                judgements |= {at: replace(answer, remark=remarks[at]) for at, answer in answered}
        return Judged(judgements, failures)

    def _messages(self, request: JudgeRequest, read: ReadImage | None) -> list[dict[str, Any]]:
        system = self.system if request.system is None else request.system
        image = {"type": "image", "image": read.image.convert("RGB")} if read else None
        return conversation(request.prompt, system or None, image)

    def _answer(
        self, model: _Loaded, conversations: list[list[dict[str, Any]]], requests: Sequence[JudgeRequest]
    ) -> list[Judgement]:
        import torch
        from transformers import LogitsProcessorList

        kind, candidates = requests[0], requests[0].candidates
        # The last token that a candidate is made of, as in FLEUR: some vocabularies put a space before it.
        ids = [model.tokenizer.encode(candidate, add_special_tokens=False)[-1] for candidate in candidates]
        recorded = _Recorded(ids)
        inputs = model.inputs(conversations).to(model.model.device)
        with torch.inference_mode():
            sequences = model.model.generate(
                **inputs,
                do_sample=False,
                num_beams=int(kind.decoding.get("num_beams", 1)),
                max_new_tokens=kind.max_tokens,
                logits_processor=LogitsProcessorList([*([recorded] if ids else []), *_drawing(requests)]),
            )
        generated = sequences[:, inputs["input_ids"].shape[1] :].tolist()
        spelled = dict(zip(ids, candidates, strict=True))
        # No text: start, end, padding.
        special = set(model.tokenizer.all_special_ids)
        answers = []
        for row, tokens in enumerate(generated):
            places = tuple(
                JudgeToken(
                    spelled.get(token) or model.tokenizer.decode([token]),
                    dict(zip(candidates, recorded.steps[step][row].tolist(), strict=True)) if token in spelled else {},
                )
                for step, token in enumerate(tokens if ids else ())
                if token not in special
            )
            answers.append(Judgement(model.tokenizer.decode(tokens, skip_special_tokens=True), places))
        return answers

    def _load(self) -> _Loaded:
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

        trusted = {"trust_remote_code": self.trust_remote_code}
        device = find_device(self.device)
        source = find_source(self.pretrained, self._identity.get("commit"), **trusted)
        sees = source.config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        kind = "AutoModelForImageTextToText" if sees else "AutoModelForCausalLM"
        dtype = self.dtype if self.dtype == "auto" else torch_dtype(self.dtype)
        model = source.load_whole(kind, dtype, trust_remote_code=self.trust_remote_code)
        processor = source.part("AutoProcessor" if sees else "AutoTokenizer", "processor", **trusted)
        tokenizer = processor.tokenizer if sees else processor
        if self.chat_template != "model":
            processor.chat_template = self._template
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return _Loaded(model.to(device), processor, tokenizer, sees)


@dataclass(frozen=True)
class _Loaded:
    """A model with what makes its inputs."""

    model: Any
    processor: Any
    tokenizer: Any
    sees: bool

    def inputs(self, conversations: list[list[dict[str, Any]]]) -> Any:
        """Return the model's inputs for some conversations, padded to one length."""
        options = {"return_tensors": "pt", "padding": True}
        if self.processor.chat_template is None:
            if self.sees:
                raise AdapterError(
                    "the judge has no chat template, which says where an image goes",
                    "Name a checkpoint that was tuned to follow instructions, or a file with 'chat_template'.",
                )
            return self.tokenizer([_text(conversation) for conversation in conversations], **options)
        template = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
        if self.sees:
            return self.processor.apply_chat_template(conversations, processor_kwargs=options, **template)
        texts = [
            [{**message, "content": _text([message])} for message in conversation] for conversation in conversations
        ]
        return self.processor.apply_chat_template(texts, **template, **options)


class _Recorded:
    """Takes down the probabilities of some tokens at every step of decoding, and changes nothing.

    Attributes:
        steps: For each step ``[b, candidates]``.
    """

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = list(ids)
        self.steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.steps.append(scores.float().softmax(dim=-1)[:, self._ids].cpu())
        return scores


def _read_template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AdapterError(
            f"chat_template={path}: cannot be read: {error}", "Set model, none, or a file with a Jinja template."
        ) from error


def _require_known(decoding: Mapping[str, float]) -> None:
    if unknown := sorted(decoding.keys() - {"num_beams", "temperature", "seed"}):
        raise AdapterError(
            f"decoding setting '{unknown[0]}' is not known to hf_judge", "It knows num_beams, temperature and seed."
        )
    if decoding.get("temperature") and decoding.get("num_beams", 1) != 1:
        raise AdapterError("temperature and num_beams exclude each other", "Leave out one of them.")


def _drawing(requests: Sequence[JudgeRequest]) -> list[Any]:
    """Return what draws the tokens of requests of one kind; nothing where they are not drawn."""
    from transformers import TemperatureLogitsWarper

    temperature = requests[0].decoding.get("temperature", 0)
    if not temperature:
        return []
    uniforms = [
        generator_of(int(req.decoding.get("seed", 0)), req.system or "", req.prompt).random(req.max_tokens)
        for req in requests
    ]
    return [TemperatureLogitsWarper(float(temperature)), SeededChoice(np.asarray(uniforms))]


def _text(conversation: list[dict[str, Any]]) -> str:
    return "\n\n".join(part["text"] for message in conversation for part in message["content"])
