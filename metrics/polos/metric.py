"""Polos: the score that a head, learned from human ratings, gives image, caption and references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import ImageHandle
from ...adapters.devices import BatchSize, find_device
from ...adapters.encoders.clip_tokens import reserved_positions
from ...downloads import Resource
from ...errors import MetricError, require_counts
from ...paths import checkpoint_folder
from ..clip_s import PROMPT
from ..contract import Cache, Context, Metric, images_of
from ..items import Items, Scores
from ..vectors.checkpoints import Checkpoint, batches_that_fit
from ..vectors.features import Features, image_features, over_context, text_features
from .weights import FILE, PolosWeights, file_identity, load, require_file

_EPSILON = 1e-12
_TOKENS_A_BATCH = 4096


@dataclass(frozen=True)
class TextState:
    """The mixture's input for a text: ``l`` layers, embeddings first.

    Attributes:
        first: ``[l, d]`` float32 the states of the first token.
        sums: ``[l]`` float64 the sum of the states of all tokens.
        squares: ``[l]`` the sum of their squares.
        numbers: How many numbers these are sums of.
    """

    first: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    numbers: int


def mixed(states: Sequence[TextState], mix: np.ndarray, gamma: float) -> np.ndarray:
    """Return ``[b, d]`` float32 vectors of texts that are normalised together.

    Each layer is brought to mean 0 and variance 1 by one mean and one variance over all numbers of all texts, so that
    the vector of a text depends on the other texts; the layers are added, weighed by the softmax of ``mix``.

    Args:
        states: Of the texts of a batch.
        mix: ``[l]`` as of ``PolosWeights``.
        gamma: The same.
    """
    numbers = sum(state.numbers for state in states)
    means = np.sum([state.sums for state in states], axis=0) / numbers
    variances = np.sum([state.squares for state in states], axis=0) / numbers - means**2
    shares = np.exp(mix.astype(np.float64) - mix.max())
    shares /= shares.sum()
    scales = shares / np.sqrt(variances + _EPSILON)
    first = np.stack([state.first for state in states]).astype(np.float64)
    return (gamma * np.einsum("bld,l->bd", first - means[:, None], scales)).astype(np.float32)


class TextModel:
    """RoBERTa with its tokenizer.

    Args:
        checkpoint: Where it is.
        device: Such as ``cpu``; None for a GPU where there is one.
        layers: How many the mixture is of, embeddings included.

    Raises:
        MetricError: It cannot be loaded, or has another number of layers.
    """

    def __init__(self, checkpoint: Checkpoint, device: str | None, layers: int) -> None:
        import torch

        config = checkpoint.load("AutoConfig")
        if config.num_hidden_layers + 1 != layers:
            raise MetricError(
                f"{checkpoint.role} '{checkpoint.name}' has {config.num_hidden_layers} layers; the weights mix "
                f"{layers - 1} and the embeddings.",
                "Polos was trained with princeton-nlp/sup-simcse-roberta-base.",
            )
        self.device = find_device(device, MetricError)
        self._role = checkpoint.role
        self._tokenizer = checkpoint.load("AutoTokenizer")
        self.model = checkpoint.load("AutoModel", config=config, dtype=torch.float32).eval().to(self.device)
        self._longest = config.max_position_embeddings - reserved_positions(self.model)
        self._batch = BatchSize(_TOKENS_A_BATCH)

    def states(self, texts: Sequence[str]) -> tuple[dict[str, TextState], dict[str, str]]:
        """Return the states of texts, one or more, and why others have none."""
        import torch

        ids: list[list[int]] = self._tokenizer(list(texts), verbose=False)["input_ids"]
        states: dict[str, TextState] = {}
        faults = {
            text: f"has {len(tokens)} tokens, and the text model takes {self._longest}"
            for text, tokens in zip(texts, ids, strict=True)
            if len(tokens) > self._longest
        }

        def run(batch: Sequence[int]) -> list[np.ndarray]:
            with torch.inference_mode():
                outputs = self.model(
                    input_ids=torch.tensor([ids[number] for number in batch], device=self.device),
                    output_hidden_states=True,
                )
                states = torch.stack(outputs.hidden_states, dim=1)
                exact = states.double()
                return [
                    tensor.cpu().numpy()
                    for tensor in (states[:, :, 0], exact.sum(dim=(2, 3)), exact.square().sum(dim=(2, 3)))
                ]

        # Texts of one length go together: padding would move states in their last bits.
        by_length: dict[int, list[int]] = {}
        for number in sorted(range(len(ids)), key=lambda number: len(ids[number]), reverse=True):
            if texts[number] not in faults:
                by_length.setdefault(len(ids[number]), []).append(number)
        for length, alike in by_length.items():
            for batch, (first, sums, squares) in batches_that_fit(
                self._role, self._batch, alike, run, lambda number: len(ids[number])
            ):
                width = first.shape[-1]
                for row, number in enumerate(batch):
                    states[texts[number]] = TextState(first[row], sums[row], squares[row], length * width)
        return states, faults


TEXT_MODEL = "princeton-nlp/sup-simcse-roberta-base"
_ROWS_AT_ONCE = 32
"""Rows of a product; the number is fixed, since products of other sizes have other last bits."""
_VERSION = 1
_ITEMS_AT_ONCE = 512
"""Captions whose texts are in memory at once."""


class Polos(Metric):
    """A score from 0 to 1 that was learned from human ratings; the best of a caption's references counts.

    Two texts are compared by SimCSE's RoBERTa, whose layers are mixed, and by CLIP, image and texts by CLIP alone: the
    encoder of the run, which is OpenAI's ViT-B/32. Its features are not normalised, and it sees ``A photo depicts``
    before each text; RoBERTa sees the text alone, of at most 512 tokens.

    The mixture normalises all texts of a batch together, so that released scores depend on the batches and their
    order. Here each text is a separate batch. ``batch: 32`` takes captions as the released
    evaluation does, in the order of the data: candidates together, and first, second, ... references together; as
    released, references beyond the smallest number that a caption of the batch has are skipped, with a remark.

    ``Scores.parts``: ``truncated [n]``, 1 where prompt and caption have more tokens than CLIP takes, else 0.

    Args:
        weights: File of safetensors with the mixture and the head (``capbench.metrics.polos.weights.convert`` makes it
            of the released one); None for ``polos.safetensors`` in the folder of checkpoints.
        text_model: SimCSE's RoBERTa: a folder, or a name on the hub.
        batch: Captions that are normalised together.
        device: Of the text model: such as ``cpu``; a GPU by default, where there is one.

    Raises:
        ValueError: ``batch`` is not a whole number above 0.
    """

    label = "Polos"
    range = (0.0, 1.0)
    needs = frozenset({"image", "references", "encoder"})
    encoder_family = "clip"
    source = "Wada et al., CVPR 2024; keio-smilab24/Polos polos_estimator.py, scalar_mix.py, feedforward.py"
    own_files = frozenset({"weights"})

    def __init__(
        self, weights: str | None = None, text_model: str = TEXT_MODEL, batch: int = 1, device: str | None = None
    ) -> None:
        require_counts(ValueError, batch=batch)
        self.batch = batch
        self.text_model = text_model
        self.corpus_dependent = batch > 1
        self._device = device
        self._file = Path(weights).expanduser() if weights else checkpoint_folder() / FILE
        self._checkpoint = Checkpoint("Polos' text model", "text_model", text_model)

    def check(self) -> None:
        """Raise if the weights or the text model are missing; the hint says how to get them."""
        require_file(self._file)
        self._checkpoint.check()

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return self._checkpoint.resources()

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and which weights they are."""
        return {
            "metric": "Polos",
            "version": _VERSION,
            "batch": self.batch,
            "weights": file_identity(self._file),
            "text_model": self._checkpoint.identity(),
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The items have no images, the context has no encoder, or weights do not fit the models.
            AdapterError: The encoder failed as a whole.
        """
        _, videos = images_of(self, items)
        failures = {item: "item has no reference" for item, texts in enumerate(items.references) if not texts} | videos
        usable = [item for item in range(len(items)) if item not in failures]
        clip = _ClipVectors(items, usable, context)
        failures |= clip.failures
        usable = [item for item in usable if item not in failures]
        remarks = dict(clip.remarks)
        values = np.full(len(items), np.nan)
        context.progress(0, len(usable))
        size = _ITEMS_AT_ONCE if self.batch == 1 else self.batch
        for start in range(0, len(usable), size):
            some = {item: (items.candidates[item], *items.references[item]) for item in usable[start : start + size]}
            compared = (
                self._each_alone(some, context.cache, failures)
                if self.batch == 1
                else self._together(some, failures, remarks)
            )
            rows = [clip.row(entry) for entry in compared]
            for entry, score in zip(compared, self._head(rows).tolist(), strict=True):
                values[entry.item] = np.fmax(values[entry.item], score)
            context.progress(start + len(some), len(usable))
        truncated = over_context([PROMPT + candidate for candidate in items.candidates], context)
        return Scores(values, {"truncated": truncated.astype(np.float64)}, failures, remarks)

    @cached_property
    def _weights(self) -> PolosWeights:
        return load(self._file)

    @cached_property
    def _text_model(self) -> TextModel:
        return TextModel(self._checkpoint, self._device, len(self._weights.mix))

    def _each_alone(self, texts: _Texts, cache: Cache, failures: dict[int, str]) -> list[_Compared]:
        """Compare captions with references, each text in a separate batch; cached vectors are reused."""
        producer = {**self.fingerprint(), "of": "text"}
        unique = list(dict.fromkeys(chain.from_iterable(texts.values())))
        vectors = dict(cache.get_arrays(producer, unique))
        missing = [text for text in unique if text not in vectors]
        states, faults = self._text_model.states(missing) if missing else ({}, {})
        new = {text: self._vectors([state])[0] for text, state in states.items()}
        cache.put_arrays(producer, new)
        vectors |= new
        return [
            _Compared(item, number, vectors[candidate], vectors[reference])
            for item, (candidate, *references) in _without(texts, faults, failures).items()
            for number, reference in enumerate(references)
        ]

    def _together(self, texts: _Texts, failures: dict[int, str], remarks: dict[int, str]) -> list[_Compared]:
        """Compare captions of a batch with their references."""
        states, faults = self._text_model.states(list(dict.fromkeys(chain.from_iterable(texts.values()))))
        kept = _without(texts, faults, failures)
        if not kept:
            return []
        count = min(map(len, kept.values()))
        for item, its in kept.items():
            if lost := len(its) - count:
                remarks[item] = f"{lost} of its references are not looked at, as in a released batch"
        candidates, *references = (self._vectors([states[its[n]] for its in kept.values()]) for n in range(count))
        return [
            _Compared(item, number, *both)
            for number, of_items in enumerate(references)
            for item, *both in zip(kept, candidates, of_items, strict=True)
        ]

    def _vectors(self, states: Sequence[TextState]) -> np.ndarray:
        return mixed(states, self._weights.mix, self._weights.gamma)

    def _head(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Return the score of each row.

        Raises:
            MetricError: The head takes rows of another width.
        """
        expected = self._weights.layers[0][0].shape[1]
        if rows and len(rows[0]) != expected:
            raise MetricError(
                f"Polos' head takes {expected} features; text model and CLIP give {len(rows[0])}.",
                "It was trained with princeton-nlp/sup-simcse-roberta-base and OpenAI's ViT-B/32 "
                "(--model openai-clip-vit-b-32).",
            )
        scores = np.zeros(len(rows))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            filled = np.zeros((_ROWS_AT_ONCE, expected), dtype=np.float32)
            filled[: len(part)] = part
            scores[start : start + len(part)] = self._weights.head(filled)[: len(part)]
        return scores


@dataclass(frozen=True)
class _Compared:
    """A caption and one of its references.

    Attributes:
        item: The caption's item.
        reference: Which of its references.
        c: The caption's vector of the text model.
        r: The reference's.
    """

    item: int
    reference: int
    c: np.ndarray
    r: np.ndarray


_Texts = Mapping[int, tuple[str, ...]]
"""Item to its candidate and its references."""


def _without(texts: _Texts, faults: Mapping[str, str], failures: dict[int, str]) -> _Texts:
    """Return the items that have no faulty text; the others fail."""
    failures |= {item: f"a text {faults[text]}" for item, its in texts.items() for text in its if text in faults}
    return {item: its for item, its in texts.items() if item not in failures}


class _ClipVectors:
    """CLIP's vectors of items, not normalised.

    Args:
        items: The items.
        usable: Those that have an image and references.
        context: Cache, the encoder.
    """

    def __init__(self, items: Items, usable: Sequence[int], context: Context) -> None:
        self.failures: dict[int, str] = {}
        self.remarks: dict[int, str] = {}
        handles = {item: handle for item in usable if isinstance(handle := items.images[item], ImageHandle)}
        self._images = image_features(list(handles.values()), context, normalised=False)
        texts = [PROMPT + text for item in usable for text in (items.candidates[item], *items.references[item])]
        self._texts = text_features(texts, context, normalised=False)
        self._of_item: dict[int, tuple[int, int]] = {}
        start = 0
        for number, item in enumerate(usable):
            self._of_item[item] = (number, start)
            stop = start + 1 + len(items.references[item])
            if number in self._images.failures:
                self.failures[item] = self._images.failures[number]
            elif lost := [at for at in range(start, stop) if at in self._texts.failures]:
                self.failures[item] = self._texts.failures[lost[0]]
            elif number in self._images.remarks:
                self.remarks[item] = self._images.remarks[number]
            start = stop

    def row(self, compared: _Compared) -> np.ndarray:
        """Return the head's input for a caption and one of its references, float32."""
        number, start = self._of_item[compared.item]
        r, c, v = compared.r, compared.c, _vector(self._images, number)
        t, s = _vector(self._texts, start), _vector(self._texts, start + 1 + compared.reference)
        parts = (r, c, np.abs(c - r), c * r, v, t, np.abs(v - t), v * t, np.abs(s - t), s * t)
        return np.concatenate(parts, dtype=np.float32)


def _vector(features: Features, number: int) -> np.ndarray:
    return features.vectors[features.rows[number]]
