"""Time our text metrics against pycocoevalcap's in the same run, and compare their values.

Both get the captions as they come, tokenised by each one's own call of the PTB tokeniser; metrics are timed
on tokens that are at hand. Then what a million captions of COCO cost, by metric. Run by hand, on Flickr8k-Expert
if ``CAPBENCH_DATA`` is set, else on synthetic captions of the same size::

    python speed/text_metrics.py
    python speed/text_metrics.py --items 1000
"""

import argparse
import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import coco
import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from capbench.metrics import Context, Items, metrics
from capbench.metrics.java import find_java
from capbench.metrics.words.ngrams import ngrams_of
from capbench.metrics.words.ptb import tokenize_items
from capbench.tasks.flickr8k.reader import expert

BAR = 180.0
"""Core-seconds that PTB tokens, BLEU-4, CIDEr and ROUGE-L of a million captions may take."""
RATINGS_A_CAPTION = 3
"""The protocol of Flickr8k-Expert: a row a rating; released code scores every row."""

T = TypeVar("T")
Pair = tuple[str, tuple[str, ...]]


def flickr8k(folder: Path) -> Iterator[Pair]:
    """Yield the candidates and references of Flickr8k-Expert, those left out that are references."""
    for row in expert(folder):
        if isinstance(row, dict) and row["candidate"] not in row["references"]:
            yield row["candidate"], tuple(row["references"])


def synthetic(
    images: int, captions_an_image: int, *, references_an_image: int, words: tuple[int, int]
) -> Iterator[Pair]:
    """Yield captions of so many words (from, to before), drawn by Zipf's law."""
    generator = np.random.default_rng(0)
    vocabulary = np.array([f"w{number}" for number in range(8_000)])
    cumulative = np.cumsum(1 / np.arange(1, len(vocabulary) + 1))

    def captions(number: int) -> list[str]:
        lengths = generator.integers(*words, size=number)
        drawn = vocabulary[np.searchsorted(cumulative, generator.random(lengths.sum()) * cumulative[-1])]
        return [" ".join(caption).capitalize() + "." for caption in np.split(drawn, np.cumsum(lengths)[:-1])]

    for _ in range(images):
        references = tuple(captions(references_an_image))
        for candidate in captions(captions_an_image):
            yield candidate, references


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what a call gives and its seconds; what it prints is dropped."""
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        result = work()
    return result, time.perf_counter() - start


def tokens_of_theirs(texts: dict[int, list[str]]) -> dict[int, list[str]]:
    """Tokenise with pycocoevalcap."""
    captions = {key: [{"caption": text} for text in value] for key, value in texts.items()}
    return PTBTokenizer().tokenize(captions)


def line(name: str, ours: float, theirs: float, note: str = "") -> None:
    """Print one comparison."""
    print(f"{name:10} {ours:7.2f} s, pycocoevalcap {theirs:7.2f} s, {theirs / ours:6.1f} times as fast{note}")


def compare(pairs: list[Pair], ratings: int, names: list[str]) -> None:
    """Print a line a metric: seconds of both, their ratio, and the greatest difference of a value.

    Args:
        pairs: Captions with their references.
        ratings: Rows a caption; released code scores every row.
        names: The metrics.
    """
    items = Items(
        ids=[str(number) for number in range(len(pairs))],
        candidates=[candidate for candidate, _ in pairs],
        references=[references for _, references in pairs],
        weights=np.full(len(pairs), float(ratings)),
    )
    rows = [pair for pair in pairs for _ in range(ratings)]
    context = Context()
    _, ours = timed(lambda: tokenize_items(items))
    (candidates, references), theirs = timed(
        lambda: (
            tokens_of_theirs({n: [candidate] for n, (candidate, _) in enumerate(rows)}),
            tokens_of_theirs({n: list(references) for n, (_, references) in enumerate(rows)}),
        )
    )
    line("PTB", ours, theirs)
    total = [0.0, 0.0]
    for name in names:
        make, ours_by_name = SCORERS[name]
        scores, ours = timed(lambda own=ours_by_name: [metrics[one]().score(items, context) for one in own])
        (_, each), theirs = timed(lambda make=make: make().compute_score(references, candidates))
        each = np.asarray(each, dtype=np.float64).reshape(len(ours_by_name), len(rows))[:, ::ratings]
        difference = max(float(np.nanmax(np.abs(score.values - one))) for score, one in zip(scores, each, strict=True))
        line(name, ours, theirs, f", values differ by at most {difference:.0e}")
        total = [total[0] + ours, total[1] + theirs]
    # BLEU, which comes first, pays for the n-grams that CIDEr shares.
    line("together", *total)


def cost(shards: int) -> None:
    """Print what a million captions of COCO cost, by metric."""
    seconds: dict[str, float] = {}
    count, context = 0, Context()
    for items in coco.shards(shards):
        count += len(items)
        parts: dict[str, Callable[[], object]] = {
            "PTB": lambda items=items: tokenize_items(items),
            "n-grams, of BLEU and CIDEr": lambda items=items: ngrams_of(items),
            **{
                metrics[name].label: lambda name=name, items=items: metrics[name]().score(items, context)
                for name in ("bleu_4", "cider", "rouge_l")
            },
        }
        for name, work in parts.items():
            seconds[name] = seconds.get(name, 0.0) + coco.core_seconds(work)[1]
    coco.report(seconds, count, BAR)


SCORERS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "BLEU": (lambda: Bleu(4), ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]),
    "ROUGE-L": (Rouge, ["rouge_l"]),
    "CIDEr": (Cider, ["cider"]),
}


def put_java_on_path() -> None:
    """Let pycocoevalcap, which starts the first Java on the PATH, start the one that we do."""
    os.environ["PATH"] = os.pathsep.join([str(Path(find_java()).parent), os.environ["PATH"]])


def main() -> None:
    """Compare on rated short captions, then on detailed ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, metavar="N", help="only the first N captions of each set")
    parser.add_argument("--shards", type=int, default=3, metavar="N", help="shards of COCO, of 20,000 captions (3)")
    options = parser.parse_args()
    put_java_on_path()
    root = os.environ.get("CAPBENCH_DATA")
    folder = Path(root) / "flickr8k" if root else None
    found = folder is not None and folder.is_dir()
    short = synthetic(1000, 6, references_an_image=5, words=(8, 15))
    pairs = list(flickr8k(folder) if folder is not None and found else short)[: options.items]
    print(
        f"{'Flickr8k-Expert' if found else 'synthetic'}: {len(pairs):,} captions, each rated {RATINGS_A_CAPTION} "
        f"times: {len(pairs) * RATINGS_A_CAPTION:,} rows"
    )
    compare(pairs, RATINGS_A_CAPTION, ["BLEU", "ROUGE-L", "CIDEr"])
    detailed = list(synthetic(4870, 1, references_an_image=3, words=(100, 141)))[: options.items]
    print(f"synthetic: {len(detailed):,} captions of 100 to 140 words, 3 references each")
    compare(detailed, 1, ["BLEU", "ROUGE-L", "CIDEr"])
    cost(options.shards)


if __name__ == "__main__":
    main()
