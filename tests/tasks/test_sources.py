from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from capbench.errors import TaskError
from capbench.tasks.index import BUILTIN_FOLDER, build_index
from capbench.tasks.schema import TaskConfig, load_task
from capbench.tasks.sources import load_source

Load = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture
def load(tmp_path: Path, write_card: Callable[..., Path], make_task: Callable[..., TaskConfig]) -> Load:
    """Write a card that is whole but for the keys given, and load it for a task beside it."""

    def card(tail: str = "", **keys: Any) -> Any:
        write_card(tail, **keys)
        return load_source(make_task(data_source="mine_source.yaml"), tmp_path / "mine.yaml")

    return card


def test_every_shipped_task_has_a_data_card_that_states_what_may_be_passed_on(subtests: pytest.Subtests):
    for entry in build_index().tasks:
        with subtests.test(task=entry.name):
            task, _ = load_task(entry.path)
            card = load_source(task, entry.path)
            assert card.generated or card.homepage.startswith("http")
            assert all((card.licence, card.terms, card.citation, card.how))
            assert card.generated or any(file.required for file in card.files)
            for download in card.downloads:
                assert (download.hub is not None) or download.url.startswith("https://")
            assert "redistribution" in card.model_fields_set
            if card.redistribution == "full":
                # Annotations that are free to pass on, or nothing but what capbench draws.
                free = ("Apache-2.0",) if card.generated else ("CC BY 4.0", "MIT")
                assert any(licence in card.licence for licence in free)
            # Photographs are under terms of their own.
            assert card.pictures == card.generated


def test_shipped_data_cards_have_names_and_titles_of_their_own():
    cards = sorted(BUILTIN_FOLDER.rglob("*_source.yaml"))
    assert len({path.name for path in cards}) == len(cards)
    titles = [yaml.safe_load(path.read_text())["title"] for path in cards]
    assert len(set(titles)) == len(titles)


def test_missing_card_is_an_error_that_names_it(make_task: Callable[..., TaskConfig], tmp_path: Path):
    with pytest.raises(TaskError, match=f"data_source 'none.yaml' is not in {tmp_path}"):
        load_source(make_task(data_source="none.yaml"), tmp_path / "mine.yaml")


URL = "https://example.org/a.zip"


@pytest.mark.parametrize(
    ("tail", "offset", "message"),
    [
        ("licnce: CC0\n", 1, "unknown key 'licnce'. Did you mean 'licence'?"),
        ("downloads:\n- file: a.zip\n", 2, "a download has either 'url' or 'hub'"),
        (f"downloads:\n- {{file: a.zip, url: {URL}, hub: a/b}}\n", 2, "a download has either 'url' or 'hub'"),
        (f"downloads:\n- {{file: ../a.zip, url: {URL}}}\n", 2, "'file' is a plain file name"),
        (f"downloads:\n- {{file: '..', url: {URL}}}\n", 2, "'file' is a plain file name"),
        (f"downloads:\n- {{file: /a.zip, url: {URL}}}\n", 2, "'file' is a plain file name"),
        (f"downloads:\n- file: a.zip\n  url: {URL}\n  unpack: rar\n", 4, "Input should be 'zip'"),
        (f"downloads:\n- file: a.zip\n  url: {URL}\n  sha265: x\n", 4, "unknown key 'sha265'. Did you mean 'sha256'?"),
    ],
)
def test_fault_of_a_card_is_named_with_its_line(load: Load, tmp_path: Path, tail: str, offset: int, message: str):
    with pytest.raises(TaskError) as caught:
        load(tail)
    lines = (tmp_path / "mine_source.yaml").read_text().splitlines()
    line = len(lines) - len(tail.splitlines()) + offset
    assert f"{tmp_path / 'mine_source.yaml'}:{line}: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["folder", "files"])
def test_only_data_that_is_generated_has_no_files(load: Load, key: str):
    with pytest.raises(TaskError, match=f"has no '{key}'"):
        load(**{key: None})
    assert load(generated=True, folder=None, files=None).generated
    with pytest.raises(TaskError, match="data that is generated has no 'folder'"):
        load(generated=True)


OTHERS = ("homepage", "licence", "terms", "citation", "how")


def test_card_of_ones_own_data_needs_title_folder_and_files(load: Load):
    card = load(**dict.fromkeys(OTHERS))
    assert (card.title, card.folder, card.licence, card.redistribution) == ("Mine", "mine", "", "scores")
    with pytest.raises(TaskError, match=r"has no 'homepage', 'licence', 'terms', 'citation', 'how'$"):
        load("downloads:\n- {file: a.zip, url: https://example.org/a.zip}\n", **dict.fromkeys(OTHERS))


@pytest.mark.parametrize("missing", ["licence", "terms", "citation", "how"])
def test_field_that_a_card_of_others_data_lacks_is_named(load: Load, tmp_path: Path, missing: str):
    with pytest.raises(TaskError, match=f"^{tmp_path / 'mine_source.yaml'}: has no '{missing}'; data of your own"):
        load(**{missing: None})
