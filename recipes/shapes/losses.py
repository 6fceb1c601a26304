"""What the dual encoder is trained for: batches of pictures with true and false texts, and the losses on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES
from .architecture import LARGE, TowerSizes, normalised
from .facts import FACTS, WEIGHTS, facts_of_text, facts_of_things
from .features import image_features, text_features
from .pool import View
from .texts import clip_text, false_text, true_text
from .tokens import token_ids

if TYPE_CHECKING:
    import torch
    from open_clip import CLIP
    from transformers import CLIPTokenizer

LOSSES = {"dense": 1.0, "kernel": 5.0, "image": 1.0, "text": 1.0, "hard": 1.0, "facts": 3.0}
"""The weight of each loss; see :func:`losses`."""

_CLASSES = [1 + len(names) for names in (SHAPES, COLOURS, SIZES, TEXTURES)] + [len(BACKGROUNDS)]
_TRUE = 2
_TEXTS = 2 * _TRUE
_PIECES = 3
_LARGEST_SCALE = 50
_HELD = 4.0
"""How much more a fact that holds weighs than one that does not, of which there are many."""


@dataclass(frozen=True)
class ViewBatch:
    """Views with their texts: for each two true ones, then two that were made false.

    Attributes:
        pixels: ``[b, side, side, 3]`` uint8.
        labels: ``[b, 5, patches]``; see ``pool.View``.
        facts: ``[b, facts]`` float32, 1 where a fact holds in a view.
        ids: ``[4 b, n]`` tokens, the texts of a view side by side.
        said: ``[4 b, facts]`` float32, 1 where a text states a fact.
    """

    pixels: torch.Tensor
    labels: torch.Tensor
    facts: torch.Tensor
    ids: torch.Tensor
    said: torch.Tensor


def true_text_of(view: View, rng: np.random.Generator) -> str:
    """Return a text that is true of a view."""
    return clip_text(view.clip, rng) if view.clip else true_text(view.scene, view.things, rng)


def make_batch(views: Sequence[View], tokenizer: CLIPTokenizer, rng: np.random.Generator) -> ViewBatch:
    """Return views with texts on them."""
    import torch

    texts: list[str] = []
    for view in views:
        true = [true_text_of(view, rng) for _ in range(_TRUE)]
        texts += [*true, *(false_text(text, view.things, rng) for text in true)]
    return ViewBatch(
        torch.from_numpy(np.stack([view.pixels for view in views])),
        torch.from_numpy(np.stack([view.labels for view in views])),
        torch.from_numpy(np.stack([facts_of_things(v.things, v.scene.background) for v in views])).float(),
        token_ids(tokenizer, texts),
        torch.from_numpy(np.stack([facts_of_text(text) for text in texts])).float(),
    )


def encode_texts(model: CLIP, ids: torch.Tensor) -> torch.Tensor:
    """Return features ``[b, d]`` of texts ``[b, n]``; those of like length are encoded together."""
    import torch

    order = ids.argmax(1).argsort()
    found = [text_features(model, ids[part, : int(ids[part].argmax(1).max()) + 1]) for part in order.chunk(_PIECES)]
    return torch.cat(found)[order.argsort()]


def make_probes(sizes: TowerSizes = LARGE) -> torch.nn.ModuleDict:
    """Return what predicts from states of patches what they show, and from features which facts hold.

    Both are thrown away after training.
    """
    import torch

    facts = torch.nn.Linear(sizes.dimension, len(FACTS))
    # Features have norm 1.
    torch.nn.init.normal_(facts.weight, std=1.0)
    return torch.nn.ModuleDict({"patches": torch.nn.Linear(sizes.width, sum(_CLASSES)), "facts": facts})


def dense_loss(model: CLIP, probes: torch.nn.ModuleDict, views: Sequence[View]) -> torch.Tensor:
    """Return how badly the states of patches tell what each shows: a mean cross entropy."""
    import torch

    pixels = torch.from_numpy(np.stack([view.pixels for view in views]))
    labels = torch.from_numpy(np.stack([view.labels for view in views]))
    with torch.autocast("cpu", torch.bfloat16):
        states = image_features(model, normalised(pixels))[1]
    return _dense(probes["patches"](states.float()), labels)


def losses(model: CLIP, probes: torch.nn.ModuleDict, batch: ViewBatch) -> dict[str, torch.Tensor]:
    """Return the losses on a batch, and how accurate the model is.

    Returns:
        ``dense``: how badly the states of patches tell what each shows. ``facts``: how badly a probe, the same
        for both, tells from features of views and of texts which facts hold. ``kernel``: how far cosines of views
        and texts are from those of their facts, over all pairs and over pairs of a view with its own texts.
        ``image`` and ``text``: contrastive losses of both directions; a text that is true of another view too is
        not held against it. ``hard``: that of a true text and the false one made of it. ``accuracy``: how often
        the true one is nearer to the view.
    """
    import torch
    from torch.nn import functional

    # The towers alone: small differences of cosines would be lost in bfloat16.
    with torch.autocast("cpu", torch.bfloat16):
        images, patches = image_features(model, normalised(batch.pixels))
        texts = encode_texts(model, batch.ids)
    images = functional.normalize(images.float(), dim=1)
    texts = functional.normalize(texts.float(), dim=1)
    cosines = images @ texts.T
    logits = cosines * model.logit_scale.exp().clamp(max=_LARGEST_SCALE)
    own = torch.arange(len(texts)).reshape(len(images), _TEXTS)
    holds = (1 - batch.facts) @ batch.said.T == 0
    gap = (cosines - _fact_cosines(batch)) ** 2
    # What is true is not held against a view.
    false = logits.masked_fill(holds, -math.inf)
    true = logits.gather(1, own[:, :_TRUE])
    changed = logits.gather(1, own[:, _TRUE:])
    is_false = ~holds.gather(1, own[:, _TRUE:])
    against_text = false[:, own[:, :_TRUE].flatten()].logsumexp(0).reshape(true.shape)
    probed = probes["facts"](torch.cat([images, texts]))
    return {
        "dense": _dense(probes["patches"](patches.float()), batch.labels),
        "kernel": gap.mean() + gap.gather(1, own).mean(),
        "image": functional.softplus(false.logsumexp(1, keepdim=True) - true).mean(),
        "text": functional.softplus(against_text - true).mean(),
        "hard": (functional.softplus(changed - true) * is_false).sum() / is_false.sum(),
        "accuracy": ((true > changed) * is_false).sum() / is_false.sum(),
        "facts": functional.binary_cross_entropy_with_logits(
            probed, torch.cat([batch.facts, batch.said]), pos_weight=torch.tensor(_HELD)
        ),
    }


def _dense(predicted: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    import torch
    from torch.nn.functional import cross_entropy

    parts = predicted.split(_CLASSES, dim=2)
    return torch.stack(
        [cross_entropy(part.flatten(0, 1), labels[:, row].flatten()) for row, part in enumerate(parts)]
    ).mean()


def _fact_cosines(batch: ViewBatch) -> torch.Tensor:
    """Return ``[b, 4 b]`` the cosines of weighted facts: which share of them views and texts have in common."""
    import torch

    weights = torch.from_numpy(WEIGHTS)
    shared = (batch.facts * weights) @ batch.said.T
    norms = (batch.facts @ weights)[:, None] * (batch.said @ weights)[None]
    return shared / norms.sqrt().clamp(min=1e-6)
