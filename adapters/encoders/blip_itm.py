"""BLIP's image-text matching: a match head over image and text, the cosine of both, or their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from ...errors import AdapterError
from ..hf_checkpoint import HfSource
from .torch_batches import Precision
from .torch_pairs import TorchPairs, head_logits, load_fitting

if TYPE_CHECKING:
    import torch

Head = Literal["itm", "itc", "itm+itc"]
FirstToken = Literal["enc", "cls"]
_ENC = "[ENC]"


class BlipItm(TorchPairs):
    """A ``BlipForImageTextRetrieval`` of transformers.

    ``itm`` is the match head's probability that the text is the image's (0-1), ``itc`` the cosine of their
    projections (-1 to 1), ``itm+itc`` the match head's logit plus that cosine, by which BLIP retrieves, and ARO has it
    scored. BLIP was trained with [ENC] before the texts that its match head sees, and [CLS] before those of the cosine;
    transformers has [CLS] for both.

    Source: Li et al. 2022, sections 3.1 and 4.1; mertyg/vision-language-models-are-bows ``blip_models.py``.

    Args:
        pretrained: A hub id (``Salesforce/blip-itm-base-coco``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved whenever the device's memory does not do.
        workers: Threads that read images; one a core by default.
        head: ``itm``, ``itc`` or ``itm+itc``.
        first_token: What stands before a text that the match head sees: ``enc`` or ``cls``.
        max_tokens: Word pieces of a text, start and end included, after which it is cut; ARO's 35 by default.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, is no BLIP with a match head, or an argument has no meaning.
    """

    kind = "blip"
    adapter = "blip_itm"

    def __init__(
        self,
        pretrained: str,
        revision: str | None = None,
        dtype: Precision = "fp32",
        device: str | None = None,
        batch_size: int | None = None,
        workers: int | None = None,
        head: Head = "itm+itc",
        first_token: FirstToken = "enc",  # noqa: S107 - no password
        max_tokens: int | None = 35,
        name: str | None = None,
    ) -> None:
        for key, value, known in (("head", head, get_args(Head)), ("first_token", first_token, get_args(FirstToken))):
            if value not in known:
                raise AdapterError(f"{key}={value} is not known.", f"Known are {', '.join(known)}.")
        super().__init__(pretrained, revision, dtype, device, batch_size, workers, max_tokens, name)
        self._head = head
        self._first_token = first_token
        asks = head != "itc" and first_token != "cls"  # noqa: S105 - no password
        self._first = self._enc_id() if asks else None

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        shows = {} if self._head == "itc" else {"first_token": self._first_token}
        return {**super().fingerprint(), "head": self._head, **shows}

    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        from transformers import BlipForImageTextRetrieval

        return load_fitting(source, BlipForImageTextRetrieval, dtype, ("",))

    def _enc_id(self) -> int:
        """Return the id of [ENC]: the tokenizer's, or the one behind [DEC], which converted checkpoints leave out.

        Raises:
            AdapterError: The vocabulary has no place for it.
        """
        text = self._source.config.text_config
        found = int(self._tokenizer.get_vocab().get(_ENC, text.bos_token_id + 1))
        if found >= text.vocab_size:
            raise AdapterError(
                f"{self.name}: has no token {_ENC}: id {found} of a vocabulary of {text.vocab_size}.",
                "first_token=cls does without.",
            )
        return found

    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        return self._model.vision_model(pixel_values=pixels).last_hidden_state

    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if self._head == "itc":
            return self._cosines(tokens, ids)
        seen = ids
        if self._first is not None:
            seen = ids.clone()
            seen[:, 0] = self._first
        states = self._model.text_encoder(input_ids=seen, encoder_hidden_states=tokens).last_hidden_state
        logits = head_logits(self._model.itm_head, states[:, 0])
        if self._head == "itm":
            return logits.softmax(dim=-1)[:, 1]
        return logits[:, 1] + self._cosines(tokens, ids)

    def _cosines(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import cosine_similarity

        states = self._model.text_encoder(input_ids=ids).last_hidden_state
        images, texts = self._model.vision_proj(tokens[:, 0]), self._model.text_proj(states[:, 0])
        return cosine_similarity(images.float(), texts.float())
