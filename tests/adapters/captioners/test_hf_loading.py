"""Captioners of transformers: what is loaded, what is refused, and what tells two of them apart."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_clip import TinyClip
from tiny_images import noise_image

from capbench.adapters.aliases import list_aliases, resolve_model
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample
from capbench.errors import AdapterError


def test_fingerprint_changes_with_what_changes_captions(tiny_llava: Path, tiny_qwen2_vl: Path, tmp_path: Path):
    def fingerprint(folder: Path, **arguments: Any) -> str:
        return json.dumps(HfCaptioner(str(folder), device="cpu", **arguments).fingerprint(), sort_keys=True)

    other_template = tmp_path / "template"
    shutil.copytree(tiny_llava, other_template)
    with (other_template / "chat_template.jinja").open("a") as file:
        file.write(" ")
    copy = tmp_path / "copy"
    shutil.copytree(tiny_llava, copy)
    found = [
        fingerprint(tiny_llava),
        fingerprint(tiny_qwen2_vl),
        fingerprint(other_template),
        fingerprint(tiny_llava, dtype="bf16"),
        fingerprint(tiny_llava, prompt_format="<image>{prompt}"),
        fingerprint(tiny_qwen2_vl, system="You see."),
        fingerprint(tiny_qwen2_vl, max_pixels=56 * 56 * 2),
    ]
    assert len(set(found)) == len(found)
    # Where a folder lies and how captions are batched change nothing.
    assert fingerprint(copy, batch_size=3, workers=1, name="other") == found[0]


def test_more_pixels_than_allowed_are_made_fewer(tiny_qwen2_vl: Path):
    sample = CaptionSample("0", "the dog", noise_image(0).resize((200, 200)))
    sizes = [
        HfCaptioner(str(tiny_qwen2_vl), device="cpu", **limits).inputs([sample])["pixel_values"].shape[0]
        for limits in ({}, {"max_pixels": 56 * 56})
    ]
    assert sizes == [64, 16]


def without(folder: Path, target: Path, *names: str) -> Path:
    shutil.copytree(folder, target, ignore=lambda _, files: [name for name in files if name in names])
    return target


def rewrite(folder: Path, **keys: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))


def test_models_that_cannot_be_loaded_say_why(tiny_llava: Path, tiny_clip: TinyClip, tmp_path: Path):
    cases: list[tuple[Callable[[], HfCaptioner], str]] = [
        (lambda: HfCaptioner("no/such-model"), "no/such-model: "),
        (lambda: HfCaptioner(str(tmp_path)), "holds no config.json"),
        (lambda: HfCaptioner(str(tiny_clip.hf_folder)), "a model of the kind 'clip' writes no captions"),
        (lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "weights", "model.safetensors"))), "no file named"),
        (lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "processor", "processor_config.json"))), "processor"),
        (
            lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "template", "chat_template.jinja"))),
            "the model has no chat template",
        ),
        (lambda: HfCaptioner(str(tiny_llava), dtype="fp8"), "dtype=fp8 is not known"),
        (lambda: HfCaptioner(str(tiny_llava), device="gpu"), "device=gpu"),
        (lambda: HfCaptioner(str(tiny_llava), batch_size=0), "batch_size=0 is not a whole number above 0"),
        (lambda: HfCaptioner(str(tiny_llava), quantization="2bit"), "quantization=2bit|'accelerate'"),
        (lambda: HfCaptioner(str(tiny_llava), peft="no/such"), "peft=no/such|'peft'"),
        (lambda: HfCaptioner(str(tiny_llava), max_pixels=9), "CLIPImageProcessor takes no min_pixels and max_pixels"),
    ]
    for load, message in cases:
        with pytest.raises(AdapterError) as caught:
            load()
        assert re.search(message, caught.value.message), caught.value.message
        assert caught.value.hint or "batch_size" in message


def test_image_processor_that_is_missing_beside_a_tokenizer_is_an_error(tiny_vit_gpt2: Path, tmp_path: Path):
    folder = without(tiny_vit_gpt2, tmp_path / "blind", "preprocessor_config.json")
    with pytest.raises(AdapterError, match="blind: its image processor and tokenizer: ") as caught:
        HfCaptioner(str(folder), device="cpu")
    assert "model and processor" in caught.value.hint


def test_weights_of_another_model_are_an_error(tiny_llava: Path, tmp_path: Path):
    folder = without(tiny_llava, tmp_path / "deeper")
    config = json.loads((folder / "config.json").read_text())
    rewrite(folder, text_config={**config["text_config"], "num_hidden_layers": 3})
    with pytest.raises(AdapterError, match=r"weights do not fit config.json: .*layers\.2.*not in the checkpoint"):
        HfCaptioner(str(folder), device="cpu")


def test_code_of_a_repository_is_not_run_unless_it_is_trusted(tiny_llava: Path, tmp_path: Path):
    folder = without(tiny_llava, tmp_path / "remote")
    (folder / "ran.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\nclass Config: ...\n")
    rewrite(folder, model_type="cogvlm", auto_map={"AutoConfig": "ran.Config"})
    with pytest.raises(AdapterError, match="brings code of its own, which was not run") as caught:
        HfCaptioner(str(folder))
    assert "captions:FILE" in caught.value.hint
    assert "trust_remote_code=true" in caught.value.hint
    assert not (tmp_path / "trace").exists()


def test_code_of_a_repository_is_not_needed_where_the_library_has_a_class(tiny_llava: Path, tmp_path: Path):
    folder = without(tiny_llava, tmp_path / "both")
    (folder / "ran.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    rewrite(folder, auto_map={"AutoConfig": "ran.Config", "AutoModel": "ran.Model"})
    model = HfCaptioner(str(folder), device="cpu")
    assert type(model.model).__name__ == "LlavaForConditionalGeneration"
    assert not (tmp_path / "trace").exists()


_HF_ALIASES = {name: spec for name, spec in list_aliases().items() if spec.adapter == "hf"}


@pytest.mark.parametrize("name", [n for n, spec in _HF_ALIASES.items() if "runs_through" in spec.arguments])
def test_models_without_a_class_say_how_they_run_before_any_download(name: str):
    with pytest.raises(AdapterError, match=r"has no class for this model; nothing was downloaded") as caught:
        resolve_model(name).load()
    assert "captions:FILE" in caught.value.hint
    for adapter in resolve_model(name).arguments["runs_through"]:
        assert f"--model {adapter}" in caught.value.hint


@pytest.mark.parametrize("name", list(_HF_ALIASES))
def test_names_hold_arguments_that_the_adapter_takes(name: str):
    spec = resolve_model(name)
    inspect.signature(HfCaptioner).bind(**spec.arguments)
    assert spec.source == spec.arguments["pretrained"] or Path(spec.arguments["pretrained"]).is_dir()
    # Nobody has looked which commit a branch of the hub is at.
    assert "revision" not in spec.arguments
