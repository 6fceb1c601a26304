"""Meaning of phrases: mean-pooled vectors of a sentence encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from ...adapters.devices import BatchSize, find_device, padded
from ...adapters.hf_checkpoint import stated_pooling
from ...downloads import Repository
from ...errors import MetricError
from ..contract import Context, kept
from ..vectors.checkpoints import Checkpoint, batches_that_fit

if TYPE_CHECKING:
    import torch

# Tokens, padding counted, that go through the encoder at once.
_TOKENS_A_BATCH = 16_384
# How many vectors are kept with one write.
_PHRASES_A_WRITE = 4_096


class _Loaded:
    """A checkpoint in memory."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        import torch

        self.device = device
        self.tokenizer = checkpoint.load("AutoTokenizer")
        self.model = checkpoint.load("AutoModel", dtype=torch.float32).eval().to(device)
        # Positions of RoBERTa and MPNet start behind the padding index.
        positions = getattr(self.model.config, "max_position_embeddings", None) or 512
        self.longest = min(self.tokenizer.model_max_length, positions - 2)


_IN_USE: WeakValueDictionary[tuple[str, str, str], _Loaded] = WeakValueDictionary()
"""Path, identity and device to a checkpoint that somebody holds: the metrics of a run share one."""


class PhraseEncoder:
    """A sentence encoder: the mean of the last layer's token vectors, scaled to length 1.

    That is what sentence-transformers computes for all-mpnet-base-v2 and its kin; the library itself is not
    needed. Phrases are encoded once a run, and vectors are kept in the context's cache.

    Args:
        checkpoint: An encoder for transformers.
        device: Where it runs; by default the GPU if there is one.
    """

    def __init__(self, checkpoint: Checkpoint, device: str | None = None) -> None:
        self._checkpoint = checkpoint
        self._device = device
        self._size = BatchSize(_TOKENS_A_BATCH)
        self._loaded: _Loaded | None = None

    def check(self) -> None:
        """Raise if the checkpoint is not here and cannot be asked for.

        Raises:
            MetricError: The hint says how to get it.
        """
        self._checkpoint.check()

    def resources(self) -> list[Repository]:
        """Return what ``bench fetch`` fetches for it."""
        return self._checkpoint.resources()

    def fingerprint(self) -> dict[str, Any]:
        """Return which checkpoint it is and how it is used."""
        return {"encoder": self._checkpoint.identity(), "pooling": "mean, normalised"}

    def vectors(self, phrases: Iterable[str], context: Context) -> dict[str, np.ndarray]:
        """Return the unit vector ``[d]`` float32 of each phrase.

        Raises:
            MetricError: The encoder cannot be loaded, or pools in another way.
        """

        def encode(missing: list[str]) -> Iterator[dict[str, np.ndarray]]:
            # Neighbours of one length waste no padding.
            missing.sort(key=len)
            for start in range(0, len(missing), _PHRASES_A_WRITE):
                yield self._encode(missing[start : start + _PHRASES_A_WRITE])

        unique = dict.fromkeys(phrases)
        return kept(context.cache, self.fingerprint(), unique, encode, arrays=True) if unique else {}

    def _encode(self, phrases: Sequence[str]) -> dict[str, np.ndarray]:
        import torch

        loaded = self._load()
        ids: list[list[int]] = loaded.tokenizer(list(phrases), truncation=True, max_length=loaded.longest)["input_ids"]
        pad = loaded.tokenizer.pad_token_id or 0

        def encode(batch: Sequence[int]) -> np.ndarray:
            with torch.inference_mode():
                rows, mask = padded([ids[n] for n in batch], pad, loaded.device)
                states = loaded.model(input_ids=rows, attention_mask=mask).last_hidden_state
                weights = mask[:, :, None].to(states.dtype)
                mean = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
                return torch.nn.functional.normalize(mean, dim=1).float().cpu().numpy()

        by_phrase: dict[str, np.ndarray] = {}
        order = sorted(range(len(ids)), key=lambda n: len(ids[n]), reverse=True)
        for batch, vectors in batches_that_fit(self._checkpoint.role, self._size, order, encode, lambda n: len(ids[n])):
            by_phrase.update((phrases[n], vector) for n, vector in zip(batch, vectors, strict=True))
        return by_phrase

    def _load(self) -> _Loaded:
        if self._loaded is None:
            device = find_device(self._device, MetricError)
            if stated_pooling(self._read) != "mean":
                raise MetricError(
                    f"{self._checkpoint.role} '{self._checkpoint.name}' does not average token vectors.",
                    "Name an encoder with mean pooling, such as sentence-transformers/all-mpnet-base-v2.",
                )
            key = self._checkpoint.path, self._checkpoint.identity(), str(device)
            self._loaded = _IN_USE.get(key) or _IN_USE.setdefault(key, _Loaded(self._checkpoint, device))
        return self._loaded

    def _read(self, name: str) -> Any:
        file = self._checkpoint.file(name)
        return json.loads(file.read_text(encoding="utf-8")) if file else None
