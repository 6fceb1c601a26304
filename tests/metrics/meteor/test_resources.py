import gzip
import shutil
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics.java import find_jar
from capbench.metrics.mapped import mapped
from capbench.metrics.meteor import resources as meteor_resources
from capbench.metrics.meteor.resources import (
    EXCEPTIONS,
    JAR,
    SETS,
    Paraphrases,
    SynonymSets,
    WordTable,
    build_paraphrases,
    build_synonyms,
    paraphrases_of,
    synonyms_of,
)


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


@pytest.fixture
def synonyms() -> SynonymSets:
    arrays = build_synonyms({"dog": "1 2", "dogs": "7", "run": "3", "man": "4", "box": "5", "pass": "6", "a": "9"})
    bases = {"ran": ["run"], "men": ["man"], "dogmen": ["dog", "man"], "boxes": ["nothing"]}
    return SynonymSets(WordTable(arrays["words"]), arrays["first"], arrays["sets"], bases)


def node(table: Paraphrases, phrase: str) -> int:
    number = -1
    for word in table.words.find(phrase.split()).tolist():
        number = int(table.extend(np.array([number]), np.array([word]))[0])
        if number == -1:
            break
    return number


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


def test_words_have_the_numbers_of_their_order_and_others_have_none():
    words, numbers = WordTable.of(["cat", "ant", "élan", "bee"])
    assert numbers.tolist() == [2, 0, 3, 1]
    assert words.find(["bee", "élan", "be", "bees", "", "cathedral", "zoo"]).tolist() == [1, 3, *[-1] * 5]
    assert words.find([]).tolist() == []


def test_paraphrases_are_those_of_the_table_in_its_order(table: Path):
    index = paraphrases_of(table)
    assert paraphrases(index, "a lot") == [node(index, "much"), node(index, "plenty of")]
    assert paraphrases(index, "a lot of") == [node(index, "many")]
    assert paraphrases(index, "plenty") == []
    assert node(index, "much of") == node(index, "of a") == -1


def test_table_is_kept_in_the_cache_folder_and_mapped_from_there(table, own_cache, monkeypatch):
    built = build_paraphrases(table)
    first = paraphrases_of(table)
    (cached,) = files(own_cache)
    monkeypatch.setattr("capbench.metrics.meteor.resources.build_paraphrases", lambda path: pytest.fail("built again"))
    for index in (first, paraphrases_of(table)):
        for name, array in (
            ("words", index.words.sorted),
            ("keys", index.keys),
            ("first", index.first),
            ("targets", index.targets),
        ):
            np.testing.assert_array_equal(array, built[name])
            # Pages of the file, which processes share.
            assert not array.flags.owndata
            assert not array.flags.writeable
    assert cached.suffix == ".npy"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-100],
        lambda content: b"x" * 99,
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ],
    ids=["empty", "cut", "another", "a bit"],
)
def test_damaged_file_in_the_cache_is_replaced(table, own_cache, damage):
    paraphrases_of(table)
    (cached,) = files(own_cache)
    content = cached.read_bytes()
    cached.write_bytes(damage(content))
    assert paraphrases(paraphrases_of(table), "many")
    assert files(own_cache) == [cached]
    assert cached.read_bytes() == content


def test_array_file_of_another_program_is_replaced(own_cache: Path):
    (own_cache / "meteor").mkdir(parents=True)
    for content in (np.arange(3), np.zeros(1, [("a", int)]), np.zeros(0, [("a", int)])):
        np.save(own_cache / "meteor" / "some.npy", content)
        arrays = mapped("meteor", "some", lambda: {"a": np.array([1.5])})
        assert arrays["a"].tolist() == [1.5]


@pytest.mark.usefixtures("own_cache")
def test_of_those_who_find_no_file_one_makes_it_and_the_others_wait():
    begun, builds = threading.Event(), 0

    def build() -> dict[str, np.ndarray]:
        nonlocal builds
        builds += 1
        begun.set()
        # Time in which another would begin to build.
        time.sleep(0.3)
        return {"a": np.array([1.5])}

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(mapped, "meteor", "some", build)
        assert begun.wait(60)
        second = pool.submit(mapped, "meteor", "some", build)
        assert first.result()["a"].tolist() == second.result()["a"].tolist() == [1.5]
    assert builds == 1


def test_where_nothing_can_be_locked_the_file_is_made_all_the_same(own_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert mapped("meteor", "some", lambda: {"a": np.array([1.5])})["a"].tolist() == [1.5]
    assert [file.name for file in files(own_cache)] == ["some.npy"]


def test_another_table_is_not_taken_for_the_one_in_the_cache(table: Path):
    paraphrases_of(table)
    with gzip.open(table, "wt", encoding="utf-8") as file:
        file.write("0.5\ncat\nfeline\n")
    assert paraphrases_of(table).words.sorted.tolist() == [b"cat", b"feline"]


def test_without_a_folder_to_write_to_the_table_is_built_all_the_same(table, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file" / "cache"))
    assert paraphrases(paraphrases_of(table), "many")


def test_synonym_sets_are_those_of_the_word_and_of_its_base_form(synonyms: SynonymSets):
    words = ["dog", "dogs", "ran", "run", "dogmen", "boxes", "boxs", "pas", "passes", "", "xyz"]
    # Neither what ends with "ss" nor a word of two letters is the plural of another.
    words += ["dogss", "as"]
    numbers = [set(sets.tolist()) for sets in synonyms.of(words)]
    # "boxes" has a base form in the list, which no set has; so it has none by rule.
    assert numbers == [{1, 2}, {7, 1, 2}, {3}, {3}, {1, 2, 4}, set(), {5}, set(), {6}, *[set()] * 4]
    assert synonyms.of([]) == []


def test_synonym_sets_of_every_word_are_those_of_the_jar(own_cache: Path):
    with zipfile.ZipFile(find_jar(JAR)) as jar:
        lines = jar.read(SETS).decode().splitlines()
        thesaurus = synonyms_of(jar)
    sets = dict(zip(lines[::2], lines[1::2], strict=True))
    words = list(sets)[::50]
    for word, numbers in zip(words, thesaurus.of(words), strict=True):
        assert set(map(int, sets[word].split())) <= set(numbers.tolist()), word
    assert len(files(own_cache)) == 1


def test_sets_of_another_jar_are_not_taken_for_those_in_the_cache(tmp_path: Path, own_cache: Path):
    def sets_of(content: str) -> list[int]:
        with zipfile.ZipFile(tmp_path / "other.jar", "w") as jar:
            jar.writestr(SETS, content)
            jar.writestr(EXCEPTIONS, "dog\ndogges\n")
        with zipfile.ZipFile(tmp_path / "other.jar") as jar:
            return synonyms_of(jar).of(["dogges"])[0].tolist()

    assert sets_of("dog\n1 2\n") == [1, 2]
    assert sets_of("dog\n3\n") == [3]
    assert len(files(own_cache)) == 2


def test_tables_are_read_once_a_process(table: Path, tmp_path: Path):
    jar = Path(shutil.copy(find_jar(JAR), tmp_path))
    assert meteor_resources.load_from(jar, table) is meteor_resources.load_from(jar, table)


def test_missing_tables_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MetricError, match="is missing, a file of the package pycocoevalcap"):
        meteor_resources.check()
