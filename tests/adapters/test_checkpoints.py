import io
import json
import os
import pickle
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_clip import FEW_WORDS, TinyClip, few_words, tiny_state_dict

from capbench.adapters import adapters
from capbench.adapters.checkpoints import mismatch, tensor_shapes
from capbench.adapters.encoders.pac import read_pac_checkpoint
from capbench.errors import AdapterError, BenchError
from capbench.metrics.vectors.checkpoints import Checkpoint


class _Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "it ran")


@pytest.fixture
def refused(tmp_path: Path):
    """Return a function that gives the error with which a checkpoint is refused."""
    architecture = tmp_path / "tiny-few-words.json"
    architecture.write_text(json.dumps(FEW_WORDS), encoding="utf-8")

    def load(path: Path) -> AdapterError:
        with pytest.raises(AdapterError) as caught:
            adapters["open_clip"](pretrained=str(path), architecture=str(architecture))
        return caught.value

    return load


def test_pickled_code_is_named_and_not_run(tmp_path: Path, refused):
    ran = tmp_path / "ran"
    path = tmp_path / "weights.pt"
    torch.save({"state_dict": few_words(tiny_state_dict()), "extra": _Malicious(ran)}, path)
    error = refused(path)
    assert error.message.startswith(f"checkpoint {path}: holds pickled code (")
    assert "which was not run" in error.message
    assert "model.state_dict()" in error.hint
    plain = tmp_path / "weights.bin"
    plain.write_bytes(pickle.dumps(_Malicious(ran)))
    assert f"checkpoint {plain}: " in refused(plain).message
    assert not ran.exists()


def test_torchscript_archive_is_refused(tmp_path: Path, refused):
    path = tmp_path / "scripted.pt"
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    error = refused(path)
    assert error.message.startswith(f"checkpoint {path}: is a TorchScript archive")
    assert "pretrained=openai" in error.hint


@pytest.mark.parametrize("kept", [0, 3, 1000, 100_000])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_truncated_file_is_named(kept: int, suffix: str, tiny_clip: TinyClip, tmp_path: Path, refused):
    whole = tiny_clip.checkpoint if suffix == ".pt" else tiny_clip.open_clip_folder / "open_clip_model.safetensors"
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(whole.read_bytes()[:kept])
    error = refused(path)
    assert error.message.startswith(f"checkpoint {path}: {'cannot be read: ' if kept else 'is empty'}")
    assert "SHA-256" in error.hint


def test_zip_and_list_that_are_no_checkpoint_are_named(tmp_path: Path, refused):
    path = tmp_path / "weights.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing")
    assert refused(path).message.startswith(f"checkpoint {path}: cannot be read: ")
    torch.save([torch.zeros(2)], path)
    assert refused(path).message.startswith(f"checkpoint {path}: ")


def test_tensors_that_do_not_fit_are_named(tmp_path: Path, refused):
    path = tmp_path / "weights.pt"
    state = few_words(tiny_state_dict())
    state["visual.proj"] = torch.zeros(64, 48)
    torch.save(state, path)
    error = refused(path)
    assert f"checkpoint {path} does not fit architecture tiny-few-words: " in error.message
    assert "visual.proj: [64, 48] in the checkpoint, [64, 32] in the architecture" in error.message
    del state["visual.proj"]
    torch.save(state, path)
    assert "visual.proj: not in the checkpoint" in refused(path).message
    torch.save({**few_words(tiny_state_dict()), "visual.more": torch.zeros(1)}, path)
    assert "visual.more: not in the architecture" in refused(path).message


@pytest.mark.parametrize(
    ("tower", "change", "name"),
    [
        ("vision_cfg", {"image_size": 64}, "visual.positional_embedding: [17, 64] in the checkpoint, [65, 64]"),
        ("text_cfg", {"context_length": 40}, "positional_embedding: [77, 64] in the checkpoint, [40, 64]"),
        ("vision_cfg", {"layers": 2}, "visual.transformer.resblocks.2."),
        ("text_cfg", {"layers": 5}, "transformer.resblocks.2."),
    ],
)
def test_another_architecture_is_refused_and_not_stretched(tower, change, name, tmp_path):
    torch.save(few_words(tiny_state_dict()), tmp_path / "weights.pt")
    architecture = {**FEW_WORDS, tower: {**FEW_WORDS[tower], **change}}
    path = tmp_path / f"other-{'-'.join(change)}-{next(iter(change.values()))}.json"
    path.write_text(json.dumps(architecture))
    with pytest.raises(AdapterError) as caught:
        adapters["open_clip"](pretrained=str(tmp_path / "weights.pt"), architecture=str(path))
    assert f"does not fit architecture {path.stem}: " in caught.value.message
    assert name in caught.value.message
    assert bool(re.search(r"; and \d+ more", caught.value.message)) == ("layers" in change)
    assert len(caught.value.message) < 700


def test_shapes_are_the_same_whatever_the_format(tiny_clip: TinyClip):
    expected = {name: tuple(value.shape) for name, value in tiny_state_dict().items()}
    assert tensor_shapes(tiny_clip.checkpoint) == expected
    assert tensor_shapes(tiny_clip.openai_state_dict) == expected
    assert tensor_shapes(tiny_clip.open_clip_folder / "open_clip_model.safetensors") == expected


def test_other_messages_are_cut_to_their_first_line():
    assert mismatch("out of luck\nsecond line") == "out of luck"


class _Blocked:
    """Names a function that torch reads in no file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


def pickled(content: str) -> bytes:
    if content == "html":
        return b"<!DOCTYPE html>"
    file = io.BytesIO()
    torch.save({"state_dict": _Malicious(Path("ran")) if content == "code" else _Blocked()}, file)
    return file.getvalue()


def _open_clip(tiny: TinyClip, folder: Path, content: bytes) -> None:
    (folder / "weights.pt").write_bytes(content)
    adapters["open_clip"](pretrained=str(folder / "weights.pt"), architecture=str(tiny.architecture))


def _pac(tiny: TinyClip, folder: Path, content: bytes) -> None:
    (folder / "pac.pth").write_bytes(content)
    read_pac_checkpoint(folder / "pac.pth")


def _without_weights(tiny: TinyClip, folder: Path, content: bytes) -> str:
    shutil.copytree(tiny.hf_folder, folder / "clip", ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "clip" / "pytorch_model.bin").write_bytes(content)
    return str(folder / "clip")


def _hf(tiny: TinyClip, folder: Path, content: bytes) -> None:
    adapters["hf_clip"](pretrained=_without_weights(tiny, folder, content))


def _of_metric(tiny: TinyClip, folder: Path, content: bytes) -> None:
    Checkpoint("text model", "model", _without_weights(tiny, folder, content)).load("AutoModel")


def _peft(tiny: TinyClip, folder: Path, content: bytes) -> None:
    from peft import LoraConfig

    LoraConfig(target_modules=["fc1"]).save_pretrained(folder)
    (folder / "adapter_model.bin").write_bytes(content)
    adapters["hf_clip"](pretrained=str(tiny.hf_folder), peft=str(folder), device="cpu")


@pytest.mark.parametrize("load", [_open_clip, _pac, _hf, _of_metric, _peft])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("code", r"holds pickled code \([\w.]+\), which was not run"),
        ("blocked", "posix.system"),
        ("html", "nothing in it was run"),
    ],
)
def test_pickle_that_is_refused_is_told_of_in_words_of_our_own(load, content, said, tiny_clip, tmp_path):
    with pytest.raises(BenchError, match=said) as caught:
        load(tiny_clip, tmp_path, pickled(content))
    assert "weights_only" not in str(caught.value)
    assert len(caught.value.message.splitlines()) == 1
    assert not Path("ran").exists()
