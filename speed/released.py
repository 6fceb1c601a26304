"""What pycocoevalcap and scipy need for captions with ratings: values, τ-b and τ-c, and an interval of each.

::

    python speed/released.py FOLDER
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
from scipy.stats import kendalltau
from text_metrics import put_java_on_path

RESAMPLES = 1000


def scores(rows: list[dict[str, object]]) -> dict[str, np.ndarray]:
    """Return the values of each row by BLEU-4, CIDEr, ROUGE-L and METEOR."""
    with contextlib.redirect_stdout(io.StringIO()):
        candidates = {n: [{"caption": row["candidate"]}] for n, row in enumerate(rows)}
        references = {n: [{"caption": one} for one in row["references"]] for n, row in enumerate(rows)}  # type: ignore
        given = (PTBTokenizer().tokenize(references), PTBTokenizer().tokenize(candidates))
        return {
            "BLEU-4": np.array(Bleu(4).compute_score(*given)[1][3]),
            "CIDEr": np.array(Cider().compute_score(*given)[1]),
            "ROUGE-L": np.array(Rouge().compute_score(*given)[1]),
            "METEOR": np.array(Meteor().compute_score(*given)[1]),
        }


def main() -> None:
    """Print each coefficient with its interval."""
    put_java_on_path()
    rows = [json.loads(line) for line in (Path(sys.argv[1]) / "rows.jsonl").read_text().splitlines()]
    human = np.array([row["rating"] for row in rows])
    generator = np.random.default_rng(0)
    for name, values in scores(rows).items():
        for variant in ("b", "c"):
            found = [
                kendalltau(values[drawn], human[drawn], variant=variant).statistic
                for drawn in (generator.integers(len(rows), size=len(rows)) for _ in range(RESAMPLES))
            ]
            print(
                name, variant, kendalltau(values, human, variant=variant).statistic, *np.quantile(found, [0.025, 0.975])
            )


if __name__ == "__main__":
    main()
