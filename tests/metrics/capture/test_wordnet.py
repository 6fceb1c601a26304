"""Reading WordNet's database files."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import served
from tiny_capture import make_nltk_data

from capbench.downloads import MIRROR
from capbench.errors import DataError, MetricError
from capbench.metrics.capture import nltk_text, wordnet
from capbench.metrics.golden import read_golden
from capbench.progress import silent

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
    with pytest.raises(MetricError, match=r"\n.*bench fetch capture.*apt-get install wordnet-base"):
        wordnet.find()


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


def test_fetched_archives_are_what_wordnet_and_nltks_models_are_read_from(
    wordnet_folder: str, tmp_path: Path, tmp_path_factory, monkeypatch: pytest.MonkeyPatch
):
    from nltk import data

    monkeypatch.setattr(data, "path", [str(tmp_path)])
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.setattr(wordnet, "_DEBIAN", tmp_path / "none")
    models = make_nltk_data(tmp_path_factory.mktemp("models"))
    with served() as server:
        monkeypatch.setenv(MIRROR, server.url("mirror"))
        for resource, check, folders in (
            (wordnet.resource(), wordnet.find, {"wordnet.zip": Path(wordnet_folder)}),
            (nltk_text.resource(), nltk_text.check, {f"{each.name}.zip": each for each in models.glob("*/*")}),
        ):
            (piece, *_) = resource.pieces()
            for download in resource.source.downloads:
                address = str(download.url).replace("https://", "mirror/")
                server.contents[address] = zipped(folders[download.file], download.file.removesuffix(".zip"))
            with pytest.raises(DataError, match="does not have the expected checksum"):
                piece.fetch(silent)
            assert not resource.is_here()
            # What is served here is small, and not the released files.
            unchecked = [each.model_copy(update={"sha256": None, "md5": None}) for each in resource.source.downloads]
            small = replace(resource, source=resource.source.model_copy(update={"downloads": unchecked}))
            for piece in small.pieces():
                piece.fetch(silent)
            check()
            assert resource.is_here() and resource.pieces() == []
    assert wordnet.load(wordnet.find()).digest == wordnet.load(Path(wordnet_folder)).digest


def zipped(folder: Path, name: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, f"{name}/{file.relative_to(folder)}")
    return content.getvalue()
