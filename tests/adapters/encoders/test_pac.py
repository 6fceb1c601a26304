"""PAC-S and PAC-S++ models: which file they are, what it must be, and what it is made into."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from feature_rows import stacked
from tiny_clip import TinyClip, few_words, tiny_lora_state_dict, tiny_state_dict

from capbench.adapters import Encoder, ImageHandle
from capbench.adapters.aliases import list_aliases
from capbench.adapters.encoders.open_clip import OpenClipEncoder, weight_of_factor
from capbench.adapters.encoders.pac import PacEncoder, quick_gelu_of, read_pac_checkpoint, write_pac
from capbench.errors import AdapterError
from capbench.metrics.golden.tiny_inputs import RANK, save_checkpoint, with_lora

FIRST_BLOCK = "visual.transformer.resblocks.0"
TEXTS = ["A dog.", "Café 中文字", "word " * 100, ""]


def text_vectors(encoder: Encoder) -> np.ndarray:
    return stacked(encoder.texts(TEXTS))


@pytest.fixture(scope="module")
def pac_s(tmp_path_factory: pytest.TempPathFactory):
    state = {name: value for name, value in tiny_state_dict().items() if name != "attn_mask"}
    return save_checkpoint(state, tmp_path_factory.mktemp("pac") / "tuned.pth")


@pytest.fixture(scope="module")
def pac_s_plus(tmp_path_factory: pytest.TempPathFactory):
    return save_checkpoint(tiny_lora_state_dict(), tmp_path_factory.mktemp("pac") / "lora.pth")


def test_without_lora_it_is_the_clip_that_the_weights_make(pac_s, tiny_clip: TinyClip, tmp_path):
    pac = PacEncoder(pac_s, quick_gelu=True, device="cpu")
    clip = OpenClipEncoder(str(tiny_clip.open_clip_folder), device="cpu")
    assert pac.family == "pac"
    assert pac.context_length == clip.context_length == 77
    assert pac.token_ids(TEXTS) == clip.token_ids(TEXTS)
    np.testing.assert_array_equal(text_vectors(pac), text_vectors(clip))
    other = PacEncoder(pac_s, quick_gelu=False, device="cpu")
    assert np.abs(text_vectors(other) - text_vectors(pac)).max() > 1e-3
    from PIL import Image

    picture = tmp_path / "picture.png"
    Image.fromarray(np.arange(50 * 90, dtype=np.uint8).reshape(50, 90)).save(picture)
    (first,), (second,) = (list(encoder.images([ImageHandle(picture)])) for encoder in (pac, clip))
    np.testing.assert_array_equal(first.vectors[0], second.vectors[0])


def test_half_precision_is_near_single(pac_s_plus):
    single, half = (text_vectors(PacEncoder(pac_s_plus, dtype=dtype, device="cpu")) for dtype in ("fp32", "bf16"))
    assert not np.array_equal(single, half)
    cosines = (single * half).sum(1) / np.linalg.norm(single, axis=1) / np.linalg.norm(half, axis=1)
    assert cosines.min() > 0.97
    # Released code makes CLIP's weights single before it loads those of PAC-S.
    with pytest.raises(AdapterError, match="dtype=released is not known"):
        PacEncoder(pac_s_plus, dtype="released", device="cpu")


def test_another_architecture_without_lora_needs_the_activation(pac_s):
    with pytest.raises(AdapterError, match="does not say which activation its PAC-S ViT-64-8 has") as caught:
        PacEncoder(pac_s, device="cpu")
    assert "quick_gelu=true" in caught.value.hint


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"lora": False}, "is a PAC-S[+][+] ViT-64-8, not a PAC-S ViT-64-8"),
        ({"architecture": "ViT-B/32"}, "is a PAC-S[+][+] ViT-64-8, not a PAC-S[+][+] ViT-B-32"),
    ],
)
def test_a_file_of_another_model_is_refused(wanted: dict[str, Any], message: str, pac_s_plus):
    with pytest.raises(AdapterError, match=message) as caught:
        PacEncoder(pac_s_plus, **wanted, source="https://example.org/file", device="cpu")
    assert str(pac_s_plus) in caught.value.message
    assert "https://example.org/file" in caught.value.hint


def test_a_plain_name_is_looked_for_in_the_cache_folder(pac_s_plus, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    with pytest.raises(AdapterError, match="no such file, nor in") as caught:
        PacEncoder("mine.pth", device="cpu")
    assert str(tmp_path / "checkpoints") in caught.value.hint
    assert "checkpoint=FILE in --encoder_args" in caught.value.hint
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "mine.pth").write_bytes(pac_s_plus.read_bytes())
    assert PacEncoder("mine.pth", device="cpu").name == "mine"
    with pytest.raises(AdapterError, match=r"folder/mine\.pth: there is no such file\."):
        PacEncoder("folder/mine.pth", device="cpu")


def test_released_models_have_names_and_say_where_their_files_are():
    known = {name: spec for name, spec in list_aliases().items() if spec.adapter == "pac" and spec.source}
    assert sorted(known) == ["pac-s++-vit-b-32", "pac-s++-vit-l-14", "pac-s-vit-b-32", "pac-s-vit-l-14"]
    for name, spec in known.items():
        with pytest.raises(AdapterError, match=r"there is no such file.*\n.*https://"):
            spec.load()
        assert spec.arguments["lora"] == ("++" in name)
        assert spec.arguments["architecture"].lower() in name


def test_tokenizer_of_its_own_is_used_and_must_be_the_weights(pac_s_plus, tiny_clip, tiny_siglip, tmp_path):
    ours = PacEncoder(pac_s_plus, tokenizer=tiny_clip.hf_folder, device="cpu")
    official = PacEncoder(pac_s_plus, device="cpu")
    plain = ["A dog.", "two men, riding horses"]
    assert ours.token_ids(plain) == official.token_ids(plain)
    assert abs(text_vectors(ours) - text_vectors(official))[0].max() < 1e-6
    assert ours.fingerprint() != official.fingerprint()
    with pytest.raises(AdapterError, match=r"has 49408 tokens, but the tokenizer in .* has 39"):
        PacEncoder(pac_s_plus, tokenizer=tiny_siglip, device="cpu")
    with pytest.raises(AdapterError, match=r"tokenizer .*missing: "):
        PacEncoder(pac_s_plus, tokenizer=tmp_path / "missing", device="cpu")


@pytest.mark.parametrize(
    ("width", "patch", "text_width", "lora", "quick"),
    [
        (768, 32, 512, False, True),
        (1024, 14, 768, False, False),
        pytest.param(1024, 14, 768, True, True, marks=pytest.mark.costly),
    ],
)
def test_released_sizes_have_the_activation_of_the_model_that_they_are_tuned_from(
    width: int, patch: int, text_width: int, lora: bool, quick: bool, tmp_path
):
    """Towers as wide as the released ones, with one layer each."""
    from open_clip import CLIP

    vision = {"image_size": 2 * patch, "layers": 1, "width": width, "patch_size": patch}
    text = {"context_length": 8, "vocab_size": 9, "width": text_width, "heads": text_width // 64, "layers": 1}
    with torch.device("meta"):
        shapes = CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text).state_dict()
    state = {name: torch.zeros(value.shape, dtype=torch.half) for name, value in shapes.items()}
    file = save_checkpoint(with_lora(state) if lora else state, tmp_path / "wide.pth")
    read = read_pac_checkpoint(file)
    assert read.architecture == f"ViT-{'B' if width == 768 else 'L'}-{patch}"
    assert quick_gelu_of(file, read) is quick


def _of_rank_8(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.cat([value, value], dim=0 if name.endswith("A") else 1) if "lora_" in name else value
        for name, value in state.items()
    }


@pytest.mark.parametrize(("change", "rank"), [(dict, RANK), (_of_rank_8, 8)])
def test_lora_of_any_rank_is_added_to_attention_and_patch_convolution_and_not_to_the_mlp(change, rank, tmp_path):
    """Released code builds layers with alpha 1, so that the scale is 1 over the rank."""
    state = change(few_words(tiny_lora_state_dict()))
    read = read_pac_checkpoint(save_checkpoint(state, tmp_path / "pac++.pth"))
    assert read.lora
    changed = {name for name, value in read.state.items() if not torch.equal(value, state[name])}
    assert changed == {
        name
        for name in read.state
        if name.endswith(("in_proj_weight", "out_proj.weight")) or name == "visual.conv1.weight"
    }
    block = f"{FIRST_BLOCK}.attn."
    for weight, layer in (("in_proj_weight", "in_proj_weight_"), ("out_proj.weight", "out_proj.")):
        change = state[f"{block}{layer}lora_B"] @ state[f"{block}{layer}lora_A"]
        torch.testing.assert_close(read.state[block + weight], state[block + weight] + change / rank, rtol=0, atol=1e-6)
    change = (state["visual.conv1.lora_B"] @ state["visual.conv1.lora_A"]).reshape(64, 3, 8, 8)
    torch.testing.assert_close(
        read.state["visual.conv1.weight"], state["visual.conv1.weight"] + change / rank, rtol=0, atol=1e-6
    )


def test_file_of_another_rank_is_read_as_the_model_that_was_written(tmp_path):
    state = few_words(tiny_lora_state_dict())
    factors = {name: value for name, value in _of_rank_8(state).items() if "lora_" in name}
    plain = {name: value for name, value in state.items() if name not in factors}
    write_pac(plain, factors, tmp_path, 64, quick_gelu=True, tokenizer_files=())
    read = read_pac_checkpoint(tmp_path / "pac.pth").state
    merged = plain | {
        weight_of_factor(name): plain[weight_of_factor(name)]
        + (factors[f"{name[:-1]}B"] @ down).view(plain[weight_of_factor(name)].shape) / 8
        for name, down in factors.items()
        if name.endswith("A")
    }
    torch.testing.assert_close(read, merged, rtol=0, atol=1e-5)


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {key: value for key, value in state.items() if key != name}


def _of_two_ranks(state: dict[str, Any]) -> dict[str, Any]:
    layer = f"{FIRST_BLOCK}.attn.out_proj."
    return state | {name: value for name, value in _of_rank_8(state).items() if name.startswith(layer)}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_of_two_ranks, r"LoRA of rank 4 in every layer.*out_proj\.lora_A: \[8, 64\] in the checkpoint, \[4, 64\]"),
        (_without(f"{FIRST_BLOCK}.mlp.c_fc.lora_B"), rf"{FIRST_BLOCK}\.mlp\.c_fc\.lora_B: not in the checkpoint"),
        (_without(f"{FIRST_BLOCK}.attn.in_proj_weight_lora_A"), "in_proj_weight_lora_A: not in the checkpoint"),
        (_without("ln_final.bias"), r"ln_final\.bias: not in the checkpoint"),
        (_without("visual.proj"), r"visual\.proj: not in the checkpoint"),
        (_without("token_embedding.weight"), "not the weights of a CLIP.*token_embedding"),
        (lambda state: {**state, "head.weight": torch.zeros(2)}, r"head\.weight: not in the architecture"),
        (
            lambda state: {**state, f"{FIRST_BLOCK}.mlp.c_fc.weight": torch.zeros(128, 64)},
            r"c_fc\.weight: \[128, 64\] in the checkpoint, \[256, 64\]",
        ),
        (lambda state: {**state, "visual.conv1.weight": torch.zeros(60, 3, 8, 8)}, "width 60 and 64"),
        (
            lambda state: {f"module.{name}": value for name, value in state.items()},
            r"not the weights of a CLIP.*visual\.conv1\.weight",
        ),
        (lambda state: {}, "has no weights under 'state_dict'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, fault, tmp_path):
    file = save_checkpoint(change(few_words(tiny_lora_state_dict())), tmp_path / "bad.pth")
    with pytest.raises(AdapterError, match=fault) as caught:
        read_pac_checkpoint(file)
    assert str(file) in caught.value.message
    assert caught.value.hint


def test_a_plain_clip_a_list_and_a_folder_are_refused(tmp_path):
    file = tmp_path / "clip.pt"
    for content, said in (
        (few_words(tiny_state_dict()), "those of a plain CLIP"),
        ([torch.zeros(2)], "holds no mapping of names to tensors"),
    ):
        torch.save(content, file)
        with pytest.raises(AdapterError, match=said):
            read_pac_checkpoint(file)
    with pytest.raises(AdapterError, match=str(tmp_path)):
        read_pac_checkpoint(tmp_path)


@pytest.mark.filterwarnings("ignore:.*TorchScript archive", "ignore:.*torch.jit:FutureWarning")
def test_a_torchscript_archive_and_damaged_files_are_refused(tmp_path):
    whole = io.BytesIO()
    torch.save({"state_dict": few_words(tiny_state_dict())}, whole)
    files = {"cut.pth": whole.getvalue()[:200_000], "empty.pth": b"", "text.pth": b"<!DOCTYPE html><html>"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    for file in (tmp_path / name for name in (*files, "script.pt")):
        with pytest.raises(AdapterError, match=rf"{file.name}: (is a TorchScript|is empty|cannot be read)") as caught:
            read_pac_checkpoint(file)
        assert caught.value.hint
