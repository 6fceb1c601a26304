"""The contracts behind which every model stands: captioner, dual encoder, pairwise encoder, judge."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from ..downloads import Repository, Resource
from ..errors import AdapterError
from ..rows import BadRow
from .checkpoints import first_line
from .images.handles import FrameSampling, ImageHandle, VideoHandle
from .images.reading import UnreadableImage

if TYPE_CHECKING:
    import numpy as np
    import torch
    from PIL import Image

    from .images.transforms import ImageTransform

_Request = TypeVar("_Request")
_Prepared = TypeVar("_Prepared")
UNLIMITED = sys.maxsize
"""The ``context_length`` of an encoder that cuts no text."""


@dataclass(frozen=True)
class CaptionRequest:
    """One caption to write.

    Attributes:
        id: The document's id in its task.
        numbered: Whether the id is only the document's number, since the task names no ids.
        image: The document's image: a name, a path, encoded bytes; None where it has none.
        prompt: The instruction.
        generation_kwargs: Decoding settings (``max_new_tokens``, ``temperature``, ...).
        pixels: Where the image or video itself is; None if it is not on this machine.
        sampling: Which frames of a video are shown, unless the captioner has settings of its own.
    """

    id: str
    image: Any
    prompt: str
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    numbered: bool = False
    pixels: ImageHandle | VideoHandle | None = None
    sampling: FrameSampling = field(default_factory=FrameSampling)


@dataclass(frozen=True)
class Caption:
    """A caption as a model wrote it.

    Attributes:
        text: The text, special tokens removed, otherwise as it came.
        tokens: How many tokens were generated; None if the model does not report it.
        cut: Whether it ended because the allowed number of tokens was used up; None if the model does not report it.
        remark: An unusual step in reading the image (first frame of an animation); empty for none.
    """

    text: str
    tokens: int | None = None
    cut: bool | None = None
    remark: str = ""


@dataclass(frozen=True)
class Captioned:
    """A captioner's results for some of its requests.

    An empty answer is an empty caption, which counts as one; without an answer there is no caption.

    Attributes:
        captions: Position among the requests to the caption.
        failures: Position to what went wrong with the model, or its server: the run is incomplete, and the next one
            asks again.
        unseen: Position to why the model could not be shown the document's image.
        absent: Positions of documents of which a recorded source holds no caption.
    """

    captions: Mapping[int, Caption] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    unseen: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()


class Model(ABC):
    """The base of the contracts."""

    name: str
    """How results call it."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change its output: adapter, checkpoint, settings, versions."""

    def usage(self) -> Mapping[str, float]:
        """Return the usage so far (``prompt_tokens``, ``completion_tokens``, ...), for the record."""
        return {}

    @classmethod  # noqa: B027 - most have nothing to check
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if what it would load is not on this machine, and cannot be fetched; nothing is loaded.

        Args:
            arguments: Its constructor's arguments.

        Raises:
            AdapterError: The hint says how to get it.
        """

    @classmethod
    def resources(cls, arguments: Mapping[str, Any]) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it: the repository on the hub that it names, if it names one.

        Args:
            arguments: Its constructor's arguments.
        """
        name = str(arguments.get("pretrained", ""))
        is_on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not Path(name).exists()
        return [Repository(name, arguments.get("revision"))] if is_on_hub else []

    def to_trainable(self) -> TrainableModel:
        """Return the model's module and its parts for training.

        Raises:
            AdapterError: It has none that can be trained here.
        """
        raise AdapterError(
            f"{getattr(self, 'name', type(self).__name__)} cannot be trained: "
            f"{type(self).__name__} has no trainable module.",
            "Recipes train dual encoders of the adapters open_clip, hf_clip and pac, and captioners of the adapter hf.",
        )


class Captioner(Model):
    """A model that writes captions.

    A subclass overrides ``caption``, which is enough for most, or ``stream``, where the order and the size of
    batches are its own business.
    """

    batch_size: int = 1
    """Requests that one call of ``caption`` should be given."""
    keep: bool = True
    """Whether captions are worth keeping in the store; False where it is free to get them again."""
    bad_rows: Sequence[BadRow] = ()
    """Rows of a recorded source that could not be read."""
    subset: bool = False
    """Whether a recorded source is meant to hold captions of a part of the documents alone."""

    def unclaimed(self) -> Sequence[str]:
        """Return the ids of recorded captions that no request has used."""
        return ()

    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        """Write one caption a request, in order; None where the model failed, for a run that is incomplete then.

        Raises:
            AdapterError: The model failed as a whole.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither 'caption' nor 'stream'")

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Write the captions of all requests, in the fastest order.

        Each batch is yielded as soon as it is done, so that it can be stored.

        Args:
            requests: The requests.
            batch_size: Requests at once; None leaves it to the model.

        Raises:
            AdapterError: The model failed as a whole.
        """
        size = batch_size or self.batch_size
        for texts, failures in _answered(f"{type(self).__name__}.caption", requests, self.caption, size):
            yield Captioned({at: Caption(text) for at, text in texts.items()}, failures)


def _answered(
    label: str, requests: Sequence[_Request], answer: Callable[[Sequence[_Request]], list[str | None]], size: int
) -> Iterator[tuple[dict[int, str], dict[int, str]]]:
    """Yield the answers of each batch, and the reasons why there is none, by position."""
    for start in range(0, len(requests), size):
        batch = requests[start : start + size]
        answers = answer(batch)
        if len(answers) != len(batch):
            raise AdapterError(
                f"{label} returned {len(answers)} answers for {len(batch)} requests",
                "It must return one for each request, in order, and None where the model has none.",
            )
        texts = {start + n: text for n, text in enumerate(answers) if text is not None}
        yield texts, {start + n: "was not given by the model" for n, text in enumerate(answers) if text is None}


def stream_in_pieces(
    requests: Sequence[CaptionRequest],
    size: int,
    prepare: Callable[[CaptionRequest], tuple[_Prepared, str]],
    write: Callable[[Mapping[int, _Prepared], Sequence[int]], list[Caption]],
    label: str,
) -> Iterator[Captioned]:
    """Yield the captions of requests, piece by piece.

    Args:
        requests: The requests.
        size: Number of requests in a piece.
        prepare: Returns the input of a request, and a remark on its image; raises ``UnreadableImage``.
        write: Returns the captions of some positions, in order, given the inputs by position.
        label: What messages call the library.

    Raises:
        AdapterError: No request of a piece can be written.
    """
    for start in range(0, len(requests), size):
        inputs: dict[int, _Prepared] = {}
        remarks: dict[int, str] = {}
        unseen: dict[int, str] = {}
        for at, request in enumerate(requests[start : start + size], start):
            try:
                inputs[at], remarks[at] = prepare(request)
            except UnreadableImage as error:
                unseen[at] = str(error)
        written = _written_or_apart(list(inputs), partial(write, inputs), label, remarks) if inputs else ({}, {})
        yield Captioned(*written, unseen)


def _written_or_apart(
    asked: Sequence[int], write: Callable[[Sequence[int]], list[Caption]], label: str, remarks: Mapping[int, str]
) -> tuple[dict[int, Caption], dict[int, str]]:
    """Return captions and failures by position; if a batch fails, its requests are written one by one.

    Args:
        asked: Positions of the requests.
        write: Writes the captions of some of them, in order; it may raise an error of any type.
        label: The model, for messages.
        remarks: Position to an unusual step in reading the image.

    Raises:
        AdapterError: No caption can be written.
    """
    try:
        written = write(asked)
    except Exception as error:
        # Libraries raise errors of any type, and do not say which request is at fault.
        reason = f"{type(error).__name__}: {first_line(error)}"[:300]
        if len(asked) == 1:
            return {}, {asked[0]: reason}
        apart = [_written_or_apart([at], write, label, remarks) for at in asked]
        captions = {at: caption for written, _ in apart for at, caption in written.items()}
        if not captions:
            raise AdapterError(f"{label} writes no caption: {reason}") from error
        return captions, {at: reason for _, failed in apart for at, reason in failed.items()}
    if len(written) != len(asked):
        raise AdapterError(f"{label} gave {len(written)} captions for {len(asked)} requests")
    return {at: replace(caption, remark=remarks[at]) for at, caption in zip(asked, written, strict=True)}, {}


@dataclass(frozen=True)
class Encoded:
    """An encoder's results for one batch of its inputs.

    Attributes:
        vectors: Position among the inputs to its features: ``[d]`` of an image or text, ``[t, d]`` of the
            tokens of a text or the frames of a video; float32 or float16, not normalised.
        failures: Position to the reason why that input has no features.
        remarks: Position to an unusual step in reading the input (first frame of an animation, 16 bits cut
            to 8).
    """

    vectors: Mapping[int, np.ndarray]
    failures: Mapping[int, str] = field(default_factory=dict)
    remarks: Mapping[int, str] = field(default_factory=dict)


class Encoder(Model):
    """A dual encoder: images and texts become vectors of one space.

    Inputs are encoded in batches, in the fastest order; each batch is yielded as soon as it is done, so that
    it can be stored. One unreadable input fails no other.
    """

    family: ClassVar[str] = "clip"
    """Which metrics it is made for: ``clip``, or ``pac`` for weights that PAC-S was tuned with."""
    context_length: int
    """Tokens that a text may have, start and end included; later ones are cut off. ``UNLIMITED`` where none are."""

    @abstractmethod
    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, start and end included, nothing cut off and no padding."""

    @abstractmethod
    def images(self, images: Sequence[ImageHandle]) -> Iterator[Encoded]:
        """Encode images and crops; features ``[d]``.

        Raises:
            AdapterError: The model failed as a whole.
        """

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Encode texts, each cut to the context; features ``[d]``.

        Raises:
            AdapterError: The model failed as a whole.
        """

    @abstractmethod
    def tokens(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Encode texts token by token: projected states ``[t, d]`` from the start to the end token.

        Raises:
            AdapterError: The model failed as a whole, or has no projected token states.
        """

    @abstractmethod
    def frames(self, videos: Sequence[VideoHandle]) -> Iterator[Encoded]:
        """Encode all frames of videos, regardless of their span; features ``[frames, d]``.

        Raises:
            AdapterError: The model failed as a whole.
        """


PAIRWISE = "pairwise"
"""The family of these encoders (``Encoder.family``)."""


@dataclass(frozen=True)
class ScoredPairs:
    """A pairwise encoder's results for some of its images.

    Attributes:
        scores: Position of an image to ``[k]`` float32, the scores of its texts, in order; NaN for one without.
        failures: Position of an image to the reason why it, or one of its texts, has no score.
        remarks: Position of an image to an unusual step in reading it.
    """

    scores: Mapping[int, np.ndarray]
    failures: Mapping[int, str] = field(default_factory=dict)
    remarks: Mapping[int, str] = field(default_factory=dict)


class PairwiseEncoder(Encoder):
    """An encoder that gives an image and a text one score, and neither a vector.

    A subclass's ``fingerprint`` names what decides the score: the head, the text before a caption, the length.
    """

    family: ClassVar[str] = PAIRWISE

    @abstractmethod
    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Score each image with each of its texts, all of which are cut to ``context_length`` tokens.

        An image is encoded once, however many texts it has.

        Args:
            images: ``n`` images.
            texts: The texts of each.

        Raises:
            AdapterError: The model failed as a whole.
        """

    def _refuse(self, *inputs: Any, **named: Any) -> NoReturn:
        raise AdapterError(
            f"{getattr(self, 'name', type(self).__name__)} scores pairs of image and text and encodes neither alone.",
            "Use it for tasks that match images and texts, or for the metric itm_score. Other metrics, and training, "
            "take a dual encoder ('bench ls models').",
        )

    images = texts = tokens = frames = _refuse


@dataclass(frozen=True)
class JudgeRequest:
    """One question to a judge.

    Attributes:
        prompt: The instruction, with everything that is to be judged.
        image: The image that it is about; None for questions about texts.
        max_tokens: Tokens that the answer may have.
        candidates: Tokens (``"0"``, ``"1"``, ...) whose probabilities are wanted wherever one of them is chosen.
        system: Goes before the prompt, in place of the judge's own; None keeps the judge's own.
        decoding: How the answer is found where that is not as likely as the judge can: ``num_beams``, or
            ``temperature`` with a ``seed``, by which the same request gets other answers.
    """

    prompt: str
    image: ImageHandle | None = None
    max_tokens: int = 1024
    candidates: tuple[str, ...] = ()
    system: str | None = None
    decoding: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class JudgeToken:
    """A token of an answer.

    Attributes:
        text: The token as text; one of the request's candidates only if it is that very token.
        probabilities: Candidate to its probability in this place, before the token was chosen; those that
            the model does not report, as they are too small, are left out. Empty for a token that is none of
            the candidates.
    """

    text: str
    probabilities: Mapping[str, float]


@dataclass(frozen=True)
class Judgement:
    """An answer as a judge gave it.

    Attributes:
        text: The text, special tokens removed.
        tokens: Its tokens; empty unless probabilities were requested.
        remark: An unusual step in reading the image; empty for none.
    """

    text: str
    tokens: tuple[JudgeToken, ...] = ()
    remark: str = ""


@dataclass(frozen=True)
class Judged:
    """A judge's results for some of its requests.

    Attributes:
        judgements: Position among the requests to the answer.
        failures: Position to the reason why there is none.
    """

    judgements: Mapping[int, Judgement]
    failures: Mapping[int, str] = field(default_factory=dict)


class Judge(Model):
    """A model that answers questions, by greedy decoding unless a request has other settings.

    A subclass overrides ``complete``, which is enough for questions about texts, or ``stream``, where it
    supports images or token probabilities, or chooses the order and the size of batches.
    """

    batch_size: int = 1
    """Prompts that one call of ``complete`` should be given."""

    def complete(self, prompts: Sequence[str]) -> list[str | None]:
        """Answer each prompt, in order; None where the model has no answer to give.

        Raises:
            AdapterError: The model failed as a whole.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither 'complete' nor 'stream'")

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        """Answer all requests, in the fastest order.

        Each batch is yielded as soon as it is done, so that it can be stored.

        Raises:
            AdapterError: The model failed as a whole, or cannot answer requests of this kind.
        """
        if any(req.image is not None or req.candidates or req.system or req.decoding for req in requests):
            raise AdapterError(
                f"judge {type(self).__name__} supports no images, token probabilities, system prompts or decoding "
                "settings",
                "Use one that does, such as hf_judge or openai_judge.",
            )
        prompts = [request.prompt for request in requests]
        for texts, failures in _answered(f"{type(self).__name__}.complete", prompts, self.complete, self.batch_size):
            yield Judged({at: Judgement(text) for at, text in texts.items()}, failures)


Alias = Mapping[str, Any]
"""The keys of a model's alias; a value that begins with ``./`` is a path relative to its file."""


@dataclass(frozen=True)
class TrainableModel:
    """A loaded model for training; in single precision, with every weight frozen.

    Attributes:
        module: All of its weights.
        device: Where it is.
        write: Writes the module into a new folder in the model's own format, and returns its alias.
    """

    module: torch.nn.Module
    device: torch.device
    write: Callable[[Path], Alias]


@dataclass(frozen=True)
class Writing:
    """How captions are written that a training looks at.

    Attributes:
        each: Captions of an image.
        sampled: Whether tokens are drawn from the model's distribution; else it is beam search, and greedy search
            where ``each`` is 1.
        tokens: The most that a caption may have, the end token counted.
    """

    each: int
    sampled: bool
    tokens: int


@dataclass(frozen=True)
class TrainableCaptioner(TrainableModel):
    """A captioner for training.

    Attributes:
        inputs: Makes the model's inputs of images and the instruction that all are asked with.
        grids: Returns the same inputs with what the tower sees in place of pixels, a row an image; without gradients.
            None where the model takes no such inputs.
        tower: What makes these.
        write_captions: Returns tokens for inputs of ``b`` images, ``b * each`` lists, image by image; the end token
            is there where the caption ended. Random numbers are torch's own. No gradients.
        given: Returns the arguments with which ``module`` computes the logits of given tokens, as of ``log_probs``.
        chosen: Returns ``[n, t]`` float32 the logarithms of the probabilities of tokens ``[n, t]``, of these logits.
        log_probs: Returns ``[n, t]`` float32 the logarithms of the probabilities of given tokens, with gradients, for
            inputs of ``b`` images and ``n`` lists of tokens, ``n / b`` an image; 0 after the end of a list.
        texts: Returns tokens as texts, special ones left out.
        tokens: Returns texts as tokens that answer the instruction, the end token at the end.
        positions: The most tokens that an answer may have, the end token counted: beyond them the model has no
            positions. None where the answer goes on from the instruction, or positions have no end.
        processor: The processor of transformers that makes its inputs, for the field's trainers; None without one.
    """

    inputs: Callable[[Sequence[Image.Image], str], dict[str, torch.Tensor]]
    grids: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] | None
    tower: torch.nn.Module | None
    write_captions: Callable[[Mapping[str, torch.Tensor], Writing], list[list[int]]]
    given: Callable[[Mapping[str, torch.Tensor], Sequence[Sequence[int]]], dict[str, Any]]
    chosen: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    log_probs: Callable[[Mapping[str, torch.Tensor], Sequence[Sequence[int]]], torch.Tensor]
    texts: Callable[[Sequence[Sequence[int]]], list[str]]
    tokens: Callable[[Sequence[str], str], list[list[int]]]
    positions: int | None = None
    processor: Any = None


@dataclass(frozen=True)
class TrainableEncoder(TrainableModel):
    """A dual encoder for training.

    Attributes:
        transform: Makes inputs of images.
        text_inputs: Makes inputs of texts, each cut to the context.
        encode_images: Returns features ``[b, d]`` of inputs of images, with gradients.
        encode_texts: Returns features ``[b, d]`` of inputs of texts, with gradients.
        family: As of ``Encoder.family``.
        head_width: Width of the attention heads of the vision tower; None where the model has no such number.
        quick_gelu: Whether activations are QuickGELU; None where they are others.
        tokenizer_files: The files of the model's own tokenizer; none where it is OpenAI's.
    """

    transform: ImageTransform
    text_inputs: Callable[[Sequence[str]], dict[str, torch.Tensor]]
    encode_images: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    encode_texts: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    family: str = "clip"
    head_width: int | None = None
    quick_gelu: bool | None = None
    tokenizer_files: Sequence[Path] = ()
