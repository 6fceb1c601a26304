import pytest
from hub_cache import COMMIT, arrive

from capbench.adapters.checkpoint_identity import checkpoint_digest, checkpoint_identity, digest_of_files
from capbench.adapters.encoders.hf_clip import HfClipEncoder
from capbench.errors import AdapterError


def test_digests_follow_the_content(tmp_path):
    first, other = tmp_path / "one", tmp_path / "other"
    first.write_bytes(b"a")
    other.write_bytes(b"b")
    before = digest_of_files([first, other])
    assert before == digest_of_files([other, first])
    assert checkpoint_digest(first) != checkpoint_digest(other)
    other.write_bytes(b"ccc")
    assert digest_of_files([first, other]) != before
    with pytest.raises(AdapterError, match="No such file"):
        checkpoint_digest(tmp_path / "missing")


def test_folder_is_known_by_its_files_and_not_by_its_place(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "README.md").write_text(name)
    first, other = (checkpoint_identity(str(tmp_path / name), None) for name in ("one", "other"))
    assert first == other
    (tmp_path / "one" / "chat_template.jinja").write_text("{{ text }}")
    assert checkpoint_identity(str(tmp_path / "one"), None) != first


def test_name_on_the_hub_is_known_by_its_commit(hub_cache, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    arrive(hub_cache, "some/model", tmp_path / "model")
    expected = {"checkpoint": "some/model", "commit": COMMIT}
    assert checkpoint_identity("some/model", None) == expected
    assert checkpoint_identity("some/model", COMMIT) == expected
    with pytest.raises(AdapterError, match=r"^model 'some/other': ..*\n.*hf download some/other"):
        checkpoint_identity("some/other", None)


def test_encoder_of_the_hub_has_its_commit_in_the_fingerprint(hub_cache, tiny_clip, tmp_path):
    arrive(hub_cache, "some/clip", tiny_clip.hf_folder)
    encoder = HfClipEncoder("some/clip", device="cpu")
    assert encoder.fingerprint()["checkpoint"] == f"some/clip@{COMMIT}"
    # The branch moves; what this process loads stays what it is, unless another commit is named.
    arrive(hub_cache, "some/clip", tiny_clip.hf_folder, "f" * 40)
    assert encoder.fingerprint()["checkpoint"] == f"some/clip@{COMMIT}"
    assert HfClipEncoder("some/clip", device="cpu").fingerprint()["checkpoint"] == f"some/clip@{COMMIT}"
    other = HfClipEncoder("some/clip", revision="f" * 40, device="cpu")
    assert other.fingerprint()["checkpoint"] == f"some/clip@{'f' * 40}"
