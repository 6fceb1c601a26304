"""Pairwise encoders of the transformers library: the match heads of BLIP and FLAVA.

Pairs of a batch have one length; each image is encoded once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ...errors import AdapterError, require_counts
from ..contracts import PairwiseEncoder, ScoredPairs
from ..devices import TOO_LARGE, require_known, torch_dtype
from ..hf_checkpoint import HfModel, HfSource
from ..images.handles import ImageHandle
from ..images.pipeline import ImageBatch, image_batches
from ..images.transforms import ExactTransform
from .clip_tokens import cut_to
from .torch_encoder import TorchBatches

if TYPE_CHECKING:
    import torch

Head = Literal["itm", "itc", "itm+itc"]
FirstToken = Literal["enc", "cls"]
Padding = Literal["seen", "none"]
_ENC = "[ENC]"
_PADDED = 77
"""Tokens up to which ARO pads texts."""


@dataclass(eq=False, repr=False)
class HfPairs(HfModel, TorchBatches, PairwiseEncoder):
    """A pairwise encoder of transformers.

    Args:
        pretrained: A hub id, or a folder that ``save_pretrained`` wrote: model, tokenizer, image processor.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``. Scores are always float32.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved when the device runs out of memory.
        workers: Threads that read images; one a core by default.
        max_tokens: Tokens of a text, start and end included, after which it is cut; None for as many as there are
            places for.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or is of another kind.
    """

    pretrained: str
    revision: str | None = None
    _: KW_ONLY
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_counts(AdapterError, max_tokens=self.max_tokens)
        self._find(self.pretrained, self.revision)
        places = int(self._source.config.text_config.max_position_embeddings)
        if self.max_tokens is not None and not 2 <= self.max_tokens <= places:
            raise AdapterError(
                f"max_tokens={self.max_tokens}: {self.name} takes 2 to {places}.", "Start and end token count."
            )
        self.context_length = self.max_tokens or places
        self._output_dtype = torch_dtype("fp32")
        self._model = self._load(self._source, torch_dtype(self.dtype)).to(self._device)
        self._tokenizer = self._source.part("AutoTokenizer", "tokenizer")
        processor = self._source.part("AutoImageProcessor", "image processor")
        self._transform = ExactTransform.of_processor(processor, self._device)

    @abstractmethod
    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        """Return the model, every weight that scores need from the checkpoint."""

    @abstractmethod
    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return ``[b, n, d]`` the tokens of images."""

    @abstractmethod
    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return ``[p]`` float32 scores of images' tokens ``[p, n, d]`` and texts' ids ``[p, t]``, unpadded."""

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        used = {"image": self._transform.fingerprint(), "tokenizer": type(self._tokenizer).__name__}
        return self._identity(self._model, dtype=self.dtype, max_tokens=self.context_length, **used)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; see ``Encoder.token_ids``."""
        return self._tokenizer(list(texts), verbose=False)["input_ids"] if texts else []

    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Score each image with its texts; see ``PairwiseEncoder.pairs``."""
        size = self._batch["image"].now
        for batch in image_batches(images, self._transform, size, self._workers):
            failures = dict(batch.failures)
            tokens = self._encoded(batch, failures)
            scores = self._scored({at: texts[at] for at in tokens}, tokens, failures)
            yield ScoredPairs(scores, failures, batch.remarks)

    def _encoded(self, batch: ImageBatch, failures: dict[int, str]) -> dict[int, torch.Tensor]:
        """Return the tokens ``[n, d]`` of each image, by position, on the device."""
        import torch

        positions, inputs = self._filled("image", batch.positions, batch.inputs)

        def run(rows: Sequence[int]) -> torch.Tensor:
            with torch.inference_mode():
                pixels = inputs["pixel_values"][rows[0] : rows[-1] + 1]
                return self._image_tokens(pixels.to(self._device, torch_dtype(self.dtype)))

        by_position: dict[int, torch.Tensor] = {}
        for rows, results in self._batch["image"].batches(range(len(positions)), run):
            if results is None:
                failures[positions[rows[0]]] = TOO_LARGE
            else:
                by_position |= {positions[row]: tensor for row, tensor in zip(rows, results, strict=True)}
        return by_position

    def _scored(
        self, texts: Mapping[int, Sequence[str]], tokens: Mapping[int, torch.Tensor], failures: dict[int, str]
    ) -> dict[int, np.ndarray]:
        """Return the scores of each image's texts, by position; pairs that do not fit alone become failures."""
        import torch

        pairs = [(at, number) for at in texts for number in range(len(texts[at]))]
        all_ids = self.token_ids([texts[at][number] for at, number in pairs])
        ids = [cut_to(self.context_length, tokens) for tokens in all_ids]
        scores = {at: np.full(len(texts[at]), np.nan, dtype=np.float32) for at in texts}

        def forward(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            of_pairs = [tokens[at] for at in inputs["image"].tolist()]
            return self._pair_scores(torch.stack(of_pairs), inputs["ids"])

        for alike in self._of_one_length(ids):
            inputs = {
                "image": torch.tensor([pairs[pair][0] for pair in alike]),
                "ids": torch.tensor([ids[pair] for pair in alike]),
            }
            lost: dict[int, str] = {}
            for batch in self._run("text", alike, inputs, forward, lost):
                for pair, score in zip(batch.positions, batch.arrays().tolist(), strict=True):
                    at, number = pairs[pair]
                    scores[at][number] = score
            failures |= {pairs[pair][0]: reason for pair, reason in lost.items()}
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class BlipItm(HfPairs):
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
        batch_size: Images to start with; halved when the device runs out of memory.
        workers: Threads that read images; one a core by default.
        head: ``itm``, ``itc`` or ``itm+itc``.
        first_token: What stands before a text that the match head sees: ``enc`` or ``cls``.
        max_tokens: Word pieces of a text, start and end included, after which it is cut; ARO's 35 by default.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, is no BLIP with a match head, or an argument has no meaning.
    """

    kinds = ("blip",)
    adapter = "blip_itm"

    head: Head = "itm+itc"
    first_token: FirstToken = "enc"  # noqa: S105 - no password
    max_tokens: int | None = 35

    def __post_init__(self) -> None:
        require_known(get_args(Head), head=self.head)
        require_known(get_args(FirstToken), first_token=self.first_token)
        super().__post_init__()
        asks = self.head != "itc" and self.first_token != "cls"  # noqa: S105 - no password
        self._first = self._enc_id() if asks else None

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        shows = {} if self.head == "itc" else {"first_token": self.first_token}
        return {**super().fingerprint(), "head": self.head, **shows}

    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        return source.load_whole("BlipForImageTextRetrieval", dtype)

    def _enc_id(self) -> int:
        """Return the id of [ENC]: the tokenizer's, or the one behind [DEC], which converted checkpoints leave out."""
        behind = self._source.config.text_config.bos_token_id + 1
        return int(self._tokenizer.get_vocab().get(_ENC, behind))

    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        return self._model.vision_model(pixel_values=pixels).last_hidden_state

    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if self.head == "itc":
            return self._cosines(tokens, ids)
        seen = ids
        if self._first is not None:
            seen = ids.clone()
            seen[:, 0] = self._first
        states = self._model.text_encoder(input_ids=seen, encoder_hidden_states=tokens).last_hidden_state
        logits = _head_logits(self._model.itm_head, states[:, 0])
        if self.head == "itm":
            return logits.softmax(dim=-1)[:, 1]
        return logits[:, 1] + self._cosines(tokens, ids)

    def _cosines(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import cosine_similarity

        states = self._model.text_encoder(input_ids=ids).last_hidden_state
        images, texts = self._model.vision_proj(tokens[:, 0]), self._model.text_proj(states[:, 0])
        return cosine_similarity(images.float(), texts.float())


@dataclass(kw_only=True, eq=False, repr=False)
class Flava(HfPairs):
    """A ``FlavaForPreTraining`` of transformers; its score is the match head's probability (0-1), ``head: itm``.

    Nothing is masked, and the codebook, which only losses need, is not loaded. FLAVA's own code gives its multimodal
    encoder the padding of texts to attend to; so did transformers until 4.38, by which ARO and later papers scored.

    Source: Singh et al. 2022, section 3; mertyg/vision-language-models-are-bows ``flava.py``.

    Args:
        pretrained: A hub id (``facebook/flava-full``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved when the device runs out of memory.
        workers: Threads that read images; one a core by default.
        max_tokens: Word pieces of a text, start and end included, after which it is cut; None, as in ARO, for all that
            there are places for.
        padding: ``seen``: the multimodal encoder attends to padding behind texts of fewer than 77 tokens, the text
            encoder does not; ``none``: neither does, as in transformers since 4.39.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, is no FLAVA with a match head, or ``padding`` is not known.
    """

    kinds = ("flava",)
    adapter = "flava"

    padding: Padding = "seen"

    def __post_init__(self) -> None:
        require_known(get_args(Padding), padding=self.padding)
        super().__post_init__()

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return {**super().fingerprint(), "head": "itm", "padding": self.padding}

    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        source.config.init_codebook = False
        return source.load_whole("FlavaForPreTraining", dtype, ("flava.", "itm_head."))

    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        flava = self._model.flava
        # What both towers hand on has not gone through their last norm.
        states = flava.image_model(pixel_values=pixels, output_hidden_states=True).hidden_states[-1]
        return flava.image_to_mm_projection(states)

    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        import torch

        flava, mask = self._model.flava, None
        places = min(_PADDED, self._source.config.text_config.max_position_embeddings)
        if self.padding == "seen" and (lacking := places - ids.shape[1]) > 0:
            mask = torch.nn.functional.pad(torch.ones_like(ids), (0, lacking))
            ids = torch.nn.functional.pad(ids, (0, lacking), value=self._tokenizer.pad_token_id)
        seen = flava.text_model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        states = seen.hidden_states[-1]
        both = torch.cat([tokens, flava.text_to_mm_projection(states)], dim=1)
        head = self._model.itm_head
        pooled = head.pooler(flava.multimodal_model(both)[0])
        return _head_logits(head.seq_relationship, pooled).softmax(dim=-1)[:, 1]


def _head_logits(head: Any, states: torch.Tensor) -> torch.Tensor:
    """Return ``[p, k]`` float32 the outputs of a linear head for states ``[p, d]``, row by row.

    A product of matrices with so few columns has other last bits for few rows than for many.

    Args:
        head: The ``Linear`` layer.
        states: Its inputs.
    """
    weight, bias = head.weight.float(), head.bias.float()
    return (states.float()[:, None, :] * weight).sum(dim=-1) + bias
