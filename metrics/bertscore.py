"""BERTScore: greedy matching of contextual token vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..adapters.devices import BatchSize, find_device, padded
from ..adapters.encoders.clip_tokens import reserved_positions
from ..batches import grouped
from ..downloads import Resource
from ..errors import MetricError, require_counts
from .contract import Context, Metric, kept, require_choice
from .items import Items, Scores
from .vectors.checkpoints import Checkpoint, batches_that_fit

if TYPE_CHECKING:
    import torch

RELEASED_LAYERS = {"roberta-large": 17, "FacebookAI/roberta-large": 17}
"""The layer that bert_score takes of its English default; found on WMT16."""

# Tokens whose vectors are held at once: 0.5 GB of 1,024 float32. Items are worked off in pieces of it.
_TOKENS_A_PIECE = 131_072
# Tokens, padding counted, that go through the encoder or through one matching at once.
_TOKENS_A_BATCH = 16_384

_NUMBERS = ("precision", "recall", "f1")
_Texts = tuple[str, tuple[str, ...]]
"""A candidate and its references."""
NearestToken = tuple[str, str, float]
"""A token, the most similar one of the other text, and the cosine of the two."""


class BertScore(Metric):
    """F1 of token precision and recall: each token is matched with the most similar one of the other text.

    As released, with idf weights and baseline rescaling off: a token's vector is that of layer
    ``num_layers``, similarity is the cosine, the special tokens at both ends weigh nothing but may be
    matched with. Precision, recall and F1 are each the largest over the references.
    Captions are not preprocessed; one without a token scores 0.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``, ``f1 [n]``, -1 to 1.

    Args:
        model: An encoder for transformers: its name on the hub, or a local folder.
        num_layers: Layers of the encoder to run through; 17 for roberta-large, and required for others.
        of: Which of the three is the value.
        revision: Branch, tag or commit on the hub.
        device: Where the encoder runs (``"cuda:1"``); by default the GPU if there is one.

    Raises:
        ValueError: An argument is missing or out of range.
    """

    label = "BERT-S"
    range = (-1.0, 1.0)
    needs = frozenset({"references"})
    source = "Zhang et al., ICLR 2020; bert_score 0.3.13 score.py, utils.py (idf and rescaling off)"

    def __init__(
        self,
        model: str = "roberta-large",
        num_layers: int | None = None,
        of: Literal["f1", "precision", "recall"] = "f1",
        revision: str | None = None,
        device: str | None = None,
    ) -> None:
        require_choice("of", of, _NUMBERS)
        if num_layers is None:
            num_layers = RELEASED_LAYERS.get(model)
        if num_layers is None:
            raise ValueError(f"num_layers is required for '{model}': the layer decides the value")
        require_counts(ValueError, num_layers=num_layers)
        self.model = model
        self.num_layers = num_layers
        self.of = of
        # Private: the fingerprint has the checkpoint's identity, not its name.
        self._checkpoint = Checkpoint("BERTScore's encoder", "model", model, revision)
        # Private, as it changes no value beyond rounding.
        self._device = device

    def check(self) -> None:
        """Raise if the checkpoint is neither here nor on the hub, or has too few layers."""
        self._checkpoint.check()
        if self._checkpoint.folder is not None:
            self._config()

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return self._checkpoint.resources()

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings and which checkpoint it is: its name and commit, or the hash of its files."""
        where = {"model": "folder"} if self._checkpoint.folder is not None else {}
        return {**super().fingerprint(), **where, "checkpoint": self._checkpoint.identity()}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The encoder cannot be loaded.
        """
        reference_sets, set_of_item = items.reference_sets
        keys = [
            json.dumps([candidate, *reference_sets[its_set]], ensure_ascii=False)
            for candidate, its_set in zip(items.candidates, set_of_item.tolist(), strict=True)
        ]
        item_of_key = {key: item for item, key in enumerate(keys)}

        def compute(missing: list[str]) -> Iterator[dict[str, list[float] | None]]:
            encoder = _Encoder(self._checkpoint, self._config(), self.num_layers, self._device)
            # Items with the same references in one piece, so that these are encoded once.
            missing.sort(key=lambda key: set_of_item[item_of_key[key]])
            of_items = [item_of_key[key] for key in missing]
            texts = [(items.candidates[item], reference_sets[set_of_item[item]]) for item in of_items]
            unique = list(dict.fromkeys(text for candidate, references in texts for text in (candidate, *references)))
            ids = dict(zip(unique, encoder.tokens(unique), strict=True))

            def tokens(number: int) -> int:
                candidate, references = texts[number]
                return sum(len(ids[text]) for text in (candidate, *references))

            for piece in grouped(range(len(texts)), tokens, _TOKENS_A_PIECE):
                rows = _score_piece([texts[number] for number in piece], ids, encoder)
                yield {missing[number]: row for number, row in zip(piece, rows, strict=True)}

        # All three are kept, whichever is the value.
        producer = {key: value for key, value in self.fingerprint().items() if key != "of"}
        known = kept(context.cache, producer, keys, compute, context.progress)
        # As released a candidate without a token scores 0.
        nothing = [[0.0 if reference_sets[its_set] else np.nan] * 3 for its_set in set_of_item.tolist()]
        rows = [known[key] or none for key, none in zip(keys, nothing, strict=True)]
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        parts: dict[str, np.ndarray] = dict(zip(_NUMBERS, table.T, strict=True))
        failures = dict.fromkeys(np.flatnonzero(np.isnan(parts["f1"])).tolist(), "item has no reference")
        return Scores(values=parts[self.of], parts=parts, failures=failures)

    def explain(
        self, candidate: str, references: Sequence[str]
    ) -> list[tuple[dict[str, float], list[NearestToken], list[NearestToken]]]:
        """Return how tokens are matched with those of each reference; the greatest of the numbers is the score.

        Args:
            candidate: The caption.
            references: Captions to compare it with.

        Returns:
            Of each reference precision, recall and F1, and the tokens of both texts but for special ones.

        Raises:
            MetricError: The encoder cannot be loaded.
        """
        encoder = _Encoder(self._checkpoint, self._config(), self.num_layers, self._device)
        unique = list(dict.fromkeys([candidate, *references]))
        ids = dict(zip(unique, encoder.tokens(unique), strict=True))
        vectors = dict(zip(unique, encoder.vectors(list(ids.values())), strict=True))
        names = {text: [encoder.tokenizer.decode([token]).strip() for token in ids[text]] for text in unique}

        def nearest(own: str, other: str) -> list[NearestToken]:
            best = (vectors[own] @ vectors[other].T).max(dim=1)
            rows = zip(names[own], best.indices.tolist(), best.values.tolist(), encoder.weights(ids[own]), strict=True)
            return [(name, names[other][at], cosine) for name, at, cosine, weight in rows if weight]

        scored = _score_piece([(candidate, (reference,)) for reference in references], ids, encoder)
        return [
            (dict(zip(_NUMBERS, numbers or [0.0] * 3, strict=True)), nearest(candidate, text), nearest(text, candidate))
            for text, numbers in zip(references, scored, strict=True)
        ]

    def _config(self) -> Any:
        config = self._checkpoint.load("AutoConfig")
        if self.num_layers > config.num_hidden_layers:
            raise MetricError(
                f"BERTScore's encoder '{self.model}' has {config.num_hidden_layers} layers; "
                f"num_layers is {self.num_layers}."
            )
        return config


class _Encoder:
    """An encoder with its tokenizer.

    Args:
        checkpoint: Where it is.
        config: Its configuration.
        layers: How many of its layers are run through.
        device: Where it runs; by default the GPU if there is one.

    Raises:
        MetricError: It cannot be loaded, or is not a plain encoder.
    """

    def __init__(self, checkpoint: Checkpoint, config: Any, layers: int, device: str | None) -> None:
        import torch

        self.role = checkpoint.role
        self.device = find_device(device, MetricError)
        # The layers above are not built at all, as bert_score drops them after loading.
        config.num_hidden_layers = layers
        # Byte-level tokenisers (RoBERTa) tell a first word from others unless a space precedes it.
        self.tokenizer = checkpoint.load("AutoTokenizer", add_prefix_space=True)
        self.model = checkpoint.load("AutoModel", config=config, dtype=torch.float32).eval().to(self.device)
        # Some tokenizers state no limit, as 1e30.
        positions = (getattr(config, "max_position_embeddings", None) or 512) - reserved_positions(self.model)
        self.longest = min(self.tokenizer.model_max_length, positions)
        # Tokens, padding counted, that are encoded, and tokens of pairs that are matched, at once.
        self.encoded, self.matched = BatchSize(_TOKENS_A_BATCH), BatchSize(_TOKENS_A_BATCH)
        if (run := self.count_layers()) != layers:
            raise MetricError(
                f"BERTScore's encoder '{checkpoint.name}' is not a plain encoder: {type(self.model).__name__} ran a "
                f"text through {run} layers, not {layers}.",
                "Name an encoder such as roberta-large, bert-base-uncased or microsoft/deberta-xlarge-mnli.",
            )

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, special tokens included."""
        return self.tokenizer(
            [text.strip() for text in texts], truncation=True, max_length=self.longest
        )["input_ids"]  # fmt: skip

    def count_layers(self) -> int:
        """Return how many layers a text runs through."""
        import torch

        with torch.no_grad():
            ids = torch.tensor(self.tokens(["a"]), device=self.device)
            said = self.model(input_ids=ids, output_hidden_states=True)
        return len(getattr(said, "hidden_states", None) or [None]) - 1

    def vectors(self, ids: Sequence[list[int]]) -> list[torch.Tensor]:
        """Return unit vectors ``[l, d]`` of the tokens of each text."""
        import torch

        def encode(batch: Sequence[int]) -> torch.Tensor:
            with torch.no_grad():
                rows, mask = padded([ids[n] for n in batch], self.tokenizer.pad_token_id or 0, self.device)
                states = self.model(input_ids=rows, attention_mask=mask).last_hidden_state
                return states / states.norm(dim=-1, keepdim=True)

        vectors: dict[int, torch.Tensor] = {}
        order = _longest_first([len(tokens) for tokens in ids])
        for batch, states in batches_that_fit(self.role, self.encoded, order, encode, lambda n: len(ids[n])):
            vectors.update((n, states[row, : len(ids[n])]) for row, n in enumerate(batch))
        return [vectors[n] for n in range(len(ids))]

    def weights(self, ids: list[int]) -> torch.Tensor:
        """Return ``[l]`` 1 for each token, 0 for the special ones at both ends, as released for idf off."""
        import torch

        nothing = {self.tokenizer.cls_token_id, self.tokenizer.sep_token_id}
        return torch.tensor([float(token not in nothing) for token in ids], device=self.device)


def _score_piece(texts: Sequence[_Texts], ids: Mapping[str, list[int]], encoder: _Encoder) -> list[list[float] | None]:
    """Return precision, recall and F1 of each item, each the largest over its references."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    unique = list(dict.fromkeys(text for candidate, references in texts for text in (candidate, *references)))
    vectors = dict(zip(unique, encoder.vectors([ids[text] for text in unique]), strict=True))
    weights = {text: encoder.weights(ids[text]) for text in unique}
    empty = {text for text in unique if not weights[text].any()}
    pairs = [
        (item, candidate, reference)
        for item, (candidate, references) in enumerate(texts)
        if candidate not in empty
        for reference in references
    ]
    widths = [max(len(ids[candidate]), len(ids[reference])) for _, candidate, reference in pairs]

    def match(batch: Sequence[int]) -> np.ndarray:
        _, candidates, references = zip(*(pairs[number] for number in batch), strict=True)
        sides = ((part, side) for side in (candidates, references) for part in (vectors, weights))
        scores = _match(*(pad_sequence([part[text] for text in side], batch_first=True) for part, side in sides))
        # A reference without tokens scores 0, as released.
        scores[torch.tensor([reference in empty for reference in references], device=scores.device)] = 0.0
        return scores.double().cpu().numpy()

    best = np.full((len(texts), 3), -np.inf)
    for batch, scores in batches_that_fit(
        encoder.role, encoder.matched, _longest_first(widths), match, widths.__getitem__
    ):
        np.maximum.at(best, [pairs[number][0] for number in batch], scores)
    return [row.tolist() if np.isfinite(row).all() else None for row in best]


def _match(
    candidates: torch.Tensor, candidate_weights: torch.Tensor, references: torch.Tensor, reference_weights: torch.Tensor
) -> torch.Tensor:
    """Return precision, recall and F1 ``[b, 3]`` of pairs (Zhang et al. 2020, section 3).

    Args:
        candidates: ``[b, n, d]`` unit vectors of the candidates' tokens, and zeros behind them.
        candidate_weights: ``[b, n]`` weights of these.
        references: ``[b, m, d]`` the same of the references.
        reference_weights: ``[b, m]`` weights of these.
    """
    import torch

    there = candidates.any(dim=2)[:, :, None] & references.any(dim=2)[:, None, :]
    # Released code puts 0 here; that is never the largest but where all cosines of a token are negative.
    similarity = torch.bmm(candidates, references.transpose(1, 2)).masked_fill(~there, -1.0)
    precision = (similarity.amax(dim=2) * candidate_weights).sum(dim=1) / candidate_weights.sum(dim=1)
    recall = (similarity.amax(dim=1) * reference_weights).sum(dim=1) / reference_weights.sum(dim=1)
    f1 = 2 * precision * recall / (precision + recall)
    return torch.stack([precision, recall, f1], dim=1).nan_to_num(0.0)


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
