"""Reading PAC-S and PAC-S++ checkpoints: what is added where, and what is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_clip import tiny_state_dict

from capbench.adapters.encoders.pac import read_pac_checkpoint
from capbench.errors import AdapterError
from capbench.metrics.golden.tiny_inputs import RANK, save_checkpoint, tiny_lora_state_dict

FIRST_BLOCK = "visual.transformer.resblocks.0"


@pytest.fixture(scope="module")
def lora_state() -> dict[str, Any]:
    return tiny_lora_state_dict()


def test_a_pac_s_file_gives_its_weights_and_the_sizes_of_its_towers(tmp_path: Path):
    state = {name: value.half() for name, value in tiny_state_dict().items() if name != "attn_mask"}
    read = read_pac_checkpoint(save_checkpoint(state, tmp_path / "pac.pth"))
    assert (read.architecture, read.lora) == ("ViT-64-8", False)
    assert read.state.keys() == state.keys()
    assert all(torch.equal(read.state[name], value.float()) for name, value in state.items())
    assert read.config["vision_cfg"] == {"image_size": 32, "layers": 3, "width": 64, "head_width": 64, "patch_size": 8}
    assert read.config["text_cfg"]["layers"] == 2


def test_lora_is_added_to_attention_and_patch_convolution_and_not_to_the_mlp(
    lora_state: dict[str, Any], tmp_path: Path
):
    state = lora_state
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
        product = state[f"{block}{layer}lora_B"] @ state[f"{block}{layer}lora_A"]
        torch.testing.assert_close(
            read.state[block + weight], state[block + weight] + product / RANK, rtol=0, atol=1e-6
        )
    product = (state["visual.conv1.lora_B"] @ state["visual.conv1.lora_A"]).reshape(64, 3, 8, 8)
    torch.testing.assert_close(
        read.state["visual.conv1.weight"], state["visual.conv1.weight"] + product / RANK, rtol=0, atol=1e-6
    )


def _without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda state: {key: value for key, value in state.items() if key != name}


def _of_rank_8(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.cat([value, value], dim=0 if name.endswith("A") else 1) if "lora_" in name else value
        for name, value in state.items()
    }


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_of_rank_8, r"LoRA of rank 4.*visual\.conv1\.lora_A is 64x24, not 32x24"),
        (_without(f"{FIRST_BLOCK}.mlp.c_fc.lora_B"), rf"no {FIRST_BLOCK}\.mlp\.c_fc\.lora_B"),
        (_without(f"{FIRST_BLOCK}.attn.in_proj_weight_lora_A"), "no .*in_proj_weight_lora_A"),
        (_without("ln_final.bias"), r"no ln_final\.bias"),
        (_without("visual.proj"), r"no visual\.proj"),
        (_without("token_embedding.weight"), "not the weights of a CLIP.*token_embedding"),
        (lambda state: {**state, "head.weight": torch.zeros(2)}, r"unknown head\.weight"),
        (
            lambda state: {**state, f"{FIRST_BLOCK}.mlp.c_fc.weight": torch.zeros(128, 64)},
            r"c_fc\.weight is 128x64, not 256x64",
        ),
        (lambda state: {**state, "visual.conv1.weight": torch.zeros(60, 3, 8, 8)}, "width 60 and 64"),
        (
            lambda state: {f"module.{name}": value for name, value in state.items()},
            r"not the weights of a CLIP.*visual\.conv1\.weight",
        ),
        (lambda state: {}, "has no weights under 'state_dict'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], fault: str, lora_state: dict[str, Any], tmp_path: Path
):
    file = save_checkpoint(change(lora_state), tmp_path / "bad.pth")
    with pytest.raises(AdapterError, match=fault) as caught:
        read_pac_checkpoint(file)
    assert str(file) in caught.value.message
    assert caught.value.hint


def test_a_plain_clip_a_list_and_a_folder_are_refused(tmp_path: Path):
    file = tmp_path / "clip.pt"
    for content, said in ((tiny_state_dict(), "those of a plain CLIP"), ([torch.zeros(2)], "no weights under 'state_")):
        torch.save(content, file)
        with pytest.raises(AdapterError, match=said):
            read_pac_checkpoint(file)
    with pytest.raises(AdapterError, match=str(tmp_path)):
        read_pac_checkpoint(tmp_path)


@pytest.mark.filterwarnings("ignore:.*TorchScript archive", "ignore:.*torch.jit:FutureWarning")
def test_a_torchscript_archive_and_damaged_files_are_refused(tmp_path: Path):
    whole = io.BytesIO()
    torch.save({"state_dict": tiny_state_dict()}, whole)
    files = {"cut.pth": whole.getvalue()[:200_000], "empty.pth": b"", "text.pth": b"<!DOCTYPE html><html>"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    for file in (tmp_path / name for name in (*files, "script.pt")):
        with pytest.raises(AdapterError, match=f"{file.name}: not a file of tensors alone") as caught:
            read_pac_checkpoint(file)
        assert "If you trust the file" in caught.value.hint
