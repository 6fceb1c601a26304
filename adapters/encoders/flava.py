"""FLAVA's image-text matching: the match head over the multimodal encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hf_checkpoint import HfSource
from .torch_batches import Precision
from .torch_pairs import TorchPairs, head_logits, load_fitting

if TYPE_CHECKING:
    import torch


class Flava(TorchPairs):
    """A ``FlavaForPreTraining`` of transformers; its score is the match head's probability (0-1), ``head: itm``.

    Nothing is masked, and the codebook, which only losses need, is not loaded.

    Source: Singh et al. 2022, section 3; mertyg/vision-language-models-are-bows ``flava.py``.

    Args:
        pretrained: A hub id (``facebook/flava-full``), or a folder; see ``TorchPairs``.
        revision: See ``TorchPairs``.
        dtype: The same.
        device: The same.
        batch_size: The same.
        workers: The same.
        max_tokens: Word pieces of a text, start and end included, after which it is cut; None, as in ARO, for all that
            there are places for.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or is no FLAVA with a match head.
    """

    kind = "flava"
    adapter = "flava"

    def __init__(
        self,
        pretrained: str,
        revision: str | None = None,
        dtype: Precision = "fp32",
        device: str | None = None,
        batch_size: int | None = None,
        workers: int | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(pretrained, revision, dtype, device, batch_size, workers, max_tokens, name)

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return {**super().fingerprint(), "head": "itm"}

    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        from transformers import FlavaForPreTraining

        source.config.init_codebook = False
        return load_fitting(source, FlavaForPreTraining, dtype, ("flava.", "itm_head."))

    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        flava = self._model.flava
        # What both towers hand on has not gone through their last norm.
        states = flava.image_model(pixel_values=pixels, output_hidden_states=True).hidden_states[-1]
        return flava.image_to_mm_projection(states)

    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        import torch

        flava = self._model.flava
        states = flava.text_model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
        both = torch.cat([tokens, flava.text_to_mm_projection(states)], dim=1)
        head = self._model.itm_head
        pooled = head.pooler(flava.multimodal_model(both)[0])
        return head_logits(head.seq_relationship, pooled).softmax(dim=-1)[:, 1]
