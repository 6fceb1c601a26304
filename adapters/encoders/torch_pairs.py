"""What pairwise encoders of the transformers library share: pairs of one length, beside images encoded once."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import AdapterError
from ...hub import unreachable
from ..batch_size import TOO_LARGE, require_counts
from ..devices import torch_dtype
from ..hf_checkpoint import HfSource, find_source, require_fit
from ..pairwise import PairwiseEncoder, ScoredPairs
from ..pixels.handles import ImageHandle
from ..pixels.pipeline import ImageBatch, image_batches
from ..pixels.transforms import ImageTransform
from .hf_clip_source import load_image_processor, load_tokenizer
from .processed import processed
from .torch_batches import Precision, TorchBatches

if TYPE_CHECKING:
    import torch


class TorchPairs(TorchBatches, PairwiseEncoder):
    """A pairwise encoder of transformers.

    Args:
        pretrained: A hub id, or a folder that ``save_pretrained`` wrote: model, tokenizer, image processor.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``. Scores are float32 whatever it is.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        batch_size: Images to start with; halved whenever the device's memory does not do.
        workers: Threads that read images; one a core by default.
        max_tokens: Tokens of a text, start and end included, after which it is cut; None for as many as there are
            places for.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or is of another kind.
    """

    kind: ClassVar[str]
    """What ``config.json`` calls such models (``model_type``)."""
    adapter: ClassVar[str]

    def __init__(
        self,
        pretrained: str,
        revision: str | None,
        dtype: Precision,
        device: str | None,
        batch_size: int | None,
        workers: int | None,
        max_tokens: int | None,
        name: str | None,
    ) -> None:
        super().__init__(device, dtype, batch_size, workers, "threads")
        require_counts(max_tokens=max_tokens)
        self.name = name or str(pretrained)
        self._source = find_source(str(pretrained), revision)
        if self._source.config.model_type != self.kind:
            raise AdapterError(
                f"{pretrained}: is a model of the kind '{self._source.config.model_type}'; adapter '{self.adapter}' "
                f"takes '{self.kind}'.",
                "'bench ls models' lists what there is.",
            )
        places = int(self._source.config.text_config.max_position_embeddings)
        if max_tokens is not None and not 2 <= max_tokens <= places:
            raise AdapterError(f"max_tokens={max_tokens}: {self.name} takes 2 to {places}, start and end included.")
        self.context_length = max_tokens or places
        self._model = self._load(self._source, torch_dtype(dtype)).to(self._device)
        self._tokenizer = load_tokenizer(self._source)
        self._image_transform = processed(load_image_processor(self._source), self._device)

    @abstractmethod
    def _load(self, source: HfSource, dtype: torch.dtype) -> Any:
        """Return the model, every weight that scores need from the checkpoint."""

    @abstractmethod
    def _image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return ``[b, n, d]`` the tokens of images."""

    @abstractmethod
    def _pair_scores(self, tokens: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return ``[p]`` float32 scores of images' tokens ``[p, n, d]`` and texts' ids ``[p, t]``, unpadded."""

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and the hub does not answer; see ``Model.check``."""
        if unreachable():
            find_source(str(arguments["pretrained"]), arguments.get("revision"))

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        import torch
        import transformers

        return {
            "adapter": self.adapter,
            "checkpoint": self._source.checkpoint(),
            "model": type(self._model).__name__,
            "dtype": self._dtype,
            "max_tokens": self.context_length,
            "image": self._transform.fingerprint(),
            "tokenizer": type(self._tokenizer).__name__,
            "transformers": transformers.__version__,
            "torch": ".".join(torch.__version__.split(".")[:2]),
        }

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

    @property
    def _transform(self) -> ImageTransform:
        return self._image_transform

    @property
    def _given_out(self) -> torch.dtype:
        import torch

        return torch.float32

    def _encoded(self, batch: ImageBatch, failures: dict[int, str]) -> dict[int, torch.Tensor]:
        """Return the tokens ``[n, d]`` of each image, by position, on the device."""
        import torch

        positions, inputs = self._filled("image", batch.positions, batch.inputs)

        def run(rows: Sequence[int]) -> torch.Tensor:
            with torch.inference_mode():
                pixels = inputs["pixel_values"][rows[0] : rows[-1] + 1]
                return self._image_tokens(pixels.to(self._device, torch_dtype(self._dtype)))

        found: dict[int, torch.Tensor] = {}
        for rows, made in self._batch["image"].batches(range(len(positions)), run):
            if made is None:
                failures[positions[rows[0]]] = TOO_LARGE
            else:
                found |= {positions[row]: one for row, one in zip(rows, made, strict=True)}
        return found

    def _scored(
        self, texts: Mapping[int, Sequence[str]], tokens: Mapping[int, torch.Tensor], failures: dict[int, str]
    ) -> dict[int, np.ndarray]:
        """Return the scores of each image's texts, by position; pairs that do not fit alone become failures."""
        import torch

        pairs = [(at, number) for at in texts for number in range(len(texts[at]))]
        ids = [self._cut(one) for one in self.token_ids([texts[at][number] for at, number in pairs])]
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
            for made in self._run("text", alike, inputs, forward, lost):
                for pair, score in zip(made.positions, made.arrays().tolist(), strict=True):
                    at, number = pairs[pair]
                    scores[at][number] = score
            failures |= {pairs[pair][0]: reason for pair, reason in lost.items()}
        return scores

    def _of_one_length(self, ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield the numbers of the texts of each batch; padding would move scores in their last bits."""

        def length(number: int) -> int:
            return len(ids[number])

        size = self._batch["text"].now
        for _, alike in itertools.groupby(sorted(range(len(ids)), key=length, reverse=True), key=length):
            while numbers := list(itertools.islice(alike, size)):
                yield numbers

    def _cut(self, ids: list[int]) -> list[int]:
        """Return the ids of a text as the model sees them: the end token stays."""
        return ids if len(ids) <= self.context_length else [*ids[: self.context_length - 1], ids[-1]]


def head_logits(head: Any, states: torch.Tensor) -> torch.Tensor:
    """Return ``[p, k]`` float32 what a linear head makes of states ``[p, d]``, each row by itself.

    A product of matrices with so few columns has other last bits for few rows than for many.

    Args:
        head: The ``Linear`` layer.
        states: Its inputs.
    """
    weight, bias = head.weight.float(), head.bias.float()
    return (states.float()[:, None, :] * weight).sum(dim=-1) + bias


def load_fitting(source: HfSource, model_class: Any, dtype: torch.dtype, used: tuple[str, ...]) -> Any:
    """Return a model, of which the weights that are used are all from the checkpoint.

    Args:
        source: Where it is.
        model_class: Its class in transformers.
        dtype: That of the weights.
        used: How the names of weights begin that are used.

    Raises:
        AdapterError: It cannot be loaded, or lacks such a weight.
    """
    model, found = source.load(model_class, dtype, source.remedy(), ignore_mismatched_sizes=True)
    needed = {
        **found,
        "missing_keys": [name for name in found["missing_keys"] if name.startswith(used)],
        "mismatched_keys": [one for one in found["mismatched_keys"] if one[0].startswith(used)],
    }
    require_fit(source, needed)
    return model.eval().requires_grad_(False)
