from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics.meteor import resources as meteor_resources
from capbench.metrics.meteor.resources import Paraphrases, Synonyms, paraphrases_of


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A paraphrase table of five lines, as in the released one."""
    entries = [
        ("0.5", "a lot", "much"),
        ("0.1", "a lot of", "many"),
        ("0.3", "a lot", "plenty of"),
        ("0.2", "mucho", "a lot"),
        ("0.2", "many", "a lot of"),
    ]
    path = tmp_path / "table.gz"
    with gzip.open(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for entry in entries for line in entry)
    return path


def node(table: Paraphrases, phrase: str) -> int:
    found = -1
    for word in phrase.split():
        found = int(table.extend(np.array([found]), np.array([table.words[word]]))[0])
        if found == -1:
            break
    return found


def paraphrases(table: Paraphrases, phrase: str) -> list[int]:
    start = node(table, phrase)
    return table.targets[table.first[start] : table.first[start + 1]].tolist()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without the tables that other tests share."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_paraphrases_are_those_of_the_table_in_its_order(table: Path):
    found = paraphrases_of(table)
    assert paraphrases(found, "a lot") == [node(found, "much"), node(found, "plenty of")]
    assert paraphrases(found, "a lot of") == [node(found, "many")]
    assert paraphrases(found, "plenty") == []
    assert node(found, "much of") == node(found, "of a") == -1


def test_table_is_kept_in_the_cache_folder_and_read_from_there(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    built = paraphrases_of(table)
    (cached,) = files(tmp_path / "own")
    monkeypatch.setattr(meteor_resources, "build_paraphrases", lambda path: pytest.fail("built again"))
    again = paraphrases_of(table)
    assert again.words == built.words
    for name in ("keys", "first", "targets"):
        np.testing.assert_array_equal(getattr(again, name), getattr(built, name))
    assert cached.suffix == ".npz"


@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: content[:-100], lambda content: b"x" * 99]
)
def test_damaged_file_in_the_cache_is_replaced(table: Path, tmp_path: Path, damage: Callable[[bytes], bytes]):
    paraphrases_of(table)
    (cached,) = files(tmp_path / "own")
    content = cached.read_bytes()
    cached.write_bytes(damage(content))
    assert paraphrases(paraphrases_of(table), "many")
    assert files(tmp_path / "own") == [cached]
    assert len(cached.read_bytes()) == len(content)


def test_another_table_is_not_taken_for_the_one_in_the_cache(table: Path):
    paraphrases_of(table)
    with gzip.open(table, "wt", encoding="utf-8") as file:
        file.write("0.5\ncat\nfeline\n")
    assert set(paraphrases_of(table).words) == {"cat", "feline"}


def test_without_a_folder_to_write_to_the_table_is_built_all_the_same(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file" / "cache"))
    assert paraphrases(paraphrases_of(table), "many")


def test_synonym_sets_are_those_of_the_word_and_of_its_base_form():
    synonyms = Synonyms(
        {"dog": "1 2", "dogs": "7", "run": "3", "man": "4", "box": "5", "pass": "6"},
        {"ran": ["run"], "men": ["man"], "dogmen": ["dog", "man"]},
    )
    assert synonyms.of("dog") == {"1", "2"}
    assert synonyms.of("dogs") == {"7", "1", "2"}
    assert synonyms.of("ran") == synonyms.of("run") == {"3"}
    assert synonyms.of("dogmen") == {"1", "2", "4"}
    assert synonyms.of("boxes") == {"5"}
    assert synonyms.of("pas") == synonyms.of("") == frozenset()


def test_missing_tables_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MetricError, match="pycocoevalcap is not installed"):
        meteor_resources.check()
