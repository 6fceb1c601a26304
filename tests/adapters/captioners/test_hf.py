"""Captioners of transformers: tiny models in the real formats, asked for captions in batches."""

import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from full_memory import FULL_MEMORY, fits
from PIL import Image
from tiny_images import noise_image, noise_png, noise_video

from capbench.adapters import Caption, CaptionRequest, FrameSampling, ImageHandle, VideoHandle
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.decoding.contract import CaptionSample
from capbench.adapters.images.video import read_frames
from capbench.errors import AdapterError, UsageError

SETTINGS = {"max_new_tokens": 8}
PROMPTS = ("Describe this image in detail.", "the dog")


@pytest.fixture(scope="module")
def llava(tiny_llava: Path) -> HfCaptioner:
    return HfCaptioner(str(tiny_llava), device="cpu")


def make_requests(count: int, **settings: Any) -> list[CaptionRequest]:
    return [
        CaptionRequest(str(n), None, PROMPTS[n % 2], {**SETTINGS, **settings}, pixels=ImageHandle(noise_png(n)))
        for n in range(count)
    ]


def written(
    model: HfCaptioner, requests: list[CaptionRequest], batch_size: int | None = None
) -> tuple[dict[str, Caption], dict[str, str]]:
    """Return captions and failures by the request's id."""
    captions: dict[str, Caption] = {}
    failures: dict[str, str] = {}
    for batch in model.stream(requests, batch_size):
        latest = {requests[at].id: caption for at, caption in batch.captions.items()}
        assert not latest.keys() & captions.keys()
        captions |= latest
        failures |= {requests[at].id: reason for at, reason in batch.failures.items()}
    return captions, failures


@pytest.mark.parametrize(
    ("kind", "prompt_format"),
    [
        ("tiny_llava", None),
        pytest.param("tiny_qwen2_vl", None, marks=pytest.mark.costly),
        pytest.param("tiny_idefics", "{prompt}", marks=pytest.mark.costly),
        pytest.param("tiny_idefics3", None, marks=pytest.mark.costly),
        ("tiny_blip2", "none"),
        ("tiny_blip2", "Question: {prompt} Answer:"),
        pytest.param("tiny_florence2", "<MORE_DETAILED_CAPTION>", marks=pytest.mark.costly),
        pytest.param("tiny_florence2", "{prompt}", marks=pytest.mark.costly),
        ("tiny_vit_gpt2", None),
    ],
)
def test_captions_do_not_depend_on_batch_or_order(kind: str, prompt_format: str | None, request: pytest.FixtureRequest):
    model = HfCaptioner(str(request.getfixturevalue(kind)), device="cpu", prompt_format=prompt_format)
    requests = make_requests(4, max_new_tokens=6)
    one_by_one, failures = written(model, requests, 1)
    assert (len(one_by_one), failures) == (4, {})
    assert len({caption.text for caption in one_by_one.values()}) > 1
    assert written(model, requests[::-1], 3)[0] == one_by_one


def test_image_processor_and_tokenizer_side_by_side_write_what_the_library_writes(tiny_vit_gpt2: Path):
    from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

    model = VisionEncoderDecoderModel.from_pretrained(tiny_vit_gpt2).eval()
    images, tokenizer = (kind.from_pretrained(tiny_vit_gpt2) for kind in (AutoImageProcessor, AutoTokenizer))
    ours = HfCaptioner(str(tiny_vit_gpt2), device="cpu")
    assert ours.fingerprint()["prompt_format"] == "none"
    for settings in ({}, {"num_beams": 3}):
        captions, failures = written(ours, make_requests(2, **settings))
        assert failures == {}
        for n in range(2):
            pixels = images(images=noise_image(n), return_tensors="pt").pixel_values
            with torch.inference_mode():
                ids = model.generate(pixels, **SETTINGS, do_sample=False, **settings)
            assert captions[str(n)].text == tokenizer.decode(ids[0], skip_special_tokens=True)


def test_model_that_takes_no_text_is_asked_nothing(tiny_vit_gpt2: Path):
    with pytest.raises(AdapterError, match="prompt_format=chat: the model takes the image only"):
        HfCaptioner(str(tiny_vit_gpt2), device="cpu", prompt_format="chat")


def test_caption_after_an_instruction_ends_at_the_last_position(tiny_blip2: Path, tiny_llava: Path):
    model = HfCaptioner(str(tiny_blip2), prompt_format="{prompt}", device="cpu")
    reach = model.model.config.text_config.max_position_embeddings
    first, second = make_requests(2, max_new_tokens=2 * reach, min_new_tokens=2 * reach)
    longer = replace(second, prompt="red star " * 3)
    alone = [written(model, [request])[0][request.id] for request in (first, longer)]
    assert [caption.cut for caption in alone] == [True, True]
    assert 0 < alone[1].tokens < alone[0].tokens < reach
    # What each gets does not depend on the other.
    assert written(model, [first, longer]) == ({first.id: alone[0], longer.id: alone[1]}, {})
    beyond = replace(second, prompt="red star " * reach)
    captions, failures = written(model, [*make_requests(1, max_new_tokens=2), beyond])
    assert list(captions) == [first.id]
    assert f"tokens, and the model {reach} positions" in failures[beyond.id]
    # Positions that are computed have no last one, nor have those of an image tower a say.
    assert HfCaptioner(str(tiny_llava), device="cpu")._reach is None


@pytest.mark.parametrize("fill_memory", FULL_MEMORY.values(), ids=FULL_MEMORY)
def test_memory_that_does_not_do_halves_the_batch(tiny_llava, monkeypatch, fill_memory):
    llava = HfCaptioner(str(tiny_llava), device="cpu")
    requests = make_requests(9, max_new_tokens=4)
    expected, _ = written(llava, requests)
    sizes = fits(monkeypatch, llava.model, "generate", 3, fill_memory)
    captions, failures = written(llava, requests, 8)
    assert (captions, failures) == (expected, {})
    # Found out once; what comes after keeps to it.
    assert sizes[:2] == [8, 4]
    assert max(sizes[2:]) <= 2
    # And what is asked for later.
    assert written(llava, requests[:3], 8) == ({key: expected[key] for key in "012"}, {})
    assert max(sizes[2:]) <= 2


def refuse() -> None:
    raise ValueError("no such picture")


@pytest.mark.parametrize(
    ("fail", "reason"),
    [(FULL_MEMORY["cpu"], "does not fit into the device's memory"), (refuse, "ValueError: no such picture")],
)
def test_sample_that_fits_by_no_means_or_that_the_model_refuses_fails_alone(tiny_llava, monkeypatch, fail, reason):
    llava = HfCaptioner(str(tiny_llava), device="cpu")
    requests = make_requests(4, max_new_tokens=4)
    expected, _ = written(llava, requests)
    pixels = llava.processor(images=noise_image(2), text="<image>", return_tensors="pt")["pixel_values"]

    def has_it(pixel_values: torch.Tensor, **inputs: Any) -> int:
        return any(torch.equal(image, pixels[0]) for image in pixel_values)

    fits(monkeypatch, llava.model, "generate", 0, fail, has_it)
    captions, failures = written(llava, requests, 4)
    assert failures == {"2": f"was not written: {reason}"}
    assert captions == {key: caption for key, caption in expected.items() if key != "2"}


def test_images_that_cannot_be_read_cost_no_other(llava: HfCaptioner, tmp_path: Path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "cut.png").write_bytes(noise_png(0)[:500])
    pixels = {
        "broken": ImageHandle(tmp_path / "broken.jpg"),
        "empty": ImageHandle(tmp_path / "empty.png"),
        "cut": ImageHandle(tmp_path / "cut.png"),
        "missing": ImageHandle(tmp_path / "missing.png"),
        "outside": ImageHandle(noise_png(0), (500, 500, 600, 600)),
        "none": None,
        "video": VideoHandle(tmp_path / "clip.mp4"),
    }
    requests = make_requests(3)
    requests += [CaptionRequest(key, "a.png", PROMPTS[0], SETTINGS, pixels=picture) for key, picture in pixels.items()]
    captions, others = written(llava, requests, 4)
    assert captions == written(llava, make_requests(3))[0]
    assert others == {}
    failures = {requests[at].id: reason for batch in llava.stream(requests, 4) for at, reason in batch.unseen.items()}
    assert failures.keys() == pixels.keys()
    assert "broken.jpg: is not an image in a known format" in failures["broken"]
    assert "empty.png: is empty" in failures["empty"]
    assert "cut.png: cannot be decoded" in failures["cut"]
    assert "missing.png: No such file" in failures["missing"]
    assert "its box lies outside" in failures["outside"]
    assert failures["none"] == "was not written: the image is not on this machine"
    assert "clip.mp4: is a video, which this model does not take; Qwen-VL, LLaVA-OneVision" in failures["video"]


VIDEO_FAMILIES = [
    "tiny_qwen2_vl",
    pytest.param("tiny_llava_onevision", marks=pytest.mark.costly),
    pytest.param("tiny_internvl", marks=pytest.mark.costly),
    pytest.param("tiny_smolvlm", marks=pytest.mark.costly),
]


def video_requests(folder: Path, count: int, **settings: Any) -> list[CaptionRequest]:
    """Return requests of videos of 12 frames, and of a last one of 3."""
    videos = [noise_video(folder / f"{n}.mp4", n, 12 if n < count - 1 else 3) for n in range(count)]
    sampling = FrameSampling(4)
    return [
        replace(request, pixels=VideoHandle(video), sampling=sampling)
        for request, video in zip(make_requests(count, **settings), videos, strict=True)
    ]


@pytest.mark.parametrize("kind", VIDEO_FAMILIES)
def test_captions_of_videos_do_not_depend_on_batch_or_images_beside_them(kind: str, request, tmp_path):
    model = HfCaptioner(str(request.getfixturevalue(kind)), device="cpu")
    videos = video_requests(tmp_path, 4, max_new_tokens=6)
    images = [replace(image, id=f"image {image.id}") for image in make_requests(2, max_new_tokens=6)]
    one_by_one, failures = written(model, [*videos, *images], 1)
    assert (len(one_by_one), failures) == (6, {})
    assert len({one_by_one[video.id].text for video in videos}) > 1
    assert written(model, [*images, *videos][::-1], 4)[0] == one_by_one


@pytest.mark.parametrize("kind", VIDEO_FAMILIES)
def test_model_sees_the_frames_that_are_asked_for_at_their_times(kind: str, request, tmp_path):
    model = HfCaptioner(str(request.getfixturevalue(kind)), device="cpu")
    (video, _) = video_requests(tmp_path, 2)
    frames = list(read_frames(video.pixels))
    # Of 12 frames, 5 a second.
    metadata = [{"total_num_frames": 12, "fps": 5.0, "duration": 2.4, "frames_indices": [0, 3, 7, 11]}]
    asked = model.processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": video.prompt}]}],
        add_generation_prompt=True,
    )
    inputs = model.processor(
        text=[asked], videos=[[frames[n] for n in (0, 3, 7, 11)]], video_metadata=metadata, do_sample_frames=False,
        return_tensors="pt",
    )  # fmt: skip
    tokens = model.model.generate(**inputs, **SETTINGS, do_sample=False)[0, inputs["input_ids"].shape[1] :]
    caption = model.processor.tokenizer.decode(tokens, skip_special_tokens=True)
    assert written(model, [video])[0][video.id].text == caption
    other = HfCaptioner(str(request.getfixturevalue(kind)), device="cpu", frames=2)
    assert written(other, [video])[0] == written(model, [replace(video, sampling=FrameSampling(2))])[0]
    assert other.fingerprint() == {**model.fingerprint(), "frames": 2}


def test_video_needs_a_place_in_the_prompt(tiny_internvl: Path, tmp_path: Path):
    model = HfCaptioner(str(tiny_internvl), device="cpu", prompt_format="<IMG_CONTEXT> {prompt}")
    with pytest.raises(AdapterError, match=r"leaves no place for a video.*\n.*<video>"):
        written(model, video_requests(tmp_path, 2))


def test_video_that_cannot_be_read_fails_alone(tiny_qwen2_vl: Path, tmp_path: Path):
    model = HfCaptioner(str(tiny_qwen2_vl), device="cpu")
    good, bad = video_requests(tmp_path, 2)
    bad.pixels.source.write_bytes(b"no video")
    batches = list(model.stream([good, bad]))
    assert [at for batch in batches for at in batch.captions] == [0]
    assert "1.mp4: no video in a known format" in "".join(batch.unseen.get(1, "") for batch in batches)
    contrasted = replace(good, generation_kwargs={**SETTINGS, "decoding": "vcd"})
    with pytest.raises(AdapterError, match="decoding=vcd takes images, not videos"):
        written(model, [contrasted])


def test_image_that_the_processor_refuses_costs_no_other(tiny_qwen2_vl: Path, tmp_path: Path):
    model = HfCaptioner(str(tiny_qwen2_vl), device="cpu")
    Image.new("RGB", (500, 1)).save(tmp_path / "line.png")
    requests = make_requests(3)
    requests.insert(1, CaptionRequest("line", None, "x", SETTINGS, pixels=ImageHandle(tmp_path / "line.png")))
    captions, failures = written(model, requests, 4)
    assert captions == written(model, make_requests(3))[0]
    assert "aspect ratio" in failures["line"]


def test_requests_may_have_settings_of_their_own(llava: HfCaptioner):
    short, long = make_requests(4, max_new_tokens=2), make_requests(4)
    captions, _ = written(llava, [short[0], long[1], short[2], long[3]], 4)
    expected = {**written(llava, short)[0], **{key: written(llava, long)[0][key] for key in ("1", "3")}}
    assert captions == expected


def test_settings_that_make_no_sense_are_told_before_work_starts(llava: HfCaptioner):
    requests = [*make_requests(2), *make_requests(1, max_tokens=5)]
    with pytest.raises(UsageError, match="unknown key 'max_tokens'"):
        next(llava.stream(requests))


def test_prompt_is_what_was_asked_for(llava: HfCaptioner, tiny_llava: Path, tiny_qwen2_vl: Path):
    def sent(model: HfCaptioner) -> str:
        return str(model._prompts.text("the dog"))

    assert sent(llava) == "USER: <image>\nthe dog ASSISTANT:"
    plain = HfCaptioner(str(tiny_llava), device="cpu", prompt_format="<image> Question: {prompt} Answer:")
    assert sent(plain) == "<image> Question: the dog Answer:"
    system = HfCaptioner(str(tiny_qwen2_vl), device="cpu", system="You see.")
    assert sent(system).startswith("<|im_start|>system\nYou see.<|im_end|>\n<|im_start|>user\n")


def test_model_is_kept_from_thinking_or_only_its_answer_is_its_caption(tiny_llava: Path, tmp_path: Path):
    folder = without(tiny_llava, tmp_path / "thinking")
    with (folder / "chat_template.jinja").open("a") as file:
        file.write("{% if enable_thinking is false %}<think></think>{% endif %}")
    model = HfCaptioner(str(folder), device="cpu", think_end_token="the")
    assert str(model.asked("the dog")).endswith("ASSISTANT:<think></think>")
    assert model.fingerprint()["enable_thinking"] is False
    ids = [model.processor.tokenizer.convert_tokens_to_ids(token) for token in ("the", "Ġthe", "the", "Ġdog", "Ġruns")]
    assert [model.text(ids[:length]) for length in (0, 3, 5)] == ["", "", " dog runs"]
    assert model.text(ids[3:]) == ""
    with pytest.raises(AdapterError, match=r"think_end_token=</think>: .* has no such token"):
        HfCaptioner(str(folder), device="cpu", think_end_token="</think>")


def test_start_token_is_not_doubled_where_the_template_has_one(tiny_llava: Path):
    model = HfCaptioner(str(tiny_llava), device="cpu", prompt_format="<s><image> {prompt}")
    ids = model.inputs([CaptionSample("0", "the dog", noise_image(0))])["input_ids"][0].tolist()
    start = model.processor.tokenizer.bos_token_id
    assert ids.count(start) == 1
    assert ids[0] == start


def test_half_precision_is_what_the_model_runs_in(tiny_llava: Path):
    model = HfCaptioner(str(tiny_llava), device="cpu", dtype="bf16")
    assert model.model.dtype == torch.bfloat16
    captions, failures = written(model, make_requests(2))
    assert (len(captions), failures) == (2, {})


def test_adapter_weights_change_captions_and_must_fit(tiny_llava: Path, tiny_qwen2_vl: Path, tmp_path: Path):
    peft = pytest.importorskip("peft")
    model = HfCaptioner(str(tiny_llava), device="cpu")
    plain, before = written(model, make_requests(3))[0], model.fingerprint()
    settings = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(model.model, settings).save_pretrained(tmp_path / "lora")
    tuned = HfCaptioner(str(tiny_llava), device="cpu", peft=str(tmp_path / "lora"))
    captions, failures = written(tuned, make_requests(3))
    assert (len(captions), failures) == (3, {})
    assert captions != plain
    assert tuned.fingerprint() != before
    with pytest.raises(AdapterError, match=r"lora: does not fit the model: .*not in the model"):
        HfCaptioner(str(tiny_qwen2_vl), device="cpu", peft=str(tmp_path / "lora"))


def test_captions_are_given_out_as_soon_as_their_batch_is_written(llava: HfCaptioner, monkeypatch: pytest.MonkeyPatch):
    model = llava
    generate, calls, captions = model.model.generate, 0, {}

    def stopped(**inputs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return generate(**inputs)

    monkeypatch.setattr(model.model, "generate", stopped)
    with pytest.raises(KeyboardInterrupt):
        for batch in model.stream(make_requests(8), 2):
            captions |= batch.captions
    assert len(captions) == 4


def test_fingerprint_changes_with_what_changes_captions(tiny_llava: Path, tiny_qwen2_vl: Path, tmp_path: Path):
    def fingerprint(folder: Path, **arguments: Any) -> str:
        return json.dumps(HfCaptioner(str(folder), device="cpu", **arguments).fingerprint(), sort_keys=True)

    copy = tmp_path / "copy"
    shutil.copytree(tiny_llava, copy)
    plain = fingerprint(tiny_llava)
    # Where a folder lies and how captions are batched change nothing.
    assert fingerprint(copy, batch_size=3, workers=1, name="other", image="processor", exif="ignore") == plain
    with (copy / "chat_template.jinja").open("a") as file:
        file.write(" ")
    fingerprints = [
        plain,
        fingerprint(tiny_qwen2_vl),
        fingerprint(copy),
        fingerprint(tiny_llava, dtype="bf16"),
        fingerprint(tiny_llava, prompt_format="<image>{prompt}"),
        fingerprint(tiny_qwen2_vl, system="You see."),
        fingerprint(tiny_qwen2_vl, max_pixels=56 * 56 * 2),
        fingerprint(tiny_llava, image="pad"),
        fingerprint(tiny_llava, image="crop"),
        fingerprint(tiny_llava, exif="apply"),
    ]
    assert len(set(fingerprints)) == len(fingerprints)


def test_more_pixels_than_allowed_are_made_fewer(tiny_qwen2_vl: Path):
    sample = CaptionSample("0", "the dog", noise_image(0).resize((200, 200)))
    sizes = [
        HfCaptioner(str(tiny_qwen2_vl), device="cpu", **limits).inputs([sample])["pixel_values"].shape[0]
        for limits in ({}, {"max_pixels": 56 * 56})
    ]
    assert sizes == [64, 16]


def test_images_are_padded_or_cropped_to_squares_before_the_processor(llava: HfCaptioner, tiny_llava: Path):
    # LLaVA's expand2square of 5 x 2 pixels: 5 x 5 in int(255 * mean) of CLIP, the image from row (5 - 2) // 2 on.
    wide = noise_image(0).resize((5, 2))
    padded = Image.new("RGB", (5, 5), (122, 116, 104))
    padded.paste(wide, (0, 1))
    cropped = wide.crop((1, 0, 3, 2))

    def pixels(model: HfCaptioner, image: Image.Image) -> torch.Tensor:
        return model.inputs([CaptionSample("0", "the dog", image)])["pixel_values"]

    for framing, square in (("pad", padded), ("crop", cropped), ("processor", wide)):
        model = HfCaptioner(str(tiny_llava), device="cpu", image=framing)
        assert torch.equal(pixels(model, wide), pixels(llava, square))
        tall = wide.transpose(Image.Transpose.TRANSPOSE)
        assert torch.equal(pixels(model, tall), pixels(llava, square.transpose(Image.Transpose.TRANSPOSE)))
    assert not torch.equal(pixels(llava, padded), pixels(llava, wide))


def test_orientation_is_applied_where_it_is_asked_for(llava: HfCaptioner, tiny_llava: Path):
    stored, exif = noise_image(1).resize((40, 24)), Image.Exif()
    exif[0x0112] = 6  # shown after a quarter turn clockwise
    files = [io.BytesIO(), io.BytesIO()]
    stored.save(files[0], "PNG", exif=exif)
    stored.transpose(Image.Transpose.ROTATE_270).save(files[1], "PNG")
    turned, upright = (replace(make_requests(1)[0], pixels=ImageHandle(file.getvalue())) for file in files)
    applied, _ = written(HfCaptioner(str(tiny_llava), device="cpu", exif="apply"), [turned])
    ignored, shown = written(llava, [turned])[0], written(llava, [upright])[0]
    assert (applied, ignored["0"].remark) == (shown, "EXIF orientation 6 not applied")
    assert ignored["0"].text != shown["0"].text


def without(folder: Path, target: Path, *names: str) -> Path:
    shutil.copytree(folder, target, ignore=lambda _, files: [name for name in files if name in names])
    return target


def rewrite(folder: Path, **keys: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))


def test_models_that_cannot_be_loaded_say_why(tiny_llava: Path, tiny_clip, tmp_path: Path):
    cases: list[tuple[Callable[[], HfCaptioner], str]] = [
        (lambda: HfCaptioner("no/such-model"), "no/such-model: "),
        (lambda: HfCaptioner(str(tmp_path)), "holds no config.json"),
        (lambda: HfCaptioner(str(tiny_clip.hf_folder)), "model_type 'clip' cannot caption images"),
        (lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "weights", "model.safetensors"))), "no file named"),
        (lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "processor", "processor_config.json"))), "processor"),
        (
            lambda: HfCaptioner(str(without(tiny_llava, tmp_path / "template", "chat_template.jinja"))),
            "the model has no chat template",
        ),
        (lambda: HfCaptioner(str(tiny_llava), dtype="fp8"), "dtype=fp8 is not known"),
        (lambda: HfCaptioner(str(tiny_llava), device="gpu"), "device=gpu"),
        (lambda: HfCaptioner(str(tiny_llava), batch_size=0), "'batch_size' must be a whole number above 0"),
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
    with pytest.raises(AdapterError, match=r"blind: its image processor and tokenizer: .*\n.*model and processor"):
        HfCaptioner(str(folder), device="cpu")


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
    with pytest.raises(AdapterError, match="has its own code, which was not run") as caught:
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
