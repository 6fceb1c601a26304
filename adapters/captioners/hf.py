"""Models of the transformers library that write captions: LLaVA, Qwen-VL, SmolVLM, BLIP-2 and their like."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

from ...errors import AdapterError, BenchError, require_counts
from ...hub import unreachable
from ..chat.messages import conversation, image_of
from ..checkpoints import first_line
from ..contracts import Caption, Captioned, Captioner, CaptionRequest, TrainableCaptioner
from ..decoding.contract import CaptionSample, Decoder, Written
from ..decoding.settings import decoder_of
from ..devices import DTYPES, TOO_LARGE, BatchSize, find_device, is_out_of_memory, placed, require_known, torch_dtype
from ..hf_checkpoint import HfSource, versions
from ..images.handles import ImageHandle, VideoHandle
from ..images.pipeline import default_workers, read_ahead
from ..images.reading import UnreadableImage, image_size, read_image, turned
from ..images.transforms import Framing, squared
from ..images.video import SampledVideo, own_sampling, sample_frames
from ..peft_weights import peft_checkpoint
from .hf_source import find_captioner, load_captioner, load_processor

if TYPE_CHECKING:
    import torch

_PLACE = "{prompt}"


class PromptFormat:
    """How a model is asked.

    Args:
        processor: The model's processor.
        form: ``chat``: the model's chat template, with the image or video before the instruction. ``none``: the image
            alone, for models that caption what they see. Any other text is sent unchanged, with the task's instruction
            where ``{prompt}`` stands in it. By default ``chat``, where the model has a template, and ``none``, where it
            takes no text.
        system: Text before the conversation, in the template's system role.

    Raises:
        AdapterError: The model has no chat template, and no other format was given; or it takes no text.
    """

    def __init__(self, processor: Any, form: str | None, system: str | None) -> None:
        self._processor = processor
        tokenizer = processor.tokenizer
        self._template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)
        takes_text = getattr(processor, "takes_text", True)
        self._form = form or ("chat" if takes_text else "none")
        self._system = system
        if not takes_text and self._form != "none":
            raise AdapterError(f"prompt_format={form}: the model takes the image only.", "Leave 'prompt_format' out.")
        if self._form == "chat" and not self._template:
            raise AdapterError(
                "the model has no chat template.",
                "Set --model_args prompt_format=none (the image alone), or a text such as "
                "'prompt_format=Question: {prompt} Answer:'.",
            )
        # A caption is an answer without thoughts before it.
        can_think = self._form == "chat" and "enable_thinking" in json.dumps(self._template)
        self._thinking = {"enable_thinking": False} if can_think else {}
        if system is not None and self._form != "chat":
            raise AdapterError(f"system=... needs a chat template, not prompt_format={form}.")

    def text(self, prompt: str, kind: Literal["image", "video"] = "image") -> str | None:
        """Return the text that is sent with an image or a video; None for the image alone.

        Raises:
            AdapterError: The chat template does not take such a conversation, or the text has no place for the video.
        """
        text = self._text(prompt, kind)
        if kind == "video" and self._processor.video_token not in (text or ""):
            raise AdapterError(
                f"prompt_format={self._form} leaves no place for a video.",
                f"Set --model_args 'prompt_format=...{self._processor.video_token}...{_PLACE}...'.",
            )
        return text

    def _text(self, prompt: str, kind: str) -> str | None:
        if self._form == "none":
            return None
        if self._form != "chat":
            return self._form.replace(_PLACE, prompt)
        # Of several templates by name the library takes its own default, and for videos it knows SmolVLM's.
        template = self._template if isinstance(self._template, str) and kind == "image" else None
        try:
            asked = conversation(prompt, self._system, {"type": kind})
            return self._processor.apply_chat_template(
                asked, chat_template=template, add_generation_prompt=True, tokenize=False, **self._thinking
            )
        except Exception as error:
            # A template raises what its author likes.
            raise AdapterError(
                f"the model's chat template failed: {type(error).__name__}: {error}",
                "Replace it: --model_args prompt_format='...{prompt}...'.",
            ) from error

    def fingerprint(self) -> dict[str, Any]:
        """Return what decides the text."""
        template = json.dumps(self._template, sort_keys=True).encode() if self._form == "chat" else b""
        return {
            "prompt_format": self._form,
            "system": self._system,
            "chat_template": hashlib.sha256(template).hexdigest() if template else None,
            **self._thinking,
        }


Collate = Callable[[Sequence[CaptionSample]], Mapping[str, "torch.Tensor"]]


@dataclass(frozen=True)
class SampleBatch:
    """Samples that are ready for the model.

    Attributes:
        positions: Of each sample, among all requests.
        samples: What to write.
        inputs: The model's inputs, not on its device yet; None where they were not requested or cannot be made.
        failures: Position to the reason why the image of a request could not be read.
    """

    positions: list[int]
    samples: list[CaptionSample]
    inputs: Mapping[str, torch.Tensor] | None = None
    failures: dict[int, str] = field(default_factory=dict)

    def part(self, numbers: Sequence[int]) -> SampleBatch:
        """Return some of the samples, whose inputs must be built again; the batch itself for all of them."""
        if len(numbers) == len(self.samples):
            return self
        return SampleBatch([self.positions[n] for n in numbers], [self.samples[n] for n in numbers])


def costliest_first(requests: Sequence[CaptionRequest], positions: Sequence[int], workers: int) -> list[int]:
    """Return positions ordered by cost: long instructions first, and of these large images.

    Those of like size share a batch, so that there is little padding; whether the costliest fit into memory is
    found out at once.
    """

    def cost(position: int) -> tuple[int, int]:
        pixels = requests[position].pixels
        width, height = image_size(pixels) if isinstance(pixels, ImageHandle) else (0, 0)
        return -len(requests[position].prompt), -width * height

    with ThreadPoolExecutor(workers, thread_name_prefix="image size") as pool:
        costs = dict(zip(positions, pool.map(cost, positions), strict=True))
    return sorted(positions, key=costs.__getitem__)


def _read(turns: bool, takes_videos: bool, request: CaptionRequest) -> CaptionSample | str:
    try:
        if takes_videos and isinstance(request.pixels, VideoHandle):
            return CaptionSample(request.id, request.prompt, sample_frames(request.pixels, request.sampling))
        if (image := image_of(request)) is None:
            raise UnreadableImage("the document has no image")
        read = turned(read_image(image)) if turns else read_image(image)
        return CaptionSample(request.id, request.prompt, read.image.convert("RGB"), read.remark)
    except UnreadableImage as error:
        return f"was not written: {error}"
    except Exception as error:  # noqa: BLE001 - decoders raise any type; one image must not fail the others
        return f"was not written: {request.image!r:.80}: {type(error).__name__}: {error}"


def _batch(collate: Collate | None, read: Mapping[int, CaptionSample | str]) -> SampleBatch:
    samples = {position: sample for position, sample in read.items() if isinstance(sample, CaptionSample)}
    failures = {position: reason for position, reason in read.items() if isinstance(reason, str)}
    inputs = None
    if samples and collate is not None:
        # A failed batch is tried again later, where the faulty sample can be identified.
        with suppress(Exception):
            inputs = collate(list(samples.values()))
    return SampleBatch(list(samples), list(samples.values()), inputs, failures)


_ROWS_ON_GPU, _ROWS_ON_CPU = 64, 8
_VERSION = 1
"""Version of the processing of logits; raised with each change that changes captions."""
_POSITIONS = re.compile(r"(wpe|embed_positions|position_embeddings?)$")
"""Decoders' names for their table of positions."""


class HfCaptioner(Captioner):
    """An image-text-to-text model of transformers.

    Captions are written in batches, padded on the left. In fp32 a caption does not depend on its batch; in half
    precision rounding does, a little, so that now and then a token may change.

    Args:
        pretrained: A hub id (``llava-hf/llava-1.5-7b-hf``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id; the commit that it stands for is recorded.
        dtype: ``fp32``, ``fp16``, ``bf16``, or ``auto``: on a GPU what the checkpoint says, else fp32.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        device_map: ``auto`` spreads the model over several GPUs (needs accelerate).
        batch_size: Captions at once to start with; halved when the device runs out of memory.
        workers: Threads that read images; one a core by default.
        prompt_format: ``chat``, ``none`` or a text with ``{prompt}``; see ``PromptFormat``.
        system: Text of the chat template's system role.
        min_pixels: Images with fewer are enlarged, by models that take any size (Qwen-VL).
        max_pixels: Images with more are made smaller, by the same.
        frames: Frames of a video that it sees, at equal distances; the task's number unless given.
        fps: Frames of a second that it sees, ``frames`` at most.
        image: ``pad``: images are padded to squares with the processor's mean colour, as in LLaVA-1.5's own code;
            ``crop``: their centre squares are cut out; ``processor``: they go to the checkpoint's processor as they
            are, and that of the converted LLaVA-1.5 crops.
        exif: ``ignore`` orientation in EXIF data, as PIL does, or ``apply`` it, as ``datasets`` does when it decodes.
        think_end_token: The token after which a model that cannot be kept from thinking answers, such as
            ``</think>``: what it writes before is no part of its caption.
        quantization: ``4bit`` or ``8bit`` (needs bitsandbytes).
        peft: Folder of an adapter such as LoRA (needs peft), or the name of one in the checkpoint's own repository.
        trust_remote_code: Whether code that comes with the model may run.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or writes no captions of images.
    """

    def __init__(
        self,
        pretrained: str,
        revision: str | None = None,
        dtype: str = "auto",
        device: str | None = None,
        device_map: str | None = None,
        batch_size: int | None = None,
        workers: int | None = None,
        prompt_format: str | None = None,
        system: str | None = None,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        frames: int | None = None,
        fps: float | None = None,
        image: Framing = "processor",
        exif: Literal["ignore", "apply"] = "ignore",
        think_end_token: str | None = None,
        quantization: str | None = None,
        peft: str | None = None,
        trust_remote_code: bool = False,
        name: str | None = None,
    ) -> None:
        require_known(DTYPES, dtype=dtype)
        require_known(get_args(Framing), image=image)
        require_known(("ignore", "apply"), exif=exif)
        require_counts(AdapterError, batch_size=batch_size, workers=workers)
        self.name = name or str(pretrained)
        self._source = find_captioner(str(pretrained), revision, trust_remote_code)
        self._device = find_device(device)
        self._device_map = device_map
        peft = self._source.folder_of(peft) if peft else None
        self._settings = {"quantization": quantization, "peft": peft_checkpoint(peft) if peft else None}
        self.processor = load_processor(self._source, trust_remote_code, min_pixels=min_pixels, max_pixels=max_pixels)
        self._prompts = PromptFormat(self.processor, prompt_format, system)
        self._framing: Framing = image
        self._colour = self._mean_colour() if image == "pad" else 0
        self._turns = exif == "apply"
        self._sampling = own_sampling(frames, fps)
        self._takes_videos = getattr(self.processor, "video_processor", None) is not None
        own = (
            *(("image", image, "processor"), ("exif", exif, "ignore"), ("frames", frames, None), ("fps", fps, None)),
            ("think_end_token", think_end_token, None),
        )
        self._shown = {name: value for name, value, default in own if value != default}
        options = {"prompt_format": prompt_format, "system": system}
        self.asking = {key: value for key, value in options.items() if value is not None} | self._shown
        """Arguments that say how it is asked."""
        self.model = load_captioner(
            self._source,
            _dtype(dtype, self._device, self._source.config),
            self._device,
            device_map=device_map,
            quantization=quantization,
            peft=peft,
            trust_remote_code=trust_remote_code,
        )
        tokenizer = self.processor.tokenizer
        # A decoder goes on from the end of its input; encoders count positions from the start.
        tokenizer.padding_side = "right" if self.has_encoder else "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        self._answer_after = self._token(think_end_token) if think_end_token else None
        rows = _ROWS_ON_GPU if self._device.type == "cuda" else _ROWS_ON_CPU
        self.batch_size = batch_size or rows
        self._start_rows = batch_size
        # The batch size is found once for all calls.
        self._sizes: dict[tuple[str, int, int | None], BatchSize] = {}
        self._workers = workers or default_workers()
        # The tokenizer keeps its settings for padding in one place, and two threads use it.
        self._lock = threading.Lock()
        self._tokens = 0

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it cannot be had, or is here and transformers cannot run it; see ``Model.check``."""
        pretrained, revision = str(arguments["pretrained"]), arguments.get("revision")
        if unreachable(HfSource.named(pretrained, revision).path):
            find_captioner(pretrained, revision, bool(arguments.get("trust_remote_code")))

    @property
    def end_ids(self) -> list[int]:
        """Tokens that end a caption."""
        config = self.model.config.get_text_config(decoder=True)
        if self.model.config.model_type == "blip":
            # Whatever its configuration calls the end, its 'generate' ends at the separator.
            return [config.sep_token_id]
        candidates = (self.model.generation_config.eos_token_id, config.eos_token_id)
        named = next((ids for ids in candidates if ids is not None), self.processor.tokenizer.eos_token_id)
        return [named] if isinstance(named, int) else list(named)

    @property
    def positions(self) -> int | None:
        """The most tokens that a caption may have; None where it goes on from its instruction, or there is no end."""
        config = self.model.config.get_text_config(decoder=True)
        return getattr(config, "max_position_embeddings", None) if self.has_encoder else None

    @property
    def has_encoder(self) -> bool:
        """Whether an encoder reads the instruction, and a decoder writes the caption."""
        config = self.model.config
        # InstructBLIP on T5 says so of its language model alone.
        return config.is_encoder_decoder or config.get_text_config(decoder=True).is_encoder_decoder

    @cached_property
    def _reach(self) -> int | None:
        """The positions of which a decoder without an encoder learned each; None where it can go on beyond them."""
        import torch

        config = self.model.config
        count = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
        if self.has_encoder or count is None:
            return None
        learned = (
            module.num_embeddings
            for name, module in self.model.named_modules()
            if isinstance(module, torch.nn.Embedding) and _POSITIONS.search(name)
        )
        # OPT's table has two more; those of image towers have others.
        return count if any(count <= size <= count + 2 for size in learned) else None

    def room(self, inputs: Mapping[str, torch.Tensor], tokens: int) -> int:
        """Return how many of ``tokens`` tokens captions can have after their instructions.

        Raises:
            ValueError: The instructions leave no room; or each leaves another, so that they are to be written apart.
        """
        if self._reach is None:
            return tokens
        asked = inputs.get("attention_mask")
        # Without an instruction the model begins with its image and a token.
        own = getattr(self.model.config, "num_query_tokens", 0) + 1
        lengths = {own} if asked is None else {int(length) for length in asked.sum(dim=1)}
        room = min(self._reach - length for length in lengths)
        if room >= tokens:
            return tokens
        if len(lengths) > 1:
            raise ValueError("instructions of several lengths leave room for captions of several lengths")
        if room < 1:
            raise ValueError(f"the instruction has {max(lengths)} tokens, and the model {self._reach} positions")
        return room

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that is done with them, but for the settings that a request states."""
        import PIL
        import torchvision

        images = json.dumps(self.processor.image_processor.to_dict(), sort_keys=True, default=str)
        return {
            "adapter": "hf",
            "version": _VERSION,
            "checkpoint": self._source.checkpoint(),
            "model": type(self.model).__name__,
            "dtype": str(self.model.dtype),
            **{key: value for key, value in self._settings.items() if value is not None},
            **self._prompts.fingerprint(),
            **self._shown,
            "image_processor": hashlib.sha256(images.encode()).hexdigest(),
            **versions(),
            "torchvision": ".".join(torchvision.__version__.split(".")[:2]),
            "pillow": PIL.__version__.split(".")[0],
        }

    def to_trainable(self) -> TrainableCaptioner:
        """Return the trainable model in single precision; see ``Model.to_trainable``.

        Raises:
            AdapterError: It is quantised, spread over devices, or has adapter weights already.
        """
        from .hf_trainable import trainable_captioner

        settings = {**self._settings, "device_map": self._device_map}
        if named := [name for name, value in settings.items() if value is not None]:
            raise AdapterError(
                f"{self.name} cannot be trained with {' and '.join(named)}.",
                "Load the model without; merge adapter weights into it beforehand.",
            )
        return trainable_captioner(self)

    def usage(self) -> Mapping[str, float]:
        """Return how many tokens were written."""
        return {"completion_tokens": float(self._tokens)}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write captions; see ``Captioner.stream``.

        Raises:
            UsageError: ``generation_kwargs`` make no sense; see ``capbench.adapters.decoding.settings``.
            AdapterError: The model failed as a whole.
        """
        if self._sampling is not None:
            requests = [replace(request, sampling=self._sampling) for request in requests]
        groups: dict[tuple[str, int], list[int]] = {}
        for position, request in enumerate(requests):
            settings = json.dumps(dict(request.generation_kwargs), sort_keys=True, default=str)
            frames = request.sampling.count if isinstance(request.pixels, VideoHandle) else 0
            groups.setdefault((settings, frames), []).append(position)
        wanted = [(decoder_of(requests[group[0]].generation_kwargs), kind, group) for kind, group in groups.items()]
        for decoder, (settings, frames), positions in wanted:
            start = batch_size or self._start_rows or max(1, self.batch_size // decoder.rows // max(frames, 1))
            size = self._sizes.setdefault((settings, frames, batch_size), BatchSize(start))
            yield from self._write_all(decoder, requests, positions, size)

    def _write_all(
        self, decoder: Decoder, requests: Sequence[CaptionRequest], positions: list[int], size: BatchSize
    ) -> Iterator[Captioned]:
        order = iter(costliest_first(requests, positions, self._workers))
        # Samples that cannot be read count in the size of a batch, which changes on the way.
        chosen = iter(lambda: list(islice(order, size.now)), [])
        collate = (lambda samples: self._collate(decoder.samples(samples))) if decoder.takes_inputs else None
        read = partial(_read, self._turns, self._takes_videos)
        for batch in read_ahead(requests, chosen, read, partial(_batch, collate), self._workers):
            if batch.failures:
                yield Captioned(unseen=batch.failures)
            yield from self._write(decoder, batch, size)

    def _write(self, decoder: Decoder, batch: SampleBatch, size: BatchSize) -> Iterator[Captioned]:
        """Write a batch in pieces that fit; samples that fail alone become failures."""
        numbers = range(len(batch.samples))
        for piece, written in size.batches(numbers, lambda piece: self._try(decoder, batch.part(piece))):
            captions: dict[int, Caption] = {}
            failures: dict[int, str] = {}
            for n, output in zip(piece, written or [Written([], cut=False, fault=TOO_LARGE)], strict=True):
                if output.fault:
                    failures[batch.positions[n]] = f"was not written: {output.fault}"
                    continue
                text, remark = self.text(output.ids), batch.samples[n].remark
                captions[batch.positions[n]] = Caption(text, len(output.ids), output.cut, remark)
                self._tokens += len(output.ids)
            yield Captioned(captions, failures)

    def _try(self, decoder: Decoder, batch: SampleBatch) -> list[Written]:
        """Return the captions; where the model fails, halves are tried until the faulty samples are isolated."""
        try:
            inputs = None if batch.inputs is None else placed(batch.inputs, self.model.device, self.model.dtype)
            return decoder.write(self, batch.samples, inputs)
        except BenchError:
            raise
        except Exception as error:
            # Models raise errors of any type; one sample must not fail the others.
            if is_out_of_memory(error):
                raise
            fault = f"{type(error).__name__}: {first_line(error)}"
        count = len(batch.samples)
        if count == 1:
            return [Written([], cut=False, fault=fault)]
        halves = range(count // 2), range(count // 2, count)
        return [written for half in halves for written in self._try(decoder, batch.part(half))]

    def inputs(self, samples: Sequence[CaptionSample]) -> dict[str, torch.Tensor]:
        """Return the model's inputs for samples, on its device."""
        return placed(self._collate(samples), self.model.device, self.model.dtype)

    def _collate(self, samples: Sequence[CaptionSample]) -> dict[str, torch.Tensor]:
        videos = [sample.image for sample in samples if isinstance(sample.image, SampledVideo)]
        texts = [self._prompts.text(sample.prompt, "video" if videos else "image") for sample in samples]
        settings: dict[str, Any] = {}
        if texts[0] is not None:
            settings = {"text": texts, "padding": True}
            start = self.processor.tokenizer.bos_token
            if start and texts[0].startswith(start):
                settings["add_special_tokens"] = False
        if videos:
            settings |= self._video_inputs(videos)
        else:
            settings["images"] = [self._framed(sample.image) for sample in samples]
        with self._lock:
            inputs = self.processor(return_tensors="pt", **settings)
        return {name: value for name, value in inputs.items() if name != "labels"}

    def _video_inputs(self, videos: Sequence[SampledVideo]) -> dict[str, Any]:
        """Return what the processor takes of videos, whose frames are sampled already.

        Raises:
            ValueError: They have several numbers of frames, which some processors pad, so that they are to be written
                apart.
        """
        if len({len(video.frames) for video in videos}) > 1:
            raise ValueError("videos of several numbers of frames")
        return {
            "videos": [[self._framed(frame) for frame in video.frames] for video in videos],
            "video_metadata": [
                {
                    "total_num_frames": video.total,
                    "fps": video.rate,
                    "duration": None if video.rate is None else video.total / video.rate,
                    # A copy, as Qwen3-VL's processor adds to it.
                    "frames_indices": list(video.places),
                }
                for video in videos
            ],
            "do_sample_frames": False,
        }

    def _framed(self, image: Any) -> Any:
        return image if self._framing == "processor" else squared(image, self._framing, self._colour)

    def _mean_colour(self) -> tuple[int, ...]:
        mean = getattr(self.processor.image_processor, "image_mean", None)
        if mean is None:
            raise AdapterError(f"image=pad: the image processor of {self.name} has no mean colour.", "Leave it out.")
        return tuple(int(255 * level) for level in mean)

    def asked(self, prompt: str) -> str | None:
        """Return the text that the model is asked an instruction with; None for the image alone."""
        return self._prompts.text(prompt)

    def text(self, ids: Sequence[int]) -> str:
        """Return tokens as text, without special ones and thoughts; empty where a model did not end thinking."""
        answer = list(ids)
        if self._answer_after is not None:
            reversed_ids = answer[::-1]
            length = reversed_ids.index(self._answer_after) if self._answer_after in answer else 0
            answer = answer[len(answer) - length :]
        with self._lock:
            return self.processor.tokenizer.decode(answer, skip_special_tokens=True)

    def _token(self, text: str) -> int:
        """Return the id of a token.

        Raises:
            AdapterError: The model has no such token.
        """
        if (token := self.processor.tokenizer.get_vocab().get(text)) is None:
            raise AdapterError(f"think_end_token={text}: {self.name} has no such token.")
        return token

    def generation_config(self, **settings: Any) -> Any:
        """Return the model's own generation settings, without sampling and with these in place.

        A caption ends at the last of the model's positions, where it has an end.
        """
        config = copy.deepcopy(self.model.generation_config)
        if self.positions is not None and "max_new_tokens" in settings:
            settings["max_new_tokens"] = min(settings["max_new_tokens"], self.positions)
        # Each sample has its own random numbers; the library draws no tokens.
        plain = {"do_sample": False, "temperature": 1.0, "top_p": 1.0, "top_k": 50, "max_length": None}
        config.update(**{**plain, **settings})
        config.eos_token_id = self.end_ids
        if config.pad_token_id is None:
            config.pad_token_id = self.processor.tokenizer.pad_token_id
        return config

    def generate(self, inputs: Mapping[str, torch.Tensor], **settings: Any) -> Any:
        """Return the output of the library's ``generate`` for the model's inputs.

        A decoder that begins with its own token gets a mask in which all its tokens count. Without it, the library
        takes the padding of ended captions for padding of an input.
        """
        import torch

        arguments = dict(inputs)
        if self.has_encoder and "decoder_input_ids" not in inputs:
            rows = len(inputs[self.model.main_input_name])
            arguments["decoder_attention_mask"] = torch.ones((rows, 1), dtype=torch.long, device=self.model.device)
        return self.model.generate(**arguments, **settings)


def _dtype(dtype: str, device: torch.device, config: Any) -> torch.dtype:
    """Return the precision of a model; see ``HfCaptioner`` for what ``auto`` is."""
    import torch

    if dtype != "auto":
        return torch_dtype(dtype)
    stated = getattr(config, "dtype", None)
    return stated if isinstance(stated, torch.dtype) and device.type != "cpu" else torch.float32
