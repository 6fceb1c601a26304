"""A model that reads many continuations of one instruction at once, each of which sees its own past alone.

The instruction is in the cache once, and behind it the tokens of all beams, so many a step: what a token may look at
is told by a mask. A beam that branches copies nothing, and one that falls away leaves its tokens to those that share
them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError

if TYPE_CHECKING:
    import torch

_ATTENTION = "capbench_watched"
_NOT_INPUTS = ("logits_processor", "stopping_criteria", "generation_config", "synced_gpus", "streamer")
_REMEDY = "Use decoding=greedy, beam or nucleus with this model."


class Watch:
    """Sees how the last layer attends, the largest of its heads."""

    def __init__(self) -> None:
        self.weights: torch.Tensor | None = None
        """``[queries, keys]`` of the last pass through the model, or None."""
        self.on = False
        """Whether it looks: an instruction would cost its length squared."""

    def look(self, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor, scaling: float) -> None:
        """Keep the attention of a pass.

        Args:
            query: ``[1, heads, queries, d]``, rotated.
            key: ``[1, heads or groups of them, keys, d]``, rotated.
            mask: ``[1, 1, queries, keys]`` that is added.
            scaling: What products are multiplied by.
        """
        grouped = query.unflatten(1, (key.shape[1], -1))
        scores = grouped @ key[:, :, None].transpose(-1, -2) * scaling + mask[:, :, None]
        self.weights = scores.float().softmax(-1).flatten(1, 2).amax(1)[0]


@contextmanager
def watching(model: Any) -> Iterator[Watch]:
    """Watch the last layer's attention; every layer computes as it would without.

    Raises:
        AdapterError: The model is no decoder alone, or its attention is none of the library's.
    """
    from transformers import AttentionInterface

    decoder = None if model.config.is_encoder_decoder else model.get_decoder()
    layers = [
        one
        for one in (() if decoder is None else decoder.modules())
        if hasattr(one, "layer_idx") and hasattr(one, "config")
    ]
    if not layers:
        raise AdapterError(
            f"decoding=opera does not find how the last layer of {type(model).__name__} attends.", _REMEDY
        )
    AttentionInterface.register(_ATTENTION, _attend)
    last = max(layers, key=lambda one: one.layer_idx)
    before, last.config = last.config, copy.copy(last.config)
    last.config._attn_implementation = _ATTENTION
    last.watch = Watch()
    try:
        yield last.watch
    finally:
        last.config = before
        del last.watch


def _attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **settings: Any
) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if module.watch.on:
        module.watch.look(query, key, mask, settings["scaling"])
    return sdpa_attention_forward(module, query, key, value, mask, **settings)


@dataclass(frozen=True)
class Seen:
    """What the model made of tokens, n in each of B beams.

    Attributes:
        logits: ``[B, n, vocabulary]`` of what follows each.
        rows: ``[B, n, k]`` share of the token's attention on each token of its caption, itself the last; on the CPU.
        images: ``[B, n]`` share on the image; on the CPU.
    """

    logits: torch.Tensor
    rows: torch.Tensor
    images: torch.Tensor


class Tree:
    """The model with its cache.

    Args:
        model: The model of transformers.
        input_ids: ``[1, prompt]``.
        settings: What ``generate`` has prepared for a loop of its own.
        watch: Of the last layer.

    Attributes:
        logits: ``[vocabulary]`` of the first token.
        asked: Tokens of the instruction; an image counts as one of them.

    Raises:
        AdapterError: Image tokens or positions are not known of the model, or its cache forgets.
    """

    def __init__(
        self, model: Any, input_ids: torch.Tensor, settings: Mapping[str, Any], watch: Watch
    ) -> None:
        inputs = {name: value for name, value in settings.items() if name not in _NOT_INPUTS}
        self._model = model
        self._watch = watch
        self._prompt = input_ids.shape[1]
        # No token is -1.
        self._images = (input_ids[0] == getattr(model.config, "image_token_id", -1)).nonzero()[:, 0]
        positions = inputs.get("position_ids")
        if not len(self._images) or positions is None:
            raise AdapterError(
                f"decoding=opera does not know which tokens of {type(model).__name__} are its image.", _REMEDY
            )
        self._next = positions[..., -1:] + 1
        self.asked = self._prompt - len(self._images) + 1
        prepared = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **inputs)
        found = model(**prepared, return_dict=True)
        self.logits = found.logits[0, -1].float().to(input_ids.device)
        self._cache = found.past_key_values
        if any(layer.is_sliding for layer in self._cache.layers):
            raise AdapterError(
                f"decoding=opera looks at all of a caption, and {type(model).__name__} forgets its beginning.",
                _REMEDY,
            )

    def read(self, tokens: torch.Tensor, past: torch.Tensor) -> Seen:
        """Read tokens, which are then the last in the cache, beam by beam.

        Args:
            tokens: ``[B, n]``, each of them what could follow in its beam.
            past: ``[B, k - 1]`` where the tokens of each beam lie, counted from the instruction's end.
        """
        import torch

        beams, each = tokens.shape
        count, start = tokens.numel(), self._cache.get_seq_length()
        device = tokens.device
        places = (self._prompt + past).repeat_interleave(each, 0)
        own = start + torch.arange(count, device=device)[:, None]
        caption = torch.cat([places, own], 1)
        seen = torch.zeros(count, start + count, dtype=torch.bool, device=device)
        seen[:, : self._prompt] = True
        seen.scatter_(1, caption, True)
        hidden = torch.finfo(self._model.dtype).min
        mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=device).masked_fill(~seen, hidden)
        at = self._next + past.shape[1]
        self._watch.on = True
        found = self._model(
            input_ids=tokens.view(1, -1),
            attention_mask=mask[None, None],
            position_ids=at.expand(*at.shape[:-1], count),
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
        )
        self._watch.on = False
        weights = self._watch.weights
        if weights is None:
            raise AdapterError(
                f"decoding=opera does not see how {type(self._model).__name__} attends.", _REMEDY
            )
        # A model may lie on several devices.
        weights = (weights / weights.sum(-1, keepdim=True)).to(device)
        rows = weights.gather(1, caption).view(beams, each, -1)
        images = weights[:, self._images].sum(-1).view(beams, each)
        return Seen(found.logits[0].float().to(device).view(beams, each, -1), rows.cpu(), images.cpu())

    def keep(self, places: torch.Tensor, read: int) -> None:
        """Keep some of the tokens that were read last, in this order.

        Args:
            places: Which of them, counted from the first.
            read: How many were read.
        """
        for layer in self._cache.layers:
            for states in (layer.keys, layer.values):
                newest = states[..., -read:, :]
                newest[..., : len(places), :] = newest[..., places.to(newest.device), :]
        self._cache.crop(len(places) - read)

    def drop(self, length: int) -> None:
        """Leave so many tokens behind the instruction."""
        self._cache.crop(self._prompt + length - self._cache.get_seq_length())
