"""What a file asks for: models that lie where the program runs are the user's."""

from pathlib import Path

import pytest

from capbench.access import requests_of


def test_long_text_is_no_path(tmp_path: Path):
    assert requests_of({"doc_to_text": "a word " * 100}, tmp_path / "task.yaml", lambda *keys: ".".join(keys)) == []


@pytest.mark.parametrize("name", ["model.yaml", "config.json", "open_clip_config.json", "adapter_config.json"])
def test_model_of_the_working_directory_needs_permission(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder in ("desk/mine", "desk/words", "stranger"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "desk/mine" / name).touch()
    (tmp_path / "desk/weights.pt").touch()
    monkeypatch.chdir(tmp_path / "desk")
    file = tmp_path / "stranger/models.yaml"

    def asked(text: str) -> list[str]:
        return [request.target for request in requests_of({"pretrained": text}, file, lambda *keys: ".".join(keys))]

    assert asked("mine") == ["mine"]
    assert asked("weights.pt") == ["weights.pt"]
    # A word is not the name of whatever folder or file is called so.
    assert asked("words") == asked("other.pt") == []
