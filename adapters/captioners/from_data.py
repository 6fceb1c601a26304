"""Captions that come with a task's data, served as if a model wrote them."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import AdapterError
from ..contracts import Caption, Captioned, Captioner, CaptionRequest


class DataCaptions(Captioner):
    """Serves the text of a task's ``doc_to_text``, for tasks where that is a caption of the data and no instruction.

    Args:
        name: How the captions are called in results.
    """

    keep = False

    def __init__(self, name: str = "data_captions") -> None:
        self.name = name

    def fingerprint(self) -> dict[str, Any]:
        """Return the adapter: the captions are the data's."""
        return {"adapter": "data_captions"}

    def stream(self, requests: Sequence[CaptionRequest], batch_size: int | None = None) -> Iterator[Captioned]:
        """Yield the text of each request.

        Raises:
            AdapterError: All requests have one text, which is an instruction.
        """
        if len(requests) > 1 and len({request.prompt for request in requests}) == 1:
            raise AdapterError(
                f"data_captions: all documents have the text '{requests[0].prompt}', which is no caption",
                "Use it with tasks whose doc_to_text is a caption, such as coco_humans.",
            )
        yield Captioned({at: Caption(request.prompt) for at, request in enumerate(requests)})
