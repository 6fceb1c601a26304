"""ITMScore: the score that an encoder of pairs gives an image and its caption."""

from math import inf

import numpy as np

from ..adapters.contracts import PAIRWISE
from .contract import Context, Metric, images_of
from .items import Items, Scores
from .vectors.features import over_context, pair_scores


class ItmScore(Metric):
    """How well a caption fits its image, by a model that looks at both together (image-text matching).

    Its range is that of the model's head: a probability (0-1) for BLIP's ``itm`` and FLAVA, a cosine (-1 to 1) for
    ``itc``, a logit plus a cosine for ``itm+itc``. The caption is truncated to the model's maximum length.

    ``Scores.parts``: ``truncated [n]``, 1 where the caption has more tokens than the model takes, else 0.
    """

    label = "ITMScore"
    range = (-inf, inf)
    needs = frozenset({"image", "encoder"})
    encoder_family = PAIRWISE
    source = "Li et al., ICML 2022, section 3.2 (BLIP); Singh et al., CVPR 2022 (FLAVA)"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The items have no images, or the context has no encoder of pairs.
            AdapterError: The encoder failed as a whole.
        """
        images, failures = images_of(self, items)
        at = list(images)
        scored = pair_scores(list(images.values()), [[items.candidates[item]] for item in at], context)
        values = np.full(len(items), np.nan)
        values[at] = scored.values
        return Scores(
            values,
            {"truncated": over_context(items.candidates, context).astype(np.float64)},
            failures | {at[number]: reason for number, reason in scored.failures.items()},
            {at[number]: remark for number, remark in scored.remarks.items()},
        )
