"""Chat messages with images, as the OpenAI API defines them and vLLM takes them offline, too."""

from __future__ import annotations

import base64
import io
from typing import Any

from ..contracts import CaptionRequest
from ..pixels.handles import ImageHandle
from ..pixels.reading import UnreadableImage, read_bytes, read_image


def chat_messages(prompt: str, image: ImageHandle | None, system: str | None) -> tuple[list[dict[str, Any]], str]:
    """Return the messages of one request: the system prompt, then the image and the instruction; and a remark.

    The remark is what was done to read the image that is not as usual; empty for nothing.

    Raises:
        UnreadableImage: The image is missing, or no image.
    """
    content: Any = prompt
    remark = ""
    if image is not None:
        url, remark = data_url(image)
        # The image first, as in the papers' own templates.
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
    before = [{"role": "system", "content": system}] if system else []
    return [*before, {"role": "user", "content": content}], remark


def data_url(image: ImageHandle) -> tuple[str, str]:
    """Return an image as a data URL, and a remark as of :func:`chat_messages`.

    A whole JPEG, PNG or WebP goes as it is, and how it is read is the server's to say; any other goes as PNG.

    Raises:
        UnreadableImage: It is missing, damaged, truncated, or no image: servers may read what is left of it.
    """
    encoded = read_bytes(image)
    read = read_image(image, encoded)
    kind = _kind(encoded)
    remark = ""
    if kind is None or image.box is not None:
        pixels, remark = read.image, read.remark
        # PNG has none of the modes in which TIFF or JPEG store print colours.
        pixels = pixels if pixels.mode in ("L", "LA", "RGB", "RGBA") else pixels.convert("RGBA")
        buffer = io.BytesIO()
        pixels.save(buffer, format="PNG")
        kind, encoded = "image/png", buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(encoded).decode('ascii')}", remark


def _kind(encoded: bytes) -> str | None:
    """Return the media type of the formats that every server reads."""
    if encoded.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if encoded.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    return "image/webp" if encoded[:4] == b"RIFF" and encoded[8:12] == b"WEBP" else None


def image_of(request: CaptionRequest) -> ImageHandle | None:
    """Return the image that a request asks about; None if its document has none.

    Raises:
        UnreadableImage: It is not on this machine, or is a video.
    """
    if isinstance(request.pixels, ImageHandle):
        return request.pixels
    if request.pixels is not None:
        raise UnreadableImage(f"{request.pixels.name}: is a video; this adapter asks about images")
    if request.image is not None:
        raise UnreadableImage("the image is not on this machine")
    return None
