import shutil

import pytest
import torch
from full_memory import FULL_MEMORY, fits
from PIL import Image
from tiny_images import encoded, plain_png, turned
from tiny_llm import CHARACTERS, make_tiny_llama, make_tiny_llava
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from capbench.adapters import ImageHandle, Judge, Judgement, JudgeRequest
from capbench.adapters.judges.hf_judge import HfJudge
from capbench.errors import AdapterError
from capbench.metrics import Context
from capbench.metrics.judging import ask

DIGITS = tuple("0123456789")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory):
    return make_tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory):
    return make_tiny_llava(tmp_path_factory.mktemp("llava"))


def answers(judge: Judge, *requests: JudgeRequest) -> list[Judgement]:
    judgements = ask(requests, Context(judge=judge))
    assert all(isinstance(judgement, Judgement) for judgement in judgements), judgements
    return [judgement for judgement in judgements if isinstance(judgement, Judgement)]


def picture(colour: str) -> ImageHandle:
    return ImageHandle(plain_png(colour))


def test_probabilities_are_those_of_the_model_before_each_token(llama):
    [answer] = answers(HfJudge(str(llama)), JudgeRequest("Rate it:", max_tokens=6, candidates=DIGITS))
    tokenizer = AutoTokenizer.from_pretrained(llama)
    model = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32).eval()
    ids = tokenizer("Rate it:", return_tensors="pt").input_ids
    assert len(answer.tokens) == 6
    for token in answer.tokens:
        with torch.inference_mode():
            expected = model(ids).logits[0, -1].softmax(-1)
        for digit, probability in token.probabilities.items():
            at = tokenizer.convert_tokens_to_ids(digit)
            assert probability == pytest.approx(float(expected[at]), abs=1e-6)
        assert set(token.probabilities) == (set(DIGITS) if token.text in DIGITS else set())
        # Decoding is greedy.
        assert token.text == tokenizer.decode([int(expected.argmax())])
        ids = torch.cat([ids, expected.argmax().reshape(1, 1)], dim=1)
    assert answer.text == "".join(token.text for token in answer.tokens)


def test_prompt_goes_through_the_chat_template_if_there_is_one(llama, tmp_path):
    shutil.copytree(llama, tmp_path, dirs_exist_ok=True)
    template = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}<bot>"
    (tmp_path / "chat_template.jinja").write_text(template)
    [chatted] = answers(HfJudge(str(tmp_path), system="Be fair."), JudgeRequest("Rate it:", max_tokens=8))
    [plain] = answers(HfJudge(str(llama)), JudgeRequest("<system>Be fair.<user>Rate it:<bot>", max_tokens=8))
    assert chatted == plain
    # A template of a file in place of the checkpoint's, or none.
    (file := tmp_path / "other.jinja").write_text(template.replace("<bot>", "-"))
    [other] = answers(HfJudge(str(tmp_path), chat_template=str(file)), JudgeRequest("Rate it:", max_tokens=8))
    assert [other] == answers(HfJudge(str(llama)), JudgeRequest("<user>Rate it:-", max_tokens=8))
    [bare] = answers(HfJudge(str(tmp_path), system="Be fair.", chat_template="none"), JudgeRequest("Rate it:"))
    assert [bare] == answers(HfJudge(str(llama)), JudgeRequest("Be fair.\n\nRate it:"))
    prints = [HfJudge(str(tmp_path), chat_template=form).fingerprint() for form in ("model", "none", str(file))]
    assert "chat_template" not in prints[0] and prints[1]["chat_template"] is None and prints[2] != prints[1]


def test_requests_of_several_kinds_are_answered_each_in_its_place(llama, capfd: pytest.CaptureFixture[str]):
    plain = JudgeRequest("Rate it:", max_tokens=4)
    with_digits = JudgeRequest("Rate it:", max_tokens=4, candidates=DIGITS)
    first, second, third = answers(HfJudge(str(llama)), plain, with_digits, JudgeRequest("Rate it:", max_tokens=2))
    assert first.text == second.text
    assert first.text.startswith(third.text)
    assert first.tokens == ()
    assert len(second.tokens) == 4
    assert capfd.readouterr() == ("", ""), "no bar of the library's own while it loads"


def test_model_that_sees_is_shown_the_image(llava):
    judge = HfJudge(str(llava), system="Be fair.")
    letters = tuple(CHARACTERS)
    requests = [JudgeRequest("Rate it:", picture(colour), 5, letters) for colour in ("red", "blue", "red")]
    requests.append(JudgeRequest("Rate it:", max_tokens=5, candidates=letters))
    red, blue, again, none = (answer.tokens[0].probabilities for answer in answers(judge, *requests))
    assert red
    assert red == again
    assert red != pytest.approx(dict(blue), abs=1e-6)
    assert red != pytest.approx(dict(none), abs=1e-6)


def test_photograph_that_is_not_turned_is_remarked(llava):
    photograph = ImageHandle(encoded(Image.new("RGB", (8, 8), "red"), "JPEG", exif=turned(6)))
    asked = [JudgeRequest("Rate it:", image, 3) for image in (picture("red"), photograph)]
    judgements = answers(HfJudge(str(llava)), *asked)
    assert [judgement.remark for judgement in judgements] == ["", "EXIF orientation 6 not applied"]


def test_image_that_cannot_be_read_fails_its_own_request(llava):
    asked = [JudgeRequest("Rate it:", image, 3) for image in (ImageHandle(b"no image"), picture("red"))]
    [judged] = HfJudge(str(llava)).stream(asked)
    assert judged.judgements.keys() == {1}
    assert "is not an image" in judged.failures[0]


@pytest.mark.parametrize("fill_memory", FULL_MEMORY.values(), ids=FULL_MEMORY)
def test_memory_that_does_not_do_halves_the_batch(llama, monkeypatch, fill_memory):
    requests = [JudgeRequest(f"Rate number {n}:", max_tokens=4, candidates=DIGITS) for n in range(7)]
    expected = answers(HfJudge(str(llama), batch_size=1), *requests)
    sizes = fits(monkeypatch, LlamaForCausalLM, "generate", 2, fill_memory)
    judge = HfJudge(str(llama), batch_size=5)
    judgements = answers(judge, *requests)
    assert [judgement.text for judgement in judgements] == [judgement.text for judgement in expected]
    for judgement, other in zip(judgements, expected, strict=True):
        for token, same in zip(judgement.tokens, other.tokens, strict=True):
            assert token.probabilities == pytest.approx(dict(same.probabilities), abs=1e-5)
    # Found out once; what comes after keeps to it.
    assert sizes == [5, 2, 2, 1, 2]
    sizes.clear()
    answers(judge, *requests)
    assert max(sizes) == 2


def test_request_that_fits_by_no_means_fails_alone(llama, monkeypatch: pytest.MonkeyPatch):
    fits(monkeypatch, LlamaForCausalLM, "generate", 20, size=lambda *_, input_ids, **more: input_ids.shape[1])
    asked = [JudgeRequest(text, max_tokens=2) for text in ("Rate it:", "Rate it: " * 9, "Rate this:")]
    [judged] = HfJudge(str(llama)).stream(asked)
    assert judged.failures == {1: "does not fit into the device's memory"}
    assert judged.judgements.keys() == {0, 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "fp8"}, "dtype=fp8 is not known"),
        ({"batch_size": 0}, "'batch_size' must be a whole number above 0"),
        ({"chat_template": "no.jinja"}, "chat_template=no.jinja: cannot be read: .*No such file"),
    ],
)
def test_settings_that_make_no_sense_are_told_before_anything_is_loaded(llama, settings, message):
    with pytest.raises(AdapterError, match=message):
        HfJudge(str(llama), **settings)


def test_device_that_is_not_there_is_named(llama):
    with pytest.raises(AdapterError, match="device=tpu: Expected one of cpu, cuda"):
        list(HfJudge(str(llama), device="tpu").stream([JudgeRequest("Rate it:")]))


def test_half_precision_is_what_the_model_runs_in(llama):
    request = JudgeRequest("Rate it:", max_tokens=4, candidates=tuple(CHARACTERS))
    [short], [long], [full] = (
        answers(HfJudge(str(llama), dtype=dtype), request) for dtype in ("bf16", "bfloat16", "auto")
    )
    assert short == long
    assert short != full


def test_language_model_is_not_asked_about_images(llama):
    with pytest.raises(AdapterError, match="takes no images"):
        list(HfJudge(str(llama)).stream([JudgeRequest("Rate it:", picture("red"))]))


def test_fingerprint_is_that_of_the_files_wherever_they_lie(llama, tmp_path):
    copy = shutil.copytree(llama, tmp_path / "copy")
    assert HfJudge(str(copy)).fingerprint() == HfJudge(str(llama)).fingerprint()
    config = (copy / "config.json").read_text()
    (copy / "config.json").write_text(config.replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'))
    assert HfJudge(str(copy)).fingerprint() != HfJudge(str(llama)).fingerprint()


def test_checkpoint_that_cannot_be_had_names_the_remedy():
    with pytest.raises(AdapterError, match=r"\n.*hf download nobody/nothing"):
        HfJudge("nobody/nothing")


def test_checkpoint_that_lacks_weights_is_refused(llama, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(llama, tmp_path, dirs_exist_ok=True)
    weights = load_file(llama / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AdapterError, match=r"model\.norm\.weight: not in the checkpoint"):
        list(HfJudge(str(tmp_path)).stream([JudgeRequest("Rate it:")]))


def test_damaged_checkpoint_is_named(llama, tmp_path):
    (tmp_path / "config.json").write_bytes((llama / "config.json").read_bytes())
    with pytest.raises(AdapterError, match=str(tmp_path)):
        list(HfJudge(str(tmp_path)).stream([JudgeRequest("Rate it:")]))


def test_drawn_answers_follow_from_seed_and_request_alone(llama):
    judge = HfJudge(str(llama))

    def drawn(seed: int, prompt: str = "Write:") -> JudgeRequest:
        return JudgeRequest(prompt, max_tokens=12, decoding={"temperature": 0.7, "seed": seed})

    texts = [answer.text for answer in answers(judge, *map(drawn, range(8)))]

    assert len(set(texts)) > 4
    assert answers(judge, drawn(3, "Write more of it:"), drawn(5))[1].text == texts[5]
    (greedy,) = answers(judge, JudgeRequest("Write:", max_tokens=12))
    assert answers(judge, JudgeRequest("Write:", max_tokens=12, decoding={"temperature": 1e-4}))[0] == greedy


def test_beams_find_an_answer_at_least_as_likely(llama):
    judge = HfJudge(str(llama))
    model = AutoModelForCausalLM.from_pretrained(llama, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(llama)

    def likelihood(answer: str) -> float:
        asked, whole = (tokenizer(text, return_tensors="pt").input_ids for text in ("Go:", "Go:" + answer))
        with torch.inference_mode():
            steps = model(whole).logits[0].log_softmax(-1)
        places = range(asked.shape[1], whole.shape[1])
        return sum(float(steps[at - 1, whole[0, at]]) for at in places)

    texts = [
        answers(judge, JudgeRequest("Go:", max_tokens=5, decoding=decoding))[0].text
        for decoding in ({}, {"num_beams": 4})
    ]
    assert texts[0] != texts[1]
    assert likelihood(texts[1]) > likelihood(texts[0])


def test_system_prompt_of_a_request_stands_in_place_of_the_judges(llama):
    asked = JudgeRequest("Rate it:", max_tokens=6, system="Be brief.")
    expected = answers(HfJudge(str(llama), system="Be brief."), JudgeRequest("Rate it:", max_tokens=6))
    assert answers(HfJudge(str(llama), system="Be verbose."), asked) == expected
    assert answers(HfJudge(str(llama)), asked) == expected


@pytest.mark.parametrize("decoding", [{"top_k": 3}, {"temperature": 0.5, "num_beams": 3}])
def test_decoding_that_it_does_not_know_is_refused(llama, decoding: dict[str, float]):
    with pytest.raises(AdapterError, match=r"top_k|beams"):
        answers(HfJudge(str(llama)), JudgeRequest("Rate it:", max_tokens=6, decoding=decoding))
