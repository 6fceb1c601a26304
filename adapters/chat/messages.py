"""What servers of the OpenAI API and vLLM are sent: chat messages with images, and settings of decoding."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import AdapterError
from ..contracts import CaptionRequest
from ..images.handles import FrameSampling, ImageHandle, VideoHandle, as_png
from ..images.reading import UnreadableImage, read_bytes, read_image
from ..images.video import sample_frames

_MEDIA_TYPES = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
"""Formats that every server reads, by Pillow's name; a crop has none."""


def conversation(prompt: str, system: str | None, image: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return a conversation as chat templates of transformers take it.

    Args:
        prompt: The instruction.
        system: What goes before it.
        image: The part that is, or stands for, the image or video, which goes before the instruction.
    """
    content = [*([image] if image else []), {"type": "text", "text": prompt}]
    before = [] if system is None else [{"role": "system", "content": [{"type": "text", "text": system}]}]
    return [*before, {"role": "user", "content": content}]


def chat_messages(prompt: str, images: Sequence[ImageHandle], system: str | None) -> tuple[list[dict[str, Any]], str]:
    """Return the messages of one request: the system prompt, then images and the instruction; and a remark.

    The remark is on unusual steps in reading images; empty for none.

    Raises:
        UnreadableImage: An image is missing, or no image.
    """
    content: Any = prompt
    urls = [data_url(image) for image in images]
    if urls:
        # Images first, as in the papers' own templates.
        shown = [{"type": "image_url", "image_url": {"url": url}} for url, _ in urls]
        content = [*shown, {"type": "text", "text": prompt}]
    before = [{"role": "system", "content": system}] if system else []
    remark = "; ".join(dict.fromkeys(remark for _, remark in urls if remark))
    return [*before, {"role": "user", "content": content}], remark


def data_url(image: ImageHandle) -> tuple[str, str]:
    """Return an image as a data URL, and a remark as of :func:`chat_messages`.

    A whole JPEG, PNG or WebP is sent unchanged, and the server decides how to read it; any other is sent as PNG.

    Raises:
        UnreadableImage: It is missing, damaged, truncated, or no image: servers may read what is left of it.
    """
    encoded = read_bytes(image)
    read = read_image(image, encoded)
    kind = _MEDIA_TYPES.get(read.image.format or "")
    remark = ""
    if kind is None:
        pixels, remark = read.image, read.remark
        # PNG has none of the modes in which TIFF or JPEG store print colours.
        pixels = pixels if pixels.mode in ("L", "LA", "RGB", "RGBA") else pixels.convert("RGBA")
        buffer = io.BytesIO()
        pixels.save(buffer, format="PNG")
        kind, encoded = "image/png", buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(encoded).decode('ascii')}", remark


def image_of(request: CaptionRequest) -> ImageHandle | None:
    """Return the image that a request asks about; None if its document has none.

    Raises:
        UnreadableImage: It is not on this machine, or is a video.
    """
    if isinstance(request.pixels, ImageHandle):
        return request.pixels
    if request.pixels is not None:
        raise UnreadableImage(
            f"{request.pixels.name}: is a video, which this model does not take; Qwen-VL, LLaVA-OneVision, InternVL "
            "and SmolVLM2 do (adapter hf), and servers, which are sent frames (adapter openai)"
        )
    if request.image is not None:
        raise UnreadableImage("the image is not on this machine")
    return None


def shown_images(request: CaptionRequest, own: FrameSampling | None) -> list[ImageHandle]:
    """Return what a request asks about as images: its image, or frames of its video; none if its document has none.

    Args:
        request: The request.
        own: Which frames the captioner shows; None leaves it to the request.

    Raises:
        UnreadableImage: It is not on this machine, or a video that cannot be read.
        AdapterError: The package that decodes videos is not installed.
    """
    if isinstance(request.pixels, VideoHandle):
        return [ImageHandle(as_png(frame)) for frame in sample_frames(request.pixels, own or request.sampling).frames]
    image = image_of(request)
    return [] if image is None else [image]


_LIMITS = ("max_new_tokens", "max_gen_toks", "max_tokens")
_AS_THEY_ARE = (
    *("frequency_penalty", "min_p", "presence_penalty", "repetition_penalty"),
    *("seed", "temperature", "top_k", "top_p"),
)
_KNOWN = (*_LIMITS, *_AS_THEY_ARE, "do_sample", "num_beams", "until")
_DRAWING: dict[str, tuple[float, ...]] = {"temperature": (0,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,)}
"""Settings by which tokens are drawn, each with the values that have no effect."""


def sampling_settings(generation_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return decoding settings as the OpenAI API and vLLM's ``SamplingParams`` name them.

    ``max_new_tokens`` (or ``max_gen_toks``) becomes ``max_tokens``, ``until`` becomes ``stop``. Without
    ``do_sample: true`` the temperature is 0, unless one is given. A setting that is None is left out. A sampling
    setting is refused without sampling, unless its value has no effect.

    Args:
        generation_kwargs: Settings as tasks write them, in the names of transformers and lm-eval.

    Raises:
        AdapterError: A setting has no counterpart, such as beams, or has no effect with another.
    """
    wanted = {name: value for name, value in generation_kwargs.items() if value is not None}
    if unknown := sorted(wanted.keys() - set(_KNOWN)):
        raise AdapterError(
            f"decoding setting '{unknown[0]}' is not supported by this adapter",
            f"It supports {', '.join(sorted(_KNOWN))}. --gen_kwargs {unknown[0]}=null removes the task's setting.",
        )
    if wanted.get("num_beams", 1) != 1:
        raise AdapterError(
            f"num_beams={wanted['num_beams']}: this adapter has no beam search",
            "Set --gen_kwargs num_beams=1, or use an adapter with beam search.",
        )
    settings = {name: wanted[name] for name in _AS_THEY_ARE if name in wanted}
    if not wanted.get("do_sample"):
        settings.setdefault("temperature", 0.0)
    greedy = wanted.get("do_sample") is False or settings.get("temperature") == 0
    for name, neutral in _DRAWING.items():
        if greedy and name in wanted and wanted[name] not in neutral:
            beside = "do_sample=False" if wanted.get("do_sample") is False else "temperature=0"
            raise AdapterError(
                f"generation_kwargs: {name}={wanted[name]!r} has no effect with {beside}",
                f"Set do_sample=true and a temperature to draw tokens; --gen_kwargs {name}=null removes it.",
            )
    for limit in _LIMITS:
        if limit in wanted:
            settings["max_tokens"] = wanted[limit]
            break
    until = wanted.get("until") or []
    if stop := [text for text in ([until] if isinstance(until, str) else until) if text]:
        settings["stop"] = stop
    return settings
