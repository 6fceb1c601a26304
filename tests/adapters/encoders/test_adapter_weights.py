"""LoRA over encoders: folders that peft writes, and LoRA tensors inside a checkpoint."""

import io
import json
import re
import shutil
import tarfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from feature_rows import stacked
from file_server import served
from safetensors.torch import load_file, save_file
from tiny_clip import FEW_WORDS, TinyClip, few_words, tiny_lora_state_dict
from tiny_images import noise_png
from transformers import CLIPModel

from capbench.adapters import ImageHandle, adapters
from capbench.adapters.aliases import resolve_model
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.encoders.open_clip import weight_of_factor
from capbench.downloads import MIRROR
from capbench.errors import AdapterError, DataError
from capbench.metrics.golden.tiny_inputs import RANK
from capbench.progress import silent

pytestmark = pytest.mark.costly

peft = pytest.importorskip("peft")

TEXTS = ["a dog", "two men, riding horses", "word " * 100]
# What DCI tunes (facebookresearch/DCI, train_clip.py).
DCI = {
    "r": 2,
    "lora_alpha": 6,
    "lora_dropout": 0.2,
    "bias": "lora_only",
    "target_modules": [
        *("k_proj", "v_proj", "q_proj", "out_proj", "fc1", "fc2"),
        *("visual_projection", "text_projection"),
    ],
}


@pytest.fixture
def images() -> list[ImageHandle]:
    return [ImageHandle(noise_png(number)) for number in range(4)]


def tuned(model: Any, folder: Path, **settings: Any) -> Any:
    """Lay LoRA over a model by peft, write it, and return the model with its weights merged."""
    torch.manual_seed(0)
    adapted = peft.get_peft_model(model, peft.LoraConfig(init_lora_weights=False, **settings))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad and name.endswith("bias"):
                parameter.add_(0.1 * torch.randn_like(parameter))
    adapted.save_pretrained(folder)
    return adapted.merge_and_unload().eval()


def model_of(tiny: TinyClip, adapter: str) -> Any:
    """Return the tiny CLIP as its library has it."""
    if adapter == "open_clip":
        return open_clip.create_model(f"local-dir:{tiny.open_clip_folder}")
    return CLIPModel.from_pretrained(tiny.hf_folder)


def load(tiny: TinyClip, adapter: str, **settings: Any) -> Any:
    folder = tiny.open_clip_folder if adapter == "open_clip" else tiny.hf_folder
    return adapters[adapter](pretrained=str(folder), device="cpu", **settings)


def features(encoder: Any, images: Sequence[ImageHandle]) -> np.ndarray:
    return np.concatenate([stacked(encoder.images(images)), stacked(encoder.texts(TEXTS))])


def assert_merged(ours: Any, merged: Any, other: Any, images: Sequence[ImageHandle]) -> None:
    """Assert that LoRA has the features of merged weights, and neither those nor the fingerprint of another model."""
    vectors = features(ours, images)
    assert ours.fingerprint() != other.fingerprint()
    assert abs(vectors - features(merged, images)).max() < 1e-6
    assert abs(vectors - features(other, images)).max() > 0.01


@pytest.fixture(scope="module")
def dci_lora(tiny_clip: TinyClip, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with what DCI tunes of the tiny CLIP, and the model with these weights merged; neither is changed."""
    folder = tmp_path_factory.mktemp("dci") / "lora"
    return folder, tuned(model_of(tiny_clip, "hf_clip"), folder, **DCI)


@pytest.fixture(scope="module")
def plain(tiny_clip: TinyClip) -> dict[str, Any]:
    """The tiny CLIP without LoRA, by adapter."""
    return {adapter: load(tiny_clip, adapter) for adapter in ("hf_clip", "open_clip")}


@pytest.mark.parametrize("settings", [DCI, DCI | {"bias": "none", "use_rslora": True}], ids=["DCI", "rslora"])
def test_lora_on_hf_clip_has_the_features_of_merged_weights(tiny_clip, plain, images, tmp_path, settings):
    merged = tuned(model_of(tiny_clip, "hf_clip"), tmp_path / "lora", **settings)
    whole = tmp_path / "whole"
    shutil.copytree(tiny_clip.hf_folder, whole)
    merged.save_pretrained(whole)
    with warnings.catch_warnings():
        # What one library says of another is not the user's to read.
        warnings.simplefilter("error", FutureWarning)
        ours = load(tiny_clip, "hf_clip", peft=str(tmp_path / "lora"))
    theirs = adapters["hf_clip"](pretrained=str(whole), device="cpu")
    assert_merged(ours, theirs, plain["hf_clip"], images)


def test_folder_in_the_cache_is_found_by_its_name(tiny_clip, dci_lora, tmp_path, monkeypatch):
    shutil.copytree(dci_lora[0], tmp_path / "checkpoints/dci_pick1")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    by_path = load(tiny_clip, "hf_clip", peft=str(dci_lora[0]))
    assert load(tiny_clip, "hf_clip", peft="dci_pick1").fingerprint() == by_path.fingerprint()
    assert resolve_model("dci-pick1").arguments["peft"] == "dci_pick1"


def test_fetched_archive_of_an_alias_is_found_by_its_name(tiny_clip, dci_lora, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(dci_lora[0], "dci_pick1")
    with served() as server:
        server.contents["dl.fbaipublicfiles.com/densely_captioned_images/dci_pick1.tar.gz"] = content.getvalue()
        monkeypatch.setenv(MIRROR, server.url(""))
        _, files = resolve_model("dci-pick1").resources()
        (piece,) = files.pieces()
        with pytest.raises(DataError, match="does not have the expected checksum"):
            piece.fetch(silent)
        # What is served here is not the released archive.
        unchecked = [download.model_copy(update={"sha256": None}) for download in files.source.downloads]
        (piece,) = replace(files, source=files.source.model_copy(update={"downloads": unchecked})).pieces()
        piece.fetch(silent)
    by_path = load(tiny_clip, "hf_clip", peft=str(dci_lora[0]))
    assert load(tiny_clip, "hf_clip", peft="dci_pick1").fingerprint() == by_path.fingerprint()


def test_biases_by_the_names_of_older_peft_are_taken(tiny_clip, dci_lora, images, tmp_path):
    new, _ = dci_lora
    ours = load(tiny_clip, "hf_clip", peft=str(new))
    expected = features(ours, images)
    # As in 2023: 'q_proj.bias', not 'q_proj.base_layer.bias', in a pickled file, with fewer settings.
    old = tmp_path / "old"
    old.mkdir()
    state = load_file(new / "adapter_model.safetensors")
    state = {name.replace(".base_layer.bias", ".bias"): value for name, value in state.items()}
    assert "base_model.model.text_model.encoder.layers.0.mlp.fc1.bias" in state
    torch.save(state, old / "adapter_model.bin")
    known = json.loads((new / "adapter_config.json").read_text())
    kept = ("peft_type", "r", "lora_alpha", "lora_dropout", "bias", "target_modules", "inference_mode")
    (old / "adapter_config.json").write_text(json.dumps({key: known[key] for key in kept}))
    older = load(tiny_clip, "hf_clip", peft=str(old))
    assert abs(features(older, images) - expected).max() < 1e-6


@pytest.mark.parametrize("targets", [["c_fc", "c_proj"], ["attn", "c_fc", "c_proj"]], ids=["MLP", "attention"])
def test_lora_on_open_clip_has_the_features_of_merged_weights(tiny_clip, plain, images, tmp_path, targets):
    merged = tuned(model_of(tiny_clip, "open_clip"), tmp_path / "lora", r=2, lora_alpha=6, target_modules=targets)
    folder = shutil.copytree(tiny_clip.open_clip_folder, tmp_path / "whole")
    weights = {name: value.contiguous() for name, value in merged.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    ours = load(tiny_clip, "open_clip", peft=str(tmp_path / "lora"))
    theirs = adapters["open_clip"](pretrained=str(folder), device="cpu")
    assert_merged(ours, theirs, plain["open_clip"], images)


@pytest.mark.parametrize("adapter", ["hf_clip", "open_clip"])
def test_lora_is_added_in_single_precision(tiny_clip: TinyClip, tmp_path: Path, adapter: str):
    targets = ["fc1"] if adapter == "hf_clip" else ["c_fc"]
    merged = tuned(model_of(tiny_clip, adapter), tmp_path / "lora", r=2, lora_alpha=6, target_modules=targets)
    name = "text_model.encoder.layers.0.mlp.fc1" if adapter == "hf_clip" else "transformer.resblocks.0.mlp.c_fc"
    expected = merged.get_submodule(name).weight
    half = load(tiny_clip, adapter, peft=str(tmp_path / "lora"), dtype="bf16")
    assert torch.equal(half._model.get_submodule(name).weight, expected.bfloat16())


def test_adapter_of_another_model_is_refused(tiny_clip: TinyClip, dci_lora: tuple[Path, Any], tmp_path: Path):
    shutil.copytree(dci_lora[0], tmp_path / "lora")
    with pytest.raises(AdapterError, match=r"lora: does not fit the model: .*not in the model"):
        load(tiny_clip, "open_clip", peft=str(tmp_path / "lora"))
    file = tmp_path / "lora" / "adapter_model.safetensors"
    state = load_file(file)
    name = "base_model.model.text_projection.lora_A.weight"
    save_file({key: value for key, value in state.items() if key != name}, file)
    with pytest.raises(AdapterError, match=rf"lora: does not fit the model: {name}: not in the adapter"):
        load(tiny_clip, "hf_clip", peft=str(tmp_path / "lora"))
    save_file({**state, "base_model.model.other.bias": torch.zeros(2)}, file)
    with pytest.raises(AdapterError, match=r"base_model\.model\.other\.bias: not in the model"):
        load(tiny_clip, "hf_clip", peft=str(tmp_path / "lora"))


@pytest.mark.parametrize("adapter", ["hf_clip", "open_clip"])
def test_peft_folder_as_the_model_itself_says_how_it_is_named(dci_lora, tmp_path, adapter):
    shutil.copytree(dci_lora[0], tmp_path / "lora")
    (tmp_path / "lora" / "config.json").unlink(missing_ok=True)
    with pytest.raises(AdapterError) as caught:
        adapters[adapter](pretrained=str(tmp_path / "lora"), device="cpu")
    assert f"pretrained=ITS_MODEL,peft={tmp_path / 'lora'}" in caught.value.hint


@pytest.mark.parametrize("adapter", ["hf_clip", "open_clip"])
def test_folder_that_is_no_adapter_is_refused(tiny_clip: TinyClip, tmp_path: Path, adapter: str):
    with pytest.raises(AdapterError, match=r"is not a folder with an adapter_config\.json"):
        load(tiny_clip, adapter, peft=str(tmp_path))


# --- LoRA tensors inside a checkpoint


def with_lora() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return a state dict with LoRA tensors as DAC has them, and the same with them added by hand, alpha 1."""
    state = tiny_lora_state_dict()
    merged = {name: value for name, value in state.items() if "lora_" not in name}
    for name, down in state.items():
        if name.endswith("lora_A"):
            weight = weight_of_factor(name)
            merged[weight] = merged[weight] + (state[f"{name[:-1]}B"] @ down).reshape(merged[weight].shape) / RANK
    return state, merged


def checkpoint_of(state: dict[str, torch.Tensor], path: Path) -> Path:
    """Write a checkpoint as DAC's training does."""
    named = {f"module.{name}": value for name, value in state.items()}
    torch.save({"epoch": 5, "name": "exp", "state_dict": named, "optimizer": {"state": {}}}, path)
    return path


def test_lora_inside_a_checkpoint_has_the_features_of_merged_weights(tiny_clip, plain, images, tmp_path, caplog):
    # DAC's own model code, given this state dict, has these features, too (to 1e-5, where they are 2.3 on average).
    state, merged = with_lora()
    dac, whole = checkpoint_of(state, tmp_path / "dac.pt"), checkpoint_of(merged, tmp_path / "whole.pt")
    keys = {"architecture": str(tiny_clip.architecture), "device": "cpu"}
    ours = adapters["open_clip"](pretrained=str(dac), lora_alpha=1, **keys)
    assert "randomly" not in caplog.text
    theirs = adapters["open_clip"](pretrained=str(whole), **keys)
    assert_merged(ours, theirs, plain["open_clip"], images)
    twice = adapters["open_clip"](pretrained=str(dac), lora_alpha=2, **keys)
    assert_merged(ours, theirs, twice, images)


@pytest.fixture
def few(tmp_path: Path) -> dict[str, str]:
    """Keys of a tiny CLIP that is loaded in a moment."""
    (tmp_path / "tiny-few-words.json").write_text(json.dumps(FEW_WORDS), encoding="utf-8")
    return {"architecture": str(tmp_path / "tiny-few-words.json"), "device": "cpu"}


def test_lora_inside_a_checkpoint_is_never_scaled_by_a_guess(few: dict[str, str], tmp_path: Path):
    state = few_words(tiny_lora_state_dict())
    dac = checkpoint_of(state, tmp_path / "dac.pt")
    plain = checkpoint_of({n: v for n, v in state.items() if "lora_" not in n}, tmp_path / "plain.pt")
    with pytest.raises(AdapterError, match=r"holds LoRA weights .*but not their scale") as caught:
        adapters["open_clip"](pretrained=str(dac), **few)
    assert "Set lora_alpha: it is 1" in caught.value.hint and "--model pac" in caught.value.hint
    with pytest.raises(AdapterError, match=r"lora_alpha=1: checkpoint .* holds no LoRA weights"):
        adapters["open_clip"](pretrained=str(plain), lora_alpha=1, **few)


_C_FC = "transformer.resblocks.0.mlp.c_fc"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: state.pop(f"{_C_FC}.lora_B"), f"{_C_FC}.lora_A has no {_C_FC}.lora_B"),
        (lambda state: state.pop(f"{_C_FC}.lora_A"), f"{_C_FC}.lora_B has no lora_A"),
        (lambda state: state.pop(f"{_C_FC}.weight"), f"{_C_FC}.lora_A has no {_C_FC}.weight"),
        (
            lambda state: state.update({f"{_C_FC}.lora_B": torch.zeros(7, 4)}),
            f"{_C_FC}.lora_A: [4, 64] and [7, 4] do not fit {_C_FC}.weight: [256, 64]",
        ),
        (
            lambda state: state.update({f"{_C_FC}.lora_A.default.weight": torch.zeros(4, 64)}),
            f"not named as in loralib: {_C_FC}.lora_A.default.weight",
        ),
        (lambda state: state.pop("visual.proj"), "visual.proj: not in the checkpoint"),
    ],
)
def test_lora_that_does_not_fit_is_named(few, tmp_path, change, reason):
    state = few_words(tiny_lora_state_dict())
    change(state)
    path = checkpoint_of(state, tmp_path / "dac.pt")
    with pytest.raises(AdapterError, match=re.escape(reason)):
        adapters["open_clip"](pretrained=str(path), lora_alpha=1, **few)


def test_lora_tensors_in_a_folder_of_transformers_are_named(tiny_clip: TinyClip, tmp_path: Path):
    shutil.copytree(tiny_clip.hf_folder, tmp_path, dirs_exist_ok=True)
    state = load_file(tmp_path / "model.safetensors")
    save_file(
        {**state, "visual_projection.lora_A.weight": torch.zeros(2, 64)},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(AdapterError, match=r"visual_projection\.lora_A\.weight: not in the architecture"):
        adapters["hf_clip"](pretrained=str(tmp_path), device="cpu")


def test_captioner_takes_biases_of_older_peft_too(tiny_qwen2_vl: Path, tmp_path: Path):
    model = HfCaptioner(str(tiny_qwen2_vl), device="cpu").model
    settings = {"r": 2, "bias": "lora_only", "target_modules": ["q_proj", "k_proj"]}
    merged = tuned(model, tmp_path / "lora", **settings)
    file = tmp_path / "lora" / "adapter_model.safetensors"
    state = {name.replace(".base_layer.bias", ".bias"): value for name, value in load_file(file).items()}
    assert any(name.endswith("q_proj.bias") for name in state)
    save_file(state, file)
    merged_model = HfCaptioner(str(tiny_qwen2_vl), device="cpu", peft=str(tmp_path / "lora")).model.merge_and_unload()
    theirs = merged.state_dict()
    for name, value in merged_model.state_dict().items():
        torch.testing.assert_close(value, theirs[name], atol=1e-6, rtol=0)
