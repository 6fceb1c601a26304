"""Reading WordNet's database files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from capbench.errors import MetricError
from capbench.metrics.capture import wordnet
from capbench.metrics.golden import read_golden

GOLDEN = read_golden("capture_wordnet")


def test_lemma_is_the_shortest_base_form_and_case_matters(wordnet_folder: str):
    words = wordnet.load(Path(wordnet_folder))
    assert words.lemma("lights", "noun") == "light"
    assert words.lemma("traffic lights", "noun") == "traffic lights"
    assert words.lemma("Buildings", "noun") == "Buildings"
    assert words.lemma("men", "noun") == "man"
    assert words.lemma("bluer", "adj") == "blue"
    assert words.lemma("gizmos", "noun") == "gizmos"
    assert words.lemma("", "noun") == ""


def test_synonyms_are_all_lemmas_of_all_parts_of_speech_without_markers(wordnet_folder: str):
    words = wordnet.load(Path(wordnet_folder))
    assert words.synonyms("Cars") == {"car", "auto", "automobile", "motorcar"}
    assert words.synonyms("traffic lights") == {"traffic_light"}
    assert words.synonyms("large") == {"big", "large"}
    assert words.synonyms("dog") == {"dog", "Canis_familiaris"}


def test_archive_of_nltk_gives_what_the_folder_gives(wordnet_folder: str, tmp_path: Path):
    archive = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in Path(wordnet_folder).iterdir():
            out.write(file, f"wordnet/{file.name}")
    assert wordnet.load(archive).digest == wordnet.load(Path(wordnet_folder)).digest
    assert wordnet.find(str(archive)) == archive


def test_folder_of_the_environment_is_found_first(wordnet_folder: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WNSEARCHDIR", wordnet_folder)
    assert wordnet.find() == Path(wordnet_folder)


def test_missing_wordnet_is_told_with_the_commands_that_get_it(tmp_path, monkeypatch):
    from nltk import data

    monkeypatch.setattr(data, "path", [str(tmp_path)])
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.setattr(wordnet, "_DEBIAN", tmp_path / "none")
    with pytest.raises(MetricError) as raised:
        wordnet.find()
    assert "python -m nltk.downloader wordnet" in raised.value.hint
    assert "apt-get install wordnet-base" in raised.value.hint


def test_damaged_database_is_named(wordnet_folder: str, tmp_path: Path):
    for file in Path(wordnet_folder).iterdir():
        if file.name != "index.verb":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(MetricError, match=r"cannot be read.*index\.verb"):
        wordnet.load(tmp_path)


def test_words_of_the_real_wordnet_are_those_of_nltk(princeton: Path):
    words = wordnet.load(princeton)
    for word, (noun, adjective, synonyms) in GOLDEN["words"].items():
        assert (words.lemma(word, "noun"), words.lemma(word, "adj")) == (noun, adjective)
        assert sorted(words.synonyms(word)) == synonyms
