import inspect
import json
import re

import open_clip
import pytest

from capbench.adapters import CaptionRequest, adapters
from capbench.adapters.aliases import list_aliases, resolve_model
from capbench.adapters.captioners.recorded import RecordedCaptions
from capbench.benchmarks.published import values as published_values
from capbench.errors import AdapterError, DataError, UsageError


@pytest.fixture
def captions(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "1", "caption": "one"}\n')
    return path


def test_every_shipped_alias_can_be_resolved(subtests: pytest.Subtests):
    for name in list_aliases():
        with subtests.test(alias=name):
            spec = resolve_model(name)
            assert spec.name == name
            assert spec.description
            assert not re.search(r"[\s/:]", name)
            assert not spec.arguments.keys() & {"adapter", "description", "size"}
            json.dumps(spec.arguments)
            inspect.signature(adapters[spec.adapter]).bind(**spec.arguments)


def test_aliases_of_open_clip_name_models_that_it_has():
    named = [spec for spec in list_aliases().values() if spec.adapter == "open_clip"]
    specs = [spec for spec in named if "architecture" in spec.arguments]
    assert len(specs) > 80
    for spec in specs:
        architecture, tag = spec.arguments["architecture"], spec.arguments["pretrained"]
        entry = open_clip.get_pretrained_cfg(architecture, tag)
        assert "/".join(entry["hf_hub"].split("/")[:2]) == spec.source
        if not spec.name.startswith("openai-"):
            assert spec.name == f"{architecture}.{tag}".lower()


def test_every_open_clip_model_of_the_dci_paper_has_an_alias():
    listed = {record.model for record in published_values.load("dci").records if record.table == 10}
    assert len(listed) == 62
    assert {str(model).replace(" ", ".").lower() for model in listed} <= set(list_aliases())


@pytest.mark.parametrize("name", [name for name, spec in list_aliases().items() if spec.printed_as])
def test_every_metric_that_an_alias_has_a_printed_name_for_is_printed_by_that_paper(name: str):
    for paper, labels in list_aliases()[name].printed_as.items():
        assert set(labels.values()) <= {record.metric for record in published_values.load(paper).records}


def test_row_that_open_clip_ran_with_gelu_says_so():
    for name, spec in list_aliases().items():
        if spec.adapter != "open_clip" or "architecture" not in spec.arguments:
            continue
        architecture, tag = spec.arguments["architecture"], spec.arguments["pretrained"]
        trained = open_clip.get_pretrained_cfg(architecture, tag).get("quick_gelu", False)
        built = open_clip.get_model_config(architecture).get("quick_gelu", False)
        mismatch = trained and not built and tag != "openai"
        assert (spec.arguments.get("quick_gelu") is False) == mismatch, name


def test_file_holds_one_alias_or_several(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("capbench.adapters.aliases.ALIAS_FOLDER", tmp_path)
    (tmp_path / "one.yaml").write_text("adapter: captions\npath: ./one.jsonl\ndescription: One.\n")
    (tmp_path / "several.yaml").write_text(
        "two: {adapter: captions, path: two.jsonl, size: 2M, source: hub/two}\n"
        "three: {adapter: captions, path: three.jsonl}\n"
    )
    aliases = list_aliases()
    assert list(aliases) == ["one", "three", "two"]
    # What begins with ./ ships with the alias.
    assert aliases["one"].arguments == {"path": str(tmp_path / "one.jsonl")}
    assert aliases["two"].arguments == {"path": "two.jsonl"}
    assert (aliases["two"].size, aliases["two"].source) == ("2M", "hub/two")
    assert resolve_model("two", "name=other").size == "2M"


def test_folder_with_an_alias_in_it_is_a_model(tmp_path):
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / "model.yaml").write_text("adapter: captions\npath: ./captions.jsonl\n")
    model = resolve_model(str(folder), "subset=true")
    assert (model.name, model.adapter) == ("trained", "captions")
    assert model.arguments == {"path": str(folder / "captions.jsonl"), "subset": True}
    with pytest.raises(UsageError, match="unknown model"):
        resolve_model(str(tmp_path))


@pytest.mark.parametrize(
    ("files", "adapter"),
    [
        ({"open_clip_config.json": {}, "config.json": {"architectures": ["CLIPModel"]}}, "open_clip"),
        ({"config.json": {"architectures": ["SiglipModel"]}}, "hf_clip"),
        ({"config.json": {"architectures": ["LlavaForConditionalGeneration"]}}, "hf"),
        ({"config.json": {"architectures": []}}, "hf"),
        ({"config.json": []}, "hf"),
    ],
)
def test_folder_with_a_checkpoint_is_a_model(tmp_path, files, adapter: str):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    spec = resolve_model(str(folder), "dtype=fp32")
    assert (spec.name, spec.adapter) == ("mine", adapter)
    assert spec.arguments == {"name": "mine", "pretrained": str(folder), "dtype": "fp32"}
    (folder / "config.json").write_text("{")
    (folder / "open_clip_config.json").unlink(missing_ok=True)
    with pytest.raises(DataError, match="not JSON"):
        resolve_model(str(folder))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="unknown model"):
        resolve_model(str(tmp_path / "empty"))


def test_other_weights_than_an_aliass_own_come_from_elsewhere():
    own = list_aliases()["rn50.cc12m"].source
    assert resolve_model("rn50.cc12m", "dtype=bf16").source == own == "timm/resnet50_clip.cc12m"
    assert resolve_model("rn50.cc12m", "pretrained=yfcc15m").source == ""
    assert resolve_model("rn50.cc12m", "architecture=RN101").source == ""
    pinned = "clip-vit-base-patch32"
    assert (
        "revision" in resolve_model(pinned).arguments.keys() - resolve_model(pinned, "pretrained=a/b").arguments.keys()
    )


def test_every_tag_of_open_clip_is_a_model_by_its_architecture():
    every = open_clip.list_pretrained()
    assert len(every) > 190
    names = set()
    for architecture, tag in every:
        spec = resolve_model(architecture, {"pretrained": tag, "dtype": "bf16"})
        assert spec.adapter == "open_clip"
        assert spec.arguments.keys() - {"name"} == {"architecture", "pretrained", "dtype"}
        assert (spec.arguments["architecture"], spec.arguments["pretrained"]) == (architecture, tag)
        names.add(spec.name)
    assert len(names) == len(every)
    assert {"openai-clip-vit-b-32", "rn50.openai", "vit-b-32.laion2b_s34b_b79k"} <= names
    # An alias with another activation than the tag's is not the tag.
    assert resolve_model("RN50", "pretrained=cc12m").arguments.keys().isdisjoint({"quick_gelu"})


def test_models_of_open_clip_are_named_as_its_users_name_them(captions):
    assert resolve_model("ViT-B/32", "pretrained=openai") == resolve_model("openai-clip-vit-b-32")
    hub = resolve_model("hf-hub:laion/CLIP", "dtype=bf16")
    assert (hub.adapter, hub.arguments) == ("open_clip", {"pretrained": "hf-hub:laion/CLIP", "dtype": "bf16"})
    assert resolve_model("ViT-B-32", {"pretrained": str(captions)}).name == str(captions)
    with pytest.raises(UsageError, match=r"its weights are not named.*\n.*Tags: openai, laion400m_e31, "):
        resolve_model("ViT-B-32")
    with pytest.raises(UsageError, match="Did you mean 'ViT-B-32'"):
        resolve_model("ViT-B32")


@pytest.mark.parametrize("model", ["ViT-B-32", "openai-clip-vit-b-32", "open_clip"])
def test_random_weights_have_no_name_nor_printed_numbers_of_trained_ones(model: str):
    spec = resolve_model(model, "architecture=ViT-B-32,pretrained=random,seed=3")
    assert spec.name == "ViT-B-32 (random weights, seed 3)"
    assert (spec.source, spec.printed_as, spec.published_as) == ("", {}, {})
    assert resolve_model(model, "architecture=ViT-B-32,pretrained=random,name=CLIP").name == (
        "CLIP (random weights, seed 0)"
    )
    spec.check()


def served(model: RecordedCaptions, document: str) -> str:
    (batch,) = model.stream([CaptionRequest(document, None, "")])
    return batch.captions[0].text


@pytest.mark.parametrize(
    "name", ["mine.jsonl", "two words.jsonl", "C:\\captions\\mine.jsonl", "a,b=c.jsonl", "a:b.jsonl", "a #1.jsonl"]
)
def test_captions_of_a_file_are_served_whatever_its_name(tmp_path, captions, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    captions.rename(tmp_path / name)
    spec = resolve_model(f"captions:{name}")
    assert (spec.name, spec.adapter, spec.arguments) == (name.removesuffix(".jsonl"), "captions", {"path": name})
    model = spec.load()
    assert isinstance(model, RecordedCaptions)
    assert served(model, "1") == "one"


def test_name_of_recorded_captions_may_be_given(captions):
    assert resolve_model(f"captions:{captions}", "name=better").name == "better"
    assert resolve_model(f"captions:{captions}", "name=13").name == "13"
    assert resolve_model("captions", f"path={captions}").name == str(captions)
    assert resolve_model("captions", f"path={captions},name=better").name == "better"


def test_captions_without_a_file_are_an_error():
    with pytest.raises(UsageError, match="--model captions:: names no file"):
        resolve_model("captions:")
    with pytest.raises(UsageError, match="adapter 'captions': missing a required argument: 'path'"):
        resolve_model("captions").load()


@pytest.mark.parametrize(
    ("model", "nearest"), [("iiw-p5", "iiw-p5b"), ("captoins", "captions"), ("caption:x", "captions")]
)
def test_unknown_model_proposes_the_nearest_alias_or_adapter(model: str, nearest: str):
    with pytest.raises(UsageError) as caught:
        resolve_model(model)
    assert caught.value.message.startswith(f"unknown model '{model}'.")
    assert f"'{nearest}'?" in caught.value.message
    assert "captions:FILE" in caught.value.hint


def test_argument_that_an_adapter_does_not_take_names_those_that_it_takes(captions):
    with pytest.raises(UsageError) as caught:
        resolve_model(f"captions:{captions}", "nmae=x").load()
    assert caught.value.message == "--model mine: adapter 'captions': got an unexpected keyword argument 'nmae'"
    assert caught.value.hint == "Its arguments: path, name, subset. It takes no nmae."


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("llava-1.5", {}),
        ("llava-1.5-13b-judge", {}),
        ("openai-clip-vit-b-32", {}),
        ("hf_clip", {"pretrained": "some/clip"}),
        ("vllm", {"pretrained": "some/model"}),
    ],
)
def test_weights_that_are_nowhere_are_found_out_without_loading(model, arguments, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AdapterError, match="it is not in the hub's cache, and HF_HUB_OFFLINE is set") as caught:
        resolve_model(model, arguments).check()
    assert "hf download " in caught.value.hint


def test_weights_that_ship_are_there_and_an_adapter_that_loads_nothing_lacks_nothing():
    for model in ("shapes-clip", "shapes-llava", "shapes-pac", "captions:nowhere.jsonl"):
        resolve_model(model).check()


def test_model_that_its_own_code_alone_runs_says_so_and_other_weights_of_its_alias_are_tried():
    for model in ("molmo-7b-d", "jina-clip-v2"):
        for attempt in (resolve_model(model).check, resolve_model(model).load):
            with pytest.raises(AdapterError, match=f"{model}: only code of .*/.* runs it") as caught:
                attempt()
            assert "captions:FILE" in caught.value.hint
    with pytest.raises(AdapterError, match="it is not in the hub's cache"):
        resolve_model("molmo-7b-d", {"pretrained": "some/molmo"}).check()
