"""Changed captions that were read: the sample is still what the rules make, and docs/checklist.md has its shares.

``read_sample.jsonl`` has 50 changed captions a rule, of the 500 descriptions of ImageInWords that ship (Garg et al.,
EMNLP 2024; CC BY 4.0), each with a verdict: right, doubtful or wrong. Where a rule or a word list changes, the sample
is drawn with another seed and read anew. A change is right if the English is sound, and the caption says something
false or less (rules that make it worse), or the same (rules that keep the meaning).
"""

import json
import re
from collections import Counter
from pathlib import Path

from capbench.benchmarks.inputs.items import CaptionRow
from capbench.benchmarks.protocols.checklist.protocol import NAMES, ChecklistSettings, changed
from capbench.benchmarks.protocols.checklist.rules import RULES, drawn

ROOT = Path(__file__).parents[4]
SEED, PER_RULE, CONTEXT, LETTERS = 2028, 50, 4, 120
SAMPLE = [json.loads(line) for line in Path(__file__).with_name("read_sample.jsonl").read_text().splitlines()]


def descriptions() -> list[CaptionRow]:
    """Return those of checklist_iiw, which have references, and those of iiw_400, which have none."""
    rows = []
    for name, key in (("iiw_docci", "captions"), ("iiw_400", "references")):
        for line in (ROOT / f"tasks/iiw/{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            rows.append(CaptionRow(row["image"], row["image"], row[key][0], tuple(row[key][1:])))
    return rows


def part(text: str, other: str) -> str:
    """Return the words of a text that another does not have, with four on either side; the first 120 letters."""
    words, others = text.split(), other.split()
    shorter = min(len(words), len(others))
    before = next((n for n in range(shorter) if words[n] != others[n]), shorter)
    after = next((n for n in range(shorter - before) if words[-1 - n] != others[-1 - n]), shorter - before)
    return " ".join(words[max(0, before - CONTEXT) : len(words) - max(0, after - CONTEXT)])[:LETTERS]


def test_captions_that_were_read_are_what_the_rules_make():
    of_rule: dict[str, list[tuple[str, str, str]]] = {}
    for caption, versions in changed(descriptions(), ChecklistSettings(least_seen=5)):
        for name, version in zip(NAMES, versions, strict=True):
            if not isinstance(version, str):
                of_rule.setdefault(name, []).append((caption.id, caption.candidate, version.candidate))
    for rule in (rule.name for rule in RULES):
        order = sorted(of_rule[rule], key=lambda row: (drawn(f"{SEED}|{rule}|{row[0]}"), row[0]))
        expected = [(id_, part(text, by), part(by, text)) for id_, text, by in order[:PER_RULE]]
        assert [(row["id"], row["before"], row["after"]) for row in SAMPLE if row["rule"] == rule] == expected


def test_shares_in_the_docs_are_those_of_the_sample():
    right = Counter(row["rule"] for row in SAMPLE if row["verdict"] == "right")
    assert {row["verdict"] for row in SAMPLE if "reason" in row} == {"doubtful", "wrong"}
    assert len(SAMPLE) == PER_RULE * len(RULES)
    table = (ROOT / "docs/checklist.md").read_text().partition("## Rules")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \|.*\| (\d+) \|$", table, re.MULTILINE)
    written = {name: int(share) for names, share in rows for name in re.findall(r"`(\w+)`", names)}
    assert written == {rule.name: round(100 * right[rule.name] / PER_RULE) for rule in RULES}
    assert min(written.values()) >= 95
