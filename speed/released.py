"""Score captions as the script that people copy does: the PTB tokeniser, BLEU, CIDEr, ROUGE-L, METEOR of pycocoevalcap.

::

    python speed/released.py FOLDER
"""

import json
import sys
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
from text_metrics import put_java_on_path


def main() -> None:
    """Print the value of each metric."""
    put_java_on_path()
    rows = [json.loads(line) for line in (Path(sys.argv[1]) / "rows.jsonl").read_text().splitlines()]
    candidates = {number: [{"caption": row["candidate"]}] for number, row in enumerate(rows)}
    references = {number: [{"caption": text} for text in row["references"]] for number, row in enumerate(rows)}
    tokenised = PTBTokenizer().tokenize(references), PTBTokenizer().tokenize(candidates)
    for metric in (Bleu(4), Cider(), Rouge(), Meteor()):
        print(type(metric).__name__, metric.compute_score(*tokenised)[0])


if __name__ == "__main__":
    main()
