"""FLAVA's image-text matching: the match head over the multimodal encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from ...errors import AdapterError
from ..hf_checkpoint import HfSource
from .torch_batches import Precision
from .torch_pairs import TorchPairs, head_logits, load_fitting

if TYPE_CHECKING:
    import torch

Padding = Literal["seen", "none"]
_PADDED = 77
"""Tokens up to which ARO pads texts."""


class Flava(TorchPairs):
    """A ``FlavaForPreTraining`` of transformers; its score is the match head's probability (0-1), ``head: itm``.

    Nothing is masked, and the codebook, which only losses need, is not loaded. FLAVA's own code gives its multimodal
    encoder the padding of texts to attend to; so did transformers until 4.38, by which ARO and later papers scored.

    Source: Singh et al. 2022, section 3; mertyg/vision-language-models-are-bows ``flava.py``.

    Args:
        pretrained: A hub id (``facebook/flava-full``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved whenever the device's memory does not do.
        workers: Threads that read images; one a core by default.
        max_tokens: Word pieces of a text, start and end included, after which it is cut; None, as in ARO, for all that
            there are places for.
        padding: ``seen``: the multimodal encoder attends to padding behind texts of fewer than 77 tokens, the text
            encoder does not; ``none``: nobody does, as in transformers since 4.39.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, is no FLAVA with a match head, or ``padding`` is not known.
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
        padding: Padding = "seen",
        name: str | None = None,
    ) -> None:
        if padding not in get_args(Padding):
            raise AdapterError(f"padding={padding} is not known.", f"Known are {', '.join(get_args(Padding))}.")
        super().__init__(pretrained, revision, dtype, device, batch_size, workers, max_tokens, name)
        self._padding = padding

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return {**super().fingerprint(), "head": "itm", "padding": self._padding}

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

        flava, mask = self._model.flava, None
        places = min(_PADDED, self._source.config.text_config.max_position_embeddings)
        if self._padding == "seen" and (lacking := places - ids.shape[1]) > 0:
            mask = torch.nn.functional.pad(torch.ones_like(ids), (0, lacking))
            ids = torch.nn.functional.pad(ids, (0, lacking), value=self._tokenizer.pad_token_id)
        seen = flava.text_model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        states = seen.hidden_states[-1]
        both = torch.cat([tokens, flava.text_to_mm_projection(states)], dim=1)
        head = self._model.itm_head
        pooled = head.pooler(flava.multimodal_model(both)[0])
        return head_logits(head.seq_relationship, pooled).softmax(dim=-1)[:, 1]
