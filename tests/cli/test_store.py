"""``bench store``: what the store keeps, and how to make room."""

import sqlite3

import pytest

from capbench.benchmarks.store.store import Store


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        store.put({"adapter": "captioner"}, {str(n): "x" * 10_000 for n in range(100)})
        store.put({"tokenizer": "PTB"}, {"a": 1, "b": 2})
    return path


@pytest.mark.parametrize("action", [["stats"], ["prune", "--all"], ["verify"]])
def test_store_that_is_not_there_is_not_made(bench, tmp_path, action: list[str]):
    done = bench("store", *action, "--store", tmp_path / "no.sqlite").succeeded()
    assert done.out == f"there is no store at {tmp_path / 'no.sqlite'}; the first run makes it\n"
    assert not (tmp_path / "no.sqlite").exists()


def test_store_of_the_user_is_looked_at_unless_another_is_named(bench, tmp_path):
    assert str(tmp_path / "cache" / "store.sqlite") in bench("store", "stats").out


def test_stats_lists_producers_the_largest_first(bench, path):
    done = bench("store", "stats", "--store", path).succeeded()
    rows = [line.split() for line in done.out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [["captioner", "100", "1.0"], ["tokenizer=PTB", "2", "0.0"]]


@pytest.mark.parametrize(
    ("option", "deleted"),
    [
        (["--containing", "PTB"], "2 entries deleted, "),
        # 100 values of 10,000 characters, and their pages.
        (["--all"], "102 entries deleted, 1."),
        (["--older_than", "4"], "0 entries"),
        (["--older_than", "2.5"], "2 entries"),
    ],
)
def test_prune_deletes_what_is_named_and_says_how_much_was_freed(bench, path, option: list[str], deleted: str):
    bench("store", "prune", "--store", path).failed(2, "needs --older_than DAYS, --containing TEXT or --all")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET created = created - 3 * 86400 WHERE LENGTH(value) < 10")
    assert bench("store", "prune", *option, "--store", path).succeeded().out.startswith(deleted)
    shown = bench("store", "stats", "--store", path).out
    assert ("captioner" in shown, shown.endswith("MB\n")) == ((False, True) if option == ["--all"] else (True, False))


@pytest.mark.parametrize("action", [["stats"], ["prune", "--all"], ["verify"]])
def test_damaged_file_is_named_and_stays_where_it_is_looked_at(bench, tmp_path, action: list[str]):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_text("no database " * 50)
    done = bench("store", *action, "--store", damaged).failed(1)
    if action == ["verify"]:
        remedy = f"delete {damaged}: what it holds is computed anew"
        assert (done.out, done.err) == (f"store {damaged}: file is not a database\n{remedy}\n", "")
    assert "not a database" in done.err + done.out
    assert "elete " in done.err + done.out
    assert damaged.read_text() == "no database " * 50
    assert list(damaged.parent.glob("damaged*")) == [damaged]


@pytest.mark.parametrize("action", [["stats"], ["prune", "--all"], ["verify"]])
def test_folder_that_machines_share_is_looked_after_by_its_own_tools(bench, tmp_path, action: list[str]):
    bench("store", *action, "--store", f"{tmp_path}/shared/").failed(2, "with the tools of the folder or bucket")
