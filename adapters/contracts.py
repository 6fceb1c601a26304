"""The three contracts behind which every model stands: captioner, dual encoder, judge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..rows import BadRow

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CaptionRequest:
    """One caption to write.

    Attributes:
        id: The document's id in its task.
        numbered: Whether the id is only the document's number, since the task names no ids.
        image: Image handle: a path, a URL, encoded bytes, or a name; None where a task has no image.
        prompt: The instruction.
        generation_kwargs: Decoding settings (``max_new_tokens``, ``temperature``, ...).
    """

    id: str
    image: Any
    prompt: str
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    numbered: bool = False


class Captioner(ABC):
    """A model that writes captions."""

    batch_size: int = 1
    """Requests that one call of ``caption`` should be given."""
    keep: bool = True
    """Whether captions are worth keeping in the store; False where they cost nothing to have again."""
    bad_rows: Sequence[BadRow] = ()
    """Rows of a recorded source that could not be read."""

    def unclaimed(self) -> Sequence[str]:
        """Return the ids of recorded captions that no request has asked for."""
        return ()

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a caption: adapter, checkpoint, settings, versions."""

    @abstractmethod
    def caption(self, requests: Sequence[CaptionRequest]) -> list[str | None]:
        """Write one caption a request, in order; None where the model has none to give.

        Raises:
            AdapterError: The model failed as a whole.
        """


class Encoder(ABC):
    """A dual encoder: images and texts become vectors of one space."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a vector: checkpoint, transform, dtype, versions."""

    @abstractmethod
    def images(self, images: Sequence[Any]) -> torch.Tensor:
        """Return ``[n, d]`` features of image handles, not normalised."""

    @abstractmethod
    def texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return ``[n, d]`` features of texts, not normalised."""

    @abstractmethod
    def tokens(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ``[n, t, d]`` projected token states and the ``[n, t]`` mask of real tokens."""


class Judge(ABC):
    """A text model that is asked for judgements."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change an answer: model, settings, versions."""

    @abstractmethod
    def complete(self, prompts: Sequence[str]) -> list[str]:
        """Answer each prompt, in order."""
