"""Model classes of lm-eval behind our contract; lmms-eval and vLLM, where they are missing."""

from importlib.util import find_spec

import pytest
from tiny_images import plain_png
from tiny_llm import make_tiny_llama, make_tiny_llava

from capbench.adapters import Caption, CaptionRequest, ImageHandle
from capbench.adapters.aliases import resolve_model
from capbench.adapters.captioners.lmms import LmmsCaptioner
from capbench.errors import AdapterError

GREEDY = {"max_new_tokens": 6, "do_sample": False}


def captions_of(
    model: LmmsCaptioner, *asked: CaptionRequest, batch_size: int | None = None
) -> tuple[dict[int, Caption], dict[int, str]]:
    captions: dict[int, Caption] = {}
    failures: dict[int, str] = {}
    for batch in model.stream(asked, batch_size):
        captions |= batch.captions
        failures |= batch.failures
    return captions, failures


def picture(colour: str) -> ImageHandle:
    return ImageHandle(plain_png(colour))


def seen(handle: ImageHandle, prompt: str = "Describe it.") -> CaptionRequest:
    return CaptionRequest("0", b"", prompt, GREEDY, pixels=handle)


def test_dummy_of_lm_eval_answers_every_request():
    asked = [CaptionRequest(str(n), None, "Describe it.", GREEDY) for n in range(5)]
    captions, failures = captions_of(LmmsCaptioner("dummy", package="lm_eval"), *asked, batch_size=2)
    assert captions == {n: Caption("lol") for n in range(5)}
    assert failures == {}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> LmmsCaptioner:
    folder = make_tiny_llama(tmp_path_factory.mktemp("llama"))
    return LmmsCaptioner("hf", package="lm_eval", pretrained=str(folder), device="cpu", batch_size=2)


def test_language_model_of_lm_eval_writes_what_transformers_writes(llama: LmmsCaptioner):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    prompt = "A dog runs. Describe it."
    captions, _ = captions_of(llama, CaptionRequest("0", None, prompt, GREEDY))
    folder = llama.arguments["pretrained"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(prompt, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(folder)
    expected = model.generate(**inputs, max_new_tokens=6, do_sample=False)[0, inputs.input_ids.shape[1] :]
    assert captions[0].text == tokenizer.decode(expected, skip_special_tokens=True)
    assert captions[0].text


def test_language_model_is_not_shown_images(llama: LmmsCaptioner):
    with pytest.raises(AdapterError, match="does not take images"):
        captions_of(llama, seen(picture("red")))


def test_fingerprint_is_that_of_the_files_and_leaves_out_what_does_not_matter(llama: LmmsCaptioner):
    fingerprint = llama.fingerprint()
    assert fingerprint["arguments"] == {}
    assert fingerprint["checkpoint"].startswith("sha256 ")
    assert fingerprint["package"] == "lm_eval"


def test_model_with_images_of_lm_eval_is_shown_them(tmp_path):
    folder = make_tiny_llava(tmp_path / "llava")
    model = LmmsCaptioner("hf-multimodal", package="lm_eval", pretrained=str(folder), device="cpu")
    asked = [seen(picture("red")), seen(ImageHandle(b"no image")), seen(picture("blue")), seen(picture("red"))]
    batches = list(model.stream(asked))
    captions = {at: caption for batch in batches for at, caption in batch.captions.items()}
    assert captions.keys() == {0, 2, 3}
    assert captions[0] == captions[3] != captions[2]
    unseen = {at: reason for batch in batches for at, reason in batch.unseen.items()}
    assert unseen.keys() == {1}
    assert "is not an image" in unseen[1]


def test_batch_that_fails_is_asked_one_by_one():
    # This class of lm-eval refuses an empty prompt, without saying which.
    asked = [CaptionRequest(str(n), None, text, GREEDY) for n, text in enumerate(["a", " ", "c"])]
    captions, failures = captions_of(LmmsCaptioner("dummy", package="lm_eval"), *asked)
    assert captions.keys() == {0, 2}
    assert failures[1].startswith("AssertionError")
    with pytest.raises(AdapterError, match="writes no caption: AssertionError"):
        captions_of(LmmsCaptioner("dummy", package="lm_eval"), *[CaptionRequest("0", None, "", GREEDY)] * 2)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"model": "dummy", "package": "other"}, "package=[^ ]* is not known"),
        ({"model": "no-such-model", "package": "lm_eval"}, "cannot be loaded: ValueError"),
        ({"model": "hf", "package": "lm_eval", "colour": "red"}, "cannot be loaded"),
    ],
)
def test_model_that_cannot_be_loaded_is_named(arguments, fault: str):
    with pytest.raises(AdapterError, match=fault):
        LmmsCaptioner(**arguments)


@pytest.mark.parametrize(
    ("package", "model", "arguments"),
    [("lmms_eval", "lmms", "model=llava_hf"), ("vllm", "vllm", "pretrained=llava-hf/llava-1.5-7b-hf")],
)
def test_missing_package_is_named_before_anything_is_loaded(package: str, model: str, arguments: str):
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed here")
    spec = resolve_model(model, arguments)
    assert spec.role == "captioner"
    with pytest.raises(AdapterError, match=f"package {package} is not installed") as error:
        spec.load()
    if model == "vllm":
        assert "--model openai" in error.value.hint
