"""The hub of these tests is a listener on this machine, so that what is asked of it can be counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_server import Listener
from hub_cache import COMMIT, arrive
from huggingface_hub import constants

from capbench.adapters.aliases import resolve_model
from capbench.adapters.checkpoint_identity import hub_commit
from capbench.errors import AdapterError
from capbench.hub import NotInCache, asked_once, require_repository, unreachable


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    opened = Listener()
    paths = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", opened.address + paths)
    monkeypatch.setattr(constants, "ENDPOINT", opened.address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield opened
    opened.close()


def test_hub_that_does_not_answer_is_asked_once_for_all_that_is_loaded(hub: Listener):
    with pytest.raises(AdapterError, match=f"model 'some/model': it is not in the hub's cache, and {hub.address}"):
        hub_commit("some/model", None)
    with pytest.raises(AdapterError, match="it is not in the hub's cache, and http") as caught:
        resolve_model("llava-1.5").load()
    assert "'hf download llava-hf/llava-1.5-7b-hf'" in caught.value.hint
    assert hub.asked == 1


def test_what_the_cache_holds_is_had_though_the_hub_does_not_answer(hub: Listener, tmp_path: Path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    arrive(tmp_path / "hub", "some/model", tmp_path / "model")
    assert hub_commit("some/model", None) == COMMIT
    assert hub.asked == 1


def test_hub_that_answers_is_asked_for_what_is_wanted(hub: Listener):
    hub.answers = True
    assert not unreachable()
    with pytest.raises(AdapterError, match="on the Hub") as caught:
        hub_commit("some/model", None)
    assert "does not answer" not in caught.value.message
    assert hub.asked > 1


def test_nobody_is_asked_about_a_folder_or_where_the_user_forbids_it(
    hub: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with asked_once(str(tmp_path)):
        pass
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert unreachable() == "HF_HUB_OFFLINE is set"
    with pytest.raises(AdapterError, match="not in the hub's cache, and HF_HUB_OFFLINE is set"):
        hub_commit("some/model", None)
    assert hub.asked == 0


def test_repository_of_which_no_cache_has_anything_is_nowhere_before_a_library_looks(
    hub: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_DATASETS_CACHE", raising=False)
    monkeypatch.delitem(sys.modules, "datasets.config", raising=False)
    for kind in ("model", "dataset"):
        with pytest.raises(NotInCache, match=r"not in the hub's cache, and http://127\.0\.0\.1:\d+ does not answer"):
            require_repository("owner/one", kind)
    (tmp_path / "hub/models--owner--one").mkdir(parents=True)
    require_repository("owner/one")
    with pytest.raises(NotInCache):
        require_repository("owner/one", "dataset")
    (tmp_path / "home/datasets/owner___one").mkdir(parents=True)
    require_repository("owner/one", "dataset")
    (tmp_path / "hub/datasets--owner--two").mkdir()
    require_repository("owner/two", "dataset")
    # Prepared data sets may lie elsewhere.
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "prepared"))
    with pytest.raises(NotInCache):
        require_repository("owner/one", "dataset")
    (tmp_path / "prepared/owner___one").mkdir(parents=True)
    require_repository("owner/one", "dataset")


def test_of_what_is_no_repository_or_can_be_asked_for_nothing_is_said(
    hub: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner/folder").mkdir(parents=True)
    for name in ("", "json", "owner/folder", "a/b/c", "https://example.org"):
        require_repository(name)
    assert hub.asked == 0
    hub.answers = True
    require_repository("owner/one")
    assert hub.asked == 1


def test_libraries_ask_again_afterwards_and_other_faults_stay_what_they_are(
    hub: Listener, monkeypatch: pytest.MonkeyPatch
):
    from datasets import config

    monkeypatch.setattr(config, "HF_HUB_OFFLINE", False)
    assert unreachable().startswith(f"{hub.address} does not answer: ")
    with pytest.raises(ZeroDivisionError), asked_once("some/model"):
        assert constants.HF_HUB_OFFLINE and config.HF_HUB_OFFLINE
        _ = 1 / 0
    assert not constants.HF_HUB_OFFLINE and not config.HF_HUB_OFFLINE
    with pytest.raises(NotInCache), asked_once("some/model"):
        raise ConnectionResetError
