"""What tells models from others that are named, and not loaded."""

from typing import Any

import pytest

from capbench.adapters.aliases import ModelSpec
from capbench.benchmarks.inputs.models import Models, NamedModels
from capbench.benchmarks.scale import mapping as models
from capbench.benchmarks.scale.mapping import model_identities


def identity(**arguments: Any) -> str:
    named = NamedModels(captioner=ModelSpec("mine", "hf", arguments))
    return model_identities(named, Models())["captioner"]


def test_model_is_known_by_what_its_arguments_and_their_files_say(tmp_path, monkeypatch: pytest.MonkeyPatch):
    folder, file = tmp_path / "folder", tmp_path / "weights.pt"
    (folder / "within").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"one")
    file.write_bytes(b"one")
    assert identity(pretrained=str(folder)) == identity(pretrained=str(folder))
    seen = {identity(pretrained=str(folder)), identity(pretrained=str(folder), dtype="fp16")}
    (folder / "model.safetensors").write_bytes(b"two")
    seen.add(identity(pretrained=str(folder)))
    (folder / "chat_template.jinja").write_bytes(b"one")
    seen.add(identity(pretrained=str(folder)))
    for content in (b"one", b"two"):
        file.write_bytes(content)
        seen |= {identity(checkpoint=file), identity(checkpoint=str(file), peft=str(folder))}
    assert len(seen) == 8
    monkeypatch.setattr(models, "version", lambda name: "2.0" if name == "torch" else None)
    assert identity(pretrained=str(folder)) not in seen


def test_checkpoint_that_is_named_without_its_folder_is_known_by_its_content(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    identities = {identity(checkpoint="clip.pth")}
    for content in (b"one", b"two"):
        (tmp_path / "checkpoints" / "clip.pth").write_bytes(content)
        identities.add(identity(checkpoint="clip.pth"))
    assert len(identities) == 3
