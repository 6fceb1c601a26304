"""``bench serve``: who is answered, what is refused, and that trainers elsewhere get the values of here."""

from __future__ import annotations

import base64
import json
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from opened_pages import served
from synthetic_board import HOSTILE
from test_readme import block
from tiny_images import noise_image

import capbench
from capbench.adapters.images.handles import as_png
from capbench.benchmarks.interchange import remote_reward, reward_server
from capbench.benchmarks.tables.pages.serving import Guard
from capbench.cli.main import main
from capbench.errors import AdapterError, DataError, UsageError

TOKEN = "0123456789abcdef"
BEARER = {"authorization": f"Bearer {TOKEN}"}
COMPLETIONS = ["a dog runs over grass", "two cats run", "", HOSTILE[1]]
REFERENCES = [["a dog is running on grass"], ["two cats sleep"], ["a bus"], ["a bus"]]
STEP = {"completions": COMPLETIONS, "references": REFERENCES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    """A folder whose images may be named."""
    folder = tmp_path_factory.mktemp("allowed")
    noise_image(7).save(folder / "noise.png")
    return folder


@pytest.fixture(scope="module")
def guard(folder) -> Guard:
    reward = capbench.reward({"meteor": 1.0, "length": -0.1}, on_error=None)
    return Guard(reward_server.application(reward, [folder]), TOKEN, "cookie", "bench serve")


@pytest.fixture(scope="module")
def client(guard: Guard):
    from starlette.testclient import TestClient

    with TestClient(guard, base_url="http://127.0.0.1:8000", headers=BEARER) as client:
        yield client


@pytest.fixture
def address(guard: Guard, monkeypatch: pytest.MonkeyPatch):
    """The address of a server, whose token is in the environment."""
    with served(guard.app, "serve") as printed:
        place, _, token = printed.partition("/?token=")
        monkeypatch.setenv("CAPBENCH_TOKEN", token)
        yield place


def test_trainer_elsewhere_gets_what_it_would_get_here(address: str, monkeypatch: pytest.MonkeyPatch):
    here = capbench.reward({"meteor": 1.0, "length": -0.1})
    there = pickle.loads(pickle.dumps(capbench.reward(address)))  # noqa: S301 - our own
    logged: dict[str, float] = {}
    expected = here(**STEP)
    assert there(None, COMPLETIONS, references=REFERENCES, other=[1], log_metric=logged.__setitem__) == expected
    assert there.__name__ == here.__name__
    assert logged["length"] == pytest.approx(np.mean([5, 3, 0, len(HOSTILE[1].split())]), abs=3)
    without_capbench: dict[str, Any] = {}
    source = block("python", "urllib.request", of="docs/python.md").replace("http://HOST:8000", address)
    exec(source, without_capbench)  # noqa: S102 - our own page
    assert without_capbench["reward"](**STEP) == expected
    # In several requests.
    monkeypatch.setattr(remote_reward, "MOST_ROWS", 3)
    assert there(**STEP) == expected
    assert there.compute_score("coco", COMPLETIONS[1], "two cats sleep") == expected[1]
    with pytest.raises(DataError, match=r"completion 3: reference: is an empty list"):
        there(completions=COMPLETIONS, references=[*REFERENCES[:3], []])
    with pytest.raises(UsageError, match="no column 'references'"):
        there(completions=COMPLETIONS)


def test_command_serves_a_weighted_sum_to_who_has_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    from starlette.testclient import TestClient

    servers = list[Any]()
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: servers.append(server))
    monkeypatch.setenv("CAPBENCH_TOKEN", TOKEN)
    assert main(["serve", "--metrics", "meteor,length", "--weights", "1,-0.1"]) == 0
    client = TestClient(servers[0].config.app, base_url="http://127.0.0.1", headers=BEARER)
    here = capbench.reward({"meteor": 1.0, "length": -0.1})
    assert client.post("/score", json=STEP).json()["rewards"] == here(**STEP)


def test_token_is_of_the_environment_and_a_server_that_is_not_there_is_named(address: str, monkeypatch):
    there = capbench.reward(address)
    assert os.environ["CAPBENCH_TOKEN"].encode() not in pickle.dumps(there)
    monkeypatch.setenv("CAPBENCH_TOKEN", "wrong")
    with pytest.raises(UsageError, match=r"403|token") as refused:
        there(**STEP)
    assert "CAPBENCH_TOKEN" in refused.value.hint
    with pytest.raises(AdapterError, match=r"127\.0\.0\.1:1: "):
        capbench.reward("http://127.0.0.1:1")
    with pytest.raises(UsageError, match="have their models and corpus there"):
        capbench.reward(address, model="shapes-clip")


def test_images_are_data_uris_or_lie_below_allowed_folders(folder, tmp_path):
    from starlette.testclient import TestClient

    here = capbench.reward("clip_s", model="shapes-clip", on_error=None, store=tmp_path / "store.sqlite")
    inside, png = folder / "noise.png", as_png(noise_image(7))
    uri = remote_reward._sent(png)
    captions = ["a red circle", "a blue square"]
    expected = here(completions=captions, image=[inside] * 2)
    client = TestClient(reward_server.application(here, [folder]))

    def answer(image: Any) -> Any:
        return client.post("/score", json={"completions": captions, "images": [[image], [uri]]})

    for image in (uri, str(inside)):
        assert answer(image).json()["rewards"] == expected
    for image, said in [
        ("/etc/passwd", "outside of the folders"),
        ("noise.png", "outside of the folders"),
        (str(folder / ".." / "secret.png"), "outside of the folders"),
        ("data:image/png,abc", "it is not base64"),
        ("data:image/png;base64,a!", "no valid data URI"),
        ({"path": "/etc/passwd"}, "is not a text but dict"),
        ("a\0b", "outside of the folders"),
    ]:
        refused = answer(image)
        assert refused.status_code == 422
        assert f"row 0: {'its ' if 'outside' not in said else ''}image" in refused.json()["error"]
        assert said in refused.json()["error"]
    # Missing, and no image at all: told, each with its row.
    outcome = answer(str(folder / "gone.png")).json()
    assert outcome["rewards"] == [None, expected[1]] == outcome["metrics"]["clip_s"]
    assert list(outcome["reasons"]) == ["0"]
    broken = f"data:;base64,{base64.b64encode(b'text').decode()}"
    assert "clip_s: " in answer(broken).json()["reasons"]["0"]
    alone = TestClient(reward_server.application(here, [])).post(
        "/score", json={"completions": captions[:1], "image": [str(inside)]}
    )
    assert alone.status_code == 422


def test_rows_are_those_of_score_and_have_values_of_each_metric(client: Any):
    rows = [{"id": "x", "caption": text, "references": texts} for text, texts in zip(*STEP.values(), strict=True)]
    rows[1]["references"] = []
    answer = client.post("/score", json={"rows": rows}).json()
    others = [{**row, "id": None} for row in rows if row["references"]]
    table = capbench.score(others, ["meteor", "length"])
    values = answer["metrics"]["meteor"]
    assert values == [table.values["meteor"][0], None, *table.values["meteor"][1:]]
    assert answer["rewards"][0] == pytest.approx(values[0] - 0.1 * answer["metrics"]["length"][0])
    assert answer["reasons"] == {"1": "reference: is an empty list"}
    assert client.get("/metrics").json() == {"name": "meteor+length", "needs": ["references"]}
    assert client.post("/score", json={"rows": []}).json()["rewards"] == []


def test_strangers_are_refused(client: Any):
    assert client.post("/score", json=STEP, headers={"authorization": "Bearer wrong"}).status_code == 403


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"rows": [], "rows": []}', "is not JSON"),
        (b'{"rows": [NaN]}', "is not JSON"),
        (b"[]", "neither or both"),
        (json.dumps(STEP | {"rows": []}), "neither or both"),
        (json.dumps(STEP | {"reference": []}), "unknown key 'reference'. Did you mean 'references'"),
        (json.dumps(STEP | {"references": "a"}), "'references' is not a list but str"),
        (json.dumps(STEP | {"references": [["a"]]}), "'references' has 1 values for 4 completions"),
        (json.dumps({"completions": ["a"] * 4097, "references": [["a"]] * 4097}), "has 4,097 rows"),
        (json.dumps(STEP | {"completions": [*COMPLETIONS[:3], 1]}), "completion 3 is not a text but int"),
        (json.dumps({"completions": ["a"]}), "no column 'references'"),
        (json.dumps({"rows": [{"caption": "a"}, 2]}), "row 1 is not an object"),
        (json.dumps({"rows": [{"candidat": "a"}]}), "row 0: unknown key 'candidat'. Did you mean 'candidate'"),
    ],
)
def test_what_is_no_request_is_refused_with_its_fault(client: Any, body: Any, said: str):
    answer = client.post("/score", content=body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]


def test_large_requests_are_not_read_to_their_end(client: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reward_server, "LONGEST_BODY", 1 << 20)
    answer = client.post("/score", content=b" " * (1 << 20) + b"{}")
    assert (answer.status_code, answer.json()["error"]) == (413, "the request is larger than 1 MB")
    assert client.post("/score", content=b" " * ((1 << 20) - 2) + b"{}").status_code == 422


def test_models_score_one_request_at_a_time(client: Any, monkeypatch: pytest.MonkeyPatch):
    idle = threading.Lock()

    def answer(*_: object) -> dict[str, Any]:
        assert idle.acquire(blocking=False)
        time.sleep(0.05)
        idle.release()
        return {}

    monkeypatch.setattr(reward_server, "_answer", answer)
    with ThreadPoolExecutor(2) as trainers:
        answers = trainers.map(lambda _: client.post("/score", json=STEP), range(2))
        assert [answer.status_code for answer in answers] == [200, 200]


def test_lone_surrogates_and_numbers_beyond_json_are_answered_in_json(client: Any):
    body = (
        '{"rows": [{"candidate": "a \\ud800 dog", "references": ["\\ud800"]}, {"candidate": 1e999, "references": 1}]}'
    )
    answer = client.post("/score", content=body)
    assert answer.status_code == 200
    assert set(answer.json()["reasons"]) == {"0", "1"}
    assert answer.json()["rewards"] == [None, None]
