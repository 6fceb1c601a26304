"""The hub of these tests is on this machine, so that what is asked of it can be counted."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from counting_server import Listener
from hub_cache import COMMIT, arrive
from hub_server import Hub, served_hub
from huggingface_hub import constants
from tiny_lvlm import make_tiny_llava

from capbench.adapters.aliases import resolve_model
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.checkpoint_identity import hub_commit
from capbench.errors import AdapterError
from capbench.hub import NotInCache, asked_once, commit_of, keep_commit, refusal, unreachable


@pytest.fixture
def known_as_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes an address the hub of this process, with an empty cache."""

    def take(address: str) -> None:
        paths = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + paths)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        # transformers asks for folders by an object that keeps the address of its first hub.
        monkeypatch.setattr("transformers.utils.hub._hf_api", None)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        monkeypatch.delenv("HF_TOKEN", raising=False)

    return take


@pytest.fixture
def silent(known_as_hub: Callable[[str], None]) -> Iterator[Listener]:
    """A hub that hangs up."""
    opened = Listener()
    known_as_hub(opened.address)
    yield opened
    opened.close()


@pytest.fixture
def hub(known_as_hub: Callable[[str], None], tmp_path: Path) -> Iterator[Hub]:
    """A hub that answers, with a model of two commits."""
    with served_hub(tmp_path / "on_the_hub") as served:
        known_as_hub(served.address)
        yield served


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a configuration."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    return tmp_path / "model"


def test_hub_that_does_not_answer_is_asked_once_for_all_that_is_loaded(silent: Listener):
    with pytest.raises(AdapterError, match=f"model 'some/model': it is not in the hub's cache, and {silent.address}"):
        hub_commit("some/model", None)
    # The library itself may have tried it twice.
    asked = silent.asked
    with pytest.raises(AdapterError, match="it is not in the hub's cache, and http") as caught:
        resolve_model("llava-1.5").load()
    assert "'hf download llava-hf/llava-1.5-7b-hf'" in caught.value.hint
    assert silent.asked == asked


def test_what_the_cache_holds_is_had_though_the_hub_does_not_answer(silent: Listener, folder: Path, tmp_path: Path):
    arrive(tmp_path / "hub", "some/model", folder)
    assert commit_of("some/model") == COMMIT
    asked = silent.asked
    assert commit_of("some/model", COMMIT) == COMMIT
    with pytest.raises(NotInCache):
        commit_of("some/model", "f" * 40)
    assert silent.asked == asked


def test_nobody_is_asked_about_a_folder_or_where_the_user_forbids_it(
    silent: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with asked_once(str(tmp_path)):
        pass
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert unreachable() == "HF_HUB_OFFLINE is set"
    with pytest.raises(AdapterError, match="not in the hub's cache, and HF_HUB_OFFLINE is set"):
        hub_commit("some/model", None)
    assert silent.asked == 0


def test_libraries_ask_again_afterwards_and_other_faults_stay_what_they_are(
    silent: Listener, monkeypatch: pytest.MonkeyPatch
):
    from datasets import config

    monkeypatch.setattr(config, "HF_HUB_OFFLINE", False)
    with pytest.raises(NotInCache):
        commit_of("some/model")
    assert unreachable().startswith(f"{silent.address} does not answer: ")
    with pytest.raises(ZeroDivisionError), asked_once("some/model"):
        assert constants.HF_HUB_OFFLINE and config.HF_HUB_OFFLINE
        _ = 1 / 0
    assert not constants.HF_HUB_OFFLINE and not config.HF_HUB_OFFLINE
    with pytest.raises(NotInCache), asked_once("some/model"):
        raise ConnectionResetError


def test_commit_is_asked_for_once_and_stays_though_the_branch_moves(hub: Hub, folder: Path):
    first = hub.add("some/model", folder)
    assert commit_of("some/model") == first
    (folder / "config.json").write_text('{"changed": true}')
    second = hub.add("some/model", folder)
    assert commit_of("some/model") == first != second
    assert commit_of("some/model", second) == second
    assert len(hub.requests) == 2


def test_what_is_recorded_is_what_was_loaded_though_the_weights_are_replaced(
    hub: Hub, tiny_llava: Path, tmp_path: Path
):
    first = hub.add("some/llava", tiny_llava)
    captioner = HfCaptioner("some/llava", device="cpu")
    other = make_tiny_llava(tmp_path / "other", seed=1)
    assert hub.add("some/llava", other) != first
    assert captioner.fingerprint()["checkpoint"] == f"some/llava@{first}"
    # Another part, later: of the same commit.
    assert HfCaptioner("some/llava", device="cpu").fingerprint()["checkpoint"] == f"some/llava@{first}"
    assert hub.asked("*/resolve/main/*") == []
    assert all(first in request for request in hub.asked("*/resolve/*"))


def test_cache_notes_a_branch_only_when_all_is_there(
    hub: Hub, tiny_llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = hub.add("other/llava", tiny_llava)
    HfCaptioner("other/llava", device="cpu")
    ref = tmp_path / "hub/models--other--llava/refs/main"
    assert ref.read_text() == first
    shutil.copytree(tiny_llava, tmp_path / "moved")
    weights = (tmp_path / "moved/model.safetensors").rename(tmp_path / "weights")
    hub.add("other/llava", tmp_path / "moved")
    monkeypatch.setattr("capbench.hub._COMMITS", {})
    with pytest.raises(AdapterError, match=r"model\.safetensors"):
        HfCaptioner("other/llava", device="cpu")
    # Without the hub, that of which all files are there is loaded.
    assert ref.read_text() == first
    weights.rename(tmp_path / "moved/model.safetensors")
    (tmp_path / "moved/README.md").write_text("more")
    moved = hub.add("other/llava", tmp_path / "moved")
    monkeypatch.setattr("capbench.hub._COMMITS", {})
    HfCaptioner("other/llava", device="cpu")
    assert ref.read_text() == moved


def test_hub_whose_root_is_slow_or_that_fails_of_one_repository_is_asked_for_others(hub: Hub, folder: Path):
    hub.fault("slow", "/", seconds=60)
    hub.fault(500, "/api/models/some/broken*")
    with pytest.raises(NotInCache, match="answered 500 Internal Server Error"):
        commit_of("some/broken")
    commit = hub.add("some/model", folder)
    assert commit_of("some/model") == commit
    assert hub.asked("/") == []


def test_old_name_of_a_repository_stands_for_the_new_one(hub: Hub, folder: Path):
    commit = hub.add("owner/model", folder)
    hub.rename("model", "owner/model")
    assert commit_of("model") == commit


@pytest.mark.parametrize(
    ("revision", "token", "said"),
    [
        ("v9", "", "has no revision 'v9'"),
        (None, "", "it is gated, and you are not logged in"),
        (None, "hf_other", "it is gated, and your token has no access"),
        (None, "hf_unknown", r"does not know your token \(401\)"),
    ],
)
def test_refusal_says_why_and_what_to_do(
    revision: str | None, token: str, said: str, hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.add("owner/model", folder, gated=revision is None)
    hub.tokens = {"hf_other": set()}
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(AdapterError, match=said) as caught:
        hub_commit("owner/model", revision)
    assert caught.value.hint


def test_error_that_is_no_answer_of_the_hub_is_no_refusal():
    assert refusal(ValueError("of another kind")) is None


def test_part_of_a_commit_is_noted_only_where_nothing_was(hub: Hub, folder: Path, tmp_path: Path):
    commit = hub.add("some/model", folder)
    assert commit_of("some/model") == commit
    keep_commit("some/model", commit)
    ref = tmp_path / "hub/models--some--model/refs/main"
    assert not ref.exists(), "nothing of it is here"
    (tmp_path / "hub/models--some--model/snapshots" / commit).mkdir(parents=True)
    keep_commit("some/model", commit, is_whole=False)
    assert ref.read_text() == commit
    ref.write_text(COMMIT)
    keep_commit("some/model", commit, is_whole=False)
    assert ref.read_text() == COMMIT
