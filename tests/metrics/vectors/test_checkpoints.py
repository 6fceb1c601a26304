import hashlib
import os

import pytest
from hub_cache import COMMIT, arrive

from capbench.errors import MetricError
from capbench.metrics.vectors.checkpoints import Checkpoint

NAME = "some/bert"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory):
    """An untrained BERT of two layers."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=20, **sizes)).save_pretrained(folder)
    return folder


def encoder(name: str = NAME) -> Checkpoint:
    return Checkpoint("the encoder", "encoder", name)


def test_checkpoint_that_arrives_after_it_was_refused_is_loaded(hub_cache, bert):
    with pytest.raises(MetricError, match=f"^the encoder '{NAME}': "):
        encoder().load("AutoModel")
    assert encoder().identity() == "not loaded"
    arrive(hub_cache, NAME, bert)
    assert encoder().identity() == f"commit {COMMIT}"
    assert type(encoder().load("AutoModel")).__name__ == "BertModel"


def test_file_that_arrives_later_than_the_others_ends_the_refusal(hub_cache, bert):
    snapshot = arrive(hub_cache, NAME, bert)
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(MetricError, match=r"model\.safetensors"):
        encoder().load("AutoModel")
    arrive(hub_cache, NAME, bert)
    assert type(encoder().load("AutoModel")).__name__ == "BertModel"


def test_what_is_loaded_is_the_commit_that_was_named_though_the_branch_moves(hub_cache, bert):
    arrive(hub_cache, NAME, bert)
    assert encoder().identity() == f"commit {COMMIT}"
    moved = arrive(hub_cache, NAME, bert, "f" * 40)
    config = (moved / "config.json").read_text()
    (moved / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 1'))
    assert encoder().load("AutoConfig").num_hidden_layers == 2
    assert encoder().identity() == f"commit {COMMIT}"
    assert Checkpoint("it", "model", NAME, "f" * 40).load("AutoConfig").num_hidden_layers == 1


def test_folder_is_known_by_names_sizes_and_contents_of_its_files(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "vocab.txt").write_bytes(b"a\nb")
    (tmp_path / "README.md").write_bytes(b"of no account")
    digest = hashlib.sha256()
    for name, content in (("config.json", b"{}"), ("vocab.txt", b"a\nb")):
        digest.update(f"{name}:{len(content)}:".encode() + hashlib.sha256(content).digest())
    assert encoder(str(tmp_path)).identity() == f"sha256 {digest.hexdigest()}"


def test_changed_weights_of_the_same_size_and_time_have_another_identity(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"one")
    before, status = encoder(str(tmp_path)).identity(), file.stat()
    assert encoder(str(tmp_path)).identity() == before
    file.write_bytes(b"two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert encoder(str(tmp_path)).identity() != before


def test_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(MetricError, match=r"^the encoder: checkpoint .*config\.json: Is a directory"):
        encoder(str(tmp_path)).identity()


def test_check_says_what_is_missing_before_work_starts(hub_cache, bert, tmp_path):
    encoder(str(bert)).check()
    (tmp_path / "empty").mkdir()
    with pytest.raises(MetricError, match=r"the folder .*empty has no config\.json"):
        encoder(str(tmp_path / "empty")).check()
    with pytest.raises(MetricError, match=f"'{NAME}' is neither a folder nor in the hub's cache"):
        encoder().check()
    with pytest.raises(MetricError, match="is neither a folder nor a hub name"):
        encoder("a/b/c").check()
    arrive(hub_cache, NAME, bert)
    encoder().check()


def test_file_of_a_checkpoint_is_found_in_folder_and_cache(hub_cache, bert):
    assert encoder(str(bert)).file("config.json") == bert / "config.json"
    assert encoder(str(bert)).file("modules.json") is None
    snapshot = arrive(hub_cache, NAME, bert)
    assert encoder().file("config.json") == snapshot / "config.json"
    assert encoder().file("modules.json") is None


@pytest.mark.parametrize("has_bar", [True, False])
def test_what_transformers_says_is_as_before_after_loading(has_bar: bool, bert):
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    switch = {True: logging.enable_progress_bar, False: logging.disable_progress_bar}
    switch[has_bar]()
    try:
        level = logging.get_verbosity()
        encoder(str(bert)).load("AutoConfig")
        assert logging.is_progress_bar_enabled() == has_bar
        assert logging.get_verbosity() == level
    finally:
        switch[before]()
