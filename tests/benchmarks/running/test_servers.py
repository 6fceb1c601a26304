"""Runs whose captions or judgements come from a server: what is kept when it dies, and what is asked again."""

import math
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, chat_server, completion, prompt_of, refusal
from task_keys import CAPTIONING, write_task

import capbench
from capbench.benchmarks.store.store import Store
from capbench.errors import AdapterError

TASK = {key: value for key, value in CAPTIONING.items() if key != "doc_to_image"} | {
    "task": "captioning",
    "doc_to_id": "id",
    "doc_to_text": "Describe number {{id}}.",
    "generation_kwargs": {"max_new_tokens": 32, "do_sample": False},
}
COUNT = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"d{n}", "references": [f"a dog number {n}"]} for n in range(COUNT)]
    return write_task(tmp_path, rows, TASK)


def evaluate(folder: Path, url: str, concurrency: int = 2, **settings: Any) -> dict[str, Any]:
    arguments = f"model=llava,base_url={url},max_retries=0,concurrency={concurrency}"
    run = capbench.evaluate(
        "openai",
        ["captioning"],
        model_args=arguments,
        include_path=[folder],
        store=folder / "store.sqlite",
        resamples=0,
        **settings,
    )
    return run["captioning"].record.values


def test_server_that_dies_costs_nothing_that_it_answered(folder: Path):
    answered: set[str] = set()

    def dies_after_five(body: dict[str, Any], before: int) -> Reply:
        if len(answered) == 5:
            return refusal(401, "the key was withdrawn")
        answered.add(prompt_of(body))
        return completion("a dog runs")

    with chat_server(dies_after_five) as server, pytest.raises(AdapterError, match="withdrawn"):
        evaluate(folder, server.url, concurrency=1)
    with Store(folder / "store.sqlite") as store:
        assert sum(stat.entries for stat in store.stats() if "llava" in str(stat.fingerprint)) == 5

    with chat_server(lambda body, before: completion("a dog runs")) as server:
        record = evaluate(folder, server.url)
        again = evaluate(folder, server.url)
    assert set(server.prompts) == {f"Describe number d{n}." for n in range(COUNT)} - answered
    assert set(server.prompts.values()) == {1}
    assert record["n-samples"]["captioning"]["effective"] == COUNT
    assert again["results"] == record["results"]
    assert again["fingerprint"] == record["fingerprint"]


def test_record_tells_failures_cut_captions_and_cost_and_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    def behave(body: dict[str, Any], before: int) -> Reply:
        match prompt_of(body):
            case "Describe number d1.":
                return refusal(400, "bad image sk-secret")
            case "Describe number d2.":
                return completion("a dog and", finish="length")
        return completion("a dog runs")

    with chat_server(behave) as server:
        record = evaluate(folder, server.url, output_path=folder / "runs")
    assert record["failures"] == [
        {"stage": "model", "reason": "HTTP 400: bad image ***", "count": 1, "samples": ["d1"]}
    ]
    assert record["generation"]["cut"] == 1
    assert record["generation"]["usage"]["requests"] == COUNT
    assert record["model_name"] == "llava"
    assert record["config"]["model"] == "openai"
    for written in (*(folder / "runs").rglob("*.*"), folder / "store.sqlite"):
        assert not written.is_file() or b"secret" not in written.read_bytes()


def test_judge_is_asked_once_for_each_caption_over_all_runs(folder: Path):
    def answer(body: dict[str, Any], before: int) -> Reply:
        return completion('{"score": 80, "reason": "alike"}')

    with chat_server(lambda body, before: completion("a dog runs")) as captioner, chat_server(answer) as judge:
        options = {"judge": "openai_judge", "judge_args": f"model=gpt,base_url={judge.url}"}
        record = evaluate(folder, captioner.url, metrics=["clair"], **options)
        evaluate(folder, captioner.url, metrics=["clair"], **options)
    assert record["results"]["captioning"]["clair,none"] == pytest.approx(0.8)
    assert record["config"]["judge"] == "gpt"
    assert record["judging"]["usage"]["requests"] == COUNT
    assert record["fingerprint_parts"]["judge"]["model"] == "gpt"
    assert len(judge.bodies) == COUNT
    assert len(captioner.bodies) == COUNT


def test_fleur_looks_at_each_image_once_over_all_runs(tmp_path: Path):
    from PIL import Image

    def rates(body: dict[str, Any], before: int) -> Reply:
        def place(token: str, **others: float) -> dict[str, Any]:
            listed = [{"token": token, "logprob": math.log(p)} for token, p in others.items()]
            return {"token": token, "logprob": 0.0, "top_logprobs": listed}

        assert body["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
        if "a cat" in prompt_of(body):
            return completion("I see no cat.", logprobs={"content": [place("I"), place(" see")]})
        places = [place("0", **{"0": 1.0}), place("."), place("8", **{"8": 0.75, "7": 0.25})]
        return completion("0.8", logprobs={"content": places})

    rows = []
    for n, candidate in enumerate(["a dog", "a cat", "a dog"]):
        Image.new("RGB", (4, 4), (n, 0, 0)).save(tmp_path / f"{n}.png")
        rows.append({"id": f"d{n}", "image": str(tmp_path / f"{n}.png"), "candidate": candidate})
    with chat_server(rates) as server:
        options = {"judge": "openai_judge", "judge_args": f"model=llava,base_url={server.url}"}
        options |= {"allow_outside": [tmp_path], "store": tmp_path / "store.sqlite"}
        first, second = (capbench.score(rows, ["fleur"], **options) for _ in range(2))
    # 0.1 * (0.75 * 8 + 0.25 * 7)
    assert [row["fleur"] for row in first.rows] == [pytest.approx(0.775), None, pytest.approx(0.775)]
    assert first.failures[0]["reason"] == "fleur: the judge's answer has no number"
    assert first.failures[0]["samples"] == ["d1"]
    assert second.rows == first.rows
    assert len(server.bodies) == 3
