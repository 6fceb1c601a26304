"""SPICE without CoreNLP's jars, which cannot be had from a registry: all but the parser itself."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics import Context, Items
from capbench.metrics import spice as jar_module
from capbench.metrics.spice import CATEGORIES, CORENLP, Spice, command, find_program, java_version, parse
from capbench.metrics.words.ptb import tokenize_items

RECORDED = json.loads((Path(__file__).parent / "data/spice.json").read_text())["output"]
"""What the jar itself wrote for five items, with a stand-in for CoreNLP."""

STAND_IN = """
import json, sys
if "-version" in sys.argv:
    sys.exit(print('openjdk version "11.0.13" 2021-10-19', file=sys.stderr))
arguments = sys.argv[sys.argv.index("edu.anu.spice.SpiceScorer") + 1:]
rows = json.load(open(arguments[0]))
assert [row["image_id"] for row in rows] == sorted(row["image_id"] for row in rows)
def scores(row):
    f = None if row["test"] == "nothing" else len(row["refs"]) / len(row["test"].split())
    return {c: {"f": f, "pr": 0.5, "re": None, "tp": 1, "fp": 1, "fn": 1, "numImages": 1} for c in CATEGORIES}
written = [{"scores": scores(row), "image_id": row["image_id"]} for row in reversed(rows)]
""".replace("CATEGORIES", repr(CATEGORIES))
WRITES = STAND_IN + "json.dump(written, open(arguments[arguments.index('-out') + 1], 'w'))"


@pytest.fixture
def corenlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the names of CoreNLP's jars."""
    folder = tmp_path / "corenlp"
    folder.mkdir()
    for name in CORENLP:
        (folder / name).touch()
    monkeypatch.setenv("CAPBENCH_SPICE", str(folder))
    return folder


@pytest.fixture
def items(make_items) -> Items:
    """Items whose texts are tokenised, so that Java is started for SPICE alone."""
    items = make_items(
        ["a dog runs", "nothing", "two cats", "...", "a dog runs"],
        [["a dog"], ["a cat"], ["cats", "two"], ["a cat"], ["a dog", "dogs"]],
    )
    tokenize_items(items)
    return items


def test_missing_corenlp_jars_are_named_with_their_source_and_their_places(tmp_path, monkeypatch):
    monkeypatch.delenv("CAPBENCH_SPICE", raising=False)
    with pytest.raises(MetricError, match=r"stanford-corenlp-3.6.0.jar and .*-models.jar, which pycoco") as caught:
        Spice().check()
    assert str(tmp_path / "cache/spice") in caught.value.message
    assert "bench fetch spice" in caught.value.hint
    assert "CAPBENCH_SPICE" in caught.value.hint


@pytest.mark.parametrize(("said", "version"), [
    ('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8),
    ('openjdk version "25" 2025-09-16', 25),
])  # fmt: skip
def test_version_of_java_is_read(said: str, version: int, stand_in_java):
    folder = stand_in_java(f"import sys; print('''{said}''', file=sys.stderr)")
    java_version.cache_clear()
    assert java_version(str(folder / "bin/java")) == version


def test_java_15_or_later_without_a_javascript_engine_is_found_out_before_work_starts(
    corenlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in_java
):
    stand_in_java("import sys; print('openjdk version \"17.0.15\"', file=sys.stderr)")
    java_version.cache_clear()
    monkeypatch.setattr(jar_module, "RHINO", tmp_path / "js.jar")
    with pytest.raises(MetricError, match=r"which Java 17 lacks.*\n.*librhino-java.*JAVA_HOME"):
        find_program()

    (corenlp / "other.jar").touch()  # neither an engine nor a jar at all
    with pytest.raises(MetricError, match="which Java 17 lacks"):
        find_program()

    with zipfile.ZipFile(corenlp / "rhino.jar", "w") as engine:
        engine.writestr("META-INF/services/javax.script.ScriptEngineFactory", "org.mozilla")
    assert corenlp / "rhino.jar" in find_program()

    (corenlp / "rhino.jar").rename(tmp_path / "js.jar")
    assert find_program()[-1] == tmp_path / "js.jar"


def test_command_names_main_class_files_and_released_options(corenlp: Path, tmp_path: Path, stand_in_java):
    stand_in_java(STAND_IN)
    java_version.cache_clear()
    heap, cp, jars, *rest = command(find_program(), tmp_path / "in.json", tmp_path / "out.json", "2G")
    assert (heap, cp) == ("-Xmx2G", "-cp")
    assert [Path(jar).name for jar in jars.split(":")][:3] == [*CORENLP, "spice-1.0.jar"]
    assert {"SceneGraphParser-1.0.jar", "Meteor-1.5.jar"} <= {Path(jar).name for jar in jars.split(":")}
    assert rest == [
        "edu.anu.spice.SpiceScorer", str(tmp_path / "in.json"), "-out", str(tmp_path / "out.json"), "-subset", "-silent"
    ]  # fmt: skip


def test_output_of_the_jar_is_read_by_id_and_null_is_no_number():
    names = [row["image_id"] for row in RECORDED]
    scores = parse(json.dumps(RECORDED[::-1]), names)
    assert [score["All"] for score in scores] == [
        [0.75, 0.75, 0.75], [0, 0, 0], [0, 0, 0], [pytest.approx(2 / 3), 0.5, 1], [0, 0, 0]
    ]  # fmt: skip
    assert scores[0]["Object"] == [0.75, 0.75, 0.75]
    assert scores[2]["Object"] == [None, None, None]  # its reference holds no tuple
    assert scores[0]["Color"] == [None, None, None]


@pytest.mark.parametrize("nan", ["NaN", '"NaN"', "null"])
def test_nan_is_understood_in_each_spelling(nan: str):
    entries = ", ".join(f'"{category}": {{"f": {nan}, "pr": 0, "re": 1}}' for category in CATEGORIES)
    assert parse(f'[{{"image_id": "0", "scores": {{{entries}}}}}]', ["0"])[0]["All"] == [None, 0, 1]


@pytest.mark.parametrize("content", ["", "[]", "{}", '[{"image_id": "0"}]', "[1]", json.dumps(RECORDED)])
def test_output_of_other_items_is_an_error(content: str):
    with pytest.raises(MetricError, match="SPICE did not return the scores of the 1 items"):
        parse(content, ["0"])


def test_items_get_their_scores_and_nan_becomes_a_failure(items: Items, corenlp: Path, stand_in_java, cache):
    stand_in_java(WRITES)
    java_version.cache_clear()
    scores = Spice().score(items, Context(cache=cache))
    # The fourth caption has no token: the jar is not asked about it.
    np.testing.assert_allclose(scores.values, [1 / 3, np.nan, 1, 0, 2 / 3])
    assert scores.failures == {1: "SPICE gave NaN: neither the caption nor its references hold a tuple"}
    np.testing.assert_array_equal(scores.parts["precision"], [0.5, 0.5, 0.5, 0, 0.5])
    assert set(scores.parts) == {
        "precision", "recall", "object", "attribute", "relation", "color", "size", "cardinality"
    }  # fmt: skip

    stand_in_java("raise SystemExit('Java was started for what is known')")
    again = Spice().score(items, Context(cache=cache))
    np.testing.assert_array_equal(again.values, scores.values)


def test_other_deaths_are_told_in_the_words_of_java(items: Items, corenlp: Path, stand_in_java):
    stand_in_java(STAND_IN + "sys.exit('java.lang.OutOfMemoryError: Java heap space')")
    java_version.cache_clear()
    with pytest.raises(MetricError, match=r"SPICE ended with exit code 1.*\n.*OutOfMemoryError"):
        Spice().score(items, Context())


def test_java_that_hangs_is_stopped(items: Items, corenlp: Path, stand_in_java):
    stand_in_java(STAND_IN + "import time; time.sleep(60)")
    java_version.cache_clear()
    with pytest.raises(MetricError, match=r"SPICE did not finish within 0\.5 s"):
        Spice(timeout=0.5).score(items, Context())


def test_settings_that_change_no_value_are_not_in_the_fingerprint():
    assert Spice(timeout=5, memory="1G").fingerprint() == Spice().fingerprint()
