"""Time our METEOR and pycocoevalcap's in one run, and compare their answers.

Both get the same tokens. Then what a million captions of COCO cost, by part, and what a process of its own needs
to open the tables and score 20,000 of them. Run by hand, on Flickr8k-Expert if ``CAPBENCH_DATA`` is set, else on
synthetic captions of the same size::

    python speed/meteor.py
    python speed/meteor.py --items 1000
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from math import inf
from pathlib import Path

import coco
import numpy as np
from pycocoevalcap.meteor.meteor import Meteor as ReleasedMeteor
from text_metrics import RATINGS_A_CAPTION, flickr8k, put_java_on_path, synthetic, timed

from capbench.metrics import Context, Items
from capbench.metrics.java import find_jar
from capbench.metrics.meteor import resources as meteor_resources
from capbench.metrics.meteor.aligner import alignments, counted, find_matches
from capbench.metrics.meteor.lexicon import Lexicon
from capbench.metrics.meteor.metric import Meteor
from capbench.metrics.meteor.resources import PARAPHRASES, build_paraphrases
from capbench.metrics.words.ptb import tokenize_items

BAR = 220.0
"""Core-seconds that METEOR of a million captions may take, on tokens that are at hand."""
BAR_BYTES = 5e8
BAR_OPENED = 0.2
"""Core-seconds in which a new process has the tables that lie in the cache."""
_BATCH = 1_000


class Remembered:
    """Keeps tokens, so that they are made once; forgets METEOR's statistics."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], object] = {}

    def get(self, producer: object, inputs: list[str]) -> dict[str, object]:
        """Return the tokens that are known."""
        name = str(producer)
        return {text: self._tokens[name, text] for text in inputs if (name, text) in self._tokens}

    def put(self, producer: object, values: dict[str, object]) -> None:
        """Keep tokens."""
        name = str(producer)
        if "meteor" not in name:
            self._tokens.update({(name, text): value for text, value in values.items()})


def cost(shards: int) -> None:
    """Print what a million captions of COCO cost, by part."""
    lexicon = Lexicon(meteor_resources.load())
    total, count, parts = 0.0, 0, dict.fromkeys(("reading texts", "matches", "choice among them"), 0.0)
    for items in coco.shards(shards):
        tokenized = tokenize_items(items)
        total += coco.core_seconds(lambda items=items: Meteor().score(items, Context()))[1]
        count += len(items)
        for start in range(0, len(items), _BATCH):
            sets = [tokenized.reference_sets[n] for n in items.reference_sets[1][start : start + _BATCH]]
            flat = [reference for references in sets for reference in references]
            candidates = tokenized.candidates[start : start + _BATCH]
            which = np.repeat(np.arange(len(sets)), [len(references) for references in sets])
            against = np.arange(len(flat)) + len(candidates)
            texts, read = coco.core_seconds(lambda both=[*candidates, *flat]: lexicon.read(both))
            pairs = texts, which, against
            _, matched = coco.core_seconds(lambda pairs=pairs: find_matches(*pairs))
            _, aligned = coco.core_seconds(lambda pairs=pairs: counted(alignments(*pairs, inf), *pairs))
            parts["reading texts"] += read
            parts["matches"] += matched
            parts["choice among them"] += aligned - matched
    coco.report({**parts, "keys and values": total - sum(parts.values())}, count, BAR)


def alone(file: Path) -> None:
    """Print what this process needs to open the tables, which lie in the cache, and to score items of a file."""
    _, opened = coco.core_seconds(meteor_resources.load)
    verdict = "over" if opened > BAR_OPENED else "within"
    print(f"tables opened in {opened:.2f} core-seconds, {verdict} the bar of {BAR_OPENED} s")
    items = coco.items_of([json.loads(line) for line in file.read_text().splitlines()])
    Meteor().score(items, Context())
    peak = coco.peak_bytes()
    verdict = "over" if peak > BAR_BYTES else "within"
    print(
        f"{len(items):,} captions of COCO scored by a process: peak {peak / 1e9:.2f} GB, pages of the tables that all "
        f"processes share included, {verdict} the bar of {BAR_BYTES / 1e9:.1f} GB"
    )


def alone_in_a_process() -> None:
    """Have a process of its own score a shard: this one holds what tables are made of, and all of COCO."""
    (items,) = coco.shards(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.jsonl"
        rows = zip(items.candidates, items.references, strict=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--alone", file], check=True)


def main() -> None:
    """Print seconds, items a second and the share of equal statistics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, metavar="N", help="only the first N captions")
    parser.add_argument("--shards", type=int, default=3, metavar="N", help="shards of COCO, of 20,000 captions (3)")
    parser.add_argument("--alone", type=Path, metavar="FILE", help="only score the items of a file of JSON lines")
    options = parser.parse_args()
    if options.alone:
        alone(options.alone)
        return
    put_java_on_path()
    root = os.environ.get("CAPBENCH_DATA")
    short = synthetic(1000, 6, references_an_image=5, words=(8, 15))
    pairs = list(flickr8k(Path(root) / "flickr8k") if root else short)[: options.items]
    items = Items(
        ids=[str(number) for number in range(len(pairs))],
        candidates=[candidate for candidate, _ in pairs],
        references=[references for _, references in pairs],
        weights=np.full(len(pairs), float(RATINGS_A_CAPTION)),
    )
    context = Context(cache=Remembered())
    tokenized = tokenize_items(items)
    print(f"{len(pairs):,} items, {sum(len(references) for _, references in pairs):,} pairs")

    _, built = timed(lambda: build_paraphrases(find_jar(PARAPHRASES)))
    meteor_resources.load()  # into the cache folder if it is not there
    meteor_resources.load_from.cache_clear()
    _, loaded = timed(meteor_resources.load)
    print(f"tables: made in {built:.1f} s once, loaded in {loaded:.2f} s")
    meteor_resources.load_from.cache_clear()

    start = time.process_time()
    ours, seconds = timed(lambda: Meteor().score(items, context))
    cpu = time.process_time() - start
    print(
        f"capbench       {seconds:6.2f} s with loading ({cpu:.2f} s of one core), {len(pairs) / seconds:,.0f} items/s"
    )
    sets = items.reference_sets[1]
    rows = [item for item in range(len(pairs)) for _ in range(RATINGS_A_CAPTION)]
    references = {row: list(tokenized.reference_sets[sets[item]]) for row, item in enumerate(rows)}
    candidates = {row: [tokenized.candidates[item]] for row, item in enumerate(rows)}
    (_, values), theirs = timed(lambda: ReleasedMeteor().compute_score(references, candidates))
    difference = np.nanmax(np.abs(np.asarray(values)[::RATINGS_A_CAPTION] - ours.values))
    print(
        f"pycocoevalcap  {theirs:6.2f} s for {len(rows):,} rows: ours is {theirs / seconds:.1f} times as "
        f"fast; values differ by at most {difference:.0e}"
    )
    cost(options.shards)
    alone_in_a_process()


if __name__ == "__main__":
    main()
