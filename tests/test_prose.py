"""Documents and messages speak plain English: no word that has a better one, no sentence that is too long."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import test_house
import yaml

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 30
"""Words of a sentence."""
BETTER = yaml.safe_load(Path(__file__).with_name("better_phrases.yaml").read_text(encoding="utf-8"))
"""Phrase to what says it better."""


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page's paragraphs and lists: no code, table or heading."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\||#|!\[|<).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    for block in re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )", text):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


def texts(source: Path) -> Iterator[str]:
    """Yield the texts of a module: docstrings, messages, help."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())


def letters(text: str) -> str:
    """Return the letters of a text without what may stand between the parts of a Python string: quotes, prefixes."""
    return re.sub(r"\\\w|\b[fru]+(?=[\"'])|[\W\d_]", "", text.lower())


def may_hold_a_phrase(source: Path) -> bool:
    """Return whether a module has to be parsed, which takes most of the time."""
    written = letters(source.read_text(encoding="utf-8"))
    return any(letters(phrase) in written for phrase in BETTER)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_a_page_are_short(page: Path):
    long = [sentence for sentence in sentences(page) if len(re.findall(r"\w[\w'-]*", sentence)) > LONGEST]
    assert not long, "\n".join(long)


def test_a_phrase_is_found_over_the_parts_of_a_string(tmp_path: Path):
    source = tmp_path / "module.py"
    for text in ('"they share a\\n letter"', '("they share a "\n    f"letter {1}")', '"""They share\n    a letter."""'):
        source.write_text(text, encoding="utf-8")
        assert may_hold_a_phrase(source)
        assert any("share a letter" in text for text in texts(source))
    source.write_text('"they have a letter in common"', encoding="utf-8")
    assert not may_hold_a_phrase(source)


def test_no_phrase_has_a_better_one():
    written = {page: [page.read_text(encoding="utf-8")] for page in PAGES}
    written |= {source: list(texts(source)) for source in test_house.sources() if may_hold_a_phrase(source)}
    faults = [
        f"{file.relative_to(ROOT)}: '{phrase}': {better}"
        for file, its in written.items()
        for phrase, better in BETTER.items()
        if any(phrase in text.lower() for text in its)
    ]
    assert not faults, "\n".join(faults)
