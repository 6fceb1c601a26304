"""What a stranger's folder asks for works once the command line allows it, and is told before."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import ChatServer, chat_server, completion
from faults.stranger_files import LOOP, PIPELINE, RECIPE, TASK
from PIL import Image

from capbench.cli.main import main
from capbench.permissions import Permissions, permit, server_of

KINDS = ("addresses", "variables", "folders", "functions", "remote code")
RUN = "run --task strange --include_path . --bootstrap 0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    monkeypatch.chdir(stranger)
    monkeypatch.delenv("CAPBENCH_ALLOW_SERVERS", raising=False)
    Image.new("RGB", (16, 16), (200, 10, 10)).save("in.png")
    row = {"id": "0", "image": str(stranger / "in.png"), "references": ["a dog"], "caption": "a dog"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    Path("train.jsonl").write_text(json.dumps({"image": "in.png", "captions": ["a dog"]}) + "\n")
    for name, values in {"strange": TASK, "pipeline": PIPELINE, "recipe": RECIPE, "loop": LOOP}.items():
        write(f"{name}.yaml", values)
    return stranger


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    monkeypatch.setenv("MY_SECRET_TOKEN", "key-of-mine")
    with chat_server(lambda body, before: completion("a red square")) as running:
        yield running


def write(name: str, values: Any) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(yaml.safe_dump(values, sort_keys=False))


def bench(command: str) -> int:
    return main(command.split())


def told(text: str) -> dict[str, list[str]]:
    """Return what the five lines say, of each file that is told of."""
    lines: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for line in text.splitlines():
        for kind in KINDS:
            if line.lstrip().startswith(kind):
                lines[kind].append(line.lstrip().removeprefix(kind).removeprefix(":").strip())
    return lines


def keys_of(server: ChatServer) -> set[str]:
    return {headers.get("Authorization", "") for headers in server.headers}


def model_on(server: ChatServer, **more: str) -> str:
    write("model/model.yaml", {"adapter": "openai", "model": "m", "base_url": server.url, **more})
    return server.url.removeprefix("http://").partition("/")[0]


def test_server_of_a_model_folder_is_called_once_it_is_allowed_with_the_adapters_own_key(server: ChatServer):
    host = model_on(server)
    assert bench(f"{RUN} --model model") == 2
    assert server.bodies == []
    assert bench(f"{RUN} --model model --allow_server localhost --allow_server {host}") == 0
    assert len(server.bodies) == 1
    # Whoever allows a server allows that it is sent what the adapter sends.
    assert keys_of(server) == {"Bearer key-of-openai"}


def test_servers_that_the_environment_allows_are_called_whatever_their_port(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
):
    model_on(server)
    monkeypatch.setenv("CAPBENCH_ALLOW_SERVERS", "elsewhere:1, 127.0.0.1")
    assert bench(f"{RUN} --model model") == 0
    assert len(server.bodies) == 1


def test_variable_of_a_key_is_refused_in_a_file_though_its_server_is_allowed(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
):
    host = model_on(server, api_key_env="MY_SECRET_TOKEN")
    assert bench(f"{RUN} --model model --allow_server {host}") == 2
    assert "the file names the environment variable of a key" in capsys.readouterr().err
    assert server.bodies == []


def test_what_is_typed_is_allowed_by_being_typed(server: ChatServer):
    model_on(server, api_key_env="OTHER")
    typed = f"base_url={server.url},api_key_env=MY_SECRET_TOKEN"
    assert bench(f"{RUN} --model openai --model_args model=m,{typed}") == 0
    assert bench(f"{RUN} --model model --model_args {typed},revision=2") == 0
    assert keys_of(server) == {"Bearer key-of-mine"}
    captioner = json.dumps({"name": "openai", "arguments": {"model": "m", "base_url": server.url}})
    arguments = ["make", "pipeline.yaml", "--data", "rows.jsonl", "--output", "made"]
    assert main([*arguments, "--set", f"models.captioner={captioner}"]) == 0
    assert len(server.bodies) == 3
    assert keys_of(server) == {"Bearer key-of-mine", "Bearer key-of-openai"}


def test_host_in_front_of_an_address_is_not_the_one_that_is_called():
    for address, host in {
        "http://allowed@evil:1/v1": "evil:1",
        "http://allowed:80@evil:1": "evil:1",
        "HTTP://Evil/v1": "Evil",
        " http://evil": "evil",
        "ht\ttp://evil": "evil",
        "http://evil#@allowed": "evil",
        "http://evil?@allowed": "evil",
    }.items():
        assert server_of(address) == host
    with permit(Permissions.of(allow_server=["allowed"])):
        assert not Permissions.of(allow_server=["allowed"]).allow_server("evil:1")
        assert not Permissions.of(allow_server=["allowed"]).allow_server("allowed.evil.example")


EVIL = """
import pathlib
def rows(path=None):
    pathlib.Path("ran").write_text("")
    yield {"id": "0", "image": "in.png", "references": ["a dog"], "captions": ["a dog"]}
def same(documents):
    pathlib.Path("ran").write_text("")
    return documents
def words(candidate):
    return len(candidate.split())
"""


@pytest.mark.parametrize("where", ["process_docs: !function own.same", "custom_dataset: !function own.rows"])
def test_functions_of_a_task_run_once_they_are_allowed_and_in_no_dry_run(where: str):
    Path("own.py").write_text(EVIL)
    reads = where.startswith("custom_dataset")
    task = {key: value for key, value in TASK.items() if not (reads and key == "dataset_kwargs")}
    task["dataset_path"] = "rows.jsonl" if reads else "json"
    Path("strange.yaml").write_text(f"{yaml.safe_dump(task)}{where}\n")
    run = f"{RUN} --model captions:rows.jsonl"
    assert bench(run) == 2
    assert bench("validate strange --include_path .") in (0, 1)
    assert bench(f"{run} --run_functions --dry_run") == 0
    assert not Path("ran").exists()
    assert bench(f"{run} --run_functions") == 0
    assert Path("ran").exists()


def test_reader_of_a_recipe_runs_once_it_is_allowed_and_in_no_dry_run(capsys: pytest.CaptureFixture[str]):
    Path("own.py").write_text(EVIL)
    text = yaml.safe_dump({**RECIPE, "data": {"file": "READER"}}).replace("file: READER", "reader: !function own.rows")
    Path("recipe.yaml").write_text(text)
    assert bench("train recipe.yaml --output trained --no_judge") == 2
    assert bench("train recipe.yaml --dry_run --no_judge --run_functions") == 0
    assert told(capsys.readouterr().out)["functions"] == ["!function own.rows"]
    assert not Path("ran").exists()


def test_code_that_comes_with_a_model_runs_once_it_is_trusted_and_in_no_dry_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    model = Path("model")
    model.mkdir()
    write("model/model.yaml", {"adapter": "hf", "pretrained": "./own", "trust_remote_code": True})
    (model / "own").mkdir()
    config = {"model_type": "own", "auto_map": {"AutoConfig": "modeling.OwnConfig"}}
    (model / "own/config.json").write_text(json.dumps(config))
    ran = tmp_path / "ran"
    (model / "own/modeling.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).write_text('')\n")
    for command in (
        f"{RUN} --model model",
        f"{RUN} --model model --dry_run --trust_remote_code",
        "make pipeline.yaml --data rows.jsonl --dry_run --trust_remote_code --set models.captioner.name=model",
        "train recipe.yaml --dry_run --no_judge --trust_remote_code --set model.name=model",
    ):
        bench(command)
        assert not ran.exists()
    assert "trust_remote_code: True (not allowed)" not in capsys.readouterr().out.partition("--trust")[2]
    bench(f"{RUN} --model model --trust_remote_code")
    assert ran.exists()


def test_images_of_rows_are_read_outside_once_that_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Image.new("RGB", (16, 16)).save(elsewhere / "SECRET.png")
    Path("train.jsonl").write_text(json.dumps({"image": "../elsewhere/SECRET.png", "captions": ["a dog"]}) + "\n")
    for command in ("train recipe.yaml --dry_run --no_judge", "make pipeline.yaml --data train.jsonl --dry_run"):
        assert bench(command) == 1
        assert "lies outside" in capsys.readouterr().err
        assert bench(f"{command} --allow_outside {elsewhere}") == 0
    write("recipe.yaml", {**RECIPE, "data": {"file": "../elsewhere/train.jsonl"}})
    (elsewhere / "train.jsonl").write_text(json.dumps({"image": "SECRET.png", "captions": ["a dog"]}) + "\n")
    assert bench("train recipe.yaml --dry_run --no_judge") == 2
    assert bench(f"train recipe.yaml --dry_run --no_judge --allow_outside {elsewhere}") == 0


ASKING = {
    "base_url": "http://somewhere:8000/v1",
    "api_key_env": "MINE",
    "trust_remote_code": True,
    "peft": "/usr/share",
}
ASKED = {
    "addresses": "somewhere:8000 (not allowed)",
    "variables": "MINE (not allowed)",
    "folders": "/usr/share (not allowed)",
    "functions": "nothing",
    "remote code": "trust_remote_code: True (not allowed)",
}


TELLING: list[tuple[str, str, dict[str, Any]]] = [
    ("show model", "model/model.yaml", {"adapter": "hf", **ASKING}),
    (f"{RUN} --model model --dry_run", "model/model.yaml", {"adapter": "hf", **ASKING}),
    (
        "make pipeline.yaml --data rows.jsonl --dry_run",
        "pipeline.yaml",
        {**PIPELINE, "models": {"captioner": {"name": "hf", "arguments": ASKING}}},
    ),
    ("train recipe.yaml --dry_run", "recipe.yaml", {**RECIPE, "model": {"name": "hf", "arguments": ASKING}}),
    ("loop loop.yaml --dry_run", "recipe.yaml", {**RECIPE, "model": {"name": "hf", "arguments": ASKING}}),
    ("show strange --include_path .", "strange.yaml", {**TASK, "dataset_path": "x/y", "dataset_kwargs": ASKING}),
    ("validate strange.yaml", "strange.yaml", {**TASK, "dataset_path": "x/y", "dataset_kwargs": ASKING}),
]


@pytest.mark.parametrize(("command", "file", "values"), TELLING)
def test_what_a_file_asks_for_is_told_by_its_kind(
    command: str, file: str, values: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    write(file, values)
    bench(command)
    asked = {kind: lines[0] for kind, lines in told(capsys.readouterr().out).items()}
    addresses = asked["addresses"].replace(", hub:x/y", "")
    assert {**asked, "addresses": addresses} == ASKED
