"""``bench doctor``: what the machine has and lacks, and how to fix it."""

import sqlite3

import pytest

from capbench.benchmarks.store.store import Store


def findings(out: str) -> dict[str, tuple[str, str]]:
    """Return subject to state and detail."""
    lines = [line for line in out.splitlines() if line[:6].strip()]
    width = max(line.index("  ", 7) for line in lines) - 7
    return {line[7:].split("  ")[0].strip(): (line[:6].strip(), line[7 + width :].strip()) for line in lines}


def test_missing_java_is_no_fault_and_its_fix_is_told(bench, no_java):
    done = bench("doctor").succeeded("fix: pip install 'capbench[java]', apt-get install default-jre-headless")
    assert findings(done.out)["Java"][0] == "note"


def test_java_home_that_leads_nowhere_is_told_and_java_that_does_not_run_a_fault(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    bench("doctor").succeeded("fix: Point JAVA_HOME")
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    done = bench("doctor").failed(1)
    assert "does not run" in findings(done.out)["Java"][1]


def test_sound_store_is_ok_and_a_damaged_one_a_fault(bench, tmp_path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.put({"adapter": "test"}, {"text": "value"})
    assert findings(bench("doctor", "--store", path).out)["store"][0] == "ok"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET value = '1'")
    done = bench("doctor", "--store", path).failed(1)
    assert f"fix: Delete {path}" in done.out
    path.write_text("no database " * 50)
    assert "fix: Delete the file" in bench("doctor", "--store", path).out
    assert path.read_text().startswith("no database")


def test_cache_that_cannot_be_written_and_data_that_are_not_there_are_faults(bench, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        (tmp_path / "file").write_text("")
        patch.setenv("BENCH_CACHE", str(tmp_path / "file" / "cache"))
        done = bench("doctor").failed(1)
    assert "cannot be written: Not a directory" in done.out
    assert "BENCH_CACHE" in done.out
    monkeypatch.setenv("CAPBENCH_DATA", str(tmp_path / "no"))
    done = bench("doctor").failed(1)
    assert findings(done.out)["data"] == ("fault", f"CAPBENCH_DATA={tmp_path / 'no'} is not a folder")
    (tmp_path / "no" / "flickr8k").mkdir(parents=True)
    assert findings(bench("doctor").out)["data"] == ("ok", f"CAPBENCH_DATA={tmp_path / 'no'}: flickr8k")


def test_what_few_need_is_listed_with_its_use_and_how_to_get_it(bench, monkeypatch: pytest.MonkeyPatch, tmp_path):
    import nltk.data

    (tmp_path / "wordnet").mkdir()
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr("capbench.metrics.capture.wordnet._DEBIAN", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    done = bench("doctor")
    by_subject = findings(done.out)
    assert done.code == 0
    for subject, use, fix in (
        ("WordNet", "CAPTURE's synonyms", "fix: 'bench fetch capture' fetches it (10.8 MB; licence: "),
        ("NLTK's models", "CAPTURE's parser 'factual'", "fix: 'bench fetch capture' fetches it (5.86 MB; licence: "),
        ("FACTUAL", "CAPTURE's parser 'factual'", "fix: bench fetch capture"),
        ("text encoder", "CAPTURE's likeness of meaning", "fix: bench fetch capture"),
    ):
        assert by_subject[subject][0] == "note" and use in by_subject[subject][1]
        assert fix in done.out
    assert {"spaCy", "spaCy's English"} <= set(by_subject)
    (tmp_path / "wordnet" / "data.noun").touch()
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "wordnet"))
    by_subject = findings(bench("doctor").out)
    assert by_subject["WordNet"] == ("ok", f"{tmp_path / 'wordnet'} (CAPTURE's synonyms)")
