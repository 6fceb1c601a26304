"""The captioner and the judge of OpenAI-compatible servers, against a server that misbehaves on purpose."""

import asyncio
import base64
import io
import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import Reply, chat_server, completion, prompt_of, refusal
from PIL import Image
from tiny_images import encoded, noise_video

from capbench.adapters import Caption, CaptionRequest, FrameSampling, ImageHandle, JudgeRequest, VideoHandle
from capbench.adapters.chat.client import finished_first
from capbench.adapters.chat.messages import sampling_settings
from capbench.adapters.chat.openai import OpenAICaptioner, OpenAIJudge
from capbench.adapters.images.video import read_frames
from capbench.errors import AdapterError

SETTINGS = yaml.safe_load(Path(__file__).with_name("settings.yaml").read_text())
GREEDY = {"max_new_tokens": 32, "do_sample": False, "num_beams": 1}


def requests(
    *prompts: str, image: Any = None, settings: Mapping[str, Any] = GREEDY, **more: Any
) -> list[CaptionRequest]:
    return [CaptionRequest(prompt, image, prompt, settings, **more) for prompt in prompts]


def captions_of(model: OpenAICaptioner, asked: list[CaptionRequest]) -> tuple[dict[int, Caption], dict[int, str]]:
    captions: dict[int, Caption] = {}
    failures: dict[int, str] = {}
    for batch in model.stream(asked):
        captions |= batch.captions
        failures |= batch.failures
    return captions, failures


def exchange(reply: Reply, asked: list[CaptionRequest] | None = None, **options: Any) -> tuple[Any, Any, Any]:
    """Return captions, failures and the server, which gave one reply to all that a captioner asked."""
    with chat_server(lambda body, before: reply) as server:
        model = OpenAICaptioner("m", base_url=server.url, **options)
        return *captions_of(model, asked or requests("a")), server


def image(mode: str = "RGB", kind: str = "PNG") -> bytes:
    return encoded(Image.new(mode, (6, 4), 100 if mode == "L" else None), kind)


def sent_image(body: Mapping[str, Any]) -> tuple[str, bytes]:
    url = body["messages"][-1]["content"][0]["image_url"]["url"]
    kind, _, content = url.partition(";base64,")
    return kind.removeprefix("data:"), base64.b64decode(content)


def test_request_holds_model_messages_and_settings_in_the_servers_names():
    with chat_server(lambda body, before: completion("a dog runs")) as server:
        model = OpenAICaptioner("llava", base_url=server.url, system="Be brief.")
        settings = {**GREEDY, "until": ["\n\n", ""], "seed": 5, "top_p": None}
        captions, failures = captions_of(model, requests("Describe.", settings=settings))
    assert captions == {0: Caption("a dog runs", tokens=3, cut=False)}
    assert failures == {}
    assert server.bodies == [
        {
            "model": "llava",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Describe."}],
            "max_tokens": 32,
            "temperature": 0.0,
            "seed": 5,
            "stop": ["\n\n"],
        }
    ]


def test_hosted_models_that_take_other_names_and_no_temperature_can_be_asked():
    *_, server = exchange(completion("a dog"), limit_name="max_completion_tokens", send_temperature=False)
    assert server.bodies[0].keys() == {"model", "messages", "max_completion_tokens"}


@pytest.mark.parametrize(("kind", "media"), [("JPEG", "image/jpeg"), ("PNG", "image/png"), ("WEBP", "image/webp")])
def test_image_is_sent_as_it_is_stored_where_servers_read_its_format(tmp_path, kind: str, media: str):
    stored = image(kind=kind)
    (tmp_path / "a").write_bytes(stored)
    asked = requests("Describe.", image="a", pixels=ImageHandle(tmp_path / "a"))
    *_, server = exchange(completion("a square"), asked)
    assert sent_image(server.bodies[0]) == (media, stored)
    assert server.bodies[0]["messages"][0]["content"][1] == {"type": "text", "text": "Describe."}


@pytest.mark.parametrize(("mode", "kind"), [("CMYK", "TIFF"), ("RGB", "JPEG")])
def test_crop_of_an_image_in_any_format_is_sent_as_png(mode: str, kind: str):
    handle = ImageHandle(image(mode, kind), box=(0, 0, 3, 2))
    *_, server = exchange(completion("a square"), requests("Describe.", image=b"", pixels=handle))
    media, sent = sent_image(server.bodies[0])
    assert media == "image/png"
    assert Image.open(io.BytesIO(sent)).size == (3, 2)


def test_frames_of_a_video_are_sent_as_images_in_order(tmp_path):
    video = VideoHandle(noise_video(tmp_path / "v.mp4", 0, 12))
    asked = requests("Describe.", image="v.mp4", pixels=video, sampling=FrameSampling(3))
    frames = list(read_frames(video))
    for arguments, places in (
        ({}, (0, 5, 11)),
        ({"frames": 2}, (0, 11)),
        ({"frames": 9, "fps": 2.0}, (0, 2, 5, 8, 11)),
    ):
        *_, server = exchange(completion("a square"), asked, **arguments)
        *images, text = server.bodies[0]["messages"][0]["content"]
        assert text == {"type": "text", "text": "Describe."}
        for part, place in zip(images, places, strict=True):
            sent = base64.b64decode(part["image_url"]["url"].removeprefix("data:image/png;base64,"))
            assert Image.open(io.BytesIO(sent)).tobytes() == frames[place].tobytes()
    plain, own = (OpenAICaptioner("m", **arguments).fingerprint() for arguments in ({}, {"frames": 2}))
    assert own == {**plain, "frames": {"count": 2, "fps": None}}
    with pytest.raises(AdapterError, match="'frames' the most"):
        OpenAICaptioner("m", fps=1.0)


def test_image_that_cannot_be_had_fails_its_own_request_and_is_never_left_out_of_it(tmp_path):
    asked = [
        CaptionRequest("0", "0.jpg", "p0", pixels=ImageHandle(tmp_path / "missing.jpg")),
        CaptionRequest("1", "1.jpg", "p1", pixels=None),
        CaptionRequest("2", "2.mp4", "p2", pixels=VideoHandle(tmp_path / "2.mp4")),
        CaptionRequest("3", "3.jpg", "p3", pixels=ImageHandle(b"no image")),
        CaptionRequest("4", None, "p4"),
    ]
    captions: dict[int, Caption] = {}
    unseen: dict[int, str] = {}
    with chat_server(lambda body, before: completion("a dog")) as server:
        for batch in OpenAICaptioner("m", base_url=server.url).stream(asked):
            assert batch.failures == {}
            captions |= batch.captions
            unseen |= batch.unseen
    assert captions.keys() == {4}
    assert list(server.prompts) == ["p4"]
    assert "No such file" in unseen[0]
    assert unseen[1] == "the image is not on this machine"
    assert "2.mp4: there is no such file" in unseen[2]
    assert "is not an image" in unseen[3]


def test_what_may_pass_is_asked_again():
    # All at once: each waits a second and a half between its attempts.
    replies = {
        "5xx": [refusal(500, "busy"), refusal(503, "busy")],
        "truncated": [Reply(b'{"choices": [{"mess'), Reply(b'{"choices": []}')],
        "html": [Reply(b"<html>", headers={"Content-Type": "text/html"}), completion(None)],
        "closed": [Reply(completion("half").body, act="close"), refusal(408, "too slow")],
        "not utf-8": [Reply(b"\xff\xfe"), completion({"a": 1})],
        "no object": [Reply(b"[1, 2]"), Reply(b"null")],
        "error with 200": [Reply(b'{"error": {"message": "overloaded"}}'), Reply(b"")],
    }
    cases = list(replies)

    def behave(body: dict[str, Any], before: int) -> Reply:
        return [*replies[prompt_of(body)], completion("a dog")][before]

    with chat_server(behave) as server:
        model = OpenAICaptioner("m", base_url=server.url, concurrency=len(cases))
        captions, failures = captions_of(model, requests(*cases))
    assert {cases[at]: reason for at, reason in failures.items()} == {}
    assert {cases[at]: caption.text for at, caption in captions.items()} == dict.fromkeys(cases, "a dog")
    assert server.prompts == dict.fromkeys(cases, 3)
    assert model.usage() == {"prompt_tokens": 49, "completion_tokens": 14, "requests": 21, "retries": 14}


def test_server_that_hangs_or_drips_costs_the_one_request_no_more_than_its_time():
    def behave(body: dict[str, Any], before: int) -> Reply:
        act = prompt_of(body)
        return Reply(completion("a dog").body, act=act if act in ("hang", "drip") else "")

    with chat_server(behave) as server:
        model = OpenAICaptioner("m", base_url=server.url, timeout=0.4, max_retries=1)
        captions, failures = captions_of(model, requests("hang", "drip", "quick"))
    assert captions.keys() == {2}
    assert failures == dict.fromkeys((0, 1), "no answer within 0.4 s (2 attempts)")


def test_answer_of_one_request_is_given_out_while_others_are_under_way():
    def behave(body: dict[str, Any], before: int) -> Reply:
        return Reply(act="hang") if prompt_of(body) == "slow" else completion("a dog")

    with chat_server(behave) as server:
        answers = OpenAICaptioner("m", base_url=server.url).stream(requests("slow", "a", "b"))
        assert {at for _ in range(2) for at in next(answers).captions} == {1, 2}
        # Whoever stops early leaves nothing running.
        answers.close()
    assert "finished_first" not in {thread.name for thread in threading.enumerate()}


def test_pause_that_the_server_orders_holds_for_all_requests():
    times: list[float] = []

    def behave(body: dict[str, Any], before: int) -> Reply:
        times.append(time.time())
        if len(times) == 1:
            return refusal(429, "slow down", headers={"Retry-After": "1"})
        return completion("a dog")

    with chat_server(behave) as server:
        model = OpenAICaptioner("m", base_url=server.url, concurrency=1)
        captions, _ = captions_of(model, requests("a", "b"))
    assert len(captions) == 2
    # More than the 0.6 s at most that pass where nothing is ordered.
    assert times[1] - times[0] >= 0.9


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (completion(None, finish="content_filter"), "the server refused to answer"),
        (completion(None, refusal="I cannot help."), "the server refused to answer"),
        (completion(None, finish="length"), "all allowed tokens were used up before the answer began"),
        (refusal(400, "the prompt was filtered", code="content_filter"), "HTTP 400: the prompt was filtered"),
    ],
)
def test_refusal_is_an_empty_caption_of_a_captioner_a_failure_of_a_judge_and_not_asked_again(reply: Reply, reason: str):
    with chat_server(lambda body, before: reply) as server:
        captions, failures = captions_of(OpenAICaptioner("m", base_url=server.url), requests("a"))
        (judged,) = OpenAIJudge("m", base_url=server.url).stream([JudgeRequest("How good?")])
    assert (captions, failures) == ({0: Caption("")}, {})
    assert (judged.judgements, judged.failures) == ({}, {0: reason})
    assert len(server.bodies) == 2


def test_answer_in_parts_is_the_text_of_its_parts():
    parts = [{"type": "text", "text": "a dog "}, {"type": "text", "text": "runs"}]
    captions, *_ = exchange(completion(parts, finish="length"))
    assert (captions[0].text, captions[0].cut) == ("a dog runs", True)


@pytest.mark.parametrize(
    ("reply", "remedy"),
    [
        (refusal(401, "wrong key"), "Put a valid key into the environment variable OPENAI_API_KEY"),
        (refusal(403, "not yours"), "may not use this model"),
        (refusal(404, "no such model"), "Check the model's name"),
        (refusal(302, "moved", headers={"Location": "http://127.0.0.1:1/"}), "Check that base_url is the address"),
        (refusal(429, "no credit", code="insufficient_quota"), "quota is used up"),
        (refusal(429, "tomorrow", headers={"Retry-After": "86400"}), "run again after the pause"),
    ],
)
def test_what_is_wrong_with_all_requests_ends_the_run_and_names_the_remedy(reply: Reply, remedy: str):
    with pytest.raises(AdapterError) as error:
        exchange(reply, requests("a", "b"))
    assert remedy in error.value.hint


def test_server_that_cannot_be_reached_ends_the_run():
    with chat_server(lambda body, before: completion("a dog")) as server:
        pass
    with pytest.raises(AdapterError, match="the server cannot be reached"):
        captions_of(OpenAICaptioner("m", base_url=server.url, max_retries=1), requests("a"))


def test_server_that_answers_nothing_right_any_more_ends_the_run():
    with chat_server(lambda body, before: refusal(500, "out of memory")) as server:
        model = OpenAICaptioner("m", base_url=server.url, max_retries=0)
        with pytest.raises(AdapterError, match="20 requests in a row failed"):
            captions_of(model, requests(*map(str, range(200))))
    assert len(server.bodies) < 60


def test_no_more_requests_are_under_way_than_concurrency_allows():
    under_way, most = 0, 0
    lock = threading.Lock()

    def behave(body: dict[str, Any], before: int) -> Reply:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.05)
        with lock:
            under_way -= 1
        return completion("a dog")

    with chat_server(behave) as server:
        model = OpenAICaptioner("m", base_url=server.url, concurrency=3)
        captions, _ = captions_of(model, requests(*map(str, range(12))))
    assert len(captions) == 12
    assert most == 3


def test_key_comes_from_the_environment_and_is_in_no_message_or_fingerprint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", "sk-secret")
    with chat_server(lambda body, before: refusal(401, "Incorrect API key provided: sk-secret")) as server:
        model = OpenAICaptioner("m", base_url=server.url, api_key_env="MY_KEY")
        with pytest.raises(AdapterError) as error:
            captions_of(model, requests("a"))
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert "Incorrect API key provided: ***" in str(error.value)
    assert "secret" not in f"{error.value}{model.fingerprint()}{vars(model)}"
    monkeypatch.delenv("MY_KEY")
    *_, server = exchange(completion("a dog"), api_key_env="MY_KEY")
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http:///v1"])
def test_address_that_is_none_is_refused(url: str):
    with pytest.raises(AdapterError, match="is not the address"):
        OpenAICaptioner("m", base_url=url)


@pytest.mark.parametrize("url", ["https://me:hush@host/v1", "https://host/v1?key=hush"])
def test_address_with_a_secret_is_refused_without_repeating_it(url: str):
    with pytest.raises(AdapterError) as error:
        OpenAICaptioner("m", base_url=url)
    assert "hush" not in str(error.value)


def test_fingerprint_says_what_is_asked_and_not_where():
    def fingerprint(**options: Any) -> dict[str, Any]:
        return OpenAICaptioner("m", **options).fingerprint()

    assert fingerprint(base_url="http://a/v1") == fingerprint(base_url="http://b/v1", concurrency=2)
    assert fingerprint(system="Be brief.") != fingerprint()
    assert fingerprint(revision="2024-08-06") != fingerprint()


def test_cost_is_told_where_prices_are_known():
    with chat_server(lambda body, before: completion("a dog")) as server:
        model = OpenAICaptioner("m", base_url=server.url, price_in=2.0, price_out=10.0)
        captions_of(model, requests("a", "b"))
    # Two requests of 7 tokens at 2 a million, and two answers of 2 tokens at 10 a million.
    assert model.usage()["cost"] == pytest.approx((14 * 2 + 4 * 10) / 1e6)


def test_setting_that_cannot_be_passed_on_is_named_before_anything_is_asked():
    with chat_server(lambda body, before: completion("a dog")) as server:
        model = OpenAICaptioner("m", base_url=server.url)
        with pytest.raises(AdapterError, match="num_beams=3"):
            captions_of(model, requests("a", settings={"num_beams": 3}))
        with pytest.raises(AdapterError, match="'length_penalty' is not supported"):
            captions_of(model, requests("a", settings={"length_penalty": 2}))
    assert server.bodies == []


def test_judge_draws_its_answer_where_a_request_says_so():
    asked = JudgeRequest("Go.", system="Be brief.", decoding={"temperature": 0.72, "seed": 5})
    with chat_server(lambda body, before: completion("yes")) as server:
        judge = OpenAIJudge("gpt", base_url=server.url, system="Be verbose.")
        [_] = judge.stream([asked])
        with pytest.raises(AdapterError, match="num_beams=3"):
            list(judge.stream([JudgeRequest("Go.", decoding={"num_beams": 3})]))
    (body,) = server.bodies
    assert (body["temperature"], body["seed"]) == (0.72, 5)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_judge_is_shown_the_image_and_tells_the_probabilities_of_candidates():
    def place(token: str, **others: float) -> dict[str, Any]:
        listed = [{"token": token, "logprob": math.log(p)} for token, p in others.items()]
        return {"token": token, "logprob": -0.1, "top_logprobs": listed}

    logprobs = {"content": [place("0"), place("."), place("8", **{"8": 0.6, "7": 0.3, "a": 0.1})]}
    with chat_server(lambda body, before: completion("0.8", logprobs=logprobs)) as server:
        request = JudgeRequest("Rate.", ImageHandle(image()), 8, ("7", "8", "9"))
        [judged] = OpenAIJudge("gpt", base_url=server.url).stream([request])
    assert sent_image(server.bodies[0])[0] == "image/png"
    settings = {"logprobs": True, "top_logprobs": 20, "temperature": 0.0, "max_tokens": 8}
    assert settings.items() <= server.bodies[0].items()
    tokens = judged.judgements[0].tokens
    assert [token.text for token in tokens] == ["0", ".", "8"]
    assert tokens[2].probabilities == pytest.approx({"8": 0.6, "7": 0.3})


def test_judge_whose_server_tells_no_probabilities_fails_by_that_name():
    with chat_server(lambda body, before: completion("0.8")) as server:
        [judged] = OpenAIJudge("gpt", base_url=server.url).stream([JudgeRequest("Rate.", candidates=("8",))])
    assert judged.failures == {0: "the server returned no token probabilities (logprobs)"}
    assert len(server.bodies) == 1


def test_server_that_repeats_the_request_in_its_error_does_not_fill_the_record():
    _, failures, server = exchange(refusal(422, json.dumps({"model": "m"}) * 1000))
    assert failures[0].startswith("HTTP 422: ")
    assert len(failures[0]) < 400
    # What is wrong with the request is not asked again.
    assert len(server.bodies) == 1


@pytest.mark.parametrize(("task_settings", "settings"), SETTINGS)
def test_settings_of_tasks_get_the_names_of_servers(task_settings: dict[str, Any], settings: dict[str, Any]):
    assert sampling_settings(task_settings) == settings


@pytest.mark.parametrize(
    ("task_settings", "named"),
    [
        ({"do_sample": False, "temperature": 0.2}, "temperature=0.2 has no effect with do_sample=False"),
        ({"top_p": 0.9}, "top_p=0.9 has no effect with temperature=0"),
        ({"temperature": 0, "top_k": 5}, "top_k=5 has no effect with temperature=0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_and_both_named(task_settings: dict[str, Any], named: str):
    with pytest.raises(AdapterError, match=named) as caught:
        sampling_settings(task_settings)
    assert f"{named.partition('=')[0]}=null" in str(caught.value)


def test_results_come_before_the_error_that_ends_the_work():
    async def work(give: Callable[[int], None]) -> None:
        give(1)
        give(2)
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise AdapterError("the server is gone")

    results = finished_first(work)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(AdapterError, match="the server is gone"):
        next(results)
